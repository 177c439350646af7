"""The skip list and the bounds of sorted rows against bisect, slice by slice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_slices import run_lengths
from numpy.typing import NDArray

from bsjoin.index import SkipList, SortedRows, levels

Int64s = NDArray[np.int64]
LOW, HIGH = -(2**63), 2**63 - 1
SPECIAL = [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]
PAPER = [1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3]
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
    assert (levels(12) + 1).tolist() == PAPER
    assert levels(0).tolist() == []


def test_levels_are_those_of_formula_4_as_printed() -> None:
    def printed(i: int) -> int:
        power = (i + 1).bit_length() - 1
        return power if i + 1 == 2**power else printed((i + 1) % 2**power - 1)

    assert levels(3000).tolist() == [printed(i) for i in range(3000)]


@given(st.integers(0, 2000))
def test_the_levels_of_an_array_are_those_of_its_positions(count: int) -> None:
    ends = [format(position + 1, "b") for position in range(count)]
    assert levels(count).tolist() == [len(end) - len(end.rstrip("0")) for end in ends]


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
    for structure in (rows, SkipList(stored), rows.skip_list):
        assert structure.search(probes, side, lows, highs).tolist() == expected


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


def test_too_many_rows_are_refused() -> None:
    zeros = np.broadcast_to(np.zeros(1, np.int64), 2**31)
    with pytest.raises(ValueError, match="holds up to 2147483646 rows, not 2147483648"):
        SortedRows.build(zeros)
