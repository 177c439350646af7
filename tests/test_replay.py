"""A replayed micro-batch uses the version it used before; vacuum keeps what may be replayed."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from spark_samples import Feed, cycles, table_of

from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("runtime")


def test_a_replayed_micro_batch_uses_its_old_version_and_the_next_one_the_new(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    query = feed.start(table.join(feed.stream))
    for _ in range(2):
        feed.add(0, 1)
    query.processAllAvailable()
    query.stop()
    assert feed.results == {0: [(0, 1), (1, 1)], 1: [(0, 1), (1, 1)]}

    # The application dies before it commits micro-batch 1; the table changes meanwhile.
    assert feed.forget_last_commit() == 1
    table.refresh(table_of(spark, 2))
    feed.results.clear()
    feed.add(0, 1)
    restarted = BatchTable.open(table.path)
    query = feed.start(restarted.join(feed.stream))
    query.processAllAvailable()
    query.stop()
    assert feed.results == {1: [(0, 1), (1, 1)], 2: [(0, 2), (1, 2)]}
    assert [(c.batch_id, c.table_version) for c in cycles(query)] == [(1, 1), (2, 2)]

    # The same again, but the old version is vacuumed before the restart: no query of this
    # session runs, so nothing is known to need it.
    assert feed.forget_last_commit() == 2
    table.refresh(table_of(spark, 3))
    assert table.vacuum(older_than=0) == [1, 2]
    feed.results.clear()
    query = feed.start(restarted.join(feed.stream))
    with pytest.raises(StreamingQueryException, match="VersionNotFoundError") as error:
        query.processAllAvailable()
    assert "vacuumed" in str(error.value)
    assert "new checkpoint" in str(error.value)
    assert feed.results == {}


@pytest.mark.parametrize("thread", ["main", "other"])
def test_vacuum_keeps_what_a_running_query_may_replay(
    spark: SparkSession, feed: Feed, table: BatchTable, thread: str
) -> None:
    def vacuum() -> list[int]:
        if thread == "main":
            return table.vacuum(older_than=0)
        found: list[list[int]] = []
        other = threading.Thread(target=lambda: found.append(table.vacuum(older_than=0)))
        other.start()
        other.join()
        return found[0]

    query = feed.start(table.join(feed.stream))
    feed.add(0, 1)
    query.processAllAvailable()
    table.refresh(table_of(spark, 2))
    # If the query stopped now, it might replay its last micro-batch with version 1.
    assert vacuum() == []
    for _ in range(2):
        feed.add(0, 1)
        query.processAllAvailable()
    assert vacuum() == [1]
    feed.add(0, 1)
    query.processAllAvailable()
    assert feed.results == {0: [(0, 1), (1, 1)], **{n: [(0, 2), (1, 2)] for n in (1, 2, 3)}}


def test_vacuum_keeps_everything_for_a_query_that_has_yet_to_begin(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    query = feed.start(table.join(feed.stream))
    feed.add(0, 1)
    query.processAllAvailable()
    query.stop()
    feed.forget_last_commit()
    table.refresh(table_of(spark, 2))
    feed.results.clear()
    query = feed.start(table.join(feed.stream))
    vacuumed = table.vacuum(older_than=0)
    feed.add(0, 1)
    query.processAllAvailable()
    assert feed.results == {0: [(0, 1), (1, 1)], 1: [(0, 2), (1, 2)]}
    assert vacuumed == []
