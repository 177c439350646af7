"""Types, the values that are drawn for them, and when Spark calls two values equal.

A value has one Python form, in which equality and order are exact: integers and decimals as
numbers, floats as floats, dates and timestamps as days and microseconds since 1970, text as
``str``. Nested values are only carried, never compared.
"""

from __future__ import annotations

import math
import random
import re
import struct
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_EXACT = Context(prec=80)
MAX_DIGITS = 38


@dataclass(frozen=True)
class Kind:
    """A column type.

    Args:
        family: inside a family, types compare exactly.
        arrow: the Arrow type.
        digits: digits before and after the point of an exact number.
    """

    family: str
    arrow: pa.DataType
    digits: tuple[int, int] = (0, 0)


def _decimal(precision: int, scale: int) -> Kind:
    return Kind("exact", pa.decimal128(precision, scale), (precision - scale, scale))


class _Kinds(dict[str, Kind]):
    """Types by their names; others than those that any column may have are made of their names."""

    def __missing__(self, kind: str) -> Kind:
        return _made(kind)


KINDS: dict[str, Kind] = _Kinds({
    "byte": Kind("exact", pa.int8(), (3, 0)),
    "short": Kind("exact", pa.int16(), (5, 0)),
    "int": Kind("exact", pa.int32(), (10, 0)),
    "long": Kind("exact", pa.int64(), (20, 0)),
    "decimal(4,1)": _decimal(4, 1),
    "decimal(10,2)": _decimal(10, 2),
    "decimal(18,0)": _decimal(18, 0),
    "decimal(20,0)": _decimal(20, 0),
    "decimal(25,3)": _decimal(25, 3),
    "decimal(38,10)": _decimal(38, 10),
    "float": Kind("floating", pa.float32()),
    "double": Kind("floating", pa.float64()),
    "boolean": Kind("boolean", pa.bool_()),
    "string": Kind("string", pa.string()),
    "binary": Kind("binary", pa.binary()),
    "date": Kind("date", pa.date32()),
    "timestamp": Kind("timestamp", pa.timestamp("us", "UTC")),
    "timestamp_ntz": Kind("timestamp_ntz", pa.timestamp("us")),
    "interval": Kind("carried", pa.duration("us")),
    "list": Kind("carried", pa.list_(pa.int32())),
    "texts": Kind("carried", pa.list_(pa.string())),
    "struct": Kind("carried", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    "map": Kind("carried", pa.map_(pa.string(), pa.int32())),
})  # fmt: skip
COLLATIONS = (
    "UTF8_LCASE", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM", "UNICODE", "UNICODE_CI", "UNICODE_AI",
    "UNICODE_CI_AI", "UNICODE_CI_AI_RTRIM",
)  # fmt: skip
COLLATED, _ROWS = "string collate ", "rows<"


@cache
def _made(kind: str) -> Kind:
    """A text with a collation, a network, or an end of one; a result's decimal, or array of rows.

    Raises:
        KeyError: it is none.
    """
    if kind.startswith(COLLATED):
        return Kind(kind, pa.string())
    if kind == "network":
        return Kind(kind, pa.string())
    if fields := fields_of(kind):
        struct = pa.struct([(name, KINDS[inner].arrow) for name, inner in fields])
        return Kind("carried", pa.list_(struct))
    if "network_" in kind:
        return Kind("binary", pa.binary())
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    if digits is None:
        raise KeyError(kind)
    return _decimal(int(digits[1]), int(digits[2]))


def rows_of(columns: Sequence[tuple[str, str]]) -> str:
    """The kind of an array of structs of some columns."""
    return f"{_ROWS}{'|'.join(f'{name} {kind}' for name, kind in columns)}>"


def fields_of(kind: str) -> list[tuple[str, str]]:
    """The columns inside an array of rows; none of other kinds."""
    inside = kind.removeprefix(_ROWS)[:-1].split("|") if kind.startswith(_ROWS) else []
    return [(name, inner) for name, _, inner in (one.partition(" ") for one in inside)]


FAMILIES: dict[str, list[str]] = {}
for _name, _kind in KINDS.items():
    FAMILIES.setdefault(_kind.family, []).append(_name)
CARRIED = FAMILIES.pop("carried")
RANGED = [family for family in FAMILIES if family != "boolean"]
"""Families whose columns a range condition can name."""

_COMMON = [Decimal(n) for n in range(-3, 9)]
_NUMBERS_TEXT = """
    1.5 5.50 0.1 -0.01 3.001 100.5 127 -128 128 255 32767 -32768 32768 65536 99999999.99
    2147483647 -2147483648 2147483648 4294967296 9223372036854775807 -9223372036854775808
    9223372036854775806 9223372036854775808 99999999999999999999 999999999999999999
    1234567890123456789012.345 -1234567890123456789012.345 0.0000000001
"""
_NUMBERS = list(map(Decimal, _NUMBERS_TEXT.split()))
_FLOATS = [
    0.0, -0.0, 1.0, 0.5, -1.5, math.nan, math.inf, -math.inf, 16777217.0, 1e-45, 5e-324, 0.1,
    1e308, -1e308, 3.4028234663852886e38, 2.0, 3.0, 2.5,
]  # fmt: skip
_TEXTS = ["", " ", "a", "A", "a\x00", "ab", "abc", "abd", "é", "e\u0301", "日本語", "𝄞", "\uffff"]
_LONG = ["x" * 300, "x" * 299 + "y", "12345678", "123456789"]
_BEGINNINGS = ["", "a", "1234567", "12345678", "x" * 15]
"""Texts of a range often begin with one of these; they are compared by eight bytes at a time."""
_DAYS = [-719162, -141428, -1, 0, 1, 2, 3, 10, 31, 59, 60, 365, 2932896]
_MICROS = [
    0, 1, -1, 1_000_000, 1_700_000_000_000_000, 1_700_000_000_000_001, -62_135_596_800_000_000,
    253_402_300_799_999_999, 1_699_160_400_000_000, 1_699_164_000_000_000,
]  # fmt: skip
_SPECIAL: dict[str, Sequence[Any]] = {
    "exact": _NUMBERS,
    "floating": _FLOATS,
    "boolean": [True, False],
    "string": [*_TEXTS, *_LONG],
    "binary": [*(text.encode() for text in [*_TEXTS, *_LONG]), b"\xff\x00", b"\x80", b"\x7f"],
    "date": _DAYS,
    "timestamp": _MICROS,
    "timestamp_ntz": _MICROS,
}


def _text(draw: random.Random) -> str:
    return "".join(draw.choice("abAB 09\x00é\uffff𝄞") for _ in range(draw.randrange(12)))


_OTHERS: dict[str, Callable[[random.Random], Any]] = {
    "exact": lambda draw: Decimal(draw.randint(-(10 ** draw.randint(1, 22)), 10**20)).scaleb(
        -draw.choice([0, 0, 0, 1, 2, 3]), _EXACT
    ),
    "floating": lambda draw: draw.choice([draw.uniform(-10, 10), draw.randint(-20, 20) / 4]),
    "boolean": lambda draw: draw.random() < 0.5,
    "string": _text,
    "binary": lambda draw: draw.randbytes(draw.randrange(12)),
    "date": lambda draw: draw.randint(-1000, 30000),
    "timestamp": lambda draw: draw.randint(-(2**50), 2**51),
    "timestamp_ntz": lambda draw: draw.randint(-(2**50), 2**51),
}
_CARRIED: dict[str, Sequence[Any]] = {
    "interval": [0, 1, -1, 86_400_000_000, -(2**60)],
    "list": [[], [1, None], [None], [3, 2, 1]],
    "texts": [[], ["a", None], ["", "é"], ["x" * 40]],
    "struct": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 4, "b": ""}],
    "map": [[], [("x", 1)], [("y", None), ("z", 3)]],
}


def special(kind: str) -> list[Any]:
    """Values of a type that are known to be difficult."""
    return [v for v in (fits(kind, v) for v in _SPECIAL[KINDS[kind].family]) if v is not None]


def other(draw: random.Random, kind: str) -> Any:
    """Any value of a family; None if the type has not got it."""
    return fits(kind, _OTHERS[KINDS[kind].family](draw))


def pool(draw: random.Random, family: str, size: int) -> list[Any]:
    """Some values of a family, of which the columns of a case choose those that fit."""
    if (
        family == "exact" and draw.random() < 0.5
    ):  # integers near each other have an index of their own
        start = draw.choice([-3, 0, 0, 120, 32750, 2147483640, 9223372036854775800, -(2**63)])
        size = max(4, size)
        return [Decimal(start + n) for n in draw.sample(range(2 * size), size)]
    special = [v for v in _SPECIAL[family] if draw.random() < 0.25]
    if family == "floating":
        special += draw.choice([[], [0.0, -0.0]])
    others = [_OTHERS[family](draw) for _ in range(40 if size == 40 else draw.randrange(1, 4))]
    values = [*(draw.sample(_COMMON, 6) if family == "exact" else []), *special, *others]
    draw.shuffle(values)
    return values[: max(2, size)]


def dense(draw: random.Random, family: str, size: int) -> list[Any]:
    """Values near each other, for ranges; and a few others."""
    n = draw.choice([4, 12, 40])
    if family == "exact":
        step = draw.choice([Decimal(1), Decimal(1), Decimal("0.5"), Decimal("0.1"), Decimal(7)])
        start = Decimal(draw.choice([-5, 0, 3, 120, 2147483640, 2**63 - 8, 2**63 - 40, -(2**63)]))
        values = [start + step * draw.randrange(n) for _ in range(size)]
    elif family == "floating":
        scale = draw.choice([0.25, 1.0, 0.1, 1e300])
        values = [scale * draw.randrange(-n, n) for _ in range(size)]
        values += draw.choices([0.0, -0.0, math.inf, -math.inf, math.nan], k=draw.randrange(2, 9))
        values += draw.choice([[], [], [0.0, -0.0] * (size // 4)])
    elif family == "date":
        values = [draw.choice([0, 19000, -719162]) + draw.randrange(n) for _ in range(size)]
    elif family in ("timestamp", "timestamp_ntz"):
        start, step = (
            draw.choice([0, 1_699_160_400_000_000, -7]),
            draw.choice([1, 10**6, 1800 * 10**6]),
        )
        values = [start + step * draw.randrange(n) for _ in range(size)]
    elif family == "string":
        begin = draw.choice(_BEGINNINGS)
        values = [draw.choice([begin, begin, ""]) + _text(draw)[:3] for _ in range(size)]
    else:
        begin = draw.choice(_BEGINNINGS).encode()
        values = [
            draw.choice([begin, b"\x7f", b"\x80", b""]) + draw.randbytes(1) for _ in range(size)
        ]
    return [*values, *draw.sample(list(_SPECIAL[family]), draw.randrange(3))]


def carried(kind: str) -> Sequence[Any]:
    """The values of a type that is only carried."""
    return _CARRIED[kind]


def fits(kind: str, value: Any) -> Any:
    """The value as the type has it; None if it has not got it."""
    if kind == "double":
        return value
    if kind == "float":
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return None
    if KINDS[kind].family != "exact":
        return value
    before, after = KINDS[kind].digits
    scaled = value.scaleb(after, _EXACT)
    if scaled != scaled.to_integral_value():
        return None
    if kind.startswith("decimal"):
        if abs(scaled) >= 10 ** (before + after):
            return None
        return value.quantize(Decimal(1).scaleb(-after), context=_EXACT)
    bits = KINDS[kind].arrow.bit_width - 1
    return int(value) if -(1 << bits) <= value < 1 << bits else None


def middle(low: Any, high: Any) -> Any:
    """What is as far from one value as from the other; None where there is no such value."""
    if isinstance(low, int) and isinstance(high, int):
        return (low + high) // 2 if (low + high) % 2 == 0 else None
    if isinstance(low, float):
        half = low + (high - low) / 2
        return half if math.isfinite(half) and half - low == high - half else None
    return _EXACT.divide(_EXACT.add(low, high), Decimal(2))


def comparable(one: str, other: str) -> bool:
    """Whether columns of two types can be keys of one join."""
    left, right = KINDS[one], KINDS[other]
    return left.family == right.family and together([one, other]) <= MAX_DIGITS


def together(kinds: Sequence[str]) -> int:
    """How many digits hold all values of some exact numbers."""
    before, after = zip(*(KINDS[kind].digits for kind in kinds), strict=True)
    return max(before) + max(after)


def folded(kind: str, value: Any) -> Any:
    """What is the same where a collation calls texts the same; other values as they are.

    Of the texts that are drawn: ICU has more rules than these.
    """
    if value is None or not kind.startswith(COLLATED):
        return value
    rules = kind.removeprefix(COLLATED).split("_")
    text: str = value.rstrip(" ") if "RTRIM" in rules else value
    if "UNICODE" in rules:  # control characters do not count
        left_out = ("Cc", "Mn") if "AI" in rules else ("Cc",)
        letters = unicodedata.normalize("NFD", text)
        text = "".join(one for one in letters if unicodedata.category(one) not in left_out)
    return "".join(map(str.lower, text)) if {"LCASE", "CI"} & {*rules} else text


def equality(value: Any) -> Any:
    """What is equal exactly when Spark calls the values equal; values of one family, no nulls."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def compared(kind: str, value: Any) -> Any:
    """What is equal exactly when Spark calls values of a type the same; null is None."""
    return None if value is None else equality(folded(kind, value))


def order(value: Any) -> Any:
    """What orders values of one family as Spark does; no nulls."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def place(kind: str, value: Any, *, exact: bool) -> Any:
    """Where a value of any kind is in the order by which as-of chooses among rows; no nulls."""
    arrow = KINDS[kind].arrow
    if isinstance(value, float):
        sign = math.copysign(1.0, value) if exact and value == 0 else 0.0
        return (*order(value), sign)
    if pa.types.is_map(arrow):
        entries = [(order(key), _nested(item)) for key, item in value]
        return entries if exact else sorted(entries)
    if pa.types.is_nested(arrow):
        parts = value.values() if isinstance(value, dict) else value
        return [*map(_nested, parts)]
    return order(value)


def _nested(value: Any) -> Any:
    return (0, 0) if value is None else (1, order(value))


def array(kind: str, values: Sequence[Any]) -> pa.Array:
    """An Arrow array of values."""
    wanted = KINDS[kind].arrow
    if pa.types.is_date(wanted):
        return pa.array(values, pa.int32()).cast(wanted)
    if pa.types.is_timestamp(wanted) or pa.types.is_duration(wanted):
        return pa.array(values, pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def cells(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as :func:`shown` shows them."""
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        inside = pa.concat_arrays([pa.array([], kind), *column.chunks]).flatten().flatten()
        rows = zip(*(cells(pa.chunked_array([one])) for one in inside), strict=True)
        counts = pc.list_value_length(column).to_pylist()
        return [None if count is None else (*islice(rows, count),) for count in counts]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    values = column.to_pylist()
    if pa.types.is_floating(kind) or pa.types.is_nested(kind):
        return list(map(repr, values))
    return values


def shown(kind: str, value: Any) -> Any:
    """What is equal exactly when values of a column are the same: NaN is, -0.0 and 0.0 are not."""
    if (fields := fields_of(kind)) and value is not None:
        kinds = [inner for _, inner in fields]
        return tuple(tuple(map(shown, kinds, row)) for row in value)
    if KINDS[kind].family == "floating" or kind in ("list", "texts", "struct", "map"):
        return repr(value)
    return value
