"""The counted search: it finds the rows of the production search, and counts as a linked list."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.papers.joins.linked import LinkedSkipList
from bsjoin.index import SkipList

LOW, HIGH = -(2**63), 2**63 - 1
values = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]),
    st.integers(LOW, HIGH),
)


def ints(numbers: list[int]) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def check(one: LinkedSkipList) -> None:
    assert (one.nodes[0] == np.arange(len(one.values))).all()
    assert len(one.below) == len(one.nodes) - 1
    for lower, upper, below in zip(one.nodes, one.nodes[1:], one.below, strict=False):
        assert upper.size
        assert (upper[1:] > upper[:-1]).all()
        assert (lower.take(below) == upper).all()


@settings(deadline=None)
@given(st.lists(values, max_size=120), st.lists(values, max_size=20), st.integers(0, 9))
def test_linked_lists_find_the_rows_of_the_production_search(
    stored: list[int], others: list[int], seed: int
) -> None:
    ordered, probes = ints(sorted(stored)), ints([*stored, *others])
    lists = LinkedSkipList.fixed(ordered), LinkedSkipList.random(ordered, seed)
    for side, bound in (("left", bisect_left), ("right", bisect_right)):
        right = SkipList(ordered).search(probes, side).tolist()
        assert right == [bound(sorted(stored), probe) for probe in probes.tolist()]
        for one in lists:
            check(one)
            assert one.search(probes, side).tolist() == right


def textbook(heights: list[int], stored: list[int], probe: int) -> tuple[int, int]:
    """Search node by node: the row found, and the nodes that are compared with."""
    row, read = -1, set()
    for lane in range(max(heights, default=0) - 1, -1, -1):
        while True:
            ahead = next((i for i in range(row + 1, len(stored)) if heights[i] > lane), None)
            if ahead is None:
                break
            read.add(ahead)
            if stored[ahead] >= probe:
                break
            row = ahead
    return row + 1, len(read)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-20, 20), max_size=50), st.lists(st.integers(-22, 22), max_size=10))
def test_comparisons_are_counted_as_in_the_search_of_a_linked_list(
    stored: list[int], probes: list[int]
) -> None:
    ordered = sorted(stored)
    for one in (LinkedSkipList.fixed(ints(ordered)), LinkedSkipList.random(ints(ordered), 5)):
        heights = [sum(i in nodes for nodes in one.nodes) for i in range(len(ordered))]
        expected = [textbook(heights, ordered, probe) for probe in probes]
        found, read = one.counted(ints(probes))
        assert list(zip(found, read, strict=True)) == expected


@pytest.mark.parametrize("exponent", [16, 20])
def test_fixed_levels_save_a_quarter_of_the_comparisons_and_never_vary(exponent: int) -> None:
    stored = np.arange(1 << exponent)
    probes = np.random.default_rng(exponent).integers(0, 1 << exponent, 10_000)
    fixed = [LinkedSkipList.fixed(stored.copy()).counted(probes)[1] for _ in range(3)]
    drawn = [LinkedSkipList.random(stored, seed).counted(probes)[1].mean() for seed in range(5)]
    assert all((counts == fixed[0]).all() for counts in fixed)
    assert np.var(drawn) > 0
    assert fixed[0].mean() <= 0.75 * np.mean(drawn)
