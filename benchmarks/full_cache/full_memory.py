"""The memory that one more worker process needs once it has used the whole table."""

from __future__ import annotations

import multiprocessing

import numpy as np
import psutil
import pyarrow as pa

import bsjoin
from benchmarks.data.tables import table
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from bsjoin.store import StorageLocation, versions
from bsjoin.worker.open_table import OpenTable

_BATCH = 10_000


def run(context: Context) -> Outcome:
    """Private bytes of processes that look up every key of a table, and of ones that do not.

    Quick: 500,000 rows instead of 10^7.
    """
    rows, workers = context.pick((500_000, 2), (10_000_000, 3))
    indexed = bsjoin.BatchTable.build(table(context.spark, rows, context.data), on="k")
    size = indexed.stats().bytes
    private, idle = {}, {}
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        private, idle = (
            pool.map(_private_bytes, [(indexed.path, use)] * workers, chunksize=1)
            for use in (True, False)
        )
    floor = float(np.median(idle))
    extras = [(used - floor) / size for used in private]
    figure = Figure(
        f"memory of one more worker / table, {rows:,} rows",
        float(np.median(extras)),
        context.pick(None, 0.05),  # beside a small table a process's own memory is large
        at_most=True,
        spread=(min(extras), max(extras)),
    )
    lines = {
        "the table, stored": size,
        "a worker that looked up every key": float(np.median(private)),
        "a worker that looked up none": floor,
    }
    shown = [{"what": what, "MB": used / 1e6} for what, used in lines.items()]
    measured = {"table_bytes": size, "private_bytes": private, "idle_bytes": idle}
    return Outcome([figure], [Table.of(f"Memory, {rows:,} rows", shown)], measured=measured)


def _private_bytes(task: tuple[str, bool]) -> int:
    """Look up everything once; then the process's memory without pages of files.

    Pages of the table's files are in the page cache, once per host. (The "unique set size"
    counts a page of a file as private while only one process has it mapped.)
    """
    path, use = task
    home = StorageLocation.of(path)
    opened = OpenTable(home, versions.latest(home))
    if use:
        for segment in opened._segments:
            hashes = segment.index.hashes[:-1]
            for start in range(0, len(hashes), _BATCH):
                found = opened.find(pa.array(hashes[start : start + _BATCH]), [])
                opened.gather(("amount", "name"), found)
    used = psutil.Process().memory_info()
    return int(used.rss - used.shared)
