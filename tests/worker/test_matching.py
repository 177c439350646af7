"""Keys told apart and matched by value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from bsjoin.runtimes.python.worker.matching import canonical, distinct, owners

NAN = float("nan")
SETTINGS = hypothesis.settings(deadline=None)
KEYS = st.lists(
    st.tuples(
        st.sampled_from([0.0, -0.0, NAN, 1.5, float("inf"), 2.0**60]),
        st.sampled_from(["", "a", "A", "é", "a\0"]),
        st.sampled_from([Decimal("1.10"), Decimal("-0.01"), Decimal("12345678901234567890.12")]),
    ),
    min_size=1,
    max_size=30,
)


def columns(keys: list[Any]) -> list[pa.Array]:
    numbers, texts, decimals = zip(*keys, strict=True)
    return [
        canonical(pa.array(numbers, pa.float64())),
        pa.array(texts),
        pa.array(decimals, pa.decimal128(38, 2)),
    ]


def plain(key: Any) -> Any:
    number, text, decimal = key
    return "NaN" if number != number else number + 0.0, text, decimal


@SETTINGS
@hypothesis.given(KEYS)
def test_distinct_keys_are_distinguished(keys: list[Any]) -> None:
    which, inverse = distinct(columns(keys))
    named = [plain(key) for key in keys]
    assert sorted(map(str, (named[i] for i in which))) == sorted(map(str, set(named)))
    assert [named[which[i]] for i in inverse] == named


@SETTINGS
@hypothesis.given(KEYS, KEYS)
def test_rows_find_their_keys(keys: list[Any], rows: list[Any]) -> None:
    keys = [keys[i] for i in distinct(columns(keys))[0]]
    named = [plain(key) for key in keys]
    theirs = owners(columns(keys), columns(rows))
    expected = [named.index(plain(row)) if plain(row) in named else -1 for row in rows]
    assert theirs.tolist() == expected


def test_a_null_in_a_row_s_key_belongs_to_nobody() -> None:
    keys = [pa.array([1, 2, 0]), pa.array(["x", "y", ""])]
    rows = [pa.array([2, None, 1, 0]), pa.array(["y", "x", None, ""])]
    assert owners(keys, rows).tolist() == [1, -1, -1, 2]


def test_canonical_numbers_have_one_nan_and_no_negative_zero() -> None:
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    array = canonical(pa.array([other_nan, NAN, -0.0, None, 1.0]))
    bits = array.to_numpy(zero_copy_only=False).view(np.int64)
    assert bits[0] == bits[1]
    assert bits[2] == 0
    assert array[3].as_py() is None
    assert canonical(pa.array([-0.0], pa.float32())).type == pa.float32()
