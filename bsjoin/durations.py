"""Durations as users write them: a timedelta, "5 minutes", or a number of seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from bsjoin.errors import ArgumentError

__all__ = ["seconds"]

_UNITS = {
    "microsecond": 1e-6, "us": 1e-6,
    "millisecond": 1e-3, "ms": 1e-3,
    "second": 1.0, "sec": 1.0, "s": 1.0,
    "minute": 60.0, "min": 60.0,
    "hour": 3600.0, "h": 3600.0,
    "day": 86400.0, "d": 86400.0,
    "week": 604800.0,
}  # fmt: skip
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")


def seconds(value: timedelta | str | float, name: str) -> float:
    """Read a duration.

    Args:
        value: a timedelta, a text of one or more "number unit" pairs, or a number of seconds.
        name: the argument's name, for the error message.

    Returns:
        The duration in seconds; a day is 24 hours.

    Raises:
        ArgumentError: months and years (which have no fixed length), unknown units, NaN.

    Example:
        >>> seconds("1 hour 30 minutes", "refresh")
        5400.0
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        text = value.strip().lower()
        parts = _PART.findall(text)
        if parts and not _PART.sub("", text).strip(" ,"):
            units = [_UNITS.get(unit, _UNITS.get(unit.removesuffix("s"))) for _, unit in parts]
            known = [unit for unit in units if unit is not None]
            if len(known) == len(units):
                return sum(float(n) * unit for (n, _), unit in zip(parts, known, strict=True))
    elif not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise ArgumentError(
        f"{name}={value!r} is not a duration: give a timedelta, a number of seconds, or a text "
        'such as "10 minutes" or "1 hour 30 minutes" (units: microseconds, milliseconds, '
        "seconds, minutes, hours, days, weeks; months and years have no fixed length)"
    )
