"""A table of a lake is read again when it has a new version, or its changes are applied."""

from __future__ import annotations

from pathlib import Path

import pytest
from following_samples import figures, following, stored
from lake_samples import COMMITS, ROWS, Lake, quick
from pyspark.sql import SparkSession
from spark_samples import Feed, cycles, rows, soon

import bsjoin
from bsjoin import BatchTable
from bsjoin.spark.fingerprint import identity

pytestmark = pytest.mark.usefixtures("interpreted", "at_once")


def jobs(spark: SparkSession) -> int:
    """How many jobs have begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


@pytest.mark.long
def test_a_table_is_read_once_for_each_version(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS, "part")
    first, known = lake.read(), []
    for number, name in enumerate(("", "insert", "delete", "overwrite")):
        if name:
            lake.commit(COMMITS[name], elsewhere=number % 2 == 1)
        for df in (first, lake.read()):  # `first` was made before all commits
            table = BatchTable.build(df, on="k", path=tmp_path / "store")
            assert len(builds) == number + 1, name
        assert stored(table) == rows(lake.read()), name
        known.append((lake.version(), identity(first).fingerprint))
    # A version that is asked for is none of the others.
    pinned = [identity(lake.at(version)).fingerprint for version, _ in known]
    assert None not in pinned
    assert len(set(pinned)) == len({found for _, found in known}) == len(known)
    # A refresh asks for the version, by no job.
    begun, version = jobs(spark), table.version
    assert table.refresh(first) == version
    assert (len(builds), jobs(spark)) == (4, begun)
    lake.commit(COMMITS["insert"], elsewhere=True)
    assert table.refresh(first) > version
    assert stored(table) == rows(lake.read())
    before = identity(lake.read()).fingerprint
    spark.sql(f"DROP TABLE {lake.name}")
    lake.create(ROWS, name=lake.name)
    assert identity(lake.read()).fingerprint not in (None, before)


@quick("delta")
def test_a_private_table_changes_by_the_rows_that_a_feed_tells(
    lake: Lake, spark: SparkSession, feed: Feed, builds: list[str]
) -> None:
    lake.create(ROWS, feed=True)
    df = lake.read().where("part < 2")
    joined = bsjoin.join(feed.stream, df, "k", how="left", select=["v"])  # cache="auto"
    query = feed.start(joined)
    for number, (commit, wanted) in enumerate(
        (
            ("", [(3, "v3"), (20, None)]),
            (COMMITS["insert"], [(3, "v3"), (20, "new")]),
            ("UPDATE {t} SET part = 2, v = 'gone' WHERE k = 3", [(3, None), (20, "new")]),
        )
    ):
        if commit:
            lake.commit(commit, elsewhere=number == 1)
        soon(lambda: feed.turn(query, 3, 20), wanted)
    found = cycles(query)[-1]
    query.stop()
    assert found.source.version == lake.version()
    own = [one for one in builds if "/store-" in one]  # tables of earlier tests may be followed
    assert len(own) == (1 if lake.format == "delta" else 2)
    assert found.refresh.applied == (2 if lake.format == "delta" else 1)


@pytest.mark.long
def test_a_hole_in_the_history_is_told(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create(ROWS, feed=True)
    df = lake.read()
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    look = following(table, df)
    lake.commit(COMMITS["insert"])
    if lake.format == "delta":
        why = "was switched off after version 0"
        lake.commit("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    else:
        why = "does not have its history since snapshot"
        between = lake.version()
        lake.commit(COMMITS["insert"])
        name = lake.name.partition(".")[2]
        which = f"table => '{name}', snapshot_ids => ARRAY({between})"
        lake.commit(f"CALL ice.system.expire_snapshots({which})")
    look.look()
    assert stored(table) == rows(lake.read())
    told = figures(table)
    assert (told.applied, told.read_whole) == (0, 1)
    assert why in str(told.read_whole_why)
    assert "cannot be read, so it is read whole" in caplog.text
    # What never tells its changes has no hole.
    lake.commit(COMMITS["delete"])
    following(table, df, fail_on_data_loss=True).look()
    assert stored(table) == rows(lake.read())
    why = "no append" if lake.format == "iceberg" else "has no change data feed"
    assert why in str(figures(table).read_whole_why)
