"""``refresh="on_commit"``: files, tables of files and queries of a version are followed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from following_samples import figures, following, stored
from pyspark.sql import DataFrame, SparkSession
from sessions import configured
from spark_samples import Feed, cycles, rows, soon, write_parquet

import bsjoin
from bsjoin import BatchTable, Full, SourceVersion
from bsjoin._clock import now_us
from bsjoin.build import apply as applying
from bsjoin.build import storing
from bsjoin.build.steps import most_rows
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.following import dataframe, looks
from bsjoin.following.dataframe import followed_of
from bsjoin.following.looks import Following
from bsjoin.following.protocol import Changes
from bsjoin.following.query import QuerySource
from bsjoin.spark import settled, source_versions
from bsjoin.storage import freshness, versions

pytestmark = pytest.mark.usefixtures("interpreted", "at_once")


class Clock(SimpleNamespace):
    """A clock that a test sets, for a module in which it takes the place of ``time``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any):
        super().__init__(now_s=1000.0)
        monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return float(self.now_s)


def write(file: Path, keys: list[int], value: str) -> None:
    write_parquet(file, k=pa.array(keys), v=pa.array([value] * len(keys)))


@pytest.mark.parametrize(
    "where", ["a folder", pytest.param("as on another file system", marks=pytest.mark.long)]
)
def test_files_are_read_whole_whenever_their_list_has_changed(
    spark: SparkSession,
    tmp_path: Path,
    builds: list[str],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    source = tmp_path / "source"
    write(source / "0.parquet", [1, 2], "a")
    write(source / "1.parquet", [3], "b")
    if where != "a folder":
        # The list of Hadoop is all that there is to see; and no file is younger than its clock.
        monkeypatch.setattr(source_versions, "_LOCAL", ("nowhere:",))
        monkeypatch.setattr(source_versions, "_TICK_MS", 0)
        monkeypatch.setattr("bsjoin.spark.leaves._RECOGNISED", set())
    df = spark.read.schema("k long, v string").parquet(str(source)).where("k > 0")
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    look = following(table, df)
    look.look()
    read = len(builds)
    look.look()
    assert len(builds) == read  # once at the most: a plain build does not know this version
    changes = (
        lambda: write(source / "0.parquet", [1, 2, 4], "c"),
        lambda: (source / "1.parquet").unlink(),
        lambda: write(source / "2.parquet", [5], "d"),
    )
    for number, change in enumerate(changes[:2] if where == "a folder" else changes[2:], 1):
        change()
        look.look()
        assert (len(builds), stored(table)) == (read + number, rows(df.select("*")))
        version = table.versions()[-1].source
        assert version == figures(table).source == figures(table).newest
        assert version.version.startswith(f"{len(list(source.glob('*.parquet')))} files ")
    assert figures(table).read_whole_why == "the source does not tell what has changed"


@pytest.mark.long
def test_files_that_are_just_being_written_are_no_version(
    spark: SparkSession, tmp_path: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "_QUIET_S", 2.0)
    monkeypatch.setattr("bsjoin.spark.leaves._TICK_NS", 0)
    clock, source = Clock(monkeypatch, settled), tmp_path / "source"
    write(source / "0.parquet", [1, 2], "a")
    (source / "_SUCCESS").touch()
    df = spark.read.schema("k long, v string").parquet(str(source))
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    look = following(table, df)
    look.look()
    old, read = stored(table), len(builds)

    def stays_after(seconds: float) -> None:
        clock.now_s += seconds
        look.look()
        assert (stored(table), len(builds)) == (old, read)

    # As Spark overwrites: the folder goes, a job runs, its files come one by one.
    for file in source.iterdir():
        file.unlink()
    stays_after(5)
    (source / "_temporary").mkdir()
    stays_after(300)
    clock.now_s += 600
    with pytest.raises(SourceError, match="_temporary says that a job writes them"):
        look.look()
    write(source / "0.parquet", [1], "b")
    with pytest.raises(SourceError, match="has not been complete for 10 minutes"):
        look.look()
    (source / "_temporary").rmdir()
    with pytest.raises(SourceError, match="no _SUCCESS any more"):
        look.look()
    (source / "_SUCCESS").touch()
    clock.now_s += 5
    look.look()
    old, read = stored(table), len(builds)
    assert old == [(1, "b")]
    # Files that others copy, one after the other.
    for number in (1, 2):
        write(source / f"{number}.parquet", [number * 10], "c")
        stays_after(1.5)
    clock.now_s += 2
    look.look()
    old, read = stored(table), len(builds)
    assert len(old) == 3
    # What is empty for long is meant to be.
    for file in source.iterdir():
        file.unlink()
    stays_after(1)
    stays_after(500)
    clock.now_s += 100
    look.look()
    assert stored(table) == []


@pytest.mark.long
def test_a_query_tells_the_version(
    spark: SparkSession,
    tmp_path: Path,
    builds: list[str],
    feed: Feed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = tmp_path / "number"
    number.write_text("7\n")
    loads = spark.read.schema("batch long").csv(str(number))
    loads.createOrReplaceTempView("loads")
    source = tmp_path / "source"
    write(source / "0.parquet", [1], "a")
    df = spark.read.schema("k long, v string").parquet(str(source))
    query = "SELECT repeat('x', 9999) || max(batch) FROM loads"
    cache = Full(refresh="on_commit", version=query, store=tmp_path / "table")
    stream = feed.stream
    for turn in range(2):  # the second time the version is known
        joined = bsjoin.join(stream, df, "k", how="left", cache=cache)
        assert (len(builds), joined.columns) == (1, ["k", "v"]), turn
    table = BatchTable.open(tmp_path / "table")
    assert table.versions()[-1].source == figures(table).source
    look = following(table, df, version=query)
    write(source / "1.parquet", [2], "b")
    look.look()
    assert len(builds) == 1  # nobody has said that there is more
    number.write_text("8\n")
    look.look()
    assert (len(builds), stored(table)) == (2, rows(df.select("*")))
    # The same rows again are as old as this time of reading them.
    location, times, build = table._location, list[int](), storing.build

    def timed(*given: Any) -> Any:
        times.append(now_us())
        return build(*given)

    monkeypatch.setattr(storing, "build", timed)
    versions.publish(location, replace(versions.latest(location), build_s=0.0))
    number.write_text("9\n")
    look.look()
    newest = versions.latest(location)
    assert (len(builds), newest.source) == (3, figures(table).source)
    assert freshness.read_us(newest, None, []) <= times[-1]
    number.write_text("")
    for _ in range(2):
        with pytest.raises(SourceError, match="has returned null"):
            look.look()
    assert look.pause_s() >= 4 * 0.2
    assert "has returned null" in str(figures(table).last_error)
    assert stored(table) == rows(df.select("*"))


def test_the_hour_that_a_clock_shows_twice_has_two_versions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [f"SELECT timestamp_seconds({at})" for at in (1_792_888_200, 1_792_891_800)]
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "Europe/Berlin")
            time.tzset()
            told = [QuerySource(spark.range(1), query).version() for query in queries]
    finally:
        time.tzset()
    assert [one and one.version for one in told] == [
        "2026-10-25 02:30:00", "2026-10-25 02:30:00 again",
    ]  # fmt: skip


@pytest.mark.long
def test_two_that_read_different_things_do_not_replace_each_other_for_ever(
    spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    write(tmp_path / "source" / "0.parquet", [1, 2], "a")
    df = spark.read.schema("k long, v string").parquet(str(tmp_path / "source"))
    first, second = df.where("k > 1"), df.where("rand() >= 0")
    table = BatchTable.build(first, on="k", path=tmp_path / "table")
    old, new = following(table, first), following(table, second)
    old.look()
    for _ in range(2):
        new.look()  # at a start the table is taken over
        with pytest.raises(SourceError, match="another application has put rows of files in"):
            old.look()
        assert (len(builds), stored(table)) == (2, [(1, "a"), (2, "a")])
    write(tmp_path / "source" / "1.parquet", [3], "b")
    with pytest.raises(SourceError, match="Give each its own store"):
        old.look()
    new.look()
    assert len(builds) == 3


def test_a_version_that_is_not_known_for_long_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "source" / "0.parquet", [1], "a")
    df = spark.read.schema("k long, v string").parquet(str(tmp_path / "source"))
    source = followed_of(df, None)
    monkeypatch.setattr(dataframe, "version_of", lambda *_: None)
    assert source.version() is None
    monkeypatch.setattr(dataframe, "_UNKNOWN_S", 0.0)
    with pytest.raises(SourceError, match="no version of files could be told for"):
        source.version()


REFUSED: list[tuple[Callable[[SparkSession, Path], DataFrame], str]] = [
    (lambda spark, _: spark.range(3), "nothing that it reads can change"),
    (
        lambda spark, path: spark.read.schema("id long").csv(str(path)).where("now() > '2020'"),
        "the current time",
    ),
    (
        lambda spark, _: spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id long"),
        "LogicalRDD tells no version",
    ),
    (lambda spark, _: spark.range(3).cache(), "has cached its rows"),
]


def test_what_cannot_be_followed_is_an_error_at_the_call(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id")
    table = BatchTable.build(spark.range(3), on="id")
    for make, why in REFUSED:
        df = make(spark, tmp_path)
        try:
            with pytest.raises(ArgumentError, match=why) as caught:
                bsjoin.join(stream, df, "id", cache=Full(refresh="on_commit"))
            assert 'refresh="10 minutes"' in str(caught.value)
            with pytest.raises(ArgumentError, match=why):
                table.start_refreshing(df, "on_commit")
        finally:
            df.unpersist(blocking=True)


def test_options_that_make_no_sense() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"version": "SELECT 1"}, "version= has no meaning with refresh=None"),
        ({"fail_on_data_loss": True, "refresh": "1 hour"}, "has no meaning with refresh='1 hour'"),
        ({"refresh": "on_commit", "fingerprint": "Monday"}, "fingerprint= has no meaning"),
        ({"refresh": "on_commit", "version": ""}, "give a query in SQL"),
        ({"refresh": "on commit"}, "on commit"),
    ]
    for options, why in cases:
        with pytest.raises(ArgumentError, match=why):
            Full(**options)


class Told:
    """A source of numbered states, each a dict of rows, that tells its changes."""

    def __init__(self, spark: SparkSession, states: list[list[tuple[int, str]]]):
        self.spark, self.states = spark, states
        self.number, self.hole, self.counts = 0, False, {"at": 0, "changes": 0}

    def version(self) -> SourceVersion:
        return SourceVersion("a list", str(self.number), 1_000_000, "it", "all")

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        return version == until

    def at(self, version: SourceVersion) -> DataFrame:
        self.counts["at"] += 1
        rows = self.states[int(version.version)]
        return self.spark.createDataFrame(rows, "k long, change_0 string")

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        self.counts["changes"] += 1
        if self.hole:
            raise OSError("gone are the files of password=secret")
        found, now = [], list(self.states[int(since.version)])
        for number in range(int(since.version) + 1, int(until.version) + 1):
            then = self.states[number]
            found += [(*row, "delete", number) for row in now if row not in then]
            found += [(*row, "insert", number) for row in then if row not in now]
            now = then
        schema = "k long, change_0 string, _change_type string, _commit_version long"
        return Changes(self.spark.createDataFrame(found, schema), at=lambda: self.at(until))


STATES = [
    [(1, "a"), (2, "b"), (3, "c")],
    [(1, "a"), (2, "B"), (4, "d")],
    [(1, "a"), (1, "twice"), (2, "B"), (4, "d")],
    [(1, "twice"), (2, "B")],
    [(1, "twice"), (1, "thrice"), (5, "e")],
    [],
    [(7, "g")],
]


def followed(
    spark: SparkSession, folder: Path, **options: Any
) -> tuple[Told, BatchTable, Callable[[], Following]]:
    source = Told(spark, STATES)
    full = Full(refresh="on_commit", store=folder, **options)
    first = source.at(source.version())
    table = BatchTable._ensure(first, ["k"], first.columns, full, private=False, followed=source)
    return source, table, lambda: table._following(source, full)


def test_steps_of_one_and_of_many_versions_lead_to_the_same_rows(
    spark: SparkSession, tmp_path: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many changes are read whole, which is no loss."""
    source, table, make = followed(spark, tmp_path / "table", fail_on_data_loss=True)
    look = make()
    for number, most, outcome in (
        (1, 50, (1, 0)),
        (3, 50, (2, 0)),
        (4, 1, (2, 1)),
        (6, 50, (3, 1)),
    ):
        monkeypatch.setattr(looks, "most_rows", lambda _, most=most: most)
        source.number = number
        look.look()
        assert stored(table) == sorted(STATES[number]), number
        assert table.versions()[-1].source == source.version()
        assert (figures(table).applied, figures(table).read_whole) == outcome
    assert "more than 1 rows have changed" in str(figures(table).read_whole_why)
    assert len(builds) == 2
    # Nothing more has come: the rows are noted to be fresh.
    fresh, number = tmp_path / "table" / "fresh", table.version
    before = {*fresh.glob("*")}
    look.look()
    (mark,) = {*fresh.glob("*")} - before
    assert (int(mark.name.split("-")[0]), table.version) == (number, number)


@pytest.mark.long
def test_a_crash_in_between_repeats_the_step_and_two_followers_take_each_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table, make = followed(spark, tmp_path / "table")
    one, other = make(), make()
    publish = versions.publish
    monkeypatch.setattr(looks, "_LOOKS_FOR_CHANGES", 1)
    source.number = 1

    class Killed(BaseException):
        pass

    def before(*_: Any, **__: Any) -> Any:
        raise Killed

    def after(*args: Any, **kwargs: Any) -> Any:
        publish(*args, **kwargs)
        raise Killed

    for crash, published in ((before, 1), (after, 2)):
        monkeypatch.setattr(applying.versions, "publish", crash)
        with pytest.raises(Killed):
            one.look()
        monkeypatch.setattr(applying.versions, "publish", publish)
        assert table.version == published
    assert stored(table) == STATES[1]
    other.look()
    one.look()
    assert table.version == 2
    # One that is slow finds that the other has gone on: the table does not go back.
    slow = Told(spark, STATES)

    def meanwhile() -> SourceVersion:
        source.number = 3
        other.look()
        return replace(source.version(), version="2")

    monkeypatch.setattr(slow, "version", meanwhile)
    for hole in (False, True):
        slow.hole = hole
        table._following(slow, table._options).look()
        assert stored(table) == sorted(STATES[3])
        assert table.versions()[-1].source == source.version()
        source.number = 1
        monkeypatch.setattr(source, "hole", True)  # back to where it was, read whole
        other.look()
        assert stored(table) == sorted(STATES[1])
        source.hole = False


def test_a_start_does_not_put_an_older_version_over_a_newer_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table, make = followed(spark, tmp_path / "table")
    starting = Told(spark, STATES)
    starting.hole = True

    def asked() -> SourceVersion:
        source.number = 3  # another application goes on just after the version was told
        make().look()
        return replace(source.version(), version="1")

    monkeypatch.setattr(starting, "version", asked)
    options, df = table._options, source.at(source.version())
    BatchTable._ensure(df, ["k"], df.columns, options, private=False, followed=starting)
    assert stored(table) == sorted(STATES[3])
    assert table.versions()[-1].source == source.version()


def test_a_refresh_does_not_put_older_rows_over_those_of_a_newer_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table, make = followed(spark, tmp_path / "table")
    folder, build, first = tmp_path / "source", storing.build, iter([True])
    write(folder / "0.parquet", [1], "old")
    df = spark.read.schema("k long, v string").parquet(str(folder)).where("rand() >= 0")
    df = df.withColumnRenamed("v", "change_0")

    def meanwhile(*arguments: Any) -> Any:
        draft = build(*arguments)
        if next(first, False):
            write(folder / "0.parquet", [1], "new")
            source.number, source.hole = 2, True
            make().look()
        return draft

    monkeypatch.setattr(storing, "build", meanwhile)
    monkeypatch.setattr(looks, "_LOOKS_FOR_CHANGES", 1)  # read whole at once
    table.refresh(df)
    assert stored(table) == [(1, "new")]


def test_a_hole_in_the_changes(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    builds: list[str],
) -> None:
    source, table, make = followed(spark, tmp_path / "reads")
    look, source.hole = make(), True
    with caplog.at_level(logging.WARNING, logger="bsjoin"):
        for source.number in (1, 2):
            for _ in range(2):  # it may pass
                with pytest.raises(SourceError, match="they are asked for again"):
                    look.look()
            look.look()
            assert stored(table) == sorted(STATES[source.number])
    (record,) = caplog.records  # once
    assert "read whole" in record.getMessage()
    assert "secret" not in caplog.text
    assert (figures(table).read_whole, figures(table).applied) == (2, 0)
    assert "gone are the files" in str(figures(table).read_whole_why)
    assert len(builds) == 3
    source.number = 0
    source, table, make = followed(spark, tmp_path / "stops", fail_on_data_loss=True)
    look, source.hole, source.number = make(), True, 1
    df = source.at(source.version())
    start = partial(BatchTable._ensure, df, ["k"], df.columns, table._options, private=False)
    for work in (look.look, partial(start, followed=source)):
        with pytest.raises(SourceError, match="from 0 to 1 cannot be read, and fail_on_data_loss"):
            work()
    assert stored(table) == STATES[0]
    source.hole = False
    look.look()
    assert stored(table) == STATES[1]


def test_how_many_changes_are_applied() -> None:
    found = {
        (rows, size): most_rows(SimpleNamespace(stats=SimpleNamespace(rows=rows, bytes=size)))  # type: ignore[arg-type]
        for rows, size in ((0, 0), (10_000_000, 1 << 30), (10_000_000, 1 << 40), (10, 1 << 40))
    }
    assert list(found.values()) == [100_000, 1_500_000, 4_882, 1]


@pytest.mark.long
def test_whole_reads_have_a_share_of_the_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "_PAUSES_OF_WHOLE_READS", 4.0)
    for limit, pause_s in ((None, 40), ("45 seconds", 15)):
        source, table, make = followed(spark, tmp_path / str(limit), max_staleness=limit)
        clock, look, at, changes = Clock(monkeypatch, looks), make(), source.at, source.changes

        def slow(version: SourceVersion, at: Any = at, clock: Clock = clock) -> DataFrame:
            clock.now_s += 10
            return at(version)

        monkeypatch.setattr(source, "at", slow)
        monkeypatch.setattr(source, "changes", lambda *_: None)
        source.number = 1
        look.look()
        assert stored(table) == sorted(STATES[1])
        refreshed = figures(table).last_success
        for source.number in (2, 3):
            clock.now_s += pause_s / 2 - 1
            look.look()
            assert (stored(table), figures(table).newest) == (sorted(STATES[1]), source.version())
            assert figures(table).last_success == refreshed  # it has no rows of a later time
        clock.now_s += 3
        with monkeypatch.context() as down:
            down.setattr(source, "at", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                look.look()
        look._whole_s = clock.now_s + 10
        look.look()
        assert figures(table).is_failing  # what waits has not succeeded
        clock.now_s += 11
        look.look()
        assert stored(table) == sorted(STATES[3])
        assert (figures(table).is_failing, figures(table).last_success != refreshed) == (
            False,
            True,
        )
    monkeypatch.setattr(source, "changes", changes)
    source.number = 4  # what is told waits for nothing
    monkeypatch.setattr(source, "at", at)
    look.look()
    assert (stored(table), figures(table).applied) == (sorted(STATES[4]), 1)
    look._costs.extend([2.0] * 5)
    assert look.pause_s() == 40  # a twentieth


@pytest.mark.long
def test_versions_of_a_table_without_a_path_stay_for_an_hour(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Told(spark, STATES)
    full, first = Full(refresh="on_commit"), source.at(source.version())
    table = BatchTable._ensure(first, ["k"], first.columns, full, private=True, followed=source)
    look = table._following(source, full)
    monkeypatch.setattr(source, "changes", lambda *_: None)
    for number, (minutes, kept) in enumerate(((0, [1, 2]), (55, [1, 2, 3]), (70, [4])), 1):
        monkeypatch.setattr("bsjoin.table.now_us", lambda m=minutes: now_us() + m * 60_000_000)
        source.number = number
        look.look()
        assert [version.number for version in table.versions()] == kept, minutes


def test_rows_that_spark_has_cached_since_then_are_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    write(source / "0.parquet", [1], "a")
    df = spark.read.schema("k long, v string").parquet(str(source))
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    found = [following(table, df), following(table, df, version="SELECT 1")]
    df.cache()
    try:
        write(source / "1.parquet", [2], "b")
        for look in found:
            with pytest.raises(SourceError, match="Spark has cached rows"):
                look.look()
        with pytest.raises(ArgumentError, match="has cached its rows"):
            following(table, df, version="SELECT 1")
    finally:
        df.unpersist(blocking=True)
    assert stored(table) == [(1, "a")]


def test_a_stream_has_the_version_of_each_micro_batch(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    """In both runtimes, each with a table of its own."""
    source = tmp_path / "source"
    write(source / "0.parquet", [1], "a")
    df = spark.read.schema("k long, v string").parquet(str(source))
    joined = []
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            cache = Full(refresh="on_commit")
            joined.append(bsjoin.join(feed.stream, df, "k", how="left", cache=cache))
    query = feed.run(joined[0].union(joined[1]), 1)
    write(source / "0.parquet", [1], "b")
    soon(lambda: feed.turn(query, 1), [(1, "b")] * 2)
    found = cycles(query)
    assert feed.results[0] == [(1, "a")] * 2
    assert {cycle.runtime for cycle in found} == {"jvm", "python"}
    seen = [cycle.source for cycle in found]
    assert None not in seen
    assert len({version.version for version in seen if version}) == len(
        {cycle.table_version for cycle in found}
    )
    for cycle in found[-2:]:
        assert cycle.refresh.newest == cycle.source
        assert cycle.refresh.lag_s is not None
        assert cycle.refresh.last_look is not None


def test_joins_inside_foreach_batch_and_cycles_follow(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    """Of a table that was given, and of one that is read in each micro-batch."""
    name, found = "followed_inside", {way: [] for way in ("given", "again", "cycles")}
    spark.sql(
        f"CREATE TABLE {name} (k LONG, v STRING) USING parquet PARTITIONED BY (v) "
        f"LOCATION '{tmp_path / 't'}'"
    )
    try:
        spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (3, 'c')")
        given, follow = spark.table(name), Full(refresh="on_commit")

        def keep(way: str, joined: DataFrame) -> None:
            found[way].append(rows(joined))

        # cache="auto" follows such a table.
        steered = bsjoin.cycles(given, "k", how="left", sink=lambda df, _: keep("cycles", df))

        def call(batch: DataFrame, number: int) -> None:
            for way, df in (("given", given), ("again", batch.sparkSession.table(name))):
                keep(way, bsjoin.join(batch, df, "k", how="left", cache=follow))
            steered(batch, number)

        query = feed.call(call)

        def last() -> list[Any]:
            feed.turn(query, 1, 2, 3)
            return [some[-1] for some in found.values()]

        def of_spark() -> list[Any]:
            probes = spark.range(1, 4).toDF("k")
            return [rows(probes.join(spark.table(name), "k", "left"))] * 3

        assert last() == of_spark()
        spark.sql(f"INSERT OVERWRITE {name} VALUES (1, 'A'), (2, 'b'), (2, 'B')")
        soon(last, of_spark())
        assert last() == of_spark()
        query.stop()
    finally:
        spark.sql(f"DROP TABLE {name}")
    before, cycle = bsjoin.progress(steered)[-2:]
    assert before.table_version == cycle.table_version  # nothing had come meanwhile
    assert cycle.source == cycle.refresh.newest
