"""A join that is planned: what a runtime gets, whichever side of it differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.plan import JoinPlan, Shape, SourceTable, StoredTable
from bsjoin.planner.keys import KeySide, type_of
from bsjoin.planner.range_columns import probe_type
from bsjoin.planner.resolve import ResolvedJoin
from bsjoin.spark import sql

__all__ = [
    "PIECE_ROWS",
    "Cache",
    "KeyOf",
    "PlannedJoin",
    "PlannedTable",
    "answer_row",
    "clock_of",
    "needs_unique",
    "shape_of",
]

PIECE_ROWS = 64
"""The most rows of a key in one list."""

KeyOf = Callable[[Callable[[str], str]], KeySide]
"""The stream's key, comparable with the table's: it gets the stream's columns in SQL, by name."""


@dataclass(frozen=True, kw_only=True)
class PlannedTable:
    """A table as one join uses it.

    Args:
        key: makes the stream's key.
        fields: the columns to bring, as the table has them.
        shape: what the answer to one key is.
        table: where the workers find the rows.
        longest_run: the largest number of rows of one key, as the table is now, if that is known.
        bytes: of its files, which every host loads; 0 (default) for a cache that fills up.
    """

    key: KeyOf
    fields: tuple[T.StructField, ...]
    shape: Shape
    table: StoredTable | SourceTable
    longest_run: int = 1
    bytes: int = 0


class Cache(Protocol):
    """How a table is cached: :class:`FullCache`, or :class:`IncrementalCache`."""

    def planned(self, stream: DataFrame, join: ResolvedJoin) -> PlannedTable:
        """The table as this join uses it."""


@dataclass(frozen=True, kw_only=True)
class PlannedJoin:
    """A join as a runtime gets it.

    Args:
        stream: the probe side, its rows already sent to their partitions.
        join: the call, resolved.
        key: makes the stream's key.
        plan: what the workers do.
        row: Spark type of one row of the table, as the answers have it.
        fields: the table's columns in the result: names, types, nullability before the join type
            is applied, metadata.
        given: the DataFrame that the table was given as; None if it was not.
    """

    stream: DataFrame
    join: ResolvedJoin
    key: KeyOf
    plan: JoinPlan
    row: T.StructType
    fields: tuple[T.StructField, ...]
    given: DataFrame | None

    @property
    def given_names(self) -> dict[str, str | None]:
        """The table's columns in the result, and what the DataFrame given calls them."""
        own = [] if self.given is None else self.given.columns
        folded = {name.lower(): name for name in own}
        return {
            name: column if column in own else folded.get(column.lower())
            for name, column in zip(self.join.names, self.join.columns, strict=True)
        }

    @property
    def stream_key(self) -> KeySide:
        """The key, of the stream's own columns."""
        return self.key(sql.column)

    @property
    def searched_types(self) -> list[T.DataType]:
        """The types in which the stream's range columns are searched; none without any."""
        ranged = self.join.ranged
        if ranged is None:
            return []
        given = [self.stream.schema[name].dataType for name in self.join.probes]
        return [probe_type(type_of(ranged.types[0]), given)] * len(given)

    def probes(self, column: Callable[[str], str]) -> list[tuple[str, T.DataType]]:
        """The stream's range columns as they are searched, and their type; none without.

        Args:
            column: gets the stream's columns in SQL, by name.
        """
        return [
            (sql.cast(column(name), searched), searched)
            for name, searched in zip(self.join.probes, self.searched_types, strict=True)
        ]


def clock_of(plan: JoinPlan) -> list[str]:
    """The time, in SQL, by which a worker chooses the version; none if the plan has it."""
    # The timestamp of the micro-batch is fixed in Spark's offset log: a replay has it again.
    follows = isinstance(plan.table, StoredTable) and plan.table.version is None
    return ["`current_timestamp`()"] if follows else []


def needs_unique(join: ResolvedJoin) -> bool:
    """Whether the plan of a join relies on unique keys, if the table is declared so."""
    return join.how in ("inner", "left") and join.when is None


def shape_of(how: str, columns: Sequence[str], unique: bool, longest_run: int) -> Shape:
    """Choose what the answer to one key is (docs/decisions/0001-plan.md).

    Args:
        how: the join type.
        columns: the columns to bring.
        unique: whether no version that the query may meet can hold a key twice.
        longest_run: the largest number of rows of one key, as the table is now.
    """
    if how in ("semi", "anti") or (unique and not columns):
        return "exists"
    if unique:
        return "row"
    # A list per key is faster; it is all in memory for a whole Arrow batch, so keys with many
    # rows are answered by the position of the rows, and these are fetched in pieces.
    return "rows" if longest_run <= PIECE_ROWS else "runs"


def answer_row(fields: Sequence[T.StructField]) -> T.StructType:
    """The struct in which one row of the table travels: its fields, under short names."""
    return T.StructType(
        [T.StructField(f"c{i}", f.dataType, f.nullable) for i, f in enumerate(fields)]
        or [T.StructField("none", T.BooleanType())]
    )
