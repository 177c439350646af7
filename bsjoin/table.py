"""``BatchTable``: a stored, indexed table that several joins share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bsjoin._clock import now_us
from bsjoin._show import Shown, in_bytes
from bsjoin.build.apply import apply_changes, compact, forget, start_compacting
from bsjoin.build.layout import layout_of
from bsjoin.build.publishing import stored_at
from bsjoin.build.refresh import start_refreshing
from bsjoin.build.steps import Advance
from bsjoin.build.storing import ensure, refreshed, source_of
from bsjoin.conditions import Condition
from bsjoin.errors import ArgumentError, StoreError
from bsjoin.following.dataframe import followed_of
from bsjoin.following.looks import Following, note_source
from bsjoin.following.protocol import Followed
from bsjoin.metrics.observing import is_reported
from bsjoin.metrics.refreshes import recorded
from bsjoin.options import Full
from bsjoin.partitioning import Hash, HotSpot
from bsjoin.planner.arguments import (
    JoinCall,
    JoinType,
    key_list,
    nulls_equal_of,
    probe_side,
    table_side,
)
from bsjoin.planner.candidates import with_candidates
from bsjoin.planner.char_columns import check_padded
from bsjoin.planner.collations import check_collations
from bsjoin.planner.columns import On, names_of, schema_of
from bsjoin.planner.full_cache import note_columns, plan_stored
from bsjoin.planner.key_expressions import keyed_stream
from bsjoin.planner.keys import type_of
from bsjoin.planner.resolve import resolve, safe_keys
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.planner.table_sides import BuiltTable
from bsjoin.planner.uses import naming_queries
from bsjoin.runtimes.apply import apply
from bsjoin.runtimes.jvm.catalog import name_table, relation
from bsjoin.runtimes.jvm.collations import attach_for
from bsjoin.spark.session import active_session, needed_since_us
from bsjoin.storage import (
    Manifest,
    SourceVersion,
    Stats,
    StorageLocation,
    builds,
    freshness,
    versions,
)
from bsjoin.storage.temporary import remove_temporary, temporary_location
from bsjoin.values.durations import microseconds, microseconds_ago

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CHANGES_UNTIL_VACUUM = 64
# How long versions of a table that is read again stay, beside those that streams need.
_TEMPORARY_STAYS, _STORED_STAYS = "1 hour", "7 days"


@dataclass(frozen=True)
class Version:
    """One version of a table, listed by ``BatchTable.versions()``.

    Args:
        number: 1, 2, 3, …; numbers increase, and may have gaps.
        created_at: when it was published (UTC).
        rows: the number of its rows that a look-up can find.
        bytes: the size of its files in bytes.
        source: the version of the source that its rows are of; None (default) where that is not
            known for certain.
    """

    number: int
    created_at: datetime
    rows: int
    bytes: int
    source: SourceVersion | None = None


class BatchTable:
    """A table stored for look-ups: indexed, versioned, memory-mapped by every worker.

    Not to be constructed: :meth:`build` and :meth:`open` return one. A version never
    changes once it is published; :meth:`refresh` publishes the next one, and running streams
    take it up at a micro-batch boundary.

    Example:
        >>> table = BatchTable.build(customers, on="customer_id", path="/data/customers")
        >>> table.join(orders_stream, how="left").writeStream
    """

    def __init__(
        self, location: StorageLocation, *, may_change: bool, options: Full, private: bool = False
    ):
        self._location = location
        self._may_change = may_change
        self._private = private
        self._options = options
        self._given: DataFrame | None = None  # what build() was given
        self._refreshing: threading.Event | None = None
        self._looks: Following | None = None

    def __getstate__(self) -> dict[str, object]:
        # A DataFrame stays in the process of its session, and so does what refreshes the table.
        return {**vars(self), "_given": None, "_refreshing": None, "_looks": None}

    def __repr__(self) -> str:
        try:
            manifest = versions.latest(self._location)
        except StoreError as error:
            return f"BatchTable({self.path!r}: {type(error).__name__})"
        keys = [key.name for key in manifest.keys]
        return f"BatchTable({self.path!r}, on={keys!r}, version={manifest.version})"

    def _shown(self) -> Shown:
        try:
            manifest = versions.latest(self._location)
        except StoreError as error:
            rows: list[tuple[str, object]] = [(type(error).__name__, str(error))]
        else:
            stats = manifest.stats
            published = datetime.fromtimestamp(manifest.created_at_us / 1e6, UTC)
            rows = [
                ("on", ", ".join(key.name for key in manifest.keys) or None),
                ("when", manifest.condition),
                ("version", manifest.version),
                ("published", f"{published:%Y-%m-%d %H:%M:%S} UTC"),
                ("rows", f"{stats.rows:,}"),
                ("keys", f"{stats.keys:,}"),
                ("rows of one key, at most", f"{stats.longest_run:,}"),
                ("size", in_bytes(stats.bytes)),
            ]
        known = [(name, value) for name, value in rows if value is not None]
        return Shown("BatchTable", [], [("path", self.path), *known])

    def __str__(self) -> str:
        return str(self._shown())

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    @classmethod
    def build(
        cls,
        df: DataFrame,
        *,
        on: str | Sequence[str],
        when: Condition | Sequence[Condition] | None = None,
        path: str | os.PathLike[str] | None = None,
        unique: bool = False,
        latest_by: str | Sequence[str] = (),
        keep: int = 1,
        nulls_equal: bool | Sequence[str] = False,
        fingerprint: str | None = None,
        segment_bytes: int = Full.segment_bytes,
        max_staleness: timedelta | str | float | None = None,
    ) -> BatchTable:
        """Index a DataFrame by a Spark job, or take what is stored when nothing has changed.

        Args:
            df: the table; not streaming.
            on: its key column or columns; ``[]`` for a pure range join.
            when: the range condition that it answers, default None: equality only; see
                :func:`bsjoin.join`. The rows of each key are then sorted and indexed by its range
                columns. The condition is stored with the table, and :meth:`join` uses it. Of two
                or three in a list, all of :class:`Band`, :class:`Within` and :class:`Overlaps` and
                on numbers, dates or timestamps, rows are indexed as boxes: joins with all of them
                look at the rows that match, and few others. By the first one the rows of a key are
                sorted, and joins with it alone are searched by it.
            path: the folder or fsspec URL of the table; None (default) for a temporary folder of
                this application. A path that holds a table of the same keys gets a new version,
                unless the source is the same as when it was built (see ``Full.fingerprint``). The
                new version may have other columns: see the errors.
            unique: fail if a key occurs in more than one row; default False.
            latest_by: one or more columns of the table, such as ``"updated_at"``: of each key it
                keeps only the latest row by them. See ``Full`` for the order. Default ``()``: all
                rows. It is stored with the table: :meth:`refresh` does the same, and a later
                ``build`` at the path with another order makes a new version.
            keep: how many rows of a key ``latest_by`` keeps; default 1. See ``Full``.
            nulls_equal: ``True``, or the names of keys: rows in which these are null are in the
                index, too, for joins with ``nulls_equal=`` and for ``<=>`` in SQL. Other joins find
                what they find without. Default ``False``: such rows match nothing. It costs 8 to 16
                bytes a row, and the direct address table of integer keys.
            fingerprint: your own name for the state of the source; default None: computed.
            segment_bytes: the largest size of a segment, default 1 GiB; see ``Full``.
            max_staleness: how old rows of this table may be in its joins; default None: of any
                age. See ``Full``.

        Returns:
            The table, at its newest version. All columns of ``df`` are stored, and, without
            ``latest_by``, all rows: those that match nothing outside of the index, see
            :class:`bsjoin.Stats`. References to
            columns of ``df`` hold for its joins, as long as the table has their types; see
            :func:`bsjoin.join`. :meth:`open` knows none.

        Raises:
            ColumnError, KeyTypeError: the keys, or a column's type, cannot be used; ``latest_by``
                names no column, or one whose type has no order; or a key is of the type CHAR(n)
                while ``spark.sql.readSideCharPadding`` is false.
            ArgumentError: ``df`` is streaming or no DataFrame, or ``on`` names a column twice;
                or ``keep`` is not from 1 to 2147483646, or above 1 without ``latest_by``; or
                several conditions are more than three, one of them takes one row of several, or no
                values fulfil two of them together.
            TableMismatchError: the path holds a table that was built for other keys; or ``df``
                lacks columns that a running query uses, or has them in other types.
            DuplicateKeyError: ``unique`` does not hold.
            StoreAccessError, StoreFullError: the path cannot be written to.

        Complexity: one sort of the table, without a shuffle; a task holds 64 MB of rows, or
            two columns of a segment.

        Example:
            >>> table = BatchTable.build(customers, on="customer_id", unique=True)
            >>> table.version, table.keys, table.columns
            (1, ['customer_id'], ['customer_id', 'name', 'city'])
            >>> twice = customers.union(customers)
            >>> BatchTable.build(twice, on="customer_id", latest_by="name").stats().rows
            3
        """
        options = Full(
            store=path,
            unique=unique,
            latest_by=latest_by,
            keep=keep,
            fingerprint=fingerprint,
            segment_bytes=segment_bytes,
            max_staleness=max_staleness,
        )
        conditions = JoinCall(when=when).conditions
        table_side(df)
        names = names_of(df, "the table")
        listed = [] if conditions and on == [] else key_list(on)
        keys = [names.find(name, "on") for name in listed]
        if len(set(keys)) < len(keys):
            raise ArgumentError(f"on={on!r} names a column twice")
        safe = safe_keys(nulls_equal_of(nulls_equal), [(key, key) for key in keys], names)
        table = cls._ensure(
            df,
            keys,
            names.columns,
            options,
            private=False,
            when=conditions,
            nulls_equal=[key for key, is_safe in zip(keys, safe, strict=True) if is_safe],
        )
        table._given = df
        return table

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: bool = True,
        max_staleness: timedelta | str | float | None = None,
    ) -> BatchTable:
        """Open a stored table without reading its source.

        Args:
            path: the folder or URL it was built in.
            verify: compare every file of the newest version with its checksum first (reads
                the version once, at several GB/s); default True.
            max_staleness: as for :meth:`build`; default None.

        Returns:
            The table, at its newest version.

        Raises:
            TableNotFoundError: there is no table at the path.
            DamagedTableError: a segment is not what was written; the error names it.
            StoreAccessError: the path cannot be read.

        Example:
            >>> BatchTable.open(table.path).stats().rows
            3
        """
        location = stored_at(path)
        manifest = (versions.latest_verified if verify else versions.latest)(location)
        # Keys that are unique by the rule of latest rows are so for as long as it holds.
        rule = manifest.latest
        by_rule = rule is not None and rule.keep == 1 and manifest.ranged is None
        unique = manifest.unique and not by_rule
        options = Full(store=path, unique=unique, max_staleness=max_staleness)
        return cls(location, may_change=True, options=options)

    @property
    def path(self) -> str:
        """The folder or URL of the table; secrets in the query of a URL are shown as ``***``."""
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
        """The columns that a join can return."""
        return versions.latest(self._location).columns

    def join(
        self,
        stream: DataFrame,
        on: On = None,
        how: JoinType = "inner",
        *,
        when: Condition | Sequence[Condition] | None = None,
        partition: Hash | HotSpot | None = None,
        select: Sequence[str] | None = None,
        suffix: str = "_batch",
        nulls_equal: bool | Sequence[str] = False,
        where: Column | str | None = None,
        indicator: str | None = None,
    ) -> DataFrame:
        """Join a stream (or a batch DataFrame) with the table; see :func:`bsjoin.join`.

        Args:
            stream: the probe side.
            on: as in :func:`bsjoin.join`; by default the table's keys, which the stream must
                have under the same names.
            how: as in :func:`bsjoin.join`; default ``"inner"``.
            when: as in :func:`bsjoin.join`; by default the condition that the table was built
                with. Widths, ``n``, ``take``, ``relation`` and the stream's columns may differ from
                those; the table's columns, ``closed`` of intervals and ``order_by`` may not, and
                not every table serves every ``take`` (:class:`bsjoin.Within`). Of a list those
                are searched which the table was built for.
            partition: as in :func:`bsjoin.join`; default None.
            select: the table's columns to return; by default all that are not keys.
            suffix: appended to those whose name the stream already has; default ``"_batch"``.
            nulls_equal: as in :func:`bsjoin.join`, of keys for which the table was built with it;
                default ``False``.
            where: as in :func:`bsjoin.join`; default None.
            indicator: as in :func:`bsjoin.join`; default None.

        Returns:
            As :func:`bsjoin.join`. A streaming result uses for each micro-batch the version that is
            active at its timestamp; a batch result the newest version at the time of this call.

        Raises:
            ArgumentError, ColumnError, KeyTypeError: as in :func:`bsjoin.join`.
            TableMismatchError: ``on`` or ``when`` is not what the table was built for.
            TableNotFoundError: the table was removed.
            WorkerEnvironmentError: the Python of the workers cannot run bsjoin.

        Complexity: O(1) for the call; then O(rows of the micro-batch), whatever the table's size.

        Example:
            >>> enriched = table.join(orders, how="left", select=["name"])
            >>> enriched.columns
            ['order_id', 'customer_id', 'name']
        """
        probe_side(stream)
        call = JoinCall(
            on=on,
            when=when,
            how=how,
            partition=partition,
            select=select,
            suffix=suffix,
            nulls_equal=nulls_equal,
            where=where,
            indicator=indicator,
            stream=stream,
        )
        return self._join_by(call, stream)

    def register(self, spark: SparkSession, name: str) -> None:
        """Give the table a name in Spark's catalog ``bsjoin``, for plain joins and SQL.

        The name is a setting of the session, ``spark.bsjoin.table.<name>``, and how old rows may be
        another one, ``spark.bsjoin.maxStalenessUs.<name>``: a session made by ``newSession()`` does
        not inherit them, and ``spark.conf.unset`` forgets them. A name that is given again stands
        for the new table from then on.

        Args:
            spark: the session.
            name: letters, digits and underscores.

        Raises:
            ArgumentError: it is not such a name.
            TableNotFoundError: the table was removed.
            StoreError: the URL of the table has a secret, which Spark would show.
            WorkerEnvironmentError: the session refuses the jar (:func:`bsjoin.jar`).

        Example:
            >>> table.register(spark, "customers")
            >>> spark.sql("SELECT count(*) AS rows FROM bsjoin.customers").first().rows
            3
            >>> spark.conf.unset("spark.bsjoin.table.customers")
        """
        versions.latest(self._location)
        name_table(spark, self._location, name, self._max_staleness_us)

    def to_df(self, spark: SparkSession | None = None) -> DataFrame:
        """The table as a DataFrame: its rows are read from the stored files, in Spark's JVM.

        The same as ``spark.read.format("bsjoin").load(path)``, in a session that has the jar. A
        query reads the version that is the newest when it is planned, a micro-batch of a stream,
        its function for ``foreachBatch`` included, that which is active at its timestamp.

        Args:
            spark: the session; default None: the active one.

        Returns:
            The columns of the newest version, all nullable, as a later version may bring nulls.
            Columns that the JVM does not read (nested ones) are an error of the queries that
            select them.

        Raises:
            ArgumentError: there is no active session.
            TableNotFoundError: the table was removed.
            StoreError, WorkerEnvironmentError: as for :meth:`register`.

        Example:
            >>> table.to_df().select("name").orderBy("name").first().name
            'Ada'
        """
        versions.check_there(self._location)
        return relation(spark or active_session(), self._location, self._max_staleness_us)

    def refresh(self, df: DataFrame) -> int:
        """Publish a new version made of ``df``, unless it holds what is there already.

        Running streams use it from the next micro-batch that begins after this call returns.
        Batch results that were planned before keep their version.

        Args:
            df: the table as it is now, with the same keys and all columns of the table, in the
                same types. Further columns are added: later calls of :meth:`join` return them, and
                queries that run go on without.

        Returns:
            The number of the newest version.

        Raises:
            ArgumentError: ``df`` is streaming or no DataFrame.
            TableMismatchError: the keys differ, or a column is missing or has another type.
            KeyTypeError: a key is a CHAR(n) that this session reads without padding.
            DuplicateKeyError: the table is declared unique and ``df`` is not.
            StoreAccessError, StoreFullError: the version cannot be written.

        Complexity: as :meth:`build`; one look at the source, without a Spark job, if that is known
            to be unchanged (see ``Full.fingerprint``).

        Example:
            >>> table.refresh(customers)  # the same rows: no new version
            1
        """
        table_side(df)
        self._check_keys(df)
        with recorded(self._location.url):
            return refreshed(self._location, df, self._options, adds=not self._private).version

    def apply(
        self,
        changes: DataFrame,
        *,
        key: str | Sequence[str] | None = None,
        op: str | None = None,
        sequence: str | None = None,
        batch: tuple[str, int] | None = None,
        retain: timedelta | str | float | None = "7 days",
        merge_schema: bool = False,
    ) -> int:
        """Publish a new version with some rows inserted, updated and deleted.

        What it costs is a matter of the rows that change, not of the table. Running streams use it
        from the next micro-batch that begins after this call returns, and each version stays what
        it was: a replay finds the rows that it has had. In ``foreachBatch`` of a stream of changes
        call it with ``batch``: a batch that runs again is applied once.

        Args:
            changes: rows with all columns of the table, in the same types; those that are deleted
                need no values but those of ``key``, or of the table's keys. They go through the
                driver. What happened to a row is recognised: the envelopes of Debezium (``before``,
                ``after``, ``op``; tombstones are passed over), and ``__op`` or ``__deleted`` of its
                records without envelopes; ``_change_type`` of Delta's change data feed and of
                Iceberg's changelog views; or a column ``op`` with one of ``insert``, ``update``,
                ``upsert``, ``delete``, or their first letters, ``c`` and ``r``; names in upper or
                lower case. Without any of these all rows are upserts.
            key: the columns that tell a row from all others, a primary key. They may be other than
                the table's keys, or more: its keys and a point. ``()``: all rows of a key of the
                table are replaced by those that come. Default None: as for the first call; for that
                the keys of a table that is declared unique.
            op: the column with what happened to a row; default None: recognised, unless the table
                has a column of that name, which is an error.
            sequence: a column that grows with each change of a row, or a field in one
                (``"source.lsn"``): the change with the greatest value counts. If the table stores
                the column, a change below the row that is there changes nothing. Default None:
                ``_commit_version`` or ``_change_ordinal`` of a change feed, else none: then a
                second change of a row in one call is an error.
            batch: the name of the writer and the number of its batch, which grows: the last one is
                not applied again. Default None: not remembered.
            retain: each 64th call that publishes removes versions that were not in use for so
                long, as :meth:`vacuum` does with ``older_than``; default 7 days. None: none is
                removed.
            merge_schema: whether columns of ``changes`` that the table does not have are added to
                it, as by :meth:`refresh`, null in all rows that do not change; the columns that say
                what happened to a row, and ``sequence``, are not. Default False: they are passed
                over.

        Returns:
            The number of the newest version. After an error nothing is published.

        Raises:
            ArgumentError: nothing tells rows apart; a column of ``key`` or ``sequence`` is null;
                two changes of a row are not in order; an operation is not known; a later batch of
                the writer was applied before; or ``merge_schema`` is neither True nor False.
            ColumnError: a column is missing, or has another type.
            DuplicateKeyError: the table is declared unique, and would not be.
            TableMismatchError: it has only the latest rows (``latest_by``), a key with a collation,
                or lacks columns.
            StoreAccessError, StoreFullError: the version cannot be written.

        Complexity: O(rows of the keys that change) and of a few recent changes; a pass over the
            columns of ``key`` in the table if these are not all of its keys; O(bytes of the table)
            where columns are added.

        Example:
            >>> prices = spark.createDataFrame([(1, 10), (2, 20)], "item int, price int")
            >>> table = BatchTable.build(prices, on="item", unique=True)
            >>> changes = [(1, 11, "update"), (2, None, "delete"), (3, 30, "insert")]
            >>> table.apply(spark.createDataFrame(changes, "item int, price int, op string"))
            2
            >>> [tuple(row) for row in table.to_df().orderBy("item").collect()]
            [(1, 11), (3, 30)]
        """
        table_side(changes)
        if retain is not None:
            microseconds_ago(retain, "retain")
        if not isinstance(merge_schema, bool):
            raise ArgumentError(f"merge_schema={merge_schema!r}: give True or False")
        manifest, is_new = apply_changes(
            self._location,
            changes,
            key=key,
            op=op,
            sequence=sequence,
            batch=batch,
            merge_schema=merge_schema,
        )
        start_compacting(self._location, manifest, self._options.segment_bytes)
        count = 0 if manifest.changes is None else manifest.changes.count
        if retain is not None and is_new and count % _CHANGES_UNTIL_VACUUM == 0:
            self._remove_older(retain)
        return manifest.version

    def compact(self) -> int:
        """Publish a version with the same rows, in which look-ups search one place again.

        :meth:`apply` does so in the background where its changes come to more than 16,384 rows and
        a twentieth of the table, or to several GiB in a column. Changes may be applied meanwhile;
        the version has those, too. Where the table is refreshed meanwhile, compacting begins anew;
        the third time the table is left as it is, and the log has a warning.

        Returns:
            The number of the newest version; the same as before if nothing was applied since.

        Raises:
            TableNotFoundError: the table was removed.
            StoreAccessError, StoreFullError: the version cannot be written.

        Complexity: O(rows of the segments that changes have touched), in this process.
        """
        return compact(self._location, self._options.segment_bytes).version

    def start_refreshing(
        self,
        df: DataFrame,
        interval: timedelta | str | float,
        *,
        version: str | None = None,
        fail_on_data_loss: bool = False,
    ) -> None:
        """Keep the table as its source is, while streams run: publish what has changed.

        A refresh that was started before ends.

        Args:
            df: the source; each time, its files are listed again, and its tables' versions.
            interval: how often it is read: a timedelta, "10 minutes", or seconds. Or
                ``"on_commit"``: whenever it has a new version, see :class:`bsjoin.Full`.
            version: as for ``Full``; default None: the versions of what ``df`` reads.
            fail_on_data_loss: as for ``Full``; default False.

        Raises:
            ArgumentError: the interval is not a duration above zero, or not below the table's
                ``max_staleness``; or ``df`` is streaming or no DataFrame, or cannot be followed,
                and the error says why.

        Example:
            >>> table.start_refreshing(customers, "10 minutes")
            >>> table.stop_refreshing()
        """
        if interval is None:
            raise ArgumentError("refresh=None: stop_refreshing() ends what was started")
        options = replace(
            self._options,
            refresh=interval,
            version=version,
            fail_on_data_loss=fail_on_data_loss,
            fingerprint=None,
        )
        table_side(df)
        if options.follows:
            self._check_keys(df)
            followed = followed_of(df, version)
        self.stop_refreshing()
        if options.follows:
            self._follow(df, followed, options)
        else:
            self._refresh_every(options.refresh_s, df.sparkSession, lambda: df)

    def stop_refreshing(self) -> None:
        """End what :meth:`start_refreshing` began; without effect if nothing was begun."""
        if self._refreshing is not None:
            self._refreshing.set()
            self._refreshing = None

    def versions(self) -> list[Version]:
        """The versions that are stored, oldest first.

        Example:
            >>> [version.rows for version in table.versions()]
            [3]
        """
        found = []
        for manifest in versions.there(self._location):
            created = datetime.fromtimestamp(manifest.created_at_us / 1e6, UTC)
            stats = manifest.stats
            found.append(
                Version(manifest.version, created, stats.rows, stats.bytes, manifest.source)
            )
        return found

    def verify(self) -> None:
        """Compare every file of every version with its checksum.

        Raises:
            DamagedTableError: names the first file that is missing or differs.
            TableNotFoundError: the table was removed.

        Complexity: reads all files once, and the indexes once more for each version.
        """
        for _, found in versions.checked(self._location):
            if isinstance(found, StoreError):
                raise found

    def stats(self) -> Stats:
        """Rows, keys, bytes, segments and more of the newest version.

        Example:
            >>> table.stats().rows, table.stats().unindexed
            (3, 0)
        """
        return versions.latest(self._location).stats

    def vacuum(self, *, keep: int = 1, older_than: timedelta | str | float = "7 days") -> list[int]:
        """Remove old versions.

        A version stays if it is among the newest ``keep``, if it was in use at any time
        during the last ``older_than``, or if a streaming query of this session may still need
        it, for a replay of its last micro-batch. While a newer one is being published that may be
        withdrawn, the newest that stays for certain is kept, too: until the publisher is done or
        has ended; for up to an hour where it was killed on another machine.

        Args:
            keep: how many of the newest versions stay in any case; default 1.
            older_than: how long a version stays after its successor became active; default 7 days.
                Streams that are stopped, or run in other applications, replay micro-batches of
                that time.

        Returns:
            The numbers of the versions that were removed.

        Raises:
            ArgumentError: ``keep`` is no whole number of 1 or more, or ``older_than`` is not a
                duration, or below zero.

        Example:
            >>> table.vacuum(keep=2)
            []
        """
        from_us = _needed_from_us(older_than, "older_than")
        forget(self._location)
        return builds.vacuum(self._location, keep, from_us)

    @classmethod
    def _ensure(
        cls,
        df: DataFrame,
        keys: Sequence[str],
        columns: Sequence[str],
        options: Full,
        *,
        private: bool,
        when: Sequence[Condition] = (),
        nulls_equal: Sequence[str] = (),
        followed: Followed | None = None,
        checked: bool = False,
    ) -> BatchTable:
        """Build a table, or find it as it was left, its files ``checked`` before or now.

        A private table belongs to one call of ``join``: unless that call refreshes it, it cannot
        change.
        """
        attach_for(df.sparkSession, [df.schema[name].dataType for name in keys])
        layout = layout_of(
            df, keys, columns, options, when, private=private, nulls_equal=nulls_equal
        )
        if not private or options.store is not None:
            check_padded(df, [*keys, *(name for one in when for name in one.table_columns)])
        may_change = not private or options.store is not None or options.refresh is not None
        since = None
        if options.store is not None:
            location = stored_at(options.store, df.sparkSession)
            since = None if followed is None else source_of(location)
        began_us, version = now_us(), None if followed is None else followed.version()
        if options.store is None:
            location = temporary_location()
        table = cls(location, may_change=may_change, options=options, private=private)
        if followed is not None and version is not None:
            if options.store is not None:
                table._looks = table._following(followed, options)
                table._looks.catch_up(version, began_us)
            df = followed.at(version)
        advance = None if version is None else Advance(version, since)
        try:
            with recorded(location.url):
                ensure(
                    location, df, layout, options, private=private, advance=advance, checked=checked
                )
        except BaseException:
            if options.store is None:
                remove_temporary(location)
            raise
        note_source(location)
        return table

    @property
    def _max_staleness_us(self) -> int:
        limit_s = self._options.max_staleness_s
        return microseconds(limit_s) if limit_s else 0

    def _join_by(self, call: JoinCall, stream: DataFrame) -> DataFrame:
        """:meth:`join`, its arguments checked and in one object."""
        call, stream = keyed_stream(call, stream, lambda: self.columns)
        manifest = versions.latest(self._location)
        join = resolve(stream, BuiltTable(manifest, self.path), call)
        brings = all(one.function == "collect" for one in join.aggregates)
        if call.cycle is not None and call.how in ("inner", "left") and brings:
            # The columns of the first cycle: one that is added later would change the result.
            if call.cycle.state.columns is None:
                call.cycle.state.columns = join.columns
            call = replace(call, select=call.cycle.state.columns)
            join = resolve(stream, BuiltTable(manifest, self.path), call)
        join = with_candidates(join, stream, schema_of(manifest), self._given, call)
        return self._planned(stream, join, manifest, self._given)

    def _join_resolved(
        self, join: ResolvedJoin, stream: DataFrame, given: DataFrame | None
    ) -> DataFrame:
        """Join by a call that was resolved before the table was built.

        Raises:
            TableMismatchError: another table has been built at its path since then.
        """
        manifest = versions.latest(self._location)
        built = BuiltTable(manifest, self.path)
        join = built.spelled(join, names_of(stream, "the stream"))
        built.check_serves(join)
        return self._planned(stream, join, manifest, given)

    def _planned(
        self, stream: DataFrame, join: ResolvedJoin, manifest: Manifest, given: DataFrame | None
    ) -> DataFrame:
        attach_for(stream.sparkSession, join.key_types)
        check_collations(stream.sparkSession, manifest, self.path)
        limit_us = self._max_staleness_us
        if limit_us and not stream.isStreaming:  # in a stream each micro-batch is checked
            marks = freshness.marks_in(freshness.mark_names(self._location))
            freshness.fresh_version(self._location, manifest, [manifest], marks, now_us(), limit_us)
        noted = self._may_change and is_reported(stream, join.cycle)
        if noted and note_columns(stream, join, self._location, manifest):
            newest = versions.latest(self._location)
            if newest.version != manifest.version:  # published before our note was there
                BuiltTable(newest, self.path).check_serves(join)
                manifest = newest
        planned = plan_stored(
            stream,
            join,
            self._location,
            manifest,
            given,
            may_change=self._may_change,
            max_staleness_us=limit_us,
        )
        return apply(planned)

    def _check_keys(self, df: DataFrame) -> None:
        """Refuse keys that Spark's own join would read in another way, or the session not make."""
        manifest = versions.latest(self._location)
        attach_for(df.sparkSession, [type_of(key.type) for key in manifest.keys])
        if not self._private or self._options.store is not None:
            check_padded(df, [*(key.name for key in manifest.keys), *manifest.range_names])

    def _refresh_every(
        self, interval_s: float, spark: SparkSession, read: Callable[[], DataFrame]
    ) -> None:
        """Read the source every so often, in a thread, while streams run."""

        def again() -> None:
            with recorded(self._location.url):
                self._refresh_from(read)
            if self._options.store is None:
                self.vacuum(older_than=_TEMPORARY_STAYS)  # or every version would stay

        self._refreshing = start_refreshing(spark, again, interval_s, self.path)

    def _refresh_from(self, read: Callable[[], DataFrame]) -> None:
        """Refresh from a source whose columns are looked at when it is read."""
        with naming_queries(self._location):
            self.refresh(read())

    def _follow(self, df: DataFrame, followed: Followed, options: Full) -> None:
        """Follow a source in a thread, while streams run."""
        # That of the start goes on: it knows what the table had.
        following, self._looks = self._looks, None
        if following is None or following.followed is not followed:
            following = self._following(followed, options)
        self._refreshing = start_refreshing(
            df.sparkSession, following.look, following.pause_s, self.path
        )

    def _following(self, followed: Followed, options: Full) -> Following:
        return Following(
            self._location, followed, options, adds=not self._private, tidy=self._tidied
        )

    def _tidied(self, manifest: Manifest) -> None:
        """Compact a version that was published, and remove old ones now and then."""
        start_compacting(self._location, manifest, self._options.segment_bytes)
        changes = manifest.changes if manifest.layers else None
        # Of changes not the version: compactions between them are versions, too.
        count = manifest.version if changes is None else changes.count
        if self._options.store is None and changes is None:
            self.vacuum(older_than=_TEMPORARY_STAYS)
        elif count % _CHANGES_UNTIL_VACUUM == 0:
            self._remove_older(_TEMPORARY_STAYS if self._options.store is None else _STORED_STAYS)

    def _remove_older(self, retain: timedelta | str | float) -> None:
        """Remove the versions that were not in use for so long, if there are any."""
        keep_from_us = _needed_from_us(retain, "retain")
        if versions.has_older(self._location, keep_from_us):
            builds.vacuum(self._location, 1, keep_from_us)


def _needed_from_us(older_than: timedelta | str | float, argument: str) -> int:
    """From which time on a version may be needed: some time ago, and by streams of the session."""
    from_us = now_us() - microseconds_ago(older_than, argument)
    needed_us = needed_since_us()
    return from_us if needed_us is None else min(from_us, needed_us)
