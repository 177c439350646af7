"""Codes keep the order of the values; widths stop at the ends of the type."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST, add_saturated, codes, floats, reach

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
any_int = st.one_of(
    st.integers(LEAST, GREATEST), st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, GREATEST])
)
any_float = st.one_of(
    st.floats(), st.sampled_from([-0.0, 0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324])
)


def rank(value: float) -> tuple[bool, float]:
    return (True, 0) if math.isnan(value) else (False, value)


def same_order(encoded: list[int], values: list[float]) -> bool:
    return all(
        (a < b) == (rank(x) < rank(y)) and (a == b) == (rank(x) == rank(y))
        for (a, x), (b, y) in product(zip(encoded, values, strict=True), repeat=2)
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_every_width(dtype: type) -> None:
    ends = np.iinfo(dtype)
    values = [ends.min, ends.min + 1, ends.max // 2, ends.max - 1, ends.max]
    encoded = codes(np.array(values, dtype))
    assert encoded.dtype == np.int64
    assert same_order(encoded.tolist(), values)
    assert codes(np.array(values, dtype)[::-1]).tolist() == encoded.tolist()[::-1]


@given(st.lists(any_float, max_size=20))
def test_doubles_in_the_order_of_spark(values: list[float]) -> None:
    encoded = codes(np.array(values, np.float64))
    assert same_order(encoded.tolist(), values)
    decoded = floats(encoded).tolist()
    assert [rank(value) for value in decoded] == [rank(value) for value in values]


def test_nan_of_every_kind_is_one_value() -> None:
    bits = np.array([0x7FF8 << 48, (0xFFF8 << 48) - 2**64, (0x7FF0 << 48) + 1], np.int64)
    encoded = codes(bits.view(np.float64))
    assert len(set(encoded.tolist())) == 1
    assert encoded[0] > codes(np.array([math.inf]))[0]


def test_times_and_booleans() -> None:
    times = np.array(["1969-01-01", "1970-01-01", "2026-11-21"], "datetime64[us]")
    assert codes(times).tolist() == times.astype(np.int64).tolist()
    days = times.astype("datetime64[D]")
    assert codes(days)[2] == 20778
    assert codes(np.array([True, False])).tolist() == [1, 0]
    with pytest.raises(TypeError, match="have no code of 64 bits"):
        codes(np.array(["a"]))


@given(st.lists(any_int, max_size=20), st.one_of(any_int, st.integers(-(2**70), 2**70)))
def test_integers_stop_at_the_ends(values: list[int], delta: int) -> None:
    sums = add_saturated(np.array(values, np.int64), delta)
    assert sums.dtype == np.int64
    assert sums.tolist() == [max(LEAST, min(GREATEST, value + delta)) for value in values]


@given(st.lists(any_float, max_size=20), any_float)
def test_floats_are_added_as_doubles(values: list[float], delta: float) -> None:
    sums = add_saturated(np.array(values, np.float64), delta).tolist()
    assert [rank(x) for x in sums] == [rank(value + delta) for value in values]


def test_what_is_in_reach_of_an_integer() -> None:
    least, greatest = reach(np.array([0, LEAST, GREATEST]), 5)
    assert least.tolist() == [-5, LEAST, GREATEST - 5]
    assert greatest.tolist() == [5, LEAST + 5, GREATEST]
    assert [ends.tolist() for ends in reach(np.array([7]))] == [[LEAST], [GREATEST]]


def test_what_is_in_reach_of_a_float() -> None:
    inf, largest = math.inf, float(np.finfo(np.float64).max)
    least, greatest = reach(np.array([1.5, inf, -inf, largest, math.nan]), 2)
    assert floats(least).tolist()[:4] == [-0.5, inf, -inf, largest]
    assert floats(greatest).tolist()[:4] == [3.5, inf, -inf, largest]
    assert (least[4], greatest[4]) == (GREATEST, LEAST)
    least, greatest = reach(np.array([1.5, math.nan]))
    assert (floats(least)[0], floats(greatest)[0]) == (-inf, inf)
    assert least[1] > greatest[1]
