"""Runs become segments, with every row once: those with an index, and those of rows without a key.

Rows that match nothing are stored beside the index; no look-up finds them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.errors import DamagedTableError
from bsjoin.index import GREATEST, LEAST
from bsjoin.storage import (
    RUN,
    Gathering,
    Merge,
    RunInfo,
    RunRows,
    Segment,
    SegmentForm,
    StorageLocation,
    builds,
    hash_ranges,
    run_groups,
    write_run,
    write_segment,
)
from bsjoin.storage import runs as runs_module
from bsjoin.storage.unindexed import unindexed_column

SCHEMA = pa.schema([("k", pa.string()), ("raw", pa.binary()), ("v", pa.list_(pa.int64()))])
FIELD = pa.field("v", pa.string())
HASHES = st.one_of(
    st.integers(-3, 3), st.sampled_from([LEAST, GREATEST]), st.integers(LEAST, GREATEST)
)
KEYS = st.tuples(HASHES, st.sampled_from(["", "a", "b", "ab"]), st.sampled_from([b"", b"\0"]))
PARTS = st.lists(st.lists(KEYS, min_size=1, max_size=30), min_size=1, max_size=4)


def run_of(location: StorageLocation, name: str, hashes: Sequence[int], rows: pa.Table) -> RunInfo:
    """A run of some rows, whose metadata have been sent as JSON."""
    run = write_run(location, name, rows.add_column(0, "hash of the key", [pa.array(hashes)]))
    return RunInfo.from_json(json.loads(json.dumps(run.to_json())))


@settings(max_examples=3, deadline=None)
@given(PARTS, st.sampled_from([1, 2, 7, 100]), st.sampled_from([1, 100, 1 << 10, 1 << 20]))
def test_every_row_is_in_one_segment(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[int, str, bytes]]],
    block_rows: int,
    segment_bytes: int,
) -> None:
    location = StorageLocation.of(tmp_path_factory.mktemp("merge"))
    numbers = itertools.count()
    stored = [[(*key, [n] * (n % 3)) for key, n in zip(p, numbers, strict=False)] for p in parts]
    merge = Merge(builds.begin(location), SCHEMA, SegmentForm(2))
    tables, runs = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_BLOCK_ROWS", block_rows)
        for number, part in enumerate(stored):
            hashes, *columns = map(list, zip(*part, strict=True))
            tables.append(pa.table(columns, SCHEMA))
            runs.append(run_of(location, f"data/x/{number}{RUN}", hashes, tables[-1]))
    ranges = hash_ranges(runs, segment_bytes)
    infos = [merge.segment(f"{n:04d}", runs, range_) for n, range_ in enumerate(ranges)]
    segments = [Segment(location, info, 2) for info in infos if info is not None]
    found: list[tuple[Any, ...]] = []
    for segment in segments:
        columns = [segment.column(number).to_pylist() for number in range(3)]
        found += zip(segment.index.hashes[:-1].tolist(), *columns, strict=True)
    every = [*itertools.chain(*stored)]
    assert sorted(found) == sorted(every)
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    # Rows with one key are neighbours, and stay in the order of the runs and of the rows in each.
    grouped = [key for key, _ in itertools.groupby(row[:3] for row in found)]
    assert len(grouped) == len(set(grouped))
    for key in grouped:
        same = [row for row in found if row[:3] == key]
        assert same == [row for row in every if row[:3] == key]
    # No hash is in two segments.
    bounds = [(int(s.index.hashes[0]), s.last_hash) for s in segments]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))
    # The runs together make the files that all rows make.
    hashes = np.array([row[0] for row in every], np.int64)
    whole = write_segment(location, "data/whole", hashes, pa.concat_tables(tables), SegmentForm(2))
    merged = RunRows(location, runs, SCHEMA)
    again = write_segment(location, "data/merged", merged.hashes, merged, SegmentForm(2))
    assert again == replace(whole, name="data/merged")


def test_what_failed_tasks_have_left_goes_with_the_runs(location: StorageLocation) -> None:
    merge = Merge(builds.begin(location), SCHEMA, SegmentForm(2))
    folder, rows = merge.build.folder, pa.table([["a"], [b""], [[1]]], SCHEMA)
    run, _ = (run_of(location, f"{folder}/{number}{RUN}", [5], rows) for number in (0, 9))
    info = merge.segment("0000", [run], (None, None))
    merge.segment("0000-9", [run], (None, None))
    merge.clean(info.files)
    assert sorted(f"{folder}/{name}" for name in location.names(folder)) == sorted(info.files)


def test_a_damaged_run_is_refused(location: StorageLocation) -> None:
    rows = pa.table({"v": ["one", "two", "three"]})
    run = run_of(location, "data/x/0.run", [3, 1, 2], rows)
    for dtype in (pa.int64(), pa.list_(pa.string()), pa.large_string()):
        with pytest.raises(DamagedTableError):
            RunRows(location, [run], pa.schema([("v", dtype)])).column(0)
    path = Path(location.url, run.name)
    content = path.read_bytes()
    for damaged in (content[:-8], content[:100] + b"?" + content[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(DamagedTableError, match=run.name):
            RunRows(location, [run], rows.schema).column(0)
    path.unlink()
    with pytest.raises(DamagedTableError, match="missing"):
        RunRows(location, [run], rows.schema)


# Rows that match nothing


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.sampled_from([1, 5_000, 1 << 30]))
def test_every_row_of_the_runs_is_in_one_segment(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int
) -> None:
    location = StorageLocation.of(tmp_path_factory.mktemp("gather"))
    build, numbers = builds.begin(location), itertools.count()
    wanted = [[f"row {next(numbers)}" for _ in range(size)] for size in sizes]
    runs = [
        run_of(location, f"{build.folder}/{n}{RUN}", range(len(part)), pa.table({"v": part}))
        for n, part in enumerate(wanted)
    ]
    groups = run_groups(runs, limit)
    assert list(itertools.chain(*groups)) == runs
    taken = [[sum(run.block_bytes) for run in group] for group in groups]
    assert all(sum(group) <= limit or len(group) == 1 for group in taken)
    # No two neighbours would have fitted together.
    assert all(sum(a) + b[0] > limit for a, b in itertools.pairwise(taken))
    gathering = Gathering(build, pa.schema([FIELD]))
    infos = [gathering.segment(f"u{n:04d}", group) for n, group in enumerate(groups)]
    found = [unindexed_column(location, info, 0, FIELD).to_pylist() for info in infos]
    assert sorted(itertools.chain(*found)) == sorted(itertools.chain(*wanted))
    assert [info.rows for info in infos] == [len(some) for some in found]
    # A segment has a gibibyte at most, whatever is asked for.
    half = RunInfo("data/x/0.run", (1,), (0,), 0, ((1 << 29,),), (("",),))
    assert [len(group) for group in run_groups([half] * 5, 1 << 40)] == [2, 2, 1]


def test_the_same_rows_in_another_order_make_the_same_files(location: StorageLocation) -> None:
    rows = [(hash_ * 7919 % 101, f"row {hash_}") for hash_ in range(50)]
    found = []
    for number, order in enumerate((rows, rows[::-1], rows[20:] + rows[:20])):
        build, runs = builds.begin(location), []
        for i, half in enumerate((order[:30], order[30:])):
            hashes, texts = map(list, zip(*half, strict=True))
            part = pa.table({"v": texts})
            runs.append(run_of(location, f"{build.folder}/{i}{RUN}", hashes, part))
        found.append(Gathering(build, pa.schema([FIELD])).segment(f"u{number:04d}", runs))
    assert len({info.checksums for info in found}) == 1
