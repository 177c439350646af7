"""Range joins in Spark: a prepared table and Spark's own joins."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

import bsjoin
from benchmarks.data.ranges import Case, cases, rows_of
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import Join, in_memory, in_runtimes
from benchmarks.harness.timing import Times, compare_joins, outcome, ratio
from benchmarks.ranges import spark_joins

OURS = "bsjoin"
_SLOW_S = 2.0  # what takes longer needs no warm-up after its answer has been checked
_WARM_UP = 5  # until the JVM has compiled what a case runs often
_FIRST_WARM_UP = 30  # until it has compiled Spark's planner, which all cases run
_BOUNDS = {"wide band": 1.2}


def run(context: Context) -> Outcome:
    """All cases, alternately; quick: three cases of a tenth of the rows instead of fifteen."""
    figures = []
    measured: dict[str, Times] = {}
    for number, case in enumerate(cases(context.quick, context.seed)):
        label = f"{case.name}, {case.size}"
        with (
            prepared(context, case, *rows_of(case)) as (ours, table, stream),
            spark_joins.alternatives(context.spark, case, table) as theirs,
        ):
            seconds = measured[label] = compare_joins(
                context, label, ours | theirs, stream, case.columns, context.pick(3, 9),
                warm_ups=warm_ups(context, number), slow_s=_SLOW_S,
            )[1]  # fmt: skip
        if case.name == "key, band":
            name = f"{label}: {spark_joins.WRITTEN} / bsjoin"
            figures.append(ratio(name, seconds[spark_joins.WRITTEN], seconds[OURS], 100.0))
        best = min((seconds[way] for way in theirs), key=statistics.median)
        name, bound = f"{label}: Spark at its best / bsjoin", _BOUNDS.get(case.name, 1.0)
        figures.append(ratio(name, best, seconds[OURS], bound))
    note = "Rows in memory for all ways; bsjoin's table is prepared."
    return outcome("Range joins in Spark", measured, figures, note)


def warm_ups(context: Context, case: int) -> int:
    """How often each way runs before a case, by its number, is measured."""
    return context.pick(0, _WARM_UP if case else _FIRST_WARM_UP)


@contextmanager
def prepared(
    context: Context, case: Case, rows: pa.Table, probes: pa.Table
) -> Iterator[tuple[dict[str, Join], DataFrame, DataFrame]]:
    """Bsjoin's joins, and table and stream in Spark's memory."""
    read, stream = (context.spark.createDataFrame(one) for one in (rows, probes))
    with in_memory(read.repartition(4), stream.repartition(2)) as (table, stream):
        built = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
        yield in_runtimes(partial(built.join, on=case.on, when=case.when), OURS), table, stream
