"""The full cache: a table that is indexed once."""
