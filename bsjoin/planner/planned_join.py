"""A join that is planned: what a runtime gets, whichever side of it differs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.metrics.numbers import new_number, numbers
from bsjoin.metrics.observing import is_reported
from bsjoin.partitioning import Hash
from bsjoin.plan import Aggregate, Call, JoinPlan, Shape, SourceTable, StoredTable
from bsjoin.planner.arguments import Partition
from bsjoin.planner.checks import names_in
from bsjoin.planner.keys import KeySide, source_key, stream_key, type_of
from bsjoin.planner.range_columns import predicate_of, probe_type
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.spark import sql
from bsjoin.spark.arrow import arrow_fields
from bsjoin.spark.session import micro_batch
from bsjoin.storage import box_signature

_ALL = (1 << 31) - 1

PIECE_ROWS = 64
"""The most rows of a key in one list."""


@dataclass(frozen=True, kw_only=True)
class PlannedJoin:
    """A join as a runtime gets it.

    Args:
        stream: the probe side, as the call has it.
        join: the call, resolved.
        plan: what the workers do.
        fields: what the join brings: the table's columns in the result, with their names, types,
            nullability before the join type is applied, and metadata; then the column that says
            whether there is a match, which is never null, if the join has it.
        read: the table's columns that are read, as the table has them: those of the result, or what
            it has aggregates of.
        given: the DataFrame that the table was given as: references to its columns hold for the
            result; None if there is none.
        table_bytes: of the table's files, which every host loads; 0 for a cache that fills up.
    """

    stream: DataFrame
    join: ResolvedJoin
    plan: JoinPlan
    fields: tuple[T.StructField, ...]
    read: tuple[T.StructField, ...]
    given: DataFrame | None
    table_bytes: int

    @property
    def given_names(self) -> dict[str, str | None]:
        """What the join brings, and what the DataFrame given calls it; None if it lacks it."""
        found: dict[str, str | None] = dict.fromkeys(field.name for field in self.fields)
        if self.join.aggregates:  # they are none of its columns
            return found
        return found | given_names(self.given, self.join.names, self.join.columns)

    @functools.cached_property
    def check(self) -> Call | None:
        """``where`` as workers that have whole rows check it; None where Spark does, or none."""
        where = self.join.where
        if where is None or where.most is not None or self.join.extra or self.plan.aggregates:
            return None
        is_alone = where.how == "left" and self.plan.needs_unique
        return where.check() if where.how == "inner" or is_alone else None

    @property
    def checked_columns(self) -> list[str]:
        """The stream's columns that ``check`` has."""
        wanted = set() if self.check is None else set(names_in(self.check))
        return [name for name in self.stream.columns if name.lower() in wanted]

    @property
    def row(self) -> T.StructType:
        """The struct in which one row of the table travels: its fields, under short names."""
        return _answer_row(self.read)

    def key(self, column: Callable[[str], str] = sql.column) -> KeySide:
        """The stream's key, comparable with the table's; ``column`` gets its columns in SQL."""
        side = source_key if isinstance(self.plan.table, SourceTable) else stream_key
        join, schema = self.join, self.stream.schema
        types = [schema[name].dataType for name in join.stream_keys]
        return side(join.key_values(column), types, join.key_types, join.nulls_equal)

    @property
    def probe_types(self) -> list[T.DataType]:
        """The types in which the stream's range columns are searched; none without any."""
        join = self.join
        if join.ranged is None or join.condition is None:
            return []
        searched = [(join.ranged, join.condition)]
        searched += [(one.columns, one.condition) for one in join.boxes]
        found: list[T.DataType] = []
        for columns, when in searched:
            given = [self.stream.schema[name].dataType for name in when.stream_columns]
            found += [probe_type(type_of(columns.types[0]), given)] * len(given)
        return found


def given_names(
    given: DataFrame | None, names: Sequence[str], columns: Sequence[str]
) -> dict[str, str | None]:
    """What the DataFrame that a table was given as calls columns; None for those it lacks."""
    own = [] if given is None else given.columns
    folded = {name.lower(): name for name in own}
    return {
        name: column if column in own else folded.get(column.lower())
        for name, column in zip(names, columns, strict=True)
    }


def plan_join(
    stream: DataFrame,
    join: ResolvedJoin,
    table: StoredTable | SourceTable,
    shape: Shape,
    fields: Sequence[T.StructField],
    given: DataFrame | None = None,
    table_bytes: int = 0,
) -> PlannedJoin:
    """Plan a join with a table, whatever its cache; the runtime is chosen later."""
    predicate = None
    if join.condition is not None and join.ranged is not None:
        predicate = predicate_of(join.condition, join.ranged, stream.schema)
        if join.where is not None and join.where.most is not None:
            # Any row may be the first one that passes; where one is enough, the order is no matter.
            is_any = join.where.how in ("semi", "anti")
            predicate = replace(predicate, n=_ALL, take="all" if is_any else predicate.take)
        if join.boxes:
            boxes = (predicate_of(b.condition, b.columns, stream.schema) for b in join.boxes)
            predicate = replace(
                predicate, boxes=tuple(boxes), box_columns=box_signature(join.boxes)
            )
    plan = JoinPlan(
        label=_next_label(stream, join),
        how=join.how,
        table=table,
        predicate=predicate,
        columns=join.columns,
        shape=shape,
        row_type=pa.struct(arrow_fields(_answer_row(fields))),
        reports=is_reported(stream, join.cycle),
        partitioned=_kind_of(join.partition),
        aggregates=_aggregates(join),
        marks=join.match is not None,
    )
    named = [one.field for one in join.aggregates] or [
        T.StructField(name, field.dataType, field.nullable, field.metadata)
        for name, field in zip(join.names, fields, strict=True)
    ]
    if join.match is not None:
        named.append(T.StructField(join.match, T.BooleanType(), False))
    return PlannedJoin(
        stream=stream,
        join=join,
        plan=plan,
        fields=tuple(named),
        read=tuple(fields),
        given=given,
        table_bytes=table_bytes,
    )


def _aggregates(join: ResolvedJoin) -> tuple[Aggregate, ...]:
    types = arrow_fields(T.StructType([one.field for one in join.aggregates]))
    return tuple(
        Aggregate(function=one.function, column=one.column, type=field.type, wraps=one.wraps)
        for one, field in zip(join.aggregates, types, strict=True)
    )


def _kind_of(partition: Partition) -> Literal["none", "hash", "hotspot"]:
    if partition is None:
        return "none"
    return "hash" if isinstance(partition, Hash) else "hotspot"


def _answer_row(fields: Sequence[T.StructField]) -> T.StructType:
    return T.StructType(
        [T.StructField(f"c{i}", f.dataType, f.nullable) for i, f in enumerate(fields)]
        or [T.StructField("none", T.BooleanType())]
    )


def _next_label(stream: DataFrame, join: ResolvedJoin) -> str:
    """A name for one more join of this application: its number and the stream's columns.

    The same join has the same number in all micro-batches of ``foreachBatch``. The columns are
    JSON, in ASCII: a name may hold anything, and Spark carries the label.
    """
    cycle, columns = join.cycle, [*join.stream_keys, *join.probes]
    if cycle is not None and cycle.state.label is not None:
        return cycle.state.label
    batch = None if cycle is not None or stream.isStreaming else micro_batch(stream)
    if batch is None:
        number = new_number()
    else:
        number = numbers.next(batch.query, batch.call, int(batch.number), tuple(columns))
    label = f"{number}:{json.dumps(columns)}"
    if cycle is not None:
        cycle.state.label = label
    return label


def clock_of(plan: JoinPlan) -> list[str]:
    """The time, in SQL, by which a worker chooses the version; none if the plan has it."""
    # The timestamp of the micro-batch is fixed in Spark's offset log: a replay has it again.
    follows = isinstance(plan.table, StoredTable) and plan.table.version is None
    return ["`current_timestamp`()"] if follows else []


def shape_of(how: str, columns: Sequence[str], unique: bool, longest_run: int) -> Shape:
    """Choose what the answer to one key is (docs/decisions/0001-plan.md).

    ``unique`` holds for all versions that the query may meet, ``longest_run`` for the present one.
    """
    if how in ("semi", "anti") or (unique and not columns):
        return "exists"
    if unique:
        return "row"
    # A list per key is faster; it is all in memory for a whole Arrow batch, so keys with many
    # rows are answered by the position of the rows, and these are fetched in pieces.
    return "rows" if longest_run <= PIECE_ROWS else "runs"
