"""The skip lists and the bounds of sorted rows against bisect, slice by slice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_slices import run_lengths
from numpy.typing import NDArray

from bsjoin.index import RandomSkipList, SkipList, SortedRows, level, levels

Int64s = NDArray[np.int64]
LOW, HIGH = -(2**63), 2**63 - 1
SPECIAL = [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]
PAPER = [1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3]
SIZES = [0, 1, 2, 7, 49, 50, 51, 100]

values = st.one_of(
    st.integers(-5, 5), st.sampled_from(SPECIAL), st.integers(LOW, HIGH), st.integers(0, 10**6)
)
groups = st.lists(st.lists(values, max_size=60), min_size=1, max_size=5)


def ints(numbers: list[int]) -> Int64s:
    return np.array(numbers, np.int64)


def laid_out(parts: list[list[int]]) -> tuple[Int64s, Int64s]:
    """The rows of all groups, and where each group begins, and the last one ends."""
    edges = np.cumsum([0, *map(len, parts)])
    return ints([value for part in parts for value in sorted(part)]), edges


def bound(part: list[int], probe: int, side: str) -> int:
    return (bisect_left if side == "left" else bisect_right)(sorted(part), probe)


def test_the_levels_are_those_of_the_paper() -> None:
    assert [level(position) + 1 for position in range(12)] == PAPER
    assert (levels(12) + 1).tolist() == PAPER
    assert levels(0).tolist() == []
    with pytest.raises(ValueError, match="0 or more, not -1"):
        level(-1)


@given(st.integers(0, 2000))
def test_the_levels_of_an_array_are_those_of_its_positions(count: int) -> None:
    assert levels(count).tolist() == [level(position) for position in range(count)]


@settings(deadline=None)
@given(groups, st.lists(values, max_size=20), st.sampled_from(["left", "right"]))
def test_every_search_finds_the_bounds_of_its_slice(
    parts: list[list[int]], others: list[int], side: str
) -> None:
    stored, edges = laid_out(parts)
    asked = [
        (number, probe)
        for number in range(len(parts))
        for probe in [*sorted({v for part in parts for v in part})[:40], *others]
    ]
    probes = ints([probe for _, probe in asked])
    chosen = np.array([number for number, _ in asked], np.int64)
    lows, highs = edges[chosen], edges[chosen + 1]
    expected = [int(edges[n]) + bound(parts[n], probe, side) for n, probe in asked]

    starts = edges[:-1][np.diff(edges) > 0]
    rows = SortedRows.build(stored, starts if len(stored) else None)
    rows.validate(run_lengths(len(stored), starts if len(stored) else None))
    for structure in (rows, SkipList(stored), RandomSkipList.build(stored, 1), rows.skip_list):
        assert structure.search(probes, side, lows, highs).tolist() == expected


@settings(deadline=None)
@given(st.lists(values, max_size=120), st.lists(values, max_size=20), st.integers(0, 9))
def test_without_slices_all_rows_are_one(stored: list[int], others: list[int], seed: int) -> None:
    ordered = ints(sorted(stored))
    probes = ints([*stored, *others])
    rows, fixed = SortedRows.build(ordered), SkipList(ordered)
    thrown = RandomSkipList.build(ordered, seed)
    rows.validate(run_lengths(len(stored)))
    for structure in (rows, fixed, thrown):
        if structure is not rows:
            structure._check()
        assert structure.search(probes).tolist() == [bound(stored, p, "left") for p in probes]
        assert structure.search(probes, "right").tolist() == [
            bound(stored, p, "right") for p in probes
        ]


@settings(deadline=None)
@given(groups, values, values, st.sampled_from(["both", "left", "right", "neither"]))
def test_a_band_is_the_rows_between(
    parts: list[list[int]], lower: int, upper: int, closed: str
) -> None:
    stored, edges = laid_out(parts)
    rows = SortedRows.build(stored, edges[:-1][np.diff(edges) > 0] if len(stored) else None)
    many = len(parts)
    firsts, stops = rows.band(
        np.full(many, lower),
        np.full(many, upper),
        closed,
        edges[:-1],
        edges[1:],
    )
    for part, low, first, stop in zip(parts, edges[:-1], firsts, stops, strict=True):
        inside = [
            value
            for value in sorted(part)
            if (lower <= value if closed in ("both", "left") else lower < value)
            and (value <= upper if closed in ("both", "right") else value < upper)
        ]
        assert low <= first <= stop <= low + len(part)
        assert stored[first:stop].tolist() == inside


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", SIZES)
def test_sizes_of_rows_and_batches(size: int, batch: int) -> None:
    random = np.random.default_rng(size * 1000 + batch)
    stored = np.sort(random.integers(0, 50, size))
    probes = random.integers(-2, 52, batch)
    for side in ("left", "right"):
        expected = np.searchsorted(stored, probes, side).tolist()
        for structure in (
            SortedRows.build(stored),
            SkipList(stored),
            RandomSkipList.build(stored, 3),
        ):
            assert structure.search(probes, side).tolist() == expected


@pytest.mark.parametrize("crowd", [lambda x: 100 * x**9, lambda x: np.floor(x * 20), np.exp2])
def test_values_that_crowd_into_few_buckets(crowd) -> None:
    random = np.random.default_rng(7)
    stored = np.sort(crowd(random.random(30_000) * 50).astype(np.int64))
    stored[0] = LOW
    probes = np.concatenate([random.choice(stored, 5000), random.choice(stored, 5000) + 1])
    rows = SortedRows.build(stored)
    rows.validate(run_lengths(len(stored)))
    for side in ("left", "right"):
        expected = np.searchsorted(stored, probes, side)
        assert (rows.search(probes, side) == expected).all()


def test_a_search_compares_as_often_as_the_ideal_list_has_levels() -> None:
    # The paper's figure 8: the nodes 8, then 12, and the value is found. A bound goes on down,
    # since equal values may stand before: 10, then 11.
    twelve = SkipList(np.arange(1, 13))
    found, counts = twelve.search(np.array([12]), count=True)
    assert found.tolist() == [11]
    assert counts.tolist() == [4]
    full = SkipList(np.arange(2**10 - 1))
    found, counts = full.search(np.arange(2**10 - 1), count=True)
    assert (found == np.arange(2**10 - 1)).all()
    assert (counts == 10).all()
    _, repeated = full.search(np.arange(2**10 - 1), count=True, repeats=True)
    assert counts.mean() < repeated.mean() < 1.5 * 10


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
@given(st.lists(st.integers(-20, 20), max_size=50), st.lists(st.integers(-22, 22), max_size=10))
def test_comparisons_are_counted_as_in_the_search_of_a_linked_list(
    stored: list[int], probes: list[int]
) -> None:
    ordered = sorted(stored)
    thrown = RandomSkipList.build(ints(ordered), 5)
    tossed = [sum(i in nodes for nodes in thrown.nodes) for i in range(len(ordered))]
    fixed = (levels(len(ordered)) + 1).tolist()
    for structure, heights in ((SkipList(ints(ordered)), fixed), (thrown, tossed)):
        expected = [textbook(heights, ordered, probe) for probe in probes]
        found, read = structure.search(ints(probes), count=True)
        _, compared = structure.search(ints(probes), count=True, repeats=True)
        assert list(zip(found, compared, read, strict=True)) == expected


@pytest.mark.parametrize("exponent", [16, 18, 20])
def test_fixed_levels_save_a_quarter_of_the_comparisons_and_never_vary(exponent: int) -> None:
    size = 1 << exponent
    stored = np.arange(size, dtype=np.int64)
    probes = np.random.default_rng(exponent).integers(0, size, 10_000)
    fixed = [SkipList(stored.copy()).search(probes, count=True)[1] for _ in range(3)]
    thrown = [
        RandomSkipList.build(stored, seed).search(probes, count=True)[1].mean() for seed in range(5)
    ]
    assert all((counts == fixed[0]).all() for counts in fixed)
    assert np.var(thrown) > 0
    assert fixed[0].mean() <= 0.75 * np.mean(thrown)


def test_too_many_rows_are_refused() -> None:
    zeros = np.broadcast_to(np.zeros(1, np.int64), 2**31)
    with pytest.raises(ValueError, match="holds up to 2147483646 rows, not 2147483648"):
        SortedRows.build(zeros)
