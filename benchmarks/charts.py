"""The charts of all benchmarks: panels of lines, grouped bars, ranked bars and dots, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

OURS, SPARK, DATABASE, PLAIN = "#d1495b", "#2e6f95", "#c9b458", "#9aa0a6"
GREEN, ORANGE, DARK = "#6aa84f", "#e9a03b", "#5f6368"
PAPER = ("#e8a0aa", "#b9b9b9", "#8a8a8a", "#c9a227")

Series = Mapping[str, Mapping[Any, float]]


def color_of(name: str) -> str:
    """The colour of an alternative by the beginning of its name."""
    for color, beginnings in (
        (OURS, ("bsjoin", "HotSpot", "sorted", "split", "St-Stream", "ours")),
        (SPARK, ("Spark", "random", "the paper's", "Polars, 2")),
        (DATABASE, ("one query", "Flink", "DuckDB, 2")),
        (DARK, ("identity",)),
        (GREEN, ("whole",)),
        (ORANGE, ("no routing",)),
    ):
        if name.startswith(beginnings):
            return color
    return PLAIN


@contextmanager
def panels(
    file: Path | BytesIO,
    size: tuple[float, float],
    grid: tuple[int, int] = (1, 1),
    title: str = "",
    **more: Any,
) -> Iterator[list[Axes]]:
    """Axes to draw on (``grid``: rows, columns; ``size`` in inches); then the SVG is written."""
    figure, axes = plt.subplots(*grid, figsize=size, layout="constrained", squeeze=False, **more)
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


def lines(
    axes: Axes,
    series: Series,
    *,
    color: str | None = None,
    style: str = "o-",
    **more: Any,
) -> None:
    """One line per name, by the numbers on the x-axis."""
    for name, by in series.items():
        places = sorted(by)
        values = [by[place] for place in places]
        kept = {"color": color or color_of(name), "ms": 4, "label": name}
        axes.plot(places, values, style, **kept | more)


def grouped_bars(
    axes: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    shape: str = "",
    gaps: Sequence[float] | None = None,
) -> None:
    """Bars side by side in groups.

    ``shape`` formats the number above each bar, ``gaps`` is extra space before each group.
    """
    places = np.arange(len(groups)) + (np.zeros(len(groups)) if gaps is None else np.array(gaps))
    width = 0.8 / len(series)
    for index, (name, values) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * width
        drawn = axes.bar(places + shift, values, 0.92 * width, color=color_of(name), label=name)
        if shape:
            axes.bar_label(drawn, [shape.format(v) for v in values], fontsize=7, padding=1)
    axes.set_xticks(places, groups, fontsize=8)
    if shape:
        axes.margins(y=0.15)


def ranked_bars(axes: Axes, values: Mapping[str, float], *, descending: bool = False) -> None:
    """One horizontal bar per name, in the order of the values, each with its number."""
    ordered = sorted(values.items(), key=lambda pair: pair[1], reverse=descending)
    names = [name for name, _ in ordered]
    numbers = [value for _, value in ordered]
    drawn = axes.barh(names, numbers, color=[color_of(name) for name in names])
    axes.bar_label(drawn, [f"{value:,.0f}" for value in numbers], padding=4, fontsize=9)
    axes.margins(x=0.15)


def log_ticks(axes: Axes, which: str = "x", parts: Sequence[int] = (1, 2, 5)) -> None:
    """Plain numbers instead of powers on a logarithmic axis."""
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    ticks = [m * 10.0**e for e in range(-3, 8) for m in parts if low <= m * 10.0**e <= high]
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.set_minor_locator(mpl.ticker.NullLocator())
