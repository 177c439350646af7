"""Tables are built and refreshed: the Spark job that sorts rows, and what is published after it."""
