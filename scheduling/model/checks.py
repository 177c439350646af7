"""Checks of arguments: each returns the value as plain Python, or says what is wrong with it.

What JSON and YAML bring by mistake (None, texts, booleans, NaN, infinity) is refused; numpy's
scalars are taken for the numbers that they are. A rule gets a name, a value, and whose it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

from scheduling.errors import ArgumentError

__all__ = ["check", "every", "finite", "flag", "instance", "is_number", "number", "one_of"]
__all__ += ["optional", "positive", "set_fields", "share", "some_share", "text", "unchecked"]
__all__ += ["unique", "whole"]

T = TypeVar("T")
Rule = Callable[..., Any]


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; booleans are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _refuse(name: str, value: Any, of: str, give: str) -> NoReturn:
    raise ArgumentError(f"{name}={value!r}{of}: give {give}")


def number(
    name: str, value: Any, of: str = "", *, above: bool = False, endless: bool = False
) -> float:
    """A finite number of at least zero, or ``above`` it; ``endless``: infinity is one, too."""
    if type(value) in (float, int) and 0 <= value < math.inf and (value or not above):
        return value  # type: ignore[no-any-return]
    known = is_number(value) or (endless and isinstance(value, Real) and value == math.inf)
    if not known or value < 0 or (above and value == 0):
        kind = "a number" if endless else "a finite number"
        hint = ", without quotes and units" if isinstance(value, str) else ""
        _refuse(name, value, of, f"{kind}, {'greater than 0' if above else 'at least 0'}{hint}")
    return int(value) if isinstance(value, Integral) else float(value)


def finite(name: str, value: Any, of: str = "") -> float:
    """A finite number, also below zero."""
    if not is_number(value):
        _refuse(name, value, of, "a finite number")
    return float(value)


def whole(name: str, value: Any, of: str = "", *, least: int = 0) -> int:
    """A whole number of at least ``least``."""
    if not is_number(value) or value != int(value) or value < least:
        _refuse(name, value, of, f"{least}, {least + 1}, {least + 2}, ...")
    return int(value)


def share(
    name: str, value: Any, of: str = "", *, above: bool = False, below: bool = False
) -> float:
    """A number in [0, 1]; ``above``: not 0, ``below``: not 1."""
    inside = is_number(value) and 0 <= value <= 1
    if not inside or (above and value == 0) or (below and value == 1):
        least, most = "above" if above else "at least", "below 1" if below else "at most 1"
        _refuse(name, value, of, f"a share, {least} 0 and {most}")
    return float(value)


def text(name: str, value: Any, of: str = "", *, empty: bool = False) -> str:
    """A text, by default one that is not empty."""
    if not isinstance(value, str):
        _refuse(name, value, of, "a text")
    if not (value or empty):
        raise ArgumentError(f"{name}{of} is empty: give a name")
    return str(value)


def flag(name: str, value: Any, of: str = "") -> Any:
    """True or False: a text such as 'false' would count as true."""
    if type(value).__name__ not in ("bool", "bool_"):
        _refuse(name, value, of, "True or False")
    return value


positive = partial(number, above=True)
some_share = partial(share, above=True)


def one_of(*known: Any) -> Rule:
    """The rule that a value is one of the known ones."""

    def rule(name: str, value: Any, of: str = "") -> Any:
        if isinstance(value, list | dict | set) or value not in known:
            _refuse(name, value, of, f"one of {', '.join(map(repr, known))}")
        return value

    return rule


def instance(kind: Any, give: str = "") -> Rule:
    """The rule that a value is an object of a class or a protocol, and not such a class itself."""

    def rule(name: str, value: Any, of: str = "") -> Any:
        if isinstance(value, type) or not isinstance(value, kind):
            _refuse(name, value, of, give or kind.__name__)
        return value

    return rule


def every(kind: type[T]) -> Callable[..., tuple[T, ...]]:
    """The rule that a value is a list, a tuple or another collection of objects of a class."""

    def rule(name: str, values: Any, of: str = "") -> tuple[T, ...]:
        some = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
        found = values if type(values) is tuple else tuple(values) if some else ()
        if not some or not all(isinstance(value, kind) for value in found):
            _refuse(name, values, of, f"a list or a tuple of {kind.__name__}")
        return found

    return rule


def optional(rule: Rule) -> Rule:
    """A rule for all but None."""
    return lambda name, value, of="": value if value is None else rule(name, value, of)


def unique(what: str, names: Iterable[str]) -> None:
    """Refuse duplicate names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the {what} {name!r} is there twice; give each an id of its own")
        seen.add(name)


def check(one: object, of: str = "", /, **rules: Rule) -> None:
    """Check fields of a frozen object, each by its rule, and keep what the rule returns."""
    now = one.__dict__
    for name, rule in rules.items():
        good = rule(name, now[name], of)
        if good is not now[name]:
            object.__setattr__(one, name, good)


def unchecked(kind: type[T], **values: Any) -> T:
    """An object of a frozen class without its checks: of values that have passed them before."""
    one = object.__new__(kind)
    one.__dict__.update(values)
    return one


def set_fields(one: object, **values: Any) -> None:
    """Set the fields of a frozen object to what a check returned."""
    now = one.__dict__
    for name, value in values.items():
        if name not in now or now[name] is not value:
            object.__setattr__(one, name, value)
