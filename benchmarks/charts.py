"""The charts of all benchmarks: tables drawn as lines or bars, as SVG."""

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
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import LogFormatter

from benchmarks.harness.outcome import Table

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
    drawn = [(table, chart, series(table, chart)) for table in tables for chart in table.charts]
    if not drawn:
        return []
    columns = min(len(drawn), 2)
    rows = -(-len(drawn) // columns)
    tall = max(len(frame) for *_, frame in drawn)
    height = max(4.6, 0.3 * tall if any("bars" in chart["kind"] for _, chart, _ in drawn) else 0)
    with panels(file, (7.2 * columns, height * rows), (rows, columns)) as grid:
        for axes, (table, chart, frame) in zip(grid, drawn, strict=False):
            KINDS[chart["kind"]](axes, frame)
            upright = chart["kind"] in ("lines", "bars")
            labels = {"xlabel": ", ".join(chart["x"]) if upright else chart["y"][0], "ylabel": ""}
            labels |= {k: v for k, v in chart.items() if k.startswith(("xl", "yl", "xs", "ys"))}
            finish(axes, chart.get("title", table.title), **labels)
            if chart.get("yscale") == "log":  # 200 instead of a power of ten
                axes.yaxis.set_major_formatter("{x:,.6g}")
                axes.yaxis.set_minor_formatter(LogFormatter())
        for axes in grid[len(drawn) :]:
            axes.set_visible(False)
    return [file]


def series(table: Table, chart: Mapping[str, Any]) -> pd.DataFrame:
    """What a chart shows of its table (see :meth:`Table.drawn`): a column per series."""
    heads = [
        # A head that occurs again is named after the one before it, too.
        head if head not in table.columns[:at] else f"{table.columns[at - 1]}, {head}"
        for at, head in enumerate(table.columns)
    ]
    x = list(chart["x"])
    shown = [
        named
        for named, head in zip(heads, table.columns, strict=True)
        if head not in x
        and any(head == y or (y not in heads and head.startswith(y)) for y in chart["y"])
    ]
    cells = pd.DataFrame(table.rows, columns=heads, dtype=object)
    numbers = cells[shown].apply(_numbers)
    place = cells[x[0]] if len(x) == 1 else cells[x].astype(str).agg("\n".join, axis=1)
    entries = numbers.where(numbers.abs() < math.inf).stack(future_stack=True).dropna()
    entries = entries.reset_index().set_axis(["row", "name", "value"], axis=1)
    entries["place"] = entries["row"].map(place)
    if "by" in chart:
        by = entries["row"].map(cells[chart["by"]]).astype(str)
        entries["name"] = by + ", " + entries["name"] if len(shown) > 1 else by
    if chart.get("across"):
        entries = entries.assign(name=entries["place"].astype(str), place=entries["name"])
    entries = entries.drop_duplicates(["name", "place"])
    frame = entries.pivot(index="place", columns="name", values="value")
    places = entries["place"].unique()
    if chart.get("across"):  # in the order of the heads, whichever the first row has
        places = [head for head in shown if head in set(places)]
    return frame.reindex(index=places, columns=entries["name"].unique())


def _numbers(cells: pd.Series[Any]) -> pd.Series[float]:
    """Cells as numbers, also those in per cent; NaN for others."""
    return pd.to_numeric(cells.astype(str).str.rstrip("% "), errors="coerce")


def _lines(axes: Axes, frame: pd.DataFrame) -> None:
    """A line per series; places that are no numbers stand at equal distances."""
    numeric = all(isinstance(place, int | float) for place in frame.index)
    at = frame.set_axis(frame.index.astype(float) if numeric else range(len(frame))).sort_index()
    for name, style in _styles(list(frame)).items():
        axes.plot(at[name].dropna(), **{"ms": 4, "label": name, **style})
    if not numeric:
        _ticks(axes, frame)


def _bars(axes: Axes, frame: pd.DataFrame) -> None:
    """Bars side by side, in groups."""
    styles = _styles(list(frame)).values()
    colors = [to_rgba(style["color"], style.get("alpha")) for style in styles]
    frame.plot.bar(ax=axes, width=0.8, color=colors, edgecolor="white", legend=False)
    _ticks(axes, frame)


def _ticks(axes: Axes, frame: pd.DataFrame) -> None:
    """Names on the x-axis, upright where they would not fit beside each other."""
    names = [str(place).replace("\n", ", ") for place in frame.index]
    turned = 90 if sum(map(len, names)) > 80 else 0
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=turned)


def _ranked_bars(axes: Axes, frame: pd.DataFrame) -> None:
    """One horizontal bar per place, in the order of the values, each with its number."""
    values = frame.iloc[:, 0].sort_values()
    colors = [color_of(str(name).split("\n")[-1]) for name in values.index]
    values.rename(lambda name: str(name).replace("\n", ", ")).plot.barh(
        ax=axes, color=colors, label="_"
    )
    axes.bar_label(axes.containers[0], fmt="{:,.0f}", padding=4, fontsize=8)
    axes.margins(x=0.15)


KINDS = {
    "lines": _lines,
    "bars": _bars,
    "ranked bars": _ranked_bars,
}
