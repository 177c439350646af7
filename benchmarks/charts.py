"""The charts of all benchmarks: tables drawn as lines, bars, stacked bars or dots, as SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.harness.outcome import Cell, Table

OURS, SPARK = "#d1495b", "#2e6f95"
_GROUPS = (
    (OURS, ("bsjoin", "HotSpot", "sorted", "split", "St-Stream", "ours")),
    (SPARK, ("Spark", "random", "the paper's", "Polars, 2")),
    ("#c9b458", ("one query", "Flink", "DuckDB, 2", "FlatMap")),
    ("#5f6368", ("identity", "hash")),
    ("#6aa84f", ("whole",)),
    ("#e9a03b", ("no routing",)),
)
_OTHERS = ("#9aa0a6", "#8fb8d3", "#7b4fa0", "#e8d48a", "#b0763b", "#c4c8cd")
_PAPER = ("#e8a0aa", "#b9b9b9", "#8a8a8a", "#c9a227")

Series = dict[str, dict[Any, float]]
"""By name: values by place."""


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and line of each series: by the beginning of its name; the paper's are dotted.

    Of several of one kind the later ones are paler, and have other marks.
    """
    found: dict[str, dict[str, Any]] = {}
    others, paper, seen = cycle(_OTHERS), cycle(_PAPER), dict[str, int]()
    for name in names:
        if re.search(r"\bpaper\b(?!')", name):
            found[name] = {"color": next(paper), "ls": ":", "marker": "."}
            continue
        color = next((color for color, starts in _GROUPS if name.startswith(starts)), None)
        number = seen[color] = seen.get(color, -1) + 1 if color else 0
        found[name] = {"color": color or next(others), "marker": "osDv^<>"[number % 7]}
        if number:
            found[name] |= {"alpha": max(0.4, 1 - 0.2 * number), "ls": "--"}
    return found


@contextmanager
def panels(
    file: Path | BytesIO, size: tuple[float, float], grid: tuple[int, int] = (1, 1), title: str = ""
) -> Iterator[list[Axes]]:
    """Axes to draw on (``grid``: rows, columns; ``size`` in inches); then the SVG is written."""
    figure, axes = plt.subplots(*grid, figsize=size, layout="constrained", squeeze=False)
    try:
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        yield list(axes.flat)
        for one in axes.flat:
            one.spines[["top", "right"]].set_visible(False)
            one.set_axisbelow(True)
        with mpl.rc_context({"svg.hashsalt": "bsjoin"}):
            figure.savefig(file, dpi=130, format="svg", metadata={"Date": None})
    finally:
        plt.close(figure)


def finish(
    axes: Axes, title: str, *, grid: str = "both", legend: bool = True, **labels: Any
) -> None:
    """Title, grid, legend and whatever ``Axes.set`` takes."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set(**labels)
    axes.grid(axis=grid, alpha=0.25)  # type: ignore[arg-type]
    if legend and axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=8)


def color_of(name: str) -> str:
    """The colour of a series that stands alone."""
    return str(_styles([name])[name]["color"])


def draw(tables: Sequence[Table], file: Path) -> list[Path]:
    """The tables that have a chart, a panel for each, in one picture; none without any."""
    drawn = [(table, chart) for table in tables for chart in table.charts]
    if not drawn:
        return []
    columns = min(len(drawn), 2)
    rows = -(-len(drawn) // columns)
    tall = max(len(_series(table, chart)[1]) for table, chart in drawn)
    height = max(4.6, 0.3 * tall if any("bars" in chart["kind"] for _, chart in drawn) else 0)
    with panels(file, (7.2 * columns, height * rows), (rows, columns)) as grid:
        for axes, (table, chart) in zip(grid, drawn, strict=False):
            series, places = _series(table, chart)
            _KINDS[chart["kind"]](axes, series, places)
            upright = chart["kind"] in ("lines", "bars")
            labels = {"xlabel": ", ".join(chart["x"]) if upright else chart["y"][0]}
            labels |= {k: v for k, v in chart.items() if k.startswith(("xl", "yl", "xs", "ys"))}
            finish(axes, chart.get("title", table.title), **labels)
        for axes in grid[len(drawn) :]:
            axes.set_visible(False)
    return [file]


def _series(table: Table, chart: Mapping[str, Any]) -> tuple[Series, list[Any]]:
    """What a chart shows of its table (see :meth:`Table.drawn`), and its places in order."""
    series: Series = {}
    places: dict[Any, None] = {}
    shown = {
        # A head that occurs again is named after the one before it, too.
        at: head if head not in table.columns[:at] else f"{table.columns[at - 1]}, {head}"
        for at, head in enumerate(table.columns)
        if head not in chart["x"]
        and any(
            head == one or (one not in table.columns and head.startswith(one)) for one in chart["y"]
        )
    }
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        if any(cells[head] != value for head, value in chart.get("where", {}).items()):
            continue
        named = [cells[head] for head in chart["x"]]
        place = named[0] if len(named) == 1 else "\n".join(map(str, named))
        over = _number(cells[chart["over"]]) if "over" in chart else 1.0
        for at, head in shown.items():
            value = _number(row[at])
            if value is None or over is None or place == chart.get("skip"):
                continue
            by = [str(cells[chart["by"]])] if "by" in chart else []
            name = ", ".join([*by, head] if len(shown) > 1 or not by else by)
            name, spot = (str(place), head) if chart.get("across") else (name, place)
            places[spot] = None
            series.setdefault(name, {}).setdefault(spot, value / over)
    return series, list(places)


def _number(cell: Cell) -> float | None:
    """A cell as a number; also one in per cent."""
    try:
        found = float(cell.rstrip("% ") if isinstance(cell, str) else cell or 0.0)
    except ValueError:
        return None
    return found if math.isfinite(found) and cell is not None else None


def _lines(axes: Axes, series: Series, places: list[Any]) -> None:
    """A line per series; places that are no numbers stand at equal distances."""
    numeric = all(isinstance(place, int | float) for place in places)
    at = {place: place if numeric else number for number, place in enumerate(places)}
    for name, style in _styles(list(series)).items():
        xs = sorted(at[place] for place in series[name])
        ys = [series[name][place] for place in sorted(series[name], key=at.__getitem__)]
        axes.plot(xs, ys, **{"ms": 4, "label": name, **style})
    if not numeric:
        _ticks(axes, places)


def _bars(axes: Axes, series: Series, places: list[Any]) -> None:
    """Bars side by side, in groups."""
    width = 0.8 / len(series)
    for index, (name, style) in enumerate(_styles(list(series)).items()):
        shift = (index - (len(series) - 1) / 2) * width
        values = [series[name].get(place, math.nan) for place in places]
        axes.bar(np.arange(len(places)) + shift, values, 0.92 * width, color=style["color"],
                 alpha=style.get("alpha"), label=name)  # fmt: skip
    _ticks(axes, places)


def _ticks(axes: Axes, places: list[Any]) -> None:
    """Names on the x-axis, upright where they would not fit beside each other."""
    names = [str(place).replace("\n", ", ") for place in places]
    turned = 90 if sum(map(len, names)) > 80 else 0
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=turned)


def _ranked_bars(axes: Axes, series: Series, places: list[Any]) -> None:
    """One horizontal bar per place, in the order of the values, each with its number."""
    (values,) = series.values()
    names = sorted(values, key=values.__getitem__)
    drawn = axes.barh(
        [str(name).replace("\n", ", ") for name in names], [values[name] for name in names],
        color=[color_of(str(name).split("\n")[-1]) for name in names],
    )  # fmt: skip
    axes.bar_label(drawn, [f"{values[name]:,.0f}" for name in names], padding=4, fontsize=8)
    axes.margins(x=0.15)


def _stacked_bars(axes: Axes, series: Series, places: list[Any]) -> None:
    """One horizontal bar per series, stacked of its places."""
    left, colors = dict.fromkeys(series, 0.0), plt.get_cmap("tab20")
    for number, place in enumerate(places):
        values = [max(by.get(place, 0.0), 0.0) for by in series.values()]
        axes.barh(list(series), values, left=list(left.values()), height=0.66,
                  color=colors(number % 20), ec="white", lw=0.5, label=str(place))  # fmt: skip
        left = {name: at + v for (name, at), v in zip(left.items(), values, strict=True)}
    for place, end in enumerate(left.values()):
        axes.annotate(f"{end:,.4g}", (end, place), (5, 0), textcoords="offset points", va="center")
    axes.invert_yaxis()
    axes.margins(x=0.4)


def _dots(axes: Axes, series: Series, places: list[Any]) -> None:
    """A row per place, a dot per series; a line stands at 1."""
    for name, style in _styles(list(series)).items():
        ys = [places.index(place) for place in series[name]]
        axes.plot(list(series[name].values()), ys, **{"label": name, **style, "ls": ""})
    axes.axvline(1, color=OURS, lw=1.5)
    axes.set_yticks(range(len(places)), [str(place) for place in places], fontsize=8)
    axes.invert_yaxis()


_KINDS = {
    "lines": _lines,
    "bars": _bars,
    "ranked bars": _ranked_bars,
    "stacked bars": _stacked_bars,
    "dots": _dots,
}
