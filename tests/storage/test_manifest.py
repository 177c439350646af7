"""The manifest: a JSON document that says everything, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from stored_tables import store

from bsjoin.errors import StoreError, TableNotFoundError
from bsjoin.storage import (
    KeyColumn,
    Manifest,
    SegmentInfo,
    StorageLocation,
    UnindexedInfo,
    versions,
)
from bsjoin.storage.layers.entries import Applied, Layer
from bsjoin.storage.manifest import LARGEST, compared_fields

KEYS = (KeyColumn("größe", "decimal(10,2)"), KeyColumn("a`b", "string"))
NESTED = pa.struct(
    [
        pa.field("l", pa.list_(pa.field("element", pa.int64())), nullable=False),
        pa.field("t", pa.timestamp("us", "UTC")),
    ]
)
COLUMNS = pa.schema([pa.field("n", NESTED), pa.field("d", pa.decimal128(38, 10))])


def full_manifest() -> Manifest:
    segments = tuple(
        SegmentInfo(
            name=f"data/abc/{i:04d}-000",
            rows=10 + i,
            keys=7,
            longest_run=3 - i,
            first_hash=-(1 << 63) + i,
            sizes=(20 + i, 100, 110, 120, 130),
            checksums=(f"{i:032x}", *["a" * 32] * 4),
        )
        for i in range(2)
    )
    return Manifest(
        version=12,
        activates_at_us=1_700_000_000_123_456,
        created_at_us=1_700_000_000_000_000,
        build_s=1.234567,
        keys=KEYS,
        compared=2,
        unique=True,
        schema=pa.schema([*compared_fields(KEYS), *COLUMNS]),
        spark_schema=from_arrow_schema(COLUMNS).json(),
        segments=segments,
        unindexed=(UnindexedInfo("data/abc/u0000", 2, (9, 8), ("a" * 32, "b" * 32)),),
    )


def layered_manifest() -> Manifest:
    """The same with two layers."""
    sums = ("c" * 32,) * 5
    rows = SegmentInfo("data/abd/rows", 4, 2, 3, 5, (9, 8, 7, 6, 5), sums)
    gone = SegmentInfo("data/abd/gone", 2, 2, 1, 6, (9, 8, 7), sums[:3])
    layers = (Layer(rows, gone), Layer(None, replace(gone, name="data/abe/gone")))
    changes = Applied(5, ("größe",), (("writer", 7),))
    return replace(full_manifest(), layers=layers, live=(20, 11), changes=changes)


def test_a_manifest_with_layers_comes_back_from_json() -> None:
    manifest = layered_manifest()
    content = manifest.to_bytes()
    assert json.loads(content)["format"] == 2
    assert json.loads(full_manifest().to_bytes())["format"] == 1
    assert Manifest.from_bytes(content, "there", 12) == manifest
    stats = manifest.stats
    assert (stats.rows, stats.keys, stats.segments, stats.longest_run) == (20, 11, 5, 3)
    assert stats.bytes == 978 + 35 + 24 + 24
    assert len({name for name, _, _ in manifest.files}) == len(manifest.files) == 10 + 2 + 5 + 6
    assert manifest.same_as(replace(manifest, version=7))
    assert not manifest.same_as(full_manifest())
    # Without layers they count for nothing; numbers that are missing are at most these.
    assert Manifest.from_bytes(replace(manifest, layers=()).to_bytes(), "it").live is None
    assert replace(manifest, live=None).stats.rows == 25


LAYERED: list[tuple[str, Any, str]] = [
    ("format", 1, "the format is 1, and there are 2 layers"),
    ("layers", 5, "layers is 5, not a list"),
    ("layers.0", [], "a list is not a JSON object"),
    ("layers.0", {"rows": None, "gone": None}, "neither rows nor keys that are gone"),
    ("layers.0.rows.name", "data/abc/0000-000", "segments names one twice"),
    ("layers.1.gone.name", "data/abd/gone", "segments names one twice"),
    ("layers.0.gone.sizes", [1] * 5, "5 sizes and 3 checksums"),
    ("layers.0.gone", {"rows": 3, "keys": 2, "longest_run": 2}, "it lacks 'name'"),
    ("live", [26, 3], "live is [26, 3], not the numbers"),
    ("live", [3, 4], "not the numbers of rows and of keys"),
    ("live", [3, 0], "not the numbers of rows and of keys"),
    ("live", [True, 1], "not the numbers of rows and of keys"),
    ("live", 7, "live is 7, not a list"),
    ("base", 7, "base is 7, not a text"),
    ("changes", [], "a list is not a JSON object"),
    ("changes.count", 0, "count is 0, not a whole number from 1"),
    ("changes.identity", [1], "identity has 1, which is not a text"),
    ("changes.batches", [], "batches is a list, which is not an object"),
    ("changes.batches.writer", "7", "writer is '7', not a whole number"),
]  # fmt: skip


def test_a_manifest_that_lies_about_layers_is_refused() -> None:
    for place, value, says in LAYERED:
        with pytest.raises(TableNotFoundError, match=re.escape(says)):
            Manifest.from_bytes(altered({place: value}, layered_manifest()), "it")
    twice = {"layers.0.gone.keys": 1, "layers.0.gone.longest_run": 2}
    with pytest.raises(TableNotFoundError, match="has a key twice that is gone"):
        Manifest.from_bytes(altered(twice, layered_manifest()), "it")


def test_a_manifest_comes_back_from_json() -> None:
    manifest = full_manifest()
    again = Manifest.from_bytes(manifest.to_bytes(), "there", 12)
    assert again == manifest
    assert again.schema.equals(manifest.schema, check_metadata=True)
    assert [field.nullable for field in again.schema] == [False, False, True, True]
    stats = manifest.stats
    assert (stats.rows, stats.keys, stats.bytes, stats.segments) == (21, 14, 978, 2)
    assert (stats.version, stats.longest_run, stats.unindexed) == (12, 3, 2)
    assert stats.build_s == 1.234567
    empty = replace(manifest, segments=(), unindexed=())
    assert Manifest.from_bytes(empty.to_bytes(), "there") == empty
    stats = empty.stats
    assert (stats.rows, stats.keys, stats.bytes, stats.segments, stats.longest_run) == (0,) * 5
    assert (empty.is_whole, stats.unindexed) == (True, 0)
    # One of before says that rows may lack; fields of a later release are passed over.
    before = replace(manifest, unindexed=None)
    assert "unindexed" not in json.loads(before.to_bytes())
    again = Manifest.from_bytes(before.to_bytes(), "there")
    assert (again.is_whole, again.unindexed, again.stats.unindexed) == (False, None, None)
    assert Manifest.from_bytes(altered({"unindexed.0.later": 1}), "there") == manifest


def test_garbage_is_not_a_manifest() -> None:
    for garbage in (b"", b"\xff\xfe\x00", b"{", b"null", b"[]", b"{}", b'"text"', b"\0" * 1000):
        with pytest.raises(TableNotFoundError, match=r"versions/00000001\.json"):
            Manifest.from_bytes(garbage, "'versions/00000001.json'")
    with pytest.raises(TableNotFoundError, match="12, and the file is that of version 3"):
        Manifest.from_bytes(full_manifest().to_bytes(), "it", 3)


def test_another_format_is_refused_and_named() -> None:
    for format_ in (0, 3, "1", None):
        data = {**json.loads(full_manifest().to_bytes()), "format": format_}
        says = f"format {format_}.*reads formats up to 2: use bsjoin 0"
        with pytest.raises(TableNotFoundError, match=says):
            Manifest.from_bytes(json.dumps(data).encode(), "it")
        data["written_by"] = "bsjoin 2; rm"
        with pytest.raises(TableNotFoundError, match="the version of bsjoin that wrote"):
            Manifest.from_bytes(json.dumps(data).encode(), "it")


def altered(changes: dict[str, Any], manifest: Manifest | None = None) -> bytes:
    """The manifest's document with other values; ``a.0.b`` is a place inside of lists."""
    data = json.loads((manifest or full_manifest()).to_bytes())
    for place, value in changes.items():
        *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        inside = data
        for part in path:
            inside = inside[part]
        inside[last] = value
    return json.dumps(data).encode()


def points(**changes: Any) -> dict[str, Any]:
    return {"names": ["p"], "types": ["long"], "closed": None, **changes}


FIELDS: list[tuple[str, Any, str]] = [
    *(("version", value, "version is ") for value in (-1, True, 1.0, "1", None, 1 << 63)),
    ("activates_at_us", -1, "activates_at_us is"),
    ("created_at_us", 253_402_300_800_000_000, "created_at_us is"),
    ("build_s", -0.5, "build_s is -0.5"),
    ("build_s", float("nan"), "build_s is nan"),
    ("unique", "yes", "unique is 'yes', not true or false"),
    ("compared", 0, "compared is 0, and its keys need 2"),
    ("compared", 10**9, "its keys need 2"),
    ("keys", 5, "keys is 5, not a list"),
    ("keys", [], "keys is empty"),
    ("keys", [["a"]], "not a name and a type"),
    ("keys", [[1, "long"]], "not a name and a type"),
    ("keys", [["a", "long"], ["a", "string"]], "keys names a column twice"),
    ("keys.0.1", "geometry", "the key 'größe' has the type geometry"),
    ("keys.0", ["d", "string"], "the key 'd' has another type in spark_schema"),
    ("spark_schema", 5, "spark_schema is 5, not a text"),
    ("spark_schema", "{}", "spark_schema: "),
    ("segments", None, "segments is None, not a list"),
    ("segments", [{}], "it lacks 'name'"),
    ("segments", [[]], "a list is not a JSON object"),
    ("segments.1.rows", 0, "rows is 0, not a whole number from 1"),
    ("segments.1.rows", 1 << 31, "rows is"),
    ("segments.1.keys", 12, "keys is 12, not a whole number from 1 to 11"),
    ("segments.1.longest_run", 6, "longest_run is 6, not a whole number from 1 to 5"),
    ("segments.1.first_hash", 1 << 63, "first_hash is"),
    ("segments.1.first_hash", -(1 << 63), "begins before the one that it follows"),
    ("segments.1.name", "data/abc/0000-000", "segments names one twice"),
    ("segments.1.sizes", [1], "1 sizes and 5 checksums"),
    ("segments.1.sizes", None, "sizes is None"),
    ("segments.1.sizes.0", -1, "not a number of bytes"),
    ("segments.1.sizes.0", True, "not a number of bytes"),
    ("segments.1.checksums.0", 5, "checksums has 5"),
    ("segments.1.checksums.0", "xyz", "not one of xxh3-128"),
    ("unindexed", 5, "unindexed is 5, not a list"),
    ("unindexed", ["x"], "'x' is not a JSON object"),
    ("unindexed", [{}], "it lacks 'name'"),
    ("unindexed.0.rows", 0, "rows is 0, not a whole number from 1"),
    ("unindexed.0.sizes", [1], "1 sizes and 2 checksums for its 2 columns"),
    ("unindexed.0.sizes", [0, 1], "not a number of bytes"),
    ("unindexed.0.checksums", [5, 5], "checksums has 5"),
    ("unindexed.0.name", "versions/abc/u0000", "is not in a folder below 'data/'"),
    ("unindexed.0.name", "data/abc/0000-000", "unindexed names a segment twice, or one that"),
    ("ranged", 7, "7 is not a JSON object"),
    ("ranged", points(names=[]), "neither one column of points nor two"),
    ("ranged", points(names=["p", "q"]), "neither one column of points nor two"),
    ("ranged", points(closed="both"), "neither one column of points nor two"),
    ("ranged", points(closed="all"), "closed is 'all', none of both"),
    ("ranged", points(types=["time(6)"]), "has the type time(6)"),
    ("ranged", points(names=["p", "q"], types=["long", "date"], closed="left"), "neither"),
    *(
        ("segments.1.name", name, "name")
        for name in (
            "../../other/data/abc/0000", "data/../../etc/passwd", "data/abc//0000", "data/abc",
            "versions/abc/0000", "data/abc/C:\\0000", "data/abc/0000\0", "data/abc/0000\n",
            "~/abc/0000", "data/s3://bucket/0000", "data/abc/٣", "", 5,
        )
    ),
]  # fmt: skip


def test_a_field_that_is_not_what_it_should_be_is_named() -> None:
    for place, value, says in FIELDS:
        with pytest.raises(TableNotFoundError, match=re.escape(says)) as caught:
            Manifest.from_bytes(altered({place: value}), "'versions/00000012.json' in '/t'")
        assert str(caught.value).startswith("'versions/00000012.json' in '/t' is not a manifest")
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("bomb", [b"[" * 10**6, b'{"a":' * 10**6, b"9" * 10**6])
def test_a_bomb_is_an_error(bomb: bytes) -> None:
    deep = altered({"spark_schema": bomb.decode()})
    for content in (bomb, deep, altered({"version": "@"}).replace(b'"@"', bomb)):
        with pytest.raises(TableNotFoundError, match="it is not a manifest"):
            Manifest.from_bytes(content, "it")


def test_a_manifest_has_a_size_limit_for_readers_and_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = full_manifest()
    size = len(manifest.to_bytes())
    monkeypatch.setattr("bsjoin.storage.manifest.LARGEST", size)
    assert Manifest.from_bytes(manifest.to_bytes(), "it") == manifest
    monkeypatch.setattr("bsjoin.storage.manifest.LARGEST", size - 1)
    with pytest.raises(StoreError, match="larger segment_bytes, or with fewer columns"):
        manifest.to_bytes()
    monkeypatch.undo()
    (tmp_path / "versions").mkdir()
    with (tmp_path / "versions/00000001.json").open("wb") as file:
        file.truncate(1 << 40)  # a sparse file: a terabyte that takes no space
    with pytest.raises(TableNotFoundError, match=f"more than {LARGEST} bytes"):
        versions.latest(StorageLocation.of(tmp_path))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cut_or_altered_document_is_refused_or_read_never_a_crash(data: st.DataObject) -> None:
    content = layered_manifest().to_bytes()
    end = data.draw(st.integers(0, len(content)))
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    for altered in (content[:end], content[:place] + byte + content[place + 1 :]):
        with contextlib.suppress(TableNotFoundError):
            Manifest.from_bytes(altered, "it")


def test_the_same_rows_in_other_files_are_the_same(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)

    def table(values: list[int], hashes: list[int], *texts: str) -> Manifest:
        others = [pa.table({"v": [text]}) for text in texts]
        return store(location, hashes, pa.table({"v": pa.array(values)}), unindexed=others)

    first = table([1, 2, 3], [1, 2, 3], "x", "y")
    assert first.same_as(table([1, 2, 3], [1, 2, 3], "x", "y").published_as(9, 8, 7))
    for other in (
        table([1, 2, 4], [1, 2, 3], "x", "y"),
        table([1, 2, 3], [1, 2, 4], "x", "y"),
        replace(first, spark_schema="{ }"),
        replace(first, schema=pa.schema([("w", pa.int64())])),
        *(table([1, 2, 3], [1, 2, 3], *texts) for texts in ((), ("x",), ("x", "z"))),
        replace(first, unindexed=None),
    ):
        assert not first.same_as(other)
        assert not other.same_as(first)
    # Rows without columns have no checksums.
    none = UnindexedInfo("data/x/u0000", 3, (), ())
    three, four = (replace(first, unindexed=(replace(none, rows=n),)) for n in (3, 4))
    assert not three.same_as(four)
