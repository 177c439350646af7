"""Twenty micro-batches joined by a band, including the build of the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

import bsjoin
from benchmarks.data.ranges import Case, cases, probes, stored
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, persisted, rate_stream, time_batches
from benchmarks.harness.timing import ratio, seconds_of
from benchmarks.ranges.range_joins import OURS, check, in_memory
from benchmarks.ranges.spark_joins import (
    BINS,
    JOIN,
    WRITTEN,
    binned,
    binned_join,
    spark_join,
    written_join,
)

BATCHES = 20
_SLOW_ROWS = 50_000
_SLOW_BATCHES = 2


def run(context: Context) -> Outcome:
    """Measure; quick: a table of 200,000 rows, micro-batches of 1,000, one round."""
    sizes = context.pick([1_000], [5_000, 100_000])
    case = cases(context.quick, context.seed)[0]
    found = _measure(context, case, sizes)
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
    return Outcome(_figures(found, quick=context.quick), [table], measured=found)


def _measure(context: Context, case: Case, batch_rows: list[int]) -> dict[int, Any]:
    """Seconds of 20 micro-batches from a table that is not indexed or binned yet.

    Returns:
        By rows of a micro-batch and way: ``prepare``, the seconds of building or binning, and
        ``batches``, those of the micro-batches (``addBatch``) of each run. Where Spark's own join
        would take minutes only two micro-batches run.
    """
    spark = context.spark
    table = in_memory(spark, stored(case, context.data)[0], 4)
    bins: list[DataFrame] = []

    def build() -> Join:
        indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
        return lambda stream: bsjoin.join(stream, indexed, case.on, when=case.when)

    def bin_table() -> Join:
        bins.append(persisted(binned(case, table)))
        return partial(binned_join, case, bins[-1])

    prepare: dict[str, Callable[[], Join]] = {
        OURS: build,
        WRITTEN: lambda: partial(written_join, case, table),
        JOIN: lambda: partial(spark_join, case, table),
        BINS: bin_table,
    }
    if context.quick:
        del prepare[JOIN]
    sample = probes(spark.range(5_000), "id", case)
    check(case, {name: made() for name, made in prepare.items()}, sample)
    found: dict[int, Any] = {}
    for rows in batch_rows:
        found[rows] = {name: {"prepare": [], "batches": []} for name in prepare}
        for number in range(context.pick(1, 2)):
            for name, made in prepare.items():
                slow = name in (WRITTEN, JOIN) and rows >= _SLOW_ROWS
                if slow and number:
                    continue
                ready: list[Join] = []
                prepare_s = seconds_of(lambda made=made, r=ready: r.append(made()))  # type: ignore[misc]
                stream = ready[0](probes(rate_stream(spark, rows), "value", case))
                spent = time_batches(stream, _SLOW_BATCHES if slow else BATCHES, 0)
                while bins:
                    bins.pop().unpersist()
                one = found[rows][name]
                one["prepare"].append(prepare_s)
                one["batches"].append([ms / 1e3 for ms in spent])
                context.say(
                    f"  {rows:>9,} rows  {name:<18} prepared in {prepare_s:5.1f} s, "
                    f"{statistics.median(spent):8.1f} ms a micro-batch, all {_total(one)[-1]:.1f} s"
                )
    table.unpersist(blocking=True)
    return found


def _total(one: dict[str, list[Any]]) -> list[float]:
    """Seconds of preparation and of 20 micro-batches, by run."""
    return [
        prepare + sum(batches) * BATCHES / len(batches)
        for prepare, batches in zip(one["prepare"], one["batches"], strict=True)
    ]


def _figures(found: dict[int, Any], *, quick: bool) -> list[Figure]:
    """Spark's join over bsjoin's, both with their preparation; bounds for full sizes."""
    figures = []
    bounds = (None, None) if quick else (10.0, 1.0)
    for rows, ways in found.items():
        totals = {name: _total(one) for name, one in ways.items()}
        ours, written = totals.pop(OURS), totals[WRITTEN]
        best = min(totals.values(), key=statistics.median)
        label = f"{BATCHES} micro-batches of {rows:,}, build counted"
        figures += [
            ratio(f"{label}: {WRITTEN} / bsjoin", written, ours, bounds[0]),
            ratio(f"{label}: Spark at its best / bsjoin", best, ours, bounds[1]),
        ]
    return figures
