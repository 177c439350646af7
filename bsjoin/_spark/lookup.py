"""A look-up as part of a Spark plan: keys go to the workers, the stream's rows stay in the JVM.

Only the hash of the key (and the key, where hashes do not suffice) crosses to Python; Spark
keeps the stream's other columns and puts the answer beside them, so the cost does not grow
with the width of the stream's rows, and watermarks and column metadata live on.

The functions are marked as nondeterministic: the optimizer would otherwise move a later filter
below the look-up together with a second copy of it, and look everything up twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from bsjoin._plan import LookupPlan, Shape, SourcePlan
from bsjoin._spark.columns import unused
from bsjoin._spark.keys import KeySide
from bsjoin._spark.metrics import observed
from bsjoin._spark.nullability import as_not_null
from bsjoin._spark.workers import check_workers
from bsjoin.worker import full_cache, incremental_cache, notes

__all__ = ["clock_of", "look_up", "shape_of"]

_PIECE_ROWS = 64
_RUN = T.StructType([T.StructField("first", T.LongType()), T.StructField("count", T.LongType())])


def shape_of(how: str, columns: Sequence[str], unique: bool, longest_run: int) -> Shape:
    """Choose what a worker answers to a key (docs/decisions/0001-plan.md).

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
    # A list per key is the cheaper way; it is all in memory for a whole Arrow batch, so keys
    # with many rows are answered by where the rows lie, and these are fetched in pieces.
    return "rows" if longest_run <= _PIECE_ROWS else "runs"


@dataclass(frozen=True)
class _Scratch:
    """What the columns are called that a look-up adds and drops again.

    Args:
        answer: what a worker has answered.
        note: its note.
        both: the two in one column.
        piece: where a piece of a run begins.
        row: before the names of a row's fields.
    """

    answer: str
    note: str
    both: str
    piece: str
    row: str

    @classmethod
    def beside(cls, columns: Iterable[str]) -> _Scratch:
        """Names that no other column has."""
        return cls(*unused(columns, *(f"bsjoin_{field.name}" for field in fields(cls))))

    def field(self, name: str) -> str:
        """The column of one field of a row."""
        return f"{name}_{self.row}"


def look_up(
    stream: DataFrame,
    key: KeySide,
    plan: LookupPlan | SourcePlan,
    row: T.StructType,
    how: str,
    names: Sequence[tuple[str, dict[str, Any]]],
) -> DataFrame:
    """Put a look-up behind a DataFrame.

    Args:
        stream: the probe side.
        key: its key, comparable with the table's.
        plan: what the workers do.
        row: Spark type of one row of the table, as the plan's columns.
        how: "inner", "left", "semi" or "anti".
        names: name and metadata of the plan's columns in the result.

    Returns:
        The stream's columns, then (inner, left) the table's.

    Raises:
        WorkerEnvironmentError: the workers cannot run it.
    """
    check_workers(stream.sparkSession)
    clock = [] if isinstance(plan, SourcePlan) else clock_of(plan)
    ours = _Scratch.beside([*stream.columns, *(name for name, _ in names)])
    if isinstance(plan, SourcePlan):
        answers = _asked(stream, key, plan, row, ours)
    else:
        added = [_answer(plan, row)(key.hash, *clock, *key.compared).alias(ours.answer)]
        if plan.reports:
            added.append(_note(plan)(key.hash).alias(ours.note))
        answers = stream.select("*", *added)
    if plan.reports:
        answers = observed(answers, plan, how, F.col(ours.answer), F.col(ours.note))
    answer = F.col(ours.answer)
    scratch = [ours.answer, ours.note, ours.piece]
    if plan.shape == "exists":
        if how != "left":
            answers = answers.where(~answer if how == "anti" else answer)
        return answers.drop(*scratch)
    if plan.shape == "row":
        if how == "inner":
            answers = answers.where(answer.isNotNull())
        values = [answer.getField(field.name) for field in row.fields]
        if how == "inner":
            values = [as_not_null(v, f) for v, f in zip(values, row.fields, strict=True)]
        columns = [
            value.alias(name, metadata=metadata)
            for value, (name, metadata) in zip(values, names, strict=True)
        ]
        return answers.select("*", *columns).drop(*scratch)
    if plan.shape == "runs":
        assert isinstance(plan, LookupPlan)
        answers = _in_pieces(answers, plan, row, how, clock, ours)
    return _unrolled(answers, row, how, names, ours).drop(*scratch)


def _in_pieces(
    answers: DataFrame,
    plan: LookupPlan,
    row: T.StructType,
    how: str,
    clock: list[Column],
    ours: _Scratch,
) -> DataFrame:
    """Replace each run by lists of at most 64 rows, one beside each copy of the stream's row."""
    answer, piece = F.col(ours.answer), F.col(ours.piece)
    last = answer.getField("count") - 1
    starts = F.when(answer.isNotNull(), F.sequence(F.lit(0).cast("long"), last, F.lit(_PIECE_ROWS)))
    explode = F.explode_outer if how == "left" else F.explode
    cut = answers.select("*", explode(starts).alias(ours.piece))
    first = F.coalesce(answer.getField("first") + piece, F.lit(0))
    # `least` skips nulls: a miss must be told apart first.
    size = F.least(answer.getField("count") - piece, F.lit(_PIECE_ROWS))
    count = F.when(answer.isNotNull(), size).otherwise(F.lit(0))
    rows = _gather(plan, row)(first, count, *clock)
    return cut.withColumn(ours.answer, rows)


def _unrolled(
    answers: DataFrame,
    row: T.StructType,
    how: str,
    names: Sequence[tuple[str, dict[str, Any]]],
    ours: _Scratch,
) -> DataFrame:
    """One output row per row in the list; a left join keeps the stream's row without one."""
    unroll = F.inline_outer if how == "left" else F.inline
    inner = [ours.field(field.name) for field in row.fields]
    columns = [
        F.col(hidden).alias(name, metadata=metadata)
        for hidden, (name, metadata) in zip(inner, names, strict=False)
    ]
    unrolled = answers.select("*", unroll(F.col(ours.answer)).alias(*inner))
    return unrolled.select("*", *columns).drop(*inner)


def clock_of(plan: LookupPlan) -> list[Column]:
    """What tells a worker the table's version, where the plan does not."""
    # The timestamp of the micro-batch is fixed in Spark's offset log: a replay has it again.
    return [] if plan.version is not None else [F.current_timestamp()]


def _asked(
    stream: DataFrame, key: KeySide, plan: SourcePlan, row: T.StructType, ours: _Scratch
) -> DataFrame:
    """The stream with the source's answers beside it, and the notes if the plan reports.

    The function takes batch after batch, so that the worker may ask for several at once.
    """

    def bsjoin_lookup(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return incremental_cache.answers(plan, batches)

    returned = _answered(plan.shape, row)
    if not plan.reports:
        answer = _function(bsjoin_lookup, returned)(key.hash, *key.compared)
        return stream.select("*", answer.alias(ours.answer))
    both = T.StructType([T.StructField("answer", returned), T.StructField("note", T.StringType())])
    answers = stream.select(
        "*", _function(bsjoin_lookup, both)(key.hash, *key.compared).alias(ours.both)
    )
    answer, note = (F.col(ours.both).getField(name) for name in ("answer", "note"))
    return answers.select("*", answer.alias(ours.answer), note.alias(ours.note)).drop(ours.both)


def _answered(shape: Shape, row: T.StructType) -> T.DataType:
    """The Spark type of an answer."""
    returned: dict[Shape, T.DataType] = {
        "exists": T.BooleanType(),
        "row": row,
        "rows": T.ArrayType(row, containsNull=False),
        "runs": _RUN,
    }
    return returned[shape]


def _answer(plan: LookupPlan, row: T.StructType) -> Callable[..., Column]:
    timed = plan.version is None

    def bsjoin_lookup(*columns: pa.Array) -> pa.Array:
        hashes, *rest = columns
        batch_time = rest.pop(0) if timed else None
        return full_cache.answer(plan, hashes, batch_time, rest)

    return _function(bsjoin_lookup, _answered(plan.shape, row))


def _gather(plan: LookupPlan, row: T.StructType) -> Callable[..., Column]:
    def bsjoin_gather(first: pa.Array, count: pa.Array, *batch_time: pa.Array) -> pa.Array:
        return full_cache.gather(plan, batch_time[0] if batch_time else None, first, count)

    return _function(bsjoin_gather, T.ArrayType(row, containsNull=False))


def _note(plan: LookupPlan) -> Callable[..., Column]:
    label = plan.label

    def bsjoin_note(hashes: pa.Array) -> pa.Array:
        return notes.fetch(label, len(hashes))

    return _function(bsjoin_note, T.StringType())


def _function(function: Callable[..., Any], returned: T.DataType) -> Callable[..., Column]:
    made = arrow_udf(function, returned).asNondeterministic()
    return made  # type: ignore[no-any-return]
