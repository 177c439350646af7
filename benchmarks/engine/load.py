"""Under load: a cache at its bound, 10^8 keys and 10^8 rows."""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import bsjoin
from benchmarks.data.tables import row_of, scattered
from benchmarks.harness.machine import anonymous_bytes, tree
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import add_batch_ms, rate_stream, run_stream, spark_session
from benchmarks.harness.timing import Times, check_joins, outcome, ratio, rotated, seconds_of
from bsjoin import BatchTable, Full, Incremental

COLUMNS = ["k", "amount", "name"]
_SCHEMA = pa.schema([("k", pa.int64()), ("amount", pa.int64()), ("name", pa.string())])
_HEAP = "1g"
_SMALL_SEGMENT = 128 << 20


def answer(keys: pa.Table) -> pa.Table:
    """The row of each key, by arithmetic: a source that is never the slowest part."""
    numbers = keys["k"]
    texts = pc.utf8_lpad(pc.cast(numbers, pa.string()), 7, "0")
    names = pc.binary_join_element_wise("name-", texts, "")
    return pa.table([numbers, pc.multiply(numbers, 7), names], schema=_SCHEMA)


def joined(max_rows: int, stream: DataFrame) -> DataFrame:
    """The stream with the rows of its keys, through an empty cache."""
    source = bsjoin.sources.function(answer, _SCHEMA, unique=True, max_keys=100_000)
    return bsjoin.join(stream, source, "k", cache=Incremental(max_rows=max_rows))


def run(context: Context) -> Outcome:
    """Measure; quick: some 10^5 keys and rows in place of 10^8."""
    return Outcome.of({"bounded": _bounded(context), "built": _built(context)})


@dataclass
class Memory:
    """Of the JVM and of Python workers, without pages of files, seen four times a second.

    ``driver`` and ``worker`` are the most of the JVM and of one worker; ``workers`` have the bytes
    of all workers together, by look.
    """

    driver: int = 0
    worker: int = 0
    workers: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Look at all children of this process once."""
        used = []
        for process in tree()[1:]:
            with suppress(psutil.Error):  # it has ended
                if process.name() == "java":
                    self.driver = max(self.driver, anonymous_bytes(process))
                else:
                    used.append(anonymous_bytes(process))
        self.worker = max(self.worker, *used, 0)
        self.workers.append(sum(used))


@contextmanager
def watched() -> Iterator[Memory]:
    """The memory of this process's children."""
    memory, ended = Memory(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.25):
            memory.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join()


def _complete(query: StreamingQuery) -> StreamingQuery:
    """The same query, which has found a row for each of its keys."""
    for cycle in bsjoin.progress(query):
        if cycle.rows_out != cycle.rows_in:
            raise AssertionError(f"{cycle.rows_in} rows in, {cycle.rows_out} out")
    return query


def _bounded(context: Context) -> Outcome:
    """Consecutive keys: every micro-batch loads all of its keys, and evicts as many."""
    spark = context.spark
    sample = spark.range(0, 20_000).select(scattered(F.col("id"), 10**7, 1).alias("k"))
    right = sample.select("k", *row_of(F.col("k")))
    check_joins({"bsjoin": partial(joined, 5_000, sample), "arithmetic": lambda: right}, COLUMNS)
    size, batches, few = context.pick((20_000, 8, 6), (1_000_000, 100, 12))
    stream = rate_stream(spark, size).select(F.col("value").alias("k"))
    ways = {"at its bound": size, "below its bound": size * (few + 8)}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(context.pick(1, 3)):
        for name in rotated(ways, turn):
            times = add_batch_ms(_complete(run_stream(joined(ways[name], stream), few)))[2:few]
            rates[name].append(1e3 * size / statistics.median(times))
            context.say(f"  {name:<18} {rates[name][-1]:>10,.0f} rows/s")
    with watched() as memory:
        query = _complete(run_stream(joined(size, stream), batches))
    caches = [c.cache for c in bsjoin.progress(query) if c.cache is not None and c.rows_in]
    keys = sum(cache.keys_queried for cache in caches)
    if keys < size * batches:
        raise AssertionError(f"{keys} keys were asked for, of {size * batches} new ones")
    times, quarter = add_batch_ms(query), len(memory.workers) // 4
    early, late = memory.workers[quarter : 2 * quarter], memory.workers[-quarter:]
    shown: dict[str, Times] = {
        "rows/s": rates,
        "ms of a micro-batch": {"p50": times, "p99": [float(np.percentile(times, 99))]},
        "MB": {
            "workers, second quarter": [used / 1e6 for used in early],
            "workers, last quarter": [used / 1e6 for used in late],
            "largest cache": [max(cache.bytes for cache in caches) / 1e6],
        },
    }
    grown = statistics.median(late) / statistics.median(early)
    figures = [
        ratio("rows/s, each micro-batch evicts / none does", *rates.values(), by_round=True),
        Figure("memory of workers, last quarter / second", grown, 1.2, True),
    ]
    title = f"Micro-batches of {size:,} new keys, {keys:,} in all, a cache of as many rows"
    note = "The source is arithmetic in the worker. Memory is without pages of files."
    return outcome(title, shown, figures, note, "median")


def _built(context: Context) -> Outcome:
    """Tables of two sizes, each with two sizes of segments, built in a JVM with a small heap."""
    sizes = context.pick((100_000,), (10_000_000, 100_000_000))
    lines, figures = [], []
    for segment in (Full.segment_bytes, _SMALL_SEGMENT):
        found = {}
        for rows in sizes:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found[rows] = pool.apply(_build, (rows, str(context.data), segment))
            context.say(f"  {rows:>11,} rows built in {found[rows]['s']:.1f} s")
            lines.append({"rows": rows, "segment_bytes, MiB": segment >> 20} | found[rows])
        if len(sizes) == 2:
            (few, small), (many, large) = found.items()
            pair = f"{many:,} rows / {few:,}, segments of {segment >> 20} MiB"
            memory = large["largest worker, MB"] / small["largest worker, MB"]
            figures.append(Figure(f"memory of the largest worker, {pair}", memory, 1.5, True))
            slower = large["s"] / many / (small["s"] / few)
            figures.append(Figure(f"seconds a row, {pair}", slower, at_most=True))
    note = "Memory without pages of files: the most that was seen, four times a second."
    return Outcome(figures, [Table.of(f"Tables built with a heap of {_HEAP}", lines, note)])


def _build(rows: int, folder: str, segment_bytes: int) -> dict[str, float]:
    spark = spark_session(_HEAP)
    path = Path(folder, f"load-{rows}")
    try:
        key = F.xxhash64("id")  # in no order
        parts = max(2, rows // 2_000_000)
        made = spark.range(0, rows, 1, parts).select(key.alias("k"), (F.col("id") * 7).alias("v"))
        with watched() as memory:
            more = {"unique": True, "path": path, "segment_bytes": segment_bytes}
            seconds = seconds_of(partial(BatchTable.build, made, on="k", **more))
        table = BatchTable.open(path)
        probes = spark.range(0, 2 * rows, max(1, rows // 100_000)).select(key.alias("k"), "id")
        right = probes.where(F.col("id") < rows).select("k", "id", (F.col("id") * 7).alias("v"))
        check_joins(
            {"bsjoin": partial(table.join, probes), "arithmetic": lambda: right}, ["k", "id", "v"]
        )
        if (counted := table.stats().rows) != rows:
            raise AssertionError(f"{counted} rows are stored, of {rows}")
        return {
            "s": seconds,
            "table, MB": table.stats().bytes / 1e6,
            "segments": table.stats().segments,
            "largest worker, MB": memory.worker / 1e6,
            "JVM, MB": memory.driver / 1e6,
        }
    finally:
        spark.stop()
        shutil.rmtree(path, ignore_errors=True)
