"""Intervals, the tree of maxima below them, and the pairs that come out: against nested loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bsjoin.index import IntervalIndex, pairs
from bsjoin.index.range_max_tree import RangeMaxTree
from bsjoin.index.scan import is_dense, scanned

Int64s = NDArray[np.int64]
Slices = Iterable[tuple[Int64s, Int64s]]
LOW, HIGH = -(2**63), 2**63 - 1
value = st.one_of(
    st.integers(-6, 6),
    st.integers(0, 60),
    st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]),
)


def check_slices(slices: Slices, expected: list[tuple[int, int]], max_pairs: int) -> None:
    found = list(slices)
    assert [pair for part in found for pair in zip(*part, strict=True)] == expected
    assert all(0 < len(part[0]) <= max_pairs for part in found)
    assert all(part[0].dtype == part[1].dtype == np.int64 for part in found)


def ints(numbers: Iterable[int | None]) -> Int64s:
    return np.array([0 if number is None else number for number in numbers], np.int64)


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
            asked = index.stabbed(np.array([point]), np.array([0]), np.array([size]))
            answers = sum(len(rows) for _, rows in index.pairs(asked, 5000))
            # A dense range is read row by row instead of by nodes.
            most = 2 * levels + min(answers * levels, size // 7 + levels)
            assert sum(tree.nodes) <= most, shape


@settings(max_examples=15, deadline=None)
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
