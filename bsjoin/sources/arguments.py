"""Arguments that several sources take."""

from __future__ import annotations

from datetime import timedelta

from bsjoin.errors import ArgumentError
from bsjoin.values.durations import seconds

__all__ = ["check_max_keys", "positive"]


def check_max_keys(max_keys: object) -> None:
    """Refuse what is no number of keys.

    Raises:
        ArgumentError: it is not a whole number above zero.
    """
    if type(max_keys) is not int or max_keys < 1:
        raise ArgumentError(f"max_keys={max_keys!r}: give a whole number above zero")


def positive(duration: timedelta | str | float, name: str) -> float:
    """The seconds of a duration.

    Raises:
        ArgumentError: it is not a duration above zero.
    """
    value = seconds(duration, name)
    if value <= 0:
        raise ArgumentError(f"{name}={duration!r}: it must be above zero")
    return value
