"""Checks of arguments: each returns the value as plain Python, or says what is wrong with it.

What JSON and YAML bring by mistake (None, texts, booleans, NaN, infinity) is refused; numpy's
scalars are numbers. A rule gets a name, a value, and whose it is.
"""

import dataclasses
import math
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache, partial
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeVar

from scheduling.errors import ArgumentError

T = TypeVar("T")
Rule = Callable[..., Any]


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; booleans are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _refuse(name: str, value: Any, of: str, give: str) -> NoReturn:
    raise ArgumentError(f"{name}={value!r}{of}: give {give}")


def _rule(give: str, good: Rule, plain: Rule | None = None) -> Rule:
    def rule(name: str, value: Any, of: str = "") -> Any:
        if not good(value):
            _refuse(name, value, of, give)
        return plain(value) if plain else value

    return rule


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
        raise ArgumentError(f"{name} is empty: give a name{of}")
    return str(value)


def amounts(name: str, value: Any, of: str = "") -> Any:
    """A mapping to numbers."""
    for key, one in instance(Mapping)(name, value, of).items():
        number(f"{name}[{key!r}]", one, of)
    return value


def instance(kind: Any, give: str = "") -> Rule:
    """The rule that a value is an object of a class or a protocol, and not such a class itself."""
    return _rule(
        give or kind.__name__,
        lambda value: isinstance(value, kind) and not isinstance(value, type),
    )


def every(kind: type[T]) -> Callable[..., tuple[T, ...]]:
    """The rule that a value is a list, a tuple or another collection of objects of a class."""

    def rule(name: str, values: Any, of: str = "") -> tuple[T, ...]:
        some = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
        found = values if type(values) is tuple else tuple(values) if some else ()
        if not some or not all(isinstance(value, kind) for value in found):
            _refuse(name, values, of, f"a list or a tuple of {kind.__name__}")
        return found

    return rule


def unique(what: str, names: Iterable[str]) -> None:
    """Refuse duplicate names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the {what} {name!r} is there twice; give each an id of its own")
        seen.add(name)


def grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, tuple[T, ...]]:
    """The values of each name, in their order."""
    found: dict[str, list[T]] = {}
    for name, one in pairs:
        found.setdefault(name, []).append(one)
    return {name: tuple(ones) for name, ones in found.items()}


def rising(**given: float) -> None:
    """Refuse numbers that do not rise in their order."""
    if list(given.values()) != sorted(given.values()):
        told = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ArgumentError(f"{told}: give {' <= '.join(given)}")


def unchecked(kind: type[T], **values: Any) -> T:
    """An object of a frozen class without its checks: of values that have passed them before."""
    one = object.__new__(kind)
    one.__dict__.update(values)
    return one


finite = _rule("a finite number", is_number, float)
# A text such as 'false' would count as true.
flag = _rule("True or False", lambda value: type(value).__name__ in ("bool", "bool_"))

AnyText = Annotated[str, partial(text, empty=True)]
Endless = Annotated[float, partial(number, endless=True)]
Finite = Annotated[float, finite]
Positive = Annotated[float, partial(number, above=True)]
Share = Annotated[float, share]
SomeShare = Annotated[float, partial(share, above=True)]

_OF_TYPES: dict[type, Rule] = {bool: flag, int: whole, float: number, str: text}


class Checked:
    """The base of frozen dataclasses whose fields have the rules of their types, or ``Annotated``.

    ``_of`` tells whose a wrong value is, by its fields.
    """

    _of: ClassVar[str] = ""

    def __post_init__(self) -> None:
        now = self.__dict__
        for name, rule in _rules(type(self)):  # type: ignore[arg-type]
            try:
                now[name] = rule(name, now[name])
            except ArgumentError:  # texts are made for those alone that are wrong
                rule(name, now[name], self._of.format_map(now))
                raise


@cache
def _rules(kind: Any) -> tuple[tuple[str, Rule], ...]:
    types = typing.get_type_hints(kind, include_extras=True)
    fields = (one for one in dataclasses.fields(kind) if one.init)
    return tuple((one.name, _rule_of(types[one.name])) for one in fields)


def _rule_of(kind: Any) -> Rule:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return inner[1]  # type: ignore[no-any-return]
    if origin is Literal:
        give = f"one of {', '.join(map(repr, inner))}"
        return _rule(give, lambda value: isinstance(value, Hashable) and value in inner)
    if type(None) in inner:
        some = _rule_of(inner[0])
        return lambda name, value, of="": value if value is None else some(name, value, of)
    if origin is not None:
        return instance(origin) if issubclass(origin, Mapping) else every(inner[0])
    return _OF_TYPES.get(kind) or instance(kind)
