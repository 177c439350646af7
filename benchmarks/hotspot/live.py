"""Routing live on Spark: what it costs a micro-batch, and how the rows lie on the partitions."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.shifting import Shifting
from bsjoin import BatchTable, Hash, HotSpot

__all__ = ["HASH", "HOTSPOT", "NONE", "measure"]

_FILES = 2

NONE, HASH, HOTSPOT = "partition=None", "Hash", "HotSpot"


def measure(
    spark: SparkSession,
    folder: Path,
    keys: int,
    rows: int,
    cycles: int,
    partitions: int,
    seed: int = 6,
) -> dict[str, Any]:
    """Join a Zipf stream (z 1.16) with a full cache, in turns, under each way of partitioning.

    Args:
        spark: the session.
        folder: for data.
        keys: of the table.
        rows: of a micro-batch.
        cycles: micro-batches; the hot keys move in the middle.
        partitions: of ``Hash`` and ``HotSpot``.
        seed: of the stream.

    Returns:
        For each way ``ms`` (addBatch of each micro-batch but the first two), ``skews``,
        ``versions`` and ``loads`` (rows of each partition, cycle by cycle; none where they are
        not counted), and ``rows_out``, which is the same for all.
    """
    source = folder / "skewed"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    stream = Shifting(keys, 1.16, rows, every=max(2, cycles // 2), seed=seed)
    for number in range(cycles):
        columns = {
            "k": pa.array(stream.cycle(number), pa.int64()),
            "n": pa.array(range(number * rows, (number + 1) * rows), pa.int64()),
        }
        for part in range(_FILES):  # one a core: without a shuffle a file is a task
            some = pa.table(columns).take(pa.array(range(part, rows, _FILES)))
            pq.write_table(some, source / f"{number:04d}-{part}.parquet")
    table = BatchTable.build(
        spark.range(keys).selectExpr("id AS k", "id * 2 AS v"), on="k", unique=True
    )
    ways = {NONE: None, HASH: Hash(partitions), HOTSPOT: HotSpot(partitions=partitions)}
    _run(spark, source, table, None)  # Spark compiles, Python workers start
    return {way: _run(spark, source, table, partition) for way, partition in ways.items()}


def _run(
    spark: SparkSession, source: Path, table: BatchTable, partition: Hash | HotSpot | None
) -> dict[str, Any]:
    reader = spark.readStream.schema("k long, n long").option("maxFilesPerTrigger", _FILES)
    joined: DataFrame = table.join(reader.parquet(str(source)), partition=partition)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = joined.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            told = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
            done = [one for one in query.recentProgress if one.numInputRows]
        finally:
            query.stop()
    ms = [float(one.durationMs["addBatch"]) for one in done][2:]
    return {
        "ms": ms,
        "rows_per_s": done[0].numInputRows / statistics.median(ms) * 1e3,
        "skews": [cycle.partition.skew for cycle in told],
        "versions": [cycle.partition.rule_version for cycle in told],
        "loads": [list(cycle.partition.rows) for cycle in told],
        "rows_out": sum(cycle.rows_out for cycle in told),
    }
