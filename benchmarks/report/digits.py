"""Numbers, times and dates as a reader wants them: few digits, none of them misleading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

__all__ = ["MISSING", "bound", "column", "date", "duration", "number", "spread"]

MISSING = "-"


def number(value: float, apart_from: float | None = None) -> str:
    """A value with two or three digits that count.

    Args:
        value: any float; infinity and NaN have their signs.
        apart_from: where the value is to be told from another one (its bound), as many digits
            more as that takes: 0.998 is not "1.00" when 1 was promised.

    >>> number(34.96), number(0.0134), number(1234.5), number(0.998, apart_from=1)
    ('35.0', '0.013', '1,234', '0.998')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    decimals = max(0, 2 - size if size >= 0 else 1 - size)
    text = _fixed(value, decimals)
    if apart_from is not None and value != apart_from and math.isfinite(apart_from):
        while decimals < 9 and float(text.replace(",", "")) == apart_from:
            decimals += 1
            text = _fixed(value, decimals)
    return text


def _fixed(value: float, decimals: int) -> str:
    return f"{value:.1e}" if decimals > 6 else f"{value:,.{decimals}f}"


def bound(value: float, at_most: bool) -> str:
    """What a figure is to be, as it was promised.

    >>> bound(1.25, at_most=True), bound(50.0, at_most=False)
    ('≤ 1.25', '≥ 50')
    """
    text = f"{int(value):,}" if float(value).is_integer() else f"{value:g}"
    return f"{'≤' if at_most else '≥'} {text}"


def spread(ends: Sequence[float] | None) -> str:
    """The smallest and the largest, or a dash."""
    return MISSING if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def column(values: Sequence[object]) -> list[str]:
    """The cells of one column of a table, with as many decimals in each.

    Whole numbers stay whole; where the smallest would vanish beside the largest, each has its own
    digits. None is a dash, and texts are left alone.

    >>> column([990.4, 1408.2, None, 266.0])
    ['990', '1,408', '-', '266']
    """
    floats = [v for v in values if isinstance(v, float) and math.isfinite(v) and v != 0]
    sizes = [math.floor(math.log10(abs(v))) for v in floats]
    decimals = 0
    if sizes and any(not v.is_integer() for v in floats):
        least, most = min(sizes), max(sizes)
        decimals = min(max(0, 1 - least, 2 - most), max(0, 3 - most))
        if least < -decimals or decimals > 6:
            return [_cell(v, None) for v in values]
    return [_cell(v, decimals) for v in values]


def _cell(value: object, decimals: int | None) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value) and value != 0 and decimals is not None:
        return f"{value:,.{decimals}f}"
    return number(value) if isinstance(value, int | float) else str(value)


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.31), duration(42.3), duration(200), duration(3900)
    ('0.3 s', '42 s', '3 min 20 s', '1 h 05 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def date(when: str, clock: bool = True) -> str:
    """An ISO time in UTC, to the minute or to the day; a text that is none is left as it is.

    >>> date("2026-11-21T09:05:33+00:00")
    '2026-11-21 09:05 UTC'
    """
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return when
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC" if clock else "%Y-%m-%d")
