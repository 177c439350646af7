"""``where=`` of a join that is no filter above it, whose candidates Python workers find.

Spark checks each candidate, unless workers do (:mod:`bsjoin.planner.checks`). So the condition may
be any expression of Spark, of columns of any type, and the columns keep their names and metadata.

Where keys do not repeat, a row of the stream has one candidate at most, and the outcome decides.
Elsewhere the worker that finds candidates says which one is the first of its row of the stream (in
a stream rows get no numbers); another one gets this and the outcome alone, and decides which
candidates are rows of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from bsjoin.planner.columns import unused
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.references import with_computed, with_table_columns
from bsjoin.planner.where import Where
from bsjoin.runtimes.python.worker import passing
from bsjoin.spark import sql
from bsjoin.spark.session import is_connect
from bsjoin.spark.sql import quoted


def matched(
    planned: PlannedJoin,
    rows: DataFrame,
    candidates: Callable[[PlannedJoin, DataFrame], DataFrame],
) -> DataFrame:
    """The stream's rows and their matches; without the table's columns for a semi or anti join.

    It is a left join, or an as-of join, with ``where``; ``candidates`` carries out the join that
    finds them.
    """
    join, where = planned.join, planned.join.where
    assert where is not None
    # That no key repeats is checked of each version that the workers read.
    is_alone = planned.plan.needs_unique
    names = [field.name for field in planned.fields]
    hidden = [f"bsjoin_c{number}" for number in range(len(names))]
    passes, decision, begins, *hidden = unused(
        [*rows.columns, *names], "bsjoin_passes", "bsjoin_decision", "bsjoin_begins", *hidden
    )
    own = hidden[: len(join.names)]
    match = None if join.match is None else hidden[-1]
    fields = [
        T.StructField(name, field.dataType, field.nullable, field.metadata)
        for name, field in zip(hidden, planned.fields, strict=True)
    ]
    if not is_alone:
        hidden.append(begins)
        fields.append(T.StructField(begins, T.BooleanType(), False))
    unnamed = replace(
        planned,
        plan=replace(planned.plan, begins=not is_alone),
        join=replace(join, names=tuple(own), match=match, where=None),
        fields=tuple(fields),
        given=None,
    )
    found = candidates(unnamed, rows)
    # The names, and what references mean, for the condition alone: in the result the columns of a
    # candidate that does not pass are null, and a reference means one thing in a plan.
    named = _named(found, planned, map(quoted, hidden[: len(names)]))
    named = with_table_columns(named, planned, hidden)
    passing_pairs = where.condition
    if match is not None:
        passing_pairs = F.when(F.col(match), passing_pairs)
    outcome = F.coalesce(passing_pairs, F.lit(False))
    decided = with_computed(found, named, names, outcome, passes, len(hidden) - len(names))
    ours = [*hidden, passes, decision]
    kept = quoted(passes)
    if not is_alone:
        decides = _decision(where)(F.col(begins), F.col(passes)).alias(decision)
        decided = decided.select("*", decides).where(F.col(decision) != passing.DROP)
        kept = f"{quoted(decision)} <=> {passing.KEEP}"
    elif where.how != "left":
        decided = decided.where(kept if where.how == "semi" else f"NOT {kept}")
    if where.how in ("semi", "anti"):
        return decided.drop(*ours)
    values = [*map(quoted, hidden[: len(names)])]
    if where.how == "left":
        values = [*(sql.case((kept, quoted(name))) for name in own), *[kept] * planned.plan.marks]
    result = _named(decided, planned, values).drop(*ours)
    return with_table_columns(result, planned)


def _named(rows: DataFrame, planned: PlannedJoin, values: Iterable[str]) -> DataFrame:
    """Rows with values, in SQL, under the names that what the join brings has in the result."""
    named = list(zip(planned.fields, values, strict=True))
    as_columns = is_connect(rows.sparkSession) or any(field.metadata for field, _ in named)
    if not as_columns:  # a text is one call of the JVM for all of them
        return sql.select(rows, *(f"{value} AS {quoted(field.name)}" for field, value in named))
    columns = [F.expr(value).alias(field.name, metadata=field.metadata) for field, value in named]
    return rows.select("*", *columns)


def _decision(where: Where) -> Callable[..., Column]:
    how, most = where.how, where.most

    def bsjoin_where(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return passing.decisions(how, batches, most)

    # Not deterministic: Spark must neither move it nor evaluate it twice.
    made = arrow_udf(bsjoin_where, T.ByteType()).asNondeterministic()
    return made  # type: ignore[no-any-return]
