"""The join engine: one join, chains of joins, many rows, real-time mode, databases, load."""
