"""Routing in a Spark stream: the cost of a micro-batch, and the rows of the partitions."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pyarrow as pa

import bsjoin
from benchmarks.data.kept import kept, write_stream
from benchmarks.data.zipf import Shifting
from benchmarks.harness.outcome import Context
from benchmarks.harness.spark import add_batch_ms, file_stream, in_runtime, run_stream
from benchmarks.papers.joins.hosts import HOSTS
from bsjoin import BatchTable, Hash, HotSpot

NONE, HASH, HOTSPOT = "partition=None", "Hash", "HotSpot"
PYTHON = "HotSpot, Python"
_FILES = 2  # one per core: without a shuffle a file is a task


def measure(context: Context, keys: int, rows: int, cycles: int, seed: int) -> dict[str, Any]:
    """Join a Zipf stream (z 1.16) with a full cache under each way of partitioning.

    Returns:
        For each way ``ms`` (addBatch of each micro-batch but the first two), ``loads`` (rows of
        each partition, cycle by cycle; empty if they are not counted), and what bsjoin reports.
    """
    spark = context.spark
    stream = Shifting(keys, 1.16, rows, every=max(2, cycles // 2), seed=seed)
    # The files of a micro-batch have its rows alternately.
    order = np.concatenate([np.arange(part, rows, _FILES) for part in range(_FILES)])
    batches = (
        pa.table({"k": stream.cycle(number)[order], "n": number * rows + order})
        for number in range(cycles)
    )
    source = context.data / f"skewed-{keys}-{rows}-{cycles}-{seed}"
    kept(source, lambda place: write_stream(place, batches, _FILES))
    df = spark.range(keys).selectExpr("id AS k", "id * 2 AS v")
    table = BatchTable.build(df, on="k", unique=True)

    def run(partition: Hash | HotSpot | None, runtime: str = "jvm") -> dict[str, Any]:
        stream = file_stream(spark, "k long, n long", source, _FILES)
        join = in_runtime(runtime, lambda rows: table.join(rows, partition=partition))
        query = run_stream(join(stream), cycles - 1)
        seen = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        ms = add_batch_ms(query)[2:]
        return {
            "ms": ms,
            "rows_per_s": seen[0].rows_in / statistics.median(ms) * 1e3,
            "skews": [cycle.partition.skew for cycle in seen],
            "versions": [cycle.partition.rule_version for cycle in seen],
            "loads": [list(cycle.partition.rows) for cycle in seen],
            "rows_out": sum(cycle.rows_out for cycle in seen),
        }

    hotspot = HotSpot(partitions=HOSTS)
    ways = {NONE: (None,), HASH: (Hash(HOSTS),), HOTSPOT: (hotspot,), PYTHON: (hotspot, "python")}
    for way in (NONE, HOTSPOT):
        run(*ways[way])  # Spark compiles
    found = {way: run(*arguments) for way, arguments in ways.items()}
    for way, one in found.items():
        ms = statistics.median(one["ms"])
        context.say(f"  {way:<15} {ms:7,.0f} ms   {one['rows_per_s']:>9,.0f} rows/s")
    return found
