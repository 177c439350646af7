"""Databases of SQLite for tests of what asks them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any


def in_sqlite(file: Path, script: str, rows: Iterable[Sequence[Any]] = ()) -> str:
    """Run a script in a database, then put rows into the table that it begins with; the URL."""
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(f"BEGIN; {script}; COMMIT")
        for row in rows:
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO {script.split()[2]} VALUES ({marks})", row)
    return f"sqlite:///{file}"
