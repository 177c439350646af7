"""Incremental joins inside larger queries: limits, windows, aggregates, foreachBatch, a restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cache_runs import ROOMY, Run, figures, planes
from cache_samples import Model, until
from oracle import expected
from oracle import settings as spark_settings
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, rows

import bsjoin
from bsjoin import Incremental

pytestmark = pytest.mark.usefixtures("interpreted")

START = 1_700_000_000_000_000


def test_a_limit_takes_what_it_needs_and_leaves_the_cache_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    model = Model(tmp_path / "model", planes(range(100)))
    stream = spark.range(0, 1_000, 1, 2).selectExpr("id % 100 AS k", "id AS i")
    joined = bsjoin.join(stream, model, "k", cache=ROOMY)
    with spark_settings(spark, spark__sql__execution__arrow__maxRecordsPerBatch="10"):
        assert len(joined.limit(3).collect()) == 3
        assert joined.take(1)[0]["v"] == "v1"
        assert not joined.where("k > 1000").take(1)
        assert joined.count() == 1_000
    assert set(model.times.values()) == {1}


def test_a_failing_row_beside_the_join_leaves_no_claim_behind(
    spark: SparkSession, model: Model
) -> None:
    """A task that fails elsewhere; the same cache answers the next query."""
    joined = bsjoin.join(spark.range(4).toDF("k"), model, "k", how="left", cache=ROOMY)
    with pytest.raises(PySparkException, match="my own"):
        joined.where("k < 3 OR raise_error('my own') IS NULL").collect()
    model.fail(4)
    other = bsjoin.join(
        spark.range(4).toDF("k"),
        model,
        "k",
        cache=Incremental(max_rows=9, retries=1, backoff=0.001),
    )
    with pytest.raises(PySparkException, match="LookupFailedError"):
        other.coalesce(1).collect()
    model.heal()
    for df in (joined, other):
        assert len(rows(df)) == (5 if df is joined else 4)


def test_windows_close_behind_an_incremental_join(feed: Feed, model: Model) -> None:
    at = F.timestamp_micros(F.lit(START) + F.col("k") * 60_000_000)
    stream = feed.stream.withColumn("at", at).withWatermark("at", "1 minute")
    source = Model(model.folder.parent / "minutes", planes(range(0, 1_000, 2)))
    joined = bsjoin.join(stream, source, "k", how="left", cache=ROOMY)
    counted = joined.groupBy(F.window("at", "10 minutes")).agg(
        F.count("*").alias("rows"), F.count("v").alias("found")
    )
    query = (
        counted.selectExpr("window.start AS start", "rows", "found")
        .writeStream.foreachBatch(lambda df, n: feed.results.__setitem__(n, rows(df)))
        .outputMode("append")
        .option("checkpointLocation", str(feed.checkpoint))
        .start()
    )
    feed.add(*range(25), 3, 4)
    query.processAllAvailable()
    feed.add(500)
    query.processAllAvailable()
    query.stop()
    closed = sorted(row[1:] for made in feed.results.values() for row in made)
    assert sum(count for count, _ in closed) == 27
    assert sum(found for _, found in closed) == 14


def test_an_aggregate_of_a_stream_is_joined(feed: Feed, model: Model) -> None:
    counted = feed.stream.groupBy("k").count()
    joined = bsjoin.join(counted, model, "k", cache=ROOMY)
    query = (
        joined.writeStream.foreachBatch(lambda df, n: feed.results.__setitem__(n, rows(df)))
        .outputMode("update")
        .option("checkpointLocation", str(feed.checkpoint))
        .start()
    )
    for keys in ((1, 1, 3, 9), (1, 2, None)):
        feed.add(*keys)
    query.processAllAvailable()
    assert feed.results == {
        0: [(1, 2, "v1"), (3, 1, "v1")],
        1: [(1, 3, "v1"), (2, 1, "v1"), (2, 1, "v1")],
    }


def test_a_join_inside_for_each_batch(
    spark: SparkSession, feed: Feed, model: Model, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")

    def joined(df: DataFrame, number: int) -> None:
        done = bsjoin.join(df, model, "k", how="left", cache=ROOMY)
        done.write.mode("append").parquet(out)

    for keys in ((1, 2, None), (3, 3, 9), ()):
        feed.add(*keys)
    writer = feed.stream.writeStream.foreachBatch(joined).trigger(availableNow=True)
    writer.option("checkpointLocation", str(feed.checkpoint)).start().awaitTermination()
    found = rows(spark.read.parquet(out))
    once = [(1, "v1"), (2, "v1"), (2, "v1"), (3, "v1"), (3, "v1"), (9, None)]
    assert found == [(None, None), *once]


def test_a_dataframe_that_is_used_twice_shares_its_cache(spark: SparkSession, model: Model) -> None:
    joined = bsjoin.join(spark.range(4).toDF("k"), model, "k", cache=ROOMY)
    twice = joined.union(joined.where("k > 1"))
    assert rows(twice) == sorted([(1, "v1"), *[(2, "v1"), (2, "v1"), (3, "v1")] * 2])
    assert rows(joined.alias("a").join(joined.alias("b"), "k").select("k")) == [
        (k,) for k in (1, 2, 2, 2, 2, 3)
    ]
    assert model.times == {0: 1, 1: 1, 2: 1, 3: 1}


def test_many_rows_of_frequent_and_of_rare_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Two hundred thousand rows, of few keys and of many; several groups of Arrow batches."""
    generator = np.random.default_rng(17)
    keys = np.concatenate(
        [generator.zipf(1.2, 150_000) % 20_000, generator.integers(0, 20_000, 50_000)]
    )
    generator.shuffle(keys)
    stored = np.arange(0, 20_000, 3)
    batch = pa.table({"k": stored, "v": stored * 2, "w": [f"w{k % 100}" for k in stored]})
    stream = pa.table({"k": keys, "i": np.arange(len(keys))})
    for unique in (True, False):
        model = Model(tmp_path / str(unique), batch, unique=unique)
        left, right = spark.createDataFrame(stream), spark.createDataFrame(batch)
        cache = Incremental(max_rows=5_000)
        for how in ("inner", "left"):
            joined = bsjoin.join(left, model, "k", how=how, cache=cache)
            mixed = F.xxhash64("k", "i", "v", "w") % 10**9
            sums = [F.count("*"), F.count("v"), F.sum("v"), F.sum(mixed)]
            wanted = expected(left, right, "k", how).agg(*sums).collect()
            assert joined.agg(*sums).collect() == wanted


def test_two_queries_of_one_dataframe_share_its_cache(
    spark: SparkSession, feed: Feed, model: Model, tmp_path: Path
) -> None:
    joined = bsjoin.join(feed.stream, model, "k", cache=ROOMY)
    run = Run(feed, joined)
    run.turn(1, 2, 9)
    other = joined.writeStream.format("memory").queryName("shares_a_cache").start()
    other.processAllAvailable()
    assert rows(spark.table("shares_a_cache")) == [(1, "v1"), (2, "v1"), (2, "v1")]
    assert [figures(c.cache, "hits", "misses") for c in cycles(other) if c.cache] == [(2, 0)]
    assert len(model.asked) == 1
    other.stop()


def test_a_query_that_is_stopped_in_a_look_up_ends_and_goes_on_later(
    feed: Feed, model: Model
) -> None:
    joined = bsjoin.join(feed.stream, model, "k", how="left", cache=ROOMY)
    run = Run(feed, joined)
    run.turn(1)
    with model.held():
        feed.add(2, 9)
        until(lambda: len(model.begun) == 2, "the look-up")
        run.query.stop()
        assert not run.query.isActive
    assert 1 not in feed.results
    query = feed.start(joined)
    query.processAllAvailable()
    assert feed.results[1] == [(2, "v1"), (2, "v1"), (9, None)]


def test_the_same_join_made_again_finds_its_cache(spark: SparkSession, model: Model) -> None:
    for _ in range(3):
        joined = bsjoin.join(spark.range(4).toDF("k"), model, "k", cache=ROOMY)
        assert joined.count() == 4
    assert model.times == {0: 1, 1: 1, 2: 1, 3: 1}
    other = bsjoin.join(spark.range(4).toDF("k"), model, "k", cache=Incremental(max_rows=7))
    assert other.count() == 4
    assert set(model.times.values()) == {2}
