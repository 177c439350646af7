"""The papers' tables and figures: the cells as printed, and what is derived from measurements."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.data.zipf import Shifting, hashed
from benchmarks.harness.outcome import Context
from benchmarks.harness.records import plain
from benchmarks.papers.joins import hotspot, paper_skip_lists, skews, zipf_shares
from benchmarks.papers.joins.linked import LinkedSkipList
from benchmarks.papers.joins.skews import PARTITIONS, SPLIT, WAYS
from benchmarks.papers.scheduling.buffered import Buffered
from benchmarks.papers.scheduling.operators import Operator, demands
from benchmarks.papers.scheduling.steering import progress
from bsjoin.index import SkipList
from scheduling import Resources, Worker
from scheduling.simulate import Arrivals


def test_table_5_is_reached_cell_by_cell(tmp_path: Path) -> None:
    found = zipf_shares.run(Context(True, tmp_path, tmp_path, say=lambda _: None))
    assert [figure.bound for figure in found.figures] == [0.02, 0.2]
    assert all(figure.reached for figure in found.figures)
    assert len(found.tables[0].rows) == 24
    json.dumps([plain(found.figures), found.measured])


def test_hot_keys_that_are_split_even_the_load_at_every_exponent() -> None:
    found = {}
    for z in (0.98, 1.16):
        stream = Shifting(100_000, z, 200_000, seed=1)
        cycles = [hashed(stream.cycle(index)) for index in range(2)]
        found[z] = {n: {way: skews.run(way, n, cycles)[1] for way in WAYS} for n in PARTITIONS}
    figures = {one.name: one for one in hotspot.figures({"skews": found})}
    assert figures["DS by hash, Z 1.16 / Z 0.98"].reached
    assert figures[f"DS, {SPLIT} / hash, any Z"].reached
    assert figures[f"largest share over the mean, {SPLIT}, any Z"].reached
    assert figures["DS of the first adapted cycle, z 1.16, 6 partitions"].reached
    for one in found[1.16][6].values():
        assert sum(one["shares"]) == pytest.approx(6)


values = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))


def textbook(heights: list[int], stored: list[int], probe: int) -> tuple[int, int, int]:
    """Search node by node: the row found, the comparisons, and those with unread nodes."""
    row, read, compared = -1, set(), 0
    for lane in range(max(heights, default=0) - 1, -1, -1):
        while True:
            ahead = next((i for i in range(row + 1, len(stored)) if heights[i] > lane), None)
            if ahead is None:
                break
            compared += 1
            read.add(ahead)
            if stored[ahead] >= probe:
                break
            row = ahead
    return row + 1, compared, len(read)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, max_size=60), st.lists(values, max_size=10), st.integers(0, 9))
def test_linked_lists_find_the_rows_of_the_production_search_and_count_as_the_textbook(
    stored: list[int], others: list[int], seed: int
) -> None:
    ordered, probes = np.array(sorted(stored), np.int64), np.array([*stored, *others], np.int64)
    for one in (LinkedSkipList.fixed(ordered), LinkedSkipList.random(ordered, seed)):
        for side, bound in (("left", bisect_left), ("right", bisect_right)):
            right = [bound(sorted(stored), probe) for probe in probes.tolist()]
            assert one.search(probes, side).tolist() == right
            assert SkipList(ordered).search(probes, side).tolist() == right
        heights = [sum(i in nodes for nodes in one.nodes) for i in range(len(ordered))]
        expected = [textbook(heights, ordered.tolist(), probe) for probe in probes.tolist()]
        found, read = one.counted(probes)
        _, compared = one.counted(probes, repeats=True)
        assert list(zip(found, compared, read, strict=True)) == expected


def test_fixed_levels_save_a_quarter_of_the_comparisons_and_never_vary() -> None:
    found = {size: paper_skip_lists.measure(size, seed=1) for size in (1 << 12, 1 << 16)}
    assert [figure.bound for figure in paper_skip_lists.figures(found)] == [1.33, 0.0]
    assert all(figure.reached for figure in paper_skip_lists.figures(found))
    rows = paper_skip_lists.table(found).rows
    assert [row[0] for row in rows] == ["2^12", "2^16"]
    assert {len(row) for row in rows} == {len(paper_skip_lists.table(found).columns)}


def test_a_full_buffer_drops_what_comes_beyond_and_a_change_keeps_it_still() -> None:
    job = demands([Operator("a", 1, 0.01)])
    workers = [Worker("e0", Resources(1, 1024), 1)]
    query = Buffered(job, workers, Arrivals(200), buffer=150, limit=50)
    query.run(100.0)
    assert query.lost > 0
    assert query.offset == pytest.approx(sum(one.rows for one in query.batches) + query.lost)
    assert query.arrived(query.batches[-1].start) <= query.offset + 150 + 200
    told = progress(query)[-1]
    assert told["numInputRows"] == 50
    assert told["sources"][0]["latestOffset"]["n"] > told["sources"][0]["endOffset"]["n"]
    query.pause(7.0)
    query.run(130.0)
    assert not any(100 < one.start < 107 for one in query.batches)
    assert any(one.start < 109 for one in query.batches if one.start > 100)
    large = Buffered(job, workers, Arrivals(50), buffer=1e6)
    large.run(100.0)
    assert large.lost == 0
