"""Following a source: its version is asked for, and a table is brought to each new one."""
