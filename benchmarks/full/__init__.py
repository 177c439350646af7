"""The full cache: a table indexed once."""
