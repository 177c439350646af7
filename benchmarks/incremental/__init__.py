"""The incremental cache over a database."""
