"""Streams over an incremental cache, one micro-batch after another, and what they report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from cache_samples import Model
from pyspark.sql import DataFrame
from spark_samples import Feed, cycles
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import Incremental

ROOMY = Incremental(max_rows=1000)

COUNTS = (
    "hits", "negative_hits", "misses", "lookups", "keys_queried", "evictions", "rows", "retries",
)  # fmt: skip


def figures(cache: bsjoin.CacheProgress, *names: str) -> tuple[float, ...]:
    return tuple(getattr(cache, name) for name in names)


def planes(keys: Sequence[int | None], version: int = 1) -> pa.Table:
    """Rows of a table: a key and what it is worth in a version."""
    values = [f"v{version}" for _ in keys]
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.string())})


def database_of_planes(folder: Path) -> str:
    """The URL of an SQLite database: planes 0 to 9, the odd ones hot."""
    script = "CREATE TABLE planes (id INTEGER PRIMARY KEY, name TEXT, hot BOOL)"
    planes = [(i, f"plane {i}", i % 2) for i in range(10)]
    return in_sqlite(folder / "planes.db", script, planes)


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: its rows, and between which moments it ran."""

    rows: list[tuple[Any, ...]]
    begin_s: float
    end_s: float


class Run:
    """A running query that is given one micro-batch after another."""

    def __init__(self, feed: Feed, joined: DataFrame):
        self.feed = feed
        self.query = feed.start(joined)

    def turn(self, *keys: int | None) -> MicroBatch:
        """Run one micro-batch."""
        number, begin = self.feed.added, time.monotonic()
        self.feed.add(*keys)
        self.query.processAllAvailable()
        return MicroBatch(self.feed.results[number], begin, time.monotonic())

    def last(self) -> bsjoin.CacheProgress:
        """The figures of the last micro-batch."""
        return cycles(self.query)[-1].cache


def joined(feed: Feed, source: Model, **options: Any) -> DataFrame:
    options.setdefault("max_rows", 1000)
    return bsjoin.join(feed.stream, source, "k", how="left", cache=Incremental(**options))


def turns(run: Run, *keys: int, last: Any, seconds: float = 60) -> list[MicroBatch]:
    """Micro-batches of the same keys until one has the given rows."""
    found: list[MicroBatch] = []
    end = time.monotonic() + seconds
    while not found or found[-1].rows != last:
        assert time.monotonic() < end, f"{last} never came: {found[-1].rows}"
        found.append(run.turn(*keys))
    return found
