"""What changes between versions of Delta and Iceberg, without Spark's jars, and who follows it."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from following_samples import check_rows, figures, followed
from lake_files import NAN, PLACES, UTC, every_type, write_delta
from pyiceberg.catalog import Catalog
from pyiceberg.types import LongType, StringType
from pyspark.sql import SparkSession
from source_stands import Iceberg

from bsjoin import BatchTable
from bsjoin.errors import SourceError, TableMismatchError
from bsjoin.following.source import FollowedTable, followed_table, rereading
from bsjoin.sources import Source, delta, iceberg
from bsjoin.sources.lakes import delta_files
from bsjoin.sources.lakes.delta_log import Commit, changed_files
from bsjoin.storage.lake_history import CHANGE, COMMIT
from bsjoin.storage.source_version import SourceVersion

FEED = {"delta.enableChangeDataFeed": "true"}
CAME = ("insert", "update_postimage")


def every_row(count: int, first: int = 0) -> pa.Table:
    """Rows of every type; ``id`` tells them apart."""
    found = every_type(max(4, first + count)).slice(first, count)
    return found.append_column("id", pa.array(range(first, first + count), pa.int64()))


def counted(source: Source, columns: list[str] | None) -> Counter[str]:
    found = pa.Table.from_batches(source.scan(columns))
    return Counter(repr(sorted(row.items())) for row in found.to_pylist())


def at(version: str, committed_at_us: int | None = None) -> SourceVersion:
    return SourceVersion("t", version, committed_at_us, "")


def told(source: Source, since: str, until: str, columns: list[str] | None = None) -> str | None:
    """Hold what has changed against the rows of both versions; or why it is not told."""
    columns = source.schema.names if columns is None else columns
    versions = source.table_changes()
    found = versions.changes(at(since), until, columns)
    if isinstance(found, str):
        return found
    there = counted(versions.at(since), columns)
    few = found.few()
    scanned = pa.Table.from_batches(found.scan(), few.schema)
    assert repr(few.to_pylist()) == repr(scanned.to_pylist())  # NaN is among them
    for batch in found.scan():
        assert batch.schema.names == [*columns, CHANGE, COMMIT]
        for row in batch.to_pylist():
            change, _ = row.pop(CHANGE), row.pop(COMMIT)
            there[repr(sorted(row.items()))] += 1 if change in CAME else -1
    assert min(there.values(), default=0) >= 0
    assert +there == counted(versions.at(until), columns)
    return None


def merge(table: deltalake.DeltaTable) -> None:
    rows = every_row(12, 20).set_column(1, "int", pa.array([7] * 12, pa.int32()))
    merging = table.merge(rows, "s.id = t.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


COMMITS: dict[str, Callable[[deltalake.DeltaTable], Any]] = {
    "append": lambda t: deltalake.write_deltalake(t, every_row(9, 40), mode="append"),
    "update": lambda t: t.update(
        predicate="id % 3 = 1", updates={"text": "'up'", "int": "int + 1"}
    ),
    "delete": lambda t: t.delete("id % 5 = 2"),
    "merge": merge,
    "overwrite": lambda t: deltalake.write_deltalake(t, every_row(7, 3), mode="overwrite"),
    "part": lambda t: deltalake.write_deltalake(
        t, every_row(3, 5), mode="overwrite", predicate="id >= 5 AND id < 8"
    ),
    "compact": lambda t: t.optimize.compact(),
    "restore": lambda t: t.restore(0),
}


@pytest.mark.parametrize(
    "feed", [pytest.param(True, marks=pytest.mark.long), False], ids=["feed", "files"]
)
def test_any_commits_of_delta_are_told(feed: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(
        path, every_row(24), partition_by=["even"], configuration=FEED if feed else None
    )
    deltalake.write_deltalake(path, every_row(4, 24), mode="append")
    draw, source = random.Random(f"{feed}"), delta(path)
    names = [*COMMITS, *draw.choices([*COMMITS], k=2)]
    draw.shuffle(names)
    first = 0  # after it every commit is told
    for name in names:
        table = deltalake.DeltaTable(path)
        before = table.version()
        COMMITS[name](table)
        after = deltalake.DeltaTable(path).version()
        why = told(source, str(before), str(after))
        # A restored version brings its columns and properties along.
        assert (why is None) == (name != "restore"), (why, name, names)
        first = after if name == "restore" else first
    for columns in (None, ["day", "even"], ["nested", "at"]):
        assert told(source, str(first), str(after), columns) is None, names
    if feed:
        commits = delta_files.commits_between(path, {}, first + 1, after)
        files = changed_files(commits)  # type: ignore[arg-type]
        assert None in {file.change for file in files}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["s", "day", "even", "amount", "number", "at"])
def test_values_of_partitions_are_read_and_told(name: str, tmp_path: Path) -> None:
    count = len(PLACES)
    table = pa.table(
        {
            "id": range(count),
            "s": PLACES,
            "day": pa.array([None, -719_162, 2_932_896, *range(count - 3)], pa.int32()).cast(
                pa.date32()
            ),
            "even": [None, *(i % 2 == 0 for i in range(1, count))],
            "amount": pa.array([Decimal(i) / 4 for i in range(count)], pa.decimal128(9, 2)),
            "number": [NAN, *(i / 3 for i in range(1, count))],
            "at": pa.array([i * 1_234_567_890_123 for i in range(count)], UTC),
        }
    )
    folder = tmp_path / "we ird #1? é"
    for _ in range(2):
        deltalake.write_deltalake(folder.as_uri(), table, partition_by=[name], mode="append")
    source = delta(folder)
    written = Counter(repr(sorted(row.items())) for row in table.to_pylist() * 2)
    assert counted(source, None) == written
    values = [repr(value) for value in table[name].to_pylist()]
    for row in range(count):
        found = source.lookup(table.select([name]).slice(row, 1), ["id"])
        wanted = 2 * [i for i in range(count) if values[i] == values[row]]
        assert sorted(found["id"].to_pylist()) == sorted(wanted)
    why = told(source, "0", "1")
    assert (why is None) == (name not in ("number", "at")), why
    assert told(source, "0", "1", ["id"]) is None


def test_files_are_read_by_deltalake_from_other_stores(tmp_path: Path) -> None:
    url = (tmp_path / "t").as_uri()
    for part in (every_row(9), every_row(9, 9)):
        deltalake.write_deltalake(url, part, partition_by=["day"], mode="append")
    source: Any = delta(url)
    source._path = url  # of which a path has become
    assert told(source, "0", "1") is None
    with pytest.raises(SourceError, match="commit 2 is not in the table's log"):
        delta_files.commits_between(url, {}, 1, 2)


def test_columns_of_delta_that_are_mapped_and_times_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999, 1, None], UTC)
    table = pa.table({"at": far, 'v"x': ["a", "b", None, "d"], "id": pa.array(range(4))})
    columns = {"at": "timestamp", 'v"x': "string", "id": "long"}
    for version, part in enumerate((table, table.slice(1), table.slice(2, 1))):
        write_delta(
            tmp_path / "t", columns, [(part, {}, [])], version,
            use_deprecated_int96_timestamps=True, store_schema=False,
        )  # fmt: skip
    source = delta(tmp_path / "t", schema={"at": pa.timestamp("us")})
    (found,) = source.table_changes().changes(at("1"), "2", source.schema.names).scan()
    assert found.column("at").cast(pa.int64()).to_pylist() == [1]
    numbers = delta(tmp_path / "t").table_changes().changes(at("0"), "2", ["at", 'v"x'])
    read = pa.Table.from_batches(numbers.scan())
    assert read.column("at").cast(pa.int64()).to_pylist() == [253402300799999999, 1, None, 1]
    assert read.column('v"x').to_pylist() == ["b", None, "d", None]
    write_delta(tmp_path / "t", columns, [(table, {}, [1])], 3)
    why = told(delta(tmp_path / "t"), "2", "3")
    assert "commit 3 tells by deletion vectors" in why
    monkeypatch.setattr("bsjoin.sources.lakes.delta._FEATURES", {"deletionVectors"})
    why = told(delta(tmp_path / "t"), "0", "1")
    assert "files are read: ['columnMapping', 'timestampNtz']" in why


def test_changes_have_dates_of_the_legacy_calendar_as_the_table_has_them(tmp_path: Path) -> None:
    """The library does not rebase them, so what is read with it whole must not differ."""
    days = pa.array([-700_000, 0], pa.int32()).cast(pa.date32())
    table = pa.table({"d": days, "at": days.cast(pa.timestamp("us", "UTC"))})
    table = table.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    for version in range(2):
        columns = {"d": "date", "at": "timestamp"}
        write_delta(tmp_path / "t", columns, [(table, {}, [])], version)
    assert told(delta(tmp_path / "t"), "0", "1") is None


def of_log(*actions: Mapping[str, Any]) -> str:
    found = changed_files(
        [Commit.parsed(5, b"\n".join(json.dumps(one).encode() for one in actions))],
        ["s"],
    )
    return found if isinstance(found, str) else ""


def test_a_log_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("../x.parquet", "a/%2E%2E/x", "/etc/passwd", "s3://b/x", "file:///x", "", 7):
        why = of_log({"add": {"path": path, "partitionValues": {}}})
        assert "which is not in the table's folder" in why
    for values in ({}, {"partitionValues": {}}, {"partitionValues": {"s": 5}}):
        assert "the partition of 'x'" in of_log({"remove": {"path": "x", **values}})
    null = {"path": "x", "partitionValues": {}, "extendedFileMetadata": True}  # as Spark writes it
    assert not of_log({"add": null}, {"remove": null})
    assert "empty text" in of_log({"add": {"path": "x", "partitionValues": {"s": ""}}})
    for name in ("metaData", "protocol"):
        assert "columns or properties, or its protocol" in of_log({name: {}})
    assert not of_log({"add": {"path": "x", "dataChange": False}}, {"commitInfo": {}})
    for text in (b"x", b"[]", b"{}", b'{"a": 1, "b": 2}', b'{"add": []}', b"[" * 100_000):
        with pytest.raises(SourceError, match="no list of actions"):
            Commit.parsed(5, text)
    path = str(tmp_path / "t")
    for first in (0, 9, 18):
        deltalake.write_deltalake(path, every_row(9, first), mode="append")
    source = delta(path)
    with pytest.raises(SourceError, match=r"version 2 .* restored from a copy"):
        told(source, "2", "1")
    monkeypatch.setattr(delta_files, "_MOST_COMMITS", 1)
    assert "more than 1 commits" in (told(source, "0", "2") or "")
    monkeypatch.setattr(delta_files, "_MOST_LOG_BYTES", 1 << 10)
    assert "MB" in (told(source, "0", "1") or "")
    monkeypatch.undo()
    changes = source.table_changes()
    with pytest.raises(SourceError, match="restored from a copy"):
        changes.changes(at("1", 1_000_000), "2", ["id"])
    table = followed_table(None, source, ["id"])  # type: ignore[arg-type]
    version = table.version()
    for known, same in ((version.committed_at_us, True), (None, True), (1_000_000, False)):
        assert table.has(replace(version, committed_at_us=known), version) is same
    shutil.move(tmp_path / "t/_delta_log/00000000000000000001.json", tmp_path)
    with pytest.raises(SourceError, match="commit 1 is not in the table's log"):
        delta_files.commits_between(path, {}, 1, 2)


def test_appends_of_iceberg_are_told(catalog: Catalog, tmp_path: Path) -> None:
    made = catalog.create_table("shop.t", every_row(1).schema)
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    numbers = ["none"]

    def noted() -> None:
        numbers.append(source.table_changes().version().version)

    for first in (0, 9, 3, 3):
        made.append(every_row(9, first))
        noted()
    for since in range(4):
        assert told(source, numbers[since] if since else numbers[1], numbers[4]) is None
    assert told_why(source, "none", numbers[2]) == "the table had no snapshot"
    assert "none of those that led to" in (told(source, numbers[3], numbers[2]) or "")
    made.delete("id = 4")
    noted()
    made.append(every_row(2, 30))
    noted()
    assert "is no append, but" in (told(source, numbers[4], numbers[6]) or "")
    assert told(source, numbers[5], numbers[6]) is None
    before = source.table_changes().version()
    with made.update_schema() as update:
        update.rename_column("int", "renamed")
    # The rows of the same snapshot are others.
    after = source.table_changes().version()
    assert (after.version, after.identity == before.identity) == (before.version, False)
    made.append(
        every_row(2, 32).rename_columns(["long", "renamed", *every_row(1).column_names[2:]])
    )
    noted()
    renamed = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    assert told(renamed, numbers[6], numbers[7], ["renamed", "id"]) is None
    made.maintenance.expire_snapshots().by_id(int(numbers[6])).commit()
    made.append(
        every_row(1, 50).rename_columns(["long", "renamed", *every_row(1).column_names[2:]])
    )
    noted()
    assert told(renamed, numbers[7], numbers[8]) is None
    # The snapshot without a parent that is left is not the first one; what came after it is known.
    assert "none of those that led to" in (told_why(renamed, numbers[8], numbers[7]) or "")
    for since in (numbers[5], numbers[6]):
        with pytest.raises(SourceError, match=f"history since snapshot {since} any more") as caught:
            told_why(renamed, since, numbers[8])
        assert not caught.value.is_transient


def told_why(source: Source, since: str, until: str) -> str | None:
    found = source.table_changes().changes(at(since), until, ["id"])
    return found if isinstance(found, str) else None


def check(source: FollowedTable, table: BatchTable) -> None:
    """The stored rows are those of the newest version, as its scan returns them in this process."""
    version = source.version()
    check_rows(table, source._looks.at(version.version), source.columns)


def some(ids: range | list[int | None], value: str) -> pa.Table:
    return pa.table({"k": pa.array(ids, pa.int64()), "v": [f"{value}{k}" for k in ids]})


def put(path: str, rows: pa.Table) -> None:
    deltalake.write_deltalake(path, rows, mode="append")


# What is committed before each look.
STEPS: tuple[tuple[Callable[[str], Any], ...], ...] = (
    (
        lambda t: deltalake.DeltaTable(t).update(predicate="k < 3", updates={"v": "'u'"}),
        lambda t: deltalake.DeltaTable(t).update(predicate="k = 9", updates={"k": "90"}),
        lambda t: deltalake.DeltaTable(t).delete("k IN (5, 8)"),
        lambda t: put(t, some([3, 3], "twice")),
    ),
    (lambda t: deltalake.DeltaTable(t).delete("v = 'twice3'"),),
    (lambda t: put(t, some([None], "x")),),
)


@pytest.mark.usefixtures("interpreted", "at_once")
@pytest.mark.parametrize(
    "feed", [True, pytest.param(False, marks=pytest.mark.long)], ids=["feed", "files"]
)
def test_a_table_that_follows_delta_is_what_a_build_would_be(
    spark: SparkSession,
    feed: bool,
    tmp_path: Path,
    builds: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not feed:  # rows that are many go by a worker, also those of a small file
        monkeypatch.setattr("bsjoin.sources.lakes.lake_versions._MOST_BYTES", 0)
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, some(range(30), "v"), configuration=FEED if feed else None)
    lake: Any = delta(path)
    lake.opened_every_s = 0
    source, table, looks = followed(spark, lake, tmp_path / "store", ["k", "v"])
    for commits in STEPS:
        for commit in commits:
            commit(path)
        looks.look()
        check(source, table)
    found = figures(table)
    assert (found.applied, found.read_whole, len(builds)) == (2, 1, 2)
    assert "null key" in str(found.read_whole_why)
    assert found.newest.source.startswith("the Delta table ")
    assert found.newest.committed_at_us is not None
    # A folder that is written again is another table.
    shutil.rmtree(path)
    deltalake.write_deltalake(path, some(range(4), "o"), configuration=FEED if feed else None)
    looks.look()
    check(source, table)
    # Another process begins with the stored table.
    put(path, some(range(40, 45), "n"))
    source, table, _ = followed(spark, delta(path), tmp_path / "store", ["k", "v"])
    check(source, table)
    assert len(builds) == 3


@pytest.mark.usefixtures("interpreted", "at_once")
@pytest.mark.filterwarnings("ignore:Delete operation did not match")  # of the first overwrites
def test_a_table_that_follows_iceberg_is_what_a_build_would_be(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    made = catalog.create_table("shop.t", some([1], "v").schema)
    made.append(some(range(20), "v"))
    lake = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    source, table, looks = followed(spark, lake, tmp_path / "store", ["k", "v"])

    def make_again() -> None:
        catalog.drop_table("shop.t")
        catalog.create_table("shop.t", some([1], "v").schema).append(some(range(4), "o"))

    for commit, outcome in (
        (lambda: made.append(some([3, 33], "again")), (1, 0)),
        (lambda: made.delete("k = 4"), (1, 1)),
        (make_again, (1, 2)),
    ):
        commit()
        looks.look()
        check(source, table)
        found = figures(table)
        assert (found.applied, found.read_whole) == outcome
    assert found.newest.source.startswith("the Iceberg table ")
    assert found.newest.committed_at_us is not None
    # A micro-batch that runs again replaces its rows, if it is written as the page on lakes says.
    found_rows = table.to_df().selectExpr("*", "int(k % 2) AS batch").toArrow()
    sink = catalog.create_table("shop.sink", found_rows.schema)
    for number in (0, 1, 1):
        batch = found_rows.filter(pc.field("batch") == number)
        sink.overwrite(batch, overwrite_filter=f"batch = {number}")
    in_sink = sink.scan().to_arrow()
    assert sorted(map(repr, in_sink.to_pylist())) == sorted(map(repr, found_rows.to_pylist()))


def test_what_cannot_be_read_of_a_feed_may_pass_and_what_is_gone_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is asked for again; for the rest a table that follows is read whole."""
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, some(range(30), "v"), configuration=FEED)
    deltalake.DeltaTable(path).update(predicate="k < 3", updates={"v": "'u'"})
    deltalake.DeltaTable(path).create_checkpoint()

    def check(why: str, *, passes: bool) -> None:
        with pytest.raises(SourceError, match=why) as caught:
            told(delta(path), "0", "1")
        assert caught.value.is_transient is passes

    with monkeypatch.context() as patch:
        patch.setattr(delta_files, "_read", mock.Mock(side_effect=OSError("connection reset")))
        check("connection reset", passes=True)
    shutil.rmtree(tmp_path / "t/_change_data")
    check("_change_data", passes=True)
    (tmp_path / "t/_delta_log/00000000000000000001.json").unlink()
    check("commit 1 is not in the table's log any more", passes=False)


NUMBERED = some(range(9), "v").append_column("n", pa.array(range(9), pa.int32()))
WIDER = NUMBERED.set_column(2, "n", NUMBERED["n"].cast(pa.int64()))


def test_a_column_that_is_renamed_gone_or_of_another_type_is_named(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source reads by names, and another column may have got that name."""
    made = catalog.create_table("shop.t", NUMBERED.schema)
    path, properties = str(tmp_path / "t"), Iceberg(tmp_path).properties
    deltalake.write_deltalake(path, NUMBERED)

    def tables(name: str, **options: Any) -> list[FollowedTable]:
        lakes = delta(path, **options), iceberg("shop.t", catalog=properties, **options)
        return [followed_table(None, lake, ["k", name]) for lake in lakes]  # type: ignore[arg-type]

    monkeypatch.setattr("bsjoin.following.source.scanned", lambda _, source, names: names)
    spark: Any = None
    lakes = delta(path), iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    pinned = delta(path, version=0)
    readers = [rereading(spark, lake) for lake in (*lakes, pinned)]
    assert [read("kvn") for read in readers] == [[*"kvn"]] * 3
    named, cast = {name: tables(name) for name in "vn"}, tables("n", schema={"n": pa.int64()})
    with made.update_schema() as update:
        update.rename_column("v", "w")
        update.update_column("n", LongType())
    with made.update_schema() as update:
        update.add_column("v", StringType())
    less = WIDER.drop_columns(["v"])
    deltalake.write_deltalake(path, less, mode="overwrite", schema_mode="overwrite")
    for name, *says in (
        ("v", "Delta table .* is not there any more", "Iceberg table .* is called 'w' now"),
        ("n", "Delta table .* int64 now, and was int32", "Iceberg table .* int64 now, and was int"),
    ):
        for table, what in zip(named[name], says, strict=True):
            version = table.version()
            assert version is not None
            with pytest.raises(TableMismatchError, match=f"{name!r} of the {what}"):
                table.at(version)
        for read, what in zip(readers, says, strict=False):  # by a timer, too
            with pytest.raises(TableMismatchError, match=what.partition(" .* ")[2]):
                read(["k", name])
    assert [read("k") for read in readers] == [["k"]] * 3
    assert readers[2]("kvn")  # always the same rows
    for table in cast:  # to the type that was given
        assert not [*table._looks.unlike(table.columns)]


def test_a_column_of_a_table_that_was_made_again_is_known_by_its_new_number(
    catalog: Catalog, tmp_path: Path
) -> None:
    catalog.create_table("shop.t", NUMBERED.schema)
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    table = followed_table(None, source, ["k", "v"])  # type: ignore[arg-type]
    catalog.drop_table("shop.t")
    made = catalog.create_table("shop.t", pa.schema(list(NUMBERED.schema)[::-1]))
    assert not [*table._looks.unlike(table.columns)]
    with made.update_schema() as update:
        update.rename_column("v", "w")
    with made.update_schema() as update:
        update.add_column("v", StringType())
    assert [*table._looks.unlike(table.columns)] == [("v", "is called 'w' now")]
