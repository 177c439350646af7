"""The incremental cache over PostgreSQL: Zipf streams against what one would do without it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.database import UNIFORM, database, keys_drawn, stream_files
from benchmarks.harness.frames import cache_totals, consume, run_out
from benchmarks.harness.session import JDBC_DRIVER, timed_s
from benchmarks.incremental.rivals import jdbc_table, per_batch, per_record
from bsjoin.shared import Bounds, HostCache, State

__all__ = ["EXPONENTS", "hit_rates", "labelled", "measure"]

EXPONENTS = (0.98, 1.04, 1.10, 1.16)
RECORD, BATCH, JDBC = "one query per record", "one query per micro-batch", "Spark's JDBC read"
LARGE, SMALL, WARM = "bsjoin, all fits", "bsjoin, a tenth fits", "bsjoin, all fits, warm"
FEW = "bsjoin, small micro-batches"
RECORDS = 20_000


def measure(
    spark: SparkSession,
    folder: Path,
    keys: int,
    batch: int,
    batches: int,
    small: int,
    rounds: int,
    exponents: Iterable[float] = EXPONENTS,
    few_batches: int = 40,
    records: int = RECORDS,
    seed: int = 20260721,
    say: Callable[[str], None] = print,
) -> dict[float, Any]:
    """Rows per second of every way, for every exponent and uniform keys, the ways in turns.

    Args:
        spark: the session.
        folder: for the data.
        keys: rows of the table.
        batch: rows of a micro-batch at full speed.
        batches: micro-batches of a run, which begins with an empty cache.
        small: rows of the small micro-batches that are measured beside.
        rounds: how often each way runs at z = 1.04; once at the others.
        exponents: of the Zipf streams beside that of 1.04.
        few_batches: how many of the small micro-batches.
        records: rows on which one query per record is measured.
        seed: of the streams.
        say: prints one line.
    """
    found: dict[float, Any] = {}
    with database(keys) as url:

        def cached(rows: int) -> Callable[[DataFrame], DataFrame]:
            # A source of its own, so that it begins with an empty cache.
            source = bsjoin.sources.sql(url, table="t")
            cache = bsjoin.Incremental(max_rows=rows)
            return lambda stream: bsjoin.join(stream, source, "k", cache=cache)

        for z in (1.04, *(z for z in exponents if z != 1.04), UNIFORM):
            files = stream_files(folder, z, keys, batch, batches, seed)
            few = stream_files(folder, z, keys, small, few_batches, seed)
            _check(spark, files, url, keys)
            ways: dict[str, Callable[[], dict[str, Any]]] = {
                LARGE: lambda files=files: _run(spark, files, cached(keys)),  # type: ignore[misc]
                SMALL: lambda files=files: _run(spark, files, cached(keys // 10)),  # type: ignore[misc]
                BATCH: lambda files=files: _run(spark, files, lambda s: per_batch(s, url)),  # type: ignore[misc]
            }
            if z == 1.04:
                ways[RECORD] = lambda files=files: _per_record(spark, files, url, records)  # type: ignore[misc]
                ways[FEW] = lambda few=few: _run(spark, few, cached(keys))  # type: ignore[misc]
                if JDBC_DRIVER.exists():
                    ways[JDBC] = lambda files=files: _run(spark, files, _natively(spark, url))  # type: ignore[misc]
                else:
                    say(f"  {JDBC}: not measured, there is no {JDBC_DRIVER}")
            distinct = spark.read.parquet(str(files)).select("k").distinct().count()
            if z == 1.04:
                for name, way in ways.items():  # Spark compiles; not counted
                    if name not in (SMALL, FEW):  # the same code
                        say(_line(z, f"{name} (warm-up)", way(), distinct))
            found[z] = {"distinct": distinct, "ways": {name: [] for name in ways}}
            for _ in range(rounds if z == 1.04 else 1):
                for name, way in ways.items():
                    found[z]["ways"][name].append(one := way())
                    say(_line(z, name, one, distinct))
    return found


def _line(z: float, name: str, one: dict[str, Any], distinct: int) -> str:
    more = f"   second half {one['warm']:>10,.0f}" if one.get("warm") else ""
    if "asked" in one and name != FEW:
        more += f"   hit rate {one['hit_rate']:6.1%}, asked/distinct {one['asked'] / distinct:.3f}"
    return f"  {labelled(z):<8} {name:<38} {one['rate']:>10,.0f} rows/s{more}"


def labelled(z: float) -> str:
    """An exponent in print."""
    return "uniform" if z == UNIFORM else f"z {z}"


def _run(spark: SparkSession, files: Path, way: Callable[[DataFrame], DataFrame]) -> dict[str, Any]:
    """Let a stream run through all files.

    Returns:
        Rows per second of all micro-batches and of the second half (Spark's ``addBatch``), and
        what the cache says of itself.
    """
    stream = spark.readStream.schema("k long, id long").option("maxFilesPerTrigger", 1)
    query = run_out(way(stream.parquet(str(files))))
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["addBatch"] / 1e3 for p in done]
    rows = [p.numInputRows for p in done]
    half = len(done) // 2
    return {
        "rate": sum(rows) / sum(seconds),
        "warm": sum(rows[half:]) / sum(seconds[half:]),
        "batch_s": seconds,
        **cache_totals(query),
    }


def _per_record(spark: SparkSession, files: Path, url: str, records: int) -> dict[str, Any]:
    """One query per record, without the costs of a stream."""
    part = spark.read.parquet(str(files / "0000.parquet")).limit(records).repartition(2).persist()
    part.count()
    seconds = timed_s(lambda: consume(per_record(part, url)))
    part.unpersist()
    return {"rate": records / seconds}


def _natively(spark: SparkSession, url: str) -> Callable[[DataFrame], DataFrame]:
    table = jdbc_table(spark, url)
    return lambda stream: stream.join(table, "k").select("k", "id", "amount", "name")


def _check(spark: SparkSession, files: Path, url: str, keys: int) -> None:
    """All ways answer the same, before any is timed; on a part of the first file."""
    part = spark.read.schema("k long, id long").parquet(str(files / "0000.parquet")).limit(2_000)
    part = part.localCheckpoint()
    source = bsjoin.sources.sql(url, table="t")
    answers = {
        LARGE: bsjoin.join(part, source, "k", cache=bsjoin.Incremental(max_rows=keys)),
        SMALL: bsjoin.join(part, source, "k", cache=bsjoin.Incremental(max_rows=keys // 1000)),
        RECORD: per_record(part, url),
        BATCH: per_batch(part, url),
    }
    expected = part.select(
        "k",
        "id",
        (F.col("k") * 7).alias("amount"),
        F.concat(F.lit("name-"), F.lpad(F.col("k").cast("string"), 7, "0")).alias("name"),
    )
    right = sorted(map(tuple, expected.collect()))
    for name, answer in answers.items():
        if sorted(map(tuple, answer.collect())) != right:
            raise AssertionError(f"{name} answers differently")


def hit_rates(
    keys: int, rows: int, shares: Iterable[float], seed: int = 1
) -> dict[float, dict[float, float]]:
    """Hit rate against cache size, of the cache alone: exact LRU over batches of 10,000 keys.

    The first half of the keys warms it up and is not counted.
    """
    return {
        z: {
            share: _hit_rate(keys_drawn(keys, z, rows, seed), int(keys * share)) for share in shares
        }
        for z in EXPONENTS
    }


def _hit_rate(drawn: Any, max_rows: int) -> float:
    hits, counted = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        cache = HostCache(Path(folder), [pa.int64()], [], Bounds(max_rows=max_rows), exact=True)
        for begin in range(0, len(drawn), 10_000):
            batch = drawn[begin : begin + 10_000]
            hashes = batch * np.int64(-7046029254386353131)
            hashes ^= hashes >> np.int64(29)
            found, ticks = cache.find(hashes, [pa.array(batch)], 0)
            states = found.states
            missing = np.flatnonzero(states == State.MISS)
            _, last = np.unique(hashes[missing][::-1], return_index=True)
            new = missing[::-1][last]
            columns = [pa.array(batch[new])]
            cache.claim(hashes[new], columns, ticks[new], 0)
            ones = np.ones(len(new), np.int64)
            cache.put(hashes[new], columns, ones, [], ticks[new], 0, 0)
            if begin >= len(drawn) // 2:
                hits += int((states != State.MISS).sum())
                counted += len(batch)
    return hits / counted
