"""What one more worker process costs in memory once it has used the whole table."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

import bsjoin
from benchmarks.data.tables import table
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from bsjoin.cache.table import OpenTable
from bsjoin.store import Home, versions

__all__ = ["measure", "run"]

_BATCH = 10_000


def run(context: Context) -> Outcome:
    """Measure; quick: 500,000 rows instead of 10^7."""
    rows = 500_000 if context.quick else 10_000_000
    context.say("Memory of one more worker")
    kept = measure(
        context.spark, rows, context.data, workers=2 if context.quick else 3, say=context.say
    )
    idle = float(np.median(kept["idle_bytes"]))
    extras = [(used - idle) / kept["table_bytes"] for used in kept["private_bytes"]]
    figure = Figure(
        f"memory of one more worker / table, {rows:,} rows",
        float(np.median(extras)),
        None if context.quick else 0.05,  # of a small table a process's own needs are much
        True,
        (min(extras), max(extras)),
    )
    lines = (
        ("the table, stored", kept["table_bytes"] / 1e6),
        ("a worker that looked up every key", float(np.median(kept["private_bytes"])) / 1e6),
        ("a worker that looked up none", idle / 1e6),
    )
    table = Table(f"Memory, {rows:,} rows", ("what", "MB"), lines)
    return Outcome([figure], [table], measured=kept)


def measure(
    spark: SparkSession,
    rows: int,
    folder: Path,
    workers: int,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Private bytes of processes that look up every key of a table, and of ones that do not."""
    indexed = bsjoin.BatchTable.build(table(spark, rows, folder), on="k")
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=1) as pool:
        private = pool.map(_private_bytes, [(indexed.path, True)] * workers, chunksize=1)
        idle = pool.map(_private_bytes, [(indexed.path, False)] * workers, chunksize=1)
    size = indexed.stats().bytes
    extra = float(np.median(private) - np.median(idle))
    say(f"  {rows:>10,} rows  {size / 1e6:.0f} MB stored, {extra / 1e6:.1f} MB per worker")
    return {"table_bytes": size, "private_bytes": private, "idle_bytes": idle}


def _private_bytes(task: tuple[str, bool]) -> int:
    """Look up everything once; then the process's memory that is not pages of files.

    Pages of the table's files lie in the page cache, once per host. (The "unique set size" will
    not do: it counts a page of a file as private while only one process has it mapped.)
    """
    path, use = task
    home = Home.of(path)
    opened = OpenTable(home, versions.latest(home))
    if use:
        for segment in opened._segments:
            hashes = segment.index.hashes[:-1]
            for start in range(0, len(hashes), _BATCH):
                found = opened.find(pa.array(hashes[start : start + _BATCH]), [])
                opened.gather(("amount", "name"), found)
    used = psutil.Process().memory_info()
    return int(used.rss - used.shared)
