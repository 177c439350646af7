"""Tables of lakes after many commits; that end, have branches, are joined, lose their history."""

from __future__ import annotations

from pathlib import Path

import pytest
from following_samples import figures, following, stored
from lake_samples import COMMITS, ROWS, Lake
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, rows

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import ArgumentError, SourceError, TableMismatchError
from bsjoin.following.dataframe import followed_of
from bsjoin.spark.fingerprint import identity

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("interpreted", "at_once")]


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


def selected(df: DataFrame, columns: list[str], *, some: bool) -> DataFrame:
    """The table, or a part of it with a column that is computed."""
    if not some:
        return df.select(*columns)
    *others, last = columns
    kept = df.where("part < 2 OR v LIKE 'o%'")
    return kept.selectExpr(*others, f"concat(cast({last} AS string), '!') AS last")


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


def test_what_is_done_with_a_version_is_part_of_its_identity(
    lake: Lake, spark: SparkSession
) -> None:
    lake.create(ROWS)
    other = Lake(spark, lake.format).create("SELECT id AS k, id AS w FROM range(3)")

    def frames() -> list[DataFrame]:
        t = lake.read()
        return [
            t,
            t.where("k > 3"),
            t.where("k > 4"),
            t.selectExpr("k", "v AS w"),
            t.join(other.read(), "k"),
            t.join(other.read(), "k", "left"),
            t.groupBy("k").agg({"v": "max"}).withColumnRenamed("max(v)", "v"),
            t.union(t),
        ]

    found = [identity(df).fingerprint for df in frames()]
    assert None not in found
    assert len(set(found)) == len(found)
    assert [identity(df).fingerprint for df in frames()] == found
    # A commit to either side of a join is a change.
    other.commit("DELETE FROM {t} WHERE k = 1")
    now = [identity(df).fingerprint for df in frames()]
    assert [a == b for a, b in zip(found, now, strict=True)] == [i not in (4, 5) for i in range(8)]
    # Rows that Spark has cached have none.
    df = lake.read().cache()
    try:
        assert identity(df).fingerprint is None
        assert identity(df.where("k > 1")).fingerprint is None
    finally:
        df.unpersist(blocking=True)
    assert identity(df).fingerprint == found[0]


def test_a_restart_reads_what_has_changed(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS, feed=True)
    stream = spark.readStream.format("rate").load().selectExpr("value AS k")
    cache = Full(store=tmp_path / "store", refresh="on_commit")
    for commit in ("", COMMITS["insert"]):
        if commit:
            lake.commit(commit)
        bsjoin.join(stream, lake.read().where("k IS NOT NULL"), "k", cache=cache)
        table = BatchTable.open(tmp_path / "store")
        assert stored(table) == rows(lake.read().where("k IS NOT NULL")), commit
    # A plain build finds that, and another filter is another table, which no change makes of it.
    BatchTable.build(lake.read().where("k IS NOT NULL"), on="k", path=tmp_path / "store")
    assert len(builds) == 1
    bsjoin.join(stream, lake.read().where("k > 5"), "k", cache=cache)
    assert stored(BatchTable.open(tmp_path / "store")) == rows(lake.read().where("k > 5"))
    assert len(builds) == 2


def test_columns_that_come_and_tables_that_go(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS, feed=True)
    df = lake.read().select("k", "v", "part")
    table = BatchTable.build(df, on="k", unique=True, path=tmp_path / "table")
    look = following(table, df)
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
    assert look.pause_s() > 0.3
    lake.create("SELECT id AS k, id * 2.5 AS v, id AS part FROM range(3)", name=lake.name)
    with pytest.raises(TableMismatchError, match=r"'v' of the source is decimal.* and was string"):
        look.look()
    assert stored(table) == kept
    spark.sql(f"DROP TABLE {lake.name}")
    lake.create(ROWS, name=lake.name, feed=True)
    look.look()
    assert stored(table) == rows(lake.read().select("k", "v", "part"))
    assert figures(table).read_whole >= 1


@pytest.mark.parametrize("feed_of_changes", [False, True])
def test_columns_are_found_under_the_names_that_they_had(
    lake: Lake, tmp_path: Path, feed: Feed, feed_of_changes: bool
) -> None:
    """A column has its values under its old name, also where another one has got that since."""
    lake.create(ROWS, feed=feed_of_changes)
    if feed_of_changes and lake.format == "delta":
        lake.commit("ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    df = lake.read().select("k", "v", "part")
    table = BatchTable.build(df, on="k", unique=True, path=tmp_path / "table")
    look = following(table, df)
    for number, alter in enumerate(("RENAME COLUMN v TO w", "RENAME COLUMN n TO v", "")):
        if alter:
            lake.commit("ALTER TABLE {t} " + alter)
        text, other = ("w", "n") if not number else ("w", "v")
        values = f"({30 + number}, 'x', 1, 2)"
        lake.commit(f"INSERT INTO {{t}} (k, {text}, part, {other}) VALUES {values}")
        look.look()
        assert stored(table) == rows(lake.read().selectExpr("k", f"{text} AS v", "part"))
    told = figures(table)
    # Delta's feed does not lead across a renaming; of Iceberg appends are told by numbers.
    applied = (1 if feed_of_changes else 0) if lake.format == "delta" else 3
    assert (told.applied, told.read_whole) == (applied, 3 - applied), told
    joined = table.join(feed.stream, how="left", select=["part"])
    query = feed.run(joined, 1)
    lake.commit("ALTER TABLE {t} DROP COLUMN v")  # which nobody uses
    lake.commit("INSERT INTO {t} (k, w, part) VALUES (39, 'y', 1)")
    look.look()
    assert stored(table) == rows(lake.read().selectExpr("k", "w AS v", "part"))
    lake.commit("ALTER TABLE {t} ADD COLUMN v BIGINT")
    kept = stored(table)
    lake.commit("ALTER TABLE {t} DROP COLUMN part")
    lake.commit("INSERT INTO {t} (k, w, v) VALUES (40, 'y', 1)")
    named = rf"have the column 'part' any more.*Running queries \({query.id}\) use it"
    with pytest.raises(TableMismatchError, match=named):
        look.look()
    assert f"Running queries ({query.id})" in str(figures(table).last_error)
    query.stop()
    with pytest.raises(TableMismatchError, match=r"have the column 'part' any more[^R]*$"):
        look.look()
    assert stored(table) == kept
    # A new call, by the same store, has the columns that there are.
    lake.commit("ALTER TABLE {t} ADD COLUMN more STRING")
    lake.commit("INSERT INTO {t} (k, w, v, more) VALUES (41, 'z', 1, 'm')")
    df = lake.read().select("k", "w", "more")
    table = BatchTable.build(df, on="k", unique=True, path=tmp_path / "table")
    assert stored(table) == rows(df)
    lake.commit("INSERT INTO {t} (k, w, v, more) VALUES (42, 'z', 1, 'm')")
    following(table, df).look()
    assert stored(table) == rows(lake.read().select("k", "w", "more"))


def test_a_column_of_another_type_is_an_error_with_the_queries(
    lake: Lake, tmp_path: Path, feed: Feed
) -> None:
    lake.create("SELECT id AS k, cast(id AS int) AS n FROM range(5)")
    if lake.format == "delta":
        lake.commit("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableTypeWidening = true)")
    df = lake.read()
    table = BatchTable.build(df, on="k", unique=True, path=tmp_path / "table")
    look = following(table, df)
    query = feed.run(table.join(feed.stream, how="left", select=["n"]), 1)
    before = stored(table)
    lake.commit("ALTER TABLE {t} ALTER COLUMN n TYPE bigint")
    lake.commit("INSERT INTO {t} VALUES (9, 1)")
    named = rf"'n' of the source is bigint now, and was int.*Running queries \({query.id}\)"
    with pytest.raises(TableMismatchError, match=named):
        look.look()
    query.stop()
    assert stored(table) == before


@pytest.mark.parametrize("lake", ["delta"], indirect=True)  # snapshots expire in test_lake_commits
def test_history_that_was_vacuumed(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create(ROWS, feed=True)
    df = lake.read()
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    look = following(table, df)
    lake.commit(COMMITS["update"])
    folder = Path(df.inputFiles()[0].removeprefix("file:")).parent
    gone = list((folder / "_change_data").glob("*.parquet"))
    assert gone
    for file in gone:
        file.unlink()
    for _ in range(2):  # it may pass
        with pytest.raises(SourceError, match="asked for again"):
            look.look()
    look.look()
    assert stored(table) == rows(lake.read())
    assert figures(table).read_whole == 1
    assert "cannot be read, so it is read whole" in caplog.text


def test_versions_that_stay_are_a_part_of_what_is_read(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS, feed=True)
    first = lake.version()
    lake.commit(COMMITS["update"])
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
        assert stored(BatchTable.build(df, on="k", path=tmp_path / "table")) == rows(df)
        return
    name = f"{lake.name}.branch_audit"
    spark.sql(f"ALTER TABLE {lake.name} CREATE BRANCH audit")
    with pytest.raises(ArgumentError, match="is read at branch_audit"):
        followed_of(spark.table(name), None)
    for number in range(2):
        if number:
            spark.sql(f"INSERT INTO {name} VALUES (50, 'audit', 1, 1)")
        df = spark.table(name)
        table = BatchTable.build(df, on="k", path=tmp_path / "table")
        assert stored(table) == rows(df)
        assert (stored(table)[-1][0] == 50) == bool(number)
