"""Numbers and dates in print, and texts without addresses and local paths."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from benchmarks.harness.machine import ROOT

MISSING = "-"

_PASSWORD = re.compile(r"(?<=://)[^\s/@]+:[^\s/@]*@")
_SCHEME = re.compile(r"\bhttps?://|\bfile:(?=/)", re.IGNORECASE)
# An absolute path of two parts or more; the slashes of a ratio or a URL do not begin one.
_PATH = re.compile(r"(?:(?<![\w./~])|(?<=//))/(?:[\w@+.,=-]+/)+[\w@+.,=-]*")
_POWER = re.compile(r"(?<=[0-9A-Za-z)])\^(-?\d+)")


def number(value: float, apart_from: float | None = None) -> str:
    """A value with two or three significant digits.

    Args:
        value: any float; infinity and NaN have their signs.
        apart_from: another value (its bound) that must look different: then with more digits.

    >>> number(34.96), number(0.0134), number(1234.5), number(0.998, apart_from=1)
    ('35.0', '0.013', '1,234', '0.998')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, int) or value == 0:
        return f"{int(value):,}"
    size = math.floor(math.log10(abs(value)))
    decimals = max(0, 2 - size if size >= 0 else 1 - size)
    text = _fixed(value, decimals)
    if apart_from is not None and value != apart_from and math.isfinite(apart_from):
        while decimals < 9 and float(text.replace(",", "")) == apart_from:
            decimals += 1
            text = _fixed(value, decimals)
    return text


def _fixed(value: float, decimals: int) -> str:
    return f"{value:.1e}" if decimals > 6 else f"{value:,.{decimals}f}"


def bound(value: float, at_most: bool) -> str:
    """A figure's bound.

    >>> bound(1.25, at_most=True), bound(50.0, at_most=False)
    ('≤ 1.25', '≥ 50')
    """
    text = f"{int(value):,}" if float(value).is_integer() else f"{value:g}"
    return f"{'≤' if at_most else '≥'} {text}"


def column(values: Sequence[Any]) -> list[str]:
    """The cells of one column of a table, with the same number of decimals.

    Whole numbers stay whole; if the smallest would vanish beside the largest, each has its own
    digits. None is a dash.

    >>> column([990.4, 1408.2, None, 266.0])
    ['990', '1,408', '-', '266']
    """
    floats = [v for v in values if isinstance(v, float) and math.isfinite(v) and v != 0]
    decimals: int | None = 0
    if any(not v.is_integer() for v in floats):
        sizes = [math.floor(math.log10(abs(v))) for v in floats]
        least, most = min(sizes), max(sizes)
        decimals = min(max(0, 1 - least, 2 - most), max(0, 3 - most))
        if least < -decimals or decimals > 6:
            decimals = None

    def cell(value: Any) -> str:
        if value is None:
            return MISSING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float) and value in floats and decimals is not None:
            return f"{value:,.{decimals}f}"
        return number(value) if isinstance(value, int | float) else str(value)

    return [cell(value) for value in values]


def date(when: str, clock: bool = True) -> str:
    """An ISO time in UTC, to the minute or to the day; other texts stay as they are.

    >>> date("2026-11-21T09:05:33+00:00")
    '2026-11-21 09:05 UTC'
    """
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return when
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC" if clock else "%Y-%m-%d")


def clean(text: str) -> str:
    """The text without passwords, web addresses and local paths.

    Paths below the repository become relative to it, other absolute paths keep their last two
    parts, web addresses lose their scheme, and URLs their user and password.

    >>> clean("postgresql://me:secret@db/x in /home/me/venv/pyspark/worker.py")
    'postgresql://…@db/x in …/pyspark/worker.py'
    """
    text = _PASSWORD.sub("…@", text).replace(f"{ROOT}/", "").replace(str(ROOT), ".")
    text = _PATH.sub(lambda path: "…/" + "/".join(path[0].strip("/").split("/")[-2:]), text)
    return _SCHEME.sub("", text)


def prose(text: str) -> Markup:
    """Escaped text with its powers raised: 10^7 has its 7 above the line."""
    return Markup(_POWER.sub(r"<sup>\1</sup>", str(escape(clean(text)))))
