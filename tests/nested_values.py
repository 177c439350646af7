"""Nested columns: difficult values of types inside one another, for what only carries them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

_AT, _DAY, _WALL = pa.timestamp("us", "UTC"), pa.date32(), pa.timestamp("us")
_LATEST = 250_000_000_000_000_000


def _never_null(dtype: pa.DataType, name: str = "element") -> pa.Field:
    return pa.field(name, dtype, nullable=False)


NESTED: dict[pa.DataType, list[Any]] = {
    pa.list_(pa.int64()): [[1, None, 2**63 - 1], [], [4]],
    pa.list_(pa.string()): [["a", None], [], ["", "é" * 50]],
    pa.list_(_AT): [[0, None], [_LATEST], []],
    pa.list_(_never_null(pa.decimal128(38, 18))): [[Decimal(-(10**19)), Decimal("0.5")], [], []],
    pa.list_(pa.list_(pa.bool_())): [[[True], []], [None], []],
    pa.map_(pa.string(), pa.float64()): [[("a", -math.inf), ("b", None)], [], [("", -0.0)]],
    pa.map_(_AT, pa.list_(pa.binary())): [[(1, [b"\0", None])], [], [(-1, None)]],
    pa.map_(pa.int32(), _never_null(_DAY, "value")): [[(-1, -141_428)], [], [(2**31 - 1, 0)]],
    pa.struct([("a", pa.int64()), ("b", pa.string())]): [
        {"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 2, "b": ""},
    ],
    pa.struct([("a", pa.list_(pa.struct([("z", _DAY)])))]): [
        {"a": [{"z": 0}, None]}, {"a": None}, {"a": []},
    ],
    pa.struct([("wall", _WALL), ("took", pa.duration("us")), ("f", pa.float32())]): [
        {"wall": _LATEST, "took": -1, "f": math.inf}, {"wall": None, "took": None, "f": None},
        {"wall": -1, "took": 2**40, "f": -0.0},
    ],
    pa.struct([_never_null(pa.int8(), "x"), _never_null(pa.list_(_WALL), "y")]): [
        {"x": -128, "y": [None]}, {"x": 127, "y": []}, {"x": 0, "y": [1, 1]},
    ],
    pa.list_(pa.struct([("l", pa.list_(pa.list_(pa.string())))])): [
        [{"l": [["q"], None]}], [None, {"l": None}], [],
    ],
}  # fmt: skip
"""Values of each type; none is null."""


def nested_columns(rows: int, *, nullable: bool = True) -> tuple[list[pa.Field], list[pa.Array]]:
    """A column of each type, whose values come in turns, as do nulls if there may be any."""
    fields, arrays = [], []
    for number, (dtype, values) in enumerate(NESTED.items()):
        cells = [*values, None] if nullable else values
        fields.append(pa.field(f"{'n' if nullable else 'v'}{number}", dtype, nullable=nullable))
        arrays.append(pa.array([cells[(i + number) % len(cells)] for i in range(rows)], dtype))
    return fields, arrays
