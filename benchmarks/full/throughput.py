"""Rows per second when 10 million stream rows are joined in one go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import scattered, table
from benchmarks.harness.session import timed_s

__all__ = ["measure"]


def measure(
    spark: SparkSession, rows: int, sizes: list[int], folder: Path, rounds: int
) -> dict[str, Any]:
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
        stream = spark.range(rows).select(scattered(F.col("id"), size).alias("k"), "id").persist()
        stream.count()
        ways: dict[str, Callable[[], DataFrame]] = {
            "identity arrow_udf": lambda stream=stream: stream.select(  # type: ignore[misc]
                "*", identity("k").alias("m")
            ).select("k", "id", "m.amount", "m.name"),
            "bsjoin": lambda stream=stream, t=indexed: t.join(stream, "k"),  # type: ignore[misc]
            "Spark": lambda stream=stream, df=df: stream.join(df, "k"),  # type: ignore[misc]
        }
        checks = {
            name: _fingerprint(way()) for name, way in ways.items() if name != "identity arrow_udf"
        }
        if len(set(checks.values())) != 1:
            raise AssertionError(f"the joins answer differently: {checks}")
        times[size] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, way in ways.items():
                spent = timed_s(lambda way=way: _consume(way()))  # type: ignore[misc]
                if turn:
                    times[size][name].append(spent)
                    rate = rows / spent / 1e6
                    print(f"  {size:>10,} rows  {name:<20} {rate:6.2f} M rows/s", flush=True)
        stream.unpersist(blocking=True)
    return times


def _consume(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def _fingerprint(df: DataFrame) -> tuple[int, int]:
    """Number of rows, and a sum over the hashes of all rows: the same for the same multiset."""
    hashed = F.xxhash64("k", "id", "amount", "name").cast("decimal(38,0)")
    row = df.agg(F.count(F.lit(1)), F.sum(hashed)).first()
    assert row is not None
    return row[0], int(row[1])
