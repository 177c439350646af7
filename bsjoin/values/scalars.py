"""Scalars of NumPy and pandas as Python's own; floating-point numbers as their shortest text."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np

_MOST_DIGITS = 1000
_MOST_BITS = (10**_MOST_DIGITS).bit_length()
_PER_SECOND = {"ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
_MICROSECONDS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 60 * 10**6,
    "h": 3600 * 10**6,
    "D": 86_400 * 10**6,
    "W": 604_800 * 10**6,
}


def plain(value: object) -> object:
    """A scalar of NumPy or pandas as Python's own of the same value; anything else as it is.

    A short floating-point number becomes the one with the same text: ``np.float32(0.3)`` is 0.3.

    Raises:
        ValueError: a duration that Python's ``timedelta`` cannot have.

    >>> plain(np.int16(5)), plain(np.float32(0.3)), plain(np.timedelta64(90, "m"))
    (5, 0.3, datetime.timedelta(seconds=5400))
    """
    if isinstance(value, np.timedelta64):  # which NumPy counts among the integers
        return _duration(value)
    if isinstance(value, np.longdouble):
        return Decimal(str(value))
    if isinstance(value, np.floating):
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, timedelta) and type(value) is not timedelta:
        if getattr(value, "nanoseconds", 0):  # of pandas' Timedelta
            raise ValueError("it has nanoseconds, and Spark's times have microseconds")
        return timedelta(value.days, value.seconds, value.microseconds)
    return value


def exact(number: float | Decimal | Fraction) -> Fraction | float:
    """A number; one of floating point as its shortest decimal text. Infinities stay floats.

    Raises:
        ValueError: it is NaN, or has more than 1,000 digits before or after the point.

    >>> exact(0.3)
    Fraction(3, 10)
    """
    if isinstance(number, float):
        number = Decimal(repr(float(number)))
    if isinstance(number, Decimal):
        if number.is_nan():
            raise ValueError("it is not a number")
        if number.is_infinite():
            return float(number)
        # An exponent of nine digits would make an integer of a gigabyte.
        if number and max(abs(number.adjusted()), -number.as_tuple().exponent) > _MOST_DIGITS:  # type: ignore[operator]
            raise ValueError(f"it has more than {_MOST_DIGITS} digits")
    elif max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
        raise ValueError(f"it has more than {_MOST_DIGITS} digits")
    return Fraction(number)


def shown(value: object) -> str:
    """The ``repr`` of an argument in a message, if it is short.

    >>> shown(0.5), shown(10**99)
    ('0.5', 'an integer of many digits')
    """
    if isinstance(value, int) and abs(value) >= 10**40:
        return "an integer of many digits"
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _duration(value: np.timedelta64) -> timedelta:
    unit, count = np.datetime_data(value.dtype)
    if np.isnat(value):
        raise ValueError("it is no duration")
    number = int(value.astype(np.int64)) * count
    if unit in _PER_SECOND:
        number, rest = divmod(number * 10**6, _PER_SECOND[unit])
        if rest:
            raise ValueError("it is no whole number of microseconds, which Spark's times have")
        unit = "us"
    if unit not in _MICROSECONDS:
        raise ValueError("its unit has no fixed length")
    try:
        return timedelta(microseconds=number * _MICROSECONDS[unit])
    except OverflowError:
        raise ValueError("it is longer than Python's timedelta can be") from None
