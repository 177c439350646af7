"""Tables of Delta and Iceberg, read by libraries of Python."""
