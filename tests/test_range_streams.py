"""Range joins in streams: rows and figures of every micro-batch, versions, watermarks."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles

import bsjoin
from bsjoin import AsOf, Band, BatchTable

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

HOWS: tuple[Any, ...] = ("inner", "left", "semi", "anti")
BAND = Band("k", "q", 1, 1)


def test_figures_are_exact_for_every_join_type(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.createDataFrame([(q,) for q in (10, 11, 11, 20)], "q bigint")
    built = BatchTable.build(table, on=[], when=BAND, path=tmp_path / "table")
    feed = Feed(spark, tmp_path)
    feed.add(10, 11, 30, None)
    feed.add(30, 31)
    feed.add(20)
    joins = [
        built.join(feed.stream, when=BAND, how=how).select("k", F.lit(how).alias("how"))
        for how in HOWS
    ]
    query = feed.start(joins[0].union(joins[1]).union(joins[2]).union(joins[3]))
    query.processAllAvailable()
    figures = cycles(query)
    query.stop()
    # 10 meets 10, 11, 11; 11 meets the same; 20 meets 20.
    expected = {0: (4, 2, 6), 1: (2, 0, 0), 2: (1, 1, 1)}
    for number, (rows_in, hits, matches) in expected.items():
        found = [cycle for cycle in figures if cycle.batch_id == number]
        assert [cycle.on for cycle in found] == [("k",)] * 4
        for how, cycle in zip(HOWS, found, strict=True):
            assert (cycle.rows_in, cycle.hits) == (rows_in, hits), how
            assert cycle.misses == rows_in - hits
            assert cycle.rows_out == sum(row[1] == how for row in feed.results[number])
            assert cycle.mode == "full"
            if how in ("inner", "left"):
                assert cycle.matches == matches


def test_a_watermark_lives_on_behind_a_range_join(spark: SparkSession, tmp_path: Path) -> None:
    start = datetime(2026, 1, 1)
    table = spark.createDataFrame(
        [(start + timedelta(minutes=n), n) for n in range(0, 60, 10)], "t timestamp, n int"
    )
    feed = Feed(spark, tmp_path)
    timed = feed.stream.withColumn("at", F.timestamp_seconds(F.col("k") * 60 + 1_767_225_600))
    stream = timed.withWatermark("at", "5 minutes")
    when = AsOf("at", "t", tolerance="10 minutes")
    joined = bsjoin.join(stream, table, on=[], when=when)
    assert joined.schema["at"].metadata == stream.schema["at"].metadata != {}
    counted = joined.groupBy(F.window("at", "10 minutes"), "n").count().select("n", "count")
    query = feed.start(counted)
    feed.add(0, 1, 11, 12, 13)
    feed.add(40)
    feed.add(41)
    query.processAllAvailable()
    query.stop()
    assert sorted(row for rows in feed.results.values() for row in rows) == [(0, 2), (10, 3)]


@pytest.mark.parametrize("how", HOWS)
def test_columns_are_those_of_the_contract(spark: SparkSession, how: Any) -> None:
    stream = spark.range(3).selectExpr("id AS `odd name`", "id AS k", "named_struct('x', id) AS s")
    table = spark.range(3).selectExpr("id AS k", "id AS q", "'v' AS k_2", "array(id) AS l")
    when = Band("odd name", "q", 0, 0)
    joined = bsjoin.join(stream, table, on="k", when=when, how=how, suffix="_2")
    brought = ["q", "k_2", "l"] if how in ("inner", "left") else []
    assert joined.columns == ["odd name", "k", "s", *brought]
    assert joined.schema["s"] == stream.schema["s"]
    for name in brought:
        assert joined.schema[name].nullable == (how == "left" or table.schema[name].nullable)
    assert joined.count() == (0 if how == "anti" else 3)
    if brought:
        chosen = bsjoin.join(stream, table, on="k", when=when, how=how, select=["l"])
        assert chosen.columns == ["odd name", "k", "s", "l"]
