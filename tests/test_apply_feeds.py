"""Change feeds as they come: no row is lost or there twice by how a change is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from stored_tables import found_rows

from bsjoin import BatchTable
from bsjoin.build.change_feed import Feed
from bsjoin.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("without_code", "soon_active")

SCHEMA = "id long, name string, price long"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table to which nothing was applied; the tests take copies."""
    path = tmp_path_factory.mktemp("built") / "table"
    BatchTable.build(spark.createDataFrame(ROWS, SCHEMA), on="name", path=path)
    return path


@pytest.fixture
def table(built: Path, tmp_path: Path) -> BatchTable:
    return BatchTable.open(shutil.copytree(built, tmp_path / "table"))


def rows_in(table: BatchTable) -> list[tuple[Any, ...]]:
    return sorted(found_rows(table.path, "id", "name", "price"))


ENVELOPE = f"before struct<{SCHEMA}>, after struct<{SCHEMA}>, op string, at long"
FEEDS: dict[str, tuple[str, list[tuple[Any, ...]], dict[str, Any], list[tuple[Any, ...]]]] = {
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


@pytest.mark.parametrize("name", FEEDS)
def test_a_change_counts_as_it_is_meant(spark: SparkSession, table: BatchTable, name: str) -> None:
    schema, changes, options, expected = FEEDS[name]
    table.apply(spark.createDataFrame(changes, schema), key="id", merge_schema=True, **options)
    assert rows_in(table) == expected
    assert not {"__op", "__deleted", "__DELETED"} & {*table.to_df(spark).columns}


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
