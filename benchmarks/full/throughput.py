"""Rows per second when millions of stream rows are joined in one go."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import SEED, scattered, table
from benchmarks.harness.frames import consume, fingerprint
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.session import timed_s
from benchmarks.harness.turns import paired

__all__ = ["measure", "run"]

IDENTITY, OURS, SPARK = "identity arrow_udf", "bsjoin", "Spark"


def run(context: Context) -> Outcome:
    """Measure; quick: 10^6 rows instead of 10^7, and one table of 10^6."""
    quick = context.quick
    rows = 1_000_000 if quick else 10_000_000
    sizes = [1_000_000] if quick else [1_000_000, 10_000_000]
    context.say(f"{rows:,} stream rows in one go")
    times = measure(
        context.spark,
        rows,
        sizes,
        context.data,
        rounds=2 if quick else 3,
        seed=context.seed,
        say=context.say,
    )
    found = [
        paired(
            f"rows/s, {OURS} / {IDENTITY}, {rows:,} rows, table of {size:,}",
            ways[IDENTITY],
            ways[OURS],
            0.85,
        )
        for size, ways in times.items()
    ]
    lines = [
        (way, *(rows / statistics.median(times[size][way]) / 1e6 for size in sizes))
        for way in (IDENTITY, OURS, SPARK)
    ]
    columns = ("way", *(f"million rows/s, table of {size:,}" for size in sizes))
    table = Table(f"{rows:,} stream rows in one go", columns, tuple(lines))
    return Outcome(found, [table], measured=times)


def measure(
    spark: SparkSession,
    rows: int,
    sizes: list[int],
    folder: Path,
    rounds: int,
    seed: int = SEED,
    say: Callable[[str], None] = print,
) -> dict[int, dict[str, list[float]]]:
    """Seconds for every way, in turns.

    The identity function returns a struct of the same type as the join's answer: the key as
    the long, and a text of the same length.

    Returns:
        ``{size: {"identity arrow_udf": [s, ...], "bsjoin": [...], "Spark": [...]}}``.
    """

    @arrow_udf("amount long, name string")
    def identity(keys: pa.Array) -> pa.Array:
        n = len(keys)
        offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int32) * 12)
        texts = pa.Array.from_buffers(
            pa.string(), n, [None, offsets, pa.py_buffer(b"name-0000000" * n)]
        )
        return pa.StructArray.from_arrays([keys, texts], ["amount", "name"])

    times: dict[int, dict[str, list[float]]] = {}
    for size in sizes:
        df = table(spark, size, folder)
        indexed = bsjoin.BatchTable.build(df, on="k")
        key = scattered(F.col("id"), size, seed).alias("k")
        stream = spark.range(rows).select(key, "id").persist()
        stream.count()
        ways: dict[str, Callable[[], DataFrame]] = {
            IDENTITY: lambda stream=stream: stream.select(  # type: ignore[misc]
                "*", identity("k").alias("m")
            ).select("k", "id", "m.amount", "m.name"),
            OURS: lambda stream=stream, t=indexed: t.join(stream, "k"),  # type: ignore[misc]
            SPARK: lambda stream=stream, df=df: stream.join(df, "k"),  # type: ignore[misc]
        }
        columns = ["k", "id", "amount", "name"]
        checks = {n: fingerprint(way(), columns) for n, way in ways.items() if n != IDENTITY}
        if len(set(checks.values())) != 1:
            raise AssertionError(f"the joins answer differently: {checks}")
        times[size] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, way in ways.items():
                spent = timed_s(lambda way=way: consume(way()))  # type: ignore[misc]
                if turn:
                    times[size][name].append(spent)
                    rate = rows / spent / 1e6
                    say(f"  {size:>10,} rows  {name:<20} {rate:6.2f} M rows/s")
        stream.unpersist(blocking=True)
    return times
