"""Two streams on a cluster while everything around them fails: ``python -m tests.chaos``."""
