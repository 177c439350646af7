"""Types of range columns for the tests: hostile values, widths, conditions of every kind.

Widths are in units of the codes: ones, days, microseconds, a decimal's last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.conditions import Take

When = Band | Within | Overlaps | AsOf

LOW, HIGH = -(2**63), 2**63 - 1
INF, NAN, LARGEST = math.inf, math.nan, 1.7976931348623157e308
CLOSED = ("both", "left", "right", "neither")
CONDITIONS = ("band", "within", "overlaps", "asof")


@dataclass(frozen=True)
class Kind:
    """A type in which range columns are searched.

    Args:
        arrow: the type.
        at: the values of a scale: 0, 1, 2, and so on, ascending.
        ends: hostile values: the ends of the type, and neighbours that look alike.
        any: all values.
        widths: of bands and tolerances; none where nothing can be subtracted.
        number: a value as a number in units of the codes.
        probe: the stream's type, where it is a longer one.
        finer: how many digits it has behind those of the table's; the units are then its own.
        closed: which ends intervals may have.
    """

    arrow: pa.DataType
    at: Callable[[int], Any]
    ends: Sequence[Any]
    any: st.SearchStrategy[Any]
    widths: Sequence[Any] = ()
    number: Callable[[Any], Any] = lambda value: value
    probe: Kind | None = None
    finer: int = 0
    closed: tuple[str, ...] = CLOSED

    @property
    def probes(self) -> Kind:
        """The type of the stream's side."""
        return self.probe or self

    @property
    def few(self) -> list[Any]:
        """Values that meet."""
        return [*map(self.at, range(9)), *self.ends]

    @property
    def value(self) -> st.SearchStrategy[Any]:
        """Mostly values that meet; some null."""
        few = st.sampled_from(self.few)
        return st.one_of(few, few, few, self.any, st.none())

    @property
    def floating(self) -> bool:
        """Whether the values are floating-point numbers."""
        return bool(pa.types.is_floating(self.arrow))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that suit the type."""
        return CONDITIONS if self.widths else CONDITIONS[1:]


_WIDE = Context(prec=100)
_DAY, _MONTH = timedelta(days=1), datetime(2026, 3, 1)
_MINUTE, _MICROSECOND = timedelta(minutes=1), timedelta(microseconds=1)


def _decimal(
    digits: int, scale: int, *ends: int, widths: Sequence[Any], probe: Kind | None = None
) -> Kind:
    """Decimals; ends and widths in units of the last digit."""
    most = 10**digits - 1

    def at(unit: int) -> Decimal:
        return Decimal(unit).scaleb(-scale, _WIDE)

    return Kind(
        pa.decimal128(digits, scale),
        at,
        list(map(at, (*ends, -1, most, -most))),
        st.integers(-most, most).map(at),
        widths,
        lambda value: int(value.scaleb(scale, _WIDE)),
        probe,
    )


def _times(zone: tzinfo | None) -> Kind:
    epoch = datetime(1970, 1, 1, tzinfo=zone)
    return Kind(
        pa.timestamp("us", zone and "UTC"),
        lambda n: _MONTH.replace(tzinfo=zone) + n * 20 * _MINUTE,
        [time.replace(tzinfo=zone) for time in (datetime.min, datetime.max)]
        + [epoch, epoch - _MICROSECOND],
        st.datetimes(timezones=st.just(zone)),
        (0, 1_200_000_000, 2_400_000_000, 10**18, INF),
        lambda time: (time - epoch) // _MICROSECOND,
    )


_TEXTS = ["", "\0", "a" * 7, "a" * 7 + "\0", "a" * 8, "a" * 16 + "b", "Ä", "\uffff", "😀"]

_LONG = _decimal(
    38, 6, *(2**64 + n for n in (-1, 0, 1)), -(2**64), widths=(0, 1, 2, 2**64, 10**37, 10**300, INF)
)

KINDS: dict[str, Kind] = {
    "bigint": Kind(
        pa.int64(),
        lambda n: n,
        [-1, LOW, LOW + 1, HIGH - 1, HIGH],
        st.integers(LOW, HIGH),
        (0, 2, Decimal("1.5"), 2**63, 2**65 + 1, 10**300, INF),
    ),
    "double": Kind(
        pa.float64(),
        lambda n: n / 2,
        [-0.0, 0.1, 5e-324, LARGEST, -LARGEST, INF, -INF, NAN],
        st.floats(),
        (0.0, 0.5, 1.0, 0.1, LARGEST, INF),
    ),
    "decimal(18,2)": _decimal(18, 2, widths=(0, 2, Decimal("1.5"), 2**64, INF)),
    "date": Kind(
        pa.date32(),
        lambda n: _MONTH.date() + n * _DAY,
        [date.min, date.max, date(1970, 1, 1), date(1969, 12, 31)],
        st.dates(),
        (0, 1, 2, 10**9),
        lambda day: (day - date(1970, 1, 1)).days,
    ),
    "timestamp": _times(UTC),
    "timestamp_ntz": _times(None),
    "string": Kind(pa.string(), "aaaaaaa{:05}".format, _TEXTS, st.text(max_size=12)),
    "binary": Kind(
        pa.binary(),
        lambda n: b"aaaaaaa%05d" % n,
        [*(text.encode() for text in _TEXTS), b"\xff" * 9],
        st.binary(max_size=12),
    ),
    "decimal(38,6)": _LONG,
    "decimal(18,6) by decimal(38,6)": _decimal(18, 6, widths=_LONG.widths, probe=_LONG),
}


KINDS |= {
    f"{name} by decimal(38,6)": replace(
        kind,
        widths=(0, 1, 2_000_000, Decimal("1.5"), 2**64, 10**37, INF),
        number=lambda value: int(Decimal(value).scaleb(6, _WIDE)),
        probe=_decimal(
            38, 6, *(near * 10**6 + n for near in ends for n in (-1, 0, 1, 10**5, 10**6)), widths=()
        ),
        finer=finer,
        closed=("left",) if name == "bigint" else CLOSED,
    )
    for name, kind, finer, ends in [
        ("bigint", KINDS["bigint"], 6, (0, 1, 2, 3, LOW, HIGH)),
        ("decimal(18,2)", KINDS["decimal(18,2)"], 4, (0, 2, 3, 10**16, 2**64)),
        ("decimal(30,4)", _decimal(30, 4, widths=()), 2, (0, 2, 3, 10**24, -(10**26))),
    ]
}


def whens(kind: Kind, condition: str) -> st.SearchStrategy[When]:
    """Conditions for a type, of the stream's columns p and x and the table's q and y."""
    if condition == "band":
        return st.sampled_from(_bands(kind.widths))
    if condition == "within":
        takes: list[Take] = ["all", "latest_start", "earliest_end", "first"]
        takes += ["shortest"] if kind.widths else []
        return st.sampled_from(
            [
                Within("p", "q", "y", closed, take, "n desc" if take != "all" else ())
                for take in takes
                for closed in kind.closed
            ]
        )
    if condition == "overlaps":
        return st.sampled_from([Overlaps(("p", "x"), ("q", "y"), closed) for closed in kind.closed])
    return st.builds(
        lambda *rest, n: AsOf("p", "q", *rest, n=n),
        st.sampled_from(["backward", "forward", *(["nearest"] if kind.widths else [])]),
        st.sampled_from([None, *kind.widths]),
        st.booleans(),
        n=st.sampled_from([1, 1, 2, 3, 100]),
    )


def _bands(widths: Sequence[Any]) -> list[Band]:
    """All bands of these widths that are not empty, on both sides of the point and on one."""
    sides = {(b, a) for b in widths for a in widths}
    sides |= {(-b, a) for b, a in sides if b < a} | {(b, -a) for b, a in sides if b > a}
    return [
        Band("p", "q", before, after, closed)
        for before, after in sorted(sides)
        for closed in CLOSED
        if before > -after or (before == -after and closed == "both")
    ]
