"""Figures that tasks send: which attempt counts, and how much is remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cache_samples import until
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, table_of

import bsjoin
from bsjoin import BatchTable
from bsjoin._task_figures import Adding, MicroBatches, TaskFigures

ONE = TaskFigures(
    query="q", run="r", batch=3, stage=7, partition=0, attempt=11, name="join", text="1"
)


@pytest.fixture
def kept() -> MicroBatches:
    kept = MicroBatches(queries=2)
    kept.remember(2)
    return kept


def tasks(kept: MicroBatches, query: str = "q", run: str = "r", batch: int = 3) -> dict[str, str]:
    return {name: row["tasks"] for name, row in kept.of(query, run, batch).items()}


def test_the_tasks_of_a_stage_are_put_together_by_name(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, partition=1, attempt=12, text="2")])
    kept.take([replace(ONE, name="other", text="3")])
    assert tasks(kept) == {"join": "1,2", "other": "3"}
    assert tasks(kept, batch=4) == {}
    assert tasks(kept, query="another") == {}


def test_a_later_attempt_takes_the_place_of_an_earlier_one(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, attempt=15, text="2"), replace(ONE, attempt=14, text="3")])
    assert tasks(kept) == {"join": "2"}


def test_a_task_that_computes_two_partitions_of_the_join_counts_both(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, text="2")])
    assert tasks(kept) == {"join": "1,2"}


def test_a_result_that_two_actions_use_counts_once(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, partition=1, attempt=12)])
    kept.take([replace(ONE, stage=8, attempt=20, text="2"), replace(ONE, stage=6, text="3")])
    assert tasks(kept) == {"join": "2"}


def test_each_run_of_a_query_has_its_own(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, run="s", stage=9, name="again", text="2")])
    assert tasks(kept) == {"join": "1"}
    assert tasks(kept, run="s") == {"again": "2"}
    # Of a run whose jobs have another name: what was sent last.
    assert tasks(kept, run="t") == {"again": "2"}


def test_the_last_micro_batches_of_the_last_queries_are_remembered(kept: MicroBatches) -> None:
    kept.take([replace(ONE, batch=batch) for batch in range(5)])
    # The newest may not have ended.
    assert [batch for batch in range(5) if tasks(kept, batch=batch)] == [2, 3, 4]
    last = replace(ONE, attempt=12)
    kept.take([replace(ONE, query="second"), last, replace(ONE, query="third")])
    assert tasks(kept, query="second") == {}
    assert tasks(kept) == tasks(kept, query="third") == {"join": "1"}


def test_an_accumulator_adds_lists_in_a_task_and_keeps_them_in_the_driver(
    kept: MicroBatches,
) -> None:
    adding = Adding()
    sent = adding.addInPlace(adding.zero(kept), [ONE])
    sent = adding.addInPlace(sent, [replace(ONE, text="2")])
    assert isinstance(sent, list)
    assert adding.addInPlace(kept, sent) is kept
    assert tasks(kept) == {"join": "1,2"}


@pytest.fixture
def python(spark: SparkSession) -> object:
    spark.conf.set("spark.bsjoin.runtime", "python")
    yield
    spark.conf.unset("spark.bsjoin.runtime")


@pytest.mark.usefixtures("python")
def test_rows_of_coalesced_and_of_united_streams_are_counted(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    parts = table.join(feed.stream.repartition(4)).coalesce(1)
    query = feed.start(parts.union(parts))
    feed.add(*range(40))
    query.processAllAvailable()
    assert [cycle.rows_in for cycle in cycles(query)] == [80]  # each looks its rows up
    assert len(feed.results[0]) == 2 * table_of(spark, 1).count()


@pytest.mark.usefixtures("python")
def test_two_actions_of_foreach_batch_count_once(
    feed: Feed, table: BatchTable, tmp_path: Path
) -> None:
    seen = []

    def twice(batch: object, number: int) -> None:
        seen.append((batch.count(), batch.count()))

    joined = table.join(feed.stream)
    query = joined.writeStream.foreachBatch(twice).start()
    feed.add(*range(10))
    query.processAllAvailable()
    assert len(set(seen[0])) == 1
    assert [cycle.rows_in for cycle in cycles(query)] == [10]


@pytest.mark.usefixtures("python")
def test_nothing_is_observed_for_each_row(feed: Feed, table: BatchTable) -> None:
    query = feed.start(table.join(feed.stream).where(F.col("k") >= 0))
    feed.add(0, 1)
    query.processAllAvailable()
    (last,) = [one for one in query.recentProgress if one.numInputRows]
    assert last.observedMetrics == {}
    assert [cycle.rows_in for cycle in bsjoin.progress(last)] == [2]


@pytest.mark.usefixtures("python")
def test_a_report_without_a_micro_batch_does_not_count(feed: Feed, table: BatchTable) -> None:
    """A query that waits for data reports itself with the number of the next micro-batch."""
    query = feed.start(table.join(feed.stream))
    until(lambda: query.recentProgress, "the report of the query that waits")
    feed.add(0, 1)
    query.processAllAvailable()
    waiting = query.recentProgress[0]
    assert (waiting.batchId, waiting.numInputRows) == (0, 0)
    assert [cycle.rows_in for cycle in bsjoin.progress(query)] == [2]
    assert bsjoin.progress(waiting) == []
