"""Range joins in Spark, at once and in a stream: a prepared table and Spark's own joins."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import MATCHING, Case, cases, probes, stored
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import (
    Join,
    consume,
    fingerprint,
    in_runtime,
    persisted,
    rate_stream,
    time_batches,
)
from benchmarks.harness.timing import check_equal, ratio, seconds_of, time_joins
from benchmarks.ranges import spark_joins
from benchmarks.ranges.comparison import Found, best_rival, compared, timed, warm_ups

OURS, PYTHON = "bsjoin", "bsjoin, Python"
_SLOW_S = 2.0  # what takes longer needs no warm-up after its answer has been checked

_BOUNDS = {"wide band": 1.2}
BATCHES = 20
_SLOW_ROWS = 50_000
_SLOW_BATCHES = 2


def run(context: Context) -> Outcome:
    """All cases, alternately; quick: three cases of a tenth of the rows instead of fifteen."""
    listed = cases(context.quick, context.seed)
    found = {case.name: _measure(context, number, case) for number, case in enumerate(listed)}
    return compared(
        found, OURS, _figures(found, quick=context.quick),
        "Spark on the same rows: its time over that of bsjoin's join",
        "Range joins in Spark: median ms by way",
        "Rows in memory for all ways; bsjoin's table is prepared, its build time is a column.",
    )  # fmt: skip


def _measure(context: Context, number: int, case: Case) -> dict[str, Any]:
    """Seconds of every way; table and stream are persisted."""
    files = stored(case, context.data)
    table, stream = in_memory(context.spark, files[0], 4), in_memory(context.spark, files[1], 2)
    build_s, built = timed(lambda: bsjoin.BatchTable.build(table, on=case.on, when=case.when))

    def ours(some: DataFrame) -> DataFrame:
        return built.join(some, case.on, when=case.when)

    with spark_joins.alternatives(context.spark, case, table) as theirs:
        joins = {OURS: in_runtime("jvm", ours), PYTHON: in_runtime("python", ours), **theirs}
        spent, pairs = _check(case, joins, stream)
        slow = [name for name, seconds in spent.items() if seconds > _SLOW_S]
        for join in (join for name, join in joins.items() if name not in slow):
            for _ in range(warm_ups(number, quick=context.quick)):
                consume(join(stream))
        label = f"{case.name}, {case.size}"
        rounds = context.pick(3, 9)
        seconds = time_joins(context, label, joins, stream, rounds, warm=slow, slow_s=1.5)
        plan_s = [seconds_of(ours, stream) for _ in range(3)]
    for df in (table, stream):
        df.unpersist(blocking=True)
    found = {"size": case.size, "pairs": pairs, "build_s": build_s, "seconds": seconds}
    return found | {"plan_s": statistics.median(plan_s)}


def in_memory(spark: SparkSession, file: Path, partitions: int) -> DataFrame:
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
        python, best = one["seconds"][PYTHON], best_rival(one, OURS, PYTHON)
        figures += [
            ratio(f"{label}: Spark at its best / bsjoin", best, ours, bound),
            ratio(f"{label}: {PYTHON} / bsjoin", python, ours),
        ]
    return figures


def range_streams(context: Context) -> Outcome:
    """Twenty micro-batches joined by a band, including the build of the table.

    Quick: a table of 200,000 rows, micro-batches of 1,000, one round.
    """
    case = cases(context.quick, context.seed)[0]
    found = _measure_streams(context, case, context.pick([1_000], [5_000, 100_000]))
    rows = [
        {
            "rows a micro-batch": f"{many:,}",
            "way": name,
            "prepare, s": statistics.median(one["prepare"]),
            "a micro-batch, ms": statistics.median(s for b in one["batches"] for s in b) * 1e3,
            "all, s": statistics.median(_total(one)),
        }
        for many, ways in found.items()
        for name, one in ways.items()
    ]
    note = f"All: preparation and {BATCHES} micro-batches; extrapolated where Spark takes minutes."
    table = Table.of(f"A band with a key, {case.rows:,} rows in the table", rows, note)
    figures = []
    bounds = context.pick((None, None), (10.0, 1.0))
    for many, ways in found.items():
        totals = {name: _total(one) for name, one in ways.items()}
        ours, written = totals.pop(OURS), totals[spark_joins.WRITTEN]
        python = totals.pop(PYTHON)
        best = min(totals.values(), key=statistics.median)
        label = f"{BATCHES} micro-batches of {many:,}, build counted"
        figures += [
            ratio(f"{label}: {spark_joins.WRITTEN} / bsjoin", written, ours, bounds[0]),
            ratio(f"{label}: Spark at its best / bsjoin", best, ours, bounds[1]),
            ratio(f"{label}: {PYTHON} / bsjoin", python, ours),
        ]
    return Outcome(figures, [table], [], found)


def _measure_streams(context: Context, case: Case, batch_rows: list[int]) -> dict[int, Any]:
    """Seconds of 20 micro-batches from a table that is not indexed or binned yet.

    Returns:
        By rows of a micro-batch and way: ``prepare``, the seconds of building or binning, and
        ``batches``, those of the micro-batches (``addBatch``) of each run. Where Spark's own join
        would take minutes only two micro-batches run.
    """
    spark = context.spark
    table = in_memory(spark, stored(case, context.data)[0], 4)

    def build() -> Join:
        indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
        return lambda stream: bsjoin.join(stream, indexed, case.on, when=case.when)

    prepare: dict[str, Callable[[], Join]] = {
        OURS: build,
        PYTHON: lambda: in_runtime("python", build()),
        spark_joins.WRITTEN: lambda: partial(spark_joins.written_join, case, table),
        spark_joins.JOIN: lambda: partial(spark_joins.spark_join, case, table),
        spark_joins.BINS: lambda: partial(
            spark_joins.binned_join, case, persisted(spark_joins.binned(case, table))
        ),
    }
    if context.quick:
        del prepare[spark_joins.JOIN]
    sample = probes(spark.range(5_000), "id", case)
    _check(case, {name: made() for name, made in prepare.items()}, sample)
    found: dict[int, Any] = {}
    for rows in batch_rows:
        found[rows] = {name: {"prepare": [], "batches": []} for name in prepare}
        for number, (name, made) in product(range(context.pick(1, 2)), prepare.items()):
            slow = name in (spark_joins.WRITTEN, spark_joins.JOIN) and rows >= _SLOW_ROWS
            if slow and number:
                continue
            spark_joins.binned(case, table).unpersist()  # so that bins are made anew
            prepare_s, join = timed(made)
            stream = join(probes(rate_stream(spark, rows), "value", case))
            spent = time_batches(stream, _SLOW_BATCHES if slow else BATCHES, 0)
            one = found[rows][name]
            one["prepare"].append(prepare_s)
            one["batches"].append([ms / 1e3 for ms in spent])
            context.say(
                f"  {rows:>9,} rows  {name:<18} prepared in {prepare_s:5.1f} s, "
                f"{statistics.median(spent):8.1f} ms a micro-batch, all {_total(one)[-1]:.1f} s"
            )
    spark_joins.binned(case, table).unpersist()
    table.unpersist(blocking=True)
    return found


def _total(one: dict[str, list[Any]]) -> list[float]:
    """Seconds of preparation and of 20 micro-batches, by run."""
    return [
        prepare + sum(batches) * BATCHES / len(batches)
        for prepare, batches in zip(one["prepare"], one["batches"], strict=True)
    ]
