"""Numbers, dates, tables and verdicts in print; texts without addresses and local paths."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from markupsafe import Markup, escape

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record

MISSING = "-"

_LARGE = 1e15
_SMALLEST = -5  # the power of 10
_EXACT = 17  # digits tell any two floats apart

_PASSWORD = re.compile(r"(?<=://)[^\s/@]+:[^\s/@]*@")
_SCHEME = re.compile(r"\bhttps?://|\bfile:(?=/)", re.IGNORECASE)
# An absolute path of two parts or more; the slashes of a ratio or a URL do not begin one.
_PATH = re.compile(r"(?:(?<![\w./~])|(?<=//))/(?:[\w@+.,=-]+/)+[\w@+.,=-]*")
_POWER = re.compile(r"(?<=[0-9A-Za-z)])\^(-?\d+)")


def number(value: float, apart_from: float | None = None) -> str:
    """A value with two significant digits below 1, and three from 1 on; integers have all theirs.

    Below 10^-5 and from 10^15 on in scientific notation.

    Args:
        value: any integer or float; infinity has its sign, NaN is a dash.
        apart_from: another value (its bound) that must look different: then with more digits.

    >>> number(34.96), number(0.0134), number(1234.5), number(0.998, apart_from=1)
    ('35.0', '0.013', '1,234', '0.998')
    >>> number(1e-9), number(12_345), number(10**20)
    ('1.0e-09', '12,345', '1.0e+20')
    """
    if isinstance(value, Integral):
        whole = int(value)
        return f"{whole:,}" if abs(whole) < _LARGE else f"{Decimal(whole):.1e}"
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    text = ""
    for digits in range(2 if abs(value) < 1 else 3, _EXACT + 1):
        text = _rounded(value, digits)
        if value == apart_from or float(text.replace(",", "")) != apart_from:
            break
    return text


def _rounded(value: float, digits: int) -> str:
    """A finite value that is not 0, with so many significant digits."""
    text = f"{value:.{digits - 1}e}"
    size = int(text.partition("e")[2])
    if size >= _SMALLEST and abs(value) < _LARGE:
        return f"{value:,.{max(0, digits - 1 - size)}f}"
    return text


def bound(figure: Figure) -> str:
    """A figure's bound, with all its digits: ``≤ 1.25``; empty without one."""
    if figure.bound is None:
        return ""
    return f"{'≤' if figure.at_most else '≥'} {figure.bound:,.15g}"


def spread(figure: Figure) -> str:
    """A figure's spread: ``0.97 to 1.20``; empty without one."""
    return " to ".join(map(number, figure.spread or ()))


def cell(value: Any) -> str:
    """A cell of a table; None is a dash."""
    if value is None or isinstance(value, bool):
        return {None: MISSING, True: "yes", False: "no"}[value]
    return number(value) if isinstance(value, Real) else str(value)


def date(when: str) -> str:
    """The time of a record, to the minute.

    >>> date("2026-11-21T09:05:33+00:00")
    '2026-11-21 09:05 UTC'
    """
    return f"{when[:10]} {when[11:16]} UTC"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.31), duration(42.3), duration(200), duration(3900)
    ('0.3 s', '42 s', '3 min 20 s', '1 h 05 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"


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


def is_numeric(values: Sequence[object]) -> bool:
    """Whether at least half of the given values are numbers."""
    given = [value for value in values if value is not None]
    return sum(isinstance(v, int | float) for v in given) * 2 >= len(given)


def table_lines(table: Table) -> list[str]:
    """A table as lines of equal width; columns of numbers are aligned to the right."""
    columns = []
    for head, *cells in zip(table.columns, *table.rows, strict=True):
        texts = [head, *map(cell, cells)]
        width = max(map(len, texts))
        left = any(isinstance(one, str) for one in cells)
        columns.append([text.ljust(width) if left else text.rjust(width) for text in texts])
    lines = ["  " + "  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return [table.title, *lines]


def figure_lines(figures: Sequence[Figure]) -> list[str]:
    """Figures as a table: value, bound, spread, and whether the bound is missed."""
    rows = []
    for one in figures:
        notes = [one.unit, f"({spread(one)})" if one.spread else ""]
        notes += ["simulated" if one.simulated else "", "" if one.reached else "MISSED"]
        row = {"figure": one.name, "value": number(one.value, one.bound), "bound": bound(one)}
        rows.append({**row, "": "   ".join(filter(None, notes))})
    return table_lines(Table.of("", rows))[1:]


def verdict(record: Record) -> str:
    """A record in a few words: ``5 figures, 1 MISSED``, or that it failed."""
    if record.error is not None:
        last = record.error.strip().splitlines() or ["it does not say why"]
        return f"FAILED: {last[-1][:120]}"
    count = f"{len(record.figures)} figure{'' if len(record.figures) == 1 else 's'}"
    missed = sum(not figure.reached for figure in record.figures)
    if all(figure.bound is None for figure in record.figures):
        return f"{count}, no bounds"
    return f"{count}, {missed} MISSED" if missed else f"{count}, all reached"


def overview(records: Sequence[Record]) -> str:
    """The figures of several records, and which are missed or failed."""
    lines = []
    for record in records:
        lines += ["", f"{record.name}: {verdict(record)}"]
        lines += figure_lines(record.figures) if record.figures else []
    missed = [
        f"  {record.name}: {one.name} is {number(one.value, one.bound)}, bound {bound(one)}"
        for record in records
        for one in record.figures
        if not one.reached
    ]
    failed = [f"  {record.name}" for record in records if record.error]
    for word, listed in (("MISSED", missed), ("FAILED", failed)):
        if listed:
            lines += ["", f"{word}, {len(listed)} in all:", *listed]
    return "\n".join(lines)
