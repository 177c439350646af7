"""Widths of bands and tolerances: numbers and durations as users write them, nothing rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from bsjoin.errors import ArgumentError, suggest
from bsjoin.values.durations import exact_seconds
from bsjoin.values.scalars import exact, plain, shown

Width = int | float | Decimal | Fraction | timedelta | str

_MICROSECOND = timedelta(microseconds=1)
_IN_JSON: dict[str, tuple[type[Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int": (int, str, int),
    "float": (float, repr, float),
    "decimal": (Decimal, str, Decimal),
    # int() bounds the digits; a text with an exponent could make an integer of a gigabyte.
    "fraction": (Fraction, str, lambda text: Fraction(*map(int, text.split("/", 1)))),
    "microseconds": (timedelta, lambda t: t // _MICROSECOND, lambda n: timedelta(microseconds=n)),
    "text": (str, str, str),
}


def as_width(value: object, argument: str) -> Width:
    """An argument as a width of Python's own types.

    Raises:
        ArgumentError: it is no width, or a duration of a fraction of a microsecond.

    >>> as_width(" 5 minutes", "before"), as_width(Decimal("0.5"), "after")
    (' 5 minutes', Decimal('0.5'))
    """
    if isinstance(value, bool):
        raise ArgumentError(f"{argument}={value!r}: give a width, not a boolean")
    try:
        width = plain(value)
        if isinstance(width, bool):
            raise ValueError("it is a boolean")
        if isinstance(width, int | float | Decimal | Fraction):
            exact(width)
            return width
    except ValueError as error:
        raise ArgumentError(
            f"{argument}={shown(value)} is not a width: {error}. Give a number, a timedelta, or a "
            'text such as "5 minutes"'
        ) from None
    if (exact_seconds(value, argument) * 10**6).denominator != 1:
        raise ArgumentError(
            f"{argument}={shown(value)} is no whole number of microseconds, the shortest duration "
            "that Spark has"
        )
    return width  # type: ignore[return-value]


def is_duration(width: Width) -> bool:
    """Whether a width is a duration, not a number."""
    return isinstance(width, str | timedelta)


def size_of(width: Width) -> Fraction | float:
    """A width as a number, a duration in seconds; a float only where it is infinite.

    >>> size_of(0.3), size_of("1 hour"), size_of(Decimal("-Infinity"))
    (Fraction(3, 10), Fraction(3600, 1), -inf)
    """
    if isinstance(width, str | timedelta):
        return exact_seconds(width, "width")
    return exact(width)


def sum_of(one: Fraction | float, other: Fraction | float) -> Fraction | float:
    """The sum of two sizes; NaN for two infinities of different signs."""
    infinite = [size for size in (one, other) if isinstance(size, float)]
    return sum(infinite) if infinite else Fraction(one) + Fraction(other)


def width_to_json(width: Width) -> dict[str, Any]:
    """A width with its type, as plain JSON."""
    kind, write = next((k, w) for k, (t, w, _) in _IN_JSON.items() if isinstance(width, t))
    return {kind: write(width)}


def width_from_json(data: object) -> Width:
    """The inverse of :func:`width_to_json`, for data that is not trusted.

    Raises:
        ValueError: it is not a width.
    """
    if not isinstance(data, Mapping) or len(data) != 1:
        raise ValueError(f"{data!r} is not an object with one name")
    kind, value = next(iter(data.items()))
    if kind not in _IN_JSON or type(value) is not (int if kind == "microseconds" else str):
        raise ValueError(f"{data!r} is not a width. {suggest(str(kind), _IN_JSON)}")
    try:
        width: Width = _IN_JSON[kind][2](value)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"{data!r} is not a width: {error!r}") from error
    return width
