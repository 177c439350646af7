"""Points of ranges: codes keep the order of values, searches find what bisect and loops find."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bsjoin.index import (
    GREATEST,
    LEAST,
    SkipList,
    SortedRows,
    add_saturated,
    add_wide,
    codes,
    floats,
    levels,
    reach,
)

Int64s = NDArray[np.int64]
LARGEST = float(np.finfo(np.float64).max)
SPECIAL = [LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST]
SPECIAL_FLOATS = [
    math.inf, -math.inf, math.nan, -math.nan, -0.0, 0.0, LARGEST, -LARGEST, 5e-324, 1.5,
]  # fmt: skip

any_int = st.one_of(st.integers(-9, 9), st.sampled_from(SPECIAL), st.integers(LEAST, GREATEST))
any_float = st.one_of(
    st.integers(-18, 18).map(lambda n: n / 2), st.sampled_from(SPECIAL_FLOATS), st.floats()
)
groups = st.lists(st.lists(any_int, max_size=60), min_size=1, max_size=5)


def run_lengths(rows: int, starts: NDArray[np.int64] | None = None) -> NDArray[np.int32]:
    """How many rows follow in the slice of each row, this one included."""
    lows = np.zeros(min(rows, 1), np.int64) if starts is None else starts
    sizes = np.diff(lows, append=rows)
    return (np.repeat(lows + sizes, sizes) - np.arange(rows)).astype(np.int32)


def rank(value: float) -> tuple[bool, float]:
    """Spark's order: NaN above all."""
    return (True, 0) if math.isnan(value) else (False, value)


def same_order(encoded: list[int], values: list[Any]) -> bool:
    return all(
        (a < b) == (rank(x) < rank(y)) and (a == b) == (rank(x) == rank(y))
        for (a, x), (b, y) in product(zip(encoded, values, strict=True), repeat=2)
    )


@given(st.lists(any_float, max_size=20))
def test_doubles_in_the_order_of_spark(values: list[float]) -> None:
    bits = np.array([0x7FF8 << 48, (0xFFF8 << 48) - 2**64, (0x7FF0 << 48) + 1], np.int64)
    values = [*values, *bits.view(np.float64).tolist()]  # NaN of every kind is one value
    encoded = codes(np.array(values, np.float64))
    assert same_order(encoded.tolist(), values)
    assert [rank(value) for value in floats(encoded).tolist()] == [rank(value) for value in values]


def test_what_is_in_reach() -> None:
    least, greatest = reach(np.array([0, LEAST, GREATEST]), 5)
    assert least.tolist() == [-5, LEAST, GREATEST - 5]
    assert greatest.tolist() == [5, LEAST + 5, GREATEST]
    assert [ends.tolist() for ends in reach(np.array([7]))] == [[LEAST], [GREATEST]]
    inf = math.inf
    least, greatest = reach(np.array([1.5, inf, -inf, LARGEST, math.nan]), 2)
    assert floats(least).tolist()[:4] == [-0.5, inf, -inf, LARGEST]
    assert floats(greatest).tolist()[:4] == [3.5, inf, -inf, LARGEST]
    assert (least[4], greatest[4]) == (GREATEST, LEAST)
    least, greatest = reach(np.array([1.5, math.nan]))
    assert (floats(least)[0], floats(greatest)[0]) == (-inf, inf)
    assert least[1] > greatest[1]
    with pytest.raises(ValueError, match="a tolerance is 0 or more, not -1"):
        reach(np.arange(3), -1)


@given(st.lists(any_int, max_size=9), st.one_of(any_int, st.integers(-(10**40), 10**40)))
@example([0], 10**900)  # which pieces of 64 bits would never come to
@example([0], -(10**900))
def test_a_width_of_any_size_moves_no_further_than_the_limits(
    values: list[int], width: int
) -> None:
    moved = [max(LEAST, min(GREATEST, value + width)) for value in values]
    assert add_saturated(np.array(values, np.int64), width).tolist() == moved
    least, most = -(1 << 127), (1 << 127) - 1
    ends = [*values, least, most]
    words = np.array([[(n & (1 << 64) - 1) - (n >> 63 & 1) * 2**64, n >> 64] for n in ends])
    wide = [max(least, min(most, value + width)) for value in ends]
    found = add_wide(words, width).tolist()
    assert [high << 64 | low & (1 << 64) - 1 for low, high in found] == wide


def test_the_levels_are_those_of_formula_4_as_printed() -> None:
    def printed(i: int) -> int:
        power = (i + 1).bit_length() - 1
        return power if i + 1 == 2**power else printed((i + 1) % 2**power - 1)

    assert (levels(12) + 1).tolist() == [1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3]
    assert levels(3000).tolist() == [printed(i) for i in range(3000)]
    assert levels(0).tolist() == []


def laid_out(parts: list[list[int]]) -> tuple[Int64s, Int64s, Int64s | None]:
    """The rows of all groups, the groups' edges, and where those with rows begin."""
    edges = np.cumsum([0, *map(len, parts)])
    rows = np.array([value for part in parts for value in sorted(part)], np.int64)
    return rows, edges, edges[:-1][np.diff(edges) > 0] if len(rows) else None


@settings(max_examples=15, deadline=None)
@given(groups, st.lists(any_int, max_size=20), st.sampled_from(["left", "right"]))
def test_every_search_finds_the_bounds_of_its_slice(
    parts: list[list[int]], others: list[int], side: Any
) -> None:
    stored, edges, starts = laid_out(parts)
    asked = [
        (number, probe)
        for number in range(len(parts))
        for probe in [*sorted({v for part in parts for v in part})[:40], *others]
    ]
    probes = np.array([probe for _, probe in asked], np.int64)
    chosen = np.array([number for number, _ in asked], np.int64)
    bound = bisect_left if side == "left" else bisect_right
    expected = [int(edges[n]) + bound(sorted(parts[n]), probe) for n, probe in asked]
    rows = SortedRows.build(stored, starts)
    rows.validate(run_lengths(len(stored), starts))
    for structure in (rows, SkipList(stored), rows.skip_list):
        found = structure.search(probes, side, edges[chosen], edges[chosen + 1])
        assert found.tolist() == expected


@settings(max_examples=15, deadline=None)
@given(groups, any_int, any_int, st.sampled_from(["both", "left", "right", "neither"]))
def test_a_band_is_the_rows_between(
    parts: list[list[int]], lower: int, upper: int, closed: str
) -> None:
    stored, edges, starts = laid_out(parts)
    many = len(parts)
    ends = np.full(many, lower), np.full(many, upper)
    found = SortedRows.build(stored, starts).band(*ends, closed, edges[:-1], edges[1:])
    for part, low, first, stop in zip(parts, edges[:-1], *found, strict=True):
        inside = [
            value
            for value in sorted(part)
            if (lower <= value if closed in ("both", "left") else lower < value)
            and (value <= upper if closed in ("both", "right") else value < upper)
        ]
        assert low <= first <= stop <= low + len(part)
        assert stored[first:stop].tolist() == inside
