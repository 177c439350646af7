"""Codes of text, binary and long decimals against Python's own order."""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bsjoin.index import (
    ByteStrings,
    OrderedDictionary,
    SortedRows,
    add_wide,
    clamped,
    later_wide,
    nearest,
    wide_texts,
    words_of_texts,
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


def test_texts_that_differ_after_many_bytes_or_by_their_length_only() -> None:
    long = b"x" * 1000
    check(
        [long, long + b"\0", long + b"\0\0", long + b"a", b"", b"\0", b"\0" * 8, b"\0" * 9],
        [long + b"\0\0\0", long[:-1], b"\0" * 7, b"\0" * 10, b"\xff"],
    )


def test_the_buffers_of_an_arrow_array_serve_as_they_are() -> None:
    names = ["Zürich", "Zurich", "", "zz", "Ω", "😀", "Zürich", "a" * 20]
    distinct = sorted({name.encode() for name in names[1:]})
    for kind, ends in ((pa.string(), np.int32), (pa.large_string(), np.int64)):
        array = pa.array(names, kind).slice(1)
        _, offsets, data = array.buffers()
        view = np.frombuffer(offsets, ends)
        column = ByteStrings(view[array.offset :][: len(array) + 1], np.frombuffer(data, np.uint8))
        _, encoded = OrderedDictionary.build(column)
        assert encoded.tolist() == [2 * distinct.index(name.encode()) + 1 for name in names[1:]]


def test_the_words_are_those_of_an_arrow_decimal() -> None:
    with localcontext(prec=40):
        values = [Decimal(10) ** 37 + 7, -(Decimal(10) ** 37), Decimal(-1), Decimal(0)]
        array = pa.array(values, pa.decimal128(38, 0))
    pairs = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    assert unwords(pairs) == [int(value) for value in values]
    _, encoded = OrderedDictionary.build(wide_texts(pairs))
    assert encoded.tolist() == [7, 1, 3, 5]


@given(st.lists(numbers, max_size=20))
def test_numbers_become_texts_and_back_and_stop_at_64_bits(values: list[int]) -> None:
    everything = np.arange(len(values))[::-1]
    assert unwords(words_of_texts(wide_texts(words(values)), everything)) == values[::-1]
    assert clamped(words(values)).tolist() == [max(-(2**63), min(2**63 - 1, v)) for v in values]


@given(st.lists(numbers, max_size=20), st.one_of(numbers, st.integers(-(2**130), 2**130)))
def test_sums_stop_at_the_ends(values: list[int], delta: int) -> None:
    pairs = words(values)
    assert unwords(add_wide(pairs, delta)) == [
        max(BOTTOM, min(TOP, value + delta)) for value in values
    ]
    assert unwords(pairs) == values


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
