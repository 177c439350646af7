"""Throughput and latency of ways to search, by workers and table size, as in Tables 6 to 8.

:mod:`benchmarks.ranges.searching` has the ways; beside them stands bsjoin's join as a whole. A
micro-batch of so many partitions keeps so many Python workers busy.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import SEED, Case, stored
from benchmarks.harness.session import add_batch_ms
from benchmarks.ranges.searching import (
    DIRECTORY,
    FLAT_MAP,
    JOIN,
    RANDOM,
    SORTED,
    answering,
    prepare,
)
from benchmarks.ranges.streams import probes

__all__ = ["DIRECTORY", "FLAT_MAP", "JOIN", "RANDOM", "SORTED", "measure"]

_WAYS = (FLAT_MAP, RANDOM, SORTED, DIRECTORY)


def measure(
    spark: SparkSession,
    sizes: list[int],
    workers: list[int],
    folder: Path,
    batch: int,
    small: int,
    batches: int,
    seed: int = SEED,
    ways: tuple[str, ...] = (*_WAYS, JOIN),
    say: Callable[[str], None] = print,
) -> dict[str, dict[int, dict[int, Any]]]:
    """Throughput and latency of every way.

    Args:
        spark: the session.
        sizes: rows of the table.
        workers: how many workers share a micro-batch.
        folder: for the data.
        batch: rows of the micro-batches in which throughput is measured.
        small: rows of those in which latency is.
        batches: how many of each.
        seed: of table and stream.
        ways: which are timed; all are checked.
        say: prints one line.

    Returns:
        By way, size and workers: ``rate``, rows per second, and ``latency_ms``, the median
        ``addBatch``; with ``rates`` and ``latencies_ms`` of all micro-batches.
    """
    found: dict[str, dict[int, dict[int, Any]]] = {way: {} for way in ways}
    for size in sizes:
        case = Case(
            name="search", kind="band", rows=size, probes=1_000, keys=1_500, width_s=3_600,
            seed=seed,
        )  # fmt: skip
        place = folder / "ranges" / f"search-{size}-{seed}"
        prepare(case, place)
        table = spark.read.parquet(str(stored(case, folder)[0]))
        joins = {way: answering(way, case, place) for way in _WAYS}
        indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
        joins[JOIN] = lambda stream, case=case, t=indexed: t.join(  # type: ignore[misc]
            stream, case.on, when=case.when, select=["v"]
        ).select("id", "v")
        _check(spark, case, joins)
        for many in workers:
            for way in ways:
                slow = way == FLAT_MAP
                one = _one(spark, case, joins[way], many, batch, small, batches, slow=slow)
                found[way].setdefault(size, {})[many] = one
                say(
                    f"  {size:>10,} rows  {many} worker{'s' if many > 1 else ' '}  {way:<24} "
                    f"{one['rate'] / 1e3:8.1f} K rows/s   {one['latency_ms']:7.1f} ms"
                )
    return found


def _one(
    spark: SparkSession,
    case: Case,
    join: Callable[[DataFrame], DataFrame],
    workers: int,
    batch: int,
    small: int,
    batches: int,
    *,
    slow: bool,
) -> dict[str, Any]:
    def timed(rows: int, many: int, warm_up: int) -> list[float]:
        return add_batch_ms(
            spark,
            lambda numbers: join(probes(numbers, "value", case)),
            lambda: _numbers(spark, rows, workers),
            batches=many,
            warm_up=warm_up,
        )

    large = timed(batch, max(2, batches // 3) if slow else batches, 1 if slow else 2)
    latencies = timed(small, batches, 3)
    rates = [batch / ms * 1e3 for ms in large]
    return {
        "rate": statistics.median(rates),
        "latency_ms": statistics.median(latencies),
        "rates": rates,
        "latencies_ms": latencies,
    }


def _numbers(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", partitions)
        .load()
    )


def _check(
    spark: SparkSession, case: Case, joins: dict[str, Callable[[DataFrame], DataFrame]]
) -> None:
    """All ways answer the same before any is timed."""
    stream = probes(spark.range(2_000), "id", case)
    answers = {way: sorted(map(tuple, join(stream).collect())) for way, join in joins.items()}
    for way, answer in answers.items():
        if answer != answers[JOIN]:
            raise AssertionError(f"{case.rows} rows: {way} and {JOIN} answer differently")
