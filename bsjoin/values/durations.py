"""Durations as users write them: a timedelta, "5 minutes", or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from bsjoin.errors import ArgumentError
from bsjoin.values.scalars import exact, plain, shown

_UNITS = {
    "microsecond": Fraction(1, 10**6), "us": Fraction(1, 10**6),
    "millisecond": Fraction(1, 10**3), "ms": Fraction(1, 10**3),
    "second": Fraction(1), "sec": Fraction(1), "s": Fraction(1),
    "minute": Fraction(60), "min": Fraction(60),
    "hour": Fraction(3600), "h": Fraction(3600),
    "day": Fraction(86_400), "d": Fraction(86_400),
    "week": Fraction(604_800),
}  # fmt: skip
_PART = re.compile(r"([+-]?\d{1,100}(?:\.\d{1,100})?)\s*([a-z]+)")
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_US = 1 << 61  # 73,000 years: a time and twice as much fit into 64 bits


def seconds(value: timedelta | str | float, name: str) -> float:
    """Read a duration, rounded to a floating-point number.

    Args:
        value: a timedelta, a text of one or more "number unit" pairs, or a number of seconds; a
            scalar of NumPy or pandas too.
        name: the argument's name, for the error message.

    Returns:
        The duration in seconds; a day is 24 hours.

    Raises:
        ArgumentError: months and years (which have no fixed length), unknown units, NaN.

    Example:
        >>> seconds("1 hour 30 minutes", "refresh")
        5400.0
    """
    found = exact_seconds(value, name)
    try:
        return float(found)
    except OverflowError:
        raise _error(value, name) from None


def microseconds(length_s: float) -> int:
    """A duration above zero in whole microseconds, as workers and the JVM count them.

    Example:
        >>> microseconds(2.5e-6), microseconds(1e-9), microseconds(1e308)
        (2, 1, 2305843009213693952)
    """
    return max(1, round(min(length_s * 1e6, _LONGEST_US)))


def microseconds_ago(value: timedelta | str | float, name: str) -> int:
    """Read how long ago something is: a duration in microseconds, not below zero.

    Longer ones count as 73,000 years.

    Args:
        value: as for :func:`seconds`.
        name: as for :func:`seconds`.

    Raises:
        ArgumentError: as for :func:`seconds`, or it is in the future.

    Example:
        >>> microseconds_ago("2 ms", "older_than")
        2000
    """
    found = round(max(-1.0, min(seconds(value, name) * 1e6, _LONGEST_US)))
    if found < 0:
        raise ArgumentError(f"{name}={shown(value)} is below zero: give 0 or more")
    return found


def exact_seconds(value: object, name: str) -> Fraction:
    """Read a duration, nothing rounded; a floating-point number is its shortest decimal text.

    Args:
        value: as for :func:`seconds`, or a ``Decimal`` or ``Fraction`` of seconds.
        name: as for :func:`seconds`.

    Raises:
        ArgumentError: as for :func:`seconds`.

    Example:
        >>> exact_seconds(0.1, "before")
        Fraction(1, 10)
    """
    try:
        found = plain(value)
    except ValueError as error:
        raise _error(value, name, f" ({error})") from None
    if isinstance(found, timedelta):
        return Fraction(found // _MICROSECOND, 10**6)
    if isinstance(found, str):
        text = found.strip().lower()
        parts = _PART.findall(text)
        if parts and not _PART.sub("", text).strip(" ,"):
            units = [_UNITS.get(unit, _UNITS.get(unit.removesuffix("s"))) for _, unit in parts]
            known = [unit for unit in units if unit is not None]
            if len(known) == len(units):
                numbers = (Fraction(number) for number, _ in parts)
                return sum((n * unit for n, unit in zip(numbers, known, strict=True)), Fraction(0))
    elif isinstance(found, int | float | Decimal | Fraction) and not isinstance(found, bool):
        try:
            number = exact(found)
        except ValueError as error:
            raise _error(value, name, f" ({error})") from None
        if isinstance(number, Fraction):
            return number
    raise _error(value, name)


def _error(value: object, name: str, why: str = "") -> ArgumentError:
    return ArgumentError(
        f"{name}={shown(value)} is not a duration{why}: give a timedelta, a number of seconds, or "
        'a text such as "10 minutes" or "1 hour 30 minutes" (units: microseconds, milliseconds, '
        "seconds, minutes, hours, days, weeks; months and years have no fixed length)"
    )
