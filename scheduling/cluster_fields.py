"""The values of a cluster file, each with its name and place: errors say which field it is."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from scheduling.errors import ArgumentError, ClusterFileError

__all__ = ["Field"]

# YAML 1.1 reads 1e5 and 1.0e12 as texts: its numbers have a point and a sign there.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


@dataclass(frozen=True)
class Field:
    """A value of a file. Every method raises :class:`ClusterFileError` for one of another kind.

    Args:
        value: what the file says.
        where: what it is called in errors.
        path: names and positions that lead to it; the errors have it as ``path``.
    """

    value: Any
    where: str = "the file"
    path: tuple[Any, ...] = ()

    def error(self, rule: str) -> ClusterFileError:
        """An error that says the value and the rule."""
        return ClusterFileError(f"{self.where} is {self.value!r}: {rule}", self.path)

    def fields(self, names: str, need: Iterable[str] = ()) -> dict[str, Field]:
        """The fields of a mapping, which has these ``names`` only, and all those in ``need``."""
        if self.value is None:
            raise ClusterFileError(f"{self.where} is empty: give names with values", self.path)
        if not isinstance(self.value, Mapping):
            raise self.error("give names with values")
        known = names.split()
        for name in self.value:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}"
                message = f"{self.where} has no field {name!r}. {hint}"
                raise ClusterFileError(message, (*self.path, name))
        for name in need:
            if name not in self.value:
                raise ClusterFileError(f"{self.where} lacks {name!r}; add it", self.path)
        return {name: self.at(name) for name in self.value}

    def read(self, names: str, need: Iterable[str] = ()) -> dict[str, Any]:
        """The values of the fields of a mapping that are given; mappings as they are."""
        given = self.fields(names, need).items()
        return {name: _KINDS.get(name, Field.number)(one) for name, one in given}

    def named(self, what: str, by: str, names: str) -> tuple[Field, dict[str, Any]]:
        """The same under the name that one of its fields gives, and the values of all."""
        name = self.fields(names, need=(by,))[by].text()
        row = replace(self, where=f"{what} {name!r}")
        return row, row.read(names)

    def at(self, name: Any) -> Field:
        """A field of a mapping."""
        where = f"{name} of {self.where}" if self.path else str(name)
        return Field(self.value[name], where, (*self.path, name))

    def rows(self) -> list[Field]:
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise self.error("give a list")
        each = enumerate(self.value)
        return [Field(value, f"{self.where}[{k}]", (*self.path, k)) for k, value in each]

    def number(self) -> float:
        """A number, which may be out of any range."""
        if isinstance(self.value, str) and _EXPONENT.fullmatch(self.value):
            return float(self.value)
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            hint = ", without quotes and units" if isinstance(self.value, str) else ""
            raise self.error(f"give a number{hint}")
        return float(self.value)

    def measured(self) -> float:
        """A finite number of at least 0."""
        value = self.number()
        if not 0 <= value < math.inf:
            raise self.error("give a finite number, at least 0")
        return value

    def count(self, least: int = 0) -> int:
        """A whole number of at least ``least``."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(f"give a whole number, at least {least}")
        return value

    def text(self) -> str:
        """A text; a number is the text that shows it."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            raise self.error("give a text; quote what YAML takes for something else")
        if self.value == "":
            raise self.error("give a name")
        return str(self.value)

    @contextmanager
    def making(self) -> Iterator[None]:
        """Say of an error of what is made of a mapping whose it is, and in which field."""
        try:
            yield
        except ClusterFileError:
            raise
        except ArgumentError as error:
            name = re.match(r"\w*", str(error))
            inside = name is not None and isinstance(self.value, Mapping) and name[0] in self.value
            path = (*self.path, name[0]) if name and inside else self.path
            raise ClusterFileError(f"{self.where}: {error}", path) from error


_KINDS: dict[str, Callable[[Field], Any]] = {
    **dict.fromkeys(("pattern", "tier", "id", "host", "executor_id", "name"), Field.text),
    **dict.fromkeys(("tuples", "cost", "busyness", "cpu", "memory"), Field.measured),
    "slots": Field.count,
    "parallelism": partial(Field.count, least=1),
    "preferred": lambda one: tuple(row.text() for row in one.rows()),
    "weights": lambda one: tuple(row.number() for row in one.rows()),
    **dict.fromkeys(("to", "reserved"), lambda one: one),
}  # all other fields are numbers
