"""A source for the tests of the incremental cache: a folder that a test can steer from outside."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
from pyspark import cloudpickle

from bsjoin.errors import SourceError
from bsjoin.sources import Source

# Workers do not import the folder of the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Poll until something is true; what it is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds:g} seconds in vain: {what}")


@dataclass(frozen=True)
class Asked:
    """One look-up, as the source has noted it; times of the host's monotonic clock."""

    pid: int
    keys: tuple[Any, ...]
    begin_s: float
    end_s: float


class Model(Source):
    """A table in a folder, looked up key by key in Python; every look-up is noted there.

    Its files are the table and what it is to do: ``fault`` how many look-ups are to fail, ``hold``
    that they wait.

    Args:
        folder: where it lives; made when it is missing.
        table: its rows.
        unique: whether it says so.
        max_keys: of a look-up.
    """

    def __init__(
        self, folder: Path, table: pa.Table, *, unique: bool = False, max_keys: int = 10_000
    ) -> None:
        super().__init__()
        self.folder, self._schema, self._unique = folder, table.schema, unique
        self.max_keys = max_keys
        folder.mkdir(parents=True, exist_ok=True)
        self.put(table)

    # For the test

    def put(self, table: pa.Table) -> None:
        """Replace all rows at once."""
        hidden = self.folder / f".table-{os.getpid()}"
        with pa.OSFile(str(hidden), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        os.replace(hidden, self.folder / "table")

    def fail(self, times: int = 1_000_000) -> None:
        """Let so many look-ups fail from now on."""
        (self.folder / "fault").write_text(str(times))

    def heal(self) -> None:
        """Let look-ups succeed again."""
        self.fail(0)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let look-ups wait meanwhile."""
        (self.folder / "hold").touch()
        try:
            yield
        finally:
            (self.folder / "hold").unlink(missing_ok=True)

    @property
    def begun(self) -> list[int]:
        """The processes that have begun a look-up, as often as they did."""
        path = self.folder / "begun"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def asked(self) -> list[Asked]:
        """The look-ups that have ended well, in the order of their ends."""
        path = self.folder / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            Asked(pid, tuple(k[0] if len(k) == 1 else tuple(k) for k in keys), begin, end)
            for pid, keys, begin, end in map(json.loads, lines)
        ]

    @property
    def times(self) -> Counter[Any]:
        """How often each key was asked for."""
        return Counter(key for look_up in self.asked for key in look_up.keys)

    # For the join

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def is_unique(self, columns: Sequence[str]) -> bool:
        return self._unique

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        assert 0 < len(keys) <= self.max_keys
        assert keys.schema.types == [self._schema.field(n).type for n in keys.column_names]
        assert self.takes_null_keys or not any(column.null_count for column in keys.columns)
        begin = time.monotonic()
        _append(self.folder / "begun", str(os.getpid()))
        while (self.folder / "hold").exists():
            time.sleep(0.005)
        if self._is_faulty():
            raise ConnectionError("the model is out of order")
        null = None if self.takes_null_keys else object()
        asked = list(zip(*(_values(column, null) for column in keys.columns), strict=True))
        assert len(set(asked)) == len(asked)
        table = self._read()
        wanted = set(asked)
        named = (_values(table.column(name), null) for name in keys.column_names)
        theirs = zip(*named, strict=True)
        rows = table.filter(pa.array([key in wanted for key in theirs], pa.bool_()))
        shown = [[value if isinstance(value, int) else repr(value) for value in k] for k in asked]
        _append(self.folder / "asked", json.dumps([os.getpid(), shown, begin, time.monotonic()]))
        return rows

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The keys that stand in the query, as JSON."""
        _append(self.folder / "begun", str(os.getpid()))
        if self._is_faulty():
            raise ConnectionError("the model is out of order")
        (name,) = columns
        return pa.table({name: pa.array(json.loads(query), self._schema.field(name).type)})

    def _is_faulty(self) -> bool:
        path = self.folder / "fault"
        if not path.exists():
            return False
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            left = int(file.read() or 0)
            if left:
                file.seek(0)
                file.truncate()
                file.write(str(left - 1))
        return left > 0

    def _read(self) -> pa.Table:
        with pa.OSFile(str(self.folder / "table")) as file:
            return pa.ipc.open_file(file).read_all()


class Readable(Model):
    """A model that can be read whole, too."""

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        table = self._read()
        yield from (table if columns is None else table.select(list(columns))).to_batches()

    def size(self) -> int | None:
        """As many as there are, or as many as a file says."""
        told = self.folder / "size"
        return int(told.read_text()) if told.exists() else len(self._read())


class Wrong(Model):
    """A model whose answers are not what they should be."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.drops: str | None = None
        self.refuses = False

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        found = super().lookup(keys, columns)
        if self.refuses:
            raise SourceError("no such table; asking again cannot help")
        return found if self.drops is None else found.drop_columns([self.drops])


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _values(column: pa.ChunkedArray, null: object) -> list[Any]:
    """Values that are equal exactly when Spark's join calls them equal; ``null`` for null."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())  # the whole range, beyond Python's years
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        values = ["nan" if v is not None and math.isnan(v) else v for v in values]
    return [null if value is None else value for value in values]
