"""References to the stream's columns hold for a result as they do for that of Spark's own join."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import settings
from pyspark.sql import DataFrame, SparkSession
from reference_kinds import Sides, asof, differences, incremental
from spark_samples import Feed, rows, table_of

import bsjoin
from bsjoin import BatchTable

HANDOVER = {"spark__bsjoin__python__handover": "rows"}


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> Sides:
    return Sides.of(spark)


def two(sides: Sides, stream: DataFrame) -> tuple[DataFrame, DataFrame]:
    return sides.ours(stream, two=True)


def selected_between(sides: Sides, stream: DataFrame) -> tuple[DataFrame, DataFrame]:
    first, _ = sides.ours(stream, two=False)
    between = first.withColumn("w", first["k"]).drop("w")
    return first, sides.tables["prices"].join(between)


@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_they_hold_as_after_sparks_own_join(
    spark: SparkSession, sides: Sides, runtime: str, tmp_path: Path
) -> None:
    source = Model(tmp_path / "model", pa.table({"k": [1, 2], "name": ["a", "b"]}))
    kinds = {
        "one": lambda stream: sides.ours(stream, two=False),
        "a chain": lambda stream: two(sides, stream),
        "a chain with a selection": lambda stream: selected_between(sides, stream),
        "a range join": asof(sides),
        "incremental": incremental(sides, source),
    }
    with settings(spark, spark__bsjoin__runtime=runtime, **HANDOVER):
        assert differences(sides, kinds) == []


@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_their_values_are_the_streams(spark: SparkSession, sides: Sides, runtime: str) -> None:
    """What is referred to is read, filtered and sorted by, not another column of the same name."""
    stream = sides.streams["one replaced"]
    with settings(spark, spark__bsjoin__runtime=runtime, **HANDOVER):
        first, last = two(sides, stream)
        some = last.where(stream["amount"] > 20).select(
            stream["amount"], "o.k", first["name"], last["price"], sides.raw["x"]
        )
        again = last.join(first.where(first["k"] > 1), "k").select(last["price"])
        counted = last.groupBy(sides.raw["k"]).count().where("k = 1")
        assert rows(some) == [(40, 2, "b", 6, 3.0)]
        assert rows(again) == [(6,)]
        assert rows(counted) == [(1, 1)]


@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_they_hold_in_a_stream(spark: SparkSession, tmp_path: Path, runtime: str) -> None:
    """With a column of the name under which rows are sent, a watermark, and figures."""
    feed = Feed(spark, tmp_path)
    feed.add(1, 2, 9)
    stream = feed.stream.selectExpr("k", "k AS s0", "timestamp_seconds(k) AS t").alias("o")
    stream = stream.withWatermark("t", "1 hour")
    table = BatchTable.build(table_of(spark, 1), on="k")
    with settings(spark, spark__bsjoin__runtime=runtime, **HANDOVER):
        first = table.join(stream)
        last = table.join(first, select=["v"], suffix="_2")
        kept = last.where(stream["s0"] > 1).dropDuplicates(["k", "t"])
        query = feed.start(kept.drop(first["v"], stream["t"]).select("o.s0", "v_2"))
        query.processAllAvailable()
    assert feed.results[0] == [(2, 1)]
    assert [cycle.hits for cycle in bsjoin.progress(query)[:2]] == [2, 2]
