"""Checks of arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scheduling.errors import ArgumentError

__all__ = ["number", "unique"]


def number(name: str, value: float, *, above: bool = False) -> None:
    """Refuse a value that is not a finite number of at least zero (``above``: above zero)."""
    if not (math.isfinite(value) and (value > 0 if above else value >= 0)):
        rule = "greater than 0" if above else "at least 0"
        raise ArgumentError(f"{name}={value!r}: give a finite number, {rule}")


def unique(what: str, names: Iterable[str]) -> None:
    """Refuse duplicate names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the {what} {name!r} is there twice; give each an id of its own")
        seen.add(name)
