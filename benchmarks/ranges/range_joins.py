"""Range joins in Spark: a prepared table and Spark's own joins, on the same rows."""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import MATCHING, Case, cases, stored
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, consume, fingerprint, persisted
from benchmarks.harness.timing import alternate, check_equal, ratio, seconds_of
from benchmarks.ranges.comparison import Found, best_rival, draw, say_case, table_of
from benchmarks.ranges.spark_joins import WRITTEN, alternatives

OURS = "bsjoin"
_SLOW_S = 2.0  # what takes longer needs no warm-up after its answer has been checked


def run(context: Context) -> Outcome:
    """Measure; quick: three cases of a tenth of the rows instead of fifteen."""
    found = {case.name: _measure(context, case) for case in cases(context.quick, context.seed)}
    picture = context.out / "range-joins.svg"
    draw(found, OURS, "Spark on the same rows: its time over that of bsjoin's join", picture)
    note = "Rows in memory for all ways; bsjoin's table is prepared, its build time is a column."
    table = table_of("Range joins in Spark: median ms by way", found, OURS, note)
    return Outcome(_figures(found, quick=context.quick), [table], [picture], found)


def _measure(context: Context, case: Case) -> dict[str, Any]:
    """Seconds of every way, alternately; table and stream are persisted.

    A time begins with the call that makes the joined DataFrame and ends when all its rows are in
    a sink that discards them.
    """
    files = stored(case, context.data)
    table, stream = in_memory(context.spark, files[0], 4), in_memory(context.spark, files[1], 2)
    built: list[bsjoin.BatchTable] = []
    build_s = seconds_of(
        lambda: built.append(bsjoin.BatchTable.build(table, on=case.on, when=case.when))
    )

    def ours(some: DataFrame) -> DataFrame:
        return built[0].join(some, case.on, when=case.when)

    with alternatives(context.spark, case, table) as theirs:
        joins = {OURS: ours, **theirs}
        spent, pairs = check(case, joins, stream)
        ways = {
            name: partial(seconds_of, lambda join=join: consume(join(stream)))  # type: ignore[misc]
            for name, join in joins.items()
        }
        slow = [name for name, seconds in spent.items() if seconds > _SLOW_S]
        seconds = alternate(ways, 3, warm=slow, slow_s=3.0)
        plan_s = [seconds_of(ours, stream) for _ in range(3)]
    for df in (table, stream):
        df.unpersist(blocking=True)
    found = {"size": case.size, "pairs": pairs, "build_s": build_s, "seconds": seconds}
    say_case(case, found, OURS, context.say)
    return found | {"plan_s": statistics.median(plan_s)}


def in_memory(spark: SparkSession, file: Path, partitions: int) -> DataFrame:
    """The rows of a file, persisted."""
    return persisted(spark.read.parquet(str(file)).repartition(partitions))


def check(case: Case, joins: dict[str, Join], stream: DataFrame) -> tuple[dict[str, float], int]:
    """The seconds of each way's first answer, and its number of rows; all must be equal."""
    answers: dict[str, tuple[int, int]] = {}

    def answer(name: str) -> None:
        answers[name] = fingerprint(joins[name](stream), case.columns)

    spent = {name: seconds_of(answer, name) for name in joins}
    return spent, check_equal(answers)[0]


def _figures(found: Found, *, quick: bool) -> list[Figure]:
    """Spark's join as written (full sizes), and Spark's best alternative.

    Where nearly all pairs match, quick sizes are so small that both take a query's fixed cost.
    """
    figures = []
    for name, one in found.items():
        ours, label = one["seconds"][OURS], f"{name}, {one['size']}"
        if name == "key, band":
            bound = None if quick else 50.0
            theirs = one["seconds"][WRITTEN]
            figures.append(ratio(f"{label}: {WRITTEN} / bsjoin", theirs, ours, bound))
        bound = None if quick and name.endswith(MATCHING) else 1.0
        best = best_rival(one, OURS)
        figures.append(ratio(f"{label}: Spark at its best / bsjoin", best, ours, bound))
    return figures
