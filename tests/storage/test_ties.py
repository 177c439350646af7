"""Rows with the same key and point are in one order, which follows their content alone."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.errors import ArgumentError
from bsjoin.storage.ties import Tie, break_ties, first_rows
from bsjoin.values.sort_order import SortOrder, sort_orders

NAN = float("nan")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.null(): [None],
    pa.bool_(): [False, True],
    pa.int8(): [-128, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.float32(): [-np.inf, -1.5, -0.0, 0.0, 1.5, np.inf, NAN],
    pa.float64(): [-np.inf, -1e300, -0.0, 0.0, 5e-324, np.inf, NAN],
    pa.decimal128(10, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("1.50")],
    pa.decimal128(38, 0): [Decimal(-(10**37)), Decimal(0), Decimal(2**70)],
    pa.string(): ["", "A", "a", "a\0", "ab", "é", "\U0001f600"],
    pa.binary(): [b"", b"\0", b"\x7f", b"\x80", b"\xff"],
    pa.date32(): [date(1, 1, 1), date(2026, 3, 1)],
    pa.timestamp("us", "UTC"): [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)],
    pa.duration("us"): [-1, 0, 1],
}
TYPES = [
    *VALUES,
    pa.list_(pa.float64()),
    pa.list_(pa.list_(pa.string())),
    pa.struct({"x": pa.float32(), "y": pa.string()}),
    pa.map_(pa.string(), pa.float64()),
    pa.map_(pa.float64(), pa.map_(pa.string(), pa.int8())),
    pa.struct({"m": pa.map_(pa.int8(), pa.list_(pa.bool_()))}),
]


def drawn(draw: random.Random, dtype: pa.DataType) -> Any:
    if draw.random() < 0.2:
        return None
    if dtype in VALUES:
        return draw.choice(VALUES[dtype])
    many = draw.randrange(3)
    if pa.types.is_list(dtype):
        return [drawn(draw, dtype.value_type) for _ in range(many)]
    if pa.types.is_struct(dtype):
        return {field.name: drawn(draw, field.type) for field in dtype}
    keys = draw.sample(VALUES[dtype.key_type][-3:], many)
    return [(key, drawn(draw, dtype.item_type)) for key in keys]


def place(value: Any, dtype: pa.DataType, exact: bool) -> Any:
    """A value as tuples that are in the same order."""
    if value is None:
        return (0,)
    if pa.types.is_floating(dtype):
        if value != value:
            return (1, 2)
        return (1, 1, value, float(exact) * (value == 0) * np.copysign(1.0, value))
    if pa.types.is_list(dtype):
        return (1, *(place(item, dtype.value_type, exact) for item in value))
    if pa.types.is_struct(dtype):
        return (1, *(place(value[field.name], field.type, exact) for field in dtype))
    if pa.types.is_map(dtype):
        kinds = dtype.key_type, dtype.item_type
        found = [tuple(map(place, entry, kinds, (exact, exact))) for entry in value]
        return (1, *(found if exact else sorted(found)))
    if pa.types.is_string(dtype):
        return (1, value.encode())
    return (1, value)


@settings(max_examples=50)
@given(
    dtype=st.sampled_from(TYPES),
    seed=st.integers(0, 2**32),
    tie=st.builds(Tie, st.just(0), *[st.booleans()] * 3),
)
def test_values_of_any_type_are_in_one_order(dtype: pa.DataType, seed: int, tie: Tie) -> None:
    draw = random.Random(seed)
    many = draw.randrange(1, 20)
    values = [drawn(draw, dtype) for _ in range(many)]
    array = pa.concat_arrays([pa.array([None, *values], dtype).slice(1)])
    runs = sorted(draw.randrange(1 + many // 4) for _ in range(many))
    order = np.array(draw.sample(range(many), many), np.int32)
    same = np.array([False, *(one == other for one, other in pairwise(runs))])
    before = order.tolist()
    begin = runs.index(runs[-1])  # rows of different pieces are not tied
    pieces = [(0, begin), (begin, many)] if begin else [(0, many)]
    first = first_rows(order, same, lambda _: array, [tie], pieces)
    break_ties(order, same, array, tie)

    def key(row: int) -> Any:
        return place(values[row], dtype, tie.exact)

    expected: list[int] = []
    for run in sorted(set(runs)):
        rows = [row for row, own in zip(before, runs, strict=True) if own == run]
        null = [row for row in rows if values[row] is None]
        there = sorted((r for r in rows if values[r] is not None), key=key, reverse=tie.descending)
        expected += there + null if tie.nulls_last else null + there
    got = [key(row) for row in order.tolist()]
    assert got == [key(row) for row in expected]
    assert same.tolist() == [
        n > 0 and runs[n] == runs[n - 1] and got[n] == got[n - 1] for n in range(many)
    ]
    starts = [n for n in range(many) if n == 0 or runs[n] != runs[n - 1]]
    assert first.tolist() == order.take(starts).tolist()


@settings(max_examples=20)
@given(st.text(min_size=1).filter(lambda name: name.strip()), st.booleans(), st.booleans())
def test_a_sort_order_is_read_as_it_is_written(name: str, descending: bool, last: bool) -> None:
    order = SortOrder(name, descending, last)
    assert SortOrder.parse(str(order)) == order
    assert SortOrder.parse(str(replace(order, descending=False))) != SortOrder(name, True, last)


def test_sort_orders_have_a_normal_form() -> None:
    for text, normal in (
        ("x", "x ASC NULLS FIRST"),
        (" x  desc ", "x DESC NULLS LAST"),
        ("x Desc Nulls First", "x DESC NULLS FIRST"),
        ("x nulls last", "x ASC NULLS LAST"),
        ("my column asc", "my column ASC NULLS FIRST"),
        ("desc", "desc ASC NULLS FIRST"),
        ("`x desc` desc", "`x desc` DESC NULLS LAST"),
        ("`a``b`", "`a``b` ASC NULLS FIRST"),
    ):
        assert sort_orders(text, "order_by") == sort_orders([normal], "order_by") == (normal,)
    wrong: list[Any] = [5, [5], "", " ", ["a", "a desc"], ["a", None], {"a": "desc"}]
    for value in wrong:
        with pytest.raises(ArgumentError, match="order_by="):
            sort_orders(value, "order_by")
