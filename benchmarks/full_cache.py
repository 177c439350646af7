"""The full cache: building a table, memory, many rows at once, and micro-batches by table size."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import micro_batches, scattered, table
from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.spark import AQE, Join, persisted, time_batches
from benchmarks.harness.timing import alternate, check_joins, ratio, seconds_of, time_joins
from bsjoin.store import StorageLocation, versions
from bsjoin.worker.open_table import OpenTable

NO_JOIN, IDENTITY, OURS, SPARK = "no join", "identity arrow_udf", "bsjoin", "Spark"
AQE_ON, AQE_OFF, BROADCAST = "Spark, AQE on", "Spark, AQE off", "Spark, persisted broadcast"

BATCH = 10_000
COLUMNS = ["k", "id", "amount", "name"]
_BROADCAST_ROWS = 2_000_000  # a larger table takes seconds and gigabytes in every micro-batch
_FLAT = "times per 10,000 rows stay flat while the table grows, Fig. 9(b)"

Times = dict[str, dict[int, list[list[float]]]]
"""Milliseconds of micro-batches, by way, rows of the table, and round."""


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


def building(context: Context) -> Outcome:
    """Building a table, compared with sorting and writing it; quick: 500,000 rows, not 10^7."""
    rows, rounds = context.pick((500_000, 2), (10_000_000, 3))
    df = table(context.spark, rows, context.data)

    def timed(write: Callable[[str], object]) -> float:
        with tempfile.TemporaryDirectory() as out:
            return seconds_of(write, f"{out}/table")

    ways = {
        OURS: lambda path: bsjoin.BatchTable.build(df, on="k", path=path),
        "Spark sort and Parquet": lambda path: df.sort("k").write.parquet(path),
    }
    times = alternate({name: partial(timed, way) for name, way in ways.items()}, rounds)
    name = f"building / Spark's sort and Parquet, {rows:,} rows"
    figure = ratio(name, *times.values(), 2.0, at_most=True, by_round=True)
    lines = [
        {"way": way, "s": statistics.median(s), "least": min(s), "most": max(s)}
        for way, s in times.items()
    ]
    return Outcome([figure], [Table.of(f"Building a table of {rows:,} rows", lines)], [], times)


def memory(context: Context) -> Outcome:
    """Private bytes of processes that look up every key of a table, and of ones that do not.

    Quick: 500,000 rows instead of 10^7.
    """
    rows, workers = context.pick((500_000, 2), (10_000_000, 3))
    indexed = bsjoin.BatchTable.build(table(context.spark, rows, context.data), on="k")
    size = indexed.stats().bytes
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
    shown: list[dict[str, Cell]] = [
        {"what": "the table, stored", "MB": size / 1e6},
        {"what": "a worker that looked up every key", "MB": float(np.median(private)) / 1e6},
        {"what": "a worker that looked up none", "MB": floor / 1e6},
    ]
    measured = {"table_bytes": size, "private_bytes": private, "idle_bytes": idle}
    return Outcome([figure], [Table.of(f"Memory, {rows:,} rows", shown)], [], measured)


def _private_bytes(task: tuple[str, bool]) -> int:
    """Look up everything once; then the process's memory without pages of files.

    Pages of the table's files are in the page cache, once per host. (The "unique set size"
    counts a page of a file as private while only one process has it mapped.)
    """
    path, use = task
    location = StorageLocation.of(path)
    opened = OpenTable(location, versions.latest(location))
    if use:
        for segment in opened._segments:
            hashes = segment.index.hashes[:-1]
            for start in range(0, len(hashes), BATCH):
                found = opened.find(pa.array(hashes[start : start + BATCH]), [])
                opened.gather(("amount", "name"), found)
    used = psutil.Process().memory_info()
    return int(used.rss - used.shared)


def throughput(context: Context) -> Outcome:
    """Rows per second, all at once; quick: 10^6 rows instead of 10^7, and one table of 10^6."""
    spark, rows = context.spark, context.pick(1_000_000, 10_000_000)
    times: dict[int, dict[str, list[float]]] = {}
    for size in context.pick([1_000_000], [1_000_000, 10_000_000]):
        df = table(spark, size, context.data)
        indexed = bsjoin.BatchTable.build(df, on="k")
        key = scattered(F.col("id"), size, context.seed).alias("k")
        stream = persisted(spark.range(rows).select(key, "id"))
        ways: dict[str, Join] = {
            IDENTITY: lambda some: with_identity_row(some).select(*COLUMNS),
            OURS: lambda some, indexed=indexed: indexed.join(some, "k"),  # type: ignore[misc]
            SPARK: lambda some, df=df: some.join(df, "k"),  # type: ignore[misc]
        }
        check_joins({name: partial(ways[name], stream) for name in (OURS, SPARK)}, COLUMNS)
        times[size] = time_joins(context, f"{size:,} rows", ways, stream, context.pick(5, 3))
        stream.unpersist(blocking=True)
    figures = [
        ratio(
            f"rows/s, {OURS} / {IDENTITY}, {rows:,} rows, table of {size:,}",
            ways[IDENTITY], ways[OURS], 0.85, by_round=True,
        )
        for size, ways in times.items()
    ]  # fmt: skip
    lines = [
        {"way": way}
        | {
            f"million rows/s, table of {size:,}": rows / statistics.median(by[way]) / 1e6
            for size, by in times.items()
        }
        for way in (IDENTITY, OURS, SPARK)
    ]
    return Outcome(figures, [Table.of(f"{rows:,} stream rows at once", lines)], [], times)


def latency(context: Context) -> Outcome:
    """Micro-batches of 10,000 rows; quick: tables of 100,000 and 500,000 rows, few of them."""
    sizes = context.pick([100_000, 500_000], [100_000, 1_000_000, 10_000_000])
    times = _measure(context, sizes)
    rows = [
        {"way": way} | {f"ms, table of {n:,}": _median(by[n]) if n in by else None for n in sizes}
        for way, by in times.items()
    ]
    title = f"Micro-batches of {BATCH:,} rows: median addBatch by rows of the table"
    shown = Table.of(title, rows).drawn("lines", "way", "ms, ", across=True, yscale="log")
    return Outcome(_figures(times), [shown], measured=times)


def _measure(context: Context, sizes: list[int]) -> Times:
    """All ways in each round, for every size of the table; then Spark's broadcast alone."""
    spark, batches, warm_up = context.spark, *context.pick((8, 8), (15, 8))
    tables = {size: table(spark, size, context.data) for size in sizes}
    indexed = {size: bsjoin.BatchTable.build(df, on="k") for size, df in tables.items()}
    ways: dict[str, Callable[[int], Join]] = {
        NO_JOIN: lambda _: lambda stream: stream,
        IDENTITY: lambda _: with_identity,
        OURS: lambda size: lambda stream: indexed[size].join(stream, "k"),
        AQE_ON: lambda size: lambda stream: stream.join(tables[size], "k"),
        AQE_OFF: lambda size: lambda stream: stream.join(tables[size], "k"),
    }
    for size in sizes:
        key = scattered(F.col("id"), size * 2, context.seed).alias("k")
        sample = spark.range(50_000).select(key, "id")
        check_joins({name: partial(ways[name](size), sample) for name in (OURS, AQE_ON)}, COLUMNS)
    times: Times = {name: {} for name in (*ways, BROADCAST)}
    fewer = max(3, batches // 3)

    def timed(name: str, join: Join, size: int, warm: int) -> None:
        stream = join(micro_batches(spark, BATCH, size, context.seed))
        spent = time_batches(stream, fewer if name.startswith("Spark") else batches, warm)
        times[name].setdefault(size, []).append(spent)
        context.say(f"  {size:>10,} rows  {name:<28} {statistics.median(spent):8.1f} ms")

    for number in range(2):
        for size in sizes:
            for name, way in ways.items():
                if name in (NO_JOIN, IDENTITY) and size != sizes[-1]:
                    continue  # they never see the table
                spark.conf.set(AQE, name != AQE_OFF)
                timed(name, way(size), size, warm_up // 3 if number else warm_up)
                spark.conf.set(AQE, True)
    # Alone, since it fills the memory that others need.
    for size in (one for one in sizes if one <= _BROADCAST_ROWS):
        kept = persisted(tables[size])
        try:
            timed(BROADCAST, lambda s, k=kept: s.join(F.broadcast(k), "k"), size, 2)  # type: ignore[misc]
        except RuntimeError as error:
            context.say(f"  {size:>10,} rows  {BROADCAST}: {str(error).splitlines()[0][:60]}")
        finally:
            kept.unpersist(blocking=True)
    return times


def _figures(times: Times) -> list[Figure]:
    """The promised ratios; that to Spark's join is 5 from 10^7 rows on.

    The ratio is of all micro-batches' medians, its spread that of the rounds' ratios.
    """
    small, *_, large = sorted(times[OURS])
    found = []
    for (above, a), (below, b), what, bound, paper in (
        ((OURS, large), (IDENTITY, large), f"{OURS} / {IDENTITY}, {large:,}", 1.25, ""),
        ((OURS, large), (OURS, small), f"{OURS} {large:,} / {small:,}", 1.15, _FLAT),
        ((AQE_ON, large), (OURS, large), f"{AQE_ON} / {OURS}, {large:,}",
         5.0 if large >= 10_000_000 else 1.0, ""),
        ((AQE_ON, small), (OURS, small), f"{AQE_ON} / {OURS}, {small:,}", 1.0, ""),
    ):  # fmt: skip
        pairs = zip(times[above][a], times[below][b], strict=True)
        rounds = [statistics.median(x) / statistics.median(y) for x, y in pairs]
        value = _median(times[above][a]) / _median(times[below][b])
        spread, name = (min(rounds), max(rounds)), f"addBatch, {what} rows"
        found.append(Figure(name, value, bound, above == OURS, spread, paper))
    return found


def _median(rounds: list[list[float]]) -> float:
    return statistics.median(ms for one in rounds for ms in one)
