"""The transfer mode of keys only: keys go to the workers, the stream's rows stay in the JVM.

Only the hash of the key (and the key, where hashes do not suffice) crosses to Python; Spark
keeps the stream's other columns and puts the answer beside them, so the cost does not grow
with the width of the stream's rows, and watermarks and column metadata stay.

The functions are marked as nondeterministic: the optimizer would otherwise move a later filter
below the look-up together with a second copy of it, and look everything up twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from bsjoin.metrics.observing import name_of, observed
from bsjoin.plan import JoinPlan, Shape, StoredTable
from bsjoin.planner.columns import unused
from bsjoin.planner.nullability import as_not_null
from bsjoin.planner.planned_join import PIECE_ROWS, PlannedJoin, clock_of
from bsjoin.runtimes.python.worker import full_cache, incremental_cache, notes

_RUN = T.StructType([T.StructField("first", T.LongType()), T.StructField("count", T.LongType())])


class _Scratch(NamedTuple):
    """The names of the columns that a look-up adds and drops again.

    Args:
        answer: what a worker has answered.
        note: its note.
        both: the two in one column.
        piece: where a piece of a run begins.
        match: whether there is one, of rows that are repeated then.
        place: of a row in its list.
        row: a row of a list; behind the names of its fields.
    """

    answer: str
    note: str
    both: str
    piece: str
    match: str
    place: str
    row: str


def joined(planned: PlannedJoin, rows: DataFrame) -> DataFrame:
    """The stream's columns, then (inner, left) what an equality join brings."""
    plan, how = planned.plan, planned.plan.how
    taken = [*rows.columns, *(field.name for field in planned.fields)]
    ours = _Scratch(*unused(taken, *(f"bsjoin_{name}" for name in _Scratch._fields)))
    answers = _answered(planned, rows, ours)
    if plan.reports:
        answers = observed(answers, planned.join.cycle, name_of(plan), F.col(ours.note))
    answer = F.col(ours.answer)
    scratch = [ours.answer, ours.note, ours.piece, ours.match]
    if plan.shape == "exists":
        if how != "left":
            answers = answers.where(~answer if how == "anti" else answer)
        if match := _match(planned, F.coalesce(answer, F.lit(False))):
            answers = answers.select("*", *match)
        return answers.drop(*scratch)
    if plan.shape == "row":
        if how == "inner":
            answers = answers.where(answer.isNotNull())
        values = [answer.getField(field.name) for field in planned.row.fields]
        if how == "inner":
            fields = planned.row.fields
            values = [as_not_null(v, f) for v, f in zip(values, fields, strict=True)]
        columns = [
            value.alias(field.name, metadata=field.metadata)
            for value, field in zip(values, _of_table(planned), strict=True)
        ]
        columns += _match(planned, answer.isNotNull())
        return answers.select("*", *columns).drop(*scratch)
    if plan.marks and how == "left":  # behind the next step it would keep the answer in each row
        answers = answers.select("*", answer.isNotNull().alias(ours.match))
    if plan.shape == "runs":
        answers = _in_pieces(answers, planned, ours)
    return _unrolled(answers, planned, ours).drop(*scratch)


def _of_table(planned: PlannedJoin) -> Sequence[T.StructField]:
    return planned.fields[: len(planned.read)]


def _match(planned: PlannedJoin, found: Column) -> list[Column]:
    """The column that says whether there is a match; none if the join has none."""
    if not planned.plan.marks:
        return []
    found = found if planned.plan.how == "left" else F.lit(True)
    return [found.alias(planned.fields[len(planned.read)].name)]


def _in_pieces(answers: DataFrame, planned: PlannedJoin, ours: _Scratch) -> DataFrame:
    """Replace each run by lists of at most 64 rows, one beside each copy of the stream's row."""
    plan, answer, piece = planned.plan, F.col(ours.answer), F.col(ours.piece)
    last = answer.getField("count") - 1
    starts = F.when(answer.isNotNull(), F.sequence(F.lit(0).cast("long"), last, F.lit(PIECE_ROWS)))
    explode = F.explode_outer if plan.how == "left" else F.explode
    cut = answers.select("*", explode(starts).alias(ours.piece))
    first = F.coalesce(answer.getField("first") + piece, F.lit(0))
    # `least` skips nulls: a miss must be excluded first.
    size = F.least(answer.getField("count") - piece, F.lit(PIECE_ROWS))
    count = F.when(answer.isNotNull(), size).otherwise(F.lit(0))
    rows = _gather(plan, planned.row)(first, count, *map(F.expr, clock_of(plan)))
    return cut.withColumn(ours.answer, rows)


def _unrolled(answers: DataFrame, planned: PlannedJoin, ours: _Scratch) -> DataFrame:
    """One output row per row in the list; a left join keeps the stream's row without one."""
    plan, answer = planned.plan, F.col(ours.answer)
    inner = [f"{field.name}_{ours.row}" for field in planned.row.fields]
    values = [F.col(hidden) for hidden in inner]
    if plan.begins:
        unroll = F.posexplode_outer if plan.how == "left" else F.posexplode
        inner = [ours.place, ours.row]
        values = [F.col(ours.row).getField(field.name) for field in planned.row.fields]
    else:
        unroll = F.inline_outer if plan.how == "left" else F.inline
    columns = [
        value.alias(field.name, metadata=field.metadata)
        for value, field in zip(values, _of_table(planned), strict=False)
    ]
    unrolled = answers.select("*", unroll(answer).alias(*inner))
    columns += _match(planned, F.col(ours.match))
    if plan.begins:
        places = [ours.place, *[ours.piece] * (plan.shape == "runs")]
        begins = [F.coalesce(F.col(name), F.lit(0)) == 0 for name in places]
        columns.append(functools.reduce(Column.__and__, begins).alias(planned.fields[-1].name))
    return unrolled.select("*", *columns).drop(*inner)


def _answered(planned: PlannedJoin, stream: DataFrame, ours: _Scratch) -> DataFrame:
    """The stream with the answers beside it, and the notes if the plan reports."""
    plan, key = planned.plan, planned.key()
    hash_, compared = F.expr(key.hash), map(F.expr, key.compared)
    returned = _answer_type(plan.shape, planned.row)
    if isinstance(plan.table, StoredTable):
        answer = _function(_stored_lookup(plan, plan.table), returned)
        added = [answer(hash_, *map(F.expr, clock_of(plan)), *compared).alias(ours.answer)]
        if plan.reports:
            added.append(_note(plan)(hash_).alias(ours.note))
        return stream.select("*", *added)
    lookup = _source_lookup(plan)
    if not plan.reports:
        answer = _function(lookup, returned)
        return stream.select("*", answer(hash_, *compared).alias(ours.answer))
    both = T.StructType([T.StructField("answer", returned), T.StructField("note", T.StringType())])
    answers = stream.select("*", _function(lookup, both)(hash_, *compared).alias(ours.both))
    found, note = (F.col(ours.both).getField(name) for name in ("answer", "note"))
    return answers.select("*", found.alias(ours.answer), note.alias(ours.note)).drop(ours.both)


def _answer_type(shape: Shape, row: T.StructType) -> T.DataType:
    returned: dict[Shape, T.DataType] = {
        "exists": T.BooleanType(),
        "row": row,
        "rows": T.ArrayType(row, containsNull=False),
        "runs": _RUN,
    }
    return returned[shape]


def _stored_lookup(plan: JoinPlan, table: StoredTable) -> Callable[..., pa.Array]:
    timed = table.version is None

    def bsjoin_lookup(*columns: pa.Array) -> pa.Array:
        hashes, *rest = columns
        batch_time = rest.pop(0) if timed else None
        return full_cache.answer(plan, hashes, batch_time, rest)

    return bsjoin_lookup


def _source_lookup(plan: JoinPlan) -> Callable[..., Iterator[pa.Array]]:
    """A function that takes batch after batch, so that several are looked up at once."""

    def bsjoin_lookup(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        task = TaskContext.get()
        notes.begin(None if task is None else task.partitionId())
        return incremental_cache.answers(plan, batches)

    return bsjoin_lookup


def _gather(plan: JoinPlan, row: T.StructType) -> Callable[..., Column]:
    def bsjoin_gather(first: pa.Array, count: pa.Array, *batch_time: pa.Array) -> pa.Array:
        return full_cache.gather(plan, batch_time[0] if batch_time else None, first, count)

    return _function(bsjoin_gather, T.ArrayType(row, containsNull=False))


def _note(plan: JoinPlan) -> Callable[..., Column]:
    label = plan.label

    def bsjoin_note(hashes: pa.Array) -> pa.Array:
        return notes.fetch(label, len(hashes))

    return _function(bsjoin_note, T.StringType())


def _function(function: Callable[..., Any], returned: T.DataType) -> Callable[..., Column]:
    made = arrow_udf(function, returned).asNondeterministic()
    return made  # type: ignore[no-any-return]
