"""Columns that changes bring: later calls return them, queries that run go on without."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, rows

from bsjoin import AsOf, Band, BatchTable
from bsjoin.conditions import Condition
from bsjoin.errors import ColumnError, TableMismatchError
from bsjoin.storage import Manifest, versions

pytestmark = [pytest.mark.usefixtures("runtime", "soon_active"), pytest.mark.in_turns("runtime")]

SCHEMA = "id long, name string, price int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30), (4, None, 40), (5, "a", 50)]
MORE = f"{SCHEMA}, note string, part struct<x:int,y:array<string>>, op string"
CHANGES: list[tuple[Any, ...]] = [
    (2, "b", 21, "new", (1, ["p", None]), "u"),
    (3, "c", 30, None, None, "d"),
    (4, None, 41, "apart", None, "u"),
    (6, "f", 60, "", (None, None), "i"),
]
NOW = [
    (1, "a", 10, None, None), (2, "b", 21, "new", (1, ["p", None])), (4, None, 41, "apart", None),
    (5, "a", 50, None, None), (6, "f", 60, "", (None, None)),
]  # fmt: skip

TABLES: dict[str, tuple[str | list[str], Condition | None]] = {
    "direct": ("id", None),
    "band": ("name", Band("x", "price", before=1, after=1)),
    "as-of": ([], AsOf("x", "price")),
}


def frame(spark: SparkSession, changes: list[tuple[Any, ...]], schema: str = MORE) -> DataFrame:
    return spark.createDataFrame(changes, schema)


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table by name to which nothing was applied; the tests take copies."""
    path = tmp_path_factory.mktemp("built") / "table"
    BatchTable.build(frame(spark, ROWS, SCHEMA), on="name", path=path)
    return path


@pytest.fixture
def table(built: Path, tmp_path: Path) -> BatchTable:
    return BatchTable.open(shutil.copytree(built, tmp_path / "table"))


@pytest.mark.parametrize(
    ("kind", "layered"),
    [("direct", False), ("as-of", True), pytest.param("band", True, marks=pytest.mark.long)],
)
def test_a_column_is_added_null_in_the_rows_that_stay(
    spark: SparkSession, tmp_path: Path, kind: str, layered: bool
) -> None:
    on, when = TABLES[kind]
    first = frame(spark, ROWS, SCHEMA)
    table = BatchTable.build(first, on=on, when=when, path=tmp_path / "table")
    if layered:
        table.apply(frame(spark, [(5, "a", 49), (1, "a", 9), (7, "z", 7)], SCHEMA), key="id")
        back = [(5, "a", 50, "u"), (1, "a", 10, "u"), (7, "z", 7, "d")]
        table.apply(frame(spark, back, f"{SCHEMA}, op string"))
    probes = spark.createDataFrame(
        [(n, *row) for n, row in enumerate((x, y, z) for x in (1, 2, 6) for y in "abf"
                                           for z in (10, 21, 59))],
        "n long, id long, name string, x int",
    )  # fmt: skip
    probes = probes.drop(*({"id", "name"} - {*([on] if isinstance(on, str) else on)}))
    planned = table.join(probes, select=["price"])
    before = rows(planned)
    assert table.apply(frame(spark, CHANGES), key="id", merge_schema=True) == table.version
    assert table.columns == ["id", "name", "price", "note", "part"]
    assert rows(planned) == before  # its version
    wanted = frame(spark, NOW, MORE.removesuffix(", op string"))
    built = BatchTable.build(wanted, on=on, when=when, path=tmp_path / "built")

    def joined(one: BatchTable) -> list[tuple[Any, ...]]:
        found = one.join(probes, how="left", select=["price", "note", "part"])
        return rows(found.withColumn("part", F.col("part").cast("string")))

    right = joined(built)
    for _ in range(2):
        assert joined(table) == right
        scanned = table.to_df().select("id", "name", "price", "note").collect()
        assert sorted(map(repr, map(tuple, scanned))) == sorted(repr(row[:4]) for row in NOW)
        table.verify()
        table.compact()
    # Without it columns that are not known are passed over; with it none is added twice.
    count = len(table.columns)
    table.apply(frame(spark, [(1, "a", 10, "n", "x")], f"{SCHEMA}, NOTE string, other string")
                .withColumn("part", F.lit(None).cast("struct<x:int,y:array<string>>")))  # fmt: skip
    assert len(table.columns) == count


@pytest.mark.long
def test_what_is_about_a_change_is_no_column(
    spark: SparkSession, built: Path, tmp_path: Path
) -> None:
    """Nor is a sequence; and changes of nothing may add columns."""
    feeds: list[tuple[str, list[tuple[Any, ...]], dict[str, str]]] = [
        (f"{SCHEMA}, n1 int, op string, at long", [(1, "a", 1, 1, "u", 4)], {"sequence": "AT"}),
        (f"{SCHEMA}, n2 int, what string, src struct<lsn:long>", [(1, "a", 1, 1, "u", (4,))],
         {"sequence": "src.lsn", "op": "what"}),
        (f"{SCHEMA}, n3 int, _change_type string, _commit_version long, _commit_timestamp long",
         [(1, "a", 1, 1, "insert", 4, 5)], {}),
        (f"{SCHEMA}, n4 int, _Change_Type string, _change_ordinal int, _commit_snapshot_id long",
         [(1, "a", 1, 1, "INSERT", 4, 5)], {}),
        (f"before struct<{SCHEMA}, n5 int>, after struct<{SCHEMA}, n5 int>, op string, at long",
         [(None, (1, "a", 1, 1), "c", 4)], {"sequence": "at"}),
        (f"{SCHEMA}, n6 int", [], {}),
    ]  # fmt: skip
    names = ["id", "name", "price"]
    for number, (schema, changes, options) in enumerate(feeds, 1):
        table = BatchTable.open(shutil.copytree(built, tmp_path / str(number)))
        options = {"key": "id", **options}
        if number == 1:
            assert table.apply(frame(spark, changes, schema), **options) == 2  # type: ignore[arg-type]
            assert table.columns == names
        table.apply(frame(spark, changes, schema), merge_schema=True, **options)  # type: ignore[arg-type]
        assert table.columns == [*names, f"n{number}"], schema
    variant = frame(spark, [], SCHEMA).withColumn("v", F.expr("parse_json('1')"))
    with pytest.raises(ColumnError, match=r"'v' of the table has the type variant"):
        table.apply(variant, merge_schema=True)
    path = tmp_path / "null-safe"
    table = BatchTable.build(frame(spark, ROWS, SCHEMA), on="name", nulls_equal=True, path=path)
    ours = frame(spark, [(4, None, 41, 1)], f"{SCHEMA}, bsjoin_null_keys long")
    with pytest.raises(ColumnError, match="has a column 'bsjoin_null_keys'"):
        table.apply(ours, key="id", merge_schema=True)
    table.apply(ours.withColumnRenamed("bsjoin_null_keys", "n"), key="id", merge_schema=True)
    probes = spark.createDataFrame([(None,), ("b",)], "name string")
    found = rows(table.join(probes, nulls_equal=True))
    assert found == [(None, 4, 41, 1), ("b", 2, 20, None)]


def test_running_queries_go_on_and_are_named_where_a_column_is_taken(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    table = BatchTable.build(frame(spark, ROWS, SCHEMA), on="id", unique=True, path=tmp_path / "t")
    joined = table.join(feed.stream.withColumnRenamed("k", "id"), select=["name", "price"])
    query = feed.start(joined)
    assert feed.turn(query, 2) == [(2, "b", 20)]
    changes = [(2, "b", 21, "x")]
    table.apply(frame(spark, changes, f"{SCHEMA}, note string"), merge_schema=True)
    assert feed.turn(query, 2) == [(2, "b", 21)]
    later = table.join(spark.range(2, 4), select=["price", "note"])
    assert rows(later) == [(2, 21, "x"), (3, 30, None)]
    named = rf"Running queries \({query.id}\) use it"
    taken = {
        "name string, price int, note string": r"lack the column 'id'.*whole rows$",
        "id long, name string, cost int, note string":
            r"lack the column 'price'.*withColumnRenamed\('cost', 'price'\).*" + named,
        "id long, name string, price long, note string":
            r"'price' of the changes is bigint and in the table int.*" + named,
        "id long, name string, price int, text string":
            r"lack the column 'note'.*withColumnRenamed\('text', 'note'\)[^.]*$",
    }  # fmt: skip
    for schema, message in taken.items():
        for merges in (False, True):
            with pytest.raises(ColumnError, match=message):
                table.apply(frame(spark, [], schema), merge_schema=merges)
    assert table.version == 2
    with pytest.raises(TableMismatchError, match=rf"running queries \({query.id}\) use"):
        BatchTable.build(spark.range(3), on="id", unique=True, path=table.path)


@pytest.mark.parametrize(
    "other", ["adds it, too", "refreshes", pytest.param("only changes", marks=pytest.mark.long)]
)
def test_another_writer_adds_columns_meanwhile(
    spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    table.apply(frame(spark, [(1, "a", 11)], SCHEMA), key="id")
    wider = f"{SCHEMA}, note string"
    original: Callable[..., Any] = versions.publish
    left = [1]

    def publish(*args: Any, **options: Any) -> Manifest:
        if left:
            left.clear()
            changes = [(7, "g", 70, "theirs")]
            if other == "only changes":
                table.apply(frame(spark, changes, wider))
            else:
                table.apply(frame(spark, changes, wider), merge_schema=True)
        return original(*args, **options)

    monkeypatch.setattr(versions, "publish", publish)
    if other == "refreshes":
        with pytest.raises(TableMismatchError, match=r"new columns \['note'\] were applied"):
            table.refresh(frame(spark, ROWS[:1], SCHEMA))
        table.refresh(frame(spark, [(1, "a", 1, "x")], wider))
        assert rows(table.to_df()) == [(1, "a", 1, "x")]
        return
    table.apply(frame(spark, [(3, "c", 31, "ours")], wider), merge_schema=True)
    found = {row[0]: tuple(row) for row in table.to_df().collect()}
    theirs = None if other == "only changes" else "theirs"
    assert found[3] == (3, "c", 31, "ours")
    assert found[7] == (7, "g", 70, theirs)
    assert found[1] == (1, "a", 11, None)
    assert len(found) == 6
    assert not table._location.names("builds")
    gone = {*table._location.names("data")} - {
        name.split("/")[1] for one in versions.there(table._location) for name, _, _ in one.files
    }
    assert not gone  # what was written in vain


@pytest.mark.long
def test_changes_of_a_table_behind_a_url(spark: SparkSession, tmp_path: Path) -> None:
    url = f"local://{tmp_path}/table"  # remote for bsjoin, and within reach of its processes
    table = BatchTable.build(frame(spark, ROWS, SCHEMA), on="name", path=url)
    assert table.apply(frame(spark, CHANGES), key="id", merge_schema=True) == 2
    probes = spark.createDataFrame([(name,) for name in "abcf"], "name string")
    for _ in range(2):
        found = table.join(probes, how="left", select=["id", "price", "note"])
        assert rows(found) == [
            ("a", 1, 10, None), ("a", 5, 50, None), ("b", 2, 21, "new"), ("c", None, None, None),
            ("f", 6, 60, ""),
        ]  # fmt: skip
        table.verify()
        table.compact()
    assert table.vacuum(older_than=0)
    assert not table._location.names("builds")
    assert len(table._location.names("data")) == len(versions.data_folders(table._location))
