"""Checked access to the fields of a JSON object that is not trusted; errors name the field."""

from __future__ import annotations

from typing import Any

from bsjoin.index import GREATEST


def whole(data: Any, name: str, least: int = 0, most: int = GREATEST) -> int:
    """A whole number within bounds."""
    found = value(data, name)
    if type(found) is not int or not least <= found <= most:
        raise ValueError(f"{name} is {shown(found)}, not a whole number from {least} to {most}")
    return found


def number(data: Any, name: str) -> float:
    """A number of zero or more."""
    found = value(data, name)
    if type(found) not in (int, float) or not 0 <= found <= GREATEST:
        raise ValueError(f"{name} is {shown(found)}, not a number from 0 on")
    return float(found)


def flag(data: Any, name: str) -> bool:
    """A boolean."""
    found = value(data, name)
    if not isinstance(found, bool):
        raise ValueError(f"{name} is {shown(found)}, not true or false")
    return found


def text(data: Any, name: str) -> str:
    """A text."""
    found = value(data, name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is {shown(found)}, not a text")
    return found


def items(data: Any, name: str) -> list[Any]:
    """A list."""
    found = value(data, name)
    if not isinstance(found, list):
        raise ValueError(f"{name} is {shown(found)}, not a list")
    return found


def texts(data: Any, name: str) -> tuple[str, ...]:
    """A list of texts."""
    found = items(data, name)
    for item in found:
        if not isinstance(item, str):
            raise ValueError(f"{name} has {shown(item)}, which is not a text")
    return tuple(found)


def shown(found: object) -> str:
    """A value as an error shows it: not all of a long one."""
    kinds = (str, int, float, type(None))
    written = repr(found) if isinstance(found, kinds) else f"a {type(found).__name__}"
    return written if len(written) <= 80 else written[:77] + "..."


def value(data: Any, name: str) -> Any:
    """A field of any kind; it must be there."""
    if not isinstance(data, dict):
        raise ValueError(f"{shown(data)} is not a JSON object")
    if name not in data:
        raise ValueError(f"it lacks {name!r}")
    return data[name]
