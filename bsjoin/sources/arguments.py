"""Arguments that several sources take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bsjoin.errors import ArgumentError, StoreError
from bsjoin.storage.addresses import address_of
from bsjoin.values.durations import seconds

_LONGEST_S = 2_000_000.0  # in milliseconds it fits into 32 bits


def located(path: str | os.PathLike[str], name: str) -> str:
    """What a path or URL means; the error of one that cannot be used names the argument."""
    try:
        return address_of(path)
    except StoreError as error:
        raise ArgumentError(f"{name}: {error}") from None


def check_unique(unique: object, *, or_none: bool = True) -> None:
    """Refuse what is neither True nor False, nor None where that asks the source."""
    if not (isinstance(unique, bool) or (unique is None and or_none)):
        told = ", or None: as the source says" if or_none else ""
        raise ArgumentError(f"unique={unique!r}: give True or False{told}")


def check_max_keys(max_keys: object) -> None:
    """Refuse what is no number of keys."""
    if type(max_keys) is not int or max_keys < 1:
        raise ArgumentError(f"max_keys={max_keys!r}: give a whole number above zero")


def check_texts(options: Any, name: str) -> dict[str, str]:
    """The options of a library; None: none. An error shows none of them."""
    given = {} if options is None else options
    if not isinstance(given, Mapping) or not all(
        isinstance(part, str) for pair in given.items() for part in pair
    ):
        raise ArgumentError(f"{name}: give a dict of names and values, all of them texts")
    return dict(given)


def positive(duration: timedelta | str | float, name: str) -> float:
    """The seconds of a duration above zero; at most 23 days, which drivers and threads take."""
    value = seconds(duration, name)
    if value <= 0:
        raise ArgumentError(f"{name}={duration!r}: it must be above zero")
    return min(value, _LONGEST_S)
