"""The full cache: memory, and micro-batches by table size."""

from __future__ import annotations

import multiprocessing
import os
import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import scattered, table
from benchmarks.harness.machine import anonymous_bytes
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import (
    AQE,
    JVM,
    PYTHON,
    Join,
    configured,
    consume,
    in_memory,
    in_runtime,
    in_runtimes,
    rate_stream,
    spark_session,
    time_batches,
)
from benchmarks.harness.timing import Times, check_joins, median_of, outcome, ratio
from bsjoin.index.integer_hash import hashes_of_integers
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.open_table import OpenTable

NO_JOIN, IDENTITY = "no join", "identity arrow_udf"
AQE_ON, AQE_OFF, BROADCAST = "Spark, AQE on", "Spark, AQE off", "Spark, persisted broadcast"

BATCH = 10_000
COLUMNS = ["k", "id", "amount", "name"]
_BROADCAST_ROWS = 2_000_000  # a larger table takes seconds and gigabytes in every micro-batch
_FLAT = "times per 10,000 rows stay flat while the table grows, Fig. 9(b)"
_HEAP = "-XX:+UseSerialGC -Xms1g -XX:+AlwaysPreTouch"
_MEMORY = (
    "Anonymous memory: without the pages of files, which are in the page cache once per host. Of a "
    "JVM all of the heap is resident, and what is used of it after a collection is added."
)


def identity(keys: pa.Array) -> pa.Array:
    """The keys."""
    return keys


def identity_row(keys: pa.Array) -> pa.Array:
    """A row of the same types as the join's: the key as the long, a text of the same length."""
    n = len(keys)
    offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int32) * 12)
    texts = [None, offsets, pa.py_buffer(b"name-0000000" * n)]
    names = pa.Array.from_buffers(pa.string(), n, texts)
    return pa.StructArray.from_arrays([keys, names], ["amount", "name"])


def with_identity(stream: DataFrame) -> DataFrame:
    """The stream with a column ``i``: its keys, through Python."""
    return stream.withColumn("i", arrow_udf(identity, "long")("k"))


def with_identity_row(stream: DataFrame) -> DataFrame:
    """The stream with the columns ``amount`` and ``name`` of such rows."""
    row = arrow_udf(identity_row, "amount long, name string")("k")
    return stream.withColumn("m", row).select("*", "m.amount", "m.name").drop("m")


def memory(context: Context) -> Outcome:
    """Private bytes of processes that look up every key of a table, and of ones that do not.

    Quick: 500,000 rows instead of 10^7.
    """
    rows, count = context.pick((500_000, 1), (10_000_000, 3))
    indexed = bsjoin.BatchTable.build(table(context.spark, rows, context.data), on="k", unique=True)
    size = indexed.stats().bytes
    figures, measured = [], {}
    for name, measure in (("worker", _bytes_of_a_worker), ("executor, JVM", _bytes_of_a_jvm)):
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            used, idle = (
                pool.map(measure, [(indexed.path, rows, use)] * count, 1) for use in (True, False)
            )
        extras = [(one - np.median(idle)) / size for one in used]
        # Beside a small table a process's own memory is large: the bound is of full sizes.
        figures.append(median_of(f"memory of one more {name} / table, {rows:,} rows", extras, 0.05))
        measured[name] = {"looked up every key": used, "looked up none": idle}
    title = f"Memory beside a table of {size:,} bytes, {rows:,} rows"
    return outcome(title, measured, figures, _MEMORY, "bytes")


def _bytes_of_a_worker(task: tuple[str, int, bool]) -> int:
    """Look up everything once, or nothing, in a process as Python workers are; its memory then."""
    path, _, use = task
    location = StorageLocation.of(path)
    opened = OpenTable(location, versions.latest(location))
    if use:
        for segment in opened.segments:
            stored = segment.index.hashes[:-1]  # the keys themselves where these are dense
            for start in range(0, len(stored), BATCH):
                some = stored[start : start + BATCH]
                hashes = hashes_of_integers(some) if segment.index.dense else some
                found = opened.find(pa.array(hashes), [])
                if (found < 0).any():
                    raise AssertionError("keys of the table are not found in it")
                opened.gather(("amount", "name"), found)
    return anonymous_bytes()


def _bytes_of_a_jvm(task: tuple[str, int, bool]) -> int:
    """The same in a JVM, all of whose heap is resident; plus what is used of its heap."""
    path, rows, use = task
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--conf 'spark.driver.extraJavaOptions={_HEAP}' pyspark-shell"
    )
    spark = spark_session("1g", master="local[1]")
    jvm: Any = spark._jvm
    key = F.col("id") if use else F.when(F.col("id") < 0, F.col("id"))
    keys = spark.range(0, rows, 1, 8).select(key.alias("k"))
    join = partial(bsjoin.BatchTable.open(path).join, on="k", how="left")
    joined = in_runtime("jvm", join)(keys)
    for _ in range(2):
        consume(joined)
    heap = jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        heap.gc()
    used = int(heap.totalMemory() - heap.freeMemory())
    process = psutil.Process(jvm.java.lang.ProcessHandle.current().pid())
    found = anonymous_bytes(process) + used
    spark.stop()
    return found


def latency(context: Context) -> Outcome:
    """Micro-batches of 10,000 rows; quick: tables of 100,000 and 500,000 rows, few of them."""
    sizes = context.pick([100_000, 500_000], [100_000, 1_000_000, 10_000_000])
    times = _measure(context, sizes)
    shown = {f"{size:,} rows": by_way for size, by_way in times.items()}
    title = f"Micro-batches of {BATCH:,} rows: median addBatch by rows of the table"
    return outcome(title, shown, _figures(times), unit="ms")


def _measure(context: Context, sizes: list[int]) -> dict[int, Times]:
    """Medians of two rounds of all ways, by size of the table; then of Spark's broadcast."""
    spark, batches, warm_up = context.spark, *context.pick((8, 8), (15, 30))
    tables = {size: table(spark, size, context.data) for size in sizes}
    ways: dict[int, dict[str, Join]] = {}
    for size, df in tables.items():
        ways[size] = in_runtimes(partial(bsjoin.BatchTable.build(df, on="k").join, on="k"))
        ways[size][AQE_ON] = theirs = partial(_by_spark, df)
        key = scattered(F.col("id"), size * 2, context.seed).alias("k")
        sample = spark.range(50_000).select(key, "id")
        check_joins({name: partial(way, sample) for name, way in ways[size].items()}, COLUMNS)
        ways[size][AQE_OFF] = theirs
    # They never see the table.
    ways[sizes[-1]] = {NO_JOIN: lambda df: df, IDENTITY: with_identity} | ways[sizes[-1]]
    times: dict[int, Times] = {size: {} for size in sizes}
    fewer = max(3, batches // 3)

    def timed(name: str, join: Join, size: int, warm: int) -> None:
        key = scattered(F.col("value"), size, context.seed).alias("k")
        stream = join(rate_stream(spark, BATCH).select(key, "value", "timestamp"))
        spent = time_batches(stream, fewer if name.startswith("Spark") else batches, warm)
        ms = statistics.median(spent)
        times[size].setdefault(name, []).append(ms)
        context.say(f"  {size:>10,} rows  {name:<28} {ms:8.1f} ms")

    for number in range(2):
        for size in sizes:
            for name, way in list(ways[size].items())[:: -1 if number else 1]:
                warm = min(warm_up, 8) if name.startswith("Spark") else warm_up
                with configured(spark, {AQE: name != AQE_OFF}):
                    timed(name, way, size, warm // 3 if number else warm)
    # Alone, since it fills the memory that others need.
    for size in (one for one in sizes if one <= _BROADCAST_ROWS):
        with in_memory(tables[size]) as (kept,):
            timed(BROADCAST, partial(_by_spark, F.broadcast(kept)), size, 2)
    return times


def _by_spark(table: DataFrame, stream: DataFrame) -> DataFrame:
    return stream.join(table, "k")


def _figures(times: Mapping[int, Times]) -> list[Figure]:
    """The promised ratios, and the times of each way, for the chart in the documentation."""
    small, *_, large = sorted(times)
    found = []
    for (above, a), (below, b), what, bound, paper in (
        ((PYTHON, large), (IDENTITY, large), f"{PYTHON} / {IDENTITY}, {large:,}", 1.25, ""),
        ((JVM, large), (NO_JOIN, large), f"{JVM} / {NO_JOIN}, {large:,}", None, ""),
        ((JVM, large), (JVM, small), f"{JVM} {large:,} / {small:,}", 1.1, _FLAT),
        ((PYTHON, large), (PYTHON, small), f"{PYTHON} {large:,} / {small:,}", 1.15, ""),
        ((AQE_ON, large), (JVM, large), f"{AQE_ON} / {JVM}, {large:,}", 5.0, ""),
        ((AQE_ON, small), (JVM, small), f"{AQE_ON} / {JVM}, {small:,}", 1.0, ""),
    ):
        name, at_most = f"addBatch, {what} rows", above in (JVM, PYTHON)
        both = times[a][above], times[b][below]
        found.append(ratio(name, *both, bound, at_most=at_most, paper=paper))
    return found + [
        Figure(f"addBatch, {way}, {size:,} rows", statistics.median(ms), at_most=True, unit="ms")
        for size, by_way in times.items()
        for way, ms in by_way.items()
    ]
