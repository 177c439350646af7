"""Delta and Iceberg without Spark's jars: values, removed rows, and which files a key admits."""

from __future__ import annotations

import gc
import gzip
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet
import pyiceberg.catalog
import pytest
from lake_files import PLACES, UTC, every_type, write_delta
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    DoubleType,
    FixedType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
    TimeType,
    UUIDType,
)
from pyspark.sql import DataFrame, SparkSession
from source_stands import Iceberg, matching, rows
from spark_samples import Feed

import bsjoin
from bsjoin.errors import ArgumentError, ColumnError, DataError, SourceError
from bsjoin.following.source import followed_table
from bsjoin.sources import Source, delta, iceberg, parquet
from bsjoin.sources.databases.infinite import ENDS
from bsjoin.sources.lakes import metadata_files
from bsjoin.sources.transient import TransientSourceError

TABLE = every_type(120)
KEYS = [name for name in TABLE.column_names if name not in ("nested", "pairs")]


def lake(kind: str, folder: Path, table: pa.Table = TABLE, parts: int = 6) -> Source:
    """A table in several files, sorted by nothing."""
    size = -(-len(table) // parts)
    slices = [table.slice(begin, size) for begin in range(0, len(table), size)]
    if kind == "delta":
        for part in slices:
            deltalake.write_deltalake(str(folder / "t"), part, mode="append")
        return delta(folder / "t")
    stand = Iceberg(folder)
    made = stand.catalog.create_table("shop.t", table.schema)
    for part in slices:
        made.append(part)
    return iceberg("shop.t", catalog=stand.properties)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_every_type_has_sparks_type_and_is_found_by_each_key(kind: str, tmp_path: Path) -> None:
    source = lake(kind, tmp_path, parts=3)
    assert source.schema.equals(TABLE.schema)
    scanned = pa.Table.from_batches(source.scan())
    assert scanned.schema.equals(TABLE.schema)
    assert rows(scanned) == rows(TABLE)
    for name in KEYS:
        for begin, count in ((0, 7), (30, 70)):  # as single values, and as ranges
            asked = TABLE.select([name]).slice(begin, count)
            asked = asked.group_by([name]).aggregate([])
            found = source.lookup(asked, ["int"])
            right = TABLE.filter(_among(TABLE, asked))
            assert set(right["int"].to_pylist()) <= set(found["int"].to_pylist()), (name, begin)
            assert len(found) == len(right), (name, begin)
    two = TABLE.select(["text", "at"]).slice(3, 50)
    assert rows(source.lookup(two), ["int"]) == rows(TABLE.slice(3, 50), ["int"])


def _among(table: pa.Table, asked: pa.Table) -> pa.Array:
    (name,) = asked.column_names
    # NaN is printed as NaN, and -0.0 as 0.0.
    known = {repr(v + 0.0 if isinstance(v, float) else v) for v in asked[name].to_pylist()}
    values = table[name].to_pylist()
    return pa.array([repr(v + 0.0 if isinstance(v, float) else v) in known for v in values])


def test_deletion_vectors_and_column_mapping_of_delta(tmp_path: Path) -> None:
    """Also where row groups, and rows within them, are left out by a key."""
    count, gone = 1000, {7, 123, 500, 999, *range(300, 340)}
    table = pa.table({"the id": range(count), 'v"x': [f"v{i}" for i in range(count)]})
    files = []
    for begin in (0, 500):
        bounds = {"minValues": {"col-0": begin}, "maxValues": {"col-0": begin + 499}}
        removed = [i - begin for i in sorted(gone) if begin <= i < begin + 500]
        files.append((table.slice(begin, 500), bounds, removed))
    columns = {"the id": "long", 'v"x': "string"}
    write_delta(tmp_path / "t", columns, files, row_group_size=100)
    source = delta(tmp_path / "t")
    left = table.filter(pa.array([i not in gone for i in range(count)]))
    assert rows(pa.Table.from_batches(source.scan())) == rows(left)
    for ids in ([5], [7], [122, 123, 124, 999, 998], range(0, 1000, 3), [299, 300, 339, 340]):
        asked = pa.table({"the id": pa.array(ids, pa.int64())})
        assert rows(source.lookup(asked)) == rows(matching(left, asked)), ids
    asked = pa.table({'v"x': ["v317", "v341", "v7", "v8"]})
    assert rows(source.lookup(asked), ["the id"]) == rows(matching(left, asked), ["the id"])


def test_columns_of_delta_by_number_are_not_read_by_another_name(tmp_path: Path) -> None:
    """Files of Iceberg have the names of their time; those that Delta gave are always theirs."""
    table = pa.table({"k": [1, 2], "v": [10, 20]})
    write_delta(tmp_path / "t", {"k": "long", "v": "long"}, [(table, {}, [])])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('.mode": "name"', '.mode": "id"'))
    for asked in (None, delta(tmp_path / "t", version=0)):
        with pytest.raises(SourceError, match=r"converted from Iceberg.*'col-0'"):
            _ = (asked or delta(tmp_path / "t")).schema
    for number in (0, 1):
        given = f"col-0123abcd-89ab-4cde-8f01-23456789abc{number}"
        log.write_text(log.read_text().replace(f"col-{number}", given, 1))
    assert delta(tmp_path / "t").schema.names == ["k", "v"]


def test_texts_that_spark_pads_or_compares_otherwise_need_a_type(tmp_path: Path) -> None:
    kinds = {
        "c": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"},
        "v": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"},
        "s": {"__COLLATIONS": {"s": "spark.UTF8_LCASE"}},
    }
    table = pa.table({"c": ["ab"], "v": ["ab"], "s": ["ab"]})
    write_delta(tmp_path / "t", dict.fromkeys(kinds, "string"), [(table, {}, [])])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    schema = json.loads(actions[1]["metaData"]["schemaString"])
    for field in schema["fields"]:
        field["metadata"] |= kinds[field["name"]]
    actions[1]["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, actions)))
    for given, why in (("s", r"'c' .*char\(5\), which Spark pads"), ("c", "'s' .*a collation")):
        with pytest.raises(SourceError, match=why):
            _ = delta(tmp_path / "t", schema={given: pa.string()}).schema
    source = delta(tmp_path / "t", schema={"c": pa.string(), "s": pa.string()})
    for name in kinds:
        assert source.lookup(table.select([name])).select([*kinds]).equals(table)


def test_what_deltalake_does_not_read_is_an_error_that_stays(tmp_path: Path) -> None:
    """Features of readers, and types of columns, also of those inside others."""
    parts = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    table = pa.table({"k": [1], "v": pa.array([{"metadata": b"", "value": b""}], parts)})
    numbers = pa.table({"k": [1], "v": [2]})
    asked = pa.table({"k": [1]})

    def written(feature: str, kind: Any, rows: pa.Table) -> Source:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        write_delta(folder, {"k": "long", "v": kind}, [(rows, {}, [])])
        log = folder / "_delta_log" / f"{0:020}.json"
        log.write_text(log.read_text().replace('"timestampNtz"]', f'"timestampNtz", "{feature}"]'))
        return delta(folder)

    for feature in ("typeWidening", "catalogManaged", "variantShredding-preview", "another"):
        source = written(feature, "long", numbers)
        for read in (lambda s: s.lookup(asked), lambda s: [*s.scan()]):
            with pytest.raises(SourceError, match=r"(?i)unsupported|catalog-managed") as caught:
                read(source)
            assert not caught.value.is_transient

    def struct(**fields: str) -> Any:
        name, number = "delta.columnMapping.physicalName", "delta.columnMapping.id"
        found = [
            {"name": one, "type": kind, "nullable": True, "metadata": {name: one, number: 9 + i}}
            for i, (one, kind) in enumerate(fields.items())
        ]
        return {"type": "struct", "fields": found}

    of_structs = {"type": "map", "keyType": "string", "valueContainsNull": True}
    values = pa.array([[("p", {"n": 2})]], pa.map_(pa.string(), pa.struct([("n", pa.int64())])))
    kind = of_structs | {"valueType": struct(n="long", added="long")}
    source = written("deletionVectors", kind, numbers.set_column(1, "v", values))
    assert source.lookup(asked, []).equals(asked)
    with pytest.raises(SourceError, match="Cannot cast column"):
        source.lookup(asked)
    for kind in ("variant", struct(n="variant")):
        with pytest.raises(SourceError, match="'v' is declared as variant"):
            _ = written("variantType", kind, table).schema


def test_a_text_that_is_not_utf_8_is_a_fault_of_the_data(tmp_path: Path) -> None:
    text = pa.array([b"a\xff", b"b"]).view(pa.string())
    rows_of_file = pa.table([pa.array([1, 2], pa.int64()), text], names=["k", "s"])
    write_delta(tmp_path / "t", {"k": "long", "s": "string"}, [(rows_of_file, {}, [])])
    source, asked = delta(tmp_path / "t"), pa.table({"k": [2]})
    assert len(source.lookup(asked, [])) == 1
    with pytest.raises(DataError, match="non UTF-8 data"):
        source.lookup(asked)


def test_what_spark_writes_into_logs_and_files_of_delta(tmp_path: Path) -> None:
    """Bounds of times are cut to milliseconds, those of texts to 32 characters; INT96."""
    far = pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999], UTC)
    late = pa.array([1_700_000_000_000_999, -1], UTC)
    text = "é" * 40
    files = []
    for times, low, high in (
        (far, "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        (late, "1969-12-31T23:59:59.999Z", "2023-11-14T22:13:20.000Z"),
    ):
        table = pa.table({"at": times, "text": [text, text + "z"]})
        bounds = {
            "minValues": {"col-0": low, "col-1": text[:32]},
            "maxValues": {"col-0": high, "col-1": text[:32] + "\U0010ffff"},
        }
        files.append((table, bounds, []))
    write_delta(
        tmp_path / "t", {"at": "timestamp", "text": "string"}, files,
        use_deprecated_int96_timestamps=True, store_schema=False,
    )  # fmt: skip
    source = delta(tmp_path / "t")
    table = pa.concat_tables(part for part, _, _ in files)
    assert rows(pa.Table.from_batches(source.scan()).cast(_in_numbers(table))) == rows(
        table.cast(_in_numbers(table))
    )
    for name in ("at", "text"):
        for row in range(4):
            asked = table.select([name]).slice(row, 1)
            found = source.lookup(asked).select(["at", "text"]).cast(_in_numbers(table))
            right = matching(table.cast(_in_numbers(table)), asked.cast(_in_numbers(asked)))
            assert rows(found) == rows(right), (name, row)


def test_times_of_far_years_are_found_in_delta(tmp_path: Path) -> None:
    """Their bounds are cut to milliseconds; the library rounds them, and takes them for the key."""
    times = pa.array([10**17 + i * 87_654_321_987_654 for i in range(40)], UTC)
    table = pa.table({"k": range(40), "at": times})
    deltalake.write_deltalake(tmp_path / "t", table, partition_by=["k"])
    source, asked = delta(tmp_path / "t"), table.select(["at"])
    assert [len(source.lookup(some)) for some in (asked, asked.slice(7, 20))] == [40, 20]


def _in_numbers(table: pa.Table) -> pa.Schema:
    return pa.schema(
        [(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    )


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_only_files_that_may_have_a_key_are_read(kind: str, tmp_path: Path) -> None:
    table = pa.table({"k": range(600), "name": [f"{i:04}" for i in range(600)]})
    source = lake(kind, tmp_path, table)
    source.renewed_every_s = 3600  # type: ignore[attr-defined]
    assert len(list(source.scan())) >= 6
    files = sorted((tmp_path).rglob("*.parquet"))
    assert len(files) == 6
    kept = pa.table({"k": [0, 1, 50]})
    assert len(source.lookup(kept)) == 3
    # What is not there cannot be read.
    for path in files:
        if pa.parquet.read_table(path)["k"][0].as_py() != 100:
            path.unlink()
    for asked in ({"k": [150]}, {"k": range(100, 200)}, {"name": ["0150", "0199"]}):
        assert len(source.lookup(pa.table(asked))) == len(next(iter(asked.values())))
    assert len(source.lookup(pa.table({"k": [150], "name": ["0150"]}))) == 1
    with pytest.raises(TransientSourceError, match=r"(?s)t.*\.parquet"):
        source.lookup(kept)
    with pytest.raises(SourceError, match="parquet"):
        list(source.scan())


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_versions_stay_or_are_followed_and_columns_may_come_and_go(
    kind: str, tmp_path: Path
) -> None:
    first = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"], "w": ["x", "y"]})
    source = lake(kind, tmp_path, first, parts=1)
    source.renewed_every_s = 0  # type: ignore[attr-defined]
    assert source.schema.names == ["k", "v", "w"]
    stand = Iceberg(tmp_path)
    more = pa.table({"k": pa.array([2, 3], pa.int64()), "v": ["B", "c"], "u": [1.0, 2.0]})
    if kind == "delta":
        pinned = delta(tmp_path / "t", version=0)
        path = str(tmp_path / "t")
        deltalake.write_deltalake(path, more, mode="append", schema_mode="merge")
        again: Source = delta(path)
    else:
        made = stand.catalog.load_table("shop.t")
        number = made.current_snapshot().snapshot_id
        pinned = iceberg("shop.t", catalog=stand.properties, snapshot=number)
        with made.update_schema() as update:
            update.add_column("u", DoubleType())
            update.rename_column("v", "renamed")
        made.append(more.rename_columns(["k", "renamed", "u"]))
        again = iceberg("shop.t", catalog=stand.properties)
    two = pa.table({"k": pa.array([2, 3], pa.int64())})
    assert pinned.lookup(two).to_pylist() == [{"k": 2, "v": "b", "w": "y"}]
    assert pinned.size() == 2
    value = "v" if kind == "delta" else "renamed"
    wanted = [(2, "B", None, 1.0), (2, "b", "y", None), (3, "c", None, 2.0)]
    found = again.lookup(two, [value, "w", "u"]).to_pylist()
    assert sorted(map(repr, (tuple(row.values()) for row in found))) == sorted(map(repr, wanted))
    if kind == "delta":
        assert sorted(source.lookup(two)["v"].to_pylist()) == ["B", "b", "c"]
    else:
        with pytest.raises(SourceError, match="'v'"):  # which is gone
            source.lookup(two)
    assert source.lookup(two, ["w"])["w"].to_pylist().count(None) == 2


def test_hidden_partitions_of_iceberg_and_rows_that_were_deleted(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "k": pa.array([None, *range(1, 120)], pa.int64()),
            "at": pa.array([i * 7_200_000_001 for i in range(120)], UTC),
            "name": [f"n{i % 50:02}" for i in range(120)],
        }
    )
    made = catalog.create_table("shop.parts", table.schema)
    with made.update_spec() as spec:
        spec.add_field("k", BucketTransform(3), "by_k")
        spec.add_field("at", DayTransform(), "by_day")
    made.append(table.slice(0, 30))
    with made.update_spec() as spec:
        spec.remove_field("by_day")
        spec.add_field("name", TruncateTransform(2), "by_name")
    made.append(table.slice(30))
    made.delete("k in (5, 70)")
    left = table.filter(pa.array([k not in (5, 70) for k in table["k"].to_pylist()]))
    place = catalog.load_table("shop.parts").metadata_location.removeprefix("file://")
    folder = tmp_path / "hadoop"
    shutil.copytree(Path(place).parent, folder / "metadata")
    (folder / "metadata" / "version-hint.text").write_text(os.path.basename(place))
    properties = Iceberg(tmp_path).properties
    sources = (
        iceberg("shop.parts", catalog=properties), iceberg(place), iceberg(folder),
        iceberg(f"file://{place}"),
    )  # fmt: skip
    for source in sources:
        assert source.size() == len(left)
        assert rows(pa.Table.from_batches(source.scan())) == rows(left)
    for name, begin, count in (("k", 0, 9), ("k", 60, 50), ("at", 3, 9), ("at", 20, 70)):
        asked = table.select([name]).slice(begin, count)
        assert rows(source.lookup(asked), ["name"]) == rows(matching(left, asked), ["name"])
    asked = table.select(["name", "k"]).slice(0, 80)
    assert rows(source.lookup(asked), ["at"]) == rows(matching(left, asked), ["at"])


@pytest.mark.long
def test_partitions_of_iceberg_have_any_value(catalog: Catalog, tmp_path: Path) -> None:
    """Of which paths are made, and read again."""
    table = pa.table({"k": range(len(PLACES)), "part": PLACES})
    made = catalog.create_table("shop.t", table.schema)
    with made.update_spec() as spec:
        spec.add_field("part", IdentityTransform(), "part_of")
    made.append(table)
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    assert rows(pa.Table.from_batches(source.scan())) == rows(table)
    for row in range(len(PLACES)):
        asked = table.slice(row, 1)
        assert source.lookup(asked.select(["part"]), ["k"])["k"].equals(asked["k"]), PLACES[row]


def test_metadata_of_a_hadoop_catalogue_may_be_compressed(catalog: Catalog, tmp_path: Path) -> None:
    made = catalog.create_table("shop.t", pa.schema([("k", pa.int64())]))
    folder = tmp_path / "hadoop" / "metadata"
    folder.mkdir(parents=True)
    for number in (1, 2, 3):  # the hint may be behind
        made.append(pa.table({"k": [number]}))
        (folder / "version-hint.text").write_text("1" if number < 3 else "3")
        content = Path(made.metadata_location.removeprefix("file://")).read_bytes()
        if number == 1:
            (folder / "v1.metadata.json").write_bytes(content)
        else:
            (folder / f"v{number}.gz.metadata.json").write_bytes(gzip.compress(content))
        assert iceberg(folder.parent).size() == number
        if number == 2:  # the hint's own may be removed
            (folder / "v1.metadata.json").unlink()
            assert iceberg(folder.parent).size() == 2
    source: Any = iceberg(folder.parent)
    source.renewed_every_s = 0
    assert len(source.lookup(pa.table({"k": [2, 7]}))) == 1
    for gone in (folder, folder.parent):  # to be made again
        shutil.rmtree(gone)
        with pytest.raises(TransientSourceError, match=r"no such file|no metadata/version-hint"):
            source.lookup(pa.table({"k": [2]}))


def test_types_of_iceberg_that_spark_has_not(catalog: Catalog, tmp_path: Path) -> None:
    from pyiceberg.schema import Schema

    made = catalog.create_table(
        "shop.types",
        Schema(
            NestedField(1, "id", UUIDType()), NestedField(2, "f", FixedType(2)),
            NestedField(3, "s", StructType(NestedField(4, "n", IntegerType()))),
            NestedField(5, "x", StringType()),
        ),
    )  # fmt: skip
    one = "01234567-89ab-cdef-0123-456789abcdef"
    ids = pa.array([bytes.fromhex(one.replace("-", "")), None], pa.uuid())
    made.append(
        pa.table(
            {
                "id": ids,
                "f": pa.array([b"ab", b"cd"], pa.binary(2)),
                "s": pa.array([{"n": 1}, None], pa.struct([("n", pa.int32())])),
                "x": ["a", "b"],
            }
        )
    )
    properties = Iceberg(tmp_path).properties
    source = iceberg("shop.types", catalog=properties)
    assert source.schema.types[:2] == [pa.string(), pa.binary()]
    found = source.lookup(pa.table({"id": [one, None]}, pa.schema([("id", pa.string())])))
    assert sorted(found["x"].to_pylist()) == ["a", "b"]
    assert found["f"].to_pylist()[0] in (b"ab", b"cd")
    with made.update_schema() as update:
        update.add_column("time", TimeType())
    with pytest.raises(SourceError, match=r"'time'.*schema="):
        _ = iceberg("shop.types", catalog=properties).schema
    fixed = iceberg("shop.types", catalog=properties, schema={"time": pa.string()})
    assert fixed.schema.field("time").type == pa.string()
    with made.update_schema() as update:
        update.delete_column("time")
        update.add_column(("x.y",), StringType())
    pa.parquet.write_table(pa.table({"x.y": ["p", "q"]}), tmp_path / "added.parquet")
    made.add_files([f"{tmp_path}/added.parquet"])
    found = iceberg("shop.types", catalog=properties).lookup(pa.table({"x.y": ["q", "r"]}), ["x"])
    assert found.to_pylist() == [{"x.y": "q", "x": None}]
    path = Path(made.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    place = {"id": 99, "name": "place", "type": "geometry", "required": False}
    metadata["format-version"], metadata["next-row-id"] = 3, 9
    metadata["schemas"][-1]["fields"].append(place)
    path.write_text(json.dumps(metadata))
    with pytest.raises(SourceError, match="'place' is declared as geometry"):
        _ = iceberg("shop.types", catalog=properties).schema


def test_equality_deletes_of_iceberg_are_an_error_for_each_key(
    catalog: Catalog, tmp_path: Path
) -> None:
    """Also where the library would leave their files out, by the values of the rows that went."""
    made = catalog.create_table("shop.t", pa.schema([("k", pa.int64())]))
    made.append(pa.table({"k": [1]}))
    path = Path(made.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][0]["summary"]["total-equality-deletes"] = "1"
    path.write_text(json.dumps(metadata))
    source: Any = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    with pytest.raises(SourceError, match="equality deletes"):
        _ = source.schema


def test_a_snapshot_of_iceberg_has_its_own_columns(catalog: Catalog, tmp_path: Path) -> None:
    """Also for look-ups, after another column has been given the name of the key."""
    table = pa.table({"k": pa.array(range(50), pa.int64()), "gone": [f"v{i}" for i in range(50)]})
    made = catalog.create_table("shop.t", table.schema)
    made.append(table)
    number = made.current_snapshot().snapshot_id  # type: ignore[union-attr]
    with made.update_schema() as update:
        update.rename_column("k", "old_k")
        update.delete_column("gone")
    with made.update_schema() as update:
        update.add_column("k", StringType())
    made.append(pa.table({"old_k": pa.array([5], pa.int64()), "k": ["5"]}))
    file = catalog.load_table("shop.t").metadata_location.removeprefix("file://")
    properties = Iceberg(tmp_path).properties
    for source in (
        iceberg("shop.t", catalog=properties, snapshot=number), iceberg(file, snapshot=number)
    ):  # fmt: skip
        assert source.table_changes() is None  # it is always the same
        assert rows(pa.Table.from_batches(source.scan())) == rows(table)
        for ids in ([5], range(3, 48)):
            asked = pa.table({"k": pa.array(ids, pa.int64())})
            assert rows(source.lookup(asked)) == rows(matching(table, asked))
        assert source.lookup(pa.table({"gone": ["v7"]}))["k"].to_pylist() == [7]


def test_another_column_of_the_name_is_not_read(catalog: Catalog, tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2], "v": [10, 20], "w": [30, 40]})
    made = catalog.create_table("shop.t", table.schema)
    made.append(table)
    write_delta(tmp_path / "t", dict.fromkeys(table.column_names, "long"), [(table, {}, [])])
    sources: Any = iceberg("shop.t", catalog=Iceberg(tmp_path).properties), delta(tmp_path / "t")
    asked = table.select(["k"])
    for source in sources:
        source.renewed_every_s = 0
        assert source.lookup(asked).equals(table)
    with made.update_schema() as update:
        update.rename_column("v", "x")
    with made.update_schema() as update:
        update.rename_column("w", "v")
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    renamed = json.loads(log.read_text().splitlines()[1])
    schema = json.loads(renamed["metaData"]["schemaString"])
    for field, name in zip(schema["fields"], ("k", "x", "v"), strict=True):
        field["name"] = name
    renamed["metaData"]["schemaString"] = json.dumps(schema)
    log.with_name(f"{1:020}.json").write_text(json.dumps(renamed))
    for source in sources:
        for read in (lambda s: s.lookup(asked, ["v"]), lambda s: [*s.scan(["k", "v"])]):
            with pytest.raises(SourceError, match=r"'v' of .* called 'x' now: make"):
                read(source)
        assert source.lookup(asked, []).equals(asked)


def test_a_table_of_iceberg_is_dropped_and_made_again(tmp_path: Path) -> None:
    first = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    source = lake("iceberg", tmp_path, first)
    source.renewed_every_s = 0  # type: ignore[attr-defined]
    asked = pa.table({"k": pa.array([2], pa.int64())})
    assert source.lookup(asked)["v"].to_pylist() == ["b"]
    writer = Iceberg(tmp_path).catalog
    writer.drop_table("shop.t")
    for _ in range(2):
        with pytest.raises(TransientSourceError, match="NoSuchTableError"):
            source.lookup(asked)
    writer.create_table("shop.t", first.schema).append(first.set_column(1, "v", [["A", "B"]]))
    assert source.lookup(asked)["v"].to_pylist() == ["B"]
    writer.drop_table("shop.t")
    writer.create_table("shop.t", first.schema).append(first)
    assert source.lookup(asked)["v"].to_pylist() == ["b"]


def test_the_catalogue_of_a_table_of_iceberg_is_closed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have a connection to a database, which a garbage collection would close much later."""
    source: Any = lake("iceberg", tmp_path, pa.table({"k": [1, 2]}))
    made, load = [], pyiceberg.catalog.load_catalog
    monkeypatch.setattr(
        pyiceberg.catalog, "load_catalog", lambda *a, **b: made.append(load(*a, **b)) or made[-1]
    )
    source.renewed_every_s = 0
    for _ in range(2):
        assert source.size() == 2
    changes = source.table_changes()
    changes.version()
    changes.at(changes.version().version).close()
    assert {one.engine.pool.checkedin() for one in made} == {1}
    source.close()
    changes.close()
    gone = iceberg("shop.none", catalog=Iceberg(tmp_path).properties)
    with pytest.raises(SourceError, match="NoSuchTable"):
        _ = gone.schema
    assert [one.engine.pool.checkedin() for one in made] == [0, 0, 0]


def test_a_folder_of_delta_is_written_again(tmp_path: Path) -> None:
    source = lake("delta", tmp_path, pa.table({"k": pa.array(range(6), pa.int64())}))
    source.renewed_every_s = source.opened_every_s = 0  # type: ignore[attr-defined]
    asked = pa.table({"k": pa.array([5, 77], pa.int64())})
    assert source.lookup(asked)["k"].to_pylist() == [5]
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TransientSourceError, match="no table of Delta"):
        source.lookup(asked)
    assert len(lake("delta", tmp_path, pa.table({"k": pa.array([77], pa.int64())})).schema) == 1
    source.lookup(asked)
    shutil.rmtree(tmp_path / "t")
    table = pa.table({"k": pa.array(range(70, 80), pa.int64())})
    deltalake.write_deltalake(str(tmp_path / "t"), table)
    assert source.lookup(asked)["k"].to_pylist() == [77]


@pytest.mark.parametrize("kind", ["text", "number"])
def test_a_key_of_delta_is_given_another_type(kind: str, tmp_path: Path) -> None:
    """Ranges of texts are no ranges of numbers; what is gone inside a column is not null."""
    pairs = [(p * 10_000 + 9999, p + 1) for p in range(100, 210, 3)]  # neighbours as texts
    numbers = pa.array([number for pair in pairs for number in pair], pa.int64())
    texts = numbers.cast(pa.string())
    first, second = (texts, numbers) if kind == "text" else (numbers, texts)
    source = lake("delta", tmp_path, pa.table({"k": first}))
    source.renewed_every_s = 0  # type: ignore[attr-defined]
    asked = pa.table({"k": first})
    assert len(source.lookup(asked)) == len(first)
    deltalake.write_deltalake(
        str(tmp_path / "t"), pa.table({"k": second}), mode="overwrite", schema_mode="overwrite"
    )
    found = source.lookup(asked)
    assert found.schema.field("k").type == first.type
    assert sorted(found["k"].to_pylist()) == sorted(first.to_pylist())
    inside: Any = delta(tmp_path / "s")
    for name in "ab":
        table = pa.table({"k": [1], "s": [{name: 1}]})
        deltalake.write_deltalake(tmp_path / "s", table, mode="overwrite", schema_mode="overwrite")
        inside.renewed_every_s = 0
        _ = inside.schema
    with pytest.raises(SourceError, match=r"'s' of .* has 's\.a' inside, which is not there"):
        inside.lookup(pa.table({"k": [1]}))


def test_decimals_of_iceberg_are_given_more_digits(catalog: Catalog, tmp_path: Path) -> None:
    from pyiceberg.types import DecimalType, LongType

    def table(amounts: Any, digits: int, ids: pa.DataType) -> pa.Table:
        values = [Decimal(amount) / 100 for amount in amounts]
        return pa.table(
            {"a": pa.array(values, pa.decimal128(digits, 2)), "i": pa.array(amounts, ids)}
        )

    old = table(range(60), 9, pa.int32())
    made = catalog.create_table("shop.t", old.schema)
    made.append(old)
    with made.update_schema() as update:
        update.update_column("a", DecimalType(18, 2))
        update.update_column("i", LongType())
    new = table(range(10**12, 10**12 + 60), 18, pa.int64())
    made.append(new)
    both = pa.concat_tables([old.cast(new.schema), new])
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    for name in ("a", "i"):
        for asked in (both.select([name]), both.select([name]).take([1, 70])):
            assert rows(source.lookup(asked), ["a", "i"]) == rows(matching(both, asked), ["a", "i"])


def test_nulls_and_names_inside_columns_of_iceberg_are_those_of_the_files(
    catalog: Catalog, tmp_path: Path
) -> None:
    """A null list of structs is no empty one; more rows than Arrow reads at a time."""
    count = 150_000
    part = pa.struct([("a", pa.int32()), ("b", pa.string())])
    one, places = {"a": 1, "b": "x"}, pa.array([i * 7 % 5 for i in range(count)], pa.int32())

    def column(dtype: pa.DataType, *values: Any) -> pa.Array:
        return pa.array([None, *values], dtype).take(places)

    table = pa.table(
        {
            "k": range(count),
            "s": column(part, one, {"a": None, "b": "y"}, one, None),
            "l": column(pa.list_(part), [], [one, None], [None], [one, one]),
            "m": column(pa.map_(pa.string(), part), [], [("p", one)], [("q", None)], []),
            "ll": column(pa.list_(pa.list_(part)), [], [None, [one]], [[], [None]], [[one]] * 3),
            "ml": column(
                pa.map_(pa.int32(), pa.list_(part)), [], [(1, None)], [(2, [one, None])], []
            ),
        }
    )
    made = catalog.create_table("shop.t", table.schema)
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    made.add_files([f"{tmp_path}/rows.parquet"])
    source: Any = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    assert pa.Table.from_batches(source.scan()).equals(table)
    asked = pa.table({"k": [7, 131_073, count - 1]})
    assert rows(source.lookup(asked)) == rows(table.take(asked["k"]))
    with made.update_schema() as update:
        for place in ("s", "l.element", "m.value", "ll.element.element", "ml.value.element"):
            update.rename_column((*place.split("."), "a"), "c")
    source.renewed_every_s = 0
    with pytest.raises(SourceError, match=r"has 's\.a' inside, which is called 's\.c' now"):
        source.lookup(asked, ["s"])
    assert len(source.lookup(asked, [])) == 3
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    named = repr(table.slice(0, 5).to_pylist()).replace("'a'", "'c'")
    assert repr(source.lookup(table.select(["k"]).slice(0, 5)).to_pylist()) == named


def test_times_of_any_year_are_read_of_files_that_were_added_to_iceberg(
    catalog: Catalog, tmp_path: Path
) -> None:
    """As Spark wrote them, in INT96."""
    table = TABLE.select(["int", "at", "local"])
    made = catalog.create_table("shop.t", table.schema)
    made.append(table)
    (file,) = (tmp_path / "lake").rglob("*.parquet")
    stored = pa.parquet.read_table(file)
    pa.parquet.write_table(stored, file, use_deprecated_int96_timestamps=True, store_schema=False)
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    numbers = _in_numbers(table)
    assert pa.Table.from_batches(source.scan()).cast(numbers).equals(table.cast(numbers))
    for name in ("at", "local"):
        found = source.lookup(table.select([name]).slice(0, 4), ["int"])
        assert rows(found, ["int"]) == rows(table.slice(0, 4), ["int"])


def test_dates_of_iceberg_become_timestamps(catalog: Catalog, tmp_path: Path) -> None:
    days = pa.array([0, -719_162, None], pa.int32()).cast(pa.date32())
    table = pa.table({"k": [1, 2, 3], "d": days})
    made = catalog.create_table("shop.t", table.schema)
    made.append(table)
    path = Path(made.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata |= {"format-version": 3, "next-row-id": 3, "current-schema-id": 1}
    metadata["snapshots"][0] |= {"first-row-id": 0, "added-rows": 3}
    then = metadata["schemas"][0]
    now = [{**one, "type": "timestamp"} if one["name"] == "d" else one for one in then["fields"]]
    metadata["schemas"].append({**then, "schema-id": 1, "fields": now})
    path.write_text(json.dumps(metadata))
    source, wanted = iceberg(path), table.set_column(1, "d", table["d"].cast(pa.timestamp("us")))
    assert pa.Table.from_batches(source.scan()).equals(wanted)
    for asked in (wanted.select(["d"]), wanted.select(["d"]).slice(1, 1)):
        assert rows(source.lookup(asked), ["k"]) == rows(matching(wanted, asked), ["k"])


def test_a_default_of_iceberg_is_found_in_files_without_the_column(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = pa.table({"k": pa.array([1, 2], pa.int64())})
    made = catalog.create_table("shop.t", table.schema)
    made.append(table)
    path = Path(made.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata |= {"format-version": 3, "next-row-id": 2}
    metadata["snapshots"][0] |= {"first-row-id": 0, "added-rows": 2}
    defaults = {
        "day": ("date", "2020-01-01"), "at": ("timestamptz", "2020-01-01T00:00:00+00:00"),
        "n": ("long", 42), "s": ("string", "x"), "d": ("decimal(9,2)", "14.20"),
    }  # fmt: skip
    metadata["schemas"][0]["fields"] += [
        {"id": 10 + i, "name": name, "type": kind, "required": False, "initial-default": value}
        for i, (name, (kind, value)) in enumerate(defaults.items())
    ]
    path.write_text(json.dumps(metadata))
    source = iceberg(path)
    whole = pa.Table.from_batches(source.scan())
    assert not any(column.null_count for column in whole.columns)
    for name in defaults:
        assert len(source.lookup(whole.select([name]).slice(0, 1))) == 2, name


@pytest.mark.parametrize(
    ("dtype", "transform"),
    [
        (pa.int32(), TruncateTransform(10)), (pa.int64(), TruncateTransform(10)),
        (pa.date32(), MonthTransform()), (UTC, YearTransform()),
    ],
)  # fmt: skip
def test_the_least_and_the_greatest_keys_are_found_in_partitions(
    dtype: pa.DataType, transform: Any, catalog: Catalog, tmp_path: Path
) -> None:
    """A truncated number may be none of its type any more, and Python has no such years."""
    least = -(1 << (dtype.bit_width - 1))
    integers = pa.int32() if dtype.bit_width == 32 else pa.int64()
    values = pa.array([least, least + 9, ~least, 0, 50, None], integers).cast(dtype)
    table = pa.table({"k": values, "id": range(6)})
    there = table if pa.types.is_integer(dtype) else table.slice(3)
    made = catalog.create_table("shop.t", table.schema)
    with made.update_spec() as spec:
        spec.add_field("k", transform, "by")
    made.append(there)
    source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    keys, ids = table.select(["k"]), there["id"].to_pylist()
    more = pa.table({"k": pa.array(range(100, 140), integers).cast(dtype)})  # so that ranges are
    first, last = ENDS["date" if dtype.bit_width == 32 else "time"]
    ends = [first, first + 1, *range(0, 40_000, 1_000), last - 1, last]
    far = pa.table({"k": pa.array(ends, integers).cast(dtype)})  # Python has none beside them
    cases = [(keys, ids), (pa.concat_tables([keys.slice(3), more]), [3, 4, 5]), (far, [3])]
    for asked, wanted in [*cases, *((keys.slice(i, 1), [i] * (i in ids)) for i in range(6))]:
        assert sorted(source.lookup(asked)["id"].to_pylist()) == wanted


def test_a_version_is_that_of_the_snapshot_that_is_held(tmp_path: Path) -> None:
    rows, at = pa.table({"k": pa.array([1], pa.int64())}), str(tmp_path / "t")
    deltalake.write_deltalake(at, rows)
    source = delta(at)
    assert source.size() == 1
    first = source._execute(source._version_of)  # type: ignore[attr-defined]
    for _ in range(2):
        deltalake.write_deltalake(at, rows, mode="append")
    assert source._execute(source._version_of) == first  # type: ignore[attr-defined]
    assert source.table_changes().version().version == "2"
    half = tmp_path / "t" / "_delta_log" / f"{3:020}.json"
    half.write_text('{"add": {"path": "x')
    with pytest.raises(SourceError, match="Truncated record") as caught:
        _ = delta(at).schema
    assert "<unknown>" not in str(caught.value)
    half.unlink()
    for log in (tmp_path / "t" / "_delta_log").glob("*.json"):
        lines = [line for line in log.read_text().splitlines() if "commitInfo" not in line]
        log.write_text("".join(f"{line}\n" for line in lines))
    newest = source.table_changes().version()
    assert (newest.version, newest.committed_at_us) == ("2", None)


def test_a_table_that_is_kept_for_the_next_micro_batch_is_not_asked_for_again(
    spark: SparkSession,
    feed: Feed,
    tmp_path: Path,
    builds: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server would be, with a connection of its own, while the table is followed anyway."""
    table = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    source, cache = lake("delta", tmp_path, table, parts=1), bsjoin.Full(refresh="on_commit")
    asked: list[Any] = []
    found: list[Any] = []

    def counted(*given: Any) -> Any:
        asked.append(given)
        return followed_table(*given)

    def function(batch: DataFrame, number: int) -> None:
        joined = bsjoin.join(batch, source, "k", cache=cache)
        found.append(sorted(tuple(row) for row in joined.collect()))

    monkeypatch.setattr("bsjoin._join.followed_table", counted)
    for _ in range(3):
        feed.add(1, 2)
    query = feed.call(function)
    query.processAllAvailable()
    query.stop()
    assert found == [[(1, "a"), (2, "b")]] * 3
    assert (len(asked), len(builds)) == (1, 1)
    with pytest.raises(ArgumentError, match="without a number of their version"):
        bsjoin.join(feed.stream, delta(tmp_path / "t", version=0), "k", cache=cache)
    # What follows it ends when another query begins.
    keys, other = spark.range(3).toDF("k"), Feed(spark, tmp_path / "next")
    other.add(1)
    query = other.call(lambda batch, _: bsjoin.join(batch, keys, "k"))
    query.processAllAvailable()
    query.stop()


HARMFUL = {
    "py-io-impl": "harmful_file_io.FileIO", "s3.endpoint": "http://127.0.0.1:1",
    "schema.name-mapping.default": "[]",
}  # fmt: skip


@pytest.mark.parametrize("place", ["catalog", "file", "folder", "rest"])
def test_properties_of_a_table_of_iceberg_name_no_code(
    place: str, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As who can write its metadata would have it: a class to import, a host to ask."""
    (tmp_path / "harmful_file_io.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    table = pa.table({"k": pa.array([1, 2], pa.int64())})
    made = catalog.create_table("shop.t", table.schema)
    made.append(table)
    path = Path(made.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["properties"] |= HARMFUL
    if place == "rest":
        from pyiceberg.catalog.rest import RestCatalog, TableResponse

        response = TableResponse(
            **{"metadata-location": str(path), "metadata": metadata, "config": {"s3.region": "x"}}
        )
        monkeypatch.setattr(RestCatalog, "_fetch_config", lambda _: None)
        rest = load_catalog("r", type="rest", uri="http://127.0.0.1:1", token="t")
        metadata_files.distrust_tables_of(rest)
        loaded = rest._response_to_table(("shop", "t"), response)  # type: ignore[attr-defined]
        assert loaded.io.properties["s3.region"] == "x"
        assert not {"py-io-impl", "s3.endpoint"} & loaded.io.properties.keys()
        assert loaded.metadata.properties.keys() == {"schema.name-mapping.default"}
        return
    path.write_text(json.dumps(metadata))
    if place == "catalog":
        source = iceberg("shop.t", catalog=Iceberg(tmp_path).properties)
    elif place == "file":
        source = iceberg(path)
    else:  # whose hint is behind
        folder = tmp_path / "hadoop" / "metadata"
        folder.mkdir(parents=True)
        (folder / "version-hint.text").write_text("1\n")
        (folder / "v1.metadata.json").write_text("{}")
        shutil.copy(path, folder / "v2.metadata.json")
        source = iceberg(folder.parent)
    assert source.lookup(table).equals(table)


def test_files_of_iceberg_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyiceberg.io.pyarrow

    iceberg_module = sys.modules["bsjoin.sources.lakes.iceberg"]
    begun: list[Any] = []
    read = pyiceberg.io.pyarrow._task_to_record_batches
    monkeypatch.setattr(
        pyiceberg.io.pyarrow, "_task_to_record_batches",
        lambda io, task, *rest: begun.append(task) or read(io, task, *rest),  # type: ignore[func-returns-value]
    )  # fmt: skip
    monkeypatch.setattr(iceberg_module, "_MOST_BYTES", 1)
    table = pa.table({"k": range(120)})
    scanned = lake("iceberg", tmp_path, table, parts=12).scan()
    next(scanned)
    assert len(begun) == 1
    assert sum(map(len, scanned)) == 110
    assert len(begun) == 12


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda p: delta(""), ArgumentError, "folder of a table"),
        (lambda p: delta(p, version=-1), ArgumentError, "version=-1: give a whole number"),
        (lambda p: delta(p, version=True), ArgumentError, "version=True"),
        (lambda p: delta(p, unique="yes"), ArgumentError, "unique='yes'"),
        (lambda p: delta(p, storage_options={"a": 1}), ArgumentError, "all of them texts"),
        (lambda p: iceberg(5), ArgumentError, "name of a table"),
        (lambda p: iceberg("a.b", catalog=5), ArgumentError, "name of a catalogue"),
        (lambda p: iceberg("a.b", catalog={}, snapshot="x"), ArgumentError, "snapshot='x'"),
        (lambda p: delta(p).schema, SourceError, "no table of Delta"),
        (lambda p: delta(p / "none").schema, SourceError, "no table of Delta"),
        (lambda p: iceberg(p / "none").schema, SourceError, "no such file"),
        (lambda p: iceberg(p).schema, SourceError, "version-hint"),
        (lambda p: iceberg("a.b", catalog="nowhere").schema, SourceError, "nowhere|URI"),
        (lambda p: lake("delta", p).lookup(pa.table({"x": [1]})), ColumnError, "'x'"),
        (lambda p: lake("delta", p) and delta(p / "t", version=99).schema, SourceError, "99"),
        (
            lambda p: lake("iceberg", p)
            and iceberg("shop.t", catalog=Iceberg(p).properties, snapshot=9).schema,
            SourceError, "Snapshot not found: 9",
        ),
        (lambda p: lake("delta", p) and parquet(p / "t").schema, SourceError, r"sources\.delta"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    make: Callable[[Path], Any], kind: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        make(tmp_path)


def test_a_missing_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("deltalake", "pyiceberg.catalog"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SourceError, match=r"bsjoin\[delta\]"):
        _ = delta("s3://nowhere/t").schema
    with pytest.raises(SourceError, match=r"bsjoin\[iceberg\]"):
        _ = iceberg("a.b", catalog={"uri": "http://nowhere"}).schema


def test_a_panic_of_a_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As that of pyo3."""

    def panics(*_: Any, **__: Any) -> None:
        raise PanicException("called unwrap() on s3://me:secret@bucket/t")

    source = lake("delta", tmp_path)
    monkeypatch.setattr(deltalake.DeltaTable, "__init__", panics)
    with pytest.raises(SourceError, match=r"unwrap\(\) on s3://me:\*\*\*@bucket"):
        _ = source.schema


def test_a_server_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bsjoin.sources.lakes.lake_table._LONGEST_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SourceError, match=r"no answer within 0\.1 seconds") as caught:
            _ = iceberg("a.b", catalog={"type": "rest", "uri": uri}).schema
        assert caught.value.is_transient
        server.accept()[0].close()
    for thread in threading.enumerate():
        if thread.name.startswith("bsjoin: iceberg"):
            thread.join()


def test_what_opens_when_nobody_waits_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bsjoin.sources.lakes.lake_table._LONGEST_S", 0.1)
    source, answers, closed = delta("s3://nowhere/t"), threading.Event(), threading.Event()
    table = SimpleNamespace(close=closed.set)
    monkeypatch.setattr(source, "_open", lambda: answers.wait() and table)
    with pytest.raises(SourceError, match="no answer within"):
        _ = source.schema
    answers.set()
    for thread in threading.enumerate():
        if thread.name.startswith("bsjoin: delta"):
            thread.join()
    gc.collect()
    assert closed.is_set()


def test_credentials_are_in_no_message(tmp_path: Path) -> None:
    secret = "s3cr3t/+x"
    options = {
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://u:{secret}@127.0.0.1:1",
    }
    source = delta("s3://bucket/t", storage_options={**options, "AWS_REGION": "x"})
    other = iceberg("a.b", catalog={"uri": f"sqlite:////nowhere/{secret}/c.db", "token": secret})
    for found in (source, other):
        assert secret not in repr(found)
        with pytest.raises(SourceError) as caught:
            _ = found.schema
        assert secret not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
