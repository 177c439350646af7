"""What a job is: a stream that meets one table after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Job", "Step", "store", "stream_files"]


@dataclass(frozen=True)
class Step:
    """One join of a job: inner, by equality; both sides have the same names for the key.

    Names stand unquoted in queries: small letters, and no word that SQL has for itself.

    Args:
        table: its name.
        on: the key columns.
        brings: the other columns, with their Spark types.
        unique: whether a key occurs once at most.
    """

    table: str
    on: tuple[str, ...]
    brings: dict[str, str]
    unique: bool = True

    @property
    def columns(self) -> list[str]:
        """The columns of the table, the key first."""
        return [*self.on, *self.brings]


@dataclass(frozen=True)
class Job:
    """A stream and the tables that it meets in turn.

    Args:
        name: of the job.
        stream: the columns of the stream, with their Spark types.
        steps: the joins, in order; a key may be a column that a join before has brought.
        tables: makes the tables of a size as Parquet files in a folder; returns that folder.
        events: rows of the stream: from the size, how many, which cycle, which kind, and a seed.
        size: what "size" is, for print.
    """

    name: str
    stream: dict[str, str]
    steps: tuple[Step, ...]
    tables: Callable[[Path, float], Path]
    events: Callable[[float, int, int, str, int], pa.Table]
    size: str

    @property
    def types(self) -> dict[str, str]:
        """The columns of the result with their Spark types, in order."""
        found = dict(self.stream)
        for step in self.steps:
            found |= step.brings
        return found

    @property
    def columns(self) -> list[str]:
        """The columns of the result, in order."""
        return list(self.types)

    @property
    def schema(self) -> str:
        """The columns of the result, as Spark's DDL has them."""
        return ddl(self.types)

    @property
    def arrow(self) -> pa.Schema:
        """The columns of the stream, as Arrow has them."""
        return pa.schema([(name, ARROW[type_]) for name, type_ in self.stream.items()])


ARROW = {"long": pa.int64(), "string": pa.string()}
"""The types that columns have here; they are what every engine has."""


def ddl(types: dict[str, str]) -> str:
    """Names and types as Spark's DDL has them."""
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())


def store(table: pa.Table, path: Path, parts: int = 4) -> None:
    """Write a table as a folder of files of about the same size, so that tasks can share it."""
    path.mkdir(parents=True, exist_ok=True)
    rows = -(-max(table.num_rows, 1) // parts)
    for part in range(parts):
        some = table.slice(part * rows, rows)
        if some.num_rows:
            pq.write_table(some, path / f"{part}.parquet", row_group_size=1 << 18)


def stream_files(
    job: Job,
    folder: Path,
    size: float,
    kind: str,
    batches: Sequence[int],
    seed: int,
    files: int = 2,
) -> Path:
    """The stream as files, so many a micro-batch that every core has one; in order of their time.

    Args:
        job: whose stream.
        folder: where streams are kept.
        size: of the tables.
        kind: of the stream.
        batches: rows of each micro-batch.
        seed: of what is drawn.
        files: of a micro-batch.
    """
    name = [job.name, kind, f"{size:g}", *_runs(batches), str(files), str(seed)]
    path = folder / "-".join(name)
    if not (path / "_complete").exists():
        path.mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(batches):
            events = job.events(size, rows, number, kind, seed)
            share = -(-rows // files)
            for part in range(files):
                file = path / f"{number:04}-{part}.parquet"
                pq.write_table(events.slice(part * share, share), file, row_group_size=1 << 18)
                seconds = 1_700_000_000 + number * files + part
                os.utime(file, (seconds, seconds))
        (path / "_complete").touch()
    return path


def _runs(batches: Sequence[int]) -> list[str]:
    """The sizes, in short: 8x10000."""
    sizes = dict.fromkeys(batches)
    return [f"{list(batches).count(rows)}x{rows}" for rows in sizes]
