"""What a job is: a stream that is joined with one table after the other; its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.kept import kept, write_stream

ARROW = {"long": pa.int64(), "string": pa.string()}
"""The types of columns; every engine has them."""

FILES = 2
"""Of a micro-batch: one per core."""


def types_of(ddl: str) -> dict[str, str]:
    """Names and types of columns in Spark's DDL.

    >>> types_of("customer long, name string")
    {'customer': 'long', 'name': 'string'}
    """
    return dict(column.split() for column in ddl.split(", "))


def arrow_schema(ddl: str) -> pa.Schema:
    """The same columns for Arrow."""
    return pa.schema([(name, ARROW[type_]) for name, type_ in types_of(ddl).items()])


@dataclass(frozen=True)
class Step:
    """One inner equality join of a job; both sides have the same names for the key.

    Names are unquoted in queries: lower case, and no reserved words of SQL. ``on`` has the key
    columns, separated by commas, ``brings`` the other columns of the table, in Spark's DDL.
    """

    table: str
    on: str
    brings: str
    unique: bool = True

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return self.on.split(", ")

    @property
    def columns(self) -> list[str]:
        """The columns of the table, the key first."""
        return [*self.keys, *types_of(self.brings)]


@dataclass(frozen=True)
class Job:
    """A stream and the tables that it is joined with in sequence.

    Args:
        name: of the job.
        stream: the columns of the stream, in Spark's DDL.
        steps: the joins, in order; a key may be a column of an earlier table.
        make: the tables of a size; the folder has what they are made of.
        events: rows of the stream: from the size, how many, which cycle, and a seed.
        size: the meaning of "size", for print.
        files: of each table, for tasks to share.
    """

    name: str
    stream: str
    steps: tuple[Step, ...]
    make: Callable[[Path, float], Mapping[str, pa.Table]]
    events: Callable[[float, int, int, int], pa.Table]
    size: str
    files: int = 4

    @property
    def columns(self) -> list[str]:
        """The columns of the result, in order."""
        return list(types_of(self.schema))

    @property
    def schema(self) -> str:
        """The columns of the result, in Spark's DDL."""
        return ", ".join([self.stream, *(step.brings for step in self.steps)])

    @property
    def arrow(self) -> pa.Schema:
        """The columns of the stream, for Arrow."""
        return arrow_schema(self.stream)

    def tables(self, folder: Path, size: float) -> Path:
        """The folder that has each table of a size as a folder of Parquet files."""

        def write(path: Path) -> None:
            for name, table in self.make(folder, size).items():
                (path / name).mkdir()
                rows = -(-max(table.num_rows, 1) // self.files)
                for part, begin in enumerate(range(0, table.num_rows, rows)):
                    file = path / name / f"{part}.parquet"
                    pq.write_table(table.slice(begin, rows), file, row_group_size=1 << 18)

        return kept(folder / f"{self.name}-{size:g}-tables", write)

    def stream_files(self, folder: Path, size: float, batches: Sequence[int], seed: int) -> Path:
        """The stream as files, ``FILES`` per micro-batch, in order of their times."""
        runs = [f"{list(batches).count(rows)}x{rows}" for rows in dict.fromkeys(batches)]
        path = folder / "-".join([self.name, f"{size:g}", *runs, str(FILES), str(seed)])
        events = (self.events(size, rows, at, seed) for at, rows in enumerate(batches))
        return kept(path, lambda place: write_stream(place, events, FILES))
