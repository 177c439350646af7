"""A table of a lake is read again when it has a new version, or its changes are applied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lake_samples import COMMITS, ROWS, Lake
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles, rows, soon

import bsjoin
from bsjoin import BatchTable
from bsjoin.following.dataframe import followed_of
from bsjoin.following.looks import Following
from bsjoin.metrics.refreshes import RefreshProgress, of_table
from bsjoin.spark.fingerprint import identity

pytestmark = pytest.mark.usefixtures("interpreted", "at_once")

# Of Iceberg only what is appended is told.
STEPS = {
    "delta": ("insert", "merge", "key", "alike", "restore"),
    "iceberg": ("insert", "merge", "alike", "restore"),
}
# What is read of the table, its keys, and whether only a part of it.
FRAMES = (
    (["k", "v", "part", "n"], ["k"], False),
    (["part", "v", "k"], ["part", "v"], True),
)


def following(table: BatchTable, df: DataFrame, **options: Any) -> Following:
    given = replace(table._options, refresh="on_commit", **options)
    return table._following(followed_of(df, given.version), given)


def figures(table: BatchTable) -> RefreshProgress:
    found = of_table(table._location.url)
    assert found is not None
    return found


def stored(table: BatchTable) -> list[tuple[Any, ...]]:
    return rows(table.to_df())


def jobs(spark: SparkSession) -> int:
    """How many jobs have begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def selected(df: DataFrame, columns: list[str], *, some: bool) -> DataFrame:
    """The table, or a part of it with a column that is computed."""
    if not some:
        return df.select(*columns)
    *others, last = columns
    kept = df.where("part < 2 OR v LIKE 'o%'")
    return kept.selectExpr(*others, f"concat(cast({last} AS string), '!') AS last")


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


def test_after_each_commit_and_a_look_the_table_is_a_build_of_the_source(
    lake: Lake, tmp_path: Path
) -> None:
    lake.create(ROWS, feed=True)
    first = lake.version()
    tables, looks = [], []
    for place, (columns, on, some) in enumerate(FRAMES):
        df = selected(lake.read(), columns, some=some)
        tables.append(BatchTable.build(df, on=on, path=tmp_path / str(place)))
        looks.append(following(tables[-1], df))
    whole: list[int] = []
    for number, step in enumerate(("", *STEPS[lake.format])):
        if step == "restore":
            lake.restore(first)
        elif step:
            lake.commit(COMMITS[step], elsewhere=number % 2 == 1)
        version = lake.version()
        now = lake.at(version).localCheckpoint()
        for (columns, _, some), table, look in zip(FRAMES, tables, looks, strict=True):
            look.look()
            source = table.versions()[-1].source
            assert source is not None
            assert source.version == version, step
            assert stored(table) == rows(selected(now, columns, some=some)), step
        # A build knows its version, unless operators are above of which nobody knows what they do.
        whole = whole or [figures(table).read_whole for table in tables]
    assert whole[0] == 0
    for table, before in zip(tables, whole, strict=True):
        told = figures(table)
        assert told.applied + told.read_whole - before == len(STEPS[lake.format])
        assert told.source == told.newest == table.versions()[-1].source
        # Rows with a null key are read whole.
        assert told.applied >= (3 if lake.format == "delta" else 1), told
        assert told.last_error is None
        assert told.lag_s is not None


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

        def last() -> object:
            feed.add(3, 20)
            query.processAllAvailable()
            return feed.results[max(feed.results)]

        soon(last, wanted)
    found = cycles(query)[-1]
    query.stop()
    assert found.source is not None
    assert found.source.version == lake.version()
    assert found.refresh is not None
    assert len(builds) == (1 if lake.format == "delta" else 2)
    assert found.refresh.applied == (2 if lake.format == "delta" else 1)
