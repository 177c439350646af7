"""Range joins in Spark: a prepared table and Spark's own joins."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import MATCHING, Case, cases, stored
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, consume, fingerprint, in_runtime, persisted
from benchmarks.harness.timing import check_equal, ratio, seconds_of, time_joins
from benchmarks.ranges import spark_joins

T = TypeVar("T")
Found = dict[str, dict[str, Any]]
"""By case: ``size``, ``pairs``, ``build_s`` (of ours) and ``seconds``, by way."""

OURS, PYTHON = "bsjoin", "bsjoin, Python"
_SLOW_S = 2.0  # what takes longer needs no warm-up after its answer has been checked
_WARM_UP = 5  # until the JVM has compiled what a case runs often
_FIRST_WARM_UP = 30  # until it has compiled Spark's planner, which all cases run
_BOUNDS = {"wide band": 1.2}


def run(context: Context) -> Outcome:
    """All cases, alternately; quick: three cases of a tenth of the rows instead of fifteen."""
    listed = cases(context.quick, context.seed)
    found = {case.name: _measure(context, number, case) for number, case in enumerate(listed)}
    return compared(
        found, _figures(found, quick=context.quick),
        "bsjoin and Spark on the same rows, ms",
        "Range joins in Spark: median ms by way",
        "Rows in memory for all ways; bsjoin's table is prepared, its build time is a column.",
    )  # fmt: skip


def compared(found: Found, figures: list[Figure], title: str, head: str, note: str) -> Outcome:
    """A table, ``head``, with cases as rows and ways as columns; ``title`` is its picture's."""
    ways = dict.fromkeys(way for one in found.values() for way in one["seconds"])
    rows = []
    for case, one in found.items():
        ms = {way: statistics.median(seconds) * 1e3 for way, seconds in one["seconds"].items()}
        faster = ", ".join(way for way in ms if ms[way] < ms[OURS])
        rows.append(
            {"case": f"{case}, {one['size']}", "matches": one["pairs"], "build, s": one["build_s"]}
            | {f"{way}, ms": ms.get(way) for way in ways}
            | {"faster than ours": faster or "none"}
        )
    heads = [f"{way}, ms" for way in ways]
    table = Table.of(head, rows, note).drawn("bars", "case", *heads, title=title, yscale="log")
    return Outcome(figures, [table], measured=found)


def warm_ups(case: int, *, quick: bool) -> int:
    """How often each way runs before a case, by its number, is measured."""
    if quick:
        return 0
    return _WARM_UP if case else _FIRST_WARM_UP


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call takes, and its result."""
    results: list[T] = []
    return seconds_of(lambda: results.append(action())), results[0]


@contextmanager
def prepared(context: Context, case: Case) -> Iterator[tuple[float, Join, DataFrame, DataFrame]]:
    """Seconds of a build, bsjoin's join, and table and stream in Spark's memory."""
    files = stored(case, context.data)
    table, stream = _in_memory(context.spark, files[0], 4), _in_memory(context.spark, files[1], 2)
    build_s, built = timed(lambda: bsjoin.BatchTable.build(table, on=case.on, when=case.when))
    try:
        yield build_s, lambda some: built.join(some, case.on, when=case.when), table, stream
    finally:
        for df in (table, stream):
            df.unpersist(blocking=True)


def _measure(context: Context, number: int, case: Case) -> dict[str, Any]:
    """Seconds of every way; table and stream are persisted."""
    with (
        prepared(context, case) as (build_s, ours, table, stream),
        spark_joins.alternatives(context.spark, case, table) as theirs,
    ):
        joins = {OURS: in_runtime("jvm", ours), PYTHON: in_runtime("python", ours), **theirs}
        spent, pairs = _check(case, joins, stream)
        slow = [name for name, seconds in spent.items() if seconds > _SLOW_S]
        for join in (join for name, join in joins.items() if name not in slow):
            for _ in range(warm_ups(number, quick=context.quick)):
                consume(join(stream))
        label = f"{case.name}, {case.size}"
        rounds = context.pick(3, 9)
        seconds = time_joins(context, label, joins, stream, rounds, warm=slow, slow_s=1.5)
    return {"size": case.size, "pairs": pairs, "build_s": build_s, "seconds": seconds}


def _in_memory(spark: SparkSession, file: Path, partitions: int) -> DataFrame:
    """The rows of a file, in Spark's memory."""
    return persisted(spark.read.parquet(str(file)).repartition(partitions))


def _check(case: Case, joins: dict[str, Join], stream: DataFrame) -> tuple[dict[str, float], int]:
    """The seconds of each way's first answer, and its number of rows; all must be equal."""
    found = {
        name: timed(lambda join=join: fingerprint(join(stream), case.columns))  # type: ignore[misc]
        for name, join in joins.items()
    }
    right = check_equal({name: answer for name, (_, answer) in found.items()})
    return {name: seconds for name, (seconds, _) in found.items()}, right[0]


def _figures(found: Found, *, quick: bool) -> list[Figure]:
    """Spark's join as written (full sizes), and Spark's best alternative.

    Where nearly all pairs match, quick sizes are so small that both take a query's fixed cost.
    """
    figures = []
    for name, one in found.items():
        ours, label = one["seconds"][OURS], f"{name}, {one['size']}"
        if name == "key, band":
            bound, theirs = None if quick else 100.0, one["seconds"][spark_joins.WRITTEN]
            figures.append(ratio(f"{label}: {spark_joins.WRITTEN} / bsjoin", theirs, ours, bound))
        bound = None if quick and name.endswith(MATCHING) else _BOUNDS.get(name, 1.0)
        rivals = [s for way, s in one["seconds"].items() if way not in (OURS, PYTHON)]
        best = min(rivals, key=statistics.median)
        figures += [
            ratio(f"{label}: Spark at its best / bsjoin", best, ours, bound),
            ratio(f"{label}: {PYTHON} / bsjoin", one["seconds"][PYTHON], ours),
        ]
    return figures
