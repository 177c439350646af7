"""Figures of joins inside a plain ``foreachBatch``; and what is no query is refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, rows, table_of

import bsjoin
from bsjoin import AsOf, BatchTable, Incremental
from bsjoin.errors import ArgumentError
from bsjoin.metrics.numbers import JoinNumbers

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]


def test_joins_inside_have_their_figures(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """One of each transfer mode: narrow and wide rows, a range, an incremental cache, a chain."""
    source = Model(tmp_path / "model", pa.table({"k": [1, 2, 2], "w": ["a", "b", "c"]}))
    table = BatchTable.build(table_of(spark, 1), on="k")
    times = BatchTable.build(table_of(spark, 1), on=[], when=AsOf("k", "k"))
    seen: list[Any] = []

    def joins(batch: DataFrame, number: int) -> None:
        wide = batch.selectExpr("k", "string(k) AS a", "string(k) AS b")
        found = [
            table.join(batch, how="left"),
            table.join(wide, how="anti"),
            times.join(batch, [], when=AsOf("k", "k"), select=["v"]),
            bsjoin.join(batch, source, "k", cache=Incremental(max_rows=9)),
        ]
        found.append(table.join(found[0], how="semi"))
        seen.append([rows(one) for one in found])
        table.join(batch)  # which nothing uses

    for keys in ((1, 2, None), (1, 9)):
        feed.add(*keys)
    query = feed.call(bsjoin.reporting(joins))  # as they are here
    query.processAllAvailable()
    found = bsjoin.progress(query)
    by_batch = [[cycle for cycle in found if cycle.batch_id == number] for number in (0, 1)]
    numbers = [[cycle.join for cycle in cycles] for cycles in by_batch]
    assert numbers[0] == sorted(set(numbers[0])) == numbers[1]
    assert [cycle.on for cycle in by_batch[0]][:4] == [("k",)] * 4
    wanted = [[len(one) for one in results] for results in seen]
    for one in wanted:
        one[0] *= 2  # the chain is its two joins: the first is looked up once more
    assert [[cycle.rows_out for cycle in cycles] for cycles in by_batch] == wanted
    assert [cycle.rows_in for cycle in by_batch[1]] == [4, 2, 2, 2, 2]
    assert by_batch[0][3].cache.misses == 2


def test_groups_of_jobs_have_them_and_threads_that_inherit_from_the_function(
    spark: SparkSession, feed: Feed
) -> None:
    """Spark says which micro-batch it is in the thread of the function only."""
    table = BatchTable.build(table_of(spark, 1), on="k")

    def apart(batch: DataFrame, number: int) -> None:
        for kind in (threading.Thread, InheritableThread):
            thread = kind(target=lambda: table.join(batch).collect())
            thread.start()
            thread.join()
        for name in ("first", "second"):
            spark.sparkContext.setJobGroup(name, "")
            table.join(batch).collect()

    feed.add(1, 2, 9)
    query = feed.call(apart)
    query.processAllAvailable()
    assert [cycle.rows_in for cycle in bsjoin.progress(query)] == [3, 3, 3]


def test_rows_that_were_joined_before_the_function_count_once(
    spark: SparkSession, feed: Feed
) -> None:
    """Its actions may take a part of them, all in one task, or what Spark has kept."""
    table = BatchTable.build(table_of(spark, 1), on="k")

    def function(batch: DataFrame, number: int) -> None:
        if number == 0:
            batch.collect()
            batch.coalesce(1).collect()
            batch.limit(1).collect()
        else:
            kept = batch.persist()
            assert not kept.isEmpty()
            kept.collect()
            kept.unpersist()

    for _ in range(2):
        feed.add(*range(9))
    query = feed.call(function, table.join(feed.stream.repartition(3), how="left"))
    query.processAllAvailable()
    query.stop()
    found = [(one.rows_in, one.hits, one.rows_out) for one in bsjoin.progress(query)]
    assert found == [(9, 4, 9)] * 2


@pytest.mark.parametrize("what", ["frame", None, 5, "name", {}, BatchTable, "writer"])
def test_what_is_no_query_is_refused(spark: SparkSession, what: Any) -> None:
    given = {"frame": spark.range(1), "writer": spark.range(1).write}
    thing = given.get(what, what) if isinstance(what, str) else what
    with pytest.raises(ArgumentError, match=rf"progress\(\) of a {type(thing).__name__}"):
        bsjoin.progress(thing)


def test_a_join_has_the_number_that_it_had_in_the_micro_batch_before() -> None:
    numbers = JoinNumbers(queries=2)

    def planned(query: str, *batches: int, call: str = "c") -> list[int]:
        return [numbers.next(query, call, batch, ("k",)) for batch in batches]

    first, second, *later = planned("a", 0, 0, 1, 1, 2, 3, 4)
    assert first != second
    assert later == [first, second, first, first, first]
    assert planned("a", 4, call="later") == [first]  # which runs it again
    # Between two joins of a micro-batch, a thread of the one before plans one.
    assert planned("a", 6, 5, 6) == [first, first, second]
    others = planned("b", 0) + planned("c", 0)
    again = planned("a", 9)
    assert len({first, second, *others, *again}) == 5  # forgotten
