"""What tables of Delta and Iceberg have in common: snapshots, keys as ranges, columns, errors."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import pyarrow as pa

from bsjoin._secrets import scrubbed
from bsjoin.errors import ArgumentError, DataError, SourceError
from bsjoin.sources.lakes.lake_versions import LakeChanges
from bsjoin.sources.lakes.ranges import Ranges, ranges_of
from bsjoin.sources.session import Session
from bsjoin.sources.table import Declared, Table
from bsjoin.sources.timeouts import run_with_timeout
from bsjoin.sources.transient import TransientSourceError
from bsjoin.sources.types import fitted
from bsjoin.storage.lake_columns import Columns, known_in, names_in
from bsjoin.storage.lake_history import CHANGE, COMMIT
from bsjoin.storage.source_version import SourceVersion
from bsjoin.values.plain import plain, rows_among, with_utf8

T = TypeVar("T")

_RENEWED_EVERY_S = 3.0
_LONGEST_S = 600.0  # libraries wait for a server for ever


class LakeTable(Table):
    """A table of which a library opens snapshots; one subclass per format.

    ``number`` is that of the version that is read, always the same, or None for the newest;
    ``name`` is what the argument is called.
    """

    key: tuple[str, ...] = ()
    """Nothing tells a row from all others: the formats have no keys."""
    renewed_every_s = _RENEWED_EVERY_S
    missing: str
    """The library's error for a table that is not there, which may be made again at this moment."""
    stay: tuple[str, ...]
    """Its other errors that are permanent."""
    lasting: re.Pattern[str] | None = None
    """What the texts of further permanent ones have; None: nothing."""

    def __init__(
        self,
        schema: pa.Schema | Mapping[str, pa.DataType] | None,
        unique: bool | None,
        max_keys: int,
        number: int | None,
        *,
        name: str,
        secrets: tuple[str, ...],
    ) -> None:
        super().__init__(schema, unique, max_keys, secrets)
        if number is not None and (type(number) is not int or number < 0):
            raise ArgumentError(f"{name}={number!r}: give a whole number, or None for the newest")
        self._number, self._pinned = number, number is not None
        self._types: dict[str, pa.DataType | None] = {}
        self._present: dict[str, pa.DataType | None] = {}
        # The columns as they were when the source was described, and as they are now.
        self._known = self._there = Columns()
        self._renewed_at, self._was_open = 0.0, False

    # Implemented by each subclass.

    @abstractmethod
    def _open(self) -> Any:
        """The library's object for the table, at the snapshot that is to be read."""

    @abstractmethod
    def _renewed(self, table: Any) -> Any:
        """The same at the newest snapshot."""

    @abstractmethod
    def _columns(self, table: Any) -> list[Declared]:
        """Every column."""

    @abstractmethod
    def _batches(
        self, table: Any, names: Sequence[str], ranges: Mapping[str, Ranges]
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, or of a part that has all rows within the ranges."""

    @abstractmethod
    def _count(self, table: Any) -> int | None:
        """The approximate number of rows."""

    def _is_of_data(self, error: Exception) -> bool:
        """Whether the library refuses a value, such as a text that is not UTF-8."""
        return False

    @abstractmethod
    def _version_of(self, table: Any) -> SourceVersion:
        """The version of the snapshot."""

    @abstractmethod
    def _changed(
        self, table: Any, since: SourceVersion, until: str, columns: Sequence[str]
    ) -> LakeChanges | str:
        """What has changed between two versions; see :meth:`changes`."""

    @abstractmethod
    def _numbers(self, table: Any) -> tuple[str, dict[str, int | None]]:
        """What tells the table from others, and the numbers of its columns by their names.

        Also of columns inside others, such as ``s.a``. One that is renamed keeps its number; None
        where the format has none.
        """

    # Implemented here for both.

    def _declared(self) -> list[Declared]:
        columns = self._columns(self._current())
        self._types, self._known = {name: dtype for name, dtype, _ in columns}, self._there
        return columns

    def _found(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """The rows of some keys, from the files that may have them."""
        keys = with_utf8(keys)
        if not len(keys):
            return wanted.empty_table()
        table = self._current_with(wanted.names)
        asked = {name: keys.column(name).combine_chunks() for name in keys.column_names}
        ranges = {}
        for name in asked:
            found, dtype = ranges_of(keys.column(name)), self._types[name]
            # Another type may have another order, and the table may have another one since.
            if found is not None and dtype == wanted.field(name).type == self._present.get(name):
                ranges[name] = found
        batches = self._batches(table, wanted.names, ranges)
        matching = [self._matching(batch, asked, wanted) for batch in batches]
        return pa.concat_tables([wanted.empty_table(), *matching])

    def _matching(
        self, batch: pa.RecordBatch, asked: Mapping[str, pa.Array], wanted: pa.Schema
    ) -> pa.Table:
        rows = pa.table({name: plain(batch.column(name)) for name in wanted.names})
        key_types = pa.schema([wanted.field(name) for name in asked])
        keys = fitted(rows.select(list(asked)), key_types, repr(self))
        mask = rows_among({name: keys.column(name) for name in asked}, asked)
        return fitted(rows.filter(mask), wanted, repr(self))

    def _pieces(self, wanted: pa.Schema) -> Generator[pa.Table, None, None]:
        """All rows of one snapshot."""
        table = self._current_with(wanted.names)
        return self._fitted(wanted, self._batches(table, wanted.names, {}))

    def _fitted(
        self, wanted: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Generator[pa.Table, None, None]:
        for batch in batches:
            yield fitted(pa.Table.from_batches([batch]).select(wanted.names), wanted, repr(self))

    def size(self) -> int | None:
        """The number of rows by the snapshot's statistics; None if it has none."""
        return self._execute(self._count)

    def table_changes(self) -> Self | None:
        """As in :class:`Source`: a copy that asks for the newest version each time.

        None if always the same snapshot is read. One thread calls it.
        """
        if self._pinned:
            return None
        self.schema  # noqa: B018 - its columns stay as they are
        found = self.copied()
        found.renewed_every_s = 0.0
        return found

    def version(self) -> SourceVersion:
        """The newest version."""
        return self._execute(self._version_of)

    def unlike(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Those of some columns that are gone, or have another name or type; with what is so now.

        Than when the source was first read. Types that the user has given do not count.
        """
        self._execute(lambda _: None)  # what is there now
        yield from self._renamed(names)
        given = () if self._override is None else self._override.names
        for name in names:
            then, now = self._types.get(name), self._present.get(name)
            if name in self._present and name not in given and then != now:
                told = "of a type that Spark has not" if now is None else now
                yield name, f"is {told} now, and was {then}"

    def _renamed(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Those of some columns that are not read by their names; another one may have got one."""
        if self._known == self._there:  # as for nearly each look-up
            return
        found = names_in(self._known, self._there)
        for name in names:
            for known in self._known.numbers:
                is_inside, now = known.startswith(f"{name}."), found.get(known)
                if now != known and (known == name or is_inside):
                    what = f"has {known!r} inside, which " if is_inside else ""
                    what += "is not there any more" if now is None else f"is called {now!r} now"
                    yield name, what
        self._known = known_in(self._known, self._there)

    def at(self, version: str) -> Self:
        """The same source at one version, always the same."""
        found = self.copied()
        found._number, found._pinned = int(version), True
        return found

    def changes(
        self, since: SourceVersion, until: str, columns: Sequence[str]
    ) -> LakeChanges | str:
        """What has changed after one version, up to another one; or why that is not told."""
        if {CHANGE, COMMIT} & {name.lower() for name in columns}:
            return f"the table has a column {CHANGE} or {COMMIT}, as changes have"
        found = self._execute(lambda opened: self._changed(opened, since, until, columns))
        # What is in a log may be a URL with a secret.
        return scrubbed(found, self._secrets) if isinstance(found, str) else found

    def _current(self) -> Any:
        """The table at the newest snapshot, which is asked for again after a few seconds."""
        now, table = time.monotonic(), self._session.current()
        if table is None:
            opened = Session()  # it closes what comes when nobody waits any more
            run_with_timeout(_LONGEST_S, lambda: opened.hold(self._open()), repr(self))
            table, opened.held = opened.current(), None
        elif self._pinned or now - self._renewed_at < self.renewed_every_s:
            return table
        else:
            table = run_with_timeout(_LONGEST_S, partial(self._renewed, table), repr(self))
        self._session.hold(table)  # closed if what follows fails
        self._present = {name: dtype for name, dtype, _ in self._columns(table)}
        self._there = Columns(*self._numbers(table))
        self._renewed_at, self._was_open = now, True
        return table

    def _current_with(self, names: Sequence[str]) -> Any:
        """The table; an error if it has not some columns under the names that they had."""
        table = self._current()
        for name, what in self._renamed(names):
            raise SourceError(
                f"the column {name!r} of {self!r} {what}: make a new source, which has the columns "
                "of now, and start the query again with it"
            )
        return table

    def _absent(self, problem: str) -> Exception:
        """The error for a table that is not there; one that was may be made again just now."""
        kind = TransientSourceError if self._was_open else SourceError
        return kind(f"{self!r}: {problem}")

    def _execute(self, work: Callable[[Any], T]) -> T:
        return self._run(lambda: work(self._current()), at_once=True)

    def _run(self, work: Callable[[], T], *, at_once: bool = False) -> T:
        def without_panics() -> T:
            try:
                return work()
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # of Rust, which is no Exception
                    raise
                raise RuntimeError(str(error)) from None

        return super()._run(without_panics, at_once=at_once)

    def _fault(self, error: Exception, text: str) -> Exception:
        if self._is_of_data(error):
            return DataError(
                f"{text}: leave the column out with select=, or read the table with Spark's jars"
            )
        is_missing = any(kind.__name__ == self.missing for kind in type(error).__mro__)
        stays = type(error).__name__ in self.stay or (is_missing and not self._was_open)
        stays |= self.lasting is not None and bool(self.lasting.search(text))
        return SourceError(text) if stays else TransientSourceError(text)
