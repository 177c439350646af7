"""Plain joins of streams: one version per micro-batch, and the same one in a replay."""

from __future__ import annotations

import pytest
from plain_joins import PLANNER, plain
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, table_of

from bsjoin import BatchTable


def joined(spark: SparkSession, feed: Feed, table: BatchTable, how: str = "left") -> DataFrame:
    return feed.stream.join(plain(spark, table.path), "k", how)


def lookups(spark: SparkSession, query: object) -> int:
    """How many joins of the last micro-batch the index has answered."""
    return str(query._jsq.explainInternal(False)).count("BsjoinLookup")  # type: ignore[attr-defined]


@pytest.mark.parametrize("planner", ["on", "off"])
def test_a_refresh_reaches_the_next_micro_batch(
    spark: SparkSession, feed: Feed, table: BatchTable, planner: str
) -> None:
    with configured(spark, {PLANNER: planner}):
        query = feed.start(joined(spark, feed, table))
        for version in (1, 2, 3):
            feed.add(0, 1, 77, None)
            query.processAllAvailable()
            table.refresh(table_of(spark, version + 1))
        assert lookups(spark, query) == (planner == "on")
        query.stop()
    assert feed.results == {
        n: [(None, None), (0, n + 1), (1, n + 1), (77, None)] for n in (0, 1, 2)
    }


def test_a_replay_has_the_same_version(spark: SparkSession, feed: Feed, table: BatchTable) -> None:
    query = feed.start(joined(spark, feed, table))
    for _ in range(2):
        feed.add(0, 1)
        query.processAllAvailable()
    query.stop()
    assert feed.forget_last_commit() == 1
    table.refresh(table_of(spark, 2))
    feed.results.clear()
    feed.add(0, 1)
    query = feed.start(joined(spark, feed, table))
    query.processAllAvailable()
    query.stop()
    assert feed.results == {1: [(0, 1), (1, 1)], 2: [(0, 2), (1, 2)]}

    # The version is gone: an error, not another version.
    assert feed.forget_last_commit() == 2
    table.refresh(table_of(spark, 3))
    table.vacuum(older_than=0)
    feed.results.clear()
    query = feed.start(joined(spark, feed, table))
    with pytest.raises(StreamingQueryException, match="VersionNotFoundError"):
        query.processAllAvailable()
    assert feed.results == {}


def test_joins_in_a_row_and_an_aggregate(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    side = plain(spark, table.path)
    first = feed.stream.join(side, "k", "left")
    second = first.join(side.selectExpr("k AS k2", "v AS v2"), F.expr("v = k2"), "left")
    query = feed.start(second)
    feed.add(0, 1, 2, 9)
    query.processAllAvailable()
    assert lookups(spark, query) == 2
    query.stop()
    assert feed.results == {0: [(0, 1, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1), (9, None, None, None)]}


def test_no_micro_batch_compiles_anew(spark: SparkSession, feed: Feed, table: BatchTable) -> None:
    """The text of the generated code has no version: Spark finds it in its cache."""
    joined = feed.stream
    for i in range(6):
        other = plain(spark, table.path).selectExpr(f"k AS k{i}", f"v AS v{i}")
        joined = joined.join(other, F.expr(f"k = k{i}"), "left")
    jvm = spark._jvm
    assert jvm is not None
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics
    query, compiled = feed.start(joined), []
    for version in (1, 2, 3):
        feed.add(0, 1, 77)
        query.processAllAvailable()
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount())
        table.refresh(table_of(spark, version + 1))
        assert lookups(spark, query) == 6
    query.stop()
    assert feed.results[2][0] == (0, *(0, 3) * 6)
    assert compiled[2] == compiled[1]


def test_the_table_is_built_again_while_the_query_runs(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    query = feed.start(joined(spark, feed, table))
    feed.add(0, 1)
    query.processAllAvailable()
    BatchTable.build(table_of(spark, 5), on="k", path=table.path)
    feed.add(0, 1)
    query.processAllAvailable()
    query.stop()
    assert feed.results[0] == [(0, 1), (1, 1)]
    assert feed.results[1] == [(0, 5), (1, 5)]
