"""What pinning partitions costs: on the driver, a partition; and in a micro-batch.

The pins are made of a few calls into the JVM for each partition, so they cost the same on a local
master as on a cluster, where tests see that tasks land (``tests/scheduling/test_scheduling_live``).
"""

from __future__ import annotations

import statistics
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness.frames import consume, fingerprint
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.session import timed_s
from benchmarks.harness.turns import in_turns, paired
from scheduling.spark import Executor, pin
from scheduling.spark.pins import partitions

__all__ = ["run"]

_EXECUTORS = [Executor(f"host-{i}", str(i)) for i in range(3)]
_BOUND_MS = 2.0


def run(context: Context) -> Outcome:
    """Measure, and check that pinned rows are the same rows."""
    spark = context.spark
    counts = (12, 48) if context.quick else (12, 48, 192)
    rounds = 5 if context.quick else 15
    rows = 200_000 if context.quick else 2_000_000
    driver: dict[int, list[float]] = {}
    for count in counts:
        driver[count] = [_ms_a_partition(spark, rows, count) for _ in range(rounds + 2)][2:]
        context.say(f"  {count:>4} partitions  {_told(driver[count])} ms a partition")
    checked = {fingerprint(way(_rows(spark, rows, 12)), ["id", "k"]) for way in (_left, _pinned)}
    if len(checked) != 1:
        raise AssertionError(f"pinned rows are other rows: {checked}")
    micro_batches = in_turns(
        {
            "without pins": lambda: _seconds(spark, rows, pins=False),
            "with pins": lambda: _seconds(spark, rows, pins=True),
        },
        rounds,
    )
    for way, seconds in micro_batches.items():
        context.say(f"  {way:<16} {_told([1e3 * one for one in seconds])} ms, 12 partitions")
    figures = [
        Figure(
            f"ms a partition to pin {count}",
            statistics.median(times),
            _BOUND_MS,
            at_most=True,
            spread=(min(times), max(times)),
            unit="ms",
        )
        for count, times in driver.items()
    ]
    figures.append(
        paired(
            f"{rows:,} rows in 12 partitions, pinned / not",
            micro_batches["with pins"],
            micro_batches["without pins"],
            None,
            at_most=True,
        )
    )
    table = Table(
        "Milliseconds of the driver to pin a partition",
        ("partitions", "median", "least", "most"),
        tuple((n, statistics.median(t), min(t), max(t)) for n, t in driver.items()),
        "Planning the query and running the shuffles below the pins is not counted.",
    )
    return Outcome(figures, [table], [], {"driver_ms": driver, "seconds": micro_batches})


def _rows(spark: SparkSession, rows: int, count: int) -> DataFrame:
    return spark.range(0, rows, 1, 2).withColumn("k", F.xxhash64("id")).repartition(count, "k")


def _left(df: DataFrame) -> DataFrame:
    return df


def _pinned(df: DataFrame) -> DataFrame:
    return pin(df, [_EXECUTORS[i % 3] for i in range(partitions(df))]).df


def _ms_a_partition(spark: SparkSession, rows: int, count: int) -> float:
    df = _rows(spark, min(rows, 1_000), count)
    partitions(df)  # plans it, and runs the shuffle
    began = time.perf_counter()
    pin(df, [_EXECUTORS[i % 3] for i in range(count)])
    return (time.perf_counter() - began) * 1e3 / count


def _seconds(spark: SparkSession, rows: int, *, pins: bool) -> float:
    way = _pinned if pins else _left
    return timed_s(lambda: consume(way(_rows(spark, rows, 12))))


def _told(times: list[float]) -> str:
    return f"{statistics.median(times):7.2f}  ({min(times):.2f} to {max(times):.2f})"
