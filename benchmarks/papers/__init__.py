"""What compares bsjoin and `scheduling` with the papers: figures, tables and claims."""
