"""What all pictures have in common: panels, bars, colors. Draws files, needs no screen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scheduling.simulate import published

__all__ = ["COLORS", "LINES", "NODES", "bars", "panels", "save"]

COLORS = {
    published.DEFAULT: "#9aa0a6",
    published.ROUND_ROBIN: "#6aa84f",
    published.GS_BFD: "#c9a227",
    published.CETSA: "#d1495b",
    published.LBA_CE: "#2e6f95",
    "OERA": "#d1495b",
    "OERA, literal": "#e08e45",
    "median": "#2e6f95",
    "static": "#9aa0a6",
    "steered": "#d1495b",
    "left alone": "#9aa0a6",
}
"""The color of each way, in every picture."""

# RR and LBA-CE often coincide: both shall be seen.
LINES = {published.LBA_CE: "--"}
"""Its line, where it is not drawn through."""

NODES = ("#2e6f95", "#6aa84f", "#9aa0a6", "#c9a227", "#8e6c8a", "#e08e45", "#d1495b")
"""The colors of seven nodes."""


def panels(rows: int, columns: int, title: str, height: float = 4.2) -> tuple[Figure, list[Axes]]:
    """A figure of rows x columns panels under a title, and the panels, row by row."""
    figure, grid = plt.subplots(
        rows, columns, figsize=(5.6 * columns, height * rows), layout="constrained", squeeze=False
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
    return figure, list(grid.flat)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure to a file, and close it."""
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def bars(
    axes: Axes,
    values: Mapping[str, float],
    form: str,
    paper: Mapping[str, float] | None = None,
) -> None:
    """A bar for each way, with its value above it in the format ``form``.

    Args:
        axes: the panel.
        values: the height of each bar.
        form: the format of the values.
        paper: the papers' values, drawn as diamonds. None (default): there are none.
    """
    drawn = axes.bar(list(values), list(values.values()), color=[COLORS[way] for way in values])
    axes.bar_label(drawn, [form.format(value) for value in values.values()], padding=2, fontsize=9)
    if paper:
        places = [list(values).index(way) for way in paper]
        axes.plot(places, list(paper.values()), "kD", ms=5, label="paper, from Default's bar")
        axes.legend(frameon=False, fontsize=8)
    axes.margins(y=0.15)
    axes.grid(axis="x", visible=False)
