"""Tables that change: changes come in any form, once, and beside others who publish."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from stored_tables import found_rows

from bsjoin import BatchTable
from bsjoin.build import apply as applying
from bsjoin.build import storing
from bsjoin.build.change_feed import Feed
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    DamagedTableError,
    DuplicateKeyError,
    StoreError,
    TableMismatchError,
)
from bsjoin.storage import Manifest, StorageLocation, freshness, versions
from bsjoin.storage.open_table import OpenTable

pytestmark = pytest.mark.usefixtures("without_code", "soon_active")

ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]
SCHEMA = "id long, name string, price int"


def rows_in(table: BatchTable) -> list[tuple[Any, ...]]:
    return sorted(found_rows(table.path, "id", "name", "price"))


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table to which nothing was applied; the tests take copies."""
    path = tmp_path_factory.mktemp("built") / "table"
    BatchTable.build(spark.createDataFrame(ROWS, SCHEMA), on="name", path=path)
    return path


@pytest.fixture
def table(built: Path, tmp_path: Path) -> BatchTable:
    return BatchTable.open(shutil.copytree(built, tmp_path / "table"))


ENVELOPE = f"before struct<{SCHEMA}>, after struct<{SCHEMA}>, op string, at long"
FEEDS: dict[str, tuple[str, list[tuple[Any, ...]], dict[str, Any], list[tuple[Any, ...]]]] = {
    "upserts alone": (
        SCHEMA, [(2, "b", 21), (4, "d", 40)], {},
        [(1, "a", 10), (2, "b", 21), (3, "c", 30), (4, "d", 40)],
    ),
    "op": (
        f"{SCHEMA}, Op string, AT long",
        [(2, "b", 22, "u", 8), (2, "b", 21, "UPDATE", 9), (3, None, None, "D", 9),
         (4, "d", 40, "insert", 1)],
        {"sequence": "at"}, [(1, "a", 10), (2, "b", 21), (4, "d", 40)],
    ),
    "debezium": (
        f"Before struct<{SCHEMA}>, AFTER struct<{SCHEMA}>, op string, at long",
        [((2, "b", 20), (2, "e", 21), "u", 5), (None, (4, "d", 40), "c", 5), (None, None, None, 5),
         ((3, "c", 30), None, "d", 7), (None, (3, "c", 31), "r", 6)],
        {"sequence": "at"}, [(1, "a", 10), (2, "e", 21), (4, "d", 40)],
    ),
    "delta": (
        f"{SCHEMA}, _change_type string, _commit_version long",
        [(2, "b", 21, "update_postimage", 7), (2, "b", 20, "update_preimage", 7),
         (4, "d", 40, "insert", 6), (3, "c", 30, "delete", 7), (1, "a", 10, "delete", 7),
         (1, "a", 11, "insert", 7)],
        {}, [(1, "a", 11), (2, "b", 21), (4, "d", 40)],
    ),
    "iceberg": (
        f"{SCHEMA}, _change_type string, _change_ordinal int",
        [(2, "b", 20, "UPDATE_BEFORE", 1), (2, "f", 21, "UPDATE_AFTER", 1),
         (4, "d", 40, "INSERT", 0), (4, "d", 40, "DELETE", 2)],
        {}, [(1, "a", 10), (2, "f", 21), (3, "c", 30)],
    ),
    "words in envelopes": (
        ENVELOPE,
        [((1, "a", 10), None, "Delete", 1), ((2, "b", 20), (5, "b", 21), "UPDATE", 2),
         (None, (4, "d", 40), "insert", 3)],
        {"sequence": "at"},
        [(3, "c", 30), (4, "d", 40), (5, "b", 21)],
    ),
    "fields of the row before in another order": (
        f"before struct<price long, name string, id long>, after struct<{SCHEMA}>, op string",
        [((2, "a", 1), None, "d"), ((3, "b", 2), (2, "e", 21), "u")],
        {},
        [(2, "e", 21), (3, "c", 30)],
    ),
    "the row before has what tells it alone": (
        f"before struct<ID int>, after struct<{SCHEMA}>, op string",
        [((1,), None, "d"), ((2,), (6, "f", 60), "u")],
        {},
        [(3, "c", 30), (6, "f", 60)],
    ),
    "the order is beside rows with a column of its name": (
        f"before struct<{SCHEMA}>, after struct<{SCHEMA}>, op string, price long",
        [((1, "a", 10), (1, "a", 11), "u", 1), ((2, "b", 20), None, "d", 2)],
        {"sequence": "price"},
        [(1, "a", 11), (3, "c", 30)],
    ),
    "records without envelopes": (
        f"{SCHEMA}, __op string, __deleted string",
        [(1, "a", 10, "d", "true"), (2, "b", 21, "u", "false"), (4, "d", 40, "r", "false")],
        {},
        [(2, "b", 21), (3, "c", 30), (4, "d", 40)],
    ),
    "records without envelopes that say what is deleted alone": (
        f"{SCHEMA}, __DELETED boolean, lsn long",
        [(1, "a", 10, True, 2), (1, "a", 11, False, 1), (2, "b", 21, False, 1)],
        {"sequence": "lsn"},
        [(2, "b", 21), (3, "c", 30)],
    ),
    "the same, by its name": (
        f"{SCHEMA}, __deleted string",
        [(1, "a", 10, "TRUE")],
        {"op": "__deleted"},
        [(2, "b", 20), (3, "c", 30)],
    ),
    "a key that moves twice": (
        ENVELOPE,
        [((1, "a", 10), (7, "a", 11), "u", 1), ((7, "a", 11), (8, "a", 12), "u", 2),
         ((7, "a", 11), (8, "a", 12), "u", 2)],
        {"sequence": "at"},
        [(2, "b", 20), (3, "c", 30), (8, "a", 12)],
    ),
    "keys that are exchanged": (
        ENVELOPE,
        [((1, "a", 10), (9, "a", 10), "u", 1), ((2, "b", 20), (1, "b", 20), "u", 2),
         ((9, "a", 10), (2, "a", 10), "u", 3)],
        {"sequence": "at"},
        [(1, "b", 20), (2, "a", 10), (3, "c", 30)],
    ),
}  # fmt: skip
"""Changes, how they are applied, and the rows that result."""
LATER = ("upserts alone", "delta", "iceberg")
ADDING = ("op", "records without envelopes", "the same, by its name")
"""Those that are tried where columns are added, too, each time."""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, marks=[pytest.mark.long] * (name in later))
        for options, later in (({}, LATER), ({"merge_schema": True}, {*FEEDS} - {*ADDING}))
        for name in FEEDS
    ],
)
def test_a_change_counts_as_it_is_meant(
    spark: SparkSession, table: BatchTable, name: str, options: dict[str, Any]
) -> None:
    """No column that says something of the change becomes one of the table."""
    schema, changes, own, expected = FEEDS[name]
    feed = spark.createDataFrame(changes, schema)
    assert table.apply(feed, key="ID", **own, **options) == 2
    assert rows_in(table) == expected
    assert table.to_df(spark).columns == ["id", "name", "price"]


MOVED = ((7, "a", 11), (8, "a", 12), "u", 4)


@pytest.mark.parametrize(
    ("before", "sequence", "message"),
    [
        # Without an order nothing tells whether row 7 is there in the end.
        (((1, "a", 10), (7, "a", 11), "u", 1), None, "no order"),
        (((1, "a", 10), (7, "a", 11), "u", 4), "at", "sequence 4 both"),
        ((None, (7, "a", 11), "c", 4), "at", "sequence 4 both"),
    ],
)
def test_a_row_that_moves_on_needs_an_order(
    spark: SparkSession,
    table: BatchTable,
    before: tuple[Any, ...],
    sequence: str | None,
    message: str,
) -> None:
    changes = spark.createDataFrame([before, MOVED], ENVELOPE)
    with pytest.raises(ArgumentError, match=f"two changes of one row have .*{message}"):
        table.apply(changes, key="id", sequence=sequence)
    assert rows_in(table) == ROWS


def test_a_batch_is_applied_once_and_nothing_is_published_for_nothing(
    spark: SparkSession, table: BatchTable
) -> None:
    def frame(*rows: tuple[Any, ...]) -> DataFrame:
        return spark.createDataFrame(rows, f"{SCHEMA}, op string")

    assert table.apply(frame((2, "b", 21, "u")), key="id", batch=("one", 7)) == 2
    assert table.apply(frame((2, "b", 22, "u")), batch=("one", 7)) == 2
    with pytest.raises(ArgumentError, match=r"batch 7 of 'one' was applied .* new name"):
        table.apply(frame((2, "b", 22, "u")), batch=("one", 3))
    assert table.apply(frame((2, "b", 23, "u")), batch=("two", 1)) == 3
    assert table.apply(frame((9, "x", 0, "d"))) == 3  # it was not there
    assert table.apply(frame((9, "x", 0, "d")), batch=("two", 2)) == 4  # to be remembered
    assert table.compact() == 5
    assert table.compact() == 5
    assert table.apply(frame((2, "b", 24, "u")), batch=("two", 2)) == 5
    # A refresh keeps what it knows of batches and of the identity.
    assert table.refresh(table.to_df()) in (5, 6)
    newest = versions.latest(table._location)
    assert (newest.changes.identity, dict(newest.changes.batches)) == (
        ("id",),
        {"one": 7, "two": 2},
    )
    assert rows_in(table) == [(1, "a", 10), (2, "b", 23), (3, "c", 30)]


def test_old_versions_go_and_layers_go_into_the_base(
    spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.table._CHANGES_UNTIL_VACUUM", 2)

    def apply(price: int, **options: Any) -> int:
        frame = spark.createDataFrame([(2, "b", price)], SCHEMA)
        return table.apply(frame, key="id", **options)

    # A number is left out where a version was written too late.
    published = [apply(4, retain=None), apply(5, retain="1 day")]
    assert published == sorted(set(published))
    assert len(table.versions()) == 3
    compacted = table.compact()  # a version of no changes is not counted
    published += [compacted, *(apply(price, retain=0) for price in range(6, 8))]
    # The newest one is active for less time than this takes: the one before may be needed.
    assert min(versions.numbers(table._location)) >= compacted
    published += [apply(8, retain=0), apply(9, retain=0)]
    assert published == sorted(set(published))
    assert [version.number for version in table.versions()][-1] == published[-1]
    assert len(table.versions()) <= 2
    with pytest.raises(ArgumentError, match="retain"):
        apply(9, retain="soon")
    monkeypatch.setattr("bsjoin.storage.layers.compacting._FEWEST", 0)
    newest = apply(10)
    thread = applying._compacting[table.path]
    thread.join()
    assert table.version > newest
    assert not versions.latest(table._location).layers
    assert rows_in(table) == [(1, "a", 10), (2, "b", 10), (3, "c", 30)]


ERRORS: dict[str, tuple[str, list[tuple[Any, ...]], dict[str, Any], type[Exception], str]] = {
    "twice without an order": (
        SCHEMA, [(2, "b", 1), (2, "b", 2)], {"key": "id"}, ArgumentError, "no order.*'price': 2"),
    "twice with one order": (
        f"{SCHEMA}, at long", [(2, "b", 1, 4), (2, "b", 2, 4)], {"key": "id", "sequence": "at"},
        ArgumentError, "the sequence 4 both"),
    "twice with one order, and the difference is far behind": (
        f"{SCHEMA}, at long", [(2, "b" * 400, 1, 4), (2, "b" * 400, 2, 4)],
        {"key": "id", "sequence": "at"}, ArgumentError, "the sequence 4 both"),
    "null identity": (SCHEMA, [(None, "b", 1)], {"key": "id"}, ArgumentError, "null in 'id'"),
    "null sequence": (
        f"{SCHEMA}, at long", [(2, "b", 1, None)], {"key": "id", "sequence": "at"}, ArgumentError,
        "null as its sequence"),
    "null key that is replaced": (SCHEMA, [(2, None, 1)], {"key": ()}, ArgumentError, "null join"),
    "unknown op": (
        f"{SCHEMA}, op string", [(2, "b", 1, "t")], {"key": "id"}, ArgumentError, "change 't' in"),
    "no op": (
        f"{SCHEMA}, op string", [(2, "b", 1, None)], {"key": "id"}, ArgumentError, "change None"),
    "no identity": (SCHEMA, [(2, "b", 1)], {}, ArgumentError, "nothing tells the rows"),
    "another identity": (
        SCHEMA, [(2, "b", 1)], {"key": ["id", "name"]}, ArgumentError, r"key=\['id'\] before"),
    "no such key": (SCHEMA, [(2, "b", 1)], {"key": "nr"}, ColumnError, "nr"),
    "another type": (
        "id long, name string, price long", [(2, "b", 1)], {"key": "id"}, ColumnError,
        "'price' of the changes is bigint and in the table int"),
    "a column is missing": (
        "id long, name string", [(2, "b")], {"key": "id"}, ColumnError, "lack the column 'price'"),
    "no sequence": (
        SCHEMA, [(2, "b", 1)], {"key": "id", "sequence": "at"}, ColumnError, "at"),
    "a batch without a number": (
        SCHEMA, [(2, "b", 1)], {"key": "id", "batch": ("one", "7")}, ArgumentError,
        "number of the"),
    "a flag that is a text": (
        "id long, name string, price int, more int", [(2, "b", 1, 1)],
        {"key": "id", "merge_schema": "false"}, ArgumentError, "merge_schema='false'"),
}  # fmt: skip


def test_bad_changes_are_errors_and_the_version_stays(
    spark: SparkSession, table: BatchTable
) -> None:
    good = spark.createDataFrame([(3, "c", 31)], SCHEMA)
    for name, (schema, changes, options, error, message) in ERRORS.items():
        if name == "another identity":
            assert table.apply(good, key="id") == 2
        before = versions.numbers(table._location)
        with pytest.raises(error, match=message):
            table.apply(spark.createDataFrame(changes, schema), **options)
        assert versions.numbers(table._location) == before, name
    assert not table._location.names("builds")


def test_tables_that_changes_cannot_be_applied_to(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)
    latest = BatchTable.build(rows, on="id", latest_by="price", path=tmp_path / "latest")
    with pytest.raises(TableMismatchError, match="only the latest rows of each key"):
        latest.apply(rows)
    unique = BatchTable.build(rows, on="id", unique=True, path=tmp_path / "unique")
    with pytest.raises(DuplicateKeyError, match="a key would have 2 rows"):
        unique.apply(spark.createDataFrame([(1, "x", 0)], SCHEMA), key="name")
    assert unique.version == 1
    fraction = rows.withColumn("price", F.col("price") / 3)
    doubles = BatchTable.build(fraction, on="id", path=tmp_path / "doubles")
    with pytest.raises(ArgumentError, match="'price' is double, by which rows are not told"):
        doubles.apply(fraction, key="price")
    named = rows.withColumn("OP", F.lit("d"))
    stored = BatchTable.build(named, on="id", unique=True, path=tmp_path / "op")
    with pytest.raises(ArgumentError, match=r"have a column 'OP', and so has the table.*Give op="):
        stored.apply(named)
    assert stored.apply(named, op="op") == 2
    assert not stored.stats().rows


@pytest.mark.long
def test_a_start_with_the_same_source_keeps_what_was_applied(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(source)

    def start() -> BatchTable:
        return BatchTable.build(spark.read.parquet(source), on="name", path=tmp_path / "table")

    applied = start().apply(spark.createDataFrame([(4, "d", 40)], SCHEMA), key="id")
    table = start()
    assert table.version == applied
    compacted = table.compact()
    assert compacted > applied
    assert table.refresh(spark.read.parquet(source)) == start().version == compacted
    assert rows_in(table) == [*ROWS, (4, "d", 40)]
    spark.createDataFrame([(5, "e", 50)], SCHEMA).coalesce(1).write.mode("append").parquet(source)
    assert rows_in(start()) == [*ROWS, (5, "e", 50)]


@pytest.mark.long
def test_what_comes_while_a_source_is_read_or_its_version_published_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh reads what is there after the changes, and a build is known for its source."""
    source, path = str(tmp_path / "source"), tmp_path / "table"
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(source)
    original: Callable[..., Any] = versions.publish
    left = [1]

    def publish(location: StorageLocation, draft: Manifest, **options: Any) -> Manifest:
        before = bool(versions.numbers(location))
        due = bool(left[0]) and not draft.layers
        left[0] -= due
        more = spark.createDataFrame([(5 + before, "e", 50)], SCHEMA).coalesce(1)
        if due and before:
            more.write.mode("append").parquet(source)
            BatchTable.open(path).apply(more, key="id")
        found: Manifest = original(location, draft, **options)
        if due and not before:
            BatchTable.open(path).apply(more, key="id")
        return found

    monkeypatch.setattr(versions, "publish", publish)
    BatchTable.build(spark.read.parquet(source), on="name", path=path)
    table = BatchTable.build(spark.read.parquet(source), on="name", path=path)
    assert rows_in(table) == [*ROWS, (5, "e", 50)]
    left[0] = 1
    spark.createDataFrame([(9, "i", 90)], SCHEMA).coalesce(1).write.mode("append").parquet(source)
    table.refresh(spark.read.parquet(source))
    assert rows_in(table) == [*ROWS, (6, "e", 50), (9, "i", 90)]


def test_a_table_that_has_become_empty_is_compacted(spark: SparkSession, tmp_path: Path) -> None:
    nothing = spark.createDataFrame([], SCHEMA)
    table = BatchTable.build(nothing, on="name", path=tmp_path / "table")
    row = spark.createDataFrame([(1, "a", 1)], SCHEMA)
    table.apply(row, key="id")
    table.apply(row.withColumn("op", F.lit("delete")), key="id")
    table.compact()
    assert rows_in(table) == []
    table.apply(row)
    assert rows_in(table) == [(1, "a", 1)]


def test_a_table_that_began_empty_is_compacted_while_changes_come(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that is built again each time is left as it is."""
    compacted = applying.compacted
    nothing = spark.createDataFrame([], SCHEMA)
    table = BatchTable.build(nothing, on="name", path=tmp_path / "table")
    built_again, calls = False, 0

    def beside(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        found = compacted(*args)
        if built_again:
            table.refresh(nothing)
        table.apply(spark.createDataFrame([(calls, "a", 2)], SCHEMA), key="id")
        return found

    monkeypatch.setattr(applying, "compacted", beside)
    table.apply(spark.createDataFrame([(1, "a", 1), (2, "b", 1)], SCHEMA), key="id")
    newest = versions.load(table._location, table.compact())
    assert ([one.rows for one in newest.segments], len(newest.layers), calls) == ([2], 1, 1)
    assert rows_in(table) == [(1, "a", 2), (2, "b", 1)]
    table.refresh(nothing)
    table.apply(spark.createDataFrame([(1, "a", 1)], SCHEMA), key="id")
    built_again = True
    newest = versions.load(table._location, table.compact())
    assert (newest.segments, len(newest.layers), calls) == ((), 1, 4)
    assert rows_in(table) == [(4, "a", 2)]
    assert "is not compacted: it was built again 3 times" in caplog.text


def test_zeros_of_either_sign_tell_the_same_row(spark: SparkSession, tmp_path: Path) -> None:
    schema = "f double, k long, id long, v string"
    rows = [(-0.0, 1, 7, "old"), (0.0, 1, 8, "old"), (1.0, 1, 7, "other")]
    table = BatchTable.build(
        spark.createDataFrame(rows, schema), on=["f", "k"], path=tmp_path / "table"
    )
    changes = [(0.0, 2, 7, "new"), (-0.0, 2, 8, "new")]
    table.apply(spark.createDataFrame(changes, schema), key=["f", "id"])
    found = {*found_rows(table.path, "k", "id", "v")}
    assert found == {(2, 7, "new"), (2, 8, "new"), (1, 7, "other")}


def test_a_compaction_makes_no_row_newer(
    spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the times of versions are compared
    table.apply(spark.createDataFrame([(2, "b", 21)], SCHEMA), key="id")
    location = table._location
    old = versions.publish(location, replace(versions.latest(location), build_s=1e6))
    compacted = versions.load(location, table.compact())
    assert compacted.version > old.version
    assert freshness.read_us(compacted, None, []) < old.created_at_us - 5e11
    freshness.confirm(location, compacted, compacted.created_at_us)
    table.apply(spark.createDataFrame([(2, "b", 22)], SCHEMA))
    seen = versions.publish(location, replace(versions.latest(location), build_s=1e6))
    freshness.confirm(location, seen, seen.created_at_us)
    compacted = versions.load(location, table.compact())
    assert compacted.version > seen.version
    assert freshness.read_us(compacted, None, []) >= seen.created_at_us - 1


def test_a_change_of_nan_leaves_null_alone(spark: SparkSession, tmp_path: Path) -> None:
    schema = "f double, k long, v string"
    nan = float("nan")
    rows = [(nan, 1, "old"), (None, 1, "null"), (1.0, None, "null"), (0.0, 1, "zero")]
    table = BatchTable.build(
        spark.createDataFrame(rows, schema), on=["f", "k"], unique=True, path=tmp_path / "table"
    )
    table.apply(spark.createDataFrame([(nan, 1, "new"), (-0.0, 1, "new")], schema))
    found = table.to_df(spark).selectExpr("string(abs(f))", "k", "v").collect()
    assert {tuple(row) for row in found} == {
        ("NaN", 1, "new"), ("0.0", 1, "new"), (None, 1, "null"), ("1.0", None, "null")
    }  # fmt: skip


def test_structs_in_the_row_before_go_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """A text that is cast to a number by its place is an error."""
    schema = (
        "id long, at struct<x: int, name: string>, "
        "tags array<struct<n: long, of: struct<a: int, b: string>>>, "
        "more map<string, struct<c: int, d: string>>"
    )
    before = (
        "more map<string, struct<d: string, c: int>>, id long, at struct<name: string, x: int>, "
        "tags array<struct<of: struct<b: string>, n: int>>"
    )
    rows = [
        (n, (1, "a"), [(2, (3, "b")), None, (4, None)], {"e": (5, "f"), "g": None})
        for n in range(3)
    ]
    table = BatchTable.build(
        spark.createDataFrame(rows, schema), on="id", unique=True, path=tmp_path / "table"
    )
    was = [
        ({"e": ("f", 5), "g": None}, n, ("a", 1), [(("b",), 2), None, (None, 4)]) for n in range(2)
    ]
    now = (7, None, [(8, (9, "c"))], None)
    changes = spark.createDataFrame(
        [(was[0], None, "d"), (was[1], now, "u")],
        f"before struct<{before}>, after struct<{schema}>, op string",
    )
    feed = Feed.of(changes, ["id", "at", "tags", "more"], None, None)
    befores = feed.rows.where(F.col(str(feed.op)) != "u").select("at", "tags", "more").collect()
    assert [row.asDict(recursive=True) for row in befores] == 2 * [
        {
            "at": {"x": 1, "name": "a"},
            "tags": [{"n": 2, "of": {"a": None, "b": "b"}}, None, {"n": 4, "of": None}],
            "more": {"e": {"c": 5, "d": "f"}, "g": None},
        }
    ]
    table.apply(changes)
    expected = spark.createDataFrame([rows[2], now], schema)
    found = table.join(spark.range(9)).select(*expected.columns)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))


def test_texts_with_a_collation_tell_no_rows_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([(1, "ab", "x")], "k long, code string, v string")
    rows = rows.selectExpr("k", "code COLLATE UTF8_LCASE AS code", "v")
    table = BatchTable.build(rows, on="k", path=tmp_path / "table")
    with pytest.raises(ArgumentError, match="'code' is string collate UTF8_LCASE"):
        table.apply(rows, key="code")
    assert len(table.versions()) == 1
    with monkeypatch.context() as before:  # a table that has taken such a key
        before.setattr("bsjoin.build.apply.is_collated", lambda _: False)
        table.apply(rows, key="code")
    for key in ("code", None):
        with pytest.raises(ArgumentError, match=r"'code' is string collate .* again, as it has"):
            table.apply(rows, key=key)


# -- others who publish ----------------------------------------------------------------------------


def test_the_slower_of_two_starts_drops_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = str(tmp_path / "source"), tmp_path / "table"
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(source)
    original: Callable[..., Any] = versions.publish
    left, applied = [1], []

    def publish(*args: Any, **options: Any) -> Manifest:
        if left:
            left.clear()
            other = BatchTable.build(spark.read.parquet(source), on="name", path=path)
            applied.append(other.apply(spark.createDataFrame([(4, "d", 40)], SCHEMA), key="id"))
        return original(*args, **options)

    monkeypatch.setattr(versions, "publish", publish)
    table = BatchTable.build(spark.read.parquet(source), on="name", path=path)
    assert [table.version] == applied
    assert rows_in(table) == [*ROWS, (4, "d", 40)]
    assert not table._location.names("builds")


def test_a_refresh_does_not_drop_what_was_applied_meanwhile(
    spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads its source again; where changes come each time, it fails."""
    table.apply(spark.createDataFrame([(5, "e", 50)], SCHEMA), key="id")
    original: Callable[..., Any] = versions.publish
    left = [1]

    def publish(location: StorageLocation, draft: Manifest, **options: Any) -> Manifest:
        if left[0] and not draft.layers:  # a build
            left[0] -= 1
            now = versions.latest(location)
            more = replace(now.changes, count=now.changes.count + 1)
            original(location, replace(now, changes=more))
        return original(location, draft, **options)

    monkeypatch.setattr(versions, "publish", publish)
    assert table.refresh(spark.createDataFrame([(1, "a", 77)], SCHEMA)) == 4
    assert rows_in(table) == [(1, "a", 77)]
    left[0] = 99
    table.apply(spark.createDataFrame([(6, "f", 60)], SCHEMA), key="id")
    with pytest.raises(StoreError, match=r"changes were applied .* 3 times"):
        table.refresh(spark.createDataFrame([(1, "a", 78)], SCHEMA))
    assert rows_in(table) == [(1, "a", 77), (6, "f", 60)]


@pytest.mark.parametrize("what", ["apply", "compact", "refresh"])
def test_what_is_written_for_a_build_that_was_taken_for_ended_is_not_published(
    spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """By a machine that cannot see its process, and whose clock is days ahead."""
    location = StorageLocation.of(table.path)
    changes = spark.createDataFrame([(2, "b", 21)], SCHEMA)
    if what == "compact":
        table.apply(changes, key="id")
    version, rows = table.version, rows_in(table)

    owner, name = (storing, "_found_out") if what == "refresh" else (StorageLocation, "sync")
    original = getattr(owner, name)

    def swept(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        for mark in location.names("builds"):
            location.remove(f"builds/{mark}")
            location.remove(f"data/{mark.partition('-')[0]}")
        return original(*given, **options)

    monkeypatch.setattr(owner, name, swept)
    with pytest.raises(StoreError, match="has ended"):
        table.apply(changes, key="id") if what == "apply" else (
            table.compact() if what == "compact" else table.refresh(changes)
        )
    assert (table.version, rows_in(table)) == (version, rows)
    table.verify()


@pytest.mark.parametrize("call", ["apply", "compact"])
def test_a_version_that_is_removed_before_it_is_open_is_none_to_change(
    spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    table.apply(spark.createDataFrame([(2, "b", 21)], SCHEMA), key="id")
    original, left = applying.opened, [1]

    def opened(location: StorageLocation, manifest: Manifest) -> OpenTable:
        if left:
            left.clear()
            table.apply(spark.createDataFrame([(4, "d", 40)], SCHEMA))
            assert versions.vacuum(location, 1 << 62, 1)
            applying.forget(location)
        return original(location, manifest)

    monkeypatch.setattr(applying, "opened", opened)
    if call == "apply":
        table.apply(spark.createDataFrame([(3, "c", 31)], SCHEMA))
    else:
        assert not versions.load(table._location, table.compact()).layers
    price = 31 if call == "apply" else 30
    assert rows_in(table) == [(1, "a", 10), (2, "b", 21), (3, "c", price), (4, "d", 40)]
    assert not left
    # What is damaged stays an error.
    files = versions.latest(table._location).files
    (Path(table.path) / files[0].name).unlink()
    applying.forget(table._location)
    changes = spark.createDataFrame([(3, "c", 32)], SCHEMA)
    for rows in (changes, changes.withColumn("note", F.lit("new"))):
        with pytest.raises(DamagedTableError, match="missing"):
            table.apply(rows, merge_schema="note" in rows.columns)
