"""Arrays as texts: what is written is read, and what is damaged is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hotspot_strategies import codes
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.partitioning.packing import pack, pack_numbers, unpack, unpack_numbers


@given(codes)
def test_integers_in_any_order_are_read_as_they_were_written(values: list[int]) -> None:
    assert unpack(pack(np.array(values, np.int64))).tolist() == values


@given(codes)
def test_sorted_integers_are_written_by_their_differences(values: list[int]) -> None:
    ordered = sorted(values)
    text = pack(np.array(ordered, np.int64), ascending=True)
    assert unpack(text, ascending=True).tolist() == ordered
    assert json.loads(json.dumps(text)) == text


@given(st.lists(st.floats(allow_nan=False), max_size=50))
def test_numbers_are_read_to_the_last_bit(values: list[float]) -> None:
    read = unpack_numbers(*pack_numbers(np.array(values, np.float64)))
    assert read.tolist() == values


@pytest.mark.parametrize("text", ["", "%", "AAAA", pack(np.arange(3))[:-6]])
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(text)


def test_numbers_that_point_nowhere_are_refused() -> None:
    distinct, _ = pack_numbers(np.array([1.5]))
    with pytest.raises(ValueError, match="pack_numbers"):
        unpack_numbers(distinct, pack(np.array([7])))
