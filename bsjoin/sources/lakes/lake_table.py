"""What tables of Delta and Iceberg have in common: snapshots, keys as ranges, columns, errors."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from bsjoin._secrets import scrubbed
from bsjoin.errors import ArgumentError, BSJoinError, DataError, SourceError
from bsjoin.sources.arguments import check_max_keys, check_unique
from bsjoin.sources.lakes.lake_versions import LakeChanges, LakeVersions
from bsjoin.sources.lakes.ranges import Ranges, ranges_of
from bsjoin.sources.membership import rows_among
from bsjoin.sources.plain import plain
from bsjoin.sources.protocol import Source
from bsjoin.sources.texts import with_utf8
from bsjoin.sources.transient import TransientSourceError, run_translated
from bsjoin.sources.types import as_schema, fitted, overridden, wanted_columns
from bsjoin.storage.source_version import SourceVersion

T = TypeVar("T")

_RENEWED_EVERY_S = 3.0


def check_common(unique: object, max_keys: object, number: object, name: str) -> None:
    """Refuse what is wrong in the arguments that both formats take.

    Raises:
        ArgumentError: one of them is invalid.
    """
    check_unique(unique)
    check_max_keys(max_keys)
    if number is not None and (type(number) is not int or number < 0):
        raise ArgumentError(f"{name}={number!r}: give a whole number, or None for the newest")


class LakeTable(Source):
    """A table of which a library opens snapshots; one subclass per format."""

    takes_any_text = True  # look-ups leave out what is not UTF-8
    takes_null_keys = True
    renewed_every_s = _RENEWED_EVERY_S

    def __init__(
        self,
        schema: pa.Schema | Mapping[str, pa.DataType] | None,
        unique: bool | None,
        max_keys: int,
        pinned: bool,
        secrets: tuple[str, ...],
    ) -> None:
        super().__init__()
        self._override = None if schema is None else as_schema(schema)
        self._unique, self.max_keys = bool(unique), max_keys
        self._pinned, self._secrets = pinned, secrets
        self._schema: pa.Schema | None = None
        self._declared: dict[str, pa.DataType | None] = {}
        self._held: tuple[int, float, Any] | None = None
        self._present: dict[str, pa.DataType | None] = {}
        self._was_open = False

    # Implemented by each subclass.

    @abstractmethod
    def _open(self) -> Any:
        """The library's object for the table, at the snapshot that is to be read."""

    @abstractmethod
    def _renewed(self, table: Any) -> Any:
        """The same at the newest snapshot."""

    @abstractmethod
    def _columns(self, table: Any) -> list[tuple[str, pa.DataType | None, str]]:
        """Name, Spark's type (None: it has none) and the format's type of every column."""

    @abstractmethod
    def _batches(
        self, table: Any, names: Sequence[str], ranges: Mapping[str, Ranges]
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, or of a part that has all rows within the ranges."""

    @abstractmethod
    def _count(self, table: Any) -> int | None:
        """The approximate number of rows."""

    @abstractmethod
    def _stays(self, error: Exception) -> bool:
        """Whether the library's error is permanent."""

    def _is_missing(self, error: Exception) -> bool:
        """Whether there is no such table, which may be made again at this moment."""
        return False

    def _is_of_data(self, error: Exception) -> bool:
        """Whether the library refuses a value, such as a text that is not UTF-8."""
        return False

    @abstractmethod
    def _version_of(self, table: Any) -> SourceVersion:
        """The version of the snapshot."""

    @abstractmethod
    def _at(self, version: str) -> LakeTable:
        """The same source at one version, always the same."""

    @abstractmethod
    def _changed(
        self, table: Any, since: SourceVersion, until: str, columns: Sequence[str]
    ) -> LakeChanges | str:
        """What has changed between two versions; see :meth:`LakeVersions.changes`."""

    @abstractmethod
    def _numbers(self, table: Any) -> tuple[str, dict[str, int | None]]:
        """What tells the table from others, and the columns; see :meth:`LakeVersions.numbers`."""

    # Implemented here for both.

    @property
    def schema(self) -> pa.Schema:
        """The table's columns; read once, and pickled with the source."""
        if self._schema is None:
            columns = self._execute(self._columns, at_once=True)
            self._schema = overridden(columns, self._override, repr(self))
            self._declared = {name: dtype for name, dtype, _ in columns}
        return self._schema

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some keys, from the files that may have them; see :meth:`Source.lookup`."""
        names = wanted_columns(self.schema, keys.column_names, columns, repr(self))
        wanted = pa.schema([self.schema.field(name) for name in names])
        keys = with_utf8(keys)
        if not len(keys):
            return wanted.empty_table()
        asked = {name: keys.column(name).combine_chunks() for name in keys.column_names}
        ranges = {}
        for name in asked:
            found = ranges_of(keys.column(name))
            # Another type may have another order.
            if found is not None and self._declared[name] == wanted.field(name).type:
                ranges[name] = found

        def rows(table: Any) -> pa.Table:
            # The table may have been given another type since.
            of_type = {
                name: found
                for name, found in ranges.items()
                if self._present.get(name) == self._declared[name]
            }
            found = [
                self._matching(batch, asked, wanted)
                for batch in self._batches(table, names, of_type)
            ]
            return pa.concat_tables([wanted.empty_table(), *found])

        return self._execute(rows)

    def _matching(
        self, batch: pa.RecordBatch, asked: Mapping[str, pa.Array], wanted: pa.Schema
    ) -> pa.Table:
        rows = pa.table({name: plain(batch.column(name)) for name in wanted.names})
        key_types = pa.schema([wanted.field(name) for name in asked])
        keys = fitted(rows.select(list(asked)), key_types, repr(self))
        mask = rows_among({name: keys.column(name) for name in asked}, asked)
        return fitted(rows.filter(mask), wanted, repr(self))

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows of one snapshot; see :meth:`Source.scan`."""
        names = wanted_columns(self.schema, columns or (), columns, repr(self))
        wanted = pa.schema([self.schema.field(name) for name in names])
        return self._scanned(wanted, lambda: self._batches(self._current(), wanted.names, {}))

    def _scanned(
        self, wanted: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        batches = self._run(read, at_once=True)

        def following() -> list[pa.RecordBatch] | None:
            if (batch := next(batches, None)) is None:
                return None
            rows = pa.Table.from_batches([batch]).select(wanted.names)
            return list(fitted(rows, wanted, repr(self)).to_batches())

        while (found := self._run(following, at_once=True)) is not None:
            yield from found

    def size(self) -> int | None:
        """The number of rows by the snapshot's statistics; None if it has none."""
        return self._execute(self._count, at_once=True)

    def is_unique(self, columns: Sequence[str]) -> bool:
        """What ``unique=`` says."""
        return self._unique

    def table_changes(self) -> LakeVersions | None:
        """As in :class:`Source`; None if always the same snapshot is read."""
        return None if self._pinned else LakeVersions(self)

    def close(self) -> None:
        """Forget the snapshot; the next call opens the table again."""
        self._held = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}

    def _current(self) -> Any:
        """The table at the newest snapshot, which is asked for again after a few seconds."""
        now = time.monotonic()
        held = self._held
        if held is None or held[0] != os.getpid():
            table = self._open()
        elif self._pinned or now - held[1] < self.renewed_every_s:
            return held[2]
        else:
            table = self._renewed(held[2])
        self._present = {name: dtype for name, dtype, _ in self._columns(table)}
        self._held, self._was_open = (os.getpid(), now, table), True
        return table

    def _execute(self, work: Callable[[Any], T], *, at_once: bool = False) -> T:
        return self._run(lambda: work(self._current()), at_once=at_once)

    def _run(self, work: Callable[[], T], *, at_once: bool) -> T:
        def without_panics() -> T:
            try:
                return work()
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # of Rust, which is no Exception
                    raise
                raise RuntimeError(str(error)) from None

        return run_translated(without_panics, self._translated, self.close, at_once=at_once)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, BSJoinError | TransientSourceError):
            return error
        text = f"{self!r}: {type(error).__name__}: {' '.join(str(error).split())}"
        text = scrubbed(text, self._secrets)
        if self._is_of_data(error):
            return DataError(
                f"{text}: leave the column out with select=, or read the table with Spark's jars"
            )
        passes = self._was_open and self._is_missing(error)
        return (
            SourceError(text) if self._stays(error) and not passes else TransientSourceError(text)
        )
