"""Tables and streams of the benchmarks: made of arithmetic, so the same in every run.

A table is the same whatever the seed: the seed draws the keys of the streams.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["SEED", "micro_batches", "scattered", "table"]

SEED = 20260721


def scattered(number: Column, size: int, seed: int = SEED) -> Column:
    """A key of 0 … size - 1 that looks random, made of a number and a seed."""
    return F.pmod(F.xxhash64(number, F.lit(seed)), F.lit(size))


def table(spark: SparkSession, rows: int, folder: Path) -> DataFrame:
    """A narrow table in a Parquet folder: key (long), amount (long), name (12 characters)."""
    path = str(folder / f"table-{rows}")
    if not Path(path, "_SUCCESS").exists():
        numbers = spark.range(0, rows, 1, 8)
        numbers.select(
            F.col("id").alias("k"),
            (F.col("id") * 7).alias("amount"),
            F.concat(F.lit("name-"), F.lpad(F.col("id").cast("string"), 7, "0")).alias("name"),
        ).orderBy(F.xxhash64("k")).write.mode("overwrite").parquet(path)
    return spark.read.parquet(path)


def micro_batches(spark: SparkSession, rows: int, table_rows: int, seed: int = SEED) -> DataFrame:
    """A stream of so many rows per micro-batch; each key is in the table."""
    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", spark.sparkContext.defaultParallelism)
        .load()
    )
    key = scattered(F.col("value"), table_rows, seed)
    return stream.select(key.alias("k"), "value", "timestamp")
