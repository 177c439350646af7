"""Tables that change: joins and scans read through layers, and changes come in any form."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from layer_samples import FORMS, IDENTITIES, Form, Row, Sample
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import values_of
from stored_tables import found_rows

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.build import apply as applying
from bsjoin.conditions import Condition
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    DuplicateKeyError,
    StoreError,
    TableMismatchError,
)
from bsjoin.storage import Manifest, StorageLocation, freshness, versions
from bsjoin.storage.layers.change_set import DELETE, UPSERT
from tests.fuzz.exact import matcher, nearest_groups, order_or_none, take_order

pytestmark = pytest.mark.usefixtures("without_code", "soon_active")

CONDITIONS: dict[str, list[Condition | None]] = {
    "": [None],
    "point": [
        Band("x", "p", before=1, after=1),
        AsOf("x", "p"),
        AsOf("x", "p", "nearest", n=3),
        AsOf("x", "p", "forward", exact=False, tolerance=4, n=2),
        AsOf("x", "p", "nearest", n=4, collect="near"),
    ],
    "interval": [
        Within("x", "p", "e", closed="left"),
        Overlaps(("x", "y"), ("p", "e")),
        Overlaps(("x", "y"), ("p", "e"), relation="within", at_least=2),
        *(
            Within("x", "p", "e", take=take)  # type: ignore[arg-type]
            for take in ("latest_start", "earliest_end", "shortest")
        ),
    ],
}
PLAIN: dict[str, list[tuple[str, Condition | None]]] = {
    "": [("true", None)],
    "point": [("bsjoin.as_of(x, p, 'nearest', 3, true, 2)", AsOf("x", "p", "nearest", 3, n=2))],
    # By the key alone, rows without a point are found, too.
    "interval": [("p <= x AND (e IS NULL OR x < e)", Within("x", "p", "e")), ("true", None)],
}
"""Conditions of plain joins, and what they mean."""
PROBES = [
    (n, key, x, x + 2) for n, (key, x) in enumerate((k, x) for k in range(13) for x in (1, 5))
]


def changed(folder: Path, form: Form, number: int) -> tuple[Path, list[Row]]:
    """A table with layers, some steps old, and its rows."""
    identity = IDENTITIES[number % len(IDENTITIES)]
    if form.key == "none" and "k" in identity:
        identity = ("id", "p")
    path = folder / f"{form.key}{form.ranged}"
    draw = random.Random(number)
    sample = Sample(StorageLocation.of(path), form, identity, False, draw)
    first = {sample.token(row): row for row in [sample.row() for _ in range(50)]}
    sample.build([r for r in first.values() if not any(r[name] is None for name in identity)])
    for step in range(4):
        sample.apply(sample.changes(6))
        if step == number % 3:
            sample.compact(1)
    assert versions.latest(sample.location).layers
    return path, sample.rows


def matches(
    form: Form, when: Condition | None, rows: list[Row], probe: tuple[int, ...]
) -> list[Row]:
    """The rows that a join has to find."""
    _, number, x, y = probe
    found = [r for r in rows if form.key == "none" or r["k"] == form.key_of(number)]
    if when is None:
        return found
    # Of rows that are alike in their points, the first in the order of the columns.
    found = sorted(
        (r for r in found if r["p"] is not None),
        key=lambda r: (r["id"], r["k"] is not None, r["k"], r["p"]),
    )
    if isinstance(when, AsOf):
        points = {place: r["p"] for place, r in enumerate(found)}
        groups = nearest_groups(when, x, "long", points)
        return [found[place] for group in groups for place in sorted(group)][: when.n]
    holds = matcher(when, [x, y], "long")
    columns = when.table_columns
    found = [r for r in found if holds([order_or_none(r[name]) for name in columns])]
    if isinstance(when, Within) and when.take != "all":
        found.sort(key=lambda r: take_order(when, (r["p"], r["e"]), "long"))
        return found[:1]
    return found


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Form, Path, list[Row]]]:
    """A table of each form, and its rows; the tests only read it."""
    folder = tmp_path_factory.mktemp("layered")
    forms = [replace(form, real=True) for form in FORMS]
    return [(form, *changed(folder, form, number)) for number, form in enumerate(forms)]


@pytest.mark.in_turns("runtime", others="long")
def test_joins_and_scans_read_through_layers(
    spark: SparkSession, runtime: str, layered: list[tuple[Form, Path, list[Row]]]
) -> None:
    probes = spark.createDataFrame(PROBES, "n long, number long, x long, y long").coalesce(1)
    parts: list[DataFrame] = []
    wanted: Counter[tuple[Any, ...]] = Counter()
    for number, (form, path, rows) in enumerate(layered):
        table = BatchTable.open(path)
        key = {"text": "concat('key ', number)", "hashed": "number * 1000003"}
        stream = probes.withColumn("k", F.expr(key.get(form.key, "number")))
        on = [] if form.key == "none" else ["k"]
        kinds = CONDITIONS[form.ranged]
        # Each form meets two of them, and all are met in each runtime.
        first = number // 3 + (runtime == "jvm")
        for place in dict.fromkeys((first + more) % len(kinds) for more in (0, 4)):
            when, label = kinds[place], f"{form.key} {form.ranged} {place}"
            joined = table.join(stream, on, "left", when=when, select=["id", "v"])
            if isinstance(when, AsOf) and when.collect:
                joined = joined.selectExpr("n", "inline_outer(near)")
            parts.append(joined.select(F.lit(label), "n", "id", "v"))
            for probe in PROBES:
                found = matches(form, when, rows, probe) or [{"id": None, "v": None}]
                wanted.update((label, probe[0], row["id"], row["v"]) for row in found)
        if runtime == "jvm" and number % 2 == 0:
            scanned = table.to_df().where("v IS NULL OR v <> ''")
            parts.append(scanned.select(F.lit(f"scan {number}"), "seq", "id", "v"))
            wanted.update(
                (f"scan {number}", row["seq"], row["id"], row["v"])
                for row in rows
                if row["v"] != ""
            )
        if runtime == "jvm" and on and number % 2 == (form.ranged == "point"):
            there = table.to_df().withColumnRenamed("k", "key")
            for condition, when in PLAIN[form.ranged]:
                label = f"plain {number} {condition}"
                plain = stream.join(there, F.expr(f"k = key AND {condition}"))
                parts.append(plain.select(F.lit(label), "n", "id", "v"))
                wanted.update(
                    (label, probe[0], row["id"], row["v"])
                    for probe in PROBES
                    for row in matches(form, when, rows, probe)
                )
    found = Counter(tuple(row) for row in reduce(DataFrame.unionAll, parts).collect())
    assert found == wanted


ORDERED: list[Condition] = [
    AsOf("x", "p", order_by="n DESC"),
    Within("x", "p", "e", take="first", order_by="n DESC"),
]


def test_rows_of_layers_have_their_place_in_an_order(spark: SparkSession, tmp_path: Path) -> None:
    """The first of a key's rows is gone, has moved or is new: as in a build of the rows."""
    schema = "k long, p long, e long, n long"
    before = {n: (n % 2, n % 5, n % 5 + 2, n) for n in range(30)}
    put = {n: (n % 2, (n + 1) % 5, n % 5 + 4, n) for n in (3, 14, 25, 29, 30, 31)}
    gone = range(20, 24)
    changes = [(*row, "upsert") for row in put.values()]
    changes += [(*before[n], "delete") for n in gone]
    after = [row for n, row in (before | put).items() if n not in gone]
    probes = spark.range(27).selectExpr("id % 3 AS k", "id DIV 3 AS x")
    found: dict[Any, DataFrame] = {}
    wanted: dict[Any, DataFrame] = {}
    for when in ORDERED:
        folder = tmp_path / type(when).__name__
        first, rows = (spark.createDataFrame([*r], schema) for r in (before.values(), after))
        layered = BatchTable.build(first, on="k", when=when, path=folder / "layered")
        layered.apply(spark.createDataFrame(changes, f"{schema}, op string"), key="n")
        assert versions.latest(layered._location).layers
        built = BatchTable.build(rows, on="k", when=when, path=folder / "built")
        for runtime in ("jvm", "python"):
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                for table, joined in ((layered, found), (built, wanted)):
                    label = runtime, str(when)
                    joined[label] = table.join(probes, how="left", when=when, select=["p", "n"])
    assert values_of(found) == values_of(wanted)


FAR = 1_000_000_000
APART: dict[str, tuple[list[int], list[list[int]]]] = {
    "a layer of one key above hashes": ([1, FAR, 2 * FAR], [[FAR]]),
    "neighbours above hashes": ([*range(7), FAR, 2 * FAR], [[2, 3, 4]]),
    "one key, gone, above hashes": ([1, FAR, 2 * FAR], [[-FAR]]),
    "hashes above neighbours": ([*range(9)], [[1, 5, FAR]]),
    "gone above neighbours": ([*range(-4, 9)], [[-1, -5]]),
    "layers above layers": ([*range(0, 50 * FAR, FAR)], [[*range(1, 30)], [7, FAR], [-9], [FAR]]),
}
"""The keys of tables, and those that changes put, or if negative take away."""


def test_rows_that_a_layer_has_replaced_are_in_no_scan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are in the order of keys or of hashes, and one is looked up in the other."""
    monkeypatch.setattr("bsjoin.storage.layers.applying._ABSORBED", 0)
    parts, wanted = [], []
    for place, (name, (base, steps)) in enumerate(APART.items()):
        location = StorageLocation.of(tmp_path / str(place))
        sample = Sample(location, Form("direct", ""), ("k",), False, random.Random(place))
        sample.build([sample.row(key) | {"k": key} for key in base])
        for step in steps:
            kinds = [(DELETE if key < 0 else UPSERT, abs(key)) for key in step]
            sample.apply([(kind, sample.row() | {"k": key}, 1) for kind, key in kinds])
        assert len(versions.latest(location).layers) == len(steps)
        scanned = BatchTable.open(tmp_path / str(place)).to_df()
        parts.append(scanned.select(F.lit(name), "k", "id"))
        wanted += [(name, row["k"], row["id"]) for row in sample.rows]
    found = reduce(DataFrame.unionAll, parts).collect()
    assert sorted(tuple(row) for row in found) == sorted(wanted)


# -- changes in any form -------------------------------------------------------------------------

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


FEEDS: dict[str, tuple[str, list[tuple[Any, ...]], str | None, list[tuple[Any, ...]]]] = {
    "upserts alone": (
        SCHEMA, [(2, "b", 21), (4, "d", 40)], None,
        [(1, "a", 10), (2, "b", 21), (3, "c", 30), (4, "d", 40)],
    ),
    "op": (
        f"{SCHEMA}, Op string, AT long",
        [(2, "b", 22, "u", 8), (2, "b", 21, "UPDATE", 9), (3, None, None, "D", 9),
         (4, "d", 40, "insert", 1)],
        "at", [(1, "a", 10), (2, "b", 21), (4, "d", 40)],
    ),
    "debezium": (
        f"Before struct<{SCHEMA}>, AFTER struct<{SCHEMA}>, op string, at long",
        [((2, "b", 20), (2, "e", 21), "u", 5), (None, (4, "d", 40), "c", 5), (None, None, None, 5),
         ((3, "c", 30), None, "d", 7), (None, (3, "c", 31), "r", 6)],
        "at", [(1, "a", 10), (2, "e", 21), (4, "d", 40)],
    ),
    "delta": (
        f"{SCHEMA}, _change_type string, _commit_version long",
        [(2, "b", 21, "update_postimage", 7), (2, "b", 20, "update_preimage", 7),
         (4, "d", 40, "insert", 6), (3, "c", 30, "delete", 7), (1, "a", 10, "delete", 7),
         (1, "a", 11, "insert", 7)],
        None, [(1, "a", 11), (2, "b", 21), (4, "d", 40)],
    ),
    "iceberg": (
        f"{SCHEMA}, _change_type string, _change_ordinal int",
        [(2, "b", 20, "UPDATE_BEFORE", 1), (2, "f", 21, "UPDATE_AFTER", 1),
         (4, "d", 40, "INSERT", 0), (4, "d", 40, "DELETE", 2)],
        None, [(1, "a", 10), (2, "f", 21), (3, "c", 30)],
    ),
}  # fmt: skip
"""Changes, the column of their order, and the rows that result."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("op", "debezium") else [pytest.mark.long])
        for name in FEEDS
    ],
)
def test_a_change_feed_is_recognised(spark: SparkSession, table: BatchTable, name: str) -> None:
    schema, changes, sequence, expected = FEEDS[name]
    assert table.apply(spark.createDataFrame(changes, schema), key="ID", sequence=sequence) == 2
    assert rows_in(table) == expected


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
    assert newest.changes is not None
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
        found: Manifest = original(*args, **options)
        return found

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
            assert now.changes is not None
            more = replace(now.changes, count=now.changes.count + 1)
            original(location, replace(now, changes=more))
        found: Manifest = original(location, draft, **options)
        return found

    monkeypatch.setattr(versions, "publish", publish)
    assert table.refresh(spark.createDataFrame([(1, "a", 77)], SCHEMA)) == 4
    assert rows_in(table) == [(1, "a", 77)]
    left[0] = 99
    table.apply(spark.createDataFrame([(6, "f", 60)], SCHEMA), key="id")
    with pytest.raises(StoreError, match=r"changes were applied .* 3 times"):
        table.refresh(spark.createDataFrame([(1, "a", 78)], SCHEMA))
    assert rows_in(table) == [(1, "a", 77), (6, "f", 60)]
