"""The manifest: a JSON document that says everything, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_tables import store

from bsjoin.errors import NotATableError
from bsjoin.store import Home, KeyColumn, Manifest, SegmentInfo

KEY = pa.field("k0", pa.string(), nullable=False)
NESTED = pa.field(
    "n", pa.struct([pa.field("l", pa.list_(pa.int64())), pa.field("t", pa.timestamp("us", "UTC"))])
)


def full_manifest() -> Manifest:
    segments = tuple(
        SegmentInfo(
            name=f"data/abc/{i:04d}-000",
            rows=10 + i,
            keys=7,
            longest_run=3 - i,
            first_hash=-(1 << 63) + i,
            sizes=(20 + i, 100),
            checksums=(f"b{i}", "aa"),
        )
        for i in range(2)
    )
    return Manifest(
        version=12,
        activates_at_us=1_700_000_000_123_456,
        created_at_us=1_700_000_000_000_000,
        build_s=1.25,
        keys=(KeyColumn("größe", "decimal(38,10)"), KeyColumn("a`b", "string")),
        compared=1,
        unique=True,
        schema=pa.schema([KEY, NESTED, pa.field("d", pa.decimal128(38, 10))]),
        spark_schema='{"type":"struct","fields":[]}',
        segments=segments,
    )


def test_a_manifest_comes_back_from_json() -> None:
    manifest = full_manifest()
    again = Manifest.from_bytes(manifest.to_bytes(), "there")
    assert again == manifest
    assert again.schema.equals(manifest.schema, check_metadata=True)
    assert [field.nullable for field in again.schema] == [False, True, True]
    empty = replace(manifest, segments=())
    assert Manifest.from_bytes(empty.to_bytes(), "there") == empty


def test_the_document_is_readable_json() -> None:
    data = json.loads(full_manifest().to_bytes())
    assert data["format"] == 1
    assert data["version"] == 12
    assert data["keys"] == [["größe", "decimal(38,10)"], ["a`b", "string"]]


def test_columns_leave_the_compared_keys_out() -> None:
    assert full_manifest().columns == ["n", "d"]
    assert replace(full_manifest(), compared=0).columns == ["k0", "n", "d"]


def test_stats_add_the_segments_up() -> None:
    stats = full_manifest().stats
    assert (stats.rows, stats.keys, stats.bytes, stats.segments) == (21, 14, 241, 2)
    assert (stats.version, stats.longest_run, stats.build_s) == (12, 3, 1.25)
    empty = replace(full_manifest(), segments=()).stats
    assert (empty.rows, empty.keys, empty.bytes, empty.segments, empty.longest_run) == (0,) * 5


def test_files_come_with_size_and_checksum() -> None:
    assert full_manifest().files == [
        ("data/abc/0000-000.index.arrow", 20, "b0"),
        ("data/abc/0000-000.0.arrow", 100, "aa"),
        ("data/abc/0001-000.index.arrow", 21, "b1"),
        ("data/abc/0001-000.0.arrow", 100, "aa"),
    ]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"17",
        b'{"format": 1}',
        b"\0" * 1000,
    ],
)
def test_garbage_is_not_a_manifest(garbage: bytes) -> None:
    with pytest.raises(NotATableError, match=r"versions/00000001\.json"):
        Manifest.from_bytes(garbage, "'versions/00000001.json'")


@pytest.mark.parametrize("format_", [0, 2, "1", None])
def test_another_format_is_refused_and_named(format_: Any) -> None:
    data = {**json.loads(full_manifest().to_bytes()), "format": format_}
    with pytest.raises(NotATableError, match=f"format {format_}.*reads format 1"):
        Manifest.from_bytes(json.dumps(data).encode(), "it")


@pytest.mark.parametrize("field", json.loads(full_manifest().to_bytes()))
def test_a_manifest_without_one_of_its_fields_is_refused(field: str) -> None:
    data = json.loads(full_manifest().to_bytes())
    del data[field]
    with pytest.raises(NotATableError, match=field):
        Manifest.from_bytes(json.dumps(data).encode(), "it")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", "!"),
        ("schema", ""),
        ("schema", "AAAA"),
        ("schema", 5),
        ("keys", 5),
        ("keys", [["a"]]),
        ("keys", [["a", "b", "c"]]),
        ("segments", None),
        ("segments", [{}]),
        ("segments", ["x"]),
        ("segments", [{"name": "x", "sizes": None}]),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str, value: Any) -> None:
    data = {**json.loads(full_manifest().to_bytes()), field: value}
    with pytest.raises(NotATableError):
        Manifest.from_bytes(json.dumps(data).encode(), "it")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_cut_or_altered_document_is_refused_or_read_never_a_crash(data: st.DataObject) -> None:
    content = full_manifest().to_bytes()
    end = data.draw(st.integers(0, len(content)))
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    for altered in (content[:end], content[:place] + byte + content[place + 1 :]):
        with contextlib.suppress(NotATableError):
            Manifest.from_bytes(altered, "it")


def test_publishing_changes_version_and_times_only() -> None:
    manifest = full_manifest()
    published = manifest.published_as(3, 100, 200)
    assert (published.version, published.created_at_us, published.activates_at_us) == (3, 100, 200)
    assert replace(published, version=12, created_at_us=0, activates_at_us=0) == replace(
        manifest, created_at_us=0, activates_at_us=0
    )


def test_the_same_rows_in_other_files_are_the_same_as(tmp_path: Path) -> None:
    home = Home.of(tmp_path)

    def table(values: list[int], hashes: list[int], cuts: tuple[int, ...] = ()) -> Manifest:
        return store(home, hashes, pa.table({"v": pa.array(values)}), cuts=cuts)

    first = table([1, 2, 3], [1, 2, 3])
    assert first.same_as(table([1, 2, 3], [1, 2, 3]).published_as(9, 8, 7))
    assert not first.same_as(table([1, 2, 4], [1, 2, 3]))
    assert not first.same_as(table([1, 2, 3], [1, 2, 4]))
    assert not first.same_as(replace(first, spark_schema="{ }"))
    assert not first.same_as(replace(first, schema=pa.schema([("w", pa.int64())])))


def test_discarding_removes_the_files(tmp_path: Path) -> None:
    home = Home.of(tmp_path)
    draft = store(home, [1, 2], pa.table({"v": pa.array([1, 2])}), cuts=[1])
    assert all(home.size(name) for name, _, _ in draft.files)
    draft.discard(home)
    assert [home.size(name) for name, _, _ in draft.files] == [None] * 4
    draft.discard(home)  # and once more is fine
