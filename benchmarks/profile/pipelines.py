"""The pipelines that are profiled: joins of each kind, and identity functions to compare with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import kept
from benchmarks.data.ranges import Case, probes, stored
from benchmarks.data.tables import scattered, table
from benchmarks.full_cache import with_identity, with_identity_row
from benchmarks.harness.outcome import Context
from benchmarks.harness.spark import Join
from benchmarks.ranges.spark_joins import spark_join

NONE, KEY, ROW = "no join", "identity, key in and out", "identity, key in, row out"
ROWS = "identity, rows in and out"
FULL, WARM, COLD = "full cache", "incremental, warm", "incremental, cold"
RANGE, HOTSPOT = "range join", "full cache, HotSpot"

BASELINES = {FULL: ROW, WARM: ROW, COLD: ROW, RANGE: ROWS, HOTSPOT: ROW}
"""The joins, each with a function of the same shape that does nothing."""

SPARK = "Spark"

Pipelines = dict[str, dict[str, Join]]
"""By name: under the same name, from the stream's numbers (``value``, ``timestamp``) to what is
written; and for a join under :data:`SPARK` the same join by Spark itself."""


def pipelines(context: Context, rows: int, size: int, batches: int) -> Pipelines:
    """All pipelines."""
    spark, seed, folder = context.spark, context.seed, context.data
    df = table(spark, size, folder)
    full = bsjoin.BatchTable.build(df, on="k", unique=True)
    case = Case(
        name="profile", kind="band", rows=size, probes=1, keys=max(size // 1_000, 1), width_s=3_600,
        seed=seed,
    )  # fmt: skip
    ranged = spark.read.parquet(str(stored(case, folder)[0]))
    indexed = bsjoin.BatchTable.build(ranged, on=case.on, when=case.when)
    many = max(size, rows * batches)
    url, source_rows = _database(folder, many), table(spark, many, folder)

    def with_key(key: F.Column, numbers: DataFrame) -> DataFrame:
        return numbers.select(key.alias("k"), "value", "timestamp")

    value = F.col("value")
    keyed = partial(with_key, scattered(value, size, seed))
    same_keys = partial(with_key, scattered(F.pmod(value, F.lit(rows)), many, seed))
    new_keys = partial(with_key, F.pmod(value, F.lit(many)))

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def with_same_rows(numbers: DataFrame) -> DataFrame:
        sent = ranges(numbers).withColumns({"v": F.col("id"), "a": F.col("p")})
        return sent.mapInArrow(same, sent.schema)

    def ranges(numbers: DataFrame) -> DataFrame:
        return probes(numbers, "value", case)

    def incremental(keys: Join, numbers: DataFrame) -> DataFrame:
        # A source of its own, so that each run begins with an empty cache.
        source = bsjoin.sources.sql(url, table="t")
        cache = bsjoin.Incremental(max_rows=2 * many)
        return bsjoin.join(keys(numbers), source, "k", cache=cache)

    hot = bsjoin.HotSpot(partitions=spark.sparkContext.defaultParallelism)

    def joins(keys: Join, stored: DataFrame) -> Join:
        return lambda numbers: keys(numbers).join(stored, "k")

    return {
        NONE: {NONE: keyed},
        KEY: {KEY: lambda n: with_identity(keyed(n))},
        ROW: {ROW: lambda n: with_identity_row(keyed(n))},
        ROWS: {ROWS: with_same_rows},
        FULL: {FULL: lambda n: full.join(keyed(n), "k"), SPARK: joins(keyed, df)},
        WARM: {WARM: partial(incremental, same_keys), SPARK: joins(same_keys, source_rows)},
        COLD: {COLD: partial(incremental, new_keys), SPARK: joins(new_keys, source_rows)},
        RANGE: {
            RANGE: lambda n: indexed.join(ranges(n), case.on, when=case.when),
            SPARK: lambda n: spark_join(case, ranged, ranges(n)),
        },
        HOTSPOT: {
            HOTSPOT: lambda n: full.join(keyed(n), "k", partition=hot),
            SPARK: joins(keyed, df),
        },
    }


def _database(folder: Path, rows: int) -> str:
    """The URL of a SQLite file with a table ``t(k, amount, name)``."""

    def make(place: Path) -> None:
        with closing(sqlite3.connect(place / "t.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, amount BIGINT, name TEXT)")
            values = ((k, 7 * k, f"name-{k:07d}") for k in range(rows))
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", values)

    return f"sqlite:///{kept(folder / f'profile-{rows}', make).resolve()}/t.sqlite"
