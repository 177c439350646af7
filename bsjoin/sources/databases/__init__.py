"""``sql``: SQLite, DuckDB, PostgreSQL, and MySQL or MariaDB, each a dialect."""
