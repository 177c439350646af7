"""Building a table, against sorting and writing the same rows as Parquet."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import bsjoin
from benchmarks.data.tables import table
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.session import timed_s
from benchmarks.harness.turns import paired

__all__ = ["measure", "run"]

OURS, PARQUET = "bsjoin", "Spark sort and Parquet"


def run(context: Context) -> Outcome:
    """Measure; quick: 500,000 rows instead of 10^7."""
    rows, rounds = (500_000, 2) if context.quick else (10_000_000, 3)
    context.say("Building the table")
    times = measure(context.spark, rows, context.data, rounds=rounds, say=context.say)
    figure = paired(
        f"building / Spark's sort and Parquet, {rows:,} rows",
        times[OURS],
        times[PARQUET],
        2.0,
        at_most=True,
    )
    lines = tuple((way, statistics.median(s), min(s), max(s)) for way, s in times.items())
    table = Table(f"Building a table of {rows:,} rows", ("way", "s", "least", "most"), lines)
    return Outcome([figure], [table], measured=times)


def measure(
    spark: SparkSession,
    rows: int,
    folder: Path,
    rounds: int,
    say: Callable[[str], None] = print,
) -> dict[str, list[float]]:
    """Seconds for both, in turns."""
    df = table(spark, rows, folder)
    times: dict[str, list[float]] = {OURS: [], PARQUET: []}
    for turn in range(rounds + 1):
        with tempfile.TemporaryDirectory() as out:
            spent = {
                OURS: timed_s(
                    lambda out=out: bsjoin.BatchTable.build(df, on="k", path=f"{out}/table")  # type: ignore[misc]
                ),
                PARQUET: timed_s(
                    lambda out=out: df.sort("k").write.parquet(f"{out}/parquet")  # type: ignore[misc]
                ),
            }
        if turn:
            for name, seconds in spent.items():
                times[name].append(seconds)
                say(f"  {rows:>10,} rows  {name:<24} {seconds:6.2f} s")
    return times
