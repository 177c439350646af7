"""Runs become segments of about equal sizes, with every row once."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST
from bsjoin.storage import Merge, RunInfo, Segment, StorageLocation, builds, hash_ranges, write_run

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def merge_of(location: StorageLocation) -> Merge:
    return Merge(builds.begin(location), SCHEMA, 1, 0, None, integers=False)


def run_of(location: StorageLocation, number: int, rows: list[tuple[int, str, int]]) -> RunInfo:
    hashes, keys, values = zip(*rows, strict=True)
    types = pa.int64(), pa.string(), pa.int64()
    columns = [pa.array(c, t) for c, t in zip((hashes, keys, values), types, strict=True)]
    table = pa.Table.from_arrays(columns, ["h", "k", "v"])
    return write_run(location, f"data/x/{number}.run", table)


HASHES = st.one_of(
    st.integers(-3, 3), st.sampled_from([LEAST, GREATEST]), st.integers(LEAST, GREATEST)
)
ROWS = st.lists(st.tuples(HASHES, st.sampled_from("abc")), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from([1, 100, 1 << 10, 1 << 20]))
def test_every_row_is_in_one_segment(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[int, str]]],
    segment_bytes: int,
) -> None:
    location = StorageLocation.of(tmp_path_factory.mktemp("merge"))
    numbers = itertools.count()
    stored = [[(hash_, key, next(numbers)) for hash_, key in part] for part in parts]
    runs = [run_of(location, i, part) for i, part in enumerate(stored)]
    ranges = hash_ranges(runs, segment_bytes)
    merge = merge_of(location)
    infos = [merge.segment(f"{n:04d}", runs, range_) for n, range_ in enumerate(ranges)]
    segments = [Segment(location, info, 1) for info in infos if info is not None]
    found = [
        row
        for segment in segments
        for row in zip(
            segment.index.hashes[:-1].tolist(),
            segment.column(0).to_pylist(),
            segment.column(1).to_pylist(),
            strict=True,
        )
    ]
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    assert sorted(found) == sorted(itertools.chain(*stored))
    # Rows with one key stay in the order of the runs, and of the rows in each.
    for key in {row[:2] for row in found}:
        values = [value for *other, value in found if tuple(other) == key]
        assert values == sorted(values)
    # No hash is in two segments.
    bounds = [(int(s.index.hashes[0]), s.last_hash) for s in segments]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))


def test_segments_are_of_about_one_size_and_not_too_large(tmp_path: Path) -> None:
    location, random = StorageLocation.of(tmp_path), np.random.default_rng(7)
    runs = []
    for number, size in enumerate((200_000, 70_000, 1_000)):
        hashes = random.integers(LEAST, GREATEST, size)
        rows = pa.table({"h": hashes, "v": np.arange(size)})
        runs.append(write_run(location, f"data/x/{number}.run", rows))
    total = sum(sum(run.block_bytes) for run in runs)
    limit = total // 7
    ranges = hash_ranges(runs, limit)
    assert len(ranges) == 8
    merge = Merge(builds.begin(location), pa.schema([("v", pa.int64())]), 0, 0, None, False)
    infos = [merge.segment(f"{n:04d}", runs, range_) for n, range_ in enumerate(ranges)]
    rows = [info.rows for info in infos if info is not None]
    assert sum(rows) == 271_000
    assert max(rows) <= 271_000 / 7
    assert min(rows) >= 0.9 * 271_000 / 8


def test_one_hash_is_never_in_two_segments(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)
    runs = [run_of(location, number, [(5, "a", number)] * 100) for number in range(3)]
    merge = merge_of(location)
    infos = [merge.segment(f"{n}", runs, r) for n, r in enumerate(hash_ranges(runs, 1))]
    assert [info.rows for info in infos if info is not None] == [300]


def test_the_runs_of_failed_tasks_are_removed_too(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)
    merge = merge_of(location)
    folder = merge.build.folder
    rows = pa.table({"h": [5], "k": ["a"], "v": [1]})
    run, _ = (write_run(location, f"{folder}/{number}.run", rows) for number in (0, 9))
    info = merge.segment("0000", [run], (None, None))
    assert info is not None
    merge.clean()
    assert sorted(f"{folder}/{name}" for name in location.names(folder)) == sorted(info.files)
