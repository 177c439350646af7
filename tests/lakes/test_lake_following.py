"""A table that follows a lake: after each commit and a look it is a build of the source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lake_samples import Lake
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles, rows, soon

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import ArgumentError, DuplicateKeyError, SourceError
from bsjoin.following import looks
from bsjoin.following.dataframe import followed_of
from bsjoin.following.looks import Following
from bsjoin.metrics.refreshes import RefreshProgress, of_table

pytestmark = pytest.mark.usefixtures("interpreted")

ROWS = "SELECT id AS k, concat('v', id) AS v, id % 3 AS part, id * 1.5 AS n FROM range(12)"
COMMITS = (
    "INSERT INTO {t} VALUES (20, 'new', 1, 2.5), (21, null, null, null)",
    "UPDATE {t} SET v = 'changed', part = part + 1 WHERE k IN (3, 20)",
    "MERGE INTO {t} USING (SELECT id, 'm' AS w FROM range(19, 23)) ON k = id "
    "WHEN MATCHED AND k < 21 THEN DELETE WHEN MATCHED THEN UPDATE SET v = w, part = 2 "
    "WHEN NOT MATCHED THEN INSERT (k, v, part, n) VALUES (id, w, 0, 9)",
    "UPDATE {t} SET k = k + 100 WHERE k IN (2, 5)",
    "INSERT INTO {t} VALUES (3, 'twice', 5, 1), (null, 'no key', 1, 1)",
    "DELETE FROM {t} WHERE v IN ('twice', 'no key')",
    "INSERT OVERWRITE {t} SELECT id, concat('o', id), id % 3, 0 FROM range(5, 9)",
)
# Rows that come, change and go; a key that changes, one that repeats, one that is null; all rows.
STEPS = tuple(COMMITS[number] for number in (0, 2, 3, 4, 6))
# What is read of the table, its keys, and whether only a part of it.
FRAMES = (
    (["k", "v", "part", "n"], ["k"], False),
    (["part", "v", "k"], ["part", "v"], True),
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks do not wait after a whole read."""
    monkeypatch.setattr(looks, "_PAUSES_OF_WHOLE_READS", 0.0)


def following(table: BatchTable, df: DataFrame, **options: Any) -> Following:
    given = replace(table._options, refresh="on_commit", **options)
    return table._following(followed_of(df, given.version), given)


def figures(table: BatchTable) -> RefreshProgress:
    found = of_table(table._location.url)
    assert found is not None
    return found


def stored(table: BatchTable) -> list[tuple[Any, ...]]:
    return rows(table.to_df())


def selected(df: DataFrame, columns: list[str], *, some: bool) -> DataFrame:
    """The table, or a part of it with a column that is computed."""
    if not some:
        return df.select(*columns)
    *others, last = columns
    kept = df.where("part < 2 OR v LIKE 'o%'")
    return kept.selectExpr(*others, f"concat(cast({last} AS string), '!') AS last")


def test_after_each_commit_and_a_look_the_table_is_a_build_of_the_source(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS, feed=True)
    tables, following_them = [], []
    for place, (columns, on, some) in enumerate(FRAMES):
        df = selected(lake.read(), columns, some=some)
        tables.append(BatchTable.build(df, on=on, path=tmp_path / str(place)))
        following_them.append(following(tables[-1], df))
    seen = []
    first: list[int] = []
    for number, commit in enumerate(("", *STEPS)):
        if commit:
            lake.commit(commit, elsewhere=number % 2 == 1)
        if lake.format == "iceberg":  # what is compared is of this application's cache
            spark.sql(f"REFRESH TABLE {lake.name}")
        now = lake.at(lake.version()).localCheckpoint()
        for (columns, _, some), table, look in zip(FRAMES, tables, following_them, strict=True):
            look.look()
            version = table.versions()[-1]
            assert version.source is not None
            assert version.source.version == lake.version(), commit
            assert stored(table) == rows(selected(now, columns, some=some)), commit
        # A build knows its version, unless operators are above of which nobody knows what they do.
        first = first or [figures(table).read_whole for table in tables]
        joined = tables[0].join(spark.range(25).withColumnRenamed("id", "k"))
        seen.append((joined, rows(joined)))
    for joined, before in seen:  # what a version answers stays
        assert rows(joined) == before
    assert first[0] == 0
    for table, before in zip(tables, first, strict=True):
        told = figures(table)
        assert told.applied + told.read_whole - before == len(STEPS)
        assert told.source == told.newest == table.versions()[-1].source
        # Of Iceberg the first commits alone are appends; rows with a null key are read whole.
        if lake.format == "delta":
            assert told.applied >= 3, told
        assert told.last_error is None
        assert told.lag_s is not None


def test_a_private_table_changes_by_the_rows_that_a_feed_tells(
    lake: Lake, spark: SparkSession, feed: Feed, builds: list[str]
) -> None:
    lake.create(ROWS, feed=True)
    df = lake.read().where("part < 2")
    joined = bsjoin.join(feed.stream, df, "k", how="left", select=["v"])  # cache="auto"
    query = feed.start(joined)
    append = "INSERT INTO {t} VALUES (20, 'new', 1, 2.5)"
    for number, (commit, wanted) in enumerate(
        (
            ("", [(3, "v3"), (20, None)]),
            (append, [(3, "v3"), (20, "new")]),
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


def test_a_restart_reads_what_has_changed(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS, feed=True)
    stream = spark.readStream.format("rate").load().selectExpr("value AS k")
    cache = Full(store=tmp_path / "store", refresh="on_commit")
    for commit in ("", COMMITS[0], ""):
        if commit:
            lake.commit(commit)
        bsjoin.join(stream, lake.read().where("k IS NOT NULL"), "k", cache=cache)
        table = BatchTable.open(tmp_path / "store")
        assert stored(table) == rows(lake.read().where("k IS NOT NULL")), commit
    assert len(builds) == 1
    # A plain build finds that, and another filter is another table, which no change makes of it.
    BatchTable.build(lake.read().where("k IS NOT NULL"), on="k", path=tmp_path / "store")
    assert len(builds) == 1
    bsjoin.join(stream, lake.read().where("k > 5"), "k", cache=cache)
    assert stored(BatchTable.open(tmp_path / "store")) == rows(lake.read().where("k > 5"))
    assert len(builds) == 2


def test_what_is_no_step_is_read_whole_or_an_error_and_the_old_rows_stay(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS, feed=True)
    df = lake.read().select("k", "v", "part")
    table = BatchTable.build(df, on="k", unique=True, path=tmp_path / "table")
    look = following(table, df)
    before = stored(table)
    lake.commit("INSERT INTO {t} VALUES (3, 'twice', 1, 1)")
    with pytest.raises(DuplicateKeyError):
        look.look()
    assert stored(table) == before
    lake.commit("DELETE FROM {t} WHERE v = 'twice'")
    look.look()
    assert stored(table) == rows(lake.read().select("k", "v", "part"))
    # A column that is added later is none of what was asked for.
    lake.commit("ALTER TABLE {t} ADD COLUMN more STRING")
    lake.commit("INSERT INTO {t} VALUES (30, 'more', 1, 1, 'x')")
    look.look()
    kept = rows(lake.read().select("k", "v", "part"))
    assert stored(table) == kept
    # The source goes, and another one of its name has another type.
    spark.sql(f"DROP TABLE {lake.name}")
    with pytest.raises(Exception, match=r"(?i)not (be )?(found|there|exist)|missing"):
        look.look()
    assert stored(table) == kept
    assert look.pause_s() > 0.3
    lake.create("SELECT id AS k, id * 2.5 AS v, id AS part FROM range(3)", name=lake.name)
    with pytest.raises(Exception, match=r"v"):
        look.look()
    assert stored(table) == kept
    spark.sql(f"DROP TABLE {lake.name}")
    lake.create(ROWS, name=lake.name, feed=True)
    look.look()
    assert stored(table) == rows(lake.read().select("k", "v", "part"))
    assert figures(table).read_whole >= 1


def test_history_that_was_vacuumed(
    lake: Lake, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if lake.format == "iceberg":
        return  # its snapshots are looked through before
    lake.create(ROWS, feed=True)
    df = lake.read()
    tables = [BatchTable.build(df, on="k", path=tmp_path / str(i)) for i in range(2)]
    strict = following(tables[1], df, fail_on_data_loss=True)
    before = stored(tables[1])
    lake.commit(COMMITS[1])
    lake.commit(COMMITS[2])
    folder = Path(df.inputFiles()[0].removeprefix("file:")).parent
    gone = list((folder / "_change_data").glob("*.parquet"))
    assert gone
    for file in gone:
        file.unlink()
    with pytest.raises(SourceError, match="fail_on_data_loss"):
        strict.look()
    assert stored(tables[1]) == before
    look = following(tables[0], df)
    for _ in range(2):  # it may pass
        with pytest.raises(SourceError, match="asked for again"):
            look.look()
    look.look()
    assert stored(tables[0]) == rows(lake.read())
    assert figures(tables[0]).read_whole == 1
    assert "cannot be read, so it is read whole" in caplog.text


def test_a_version_that_is_restored_is_one_more_step(lake: Lake, tmp_path: Path) -> None:
    lake.create(ROWS, feed=True)
    df, first = lake.read(), lake.version()
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    look = following(table, df)
    lake.commit(COMMITS[1])
    look.look()
    if lake.format == "delta":
        lake.commit(f"RESTORE TABLE {{t}} TO VERSION AS OF {first}")
    else:
        short = lake.name.partition(".")[2]
        lake.commit(f"CALL ice.system.rollback_to_snapshot('{short}', {first})")
    look.look()
    assert stored(table) == rows(lake.at(first))
    version = table.versions()[-1].source
    assert version is not None
    assert version.version == lake.version()


def test_versions_that_stay_are_a_part_of_what_is_read(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS, feed=True)
    first = lake.version()
    lake.commit(COMMITS[1])
    spark.range(12).toDF("k").write.parquet(str(tmp_path / "keys"))
    stream = spark.readStream.format("rate").load().selectExpr("value AS k")
    cache = Full(store=tmp_path / "followed", refresh="on_commit")
    for version in (first, lake.version(), first):
        df = spark.read.parquet(str(tmp_path / "keys")).join(lake.at(version), "k")
        assert stored(BatchTable.build(df, on="k", path=tmp_path / "built")) == rows(df)
        bsjoin.join(stream, df, "k", cache=cache)
        assert stored(BatchTable.open(tmp_path / "followed")) == rows(df)


def test_a_part_of_a_table_is_not_followed_as_the_whole(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS, "part")
    if lake.format == "delta":
        folder = Path(lake.read().inputFiles()[0].removeprefix("file:")).parent.parent
        df = spark.read.format("delta").load(f"{folder}/part=1")
        followed_of(df, None)  # Delta makes a filter of it
    else:
        spark.sql(f"ALTER TABLE {lake.name} CREATE BRANCH audit")
        df = spark.table(f"{lake.name}.branch_audit")
        with pytest.raises(ArgumentError, match="is read at branch_audit"):
            followed_of(df, None)
    for _ in range(2):
        table = BatchTable.build(df, on="k", path=tmp_path / "table")
        assert stored(table) == rows(df)
        if lake.format == "iceberg":
            spark.sql(f"INSERT INTO {lake.name}.branch_audit VALUES (50, 'audit', 1, 1)")
            df = spark.table(f"{lake.name}.branch_audit")
            assert rows(df)[-1][0] == 50
