"""What pinning partitions costs: per partition on the driver, and in a micro-batch.

The pins are made of a few calls into the JVM for each partition, so they cost the same on a local
master as on a cluster, where tests check the placement of tasks.
"""

from __future__ import annotations

import statistics

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import consume, fingerprint
from benchmarks.harness.timing import alternate, check_equal, in_ms, ratio, seconds_of
from scheduling.spark import Executor, pin
from scheduling.spark.pins import partitions

_EXECUTORS = [Executor(f"host-{i}", str(i)) for i in range(3)]
_BOUND_MS = 2.0


def run(context: Context) -> Outcome:
    """Measure, and check that pinned rows are the same rows."""
    spark = context.spark
    counts, rounds, rows = context.pick(((12, 48), 5, 200_000), ((12, 48, 192), 15, 2_000_000))
    driver: dict[int, list[float]] = {}
    for count in counts:
        driver[count] = [_ms_per_partition(spark, rows, count) for _ in range(rounds + 2)][2:]
        context.say(f"  {count:>4} partitions  {statistics.median(driver[count]):.2f} ms each")
    ways = {"without pins": lambda df: df, "with pins": _pinned}
    check_equal(
        {n: fingerprint(way(_rows(spark, rows, 12)), ["id", "k"]) for n, way in ways.items()}
    )
    micro_batches = alternate(
        {
            name: lambda way=way: seconds_of(lambda: consume(way(_rows(spark, rows, 12))))  # type: ignore[misc]
            for name, way in ways.items()
        },
        rounds,
    )
    for name, seconds in micro_batches.items():
        context.say(f"  {name:<16} {in_ms(seconds)}, 12 partitions")
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
    name = f"{rows:,} rows in 12 partitions, pinned / not"
    sides = (micro_batches["with pins"], micro_batches["without pins"])
    figures.append(ratio(name, *sides, at_most=True, by_round=True))
    table = Table.of(
        "Milliseconds of the driver to pin a partition",
        [
            {"partitions": n, "median": statistics.median(t), "least": min(t), "most": max(t)}
            for n, t in driver.items()
        ],
        "Without planning the query and running the shuffles below the pins.",
    )
    return Outcome(figures, [table], [], {"driver_ms": driver, "seconds": micro_batches})


def _rows(spark: SparkSession, rows: int, count: int) -> DataFrame:
    return spark.range(0, rows, 1, 2).withColumn("k", F.xxhash64("id")).repartition(count, "k")


def _pinned(df: DataFrame) -> DataFrame:
    return pin(df, [_EXECUTORS[i % 3] for i in range(partitions(df))]).df


def _ms_per_partition(spark: SparkSession, rows: int, count: int) -> float:
    df = _rows(spark, min(rows, 1_000), count)
    partitions(df)  # plans it, and runs the shuffle
    return seconds_of(pin, df, [_EXECUTORS[i % 3] for i in range(count)]) * 1e3 / count
