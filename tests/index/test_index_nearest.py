"""As-of against a nested loop, and against DuckDB's ASOF join."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import SortedRows, codes, later_float, nearest, reach

LOW, HIGH = -(2**63), 2**63 - 1
DIRECTIONS = ["backward", "forward", "nearest"]
LARGEST = float(np.finfo(np.float64).max)

ints = st.one_of(
    st.integers(-9, 9), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]), st.integers(LOW, HIGH)
)
floats = st.one_of(
    st.integers(-9, 9).map(float),
    st.sampled_from([-math.inf, math.inf, math.nan, -0.0, LARGEST, -LARGEST, 5e-324, 1.5]),
    st.floats(),
)
int_tolerances = st.one_of(st.none(), st.integers(0, 5), st.sampled_from([HIGH, 2**64, 2**70]))
float_tolerances = st.one_of(
    st.none(), st.integers(0, 5), st.sampled_from([0.5, LARGEST, math.inf])
)


def rank(value: float) -> tuple[bool, float]:
    """Spark's order: NaN above all."""
    return (True, 0) if math.isnan(value) else (False, value)


def gap(one: float, other: float) -> Fraction | float | None:
    """The distance, in double; infinite to an infinity, none to NaN."""
    if math.isnan(one) or math.isnan(other):
        return None
    if one == other:
        return 0
    if math.isinf(one) or math.isinf(other):
        return math.inf
    distance = abs(one - other)
    return abs(Fraction(one) - Fraction(other)) if distance == math.inf else distance


def is_near(value: float, probe: float, tolerance: float) -> bool:
    """Within the tolerance, computed as Spark does: an end of the band, then a comparison."""
    if gap(value, probe) in (None, math.inf):
        return False
    return value == probe or probe - tolerance <= value <= probe + tolerance


def oracle(
    rows: list[float], probe: float, direction: str, exact: bool, tolerance: float | None
) -> int:
    """The row that the contract names, or -1; the rows are in order."""
    best: tuple[object, ...] | None = None
    for row, value in enumerate(rows):
        before, same = rank(value) < rank(probe), rank(value) == rank(probe)
        if not (exact if same else direction in ("nearest", "backward" if before else "forward")):
            continue
        distance = gap(value, probe)
        if tolerance is not None and not is_near(value, probe, tolerance):
            continue
        if direction == "nearest":
            if distance is None:
                continue
            # On one side of the probe the order tells, even where the distances are infinite.
            worth: tuple[object, ...] = (distance, not before, -value if before else value, row)
        else:
            _, number = rank(value)
            nan = math.isnan(value)
            worth = (not nan, -number, row) if direction == "backward" else (nan, number, row)
        if best is None or worth < best:
            best = worth
    return -1 if best is None else int(str(best[-1]))


Cases = list[tuple[int, float]]


def check(
    stored: Cases,
    probes: Cases,
    dtype: type,
    direction: str,
    exact: bool,
    tolerance: float | None,
) -> None:
    ordered = sorted(stored, key=lambda row: (row[0], rank(row[1])))
    edges = np.searchsorted([group for group, _ in ordered], np.arange(4))
    rows = SortedRows.build(
        codes(np.array([value for _, value in ordered], dtype)),
        edges[:-1][np.diff(edges) > 0] if ordered else None,
    )
    groups = np.array([group for group, _ in probes], np.int64)
    points = np.array([value for _, value in probes], dtype)
    encoded = codes(points)
    needs_distance = tolerance is not None or direction == "nearest"
    found = nearest(
        rows,
        encoded,
        edges[groups],
        edges[groups + 1],
        direction=direction,
        exact=exact,
        reach=reach(points, tolerance) if needs_distance else None,
        later=later_float(rows.values, encoded) if dtype is np.float64 else None,
    )
    assert found.dtype == np.int64
    for (group, probe), row in zip(probes, found.tolist(), strict=True):
        low = int(edges[group])
        part = [value for number, value in ordered if number == group]
        expected = oracle(part, probe, direction, exact, tolerance)
        assert row == (low + expected if expected >= 0 else -1)


group = st.integers(0, 2)


@settings(deadline=None)
@given(
    st.lists(st.tuples(group, ints), max_size=50),
    st.lists(st.tuples(group, ints), max_size=20),
    st.sampled_from(DIRECTIONS),
    st.booleans(),
    int_tolerances,
)
def test_integers_find_the_row_that_the_contract_names(
    stored: Cases, probes: Cases, direction: str, exact: bool, tolerance: int | None
) -> None:
    check(stored, probes, np.int64, direction, exact, tolerance)


halves = st.one_of(
    st.integers(-18, 18).map(lambda n: n / 2),
    st.sampled_from([-math.inf, math.inf, math.nan, -0.0, LARGEST, -LARGEST]),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(group, halves), max_size=50),
    st.lists(st.tuples(group, halves), max_size=20),
    st.sampled_from(DIRECTIONS),
    st.booleans(),
    float_tolerances,
)
def test_floats_find_the_row_that_the_contract_names(
    stored: Cases, probes: Cases, direction: str, exact: bool, tolerance: float | None
) -> None:
    check(stored, probes, np.float64, direction, exact, tolerance)


def find(stored: list[float], probe: float, **options: object) -> float | None:
    points = np.array([probe])
    rows = SortedRows.build(codes(np.array(stored)))
    later = later_float(rows.values, codes(points))
    options.setdefault("reach", reach(points))
    (row,) = nearest(rows, codes(points), direction="nearest", later=later, **options).tolist()
    return None if row < 0 else row


def test_nearest_with_infinities_and_nan() -> None:
    inf, nan = math.inf, math.nan
    assert find([-inf, 7, inf, nan], 5.0) == 1
    assert find([-inf, inf, nan], 5.0) == 0  # Both infinitely far: the earlier.
    assert find([3, inf], inf) == 1
    assert find([3, nan], inf) == 0
    assert find([-inf, 3, 4], inf) == 2  # Infinitely far as well, but between the two.
    assert find([3, nan], nan) is None
    assert find([nan], 5.0) is None
    # Distances beyond the doubles are still compared.
    assert find([-LARGEST, LARGEST], LARGEST / 2 + 1e300) == 1
    assert find([-LARGEST, inf], LARGEST) == 0
    assert find([-inf, LARGEST], -LARGEST) == 1
    assert find([inf], LARGEST, reach=reach(np.array([LARGEST]), LARGEST)) is None


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size", [0, 1, 2, 7, 49, 50, 51, 100])
def test_sizes_of_rows_and_batches(size: int, direction: str) -> None:
    random = np.random.default_rng(size)
    stored = np.sort(random.integers(0, 60, size))
    rows = SortedRows.build(stored)
    for batch in (0, 1, 2, 7, 49, 50, 51, 100):
        probes = random.integers(-3, 63, batch)
        expected = [oracle(stored.tolist(), p, direction, True, None) for p in probes.tolist()]
        assert nearest(rows, probes, direction=direction).tolist() == expected


def test_another_direction_is_refused() -> None:
    rows = SortedRows.build(np.arange(3))
    with pytest.raises(ValueError, match="one of backward, forward, nearest, not 'up'"):
        nearest(rows, np.arange(3), direction="up")
    with pytest.raises(ValueError, match="a tolerance is 0 or more, not -1"):
        reach(np.arange(3), -1)
