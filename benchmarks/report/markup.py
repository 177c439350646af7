"""HTML elements whose texts are escaped, and cleaned of addresses and of this machine's paths."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

__all__ = ["Child", "Markup", "clean", "prose", "tag"]

ROOT = Path(__file__).resolve().parents[2]

_PASSWORD = re.compile(r"(?<=://)[^\s/@]+:[^\s/@]*@")
_ADDRESS = re.compile(r"\bhttps?://", re.IGNORECASE)
_FILE = re.compile(r"\bfile:(?=/)", re.IGNORECASE)
# An absolute path of two parts or more; the slashes of a ratio or a URL do not begin one.
_PATH = re.compile(r"(?:(?<![\w./~])|(?<=//))/(?:[\w@+.,=-]+/)+[\w@+.,=-]*")
_POWER = re.compile(r"(?<=[0-9A-Za-z)])\^(-?\d+)")
_EMPTY = {"br", "col", "img", "meta"}
_SHAPES = {"circle", "line", "path", "rect"}  # of SVG: without their own end they would nest


class Markup(str):
    """Text that is HTML already."""


Child: TypeAlias = "str | Iterable[Child] | None"


def clean(text: str) -> str:
    """The text without what others should not see, or could not follow.

    Paths below the repository become relative to it, other absolute paths keep their last two
    parts, web addresses lose their scheme, and URLs their user and password.

    >>> clean("postgresql://me:secret@db/x in /home/me/venv/pyspark/worker.py")
    'postgresql://…@db/x in …/pyspark/worker.py'
    """
    text = _PASSWORD.sub("…@", text).replace(f"{ROOT}/", "").replace(str(ROOT), ".")
    text = _PATH.sub(lambda path: "…/" + "/".join(path[0].strip("/").split("/")[-2:]), text)
    return _ADDRESS.sub("", _FILE.sub("", text))


def prose(text: str) -> Markup:
    """Text with its powers raised: 10^7 has its 7 above the line."""
    return Markup(_POWER.sub(r"<sup>\1</sup>", _text(text)))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element.

    Args:
        name: of the element; ``img`` and its like have no end.
        children: texts, which are cleaned and escaped, :class:`Markup`, which is not, or
            sequences of them. None is nothing.
        attributes: underscores become hyphens, one at the end goes (``class_``); True stands
            alone, None and False are left out.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{_attribute(value)}"')
    parts.append("/>" if name in _SHAPES else ">")
    if name not in _EMPTY | _SHAPES:
        parts += [*map(_text, children), f"</{name}>"]
    return Markup("".join(parts))


def _attribute(value: str | float) -> str:
    if isinstance(value, Markup):
        return value
    return html.escape(clean(value)) if isinstance(value, str) else f"{value:g}"


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return html.escape(clean(child), quote=False)
    return "".join(map(_text, child))
