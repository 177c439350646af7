"""Segments: every Arrow type that Spark knows comes back as it went in."""

from __future__ import annotations

import json
import pickle
import tracemalloc
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
    Segment,
    SegmentForm,
    SegmentInfo,
    StorageLocation,
    write_segment,
)
from bsjoin.storage.checksums import checksum


def one_segment(
    location: StorageLocation, hashes: list[int], rows: pa.Table, keys: int = 0
) -> tuple[SegmentInfo, Segment]:
    info = write_segment(
        location, "data/x/0000-000", np.array(hashes, np.int64), rows, SegmentForm(keys)
    )
    return info, Segment(location, info, keys)


def test_rows_are_taken_by_their_numbers(location: StorageLocation) -> None:
    """Those of missing rows are null, whatever number stands there."""
    columns = {
        "text": ["", None, "Grüße, 世界 " * 50],
        "flag": [True, None, False],
        "list": [["", "a"], None, []],
        "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
        "struct": [{"x": 1, "label": None}, None, {"x": None, "label": ["b"]}],
        "void": pa.nulls(3),
    }
    # A slice of a larger table is stored as the slice.
    rows = pa.concat_tables([pa.table(columns)] * 3).combine_chunks()[3:6]
    _, segment = one_segment(location, [10, 20, 30], rows)
    for number, name in enumerate(columns):
        kept = rows[name].to_pylist()
        assert segment.column(number).to_pylist() == kept
        for numbers in ([2, 0, 1, 1, 2], [-1, 2, -1, 0], [-1, -1], []):
            wanted = np.array(numbers, np.int64)
            taken = segment.take(number, wanted, wanted < 0 if -1 in numbers else None)
            assert taken.type == rows.schema.field(name).type
            assert taken.to_pylist() == [None if n < 0 else kept[n] for n in numbers]


def test_the_info_counts_rows_keys_and_the_longest_run(location: StorageLocation) -> None:
    hashes = np.array([-3, 1, 1, 1, 2, 2], np.int64)
    rows = pa.table({"v": pa.array(range(6))})
    info, _ = one_segment(location, hashes.tolist(), rows)
    assert (info.rows, info.keys, info.longest_run, info.first_hash) == (6, 3, 3, -3)
    for name, size, expected in zip(info.files, info.sizes, info.checksums, strict=True):
        path = Path(location.url, name)
        assert path.stat().st_size == size
        with path.open("rb") as file:
            assert checksum(file) == expected
    assert pickle.loads(pickle.dumps(info)) == info
    # Equal content has equal checksums.
    assert (
        write_segment(location, "data/y/s", hashes, rows, SegmentForm()).checksums == info.checksums
    )
    more = pa.table({"v": pa.array(range(1, 7))})
    other = write_segment(location, "data/z/s", hashes, more, SegmentForm()).checksums
    assert other[0] == info.checksums[0]  # the index
    assert other[1] != info.checksums[1]


KEYED = st.tuples(
    st.integers(-1, 2),  # few hashes: most keys collide
    st.sampled_from(["", "a", "b", "ab"]),
    st.sampled_from([b"", b"\0", b"a"]),
)


@settings(max_examples=15, deadline=None)
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
    # A null key equals nothing, even where its hash is stored.
    keys[0] = pa.nulls(len(probes), pa.string())
    hashes = np.array([hash_ for hash_, _, _ in probes], np.int64)
    assert set(segment.find(hashes, keys).tolist()) == {-1}
    present = found[found >= 0]
    lengths = segment.index.run_lengths(present).tolist()
    assert lengths == [stored.count(key) for key in probes if key in stored]


@settings(max_examples=15, deadline=None)
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
    info = write_segment(location, "data/x/merged", hashes, rows, SegmentForm(integers=True))
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


def test_writing_a_segment_takes_25_bytes_of_numpy_a_row(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_module, "_AT_ONCE", 1 << 14)
    n = 1_000_000
    numbers = np.random.default_rng(1).permutation(n)
    rows = pa.table({"v": numbers})
    for keys in (numbers, numbers << 20):  # dense ones, and others
        hashes = hashes_of_integers(keys)
        tracemalloc.start()
        try:
            write_segment(location, "data/x/s", hashes, rows, SegmentForm(integers=True))
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # An order (4), hashes (8), a directory (4 to 8), and what one of their steps needs.
        assert most <= 25 * n


X = pa.field("x", pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("dtype", "right", "wrong"),
    [
        (pa.struct([X]), {"x": 1}, {"x": None}),
        (pa.list_(X), [1, 2], [None]),
        (
            pa.list_(pa.map_(pa.string(), pa.struct([X]))),
            [[("a", {"x": 1})], None],
            [[("a", {"x": None})]],
        ),
    ],
    ids=str,
)
def test_nulls_stand_only_where_the_schema_has_them(
    location: StorageLocation, dtype: pa.DataType, right: Any, wrong: Any
) -> None:
    for nullable, values, damaged in (
        (True, [right, None, right], False),
        (True, [right, None, wrong], True),
        (False, [right, right, right], False),
        (False, [right, None, right], True),
    ):
        rows = pa.table({"v": pa.array(values, dtype)})
        info = write_segment(location, "data/x/s", np.arange(3), rows, SegmentForm())
        segment = Segment(location, info, 0, pa.schema([pa.field("v", dtype, nullable)]))
        if damaged:
            with pytest.raises(DamagedTableError, match="nulls although the table"):
                segment.column(0)
        else:
            assert segment.column(0).to_pylist() == pa.array(values, dtype).to_pylist()
