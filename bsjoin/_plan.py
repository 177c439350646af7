"""What travels from the driver to the workers: small, frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import pyarrow as pa

from bsjoin.conditions import Closed, Direction
from bsjoin.hotspot.rule import Rule
from bsjoin.shared.entry_state import CacheLimits
from bsjoin.sources.invalidation import InvalidationLog
from bsjoin.sources.protocol import Source
from bsjoin.store import StorageLocation
from bsjoin.store.range_index import is_ranked

__all__ = [
    "FIGURES",
    "INPUT_FIGURES",
    "ROUTE_FIGURES",
    "LookupPlan",
    "OnError",
    "RangeJoin",
    "RangePlan",
    "Ranged",
    "RetryPolicy",
    "RoutePlan",
    "Search",
    "Shape",
    "SourcePlan",
    "SourceRangePlan",
]

FIGURES, INPUT_FIGURES, ROUTE_FIGURES = "bsjoin:", "bsjoin-input:", "bsjoin-route:"
"""What the names begin with under which Spark reports the figures of a join."""

Shape = Literal["exists", "row", "rows", "runs"]
OnError = Literal["fail", "stale", "null"]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What every look-up has.

    Args:
        label: unique name of the join in this application, for its figures.
        columns: the columns to bring.
        shape: what the answer to one key is: whether it ``exists``; its only ``row`` as a
            struct; its ``rows`` as a list of structs; or where the ``runs`` of its rows lie,
            as first row and count, to be gathered in pieces.
        row_type: Arrow type of the struct that holds one row of the table.
        reports: whether somebody reads the figures.
        partitioned: "none", "hash" or "hotspot": how the stream's rows were sent to partitions.
    """

    label: str
    columns: tuple[str, ...]
    shape: Shape
    row_type: pa.StructType
    reports: bool
    partitioned: str = "none"

    @property
    def types(self) -> list[pa.DataType]:
        """The Arrow types of the columns to bring."""
        return [self.row_type.field(i).type for i in range(len(self.columns))]


@dataclass(frozen=True, kw_only=True)
class LookupPlan(_Plan):
    """A look-up in a stored table, as the workers carry it out.

    Args:
        location: where the table lives.
        epoch: when the newest version was published as the plan was made; tells a table
            apart from an earlier one at the same path.
        version: the version to use, or ``None`` to choose by the micro-batch's timestamp.
    """

    location: StorageLocation
    epoch: int
    version: int | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """A range condition, in the units of the codes.

    Args:
        kind: which condition.
        floating: whether the columns are floating-point numbers.
        before: of a band: how far below the probe it begins.
        after: of a band: how far above it ends.
        closed: which ends belong to the band or the intervals.
        direction: of an as-of join: where to look.
        tolerance: how far away a row may be; None for any distance.
        exact: whether a row at the point itself counts.
        finer: how many digits the stream's decimals have behind those of the table's column;
            widths are in units of the stream's last digit.
    """

    kind: Literal["band", "within", "overlaps", "asof"]
    floating: bool
    before: Fraction | float = 0.0
    after: Fraction | float = 0.0
    closed: Closed = "both"
    direction: Direction = "backward"
    tolerance: Fraction | float | None = None
    exact: bool = True
    finer: int = 0


@dataclass(frozen=True, kw_only=True)
class RangeJoin:
    """A range join, whichever way its table is kept.

    Args:
        how: the join type.
        search: the condition.
        carried: how many columns of the stream come with a batch and go with the result.
    """

    how: str
    search: Search
    carried: int


@dataclass(frozen=True, kw_only=True)
class RangePlan(LookupPlan, RangeJoin):
    """A range join with a stored table, as the workers carry it out."""


@dataclass(frozen=True, kw_only=True)
class RoutePlan:
    """How the rows of a stream are sent to partitions, as the workers carry it out.

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

    def labelled(self, label: str) -> RoutePlan:
        """The same for another join."""
        return replace(self, label=label)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How a source is asked.

    Args:
        retries: how often a look-up that failed is repeated.
        backoff_s: the longest pause before the first repetition, in seconds; twice as long
            before each further one, and a random part of that (full jitter).
        max_connections: how many processes of a host may be connected at once.
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
class Ranged:
    """How the rows of a key lie in a cache for range joins: in the order of their range column.

    Args:
        names: the column of points, or the columns of starts and ends, as the source calls them.
        type: the type in which they are searched.
        closed: which ends belong to the intervals; None for points.
        one_of_equals: whether rows with the same point have to be told apart, to be in the same
            order whenever they are read.
    """

    names: tuple[str, ...]
    type: pa.DataType
    closed: Closed | None
    one_of_equals: bool


@dataclass(frozen=True, kw_only=True)
class SourcePlan(_Plan):
    """A look-up in a source behind a cache, as the workers carry it out.

    Args:
        token: the name of the cache on every host.
        source: the source to query.
        keys: the key columns, under their names in the source.
        exact: whether equal hashes mean equal keys.
        limits: of the cache.
        retry_policy: with the source.
        invalidation_log: where invalidations of keys are published.
        warm_up: keys to begin with, or a query that yields them.
        folder: where the caches are on every host; None to choose.
        ranged: how the rows of a key are ordered, and which columns tell; None for any order.
    """

    token: str
    source: Source
    keys: pa.Schema
    exact: bool
    limits: CacheLimits
    retry_policy: RetryPolicy
    invalidation_log: InvalidationLog
    warm_up: pa.Table | str | None
    folder: str | None
    ranged: Ranged | None = None

    @property
    def asked_columns(self) -> tuple[str, ...]:
        """The columns to be read from the source, besides the keys."""
        ranged = () if self.ranged is None else self.ranged.names
        return tuple(dict.fromkeys([*self.columns, *ranged]))

    @property
    def stored_types(self) -> list[pa.DataType]:
        """The types of the columns in the cache: those to bring, then those to search."""
        if self.ranged is None:
            return self.types
        searched = self.ranged.type if is_ranked(self.ranged.type) else pa.int64()
        return [*self.types, *(searched for _ in self.ranged.names)]


@dataclass(frozen=True, kw_only=True)
class SourceRangePlan(SourcePlan, RangeJoin):
    """A range join with a source behind a cache, as the workers carry it out."""

    ranged: Ranged
