"""Segments: every Arrow type that Spark knows comes back as it went in."""

from __future__ import annotations

import datetime
import json
import pickle
import re
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.errors import DamagedTableError
from bsjoin.index import GREATEST, LEAST, are_dense, hashes_of_integers
from bsjoin.index import hash as hash_module
from bsjoin.storage import (
    RunInfo,
    RunRows,
    Segment,
    SegmentInfo,
    StorageLocation,
    write_run,
    write_segment,
)
from bsjoin.storage import runs as runs_module
from bsjoin.storage.checksums import checksum
from bsjoin.storage.segment import take

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
POINT = pa.struct([pa.field("x", pa.int32()), pa.field("label", pa.string())])

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    "int8": (pa.int8(), [-128, None, 127]),
    "int16": (pa.int16(), [-(1 << 15), None, 5]),
    "int32": (pa.int32(), [-(1 << 31), None, 5]),
    "int64": (pa.int64(), [-(1 << 63), None, (1 << 63) - 1]),
    "float": (pa.float32(), [-0.5, None, float("inf")]),
    "double": (pa.float64(), [1e300, None, -1.5]),
    "decimal": (pa.decimal128(38, 10), [Decimal("-1.5000000000"), None, Decimal(10) ** 20]),
    "string": (pa.string(), ["", None, "Grüße, 世界 " * 50]),
    "binary": (pa.binary(), [b"", None, bytes(range(256))]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=UTC), None, None]),
    "timestamp_ntz": (pa.timestamp("us"), [MOMENT, None, datetime.datetime(1600, 1, 1)]),
    "duration": (pa.duration("us"), [datetime.timedelta(days=-1), None, datetime.timedelta(1)]),
    "list": (pa.list_(pa.int64()), [[], None, [1, None, 3]]),
    "list of text": (pa.list_(pa.string()), [["", "a"], None, []]),
    "struct": (POINT, [{"x": 1, "label": None}, None, {"x": None, "label": "b"}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], None, []]),
    "list of structs": (
        pa.list_(POINT),
        [[{"x": 1, "label": "a"}, None], None, [{"x": None, "label": None}]],
    ),
    "struct of all": (
        pa.struct(
            [
                pa.field("list", pa.list_(pa.list_(pa.int16()))),
                pa.field("map", pa.map_(pa.int32(), POINT)),
                pa.field("decimal", pa.decimal128(10, 2)),
            ]
        ),
        [
            {"list": [[1], None, []], "map": [(1, {"x": 7, "label": "z"})], "decimal": None},
            None,
            {"list": None, "map": None, "decimal": Decimal("1.25")},
        ],
    ),
}


@pytest.fixture
def location(tmp_path: Path) -> StorageLocation:
    return StorageLocation.of(tmp_path)


def one_segment(
    location: StorageLocation, hashes: list[int], rows: pa.Table, keys: int = 0
) -> tuple[SegmentInfo, Segment]:
    info = write_segment(location, "data/x/0000-000", np.array(hashes, np.int64), rows, keys)
    return info, Segment(location, info, keys)


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_come_back(location: StorageLocation, kind: str) -> None:
    """Some of them, none, those of missing rows whatever number stands there, and those of runs."""
    dtype, values = VALUES[kind]
    column = pa.array(values, dtype)
    rows = pa.table({"v": column})
    kept = column.to_pylist()
    _, segment = one_segment(location, [10, 20, 30], rows)
    for numbers in ([2, 0, 1, 1, 2], [-1, 2, -1, 0], [-1, -1], []):
        wanted = np.array(numbers, np.int64)
        taken = segment.take(0, wanted, wanted < 0 if -1 in numbers else None)
        assert taken.type == dtype
        assert taken.to_pylist() == [None if n < 0 else kept[n] for n in numbers]
    _, merged = runs_of(location, range(3), rows, [1, 2])
    whole = Segment(location, write_segment(location, "data/y/s", merged.hashes, merged), 0)
    assert whole.column(0).type == dtype
    assert whole.column(0).to_pylist() == kept


@pytest.mark.parametrize("kind", ["string", "binary", "list", "struct", "bool"])
def test_a_slice_of_a_larger_table_is_stored_as_the_slice(
    location: StorageLocation, kind: str
) -> None:
    dtype, values = VALUES[kind]
    rows = pa.table({"v": pa.array([*values, *values], dtype)}).slice(2, 3)
    _, segment = one_segment(location, [1, 2, 3], rows)
    assert segment.take(0, np.arange(3)).to_pylist() == rows.column("v").to_pylist()


def test_a_table_without_columns_is_found_by_its_hashes(location: StorageLocation) -> None:
    rows = pa.table({"v": pa.array([1, 2, 3])}).select([])
    info, segment = one_segment(location, [5, 5, 9], rows)
    assert (info.rows, info.keys, info.longest_run) == (3, 2, 2)
    assert segment.find(np.array([9, 5, 4], np.int64), []).tolist() == [2, 0, -1]


def test_the_info_counts_rows_keys_and_the_longest_run(location: StorageLocation) -> None:
    info, _ = one_segment(location, [-3, 1, 1, 1, 2, 2], pa.table({"v": pa.array(range(6))}))
    assert (info.rows, info.keys, info.longest_run, info.first_hash) == (6, 3, 3, -3)
    for name, size, expected in zip(info.files, info.sizes, info.checksums, strict=True):
        path = Path(location.url, name)
        assert path.stat().st_size == size
        with path.open("rb") as file:
            assert checksum(file) == expected
    assert SegmentInfo.from_json(info.to_json()) == info
    assert pickle.loads(pickle.dumps(info)) == info


def test_equal_content_has_equal_checksums(location: StorageLocation) -> None:
    rows = pa.table({"v": pa.array(["a", "b"])})
    hashes = np.array([1, 2], np.int64)
    infos = [write_segment(location, f"data/{name}/s", hashes, rows, 0) for name in "xy"]
    assert infos[0].checksums == infos[1].checksums
    other = write_segment(location, "data/z/s", hashes, pa.table({"v": pa.array(["a", "c"])}), 0)
    assert other.checksums[0] == infos[0].checksums[0]  # the index
    assert other.checksums[1] != infos[0].checksums[1]


KEYED = st.tuples(
    st.integers(-1, 2),  # few hashes: most keys collide
    st.sampled_from(["", "a", "b", "ab"]),
    st.sampled_from([b"", b"\0", b"a"]),
)


@settings(deadline=None)
@given(st.lists(KEYED, min_size=1, max_size=40), st.lists(KEYED, max_size=15), st.data())
def test_keys_whose_hashes_collide_are_distinguished(
    tmp_path_factory: pytest.TempPathFactory,
    stored: list[tuple[int, str, bytes]],
    others: list[tuple[int, str, bytes]],
    data: st.DataObject,
) -> None:
    stored = sorted(stored)
    rows = pa.table(
        {
            "k0": pa.array([text for _, text, _ in stored], pa.string()),
            "k1": pa.array([raw for _, _, raw in stored], pa.binary()),
            "v": pa.array(range(len(stored))),
        }
    )
    location = StorageLocation.of(tmp_path_factory.mktemp("collide"))
    info, segment = one_segment(location, [hash_ for hash_, _, _ in stored], rows, keys=2)
    segment.index.validate()
    assert info.keys == len(set(stored))
    assert info.longest_run == max(stored.count(key) for key in stored)

    probes = data.draw(st.permutations([*stored, *others]))
    keys = [
        pa.array([text for _, text, _ in probes], pa.string()),
        pa.array([raw for _, _, raw in probes], pa.binary()),
    ]
    found = segment.find(np.array([hash_ for hash_, _, _ in probes], np.int64), keys)
    expected = [stored.index(key) if key in stored else -1 for key in probes]
    assert found.tolist() == expected
    present = found[found >= 0]
    lengths = segment.index.run_lengths(present).tolist()
    assert lengths == [stored.count(key) for key in probes if key in stored]


def test_a_null_key_equals_nothing_even_where_its_hash_is_stored(location: StorageLocation) -> None:
    rows = pa.table({"k0": pa.array(["a", "b"]), "v": pa.array([1, 2])})
    _, segment = one_segment(location, [7, 7], rows, keys=1)
    found = segment.find(np.array([7, 7], np.int64), [pa.array([None, "b"])])
    assert found.tolist() == [-1, 1]


def test_columns_have_the_numbers_of_the_table_that_was_written(location: StorageLocation) -> None:
    # Their names do not matter: a column may be called like a compared key.
    rows = pa.Table.from_arrays([pa.array(["a"]), pa.array([1])], names=["k0", "k0"])
    _, segment = one_segment(location, [7], rows, keys=1)
    assert segment.find(np.array([7]), [pa.array(["a"])]).tolist() == [0]
    assert segment.take(0, np.array([0])).to_pylist() == ["a"]
    assert segment.take(1, np.array([0])).to_pylist() == [1]


def runs_of(
    location: StorageLocation, hashes: Any, rows: pa.Table, cuts: Sequence[int] = ()
) -> tuple[list[RunInfo], RunRows]:
    """Rows as runs, cut before some of them, and read again."""
    hashes = pa.array(hashes, pa.int64())
    named = rows.add_column(0, "hash of the key", [hashes])
    runs = [
        write_run(location, f"data/runs/{a}.run", named.slice(a, b - a))
        for a, b in pairwise([0, *cuts, len(hashes)])
    ]
    runs = [RunInfo.from_json(json.loads(json.dumps(run.to_json()))) for run in runs]
    return runs, RunRows(location, runs, rows.schema)


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYED, min_size=1, max_size=40), st.data())
def test_a_segment_of_runs_is_the_segment_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    stored: list[tuple[int, str, bytes]],
    data: st.DataObject,
) -> None:
    hashes = np.array([hash_ for hash_, _, _ in stored], np.int64)
    rows = pa.table(
        {
            "k0": pa.array([text for _, text, _ in stored], pa.string()),
            "k1": pa.array([raw for _, _, raw in stored], pa.binary()),
            "v": pa.array([[number] * (number % 3) for number in range(len(stored))]),
        }
    )
    n = len(stored)
    cuts = sorted(data.draw(st.sets(st.integers(0, n), max_size=4)) - {0, n})
    location = StorageLocation.of(tmp_path_factory.mktemp("merge"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_BLOCK_ROWS", data.draw(st.sampled_from([1, 2, 7, 100])))
        runs, merged = runs_of(location, hashes, rows, cuts)
    whole = write_segment(location, "data/whole/0000", hashes, rows, 2)
    assert write_segment(location, "data/merged", merged.hashes, merged, 2) == replace(
        whole, name="data/merged"
    )
    # Neighbouring keys, and the rows of each in the order in which they were.
    segment = Segment(location, whole, 2)
    found = [*zip(*(segment.column(number).to_pylist() for number in range(3)), strict=True)]
    assert sorted(found) == sorted((t, r, [i] * (i % 3)) for i, (_, t, r) in enumerate(stored))
    assert segment.index.hashes[:-1].tolist() == sorted(hashes.tolist())

    # Ranges of hashes, each of which is read from some blocks.
    places = st.sampled_from([*hashes.tolist(), 0, GREATEST])
    bounds = sorted(data.draw(st.sets(places, max_size=3)))
    for first, end in pairwise([None, *bounds, None]):
        part = RunRows(location, runs, rows.schema, first, end)
        low, high = LEAST if first is None else first, GREATEST + 1 if end is None else end
        inside = [key for key in stored if low <= key[0] < high]
        found = zip(part.hashes, *(part.column(i).to_pylist() for i in range(2)), strict=True)
        assert sorted(found) == sorted(inside)


def test_a_damaged_run_is_refused(location: StorageLocation) -> None:
    rows = pa.table({"v": pa.array(["one", "two", "three"])})
    (run,), _ = runs_of(location, [3, 1, 2], rows)
    path = Path(location.url, run.name)
    content = path.read_bytes()
    for damaged in (content[:-8], content[:100] + b"?" + content[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(DamagedTableError, match=run.name):
            RunRows(location, [run], rows.schema).column(0)
    path.unlink()
    with pytest.raises(DamagedTableError, match="missing"):
        RunRows(location, [run], rows.schema)


def test_a_run_of_other_columns_is_refused(location: StorageLocation) -> None:
    rows = pa.table({"v": pa.array(["one", "two"])})
    (run,), _ = runs_of(location, [3, 1], rows)
    for dtype in (pa.int64(), pa.list_(pa.string()), pa.large_string()):
        with pytest.raises(DamagedTableError):
            RunRows(location, [run], pa.schema([("v", dtype)])).column(0)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([LEAST, -20, 0, GREATEST - 50]),
    st.lists(st.integers(0, 50), min_size=1, max_size=40),
)
def test_rows_are_in_the_order_of_dense_keys(
    tmp_path_factory: pytest.TempPathFactory, least: int, stored: list[int]
) -> None:
    keys = np.array([least + number for number in stored])
    dense = are_dense(keys)
    hashes = hashes_of_integers(keys)
    rows = pa.table({"k": keys, "number": np.arange(len(keys))})
    location = StorageLocation.of(tmp_path_factory.mktemp("dense"))
    info = write_segment(location, "data/x/merged", hashes, rows, integers=True)
    assert (info.first_key == keys.min()) if dense else (info.first_key is None)
    assert info == SegmentInfo.from_json(json.loads(json.dumps(info.to_json())))

    segment = Segment(location, info, 0)
    assert (info.first_hash, segment.last_hash) == (hashes.min(), hashes.max())
    rows = rows.take(pa.array(np.argsort(keys if dense else hashes, kind="stable")))
    assert segment.column(0).equals(rows["k"].combine_chunks())
    assert segment.column(1).equals(rows["number"].combine_chunks())
    probes = np.array([*keys, *(least + n for n in range(51)), LEAST, GREATEST], np.int64)
    wanted = rows["k"].to_pylist()
    expected = [wanted.index(key) if key in wanted else -1 for key in probes.tolist()]
    assert segment.find(hashes_of_integers(probes), []).tolist() == expected


@pytest.mark.parametrize("dense", [False, True])
def test_writing_a_segment_takes_25_bytes_of_numpy_a_row(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch, dense: bool
) -> None:
    monkeypatch.setattr(hash_module, "_AT_ONCE", 1 << 14)
    n = 1_000_000
    numbers = np.random.default_rng(1).permutation(n)
    rows = pa.table({"v": numbers})
    hashes = hashes_of_integers(numbers if dense else numbers << 20)
    tracemalloc.start()
    try:
        write_segment(location, "data/x/s", hashes, rows, integers=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # An order (4), hashes (8), a directory (4 to 8), and what one of their steps needs.
    assert most <= 25 * n


X = pa.field("x", pa.int32(), nullable=False)
REQUIRED = {
    "struct": (pa.struct([X]), {"x": 1}, {"x": None}),
    "list": (pa.list_(X), [1, 2], [None]),
    "large list": (pa.large_list(X), [1, 2], [None]),
    "map": (pa.map_(pa.string(), X), [("a", 1)], [("a", None)]),
    "map of structs": (
        pa.map_(pa.string(), pa.struct([X])),
        [("a", {"x": 1})],
        [("a", {"x": None})],
    ),
    "list of maps": (pa.list_(pa.map_(pa.string(), X)), [[("a", 1)], None], [[("a", None)]]),
    "struct of lists": (
        pa.struct([pa.field("l", pa.list_(X), nullable=False)]),
        {"l": [1]},
        {"l": [1, None]},
    ),
}


@pytest.mark.parametrize("kind", REQUIRED)
def test_nulls_stand_only_where_the_schema_has_them(location: StorageLocation, kind: str) -> None:
    dtype, right, wrong = REQUIRED[kind]
    for nullable, values, damaged in (
        (True, [right, None, right], False),
        (True, [right, None, wrong], True),
        (False, [right, right, right], False),
        (False, [right, None, right], True),
    ):
        rows = pa.table({"v": pa.array(values, dtype)})
        info = write_segment(location, "data/x/s", np.arange(3), rows, 0)
        schema = pa.schema([pa.field("v", dtype, nullable)])
        segment = Segment(location, info, 0, schema)
        if damaged:
            with pytest.raises(DamagedTableError, match="nulls although the table"):
                segment.column(0)
        else:
            assert segment.column(0).to_pylist() == pa.array(values, dtype).to_pylist()


def test_text_is_taken_whatever_stands_behind_its_offsets() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 3], np.int32).tobytes() + b"\xff\xff")
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abb")])
    assert take(column, np.array([1, 0, 1])).to_pylist() == ["bb", "a", "bb"]


@pytest.mark.parametrize("file", [0, 1])
@pytest.mark.parametrize("left", [None, 0, 100])
def test_opening_a_missing_or_cut_file_names_it(
    location: StorageLocation, file: int, left: int | None
) -> None:
    info, _ = one_segment(location, [1, 2], pa.table({"v": pa.array(["a", "b"])}))
    name = info.files[file]
    path = Path(location.url, name)
    if left is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DamagedTableError, match=re.escape(name)):
        Segment(location, info, 0).take(0, np.array([0]))
