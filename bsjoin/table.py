"""``BatchTable``: the indexed table as a thing of its own."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bsjoin import _checks
from bsjoin._spark.arrow import check_storable
from bsjoin._spark.build import Layout, build
from bsjoin._spark.columns import Names, join_keys, quoted, result_names, selected
from bsjoin._spark.fingerprint import fingerprint as fingerprint_of
from bsjoin._spark.join import Request, names_of, next_label, plan_join, schema_of
from bsjoin._spark.keys import check_key_types, type_name, type_of
from bsjoin._spark.partitioning import (
    Partition,
    check_partition,
    kind_of,
    send_to_partitions,
)
from bsjoin._spark.range_columns import range_columns, stream_columns, table_columns, with_columns
from bsjoin._spark.range_join import plan_range_join
from bsjoin._spark.refresh import start_refreshing
from bsjoin._spark.session import needed_since_us, refresh_files
from bsjoin.conditions import Condition
from bsjoin.durations import seconds
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    DamagedTableError,
    NotATableError,
    OtherKeysError,
    StoreError,
    suggest,
)
from bsjoin.options import Full
from bsjoin.store import Manifest, RangeColumns, Stats, StorageLocation, versions
from bsjoin.store.temporary import temporary_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from bsjoin._spark.columns import On

__all__ = ["BatchTable", "Version"]

_log = logging.getLogger("bsjoin")

_FOR_EVER_US = 1 << 62


@dataclass(frozen=True)
class Version:
    """One version of a table, as ``BatchTable.versions()`` lists it.

    Args:
        number: 1, 2, 3, …
        created_at: when it was published (UTC).
        rows: its rows.
        bytes: the size of its files.
    """

    number: int
    created_at: datetime
    rows: int
    bytes: int


class BatchTable:
    """A table stored for look-ups: indexed, versioned, memory-mapped by every worker.

    Make one with :meth:`build` or :meth:`open`, not by calling the class. A version never
    changes once it is published; :meth:`refresh` publishes the next one, and running streams
    take it up at a micro-batch boundary.

    Example:
        >>> table = BatchTable.build(customers, on="customer_id", path="/data/customers")
        >>> table.join(orders_stream, how="left").writeStream
    """

    def __init__(self, location: StorageLocation, *, may_change: bool, options: Full):
        self._location = location
        self._may_change = may_change
        self._options = options
        self._refreshing: threading.Event | None = None

    def __repr__(self) -> str:
        try:
            manifest = versions.latest(self._location)
        except StoreError as error:
            return f"BatchTable({self.path!r}: {type(error).__name__})"
        keys = [key.name for key in manifest.keys]
        return f"BatchTable({self.path!r}, on={keys!r}, version={manifest.version})"

    @classmethod
    def build(
        cls,
        df: DataFrame,
        *,
        on: str | Sequence[str],
        when: Condition | None = None,
        path: str | os.PathLike[str] | None = None,
        unique: bool = False,
        fingerprint: str | None = None,
        segment_bytes: int = Full.segment_bytes,
    ) -> BatchTable:
        """Index a DataFrame by a Spark job, or take what is stored when nothing has changed.

        Args:
            df: the table; not streaming.
            on: its key column or columns; ``[]`` for a pure range join.
            when: the range condition that it is to answer; see :func:`bsjoin.join`. The rows of
                each key are then sorted and indexed by its range columns. The condition is
                stored with the table, and :meth:`join` uses it.
            path: where to keep it; None for a temporary folder of this application. A path
                that holds a table of the same keys gets a new version, unless the source is
                the same as when it was built (see ``Full.fingerprint``).
            unique: fail when a key occurs in more than one row.
            fingerprint: your own word for the state of the source.
            segment_bytes: see ``Full``.

        Raises:
            ColumnError, KeyTypeError: the keys cannot be used.
            OtherKeysError: the path holds a table that was built for other keys.
            DuplicateKeyError: ``unique`` does not hold.
            StoreAccessError, StoreFullError: the path cannot be written to.

        Complexity: one shuffle and sort of the table; a task holds one segment at most.
        """
        options = Full(
            store=path, unique=unique, fingerprint=fingerprint, segment_bytes=segment_bytes
        )
        _checks.table_side(df)
        names = names_of(df, "the table")
        listed = [] if when is not None and on == [] else _checks.key_list(on)
        keys = [names.find(name, "on") for name in listed]
        if len(set(keys)) < len(keys):
            raise ArgumentError(f"on={on!r} names a column twice")
        return cls._ensure(df, keys, names.columns, options, private=False, when=when)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: bool = True) -> BatchTable:
        """Open a stored table without reading its source.

        Args:
            path: the folder or URL it was built in.
            verify: compare every file of the newest version with its checksum first (reads
                the version once, at several GB/s).

        Raises:
            NotATableError: there is no table at the path.
            DamagedTableError: a segment is not what was written; the error names it.
        """
        location = StorageLocation.of(path)
        manifest = versions.latest(location)
        if verify:
            versions.verify(location, manifest)
        return cls(location, may_change=True, options=Full(store=path, unique=manifest.unique))

    @classmethod
    def _ensure(
        cls,
        df: DataFrame,
        keys: Sequence[str],
        columns: Sequence[str],
        options: Full,
        *,
        private: bool,
        when: Condition | None = None,
    ) -> BatchTable:
        """Build a table, or find it as it was left.

        A private table is known to nobody but one call of ``join``: unless that call refreshes
        it, it cannot change.
        """
        schema = _checks.distinct(df, "the table")
        key_types = [(name, schema[name].dataType) for name in keys]
        check_key_types(key_types, key_types)
        ranged = None
        if when is not None:
            names = names_of(df, "the table")
            found = [names.find(name, "when") for name in table_columns(when)]
            ranged = range_columns(when, schema, found)
        temporary = options.store is None
        location = (
            temporary_location() if options.store is None else StorageLocation.of(options.store)
        )
        changeable = not (private and temporary) or options.refresh_s > 0
        table = cls(location, may_change=changeable, options=options)
        mark = None if temporary else options.fingerprint or fingerprint_of(df)
        before = None if temporary else table._newest_or_none()
        if before is not None:
            table._check_same_keys(before, key_types)
            table._check_same_ranges(before, ranged)
            if private:  # what one join asks for is not what the table was built with
                when = before.condition or when
            known = mark is not None and versions.is_marked(location, before, mark)
            if known and _serves(before, columns, options) and table._is_intact(before):
                table._remember(before, when, mark)
                return table
        table._build(df, keys, columns, mark, before, ranged, when)
        return table

    def _newest_or_none(self) -> Manifest | None:
        try:
            return versions.latest(self._location)
        except NotATableError:
            if self._location.names("versions"):
                raise
            return None

    def _build(
        self,
        df: DataFrame,
        keys: Sequence[str],
        columns: Sequence[str],
        mark: str | None,
        before: Manifest | None,
        ranged: RangeColumns | None,
        when: Condition | None,
    ) -> Manifest:
        """Build a version and publish it, unless it turns out to be what is there already."""
        stored = df.select(*(quoted(name) for name in columns)).schema
        check_storable(stored)
        options = self._options
        layout = Layout(
            tuple(keys), tuple(columns), options.unique, options.segment_bytes, ranged, when
        )
        draft = build(df, self._location, layout)
        try:
            if before is not None and before.same_as(draft) and self._is_intact(before):
                draft.discard(self._location)
                return self._remember(before, when, mark)
            published = versions.publish(self._location, draft)
            if mark is not None:
                versions.mark(self._location, published, mark)
            return published
        except BaseException:
            draft.discard(self._location)
            raise

    def _remember(self, before: Manifest, when: Condition | None, mark: str | None) -> Manifest:
        """Keep a version that holds the right rows; with another condition it is published again.

        The files stay the same: the condition says how they are searched.
        """
        published = before
        if when is not None and before.condition != when:
            published = versions.publish(self._location, replace(before, condition=when))
        if mark is not None and not versions.is_marked(self._location, published, mark):
            versions.mark(self._location, published, mark)
        return published

    def _is_intact(self, manifest: Manifest) -> bool:
        try:
            versions.verify(self._location, manifest)
        except DamagedTableError as error:
            _log.warning("bsjoin: %s; it is built again now", error)
            return False
        return True

    def _check_same_keys(self, before: Manifest, keys: Sequence[tuple[str, DataType]]) -> None:
        built = [(key.name, key.type) for key in before.keys]
        wanted = [(name, type_name(dtype)) for name, dtype in keys]
        if built != wanted:
            raise OtherKeysError(
                f"the table in {str(self._location)!r} was built for the keys {_shown(built)}, not "
                f"for {_shown(wanted)}. Join on its keys, or build another table at another path"
            )

    def _check_same_ranges(self, before: Manifest, ranged: RangeColumns | None) -> None:
        if before.ranged != ranged:
            raise OtherKeysError(
                f"the table in {str(self._location)!r} was built {_shown_ranges(before.ranged)}, "
                f"not {_shown_ranges(ranged)}. Join as it was built, or build another table at "
                "another path"
            )

    @property
    def path(self) -> str:
        """Where the table is stored; secrets in the query of a URL are shown as ``***``."""
        return str(self._location)

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return versions.latest(self._location).version

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return [key.name for key in versions.latest(self._location).keys]

    @property
    def columns(self) -> list[str]:
        """The columns that a join can bring."""
        return versions.latest(self._location).columns

    def join(
        self,
        stream: DataFrame,
        on: On = None,
        *,
        when: Condition | None = None,
        how: str = "inner",
        partition: Partition = None,
        select: Sequence[str] | None = None,
        suffix: str = "_batch",
    ) -> DataFrame:
        """Join a stream (or a batch DataFrame) with the table; see :func:`bsjoin.join`.

        Args:
            stream: the probe side.
            on: as in :func:`bsjoin.join`; by default the table's keys, which the stream must
                have under the same names.
            when: as in :func:`bsjoin.join`; by default the condition that the table was built
                with. Widths, and the stream's columns, may differ from those; the table's
                columns and ``closed`` of intervals may not.
            how: as in :func:`bsjoin.join`.
            partition: as in :func:`bsjoin.join`.
            select: the table's columns to bring.
            suffix: given to those whose name the stream already has.
        """
        _checks.probe_side(stream)
        how = _checks.join_type(how)
        check_partition(partition)
        manifest = versions.latest(self._location)
        table_keys = [key.name for key in manifest.keys]
        names = names_of(stream, "the stream")
        when = self._condition(manifest, names) if when is None else when
        known = [*table_keys, *(name for name in manifest.columns if name not in table_keys)]
        table_names = Names(known, "the table", names.case_sensitive)
        pure = when is not None and not table_keys and on in (None, [])
        pairs = [] if pure else join_keys(table_keys if on is None else on, names, table_names)
        if sorted(table for _, table in pairs) != sorted(table_keys):
            raise OtherKeysError(
                f"the table in {self.path!r} was built for the keys {table_keys} and cannot be "
                f"joined on {[table for _, table in pairs]}. Give all its keys and no other, or "
                "build another table"
            )
        columns = selected(
            select, how, Names(manifest.columns, "the table", names.case_sensitive), table_keys
        )
        by_table = {table: name for name, table in pairs}
        probed = [] if when is None else stream_columns(when)
        request = Request(
            keys=tuple(pairs),
            how=how,
            columns=tuple(columns),
            names=tuple(result_names(columns, names, suffix)),
            label=next_label([*(by_table[name] for name in table_keys), *probed]),
            partitioned=kind_of(partition),
        )
        types = {key.name: type_of(key.type) for key in manifest.keys}
        stream = send_to_partitions(stream, request, types, partition)
        if when is None and manifest.ranged is None:
            return plan_join(stream, self._location, manifest, request, may_change=self._may_change)
        return self._join_ranges(stream, manifest, request, when)

    def _condition(self, manifest: Manifest, stream: Names) -> Condition | None:
        """The condition that the table was built with, for a stream that has its columns."""
        when = manifest.condition
        if manifest.ranged is None:
            return None
        if when is None:
            raise OtherKeysError(
                f"the table in {self.path!r} was built {_shown_ranges(manifest.ranged)}, and its "
                "manifest does not hold the whole condition, since an earlier bsjoin wrote it: "
                "give when=..., or build the table again"
            )
        for name in stream_columns(when):
            if name not in stream:
                raise ColumnError(
                    f"the table in {self.path!r} was built with {when!r}, and the stream has no "
                    f"column {name!r}. {suggest(name, stream.columns)} Give when=... with the "
                    "stream's columns"
                )
        return when

    def _join_ranges(
        self, stream: DataFrame, manifest: Manifest, request: Request, when: Condition | None
    ) -> DataFrame:
        """A range join: the condition must be one that the table was built for."""
        built = manifest.ranged
        if when is None or built is None:
            raise OtherKeysError(
                f"the table in {self.path!r} was built {_shown_ranges(built)}: build one with "
                "when=... for this join"
            )
        names = names_of(stream, "the stream")
        names.check_distinct()
        probes = [names.find(name, "when") for name in stream_columns(when)]
        given = list(table_columns(when))
        closed = getattr(when, "closed", None) if len(given) == 2 else None
        same = len(given) == len(built.names) and all(map(names.same, given, built.names))
        if not same or closed != built.closed:
            wanted = RangeColumns(tuple(given), built.types, closed)
            raise OtherKeysError(
                f"the table in {self.path!r} was built {_shown_ranges(built)} and cannot be "
                f"joined {_shown_ranges(wanted)}. Build another table"
            )
        spelled = with_columns(when, probes, built.names)
        return plan_range_join(
            stream, self._location, manifest, request, spelled, may_change=self._may_change
        )

    def refresh(self, df: DataFrame) -> int:
        """Publish a new version made of ``df``, unless it holds what is there already.

        Streams that are running take it up at the next micro-batch that begins after this
        call returns. Batch results that were planned before keep their version.

        Args:
            df: the table as it is now, with the same keys and columns.

        Returns:
            The number of the newest version.

        Raises:
            OtherKeysError: keys or columns differ from the table's.
        """
        _checks.table_side(df)
        before = versions.latest(self._location)
        schema = _checks.distinct(df, "the new table")
        keys = [key.name for key in before.keys]
        ranged = () if before.ranged is None else before.ranged.names
        lacking = [n for n in {*keys, *ranged, *before.columns} if n not in schema.names]
        if lacking:
            raise OtherKeysError(
                f"the new table lacks the columns {sorted(lacking)} that the table in "
                f"{self.path!r} has"
            )
        self._check_same_keys(before, [(name, schema[name].dataType) for name in keys])
        for field in schema_of(before).fields:
            if schema[field.name].dataType != field.dataType:
                raise OtherKeysError(
                    f"the column {field.name!r} is {schema[field.name].dataType.simpleString()} "
                    f"in the new table and {field.dataType.simpleString()} in the table in "
                    f"{self.path!r}. Running streams rely on it: cast it, or build another table"
                )
        rest = before.ranged, before.condition
        return self._build(df, keys, before.columns, None, before, *rest).version

    def start_refreshing(self, df: DataFrame, interval: timedelta | str | float) -> None:
        """Read ``df`` again at an interval, while streams run, and publish what has changed.

        Args:
            df: the source; read anew each time (files that came or went included).
            interval: a timedelta, "10 minutes", or seconds.
        """
        self.stop_refreshing()

        def again() -> None:
            refresh_files(df)
            self.refresh(df)
            if self._options.store is None:
                self.vacuum(older_than="1 hour")  # or each change would stay for good

        self._refreshing = start_refreshing(
            df.sparkSession, again, seconds(interval, "interval"), self.path
        )

    def stop_refreshing(self) -> None:
        """End what :meth:`start_refreshing` began; fine where nothing was."""
        if self._refreshing is not None:
            self._refreshing.set()
            self._refreshing = None

    def _remove_before(self, version: int) -> None:
        """Remove the versions before one of them, whoever uses them."""
        kept = sum(number >= version for number in versions.numbers(self._location))
        versions.vacuum(self._location, _FOR_EVER_US, kept)

    def _remove(self) -> None:
        """Remove the table; for one that nobody else knows."""
        self.stop_refreshing()
        self._location.remove("")

    def versions(self) -> list[Version]:
        """The versions that are stored, oldest first."""
        found = []
        for number in versions.numbers(self._location):
            manifest = versions.load(self._location, number)
            created = datetime.fromtimestamp(manifest.created_at_us / 1e6, UTC)
            found.append(Version(number, created, manifest.stats.rows, manifest.stats.bytes))
        return found

    def verify(self) -> None:
        """Compare every file of every version with its checksum.

        Raises:
            DamagedTableError: names the first file that is missing or differs.
        """
        for number in versions.numbers(self._location):
            versions.verify(self._location, versions.load(self._location, number))

    def stats(self) -> Stats:
        """Rows, keys, bytes, segments and build time of the newest version."""
        return versions.latest(self._location).stats

    def vacuum(self, *, keep: int = 1, older_than: timedelta | str | float = "7 days") -> list[int]:
        """Remove old versions.

        A version stays if it is among the newest ``keep``, if it was in use at any time
        during the last ``older_than``, or if a streaming query of this session may still need
        it, for a replay of its last micro-batch.

        Args:
            keep: how many of the newest versions stay in any case.
            older_than: how long a version stays after its successor came. Streams that are
                down, or run in other applications, replay micro-batches of that time.

        Returns:
            The numbers of the versions that were removed.
        """
        from_us = time.time_ns() // 1000 - round(seconds(older_than, "older_than") * 1e6)
        needed_us = needed_since_us()
        return versions.vacuum(
            self._location, from_us if needed_us is None else min(from_us, needed_us), keep
        )


def _serves(manifest: Manifest, columns: Sequence[str], options: Full) -> bool:
    return manifest.columns == list(columns) and manifest.unique == options.unique


def _shown_ranges(ranged: RangeColumns | None) -> str:
    if ranged is None:
        return "without a range condition"
    closed = "" if ranged.closed is None else f" (closed={ranged.closed!r})"
    return f"for ranges of {', '.join(ranged.names)}{closed}"


def _shown(keys: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in keys)
