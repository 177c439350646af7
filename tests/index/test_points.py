"""Points of ranges: codes keep the order of values, searches find what bisect and loops find."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_slices import run_lengths
from numpy.typing import NDArray

from bsjoin import AsOf
from bsjoin.index import (
    GREATEST,
    LEAST,
    SkipList,
    SortedRows,
    codes,
    floats,
    later_float,
    levels,
    nearest,
    nearest_rows,
    reach,
)
from tests.fuzz.exact import nearest_groups

Int64s = NDArray[np.int64]
DIRECTIONS: list[Any] = ["backward", "forward", "nearest"]
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


@settings(deadline=None)
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


@settings(deadline=None)
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


def check_nearest(data: st.DataObject, values: Any, dtype: type, tolerances: Any) -> None:
    """Of each group's rows the first of those that the contract names, or the first n."""
    cases = st.lists(st.tuples(st.integers(0, 2), values), max_size=50)
    when = AsOf(
        "p",
        "q",
        data.draw(st.sampled_from(DIRECTIONS)),
        data.draw(tolerances),
        data.draw(st.booleans()),
    )
    ordered = sorted(data.draw(cases), key=lambda row: (row[0], rank(row[1])))
    edges = np.searchsorted([group for group, _ in ordered], np.arange(4))
    rows = SortedRows.build(
        codes(np.array([value for _, value in ordered], dtype)),
        edges[:-1][np.diff(edges) > 0] if ordered else None,
    )
    probes = data.draw(cases)
    groups = np.array([group for group, _ in probes], np.int64)
    points = np.array([value for _, value in probes], dtype)
    encoded = codes(points)
    needs_distance = when.tolerance is not None or when.direction == "nearest"
    asked = rows, encoded, edges[groups], edges[groups + 1]
    details: dict[str, Any] = {
        "direction": when.direction,
        "exact": when.exact,
        "reach": reach(points, when.tolerance) if needs_distance else None,
        "later": later_float(rows.values, encoded) if dtype is np.float64 else None,
    }
    found = nearest(*asked, **details)
    assert found.dtype == np.int64
    n, most = data.draw(st.sampled_from([1, 2, 3, 60])), data.draw(st.sampled_from([1, 7, 1000]))
    pieces = [*nearest_rows(*asked, n=n, **details, max_pairs=most)]
    assert all(0 < len(piece) <= most for piece, _ in pieces)
    several = list(
        zip(*(map(int, chain(*part)) for part in zip(*pieces, strict=True)), strict=True)
    )
    wanted = []
    kind = "double" if dtype is np.float64 else "long"
    for at, ((group, probe), row) in enumerate(zip(probes, found.tolist(), strict=True)):
        there = {number: value for number, (g, value) in enumerate(ordered) if g == group}
        all_ = [*chain.from_iterable(map(sorted, nearest_groups(when, probe, kind, there)))]
        assert row == [*all_, -1][0]
        wanted += [(at, one) for one in all_[:n]]
    assert several == wanted


@settings(deadline=None)
@given(st.data())
def test_integers_find_the_row_that_the_contract_names(data: st.DataObject) -> None:
    tolerances = st.one_of(st.none(), st.integers(0, 5), st.sampled_from([2**63 - 1, 2**64, 2**70]))
    check_nearest(data, any_int, np.int64, tolerances)


@settings(deadline=None)
@given(st.data())
def test_floats_find_the_row_that_the_contract_names(data: st.DataObject) -> None:
    tolerances = st.one_of(st.none(), st.integers(0, 5), st.sampled_from([0.5, LARGEST, math.inf]))
    halves = st.one_of(
        st.integers(-18, 18).map(lambda n: n / 2), st.sampled_from(SPECIAL_FLOATS[:7])
    )
    check_nearest(data, halves, np.float64, tolerances)


@settings(deadline=None)
@given(st.data())
def test_points_between_codes_have_the_rows_of_a_loop(data: st.DataObject) -> None:
    """Points are given in halves of the rows' units."""
    stored = np.array(sorted(data.draw(st.lists(st.integers(-9, 9), max_size=40))), np.int64)
    points = np.array(data.draw(st.lists(st.integers(-21, 21), max_size=9)), np.int64)
    direction, exact = data.draw(st.sampled_from(DIRECTIONS)), data.draw(st.booleans())
    width = data.draw(st.sampled_from([None, 0, 1, 6]))
    n, most = data.draw(st.sampled_from([1, 2, 3, 60])), data.draw(st.sampled_from([1, 7, 1000]))

    def later(positions: Int64s, before: Int64s, behind: Int64s) -> NDArray[np.bool_]:
        point = points.take(positions)
        back, ahead = point - 2 * stored.take(before), 2 * stored.take(behind) - point
        return np.asarray(ahead < back)

    pieces = nearest_rows(
        SortedRows.build(stored),
        points >> 1,
        np.zeros(len(points), np.int64),
        np.full(len(points), len(stored)),
        n=n,
        direction=direction,
        exact=exact,
        reach=None if width is None else (-((width - points) >> 1), (points + width) >> 1),
        later=later,
        shifts=points & 1,
        max_pairs=most,
    )
    found = [pair for at, rows in pieces for pair in zip(at.tolist(), rows.tolist(), strict=True)]
    wanted = []
    for number, point in enumerate(points.tolist()):
        gaps = [(2 * value - point, row) for row, value in enumerate(stored.tolist())]
        near = [
            (abs(gap), gap, row)
            for gap, row in gaps
            if (gap or exact)
            and (width is None or abs(gap) <= width)
            and (direction == "nearest" or (gap <= 0 if direction == "backward" else gap >= 0))
        ]
        wanted += [(number, row) for _, _, row in sorted(near)[:n]]
    assert found == wanted
