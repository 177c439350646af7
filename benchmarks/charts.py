"""The charts of all benchmarks: tables drawn as lines or bars, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from benchmarks.harness.outcome import Table

_OURS = "#d1495b"  # bsjoin's first series; the others have matplotlib's colours
_OTHERS = ("C0", "C1", "C2", "C4", "C5", "C6", "C7", "C8", "C9")


def draw(tables: Sequence[Table], file: Path) -> list[Path]:
    """The tables that have a chart, a panel for each, in one picture; none without any."""
    drawn = [(table, chart, series(table, chart)) for table in tables for chart in table.charts]
    if not drawn:
        return []
    columns = min(len(drawn), 2)
    rows = -(-len(drawn) // columns)
    tall = max((len(frame) for _, chart, frame in drawn if "bars" in chart["kind"]), default=0)
    size = (7.2 * columns, max(4.6, 0.3 * tall) * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    try:
        for axes, (table, chart, frame) in zip(grid.flat, drawn, strict=False):
            _panel(axes, table, chart, frame)
        for axes in grid.flat[len(drawn) :]:
            axes.set_visible(False)
        with mpl.rc_context({"svg.hashsalt": "bsjoin"}):
            figure.savefig(file, dpi=130, format="svg", metadata={"Date": None})
    finally:
        plt.close(figure)
    return [file]


def _panel(axes: Axes, table: Table, chart: Mapping[str, Any], frame: pd.DataFrame) -> None:
    KINDS[chart["kind"]](axes, frame)
    upright = chart["kind"] in ("lines", "bars")
    labels = {"xlabel": ", ".join(chart["x"]) if upright else chart["y"][0], "ylabel": ""}
    axes.set(**labels | {k: v for k, v in chart.items() if k.startswith(("xl", "yl", "xs", "ys"))})
    axes.set_title(chart.get("title", table.title), loc="left", fontsize=10)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=8)
    if chart.get("yscale") == "log":  # 200 instead of a power of ten
        axes.yaxis.set_major_formatter("{x:,.6g}")
        axes.yaxis.set_minor_formatter(LogFormatter())


def series(table: Table, chart: Mapping[str, Any]) -> pd.DataFrame:
    """What a chart shows of its table (see :meth:`Table.drawn`): a column per series."""
    x, cells = list(chart["x"]), pd.DataFrame(table.rows, columns=table.columns, dtype=object)
    shown = [
        head
        for head in table.columns
        if head not in x
        and any(head == y or (y not in table.columns and head.startswith(y)) for y in chart["y"])
    ]
    place = cells[x[0]] if len(x) == 1 else cells[x].astype(str).agg("\n".join, axis=1)
    numbers = cells[shown].apply(_numbers)
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


def _colors(names: Sequence[object]) -> list[str]:
    ours = next((at for at, name in enumerate(names) if str(name).startswith("bsjoin")), None)
    return [_OURS if at == ours else _OTHERS[at % len(_OTHERS)] for at in range(len(names))]


def _lines(axes: Axes, frame: pd.DataFrame) -> None:
    """A line per series; places that are no numbers stand at equal distances."""
    numeric = all(isinstance(place, int | float) for place in frame.index)
    at = frame.set_axis(frame.index.astype(float) if numeric else range(len(frame))).sort_index()
    for name, color in zip(frame, _colors(list(frame)), strict=True):
        axes.plot(at[name].dropna(), ms=4, label=name, color=color, marker="o")
    if not numeric:
        _ticks(axes, frame)


def _bars(axes: Axes, frame: pd.DataFrame) -> None:
    """Bars side by side, in groups."""
    colors = _colors(list(frame))
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
    values.plot.barh(ax=axes, color=_colors(values.index), label="_")
    axes.bar_label(axes.containers[0], fmt="{:,.0f}", padding=4, fontsize=8)
    axes.margins(x=0.15)


KINDS = {"lines": _lines, "bars": _bars, "ranked bars": _ranked_bars}
