"""The values of a cluster file, each with its name and place: errors say which field it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from scheduling.errors import ArgumentError, ClusterFileError, did_you_mean
from scheduling.model.checks import text

# YAML 1.1 reads 1e5 and 1.0e12 as texts: its numbers have a point and a sign there.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_TEXTS = ("pattern", "tier", "id", "host", "executor_id", "name", "preferred")


@dataclass(frozen=True)
class Field:
    """A value, its name in errors, and the names and positions that lead to it.

    Every method raises :class:`ClusterFileError` for a value of another kind.
    """

    value: Any
    where: str = "the file"
    path: tuple[Any, ...] = ()

    def error(self, rule: str) -> ClusterFileError:
        """An error that says the value and the rule."""
        return ClusterFileError(f"{self.where} is {self.value!r}: {rule}", self.path)

    def fields(self, names: str, need: str = "") -> dict[str, Field]:
        """The fields of a mapping, which has these ``names`` only, and all those in ``need``."""
        if self.value is None:
            raise ClusterFileError(f"{self.where} is empty: give names with values", self.path)
        if not isinstance(self.value, Mapping):
            raise self.error("give names with values")
        known = names.split()
        for name in self.value:
            if name not in known:
                message = f"{self.where} has no field {name!r}. {did_you_mean(name, known)}"
                raise ClusterFileError(message, (*self.path, name))
        for name in need.split():
            if name not in self.value:
                raise ClusterFileError(f"{self.where} lacks {name!r}; add it", self.path)
        return {name: self.at(name) for name in self.value}

    def read(self, names: str, need: str = "") -> dict[str, Any]:
        """The values of the fields of a mapping, as what is made of them will check them."""
        return {name: one.plain(name) for name, one in self.fields(names, need).items()}

    def named(self, what: str, by: str, names: str) -> tuple[Field, dict[str, Any]]:
        """A mapping under the name that it has in a field, and the values of its fields."""
        known = self.read(names, need=by)
        with self.making():
            return replace(self, where=f"{what} {text(by, known[by])!r}"), known

    def unique(self, what: str, names: list[str]) -> None:
        """Refuse a name that an entry of a list before has."""
        for k, name in enumerate(names):
            if name in names[:k]:
                message = f"the {what} {name!r} is there twice; give each a name of its own"
                raise ClusterFileError(message, (*self.path, k))

    def plain(self, name: str) -> Any:
        """The value as it is meant: a number is the text that shows it, and the reverse."""
        value = self.value
        if name in _TEXTS and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if name not in _TEXTS and isinstance(value, str) and _EXPONENT.fullmatch(value):
            return float(value)
        if isinstance(value, list):
            return tuple(row.plain(name) for row in self.rows())
        return value

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
            whose = "" if self.where in str(error) else f"{self.where}: "
            raise ClusterFileError(f"{whose}{error}", path) from error


def among(names: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The values of these fields that are known."""
    return {name: known[name] for name in names.split() if name in known}
