"""The plans that travel from the driver to the workers: small, frozen, picklable.

A :class:`JoinPlan` says what is matched (an equality of keys and, with a ``predicate``, a range
condition), where the table's rows are (``table``), what comes back, and what runs it. How the
stream's rows reach it is not in here: that is the choice of a runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import pyarrow as pa

from bsjoin.cache.entry_state import CacheLimits
from bsjoin.conditions import Closed, Direction, Take
from bsjoin.partitioning.rule import Rule
from bsjoin.sources.invalidation import InvalidationLog
from bsjoin.sources.protocol import Source
from bsjoin.storage import KeyColumn, StorageLocation
from bsjoin.storage.range_index import is_ranked
from bsjoin.storage.ties import Tie
from bsjoin.values.aggregates import Function

FIGURES, ROUTE_FIGURES = "bsjoin:", "bsjoin-route:"
"""Prefixes of the names under which Spark reports the figures of a join."""

Shape = Literal["exists", "row", "rows", "runs"]
OnError = Literal["fail", "stale", "null"]


def needs_unique(how: str, shape: Shape) -> bool:
    """Whether a join whose answers have a shape relies on keys that do not repeat."""
    return shape == "row" or (shape == "exists" and how in ("inner", "left"))


@dataclass(frozen=True, kw_only=True)
class StoredTable:
    """A table in files: a full cache.

    Args:
        location: where the files are stored.
        newest: the number of the newest version as the plan was made; default 1.
        epoch: when that was published; distinguishes a table from an earlier one at the same path.
        version: the version to use, or ``None`` to choose by the micro-batch's timestamp.
        max_staleness_us: how long before a micro-batch the table's source must have been read at
            the latest, in microseconds; 0 (default) for any time.
        keys: the key columns; a version with others is refused.
    """

    location: StorageLocation
    epoch: int
    version: int | None
    keys: tuple[KeyColumn, ...]
    max_staleness_us: int = 0
    newest: int = 1

    def is_older(self, number: int, created_at_us: int) -> bool:
        """Whether a version came before the plan.

        By its number, as clocks differ, and by its time, as numbers begin anew with the table.
        """
        return number < self.newest and created_at_us < self.epoch


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The repetition of look-ups in a source that have failed.

    Args:
        retries: how often a look-up that failed is repeated.
        backoff_s: the longest pause before the first repetition, in seconds; twice as long
            before each further one, and a random part of that (full jitter).
        max_connections: how many processes of a host may be connected to the database at once.
        on_error: what to do when the repetitions have failed, too.
        failure_cooldown_s: for how long the source is then not queried, unless ``on_error`` is
            "fail".
    """

    retries: int
    backoff_s: float
    max_connections: int
    on_error: OnError
    failure_cooldown_s: float


@dataclass(frozen=True, kw_only=True)
class RangeOrder:
    """The order of a key's rows in a cache for range joins: by their range column.

    Args:
        names: the column of points, or the columns of starts and ends, as the source names them.
        type: the type in which they are searched.
        closed: which ends belong to the intervals; None for points.
        row: the columns that order rows with the same point, under their names in the source.
        ties: how.
        ordered: whether the place of each row among those of its key in that order is stored, too.
            Default False.
    """

    names: tuple[str, ...]
    type: pa.DataType
    closed: Closed | None
    row: pa.Schema
    ties: tuple[Tie, ...]
    ordered: bool = False

    @property
    def stored_types(self) -> list[pa.DataType]:
        """The types of the columns to search, and of the places, as a cache stores them."""
        searched = [self.type if is_ranked(self.type) else pa.int64()] * len(self.names)
        return searched + [pa.int32()] * self.ordered


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table in a source behind a cache: an incremental cache.

    Args:
        token: the name of the cache on every host.
        database: the name of the source's database on every host: sources with the same one share
            connections.
        source: the source to query.
        keys: the key columns, under their names in the source.
        exact: whether equal hashes mean equal keys.
        payload: the columns to cache beside the keys, under their names in the source.
        unique: whether a key with two rows is an error.
        limits: of the cache.
        retry_policy: with the source.
        invalidation_log: where invalidations of keys are published.
        warm_up: the keys to load first, or a query that yields them.
        folder: where the caches are on every host; None to choose.
        order: how the rows of a key are ordered, and by which columns; None for any order.
        nulls_equal: which keys are null-safe; None (default) if none is.
    """

    token: str
    database: str
    source: Source
    keys: pa.Schema
    exact: bool
    payload: pa.Schema
    unique: bool
    limits: CacheLimits
    retry_policy: RetryPolicy
    invalidation_log: InvalidationLog
    warm_up: pa.Table | str | None
    folder: str | None
    order: RangeOrder | None = None
    nulls_equal: tuple[bool, ...] | None = None

    @property
    def key_types(self) -> list[pa.DataType]:
        """The types of the keys in the cache, where one more says which of them are null."""
        return [*self.keys.types, *[pa.int64()] * (self.nulls_equal is not None)]

    @property
    def queried_columns(self) -> list[str]:
        """The columns to read from the source, besides the keys."""
        ordered = () if self.order is None else (*self.order.names, *self.order.row.names)
        return list(dict.fromkeys([*self.payload.names, *ordered]))

    @property
    def stored_types(self) -> list[pa.DataType]:
        """The types of the columns in the cache: the payload, then those to search."""
        return [*self.payload.types, *([] if self.order is None else self.order.stored_types)]


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """The check of a range condition, in the units of encoded values.

    Args:
        kind: which condition.
        floating: whether the columns are floating-point numbers.
        before: of a band: how far below the probe it begins.
        after: of a band: how far above it ends.
        closed: which ends belong to the band or the intervals.
        direction: of an as-of join: where to look.
        tolerance: how far away a row may be; None for any distance.
        exact: whether a row at the point itself counts.
        n: of an as-of join, and of intervals of which some are taken: how many rows match at most.
        take: which of the intervals that contain a point.
        finer: how many digits the stream's decimals have behind those of the table's column;
            widths are in units of the stream's last digit.
        boxes: the further ranges by which rows are found where the table has an index of boxes; of
            each row that is found they are checked. Default: none.
        box_columns: what that index is of, see :func:`bsjoin.storage.box_signature`.
    """

    kind: Literal["band", "within", "overlaps", "asof"]
    floating: bool
    before: Fraction | float = 0.0
    after: Fraction | float = 0.0
    closed: Closed = "both"
    direction: Direction = "backward"
    tolerance: Fraction | float | None = None
    exact: bool = True
    n: int = 1
    take: Take = "all"
    finer: int = 0
    boxes: tuple[Predicate, ...] = ()
    box_columns: str = ""

    @property
    def columns(self) -> int:
        """How many columns of the stream it is about, without those of ``boxes``."""
        return 2 if self.kind == "overlaps" else 1


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """What a join returns of all rows that match a row of the stream.

    Args:
        function: the aggregate function; "collect" for an array of the rows.
        column: the number of its column among those of the plan; None for ``count(*)``.
        type: of the result.
        wraps: whether a sum of more than 64 bits wraps around; otherwise it is an error.
    """

    function: Function | Literal["collect"]
    column: int | None
    type: pa.DataType
    wraps: bool


@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """A join, as the workers carry it out.

    Args:
        label: unique name of the join in this application, for its figures.
        how: the join type: "inner", "left", "semi" or "anti".
        table: where the table's rows are.
        predicate: the range condition that rows of the same key are searched by; None without one.
        columns: the table's columns in the result; with ``aggregates`` those that they are of, or
            that the structs of the array have.
        shape: what the answer to one key is: whether it ``exists``; its only ``row`` as a
            struct; its ``rows`` as a list of structs; or where the ``runs`` of its rows are,
            as first row and count, to be gathered in pieces.
        row_type: Arrow type of the struct that holds one row of the table.
        reports: whether the figures are read.
        partitioned: "none", "hash" or "hotspot": how the stream's rows were sent to partitions.
        runtime: what runs it: "jvm", Spark's generated code, or "python", its Python workers.
        reason: why not the JVM; empty for it.
        asked: the setting that asks for the JVM where Python runs it; empty (default) for none.
        aggregates: what the result has instead of the columns; none (default) for the columns.
        marks: whether the result has one more column, which says whether there is a match. Default
            no.
        begins: whether it has another one, the last, which says of each row whether it is the first
            one with its row of the stream; they follow each other. Default no.
    """

    label: str
    how: str
    table: StoredTable | SourceTable
    predicate: Predicate | None
    columns: tuple[str, ...]
    shape: Shape
    row_type: pa.StructType
    reports: bool
    partitioned: Literal["none", "hash", "hotspot"] = "none"
    runtime: Literal["jvm", "python"] = "python"
    reason: str = ""
    asked: str = ""
    aggregates: tuple[Aggregate, ...] = ()
    marks: bool = False
    begins: bool = False

    @property
    def collects(self) -> bool:
        """Whether the result has an array of the rows that match."""
        return any(one.function == "collect" for one in self.aggregates)

    @property
    def types(self) -> list[pa.DataType]:
        """The Arrow types of the columns."""
        return [self.row_type.field(i).type for i in range(len(self.columns))]

    @property
    def result_types(self) -> list[pa.DataType]:
        """The Arrow types of what the result has of the table."""
        if self.how not in ("inner", "left"):
            return []
        found = [one.type for one in self.aggregates] or self.types
        return [*found, *[pa.bool_()] * (self.marks + self.begins)]

    @property
    def needs_unique(self) -> bool:
        """Whether the plan relies on keys that do not repeat."""
        return needs_unique(self.how, self.shape)


@dataclass(frozen=True)
class StageColumn:
    """A column that the rows of a stage have, or get from one of its joins.

    Args:
        join: the number of the join whose table has it; None if Spark sends it.
        number: its number among the columns of that join, or among those that are sent.
        type: the type to convert it to; None to take it as it is.
    """

    join: int | None
    number: int
    type: pa.DataType | None = None


@dataclass(frozen=True)
class Call:
    """A function of values, each row by itself.

    Args:
        function: its name in ``pyarrow.compute``.
        values: other calls, columns (each a StageColumn), and constants (each a scalar of Arrow).
    """

    function: str
    values: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class StageJoin:
    """One join of a stage.

    Args:
        plan: the join.
        hash: the hash of the key, which Spark sends; None if it is computed of ``key``.
        key: the columns to compare or to look up; without a hash, all columns of the key.
        probes: the range columns.
        clock: the number of the sent column by which the table's version is chosen; None if the
            plan has the version.
        check: what a pair of rows must fulfil besides; None (default) for nothing. Of an inner
            join, or a left join of which a row of the stream has one candidate at most.
    """

    plan: JoinPlan
    hash: StageColumn | None
    key: tuple[StageColumn, ...]
    probes: tuple[StageColumn, ...]
    clock: int | None
    check: Call | None = None


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """Joins that one Python function carries out over whole rows, one after the other.

    Args:
        stream_columns: the number of the stream's columns in the result; they are sent first.
        joins: first to last.
    """

    stream_columns: int
    joins: tuple[StageJoin, ...]


@dataclass(frozen=True, kw_only=True)
class RoutePlan:
    """The way of a stream's rows to partitions, as the workers carry it out.

    Args:
        label: unique name of the join in this application.
        location: the folder with the rules; None where the plan has the rule of its only cycle.
        rule: the rule as long as the folder has none.
        capacity: how many keys each task is to sample under it.
        seed: of the sample.
        cycle: the number of the only cycle, where there is no folder.
    """

    label: str
    location: StorageLocation | None
    rule: Rule
    capacity: int
    seed: int
    cycle: int = 0
