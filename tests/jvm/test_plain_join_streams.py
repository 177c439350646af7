"""Plain joins of streams: one version per micro-batch, and the same one in a replay."""

from __future__ import annotations

import pytest
from oracle import together
from plain_joins import CODE, KINDS, LOOKUP, plain
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, rows, table_of

from bsjoin import BatchTable


def joined(spark: SparkSession, feed: Feed, table: BatchTable) -> DataFrame:
    return feed.stream.join(plain(spark, table.path), "k", "left")


def found(query: object) -> int:
    """How many joins of the last micro-batch the index has answered."""
    return str(query._jsq.explainInternal(False)).count(LOOKUP)  # type: ignore[attr-defined]


def test_a_refresh_reaches_the_next_micro_batch(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    """All kinds of joins in one query, and SQL; a table that is built again is followed, too."""
    events = feed.stream  # one source, whose files all the joins read at the same time
    events.createOrReplaceTempView("events")
    sql = f"SELECT e.k, t.v FROM bsjoin.`{table.path}` t RIGHT JOIN events e ON e.k = t.k"

    def query(stream: DataFrame, source: DataFrame, by_sql: DataFrame | None = None) -> DataFrame:
        joins = [stream.join(source, "k", how) for how in (*KINDS, "left")]
        return together(dict(enumerate([*joins[:4], joins[4] if by_sql is None else by_sql])))

    with configured(spark, CODE["interpreted"]):
        running = feed.start(query(events, plain(spark, table.path), spark.sql(sql)))
    keys: list[int | None] = [0, 1, 1, 77, 1_000_003, None]
    # Keys that are close together are found by their place; one that is far makes them be hashed.
    far = spark.sql("SELECT 1000003L, 2")
    sources = [table_of(spark, 1), table_of(spark, 2).union(table_of(spark, 3, keys=2)).union(far)]
    sources.append(table_of(spark, 5))
    for number, source in enumerate(sources):
        if number == 1:
            table.refresh(source)
        if number == 2:
            BatchTable.build(source, on="k", path=table.path)
        feed.turn(running, *keys)
        assert found(running) == 5
    stream = spark.createDataFrame([(key,) for key in keys], "k long")
    with configured(spark, CODE["interpreted"]):
        right = {n: rows(query(stream, source)) for n, source in enumerate(sources)}
    assert feed.results == right


def test_a_replay_has_the_same_version(spark: SparkSession, feed: Feed, table: BatchTable) -> None:
    query = feed.start(joined(spark, feed, table))
    for _ in range(2):
        feed.turn(query, 0, 1)
    query.stop()
    assert feed.forget_last_commit() == 1
    table.refresh(table_of(spark, 2))
    feed.results.clear()
    query = feed.run(joined(spark, feed, table), 0, 1)
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


@pytest.mark.long
def test_no_micro_batch_compiles_anew(spark: SparkSession, feed: Feed, table: BatchTable) -> None:
    """The text of the generated code has no version: Spark finds it in its cache."""
    joined = feed.stream
    for i in range(3):
        other = plain(spark, table.path).selectExpr(f"k AS k{i}", f"v AS v{i}")
        joined = joined.join(other, F.expr(f"k = k{i}"), "left")
    jvm = spark._jvm
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics
    query, compiled = feed.start(joined), []
    for version in (1, 2, 3):
        feed.turn(query, 0, 1, 77)
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount())
        table.refresh(table_of(spark, version + 1))
        assert found(query) == 3
    assert feed.results[2][0] == (0, *(0, 3) * 3)
    assert compiled[2] == compiled[1]
