"""Building a table, against sorting and writing the same rows as Parquet."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import bsjoin
from benchmarks.data.tables import table
from benchmarks.harness.session import timed_s

__all__ = ["measure"]


def measure(spark: SparkSession, rows: int, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds for both, in turns."""
    df = table(spark, rows, folder)
    times: dict[str, list[float]] = {"bsjoin": [], "Spark sort and Parquet": []}
    for turn in range(rounds + 1):
        with tempfile.TemporaryDirectory() as out:
            spent = {
                "bsjoin": timed_s(
                    lambda out=out: bsjoin.BatchTable.build(df, on="k", path=f"{out}/table")  # type: ignore[misc]
                ),
                "Spark sort and Parquet": timed_s(
                    lambda out=out: df.sort("k").write.parquet(f"{out}/parquet")  # type: ignore[misc]
                ),
            }
        if turn:
            for name, seconds in spent.items():
                times[name].append(seconds)
                print(f"  {rows:>10,} rows  {name:<24} {seconds:6.2f} s", flush=True)
    return times
