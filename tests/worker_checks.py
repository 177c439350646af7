"""What :mod:`test_incremental_workers` runs in a process of its own: a session of four workers.

A session of the tests has two, and Spark repeats no failed task in it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cache_invariants import check_cache
from cache_runs import planes
from cache_samples import Model, until
from checks_apart import named, run
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import INTERPRETED, session
from spark_samples import cycles, write_parquet

import bsjoin
from bsjoin import Incremental
from bsjoin.cache import CacheLimits, HostCache

WORKERS = 4
KEYS, ABSENT = 30_000, 7  # every seventh key is not in the table

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def numbers() -> pa.Table:
    """A row for most keys; its value is ten times the key."""
    keys = np.array([key for key in range(KEYS) if key % ABSENT])
    return pa.table({"k": keys, "v": 10 * keys})


def zipf(seed: int, size: int) -> np.ndarray[Any, Any]:
    """Keys of which few are frequent and many are rare."""
    return np.random.default_rng(seed).zipf(1.2, size) % KEYS


def progress_of(
    spark: SparkSession,
    folder: Path,
    source: Model,
    micro_batches: Sequence[Any],
    cache: Incremental,
) -> list[bsjoin.CycleProgress]:
    """Join micro-batches, each split among the workers, and check what comes out."""
    files = folder / "stream"
    for number, keys in enumerate(micro_batches):
        for part, some in enumerate(np.array_split(keys, WORKERS)):
            path = files / f"{number:03d}-{part}.parquet"
            write_parquet(path, k=pa.array(some, pa.int64()))
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    reader = spark.readStream.schema("k long").option("maxFilesPerTrigger", WORKERS)
    joined = bsjoin.join(reader.parquet(str(files)), source, "k", how="left", cache=cache)
    sums: dict[int, list[Any]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        sums[number] = list(
            batch.agg(
                F.count("*"), F.count("v"), F.sum("v"), F.sum(F.expr("v - 10 * k")),
            ).first()
            or []
        )  # fmt: skip

    writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination()
    assert len(sums) == len(micro_batches)
    for number, keys in enumerate(micro_batches):
        there = keys[keys % ABSENT != 0]
        assert sums[number] == [len(keys), len(there), int(10 * there.sum()), 0]
    return cycles(query)


def a_bound_in_bytes_holds_for_all_workers_together(spark: SparkSession, folder: Path) -> None:
    source = Model(folder / "model", numbers(), max_keys=2_000)
    most = 1_000_000
    keys = [np.random.default_rng(seed).integers(0, KEYS, 10_000) for seed in range(3)]
    cache = Incremental(max_bytes=most, folder=folder / "cache")
    figures = progress_of(spark, folder, source, keys, cache)
    held = [cycle.cache.bytes for cycle in figures if cycle.cache]
    assert 0.9 * most < held[-1] <= most
    assert max(held) <= most
    # Rows are small here: what died and what was asked for is there until it is tidied up,
    # and 4,096 entries in any case.
    assert taken(folder / "cache") <= 3 * most + 4_096 * 128, taken(folder / "cache")
    check_cache(opened(folder / "cache", pa.int64(), CacheLimits(max_bytes=most)))


def taken(folder: Path) -> int:
    """Bytes that the files of a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def opened(folder: Path, value: pa.DataType, limits: CacheLimits) -> HostCache:
    """The only cache in a folder, as one more process."""
    (path,) = folder.glob("bsjoin-*/cache-*")
    return HostCache(path, [pa.int64()], [value], limits, exact=True)


class Background:
    """An action in a thread of its own; what it gave."""

    def __init__(self, action: Callable[[], Any]):
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.append(action()))
        self._thread.start()

    def result(self) -> Any:
        self._thread.join(120)
        assert self._results, "it failed, or did not end"
        return self._results[0]


def parts(spark: SparkSession, keys: Sequence[int]) -> DataFrame:
    """Each of the keys in a task of each worker."""
    listed = F.array(*(F.lit(key).cast("long") for key in keys))
    return spark.range(0, WORKERS, 1, WORKERS).select(F.explode(listed).alias("k"))


def a_cold_start_does_not_flood_the_source(spark: SparkSession, folder: Path) -> None:
    most = 2
    source = Model(folder / "model", planes(range(2_000)), max_keys=50)
    cache = Incremental(max_rows=10_000, max_connections=most)
    stream = spark.range(0, 2_000, 1, WORKERS).toDF("k")
    joined = bsjoin.join(stream, source, "k", cache=cache)
    assert joined.count() == 2_000
    asked = source.asked
    assert len(source.times) == sum(source.times.values()) == 2_000
    assert len({look_up.pid for look_up in asked}) > 1
    for look_up in asked:
        begun = look_up.begin_s
        together = {other.pid for other in asked if other.begin_s <= begun < other.end_s}
        assert len(together) <= most, together


class Lethal(Model):
    """A model that lets a worker die by SIGKILL where a file says, once."""

    PLACES = (
        "generation.Columns.append", "generation.Generation.append", "generation.Generation.link",
        "content.Content._account", "content.Content._kill", "content.Content.evict",
        "content.Content.compact", "header.Header.start",
    )  # fmt: skip

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        armed = self.folder / "armed"
        if armed.exists():
            place = armed.read_text()
            module, kind, name = place.split(".")
            owner = getattr(importlib.import_module(f"bsjoin.cache.{module}"), kind)
            method = getattr(owner, name)

            @functools.wraps(method)
            def dying(*arguments: Any, **named: Any) -> Any:
                result = method(*arguments, **named)
                with contextlib.suppress(FileNotFoundError):  # another worker was killed
                    if armed.read_text() == place:
                        armed.unlink()
                        os.kill(os.getpid(), signal.SIGKILL)
                return result

            setattr(owner, name, dying)
        return super().lookup(keys, columns)


def a_worker_killed_at_every_step_breaks_nothing(spark: SparkSession, folder: Path) -> None:
    """Spark runs its task again. Each run reads what is left."""
    source = Lethal(folder / "model", planes(range(6_000)), max_keys=300)
    limits = CacheLimits(max_rows=1_000)
    cache = Incremental(max_rows=1_000, folder=folder / "cache")
    stream = spark.range(0, 7_000, 1, WORKERS).toDF("k")
    joined = bsjoin.join(stream, source, "k", how="left", cache=cache)
    checked = joined.agg(F.count("*"), F.count("v"), F.countDistinct("k"), F.max("v"))
    armed = source.folder / "armed"
    for place in (*Lethal.PLACES, ""):
        if place:
            armed.write_text(place)
        assert tuple(checked.first() or ()) == (7_000, 6_000, 7_000, "v1"), place
        assert not armed.exists(), f"nobody was killed at {place}"
        there = opened(folder / "cache", pa.string(), limits)
        there.release(np.zeros(0, np.int64), [pa.array([], pa.int64())])  # what a writer tidies
        check_cache(there)


def a_worker_killed_during_a_query_is_replaced(spark: SparkSession, folder: Path) -> None:
    source = Model(folder / "model", planes(range(20)))
    cache = Incremental(max_rows=1_000, folder=folder / "cache")
    joined = bsjoin.join(parts(spark, range(30)), source, "k", how="left", cache=cache)
    with source.held():
        action = Background(joined.collect)
        (asking,) = until(lambda: source.begun, "a look-up")
        until(lambda: len(list(folder.glob("cache/*/*/members/*"))) == WORKERS, "the workers")
        os.kill(asking, signal.SIGKILL)
        until(lambda: len(source.begun) > 1, "another worker")
    found = sorted(tuple(row) for row in action.result())
    assert found == sorted((k, "v1" if k < 20 else None) for k in range(30) for _ in range(4))
    assert len(source.asked) == 1
    assert asking not in {look_up.pid for look_up in source.asked}
    check_cache(opened(folder / "cache", pa.string(), CacheLimits(max_rows=1_000)))


CHECKS = named(
    a_bound_in_bytes_holds_for_all_workers_together,
    a_cold_start_does_not_flood_the_source,
    a_worker_killed_at_every_step_breaks_nothing,
    a_worker_killed_during_a_query_is_replaced,
)

if __name__ == "__main__":
    run(CHECKS, session(f"local[{WORKERS},8]", INTERPRETED))
