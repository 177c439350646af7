"""What the parts of the model are refused for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scheduling.errors import ArgumentError

__all__ = ["number", "unique"]


def number(name: str, value: float, *, above: bool = False) -> None:
    """Refuse what is no finite number of at least zero (``above``: more than zero)."""
    if not (math.isfinite(value) and (value > 0 if above else value >= 0)):
        rule = "greater than 0" if above else "at least 0"
        raise ArgumentError(f"{name}={value!r}: give a finite number, {rule}")


def unique(what: str, names: Iterable[str]) -> None:
    """Refuse a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the {what} {name!r} is there twice; give each an id of its own")
        seen.add(name)
