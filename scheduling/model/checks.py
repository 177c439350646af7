"""Checks of arguments: each returns the value as plain Python, or says what is wrong with it.

What JSON and YAML bring by mistake (None, texts, booleans, NaN, infinity) is refused; numpy's
scalars are taken for the numbers that they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from scheduling.errors import ArgumentError

__all__ = [
    "each",
    "flag",
    "instance",
    "is_number",
    "number",
    "one_of",
    "set_fields",
    "share",
    "text",
]
__all__ += ["unique", "whole"]

T = TypeVar("T")


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; booleans are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def number(
    name: str, value: Any, of: str = "", *, above: bool = False, endless: bool = False
) -> float:
    """A finite number of at least zero, or ``above`` it; ``endless``: infinity is one, too.

    ``name`` is what it is called in errors, ``of`` tells whose it is; so in the others here.
    """
    if type(value) in (float, int) and 0 < value < math.inf:
        return value  # type: ignore[no-any-return]
    known = is_number(value) or (endless and isinstance(value, Real) and value == math.inf)
    if not known or value < 0 or (above and value == 0):
        rule = "greater than 0" if above else "at least 0"
        kind = "number" if endless else "finite number"
        raise ArgumentError(f"{name}{of}={value!r}: give a {kind}, {rule}")
    return int(value) if isinstance(value, Integral) else float(value)


def whole(name: str, value: Any, of: str = "", *, least: int = 0) -> int:
    """A whole number of at least ``least``."""
    if type(value) is int and value >= least:
        return value
    if not is_number(value) or value != int(value) or value < least:
        raise ArgumentError(f"{name}={value!r}{of}: give {least}, {least + 1}, {least + 2}, ...")
    return int(value)


def share(
    name: str, value: Any, of: str = "", *, above: bool = False, below: bool = False
) -> float:
    """A number in [0, 1]; ``above``: not 0, ``below``: not 1."""
    if type(value) is float and 0 < value < 1:
        return value
    inside = is_number(value) and 0 <= value <= 1
    if not inside or (above and value == 0) or (below and value == 1):
        most = "below 1" if below else "at most 1"
        raise ArgumentError(
            f"{name}={value!r}{of}: give a share, {'above' if above else 'at least'} 0 and {most}"
        )
    return float(value)


def text(name: str, value: Any, of: str = "", *, empty: bool = False) -> str:
    """A text, by default one that is not empty."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}{of}={value!r}: give a text")
    if not (value or empty):
        raise ArgumentError(f"{name}{of} is empty: give a name")
    return str(value)


def flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False: a text such as 'false' would count as true."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise ArgumentError(f"{name}={value!r}: give True or False")


def one_of(name: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse a value that is none of the known ones."""
    every = list(known)
    if isinstance(value, list | dict | set) or value not in every:
        raise ArgumentError(f"{name}={value!r}: give one of {', '.join(map(repr, every))}")


def instance(name: str, value: Any, kind: type[T], of: str = "") -> T:
    """An object of a class."""
    if not isinstance(value, kind):
        raise ArgumentError(f"{name}{of}={value!r}: give {kind.__name__}")
    return value


def each(name: str, values: Any, kind: type[T], of: str = "") -> tuple[T, ...]:
    """Some objects of a class, in a list, a tuple or another collection; a text is none."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name}{of}={values!r}: give a list or a tuple of {kind.__name__}")
    if type(values) is tuple and all(type(value) is kind for value in values):
        return values
    return tuple(instance(f"one of {name}", value, kind, of) for value in values)


def unique(what: str, names: Iterable[str]) -> None:
    """Refuse duplicate names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the {what} {name!r} is there twice; give each an id of its own")
        seen.add(name)


def set_fields(one: object, **values: Any) -> None:
    """Set the fields of a frozen object to what a check returned."""
    now = one.__dict__
    for name, value in values.items():
        if name not in now or now[name] is not value:
            object.__setattr__(one, name, value)
