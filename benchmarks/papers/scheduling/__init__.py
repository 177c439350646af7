"""What compares the placement of tasks with the papers' systems, figures and claims."""
