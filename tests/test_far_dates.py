"""Dates and times that Spark and Arrow have and Python has not: before the year 1, after 9999."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from oracle import assert_same, expected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles, write_stream_file

import bsjoin
from bsjoin import HotSpot, Incremental
from bsjoin.sources import parquet
from bsjoin.sources.invalidation import key_table
from bsjoin.values.python_values import in_calendar, reprs, shown
from tests.fuzz.engine import frame

pytestmark = pytest.mark.usefixtures("without_code")

YEAR = 31_556_952_000_000
FAR = [0, 10**15, 20_000 * YEAR, -5_000 * YEAR, 68_030 * YEAR, -(2**63), 2**63 - 1]
"""Microseconds since 1970; the first two are within Python's calendar, and the fifth is of the year
70,000, which is 4464 in 16 bits."""
KINDS = {
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
}


def times(values: list[int], kind: str = "timestamp") -> pa.Array:
    if kind == "date":
        days = [max(-(2**31), min(value // 86_400_000_000, 2**31 - 1)) for value in values]
        return pa.array(days, pa.int32()).cast(pa.date32())
    return pa.array(values, pa.int64()).cast(KINDS[kind])


def tables(kind: str) -> tuple[pa.Table, pa.Table]:
    """Probes and rows; some keys match, on both sides of the calendar's ends."""
    probes = pa.table({"n": range(21), "k": times([*FAR, *[v ^ 1 for v in FAR], *FAR], kind)})
    kept = times(FAR[::2], kind)
    return probes, pa.table({"k": kept, "far": kept, "v": range(len(kept))})


def answer(rows: pa.Table) -> Callable[[pa.Table], pa.Table]:
    def lookup(keys: pa.Table) -> pa.Table:
        (name,) = keys.column_names
        return rows.filter(pc.is_in(rows[name], keys[name].combine_chunks()))

    return lookup


def joined(spark: SparkSession, kind: str, batch: Any, **options: Any) -> tuple[DataFrame, ...]:
    probes, rows = tables(kind)
    left, right = frame(spark, probes), frame(spark, rows)
    found = bsjoin.join(left, right if batch is None else batch, "k", how="left", **options)
    return found, expected(left, right, "k", "left")


@pytest.mark.long
def test_hot_keys_are_named(spark: SparkSession, tmp_path: Path) -> None:
    kind, feed = "timestamp", Feed(spark, tmp_path)
    rows = tables(kind)[1].select(["k", "v"])
    source = bsjoin.sources.function(answer(rows), rows.schema)
    stream = spark.readStream.schema(frame(spark, rows).select("k").schema)
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        joined = bsjoin.join(
            bsjoin.join(
                stream.parquet(str(feed.source)),
                source,
                "k",
                cache=Incremental(max_rows=100),
                partition=HotSpot(partitions=2, sample=100),
            ).select(F.col("v").alias("first"), "k"),
            frame(spark, rows),
            "k",
            partition=HotSpot(partitions=2, sample=100),
        )
    write_stream_file(feed.source, 0, k=times([FAR[4]] * 20, kind))
    last = cycles(feed.run(joined.select("first", "v")))
    assert feed.results[0] == [(2, 2)] * 20
    label = shown(times([FAR[4]], kind)[0])
    assert {cycle.partition.hottest[0][0] for cycle in last if cycle.partition} == {label}
    assert {cycle.cache.hottest[0][0] for cycle in last if cycle.cache} == {label}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind != "timestamp")) for kind in KINDS]
)
def test_an_incremental_cache_holds_them(spark: SparkSession, kind: str) -> None:
    rows = tables(kind)[1]
    source = bsjoin.sources.function(answer(rows), rows.schema)
    found, right = joined(spark, kind, source, cache=Incremental(max_rows=100))
    assert_same(found, right)
    assert_same(found, right)


def test_groups_of_files_with_known_bounds_are_left_out(tmp_path: Path) -> None:
    near = times([0, 10**15])
    pq.write_table(pa.table({"k": near}), tmp_path / "near.parquet", row_group_size=1)
    source = parquet(tmp_path)
    asked = pa.table({"k": times([FAR[4], 10**15])})
    assert source.lookup(asked)["k"].to_pylist() == [near[1].as_py()]
    assert source.groups_read == 1


def test_a_key_that_was_declared_unique_is_told(spark: SparkSession) -> None:
    rows = tables("timestamp")[1]
    source = bsjoin.sources.function(answer(pa.concat_tables([rows] * 2)), rows.schema, unique=True)
    found, _ = joined(spark, "timestamp", source, cache=Incremental(max_rows=100))
    with pytest.raises(Exception, match=r"2 rows of the key {'k': .*unique=False"):
        found.collect()


def test_keys_to_invalidate() -> None:
    schema = pa.schema([("k", KINDS["timestamp"])])
    table = pa.table({"k": times(FAR)}, schema=schema)
    assert key_table(table, schema, "keys").equals(table)


def test_values_are_told_with_or_without_pythons_calendar() -> None:
    far = times(FAR)
    assert [shown(value) for value in far[:3]] == [
        "1970-01-01 00:00:00+00:00",
        "2001-09-09 01:46:40+00:00",
        "21970-01-01 00:00:00.000000Z",
    ]
    assert reprs(far)[0].startswith("datetime.datetime(1970, 1, 1, 0, 0")
    assert len(set(reprs(far))) == len(FAR)
    nested = pa.StructArray.from_arrays([far, pa.array(range(len(FAR)))], ["t", "n"])
    assert len(set(reprs(nested))) == len(FAR)
    lists = pa.ListArray.from_arrays([0, 3, len(FAR)], far)
    assert len(set(reprs(lists))) == 2
    assert in_calendar(pa.chunked_array([far])).to_pylist() == [True, True, *[False] * 5]
