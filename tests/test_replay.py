"""A replayed micro-batch uses the version it used before; vacuum keeps what may be replayed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from spark_samples import Feed, cycles, table_of

from bsjoin import BatchTable
from bsjoin.storage.copies import HostCopies

pytestmark = pytest.mark.usefixtures("runtime", "soon_active")


@pytest.mark.in_turns("runtime", others="long")
def test_a_replayed_micro_batch_uses_its_old_version_and_the_next_one_the_new(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """Of a table behind a URL; other tests replay local ones."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=f"local://{tmp_path}/table")
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
    query = feed.run(restarted.join(feed.stream))
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


@pytest.mark.in_turns("runtime")
def test_vacuum_keeps_what_a_running_query_may_replay(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    def vacuum() -> list[int]:
        found: list[list[int]] = []
        other = threading.Thread(target=lambda: found.append(table.vacuum(older_than=0)))
        other.start()
        other.join()
        return found[0]

    query = feed.run(table.join(feed.stream), 0, 1)
    table.refresh(table_of(spark, 2))
    # If the query stopped now, it might replay its last micro-batch with version 1.
    assert table.vacuum(older_than=0) == vacuum() == []
    for _ in range(2):
        feed.turn(query, 0, 1)
    assert vacuum() == [1]
    feed.turn(query, 0, 1)
    assert feed.results == {0: [(0, 1), (1, 1)], **{n: [(0, 2), (1, 2)] for n in (1, 2, 3)}}


@pytest.mark.in_turns("runtime")
def test_vacuum_keeps_everything_for_a_query_that_has_yet_to_begin(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    query = feed.run(table.join(feed.stream), 0, 1)
    query.stop()
    feed.forget_last_commit()
    table.refresh(table_of(spark, 2))
    feed.results.clear()
    query = feed.start(table.join(feed.stream))
    vacuumed = table.vacuum(older_than=0)
    feed.turn(query, 0, 1)
    assert feed.results == {0: [(0, 1), (1, 1)], 1: [(0, 2), (1, 2)]}
    assert vacuumed == []


@pytest.mark.long
def test_refreshing_a_remote_table_does_not_fill_the_disks_of_the_hosts(
    spark: SparkSession, feed: Feed, tmp_path: Path, runtime: str
) -> None:
    url = f"local://{tmp_path}/table"  # remote for bsjoin, and within reach of the workers
    table = BatchTable.build(table_of(spark, 1), on="k", path=url)
    query = feed.start(table.join(feed.stream))
    for version in range(1, 4):
        assert feed.turn(query, 0, 1) == [(0, version), (1, version)]
        assert len(copied(url)) == min(version, 2)
        if version < 3:
            assert table.refresh(table_of(spark, version + 1)) == version + 1
    if runtime == "jvm":  # the copies are those of a process of its own
        return
    owners = [owner.name for owner in (HostCopies(url).folder / "owners").iterdir()]
    parents = {name.split("-")[1].split(".")[0] for name in owners if name.startswith("parent-")}
    assert parents
    for pid in parents:
        assert b"daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()


def copied(url: str) -> set[str]:
    """The builds that this host has copies of."""
    return {copy.name.split("%2F")[1] for copy in HostCopies(url).folder.glob("copy-*")}
