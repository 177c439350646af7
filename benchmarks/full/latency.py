"""What a micro-batch of 10,000 rows costs, against the size of the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import micro_batches, scattered, table
from benchmarks.harness.session import add_batch_ms

__all__ = ["measure"]

ROWS = 10_000
AQE = "spark.sql.adaptive.enabled"
_BROADCAST_ROWS = 2_000_000
_WHY = "it is made anew in every micro-batch, which takes seconds and gigabytes"


def measure(
    spark: SparkSession, sizes: list[int], folder: Path, rounds: int, batches: int
) -> dict[str, Any]:
    """Median ``addBatch`` of every way to join, for every size of the table.

    The ways take turns, ``rounds`` times, so that a change of the machine's speed meets all.

    Returns:
        ``{"no join": {size: [ms, ...]}, ...}`` with the times of all rounds.
    """

    @arrow_udf("long")
    def identity(keys: pa.Array) -> pa.Array:
        return keys

    tables = {size: table(spark, size, folder) for size in sizes}
    indexed = {size: bsjoin.BatchTable.build(df, on="k") for size, df in tables.items()}
    for size in sizes:
        _check(spark, tables[size], indexed[size], size)

    def native(size: int) -> Callable[[DataFrame], DataFrame]:
        return lambda stream: stream.join(tables[size], "k")

    ways: dict[str, tuple[Callable[[int], Callable[[DataFrame], DataFrame]], bool]] = {
        "no join": (lambda _: lambda stream: stream, True),
        "identity arrow_udf": (
            lambda _: lambda stream: stream.withColumn("i", identity("k")),
            True,
        ),
        "bsjoin": (lambda size: lambda stream: indexed[size].join(stream, "k"), True),
        "Spark, AQE on": (native, True),
        "Spark, AQE off": (native, False),
    }
    times: dict[str, dict[int, list[float]]] = {name: {s: [] for s in sizes} for name in ways}
    for turn in range(rounds):
        for size in sizes:
            for name, (way, adaptive) in ways.items():
                few = max(4, batches // 3) if name.startswith("Spark") else batches
                spark.conf.set(AQE, adaptive)
                times[name][size] += add_batch_ms(
                    spark,
                    way(size),
                    lambda size=size: micro_batches(spark, ROWS, size),  # type: ignore[misc]
                    batches=few,
                    warm_up=8 if turn == 0 else 3,
                )
                spark.conf.set(AQE, True)
                median = statistics.median(times[name][size])
                print(
                    f"  round {turn + 1}  {size:>10,} rows  {name:<28} {median:8.1f} ms", flush=True
                )
    times["Spark, persisted broadcast"] = _broadcast(spark, tables, batches)
    return times


def _broadcast(
    spark: SparkSession, tables: dict[int, DataFrame], batches: int
) -> dict[int, list[float]]:
    """Spark's broadcast of a persisted table; apart, for it fills the memory that others need."""
    times: dict[int, list[float]] = {}
    for size, df in tables.items():
        if size > _BROADCAST_ROWS:
            print(f"           {size:>10,} rows  Spark, persisted broadcast   left out: {_WHY}")
            continue
        kept = df.persist()
        kept.count()
        try:
            times[size] = add_batch_ms(
                spark,
                lambda stream, kept=kept: stream.join(F.broadcast(kept), "k"),  # type: ignore[misc]
                lambda size=size: micro_batches(spark, ROWS, size),  # type: ignore[misc]
                batches=max(4, batches // 3),
                warm_up=2,
            )
            shown = f"{statistics.median(times[size]):8.1f} ms"
        except RuntimeError as error:
            shown = str(error).splitlines()[0][:60]
        finally:
            kept.unpersist(blocking=True)
        print(f"           {size:>10,} rows  Spark, persisted broadcast   {shown}", flush=True)
    return times


def _check(spark: SparkSession, df: DataFrame, indexed: bsjoin.BatchTable, size: int) -> None:
    """Both joins answer the same before either is timed."""
    sample = spark.range(50_000).select(scattered(F.col("id"), size * 2).alias("k"), "id")
    ours, theirs = indexed.join(sample, "k"), sample.join(df, "k")
    if ours.exceptAll(theirs).count() or theirs.exceptAll(ours).count():
        raise AssertionError(f"bsjoin and Spark answer differently for a table of {size} rows")
