"""``progress`` of plain joins and SQL: in streams, in ``foreachBatch`` and in ``cycles``."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_joins import plain, stored
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles, table_of

import bsjoin
from bsjoin import AsOf, BatchTable
from bsjoin.metrics.counted import counted
from bsjoin.metrics.lines import to_line
from bsjoin.metrics.refreshes import of_join

KEYS: list[list[int | None]] = [[1, 1, 2, 3, None, 99], [99, None, 2]]
COUNTS = {1: 3, 2: 1, 5: 2}


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """So many rows of a key, as ``bsjoin.many``."""
    path = tmp_path_factory.mktemp("tables") / "many"
    rows = [(key, row) for key, count in COUNTS.items() for row in range(count)]
    table = stored(spark, spark.createDataFrame(rows, "k long, v int"), "k", path)
    with configured(spark, {"spark.bsjoin.table.many": str(path)}):
        yield table


def test_figures_of_every_kind(spark: SparkSession, feed: Feed, many: DataFrame) -> None:
    """As the plan has it: inner and semi joins and NOT IN drop rows with null keys before."""
    kinds = {
        "inner": "JOIN bsjoin.many t ON s.k = t.k",
        "left": "LEFT JOIN bsjoin.many t ON s.k = t.k",
        "semi": "LEFT SEMI JOIN bsjoin.many t ON s.k = t.k",
        "anti": "WHERE NOT EXISTS (SELECT 1 FROM bsjoin.many t WHERE s.k = t.k)",
        "exists": "WHERE s.k > 98 OR EXISTS (SELECT 1 FROM bsjoin.many t WHERE s.k = t.k)",
        "not in": "WHERE s.k NOT IN (SELECT k FROM bsjoin.many WHERE k IS NOT NULL)",
    }
    feed.stream.createOrReplaceTempView("events")
    parts = (f"SELECT s.k, '{kind}' AS kind FROM events s {sql}" for kind, sql in kinds.items())
    for keys in KEYS:
        feed.add(*keys)
    query = feed.run(spark.sql(" UNION ALL ".join(parts)))
    figures = cycles(query)
    events = [cycle for event in query.recentProgress for cycle in bsjoin.progress(event)]
    assert [cycle for cycle in events if cycle.rows_in] == figures
    assert len({cycle.join for cycle in figures}) == len(kinds)
    for number, keys in enumerate(KEYS):
        made = Counter(row[-1] for row in feed.results[number])
        found = [cycle for cycle in figures if cycle.batch_id == number]
        assert [cycle.join for cycle in found] == [cycle.join for cycle in figures[: len(kinds)]]
        known = [key for key in keys if key is not None]
        pairs = sum(COUNTS.get(key, 0) for key in known)
        for kind, cycle in zip(kinds, found, strict=True):
            hits = sum(key in COUNTS for key in known)
            assert (cycle.table, cycle.on, cycle.mode) == ("many", ("k",), "full")
            assert cycle.rows_in == len(known if kind in ("inner", "semi", "not in") else keys)
            assert (cycle.hits, cycle.misses) == (hits, cycle.rows_in - hits)
            assert cycle.matches == (pairs if kind in ("inner", "left") else hits)
            assert cycle.rows_out == (len(keys) if kind == "exists" else made[kind])
            assert (cycle.runtime, cycle.runtime_reason) == ("jvm", "")
            assert (cycle.table_version, cycle.lookup_ms) == (1, None)
            assert (cycle.open_ms or 0) > 0
            assert cycle.refresh == of_join(cycle.join) is not None
            assert cycle.partition.kind == "none"


@pytest.mark.usefixtures("without_code")
def test_a_chain_a_path_a_version_and_keys(
    spark: SparkSession, feed: Feed, table: BatchTable, tmp_path: Path
) -> None:
    """What one join drops does not reach the next one; what it makes does."""
    times = spark.sql("SELECT 1L AS at, 10 AS w")
    BatchTable.build(times, on=[], when=AsOf("at", "at"), path=str(tmp_path / "times"))
    first = plain(spark, table.path)
    second = first.withColumnsRenamed({"k": "other", "v": "u"})
    third = plain(spark, tmp_path / "times")
    joined = (
        feed.stream.join(first, "k")
        .join(second, F.expr("abs(k - 1) = other"), "left")
        .join(third, F.expr("k <= at AND k >= at - 1"))
    )
    query = feed.run(joined, 0, 1, 1, 77)
    table.refresh(table_of(spark, 2))
    feed.turn(query, 1)
    found = cycles(query)
    assert [(c.rows_in, c.hits, c.rows_out) for c in found] == [
        (4, 3, 3), (3, 3, 3), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)
    ]  # fmt: skip
    assert [cycle.table_version for cycle in found] == [1, 1, 1, 2, 2, 1]
    paths = [str(table.path), str(table.path), str(tmp_path / "times")]
    assert [cycle.table for cycle in found[:3]] == paths
    assert [cycle.on for cycle in found[:3]] == [("k",), ("abs((k - 1))",), ("k",)]


@pytest.mark.usefixtures("without_code")
def test_sql_inside_a_function(spark: SparkSession, feed: Feed, many: DataFrame) -> None:
    """One action for each plan counts; what is only explained, or read from a cache, does not.

    A join before the function counts beside those in it.
    """

    def inside(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("batch")
        session = batch.sparkSession
        left = session.sql("SELECT b.k, t.v FROM batch b LEFT JOIN bsjoin.many t ON b.k = t.k")
        left._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended")
        )
        left.limit(1).collect()  # has looked up less than the next one
        left.count()
        left.collect()
        left.collect()
        semi = session.sql("SELECT k FROM batch LEFT SEMI JOIN bsjoin.many USING (k)").cache()
        assert semi.count() == semi.count()
        semi.unpersist()
        for kind in (threading.Thread, InheritableThread):
            sql = "SELECT * FROM batch LEFT ANTI JOIN bsjoin.many USING (k)"
            thread = kind(target=session.sql(sql).collect)
            thread.start()
            thread.join()
        session.sql("SELECT * FROM batch JOIN bsjoin.many USING (k)")  # nothing uses it

    for keys in KEYS:
        feed.add(*keys)
    query = feed.call(inside, feed.stream.join(many, "k", "left").select("k"))
    query.processAllAvailable()
    found = bsjoin.progress(query)
    by_batch = [[cycle for cycle in found if cycle.batch_id == number] for number in (0, 1)]
    assert [[c.join for c in one] for one in by_batch] == [[c.join for c in by_batch[0]]] * 2
    for keys, one in zip(KEYS, by_batch, strict=True):
        inner = [key for key in keys for _ in range(COUNTS.get(key, 1) if key else 1)]
        known = [key for key in inner if key is not None]
        pairs = sum(COUNTS.get(key, 0) for key in known)
        hits = sum(key in COUNTS for key in known)
        misses = len(inner) - hits
        assert [(c.rows_in, c.rows_out) for c in one] == [
            (len(keys), len(inner)),
            (len(inner), pairs + misses),
            (len(known), hits),
            (len(inner), misses),
        ]


def test_adaptive_plans_count_a_join_once(spark: SparkSession, feed: Feed, many: DataFrame) -> None:
    """Joins below, between and above shuffles, and a shuffle that is used twice."""

    def inside(batch: DataFrame, number: int) -> None:
        sums = batch.join(many, "k", "left").groupBy("k").agg(F.count("v").alias("n"))
        for adaptive in ("true", "false"):
            with configured(batch.sparkSession, {"spark.sql.adaptive.enabled": adaptive}):
                sums.union(sums).collect()
        second = sums.join(many.withColumnsRenamed({"k": "n", "v": "w"}), "n", "left")
        second.groupBy("n").count().join(many.withColumnRenamed("k", "count"), "count").collect()

    feed.add(1, 1, 2, 99)
    query = feed.call(inside)
    query.processAllAvailable()
    found = bsjoin.progress(query)
    assert [(c.on, c.rows_in, c.hits) for c in found] == [
        (("k",), 8, 6), (("n",), 3, 1), (("count",), 3, 2)
    ]  # fmt: skip


def test_cycles_have_those_of_their_sinks(
    spark: SparkSession, table: BatchTable, many: DataFrame
) -> None:
    def sink(joined: DataFrame, number: int) -> None:
        joined.join(many.withColumnRenamed("v", "w"), "k", "left").collect()

    function = bsjoin.cycles(table, "k", sink=sink)
    for keys in ("array(1L, 2L, 9L)", "array(1L)"):
        function(spark.sql(f"SELECT explode({keys}) AS k"), 0)
    spark.range(3).withColumnRenamed("id", "k").join(many, "k").collect()  # of no cycle
    found = [c for c in bsjoin.progress(function) if c.table is not None]
    assert [(c.table, c.rows_in, c.rows_out) for c in found] == [
        (found[0].table, 2, 4), (found[0].table, 1, 3)
    ]  # fmt: skip
    assert found[0].join == found[1].join


@pytest.mark.long
@pytest.mark.usefixtures("without_code")
def test_runs_of_a_query_do_not_mix(feed: Feed, many: DataFrame) -> None:
    """A batch that runs again is another one's; two queries, and after they have ended."""

    def start() -> Any:
        return feed.run(feed.stream.join(many, "k", "left"))

    feed.add(1, 2)
    first = start()
    other = feed.stream.join(many, "k").writeStream.format("noop").start()
    other.processAllAvailable()
    feed.turn(first, 99)
    first.stop()
    assert feed.forget_last_commit() == 1
    feed.add(5)
    second = start()
    second.stop()
    other.processAllAvailable()
    other.stop()
    assert [(c.batch_id, c.rows_in, c.hits) for c in cycles(first)] == [(0, 2, 2), (1, 1, 0)]
    assert [(c.batch_id, c.rows_in, c.hits) for c in cycles(second)] == [(1, 1, 0), (2, 1, 1)]
    assert len({c.join for c in [*cycles(first), *cycles(second)]}) == 1
    assert [(c.rows_in, c.hits) for c in cycles(other)] == [(2, 2), (1, 0), (1, 1)]


@pytest.mark.long
@pytest.mark.usefixtures("without_code")
def test_as_many_micro_batches_are_kept_as_spark_keeps(
    spark: SparkSession, feed: Feed, many: DataFrame
) -> None:
    """SQL reads them; and there are none without metrics."""
    joined = feed.stream.join(many, "k", "left")
    with configured(spark, {"spark.sql.streaming.numRecentProgressUpdates": "2"}):
        query = feed.start(joined)
        for _ in range(4):
            feed.turn(query, 1)
        query.stop()
    kept = [one.batch for one in counted(str(query.runId), 0, 100)]
    assert kept == [1, 2, 3]  # one more: the last one may have no progress yet
    assert {c.batch_id for c in cycles(query)} <= {2, 3}
    read = "SELECT bsjoin.figures('joins', '{}', 0L, 9L)"
    (text,) = spark.sql(read.format(query.runId)).first()  # type: ignore[misc]
    assert text.count('"rows_in":1') == 3
    assert spark.sql(read.format(uuid.uuid4())).first() == (to_line([]),)
    assert counted(str(query.runId), 4, 9) == []
    with configured(spark, {"spark.bsjoin.metrics": "off"}):
        query = feed.run(joined, 1, 2)
        query.stop()
    assert bsjoin.progress(query) == []
