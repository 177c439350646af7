"""The chart of the first page: what a micro-batch costs by the size of the table, as measured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from svg import WIDTH, Canvas

_WAYS = (
    ("Spark, AQE on", "Spark's own join", "other"),
    ("bsjoin, JVM", "bsjoin", "ours"),
    ("no join", "no join", "line"),
)
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 372.0, 66.0, 292.0
_LABEL_STEP = 36.0
_NAMED = re.compile(r"addBatch, (?P<way>.+), (?P<rows>[\d,]+) rows")

Figures = Mapping[str, Mapping[str, Any]]


def measured(figures: Figures) -> dict[str, dict[int, float]]:
    """Milliseconds by way and rows of the table, of the figures of ``full-latency``."""
    found: dict[str, dict[int, float]] = {}
    for name, figure in figures.items():
        one = _NAMED.fullmatch(name)
        if one and "/" not in one["way"] and figure.get("unit") == "ms":
            found.setdefault(one["way"], {})[int(one["rows"].replace(",", ""))] = figure["value"]
    return found


def chart(colors: dict[str, str], figures: Figures) -> Canvas:
    """Three lines, both axes logarithmic, each with its number at the largest table.

    Args:
        colors: a palette.
        figures: those of ``full-latency``: milliseconds of each way and size.
    """
    times = {way: measured(figures)[way] for way, _, _ in _WAYS}
    sizes = sorted(times["bsjoin, JVM"])
    most = max(ms for by in times.values() for ms in by.values())
    least = min(ms for by in times.values() for ms in by.values())
    low, high = 10.0 ** math.floor(math.log10(least)), 10.0 ** math.ceil(math.log10(most))
    ends = {way: by[max(by)] for way, by in times.items()}
    c = Canvas(
        372,
        colors,
        "What a micro-batch costs by the size of the table",
        f"Milliseconds per micro-batch of 10,000 rows. With a table of {sizes[-1]:,} rows: "
        + ", ".join(f"{name} {ends[way]:,.0f}" for way, name, _ in _WAYS) + ".",
    )  # fmt: skip
    c.text(8, 24, "Milliseconds per micro-batch of 10,000 rows", bold=True, anchor="start")
    c.text(8, 44, "by the rows of the table; both axes are logarithmic", size=13, color="soft",
           anchor="start")  # fmt: skip

    def x(rows: float) -> float:
        return (
            _LEFT
            + 16
            + (_RIGHT - _LEFT - 32) * math.log(rows / sizes[0]) / math.log(sizes[-1] / sizes[0])
        )

    def y(ms: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * math.log(ms / low) / math.log(high / low)

    for power in range(round(math.log10(high / low)) + 1):
        ms = low * 10**power
        c.bar(_LEFT, y(ms) - 0.5, _RIGHT - _LEFT, 1, fill="plain" if power else "line")
        c.text(_LEFT - 8, y(ms) + 5, f"{ms:,.0f}", size=13, color="soft", anchor="end")
    for rows in sizes:
        c.text(x(rows), _BOTTOM + 22, _short(rows), size=14, color="soft")
    c.text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, "rows of the table", size=14, color="soft")
    label = _BOTTOM + _LABEL_STEP - 22.0  # from below, so that none stands on the axis
    for way, name, color in sorted(_WAYS, key=lambda one: ends[one[0]]):
        by, flat = times[way], way == "no join"
        points = [(x(rows), y(by[max(by)] if flat else by[rows])) for rows in sizes]
        c.path("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points), color=color, width=2.6,
               dashed=flat)  # fmt: skip
        for a, b in () if flat else points:
            c.dot(round(a, 1), round(b, 1), color=color, radius=4.5)
        label = min(points[-1][1] - 2, label - _LABEL_STEP)
        ink = "soft" if flat else color
        c.text(
            _RIGHT + 4,
            round(label, 1),
            f"{ends[way]:,.0f} ms",
            bold=True,
            color=ink,
            anchor="start",
        )
        c.text(_RIGHT + 4, round(label + 17, 1), name, size=13, color=ink, anchor="start",
               most=WIDTH - _RIGHT)  # fmt: skip
    c.text(8, 364, "Median addBatch; Spark's own join as it chooses (AQE on), bsjoin in the JVM.",
           size=12, color="soft", anchor="start")  # fmt: skip
    return c


def _short(rows: int) -> str:
    return f"{rows // 10**6} million" if rows >= 10**6 else f"{rows:,}"
