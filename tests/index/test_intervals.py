"""Intervals, the tree of maxima below them, and the pairs that come out: against nested loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from index_slices import run_lengths
from numpy.typing import NDArray

from bsjoin.index import IntervalIndex, pairs
from bsjoin.index.range_max_tree import RangeMaxTree
from bsjoin.index.scan import is_dense, scanned
from tests.fuzz.exact import is_within, overlaps

Int64s = NDArray[np.int64]
Slices = Iterable[tuple[Int64s, Int64s]]
Interval = tuple[int, int, int | None]
"""A group, a start, and an end; without an end it is open-ended."""
LOW, HIGH = -(2**63), 2**63 - 1
CLOSED: list[Any] = ["both", "left", "right", "neither"]

value = st.one_of(
    st.integers(-6, 6),
    st.integers(0, 60),
    st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]),
)
interval = st.tuples(st.integers(0, 2), value, st.one_of(st.none(), value))
short = st.builds(
    lambda group, start, length: (group, start, start + length),
    st.integers(0, 2),
    st.integers(-50, 50),
    st.integers(0, 5),
)
intervals = st.lists(st.one_of(interval, short), max_size=90)
closed_ends = st.sampled_from(CLOSED)
sizes = st.sampled_from([1, 3, 8, 9, 50, 10**6])


def check_slices(slices: Slices, expected: list[tuple[int, int]], max_pairs: int) -> None:
    found = list(slices)
    assert [pair for part in found for pair in zip(*part, strict=True)] == expected
    assert all(0 < len(part[0]) <= max_pairs for part in found)
    assert all(part[0].dtype == part[1].dtype == np.int64 for part in found)


def ints(numbers: Iterable[int | None]) -> Int64s:
    return np.array([0 if number is None else number for number in numbers], np.int64)


def build(rows: list[Interval], closed: Any) -> tuple[IntervalIndex, list[Interval], Int64s]:
    """The index, its rows in order, and where each of the three groups begins and ends."""
    ordered = sorted(rows, key=lambda it: it[:2])
    edges = np.searchsorted([group for group, _, _ in ordered], np.arange(4))
    starts = edges[:-1][np.diff(edges) > 0] if rows else None
    index = IntervalIndex.build(
        ints(start for _, start, _ in ordered),
        ints(end for _, _, end in ordered),
        starts,
        closed=closed,
        missing_ends=np.array([end is None for _, _, end in ordered], np.bool_),
    )
    index.validate(run_lengths(len(rows), starts))
    return index, ordered, edges


def behind_all(it: Interval, closed: str) -> bool:
    """Whether an interval without its first point begins at the greatest value: it is empty."""
    return closed in ("right", "neither") and it[1] == HIGH


@settings(deadline=None)
@given(intervals, st.lists(st.tuples(st.integers(0, 2), value), max_size=50), closed_ends, sizes)
def test_a_point_finds_the_intervals_that_contain_it(
    rows: list[Interval], probes: list[tuple[int, int]], closed: Any, max_pairs: int
) -> None:
    index, ordered, edges = build(rows, closed)
    groups = ints(group for group, _ in probes)
    asked = ints(point for _, point in probes), edges[groups], edges[groups + 1]
    expected = [
        (position, row)
        for position, (group, point) in enumerate(probes)
        for row, it in enumerate(ordered)
        if it[0] == group and is_within([point], it[1:], closed)
    ]
    check_slices(index.stab(*asked, max_pairs=max_pairs), expected, max_pairs)
    matched = {position for position, _ in expected}
    assert index.stabs_any(*asked).tolist() == [n in matched for n in range(len(probes))]


@settings(deadline=None)
@given(intervals, st.lists(st.one_of(interval, short), max_size=50), closed_ends, sizes)
def test_an_interval_finds_those_that_share_a_point_with_it(
    rows: list[Interval], probes: list[Interval], closed: Any, max_pairs: int
) -> None:
    index, ordered, edges = build(rows, closed)
    expected = [
        (position, row)
        for position, probe in enumerate(probes)
        for row, it in enumerate(ordered)
        if it[0] == probe[0]
        and overlaps(probe[1:], it[1:], closed)
        and not behind_all(it, closed)
        and not behind_all(probe, closed)
    ]
    groups = ints(group for group, _, _ in probes)
    asked = (
        ints(start for _, start, _ in probes),
        ints(end for _, _, end in probes),
        edges[groups],
        edges[groups + 1],
    )
    missing = np.array([end is None for _, _, end in probes], np.bool_)
    slices = index.overlaps(*asked, missing_ends=missing, max_pairs=max_pairs)
    check_slices(slices, expected, max_pairs)
    matched = {position for position, _ in expected}
    found = index.overlaps_any(*asked, missing_ends=missing)
    assert found.tolist() == [n in matched for n in range(len(probes))]


class CountedTree(np.ndarray[Any, np.dtype[np.int64]]):
    """An array that notes how many lines of eight children, that is nodes, are taken from it."""

    nodes: list[int] = []  # noqa: RUF012 - shared by all views

    def take(self, indices: Any, axis: int | None = None) -> Any:  # type: ignore[override]
        if axis == 0:
            self.nodes.append(len(indices))
        return np.asarray(self).take(indices, axis)


def test_visits_grow_with_the_answers_and_the_levels_only() -> None:
    size, levels = 1 << 15, 5
    starts, same = np.arange(size), np.zeros(size, np.int64)
    never = np.zeros(size, np.bool_)
    shapes = {
        "nested": (starts, 3 * size - starts, never),
        "duplicates": (same + 5, same + 9, never),
        "stairs": (starts, starts + 3, never),
        "empty": (starts, starts, never),
        "late": (starts, np.where(starts % 1000 == 7, 4 * size, starts + 1), never),
        "open": (starts, same, starts % 5000 == 3),
    }
    for shape, (begins, ends, missing) in shapes.items():
        index = IntervalIndex.build(begins, ends, missing_ends=missing)
        tree = index.tree.view(CountedTree)
        index = replace(index, tree=tree)
        for point in (*range(-2, 12), *np.random.default_rng(2).integers(0, 3 * size, 90)):
            tree.nodes.clear()
            answers = sum(len(rows) for _, rows in index.stab(np.array([point]), max_pairs=5000))
            # A dense range is read row by row instead of by nodes.
            most = 2 * levels + min(answers * levels, size // 7 + levels)
            assert sum(tree.nodes) <= most, shape


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 9), st.sampled_from([LOW, LOW + 1, HIGH])), max_size=200),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), value), max_size=30),
    st.integers(1, 100),
)
def test_the_tree_and_a_scan_find_the_rows_that_reach_their_threshold(
    stored: list[int], probes: list[tuple[int, int, int]], max_pairs: int
) -> None:
    values = np.array(stored, np.int64)
    tree = RangeMaxTree.build(values)
    tree.validate()
    probes = [(min(a, len(stored)), min(b, len(stored)), least) for a, b, least in probes]
    firsts, stops, least = (ints(probe[i] for probe in probes) for i in range(3))
    expected = [
        (position, row)
        for position, (first, stop, least) in enumerate(probes)
        for row in range(first, stop)
        if stored[row] >= least
    ]
    check_slices(tree.pairs(firsts, stops, least, max_pairs), expected, max_pairs)
    check_slices(scanned(values, firsts, stops, least, max_pairs), expected, max_pairs)
    matched = {position for position, _ in expected}
    found = tree.any(firsts, stops, least)
    assert found.tolist() == [n in matched for n in range(len(probes))]
    is_dense(values, firsts, stops, least)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(-3, 12)), max_size=60),
    st.integers(1, 30),
)
def test_ranges_of_rows_become_pairs_each_once_and_in_order(
    probes: list[tuple[int, int]], max_pairs: int
) -> None:
    firsts = ints(first for first, _ in probes)
    stops = firsts + ints(count for _, count in probes)
    expected = [(p, row) for p, (first, n) in enumerate(probes) for row in range(first, first + n)]
    slices = list(pairs(firsts, stops, max_pairs))
    check_slices(slices, expected, max_pairs)
    assert all(len(part[0]) == max_pairs for part in slices[:-1])
