"""Rows that match nothing: stored beside the index, found in no look-up, damaged ones noticed."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_tables import numbered, put, store

from bsjoin.errors import DamagedTableError, TableNotFoundError
from bsjoin.storage import (
    RUN,
    Gathering,
    Manifest,
    RunInfo,
    StorageLocation,
    UnindexedInfo,
    builds,
    run_groups,
    versions,
    write_run,
    write_unindexed,
)
from bsjoin.storage.checksums import checksum
from bsjoin.storage.opening import validate
from bsjoin.storage.unindexed import unindexed_column

FOREVER = 1 << 62
FIELD = pa.field("v", pa.string())


@pytest.fixture
def location(tmp_path: Path) -> StorageLocation:
    return StorageLocation.of(tmp_path / "table")


def whole(location: StorageLocation, *texts: list[str | None]) -> Manifest:
    """A table of four rows with keys, and segments of rows without; published as version 1."""
    others = [pa.table({"v": pa.array(some, pa.string())}) for some in texts]
    rows = pa.table({"v": ["a", "b", "c", "d"]})
    return put(location, store(location, range(4), rows, cuts=[2], unindexed=others), 1, 100)


def values(location: StorageLocation, manifest: Manifest) -> list[list[Any]]:
    field = manifest.schema.field(manifest.compared)
    listed = manifest.unindexed or ()
    return [unindexed_column(location, info, 0, field).to_pylist() for info in listed]


# Writing and gathering


def test_rows_without_columns_are_counted(location: StorageLocation) -> None:
    rows = pa.table({"v": [1, 2, 3]}).select([])
    info = write_unindexed(location, "data/x/u0000", np.arange(3), rows)
    assert (info.rows, info.files, info.sizes, info.checksums) == (3, (), (), ())
    assert UnindexedInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


def test_the_metadata_come_back_from_json(location: StorageLocation) -> None:
    info = write_unindexed(location, "data/x/u0000", np.arange(2), pa.table({"v": ["a", "b"]}))
    data = json.loads(json.dumps(info.to_json()))
    assert UnindexedInfo.from_json(data) == info
    for changed in (
        {"rows": 0},
        {"rows": True},
        {"sizes": [0]},
        {"sizes": [1, 2]},
        {"sizes": [""]},
    ):
        with pytest.raises(ValueError, match=r"rows|sizes"):
            UnindexedInfo.from_json({**data, **changed})
    assert UnindexedInfo.from_json({**data, "a field of a later release": 1}) == info


def run_of(location: StorageLocation, name: str, hashes: list[int], values: list[Any]) -> RunInfo:
    rows = pa.table({"h": pa.array(hashes, pa.int64()), "v": pa.array(values, pa.string())})
    return write_run(location, name, rows)


ROWS = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from("abc")), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=6), st.sampled_from([1, 2_000, 5_000, 1 << 30]))
def test_every_row_of_the_runs_is_in_one_segment(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, str]]], limit: int
) -> None:
    location = StorageLocation.of(tmp_path_factory.mktemp("gather"))
    build = builds.begin(location)
    runs = []
    for number, part in enumerate(parts):
        hashes, texts = (list(column) for column in zip(*part, strict=True))
        runs.append(run_of(location, f"{build.folder}/{number}{RUN}", hashes, texts))
    groups = run_groups(runs, limit)
    assert list(itertools.chain(*groups)) == runs
    sizes = [[sum(run.block_bytes) for run in group] for group in groups]
    assert all(sum(group) <= limit or len(group) == 1 for group in sizes)
    # No two neighbours would have fitted together.
    assert all(sum(a) + b[0] > limit for a, b in itertools.pairwise(sizes))
    gathering = Gathering(build, pa.schema([FIELD]))
    infos = [gathering.segment(f"u{n:04d}", group) for n, group in enumerate(groups)]
    found = [unindexed_column(location, info, 0, FIELD).to_pylist() for info in infos]
    wanted = [text for part in parts for _, text in part]
    assert sorted(itertools.chain(*found)) == sorted(wanted)
    assert [info.rows for info in infos] == [len(some) for some in found]


def test_the_same_rows_in_another_order_make_the_same_files(location: StorageLocation) -> None:
    rows = [(hash_ * 7919 % 101, f"row {hash_}") for hash_ in range(50)]
    found = []
    for number, order in enumerate((rows, rows[::-1], rows[20:] + rows[:20])):
        build = builds.begin(location)
        halves = [order[:30], order[30:]]
        runs = [
            run_of(location, f"{build.folder}/{i}{RUN}", *map(list, zip(*half, strict=True)))
            for i, half in enumerate(halves)
        ]
        found.append(Gathering(build, pa.schema([FIELD])).segment(f"u{number:04d}", runs))
    assert len({info.checksums for info in found}) == 1


def test_a_segment_has_a_gibibyte_at_most_whatever_is_asked_for() -> None:
    half = RunInfo("data/x/0.run", (1,), (0,), 0, ((1 << 29,),), (("",),))
    assert [len(group) for group in run_groups([half] * 5, 1 << 40)] == [2, 2, 1]


# The manifest


def test_a_manifest_with_rows_outside_of_the_index_comes_back(location: StorageLocation) -> None:
    manifest = whole(location, [None, "x"], ["y"])
    again = versions.load(location, 1)
    assert again == manifest
    assert again.is_whole
    assert values(location, again) == [[None, "x"], ["y"]]
    assert json.loads(manifest.to_bytes())["format"] == 1
    assert (again.stats.rows, again.stats.unindexed) == (4, 3)
    assert again.stats.segments == 2
    names = [name for name, _, _ in again.files]
    assert [name.rsplit("/", 1)[1] for name in names[-2:]] == ["u0000.0.arrow", "u0001.0.arrow"]
    assert again.stats.bytes == sum(
        path.stat().st_size for path in Path(location.url, "data").rglob("*") if path.is_file()
    )


def test_a_manifest_of_before_is_read_and_says_that_rows_may_lack(
    location: StorageLocation,
) -> None:
    manifest = put(location, numbered(location), 1, 100)
    assert "unindexed" not in json.loads(manifest.to_bytes())
    again = versions.load(location, 1)
    assert (again.is_whole, again.unindexed, again.stats.unindexed) == (False, None, None)
    none = replace(manifest, unindexed=())
    assert Manifest.from_bytes(none.to_bytes(), "it") == none
    assert (none.is_whole, none.stats.unindexed) == (True, 0)


def test_versions_are_the_same_if_their_rows_outside_of_the_index_are(
    location: StorageLocation,
) -> None:
    rows = pa.table({"v": ["a", "b"]})

    def table(*texts: str) -> Manifest:
        others = [pa.table({"v": [text]}) for text in texts]
        return store(location, range(2), rows, unindexed=others)

    assert table("x", "y").same_as(table("x", "y"))
    for other in (table("x"), table("x", "z"), table("x", "y", "z"), table()):
        assert not table("x", "y").same_as(other)
    assert not table().same_as(store(location, range(2), rows))
    assert not store(location, range(2), rows).same_as(table())
    # Rows without columns have no checksums.
    none = UnindexedInfo("data/x/u0000", 3, (), ())
    first, second = (replace(table(), unindexed=(replace(none, rows=n),)) for n in (3, 4))
    assert not first.same_as(second)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ((), 5, "unindexed is 5, not a list"),
        ((), ["x"], "'x' is not a JSON object"),
        ((), [{}], "it lacks 'name'"),
        ((0, "rows"), 0, "rows is 0, not a whole number from 1"),
        ((0, "rows"), 1 << 31, "rows is"),
        ((0, "sizes"), [1, 2], "2 sizes and 1 checksums for its 1 columns"),
        ((0, "sizes"), [0], "not a number of bytes"),
        ((0, "checksums"), [5], "checksums has 5"),
        ((0, "name"), "/etc/passwd", "is not in a folder below 'data/'"),
        ((0, "name"), "versions/abc/u0000", "is not in a folder below 'data/'"),
    ],
)
def test_a_hostile_entry_is_refused_and_named(
    location: StorageLocation, place: tuple[Any, ...], value: Any, says: str
) -> None:
    data = json.loads(whole(location, ["x"], ["y"]).to_bytes())
    if place:
        number, field = place
        data["unindexed"][number][field] = value
    else:
        data["unindexed"] = value
    with pytest.raises(TableNotFoundError, match=re.escape(says)):
        Manifest.from_bytes(json.dumps(data).encode(), "it")


def test_a_segment_is_listed_once(location: StorageLocation) -> None:
    data = json.loads(whole(location, ["x"], ["y"]).to_bytes())
    for name in (data["unindexed"][1]["name"], data["segments"][0]["name"]):
        data["unindexed"][0]["name"] = name
        with pytest.raises(
            TableNotFoundError, match="unindexed names a segment twice, or one that"
        ):
            Manifest.from_bytes(json.dumps(data).encode(), "it")


# Versions


def test_vacuum_keeps_the_rows_of_versions_that_stay(location: StorageLocation) -> None:
    first = whole(location, ["old"])
    others = [pa.table({"v": [1]})]
    # No row of the second version has a key.
    second = put(location, store(location, [], pa.table({"v": pa.array([], pa.int64())}),
                                 unindexed=others), 2, 200)  # fmt: skip
    assert versions.data_folders(location) == {
        name.rsplit("/", 1)[0] for name, _, _ in (*first.files, *second.files)
    }
    assert versions.vacuum(location, 0, keep=1) == []
    assert versions.vacuum(location, FOREVER, keep=1) == [1]
    assert {location.size(name) for name, _, _ in first.files} == {None}
    versions.verify(location, second)
    assert values(location, versions.latest(location)) == [[1]]


def resigned(location: StorageLocation, manifest: Manifest) -> Manifest:
    """The manifest as somebody hostile would write it: with the sizes and checksums of now."""
    listed = []
    for info in manifest.unindexed or ():
        content = [Path(location.url, name).read_bytes() for name in info.files]
        found = []
        for name in info.files:
            with location.reading(name) as file:
                found.append(checksum(file))
        listed.append(replace(info, sizes=tuple(map(len, content)), checksums=tuple(found)))
    return replace(manifest, unindexed=tuple(listed))


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([1, 2], pa.int64()), "instead of one column of string"),
        (pa.array(["x"], pa.string()), "1 rows instead of 2"),
        (pa.array(["x", "y", "z"], pa.string()), "3 rows instead of 2"),
        (pa.array(["x", "y"], pa.string()).dictionary_encode(), "it holds schema, dictionary"),
    ],
)
def test_another_column_with_the_right_checksum_is_refused(
    location: StorageLocation, column: pa.Array, says: str
) -> None:
    manifest = whole(location, ["x", "y"])
    path = Path(location.url, manifest.files[-1][0])
    batch = pa.RecordBatch.from_arrays([column], ["column"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as out:
        out.write_batch(batch)
    with pytest.raises(DamagedTableError, match=says):
        validate(location, resigned(location, manifest))


def test_nulls_are_refused_where_the_schema_has_none(location: StorageLocation) -> None:
    schema = pa.schema([FIELD.with_nullable(False)])
    rows = pa.table({"v": ["a"]}, schema)
    others = [pa.table({"v": pa.array(["x", None], pa.string())})]
    manifest = store(location, [1], rows, unindexed=others)
    with pytest.raises(DamagedTableError, match="nulls although the table"):
        validate(location, manifest)


def test_any_byte_that_is_changed_is_noticed_or_another_value(location: StorageLocation) -> None:
    manifest = whole(location, ["one", None, "three", ""])
    path = Path(location.url, manifest.files[-1][0])
    content = path.read_bytes()
    random = np.random.default_rng(5)
    for place in random.permutation(len(content))[:300]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        path.write_bytes(bytes(changed))
        try:
            validate(location, resigned(location, manifest))
            found = values(location, resigned(location, manifest))
        except DamagedTableError:
            continue
        except UnicodeDecodeError:
            continue  # a text of Spark may have any bytes
        assert len(found[0]) == 4


def test_copies_of_rows_outside_of_the_index_stay_with_their_version(tmp_path: Path) -> None:
    local = whole(StorageLocation.of(tmp_path / "table"), ["x"])
    remote = StorageLocation.of(f"local://{tmp_path}/table")
    manifest = versions.latest(remote)
    assert manifest == local
    assert values(remote, manifest) == [["x"]]
    versions.remove_copies(remote, ())
    assert values(remote, manifest) == [["x"]]
    versions.verify(remote, manifest)
