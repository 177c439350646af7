"""Rows per second when millions of stream rows are joined at once."""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import scattered, table
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.spark import Join, consume, fingerprint, persisted
from benchmarks.harness.timing import alternate, check_equal, ratio, seconds_of

IDENTITY, OURS, SPARK = "identity arrow_udf", "bsjoin", "Spark"


def identity_row(keys: pa.Array) -> pa.Array:
    """A row of the same types as the join's: the key as the long, a text of the same length."""
    n = len(keys)
    offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int32) * 12)
    texts = [None, offsets, pa.py_buffer(b"name-0000000" * n)]
    names = pa.Array.from_buffers(pa.string(), n, texts)
    return pa.StructArray.from_arrays([keys, names], ["amount", "name"])


def with_identity_row(stream: DataFrame) -> DataFrame:
    """The stream with a column ``m`` of such rows."""
    return stream.withColumn("m", arrow_udf(identity_row, "amount long, name string")("k"))


def run(context: Context) -> Outcome:
    """Measure; quick: 10^6 rows instead of 10^7, and one table of 10^6."""
    rows = context.pick(1_000_000, 10_000_000)
    sizes = context.pick([1_000_000], [1_000_000, 10_000_000])
    times = {size: _measure(context, rows, size) for size in sizes}
    figures = [
        ratio(
            f"rows/s, {OURS} / {IDENTITY}, {rows:,} rows, table of {size:,}",
            ways[IDENTITY],
            ways[OURS],
            0.85,
            by_round=True,
        )
        for size, ways in times.items()
    ]
    lines = [
        {"way": way}
        | {
            f"million rows/s, table of {size:,}": rows / statistics.median(times[size][way]) / 1e6
            for size in sizes
        }
        for way in (IDENTITY, OURS, SPARK)
    ]
    return Outcome(figures, [Table.of(f"{rows:,} stream rows at once", lines)], measured=times)


def _measure(context: Context, rows: int, size: int) -> dict[str, list[float]]:
    """Seconds of every way, alternately."""
    spark = context.spark
    df = table(spark, size, context.data)
    indexed = bsjoin.BatchTable.build(df, on="k")
    stream = persisted(
        spark.range(rows).select(scattered(F.col("id"), size, context.seed).alias("k"), "id")
    )
    ways: dict[str, Join] = {
        IDENTITY: _with_identity,
        OURS: lambda some: indexed.join(some, "k"),
        SPARK: lambda some: some.join(df, "k"),
    }
    columns = ["k", "id", "amount", "name"]
    check_equal({name: fingerprint(ways[name](stream), columns) for name in (OURS, SPARK)})
    runs = {
        name: partial(seconds_of, lambda way=way: consume(way(stream)))  # type: ignore[misc]
        for name, way in ways.items()
    }
    times = alternate(runs, context.pick(2, 3))
    for name, seconds in times.items():
        rate = rows / statistics.median(seconds) / 1e6
        context.say(f"  {size:>10,} rows  {name:<20} {rate:6.2f} M rows/s")
    stream.unpersist(blocking=True)
    return times


def _with_identity(stream: DataFrame) -> DataFrame:
    return with_identity_row(stream).select("k", "id", "m.amount", "m.name")
