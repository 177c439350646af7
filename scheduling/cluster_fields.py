"""The values of a cluster file's fields, checked: each error says which field of what it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.errors import ArgumentError, ClusterFileError
from scheduling.model import Resources

__all__ = ["count_of", "fields_of", "list_of", "number_of", "resources_of"]

# YAML 1.1 reads 1e5 and 1.0e12 as texts: its numbers have a point and a sign there.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def fields_of(
    content: Any, names: Iterable[str], where: str, need: Iterable[str] = ()
) -> Mapping[str, Any]:
    """A mapping with these fields only.

    Args:
        content: what the file says.
        names: the fields that it may have.
        where: what it is called in errors.
        need: the fields that it must have.

    Raises:
        ClusterFileError: it is no mapping, or a name is unknown or missing.
    """
    if content is None:
        raise ClusterFileError(f"{where} is empty: give names with values")
    if not isinstance(content, Mapping):
        raise ClusterFileError(f"{where} is {content!r}: give names with values")
    known = list(names)
    for name in content:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}"
            raise ClusterFileError(f"{where} has no field {name!r}. {hint}")
    for name in need:
        if name not in content:
            raise ClusterFileError(f"{where} lacks {name!r}; add it")
    return content


def list_of(content: Any, where: str) -> list[Any]:
    """A list.

    Raises:
        ClusterFileError: it is none.
    """
    if not isinstance(content, list):
        raise ClusterFileError(f"{where} is {content!r}: give a list")
    return content


def number_of(value: Any, where: str) -> float:
    """A number.

    >>> number_of("1e5", "rate_in_per_s")
    100000.0

    Raises:
        ClusterFileError: it is none.
    """
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = ", without quotes and units" if isinstance(value, str) else ""
        raise ClusterFileError(f"{where} is {value!r}: give a number{hint}")
    return float(value)


def count_of(value: Any, where: str, least: int = 0) -> int:
    """A whole number.

    Raises:
        ClusterFileError: it is none, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ClusterFileError(f"{where} is {value!r}: give a whole number, at least {least}")
    return value


def resources_of(content: Mapping[str, Any], where: str) -> Resources:
    """The resources among some fields.

    Raises:
        ClusterFileError: one is no number, or out of its range.
    """
    names = ("cpu_cores", "memory_mb", "disk_mb")
    values = (number_of(content.get(name, 0.0), f"{name} {where}") for name in names)
    try:
        return Resources(*values)
    except ArgumentError as error:
        raise ClusterFileError(f"{where.removeprefix('of ')}: {error}") from error
