"""Twenty micro-batches joined by a band, the build of the table counted in."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.ranges import BEGIN_US, MONTH_US, Case, stored
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.session import add_batch_ms, timed_s
from benchmarks.harness.turns import over
from benchmarks.ranges.joins import OURS, check, kept, listed
from benchmarks.ranges.rivals import BINS, JOIN, WRITTEN, binned, binned_join, spark_join

__all__ = ["BATCHES", "figures", "measure", "probes", "run"]

BATCHES = 20
_SLOW_ROWS = 50_000
_SLOW_BATCHES = 2

Join = Callable[[DataFrame], DataFrame]


def run(context: Context) -> Outcome:
    """Measure; quick: a table of 200,000 rows, micro-batches of 1,000, one round."""
    quick = context.quick
    context.say(f"{BATCHES} micro-batches, build counted")
    sizes = [1_000] if quick else [5_000, 100_000]
    case = listed(quick, context.seed)[0]
    rounds = 1 if quick else 2
    ways = (OURS, WRITTEN, BINS) if quick else (OURS, WRITTEN, JOIN, BINS)
    found = measure(context.spark, case, sizes, context.data, rounds, ways, context.say)
    rows = tuple(
        (
            f"{many:,}",
            name,
            statistics.median(one["prepare"]),
            statistics.median(s for batches in one["batches"] for s in batches) * 1e3,
            statistics.median(_total(one)),
        )
        for many, ways in found.items()
        for name, one in ways.items()
    )
    columns = ("rows a micro-batch", "way", "prepare, s", "a micro-batch, ms", "all, s")
    note = f"All: prepared, then {BATCHES} micro-batches; where Spark takes minutes, reckoned."
    table = Table(f"A band with a key, {case.rows:,} rows in the table", columns, rows, note)
    return Outcome(figures(found, quick=quick), [table], measured=found)


def probes(numbers: DataFrame, number: str, case: Case) -> DataFrame:
    """Rows of a stream with a case's equality key, made of numbers and its seed: id, k, p."""
    value, seed = F.col(number), F.lit(case.seed)
    later = F.pmod(F.xxhash64(value, seed, F.lit(1)), F.lit(MONTH_US))
    return numbers.select(
        value.alias("id"),
        F.pmod(F.xxhash64(value, seed), F.lit(case.keys)).alias("k"),
        F.timestamp_micros(later + F.lit(BEGIN_US)).alias("p"),
    )


def measure(
    spark: SparkSession,
    case: Case,
    batch_rows: list[int],
    folder: Path,
    rounds: int,
    ways: Sequence[str] = (OURS, WRITTEN, JOIN, BINS),
    say: Callable[[str], None] = print,
) -> dict[int, Any]:
    """Seconds of 20 micro-batches, from a table that is not indexed, or not binned, yet.

    Args:
        spark: the session.
        case: a band with an equality key.
        batch_rows: rows of the micro-batches.
        folder: for the data.
        rounds: how often each way runs, in turns.
        ways: which.
        say: prints one line.

    Returns:
        By rows of a micro-batch: ``prepare``, the seconds of building and of binning, and
        ``batches``, those of the micro-batches (Spark's ``addBatch``) of each run, by way. Where
        Spark's own join would take minutes it has run two micro-batches, counted ten times.
    """
    table = kept(spark, stored(case, folder)[0], 4)
    sample = probes(spark.range(5_000), "id", case)
    found: dict[int, Any] = {}

    def prepared(name: str) -> tuple[Join, Callable[[], object]]:
        """A way, ready to be used; and how to leave it."""
        if name == OURS:
            return lambda stream: bsjoin.join(
                stream, indexed, case.on, when=case.when
            ), lambda: None
        if name == BINS:
            bins = binned(case, table).persist()
            bins.count()
            return lambda stream: binned_join(case, stream, bins), bins.unpersist
        return lambda stream: spark_join(case, stream, table, written=name == WRITTEN), lambda: None

    indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
    check(case, {name: prepared(name)[0] for name in ways}, sample)
    for rows in batch_rows:
        found[rows] = {name: {"prepare": [], "batches": []} for name in ways}
        for turn in range(rounds):
            for name in ways:
                slow = name in (WRITTEN, JOIN) and rows >= _SLOW_ROWS
                if slow and turn:
                    continue
                ready: list[Any] = []

                def prepare(name: str = name, ready: list[Any] = ready) -> None:
                    nonlocal indexed
                    if name == OURS:
                        indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
                    ready.extend(prepared(name))

                prepare_s = timed_s(prepare)
                join, leave = ready
                many = _SLOW_BATCHES if slow else BATCHES
                spent = add_batch_ms(
                    spark,
                    lambda numbers, join=join: join(probes(numbers, "value", case)),  # type: ignore[misc]
                    lambda rows=rows: _numbers(spark, rows),  # type: ignore[misc]
                    batches=many,
                    warm_up=0,
                )
                leave()
                one = found[rows][name]
                one["prepare"].append(prepare_s)
                one["batches"].append([ms / 1e3 for ms in spent])
                say(
                    f"  {rows:>9,} rows  {name:<18} prepared in {prepare_s:5.1f} s, "
                    f"{statistics.median(spent):8.1f} ms a micro-batch, "
                    f"{BATCHES} of them and all {_total(one)[-1]:7.1f} s"
                )
    table.unpersist(blocking=True)
    return found


def _numbers(spark: SparkSession, rows: int) -> DataFrame:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", spark.sparkContext.defaultParallelism)
        .load()
    )


def _total(one: dict[str, list[Any]]) -> list[float]:
    """Seconds of preparing and of 20 micro-batches, by run."""
    return [
        prepare + sum(batches) * BATCHES / len(batches)
        for prepare, batches in zip(one["prepare"], one["batches"], strict=True)
    ]


def figures(measured: dict[int, Any], *, quick: bool) -> list[Figure]:
    """Spark's stream-static join over bsjoin, both with what they need to begin.

    What is promised is promised for full sizes.
    """
    found = []
    written, best_bound = (None, None) if quick else (10.0, 1.0)
    for rows, ways in measured.items():
        totals = {name: _total(one) for name, one in ways.items()}
        ours = totals.pop(OURS)
        label = f"{BATCHES} micro-batches of {rows:,}, build counted"
        found.append(over(f"{label}: {WRITTEN} / bsjoin", totals[WRITTEN], ours, written))
        best = min(totals, key=lambda way: statistics.median(totals[way]))
        found.append(over(f"{label}: Spark at its best / bsjoin", totals[best], ours, best_bound))
    return found
