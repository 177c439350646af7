"""Private tables of joins inside ``foreachBatch``: used again, and removed early.

A full join without a store builds a private table. Outside ``foreachBatch`` its
results may be used at any time, so it lives as long as the application. Inside, the results of a
call are used within the call. So what micro-batch n used is removed when a join of micro-batch
n + 2 begins; the one in between is there for results that were handed on. At most two tables, or
versions of one, exist for each join of a query.

A join with the same plan, keys and options takes the table of the micro-batch before. Spark's own
join reads its table again in every micro-batch, and so does this one, unless the rows cannot have
changed: the same version of a table, the same files, a plan that says itself what its rows are, or
a table that is refreshed at an interval. It becomes a new version only if rows differ.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bsjoin.conditions import Condition
from bsjoin.following.dataframe import followed_of
from bsjoin.following.protocol import Followed
from bsjoin.options import Full
from bsjoin.spark.fingerprint import is_fixed
from bsjoin.spark.session import MicroBatch, active_queries, means_the_same
from bsjoin.table import BatchTable
from bsjoin.values.durations import seconds

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
        followed: the source, if it is followed; default None: what the DataFrame reads, then.
    """

    origin: DataFrame | str
    read: Callable[[], DataFrame]
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    options: Full
    conditions: tuple[Condition, ...]
    nulls_equal: tuple[str, ...] = ()
    followed: Followed | None = None

    def build(self) -> BatchTable:
        """Build the table, or find it as it was left, and let it be refreshed if that is wanted."""
        df, options = self.read(), self.options
        followed = self.followed
        if options.follows and followed is None:
            followed = followed_of(df, options.version, self.read)
        table = BatchTable._ensure(
            df,
            self.keys,
            self.columns,
            options,
            private=True,
            when=self.conditions,
            nulls_equal=self.nulls_equal,
            followed=followed,
        )
        if followed is not None:
            table._follow(df, followed, options)
        elif options.refresh is not None:
            interval_s = seconds(options.refresh, "refresh")
            table._refresh_every(interval_s, df.sparkSession, self.read)
        return table

    def is_same(self, other: PrivateTable) -> bool:
        """Whether the same plan, read at the same time, gives the same table."""
        mine = self.keys, self.columns, self.options, self.conditions, self.nulls_equal
        theirs = other.keys, other.columns, other.options, other.conditions, other.nulls_equal
        if mine != theirs:
            return False
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

    def renew(self, wanted: PrivateTable) -> None:
        """Read the source again, if it may have changed."""
        if wanted.options.refresh is not None:
            return  # in the background
        if isinstance(wanted.origin, str) or not is_fixed(wanted.origin):
            self.table._refresh_from(wanted.read)
        else:
            self.table._confirm()


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
            recent = [version for turn, version in kept.used.items() if turn >= self.turn - 1]
            if recent:
                kept.used = {turn: v for turn, v in kept.used.items() if turn >= self.turn - 1}
                kept.table._remove_before(min(recent))
            else:
                self.tables.remove(kept)
                kept.table._remove()


_queries: dict[str, _Query] = {}
_lock = threading.Lock()


def reused(batch: MicroBatch, wanted: PrivateTable) -> BatchTable:
    """The table for a join in a micro-batch: that of an earlier one, or built now."""
    query = _query(batch.query)
    with query.lock:
        query.begin(batch.number)
        kept = next((one for one in query.tables if one.wanted.is_same(wanted)), None)
        if kept is None:
            kept = _Kept(wanted, wanted.build())
            query.tables.append(kept)
        else:
            kept.renew(wanted)
        kept.used.setdefault(query.turn, kept.table.version)
        return kept.table


def _query(name: str) -> _Query:
    """The tables of a query; those of queries that have ended go when another one begins."""
    with _lock:
        if name not in _queries:
            active = active_queries()
            for other in () if active is None else _queries.keys() - active:
                for kept in _queries.pop(other).tables:
                    kept.table._remove()
            _queries[name] = _Query()
        return _queries[name]
