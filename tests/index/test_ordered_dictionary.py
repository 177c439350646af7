"""Codes of text, binary and long decimals against Python's own order."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bsjoin.index import (
    ByteStrings,
    OrderedDictionary,
    SortedRows,
    later_wide,
    nearest,
    wide_texts,
)

Int64s = NDArray[np.int64]
TOP, BOTTOM = 2**127 - 1, -(2**127)

few_bytes = st.lists(st.sampled_from([0, 1, 97, 98, 255]), max_size=30).map(bytes)
long_ones = st.builds(
    lambda times, rest: b"abcdefgh" * times + rest, st.integers(0, 4), st.binary(max_size=9)
)
text = st.one_of(few_bytes, st.binary(max_size=20), long_ones)
numbers = st.one_of(
    st.integers(-9, 9),
    st.integers(BOTTOM, TOP),
    st.sampled_from(
        [BOTTOM, BOTTOM + 1, TOP - 1, TOP, 2**64 - 1, 2**64, -(2**64), 2**63, -(2**63)]
    ),
)


def texts(values: list[bytes]) -> ByteStrings:
    offsets = np.cumsum([0, *map(len, values)])
    return ByteStrings(offsets, np.frombuffer(b"".join(values), np.uint8))


def words(values: list[int]) -> Int64s:
    data = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return np.frombuffer(data, np.int64).reshape(-1, 2)


def unwords(pairs: Int64s) -> list[int]:
    return [int(high) * 2**64 + int(low) % 2**64 for low, high in pairs.tolist()]


def check(stored: list[bytes], probes: list[bytes]) -> None:
    ranks, encoded = OrderedDictionary.build(texts(stored))
    ranks.validate()
    distinct = sorted(set(stored))
    assert encoded.tolist() == [2 * distinct.index(value) + 1 for value in stored]
    assert ranks.codes(texts(probes)).tolist() == [
        2 * bisect_left(distinct, probe) + (probe in distinct) for probe in probes
    ]


@settings(deadline=None)
@given(st.lists(text, max_size=40), st.lists(text, max_size=20))
def test_texts_have_the_order_of_their_bytes(stored: list[bytes], others: list[bytes]) -> None:
    neighbours = [probe for value in stored for probe in (value + b"\0", value[:-1], value[:8])]
    check(stored, [*stored, *neighbours, *others])


@settings(deadline=None)
@given(st.lists(numbers, min_size=1, max_size=30), st.lists(numbers, max_size=20))
def test_long_decimals_have_the_order_of_their_numbers_and_the_nearest_is_found(
    stored: list[int], probes: list[int]
) -> None:
    stored = sorted(stored)
    distinct = sorted(set(stored))
    ranks, encoded = OrderedDictionary.build(wide_texts(words(stored)))
    ranks.validate()
    assert encoded.tolist() == [2 * distinct.index(value) + 1 for value in stored]
    asked = ranks.codes(wide_texts(words(probes)))
    assert asked.tolist() == [
        2 * bisect_left(distinct, probe) + (probe in distinct) for probe in probes
    ]
    found = nearest(
        SortedRows.build(encoded),
        asked,
        direction="nearest",
        later=later_wide(lambda rows: words(stored).take(rows, axis=0), words(probes)),
    )
    assert found.tolist() == [
        min(range(len(stored)), key=lambda row: (abs(stored[row] - probe), stored[row], row))
        for probe in probes
    ]
