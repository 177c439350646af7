"""Private tables of joins inside ``foreachBatch``: used again, and removed early.

A full join builds a private table, without a store in a temporary folder. Outside ``foreachBatch``
its results may be used at any time, so it lives as long as the application; where they are a batch,
it is not refreshed. Inside, the results of a call are used within the call. So what micro-batch n
used is removed when a join of micro-batch n + 2 begins; the one in between is there for results
that were handed on. At most two tables, or versions of one, exist for each join of a query. What is
in a store stays.

A join with the same plan, keys and options takes the table of the micro-batch before. Spark's own
join reads its table again in every micro-batch, and so does this one, unless the rows cannot have
changed: the same version of a table, the same files, a plan that says itself what its rows are, a
store whose source has a name and that nobody else has written to, or a table that is refreshed at
an interval. It becomes a new version only if rows differ.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bsjoin._clock import now_us
from bsjoin.build.apply import forget
from bsjoin.conditions import Condition
from bsjoin.errors import TableNotFoundError
from bsjoin.following.dataframe import followed_of
from bsjoin.following.protocol import Followed
from bsjoin.following.source import FollowedTable
from bsjoin.options import Full
from bsjoin.spark.fingerprint import is_fixed
from bsjoin.spark.session import MicroBatch, active_queries, means_the_same
from bsjoin.storage import StorageLocation, freshness, versions
from bsjoin.storage.temporary import remove_temporary
from bsjoin.table import BatchTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PrivateTable:
    """The private table that a join needs.

    Args:
        origin: its DataFrame, or the token of its source.
        read: returns the DataFrame to build it from, each time as its source is then.
        keys: the key columns.
        columns: the columns to store.
        options: how to build it.
        conditions: the range conditions, first the one that the table is sorted for.
        nulls_equal: the key columns that are null-safe.
        follow: asks what is followed, of a source: its columns are those to store, with those of
            its primary key. Default None: what the DataFrame reads, if anything.
    """

    origin: DataFrame | str = field(compare=False)
    read: Callable[[], DataFrame] = field(compare=False)
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    options: Full
    conditions: tuple[Condition, ...]
    nulls_equal: tuple[str, ...] = ()
    follow: Callable[[], FollowedTable] | None = field(default=None, compare=False)

    def build(self, *, refreshed: bool = True, checked: bool = False) -> BatchTable:
        """Build the table, or find it as it was left; it is then ``refreshed`` if it is to be.

        Files that were ``checked`` are not compared with their checksums again.
        """
        options, columns = self.options, self.columns
        followed: Followed | None = None
        if self.follow is not None:
            source = self.follow()
            df, columns, followed = source.newest(), tuple(source.columns), source
        else:
            df = self.read()
            if options.follows:
                followed = followed_of(df, options.version, self.read)
        table = BatchTable._ensure(
            df,
            self.keys,
            columns,
            options,
            private=True,
            when=self.conditions,
            nulls_equal=self.nulls_equal,
            followed=followed,
            checked=checked,
        )
        if not refreshed:
            table._looks = None  # nobody looks again: what that holds open ends
        elif followed is not None:
            table._follow(df, followed, options)
        elif options.refresh is not None:
            table._refresh_every(options.refresh_s, df.sparkSession, self.read)
        return table

    def is_same(self, other: PrivateTable) -> bool:
        """Whether the same plan, read at the same time, gives the same table."""
        return self == other and self.reads_the_same(other)

    def reads_the_same(self, other: PrivateTable) -> bool:
        """Whether both have the same plan, or source."""
        if isinstance(self.origin, str) or isinstance(other.origin, str):
            return self.origin is other.origin or self.origin == other.origin
        return means_the_same(self.origin, other.origin)


@dataclass
class _Kept:
    """A table that was built for a join.

    Args:
        wanted: what the join needs.
        table: the table.
        used: the version that each micro-batch began with, by the turn of the query.
    """

    wanted: PrivateTable
    table: BatchTable
    used: dict[int, int] = field(default_factory=dict)

    @property
    def location(self) -> StorageLocation:
        """Where the table is."""
        return self.table._location

    def renew(self, wanted: PrivateTable) -> None:
        """Read the source again, if it may have changed, or others have written to the store."""
        options, origin = wanted.options, wanted.origin
        if options.refresh is not None:
            return  # in the background
        is_named = options.store is not None and options.fingerprint is not None
        may_differ = not is_named and (isinstance(origin, str) or not is_fixed(origin))
        if options.store is not None and (may_differ or self.is_other()):
            self.table = wanted.build(checked=True)
        elif may_differ:
            self.table._refresh_from(wanted.read)
        elif options.max_staleness is not None:
            freshness.confirm(self.location, versions.latest(self.location), now_us())

    def is_other(self) -> bool:
        """Whether the newest version is another one than at the last look, or there is none."""
        return versions.numbers(self.location)[-1:] != [*self.used.values()][-1:]

    def keep_from(self, turn: int) -> None:
        """Forget earlier turns, and remove the versions before, even if they are in use."""
        self.used = {one: version for one, version in self.used.items() if one >= turn}
        if self.wanted.options.store is None:
            least = min(self.used.values())
            kept = sum(number >= least for number in versions.numbers(self.location))
            versions.vacuum(self.location, now_us(), kept)

    def end(self) -> None:
        """Let go of the table; one in a store stays, and is not refreshed any more."""
        self.table.stop_refreshing()
        if self.wanted.options.store is None:
            forget(self.location)
            remove_temporary(self.location)


@dataclass
class _Query:
    """The tables of one query, and how many micro-batches have used one."""

    turn: int = 0
    batch: str = ""
    tables: list[_Kept] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def begin(self, batch: str) -> None:
        """Remove what only micro-batches before the last one used."""
        if batch == self.batch:
            return
        self.batch, self.turn = batch, self.turn + 1
        for kept in list(self.tables):
            if max(kept.used, default=0) >= self.turn - 1:
                kept.keep_from(self.turn - 1)
            else:
                self.tables.remove(kept)
                kept.end()

    def end_others(self, wanted: PrivateTable) -> None:
        """Let go of tables that would be refreshed from other sources in the store of this one."""
        store = wanted.options.store
        its = None if store is None else StorageLocation.of(store)
        for kept in [one for one in self.tables if one.wanted.options.refresh is not None]:
            if kept.location == its and not kept.wanted.reads_the_same(wanted):
                self.tables.remove(kept)
                kept.end()


_queries: dict[str, _Query] = {}
_lock = threading.Lock()


def reused(batch: MicroBatch, wanted: PrivateTable) -> BatchTable:
    """The table for a join in a micro-batch: that of an earlier one, or built now."""
    query = _query(batch.query)
    with query.lock:
        query.begin(batch.number)
        kept = next((one for one in query.tables if one.wanted.is_same(wanted)), None)
        if kept is None:
            query.end_others(wanted)
            kept = _Kept(wanted, wanted.build())
            query.tables.append(kept)
        else:
            kept.renew(wanted)
        try:
            kept.used.setdefault(query.turn, kept.table.version)
        except TableNotFoundError:  # it was removed: whoever runs the micro-batch again builds it
            query.tables.remove(kept)
            kept.end()
            raise
        return kept.table


def _query(name: str) -> _Query:
    """The tables of a query; those of queries that have ended go when another one begins."""
    with _lock:
        if name not in _queries:
            active = active_queries()
            for other in () if active is None else _queries.keys() - active:
                for kept in _queries.pop(other).tables:
                    kept.end()
            _queries[name] = _Query()
        return _queries[name]
