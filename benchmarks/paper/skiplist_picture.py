"""Figure 13 and Tables 6 to 8 of the BS-Join paper drawn, ours beside the paper's."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.paper.skiplists import FLAT_MAP, RANDOM, SORTED, Measured, ratios, told
from benchmarks.ranges import skiplists

__all__ = ["draw"]

_COLORS = {FLAT_MAP: "#9aa0a6", RANDOM: "#2e6f95", SORTED: "#d1495b"}
_PAPER = "#c9a227"


def draw(reads: dict[int, Any], seconds: dict[int, Any], measured: Measured, path: Path) -> Path:
    """Reads, variance, times of the lists; ratios of the ways.

    Args:
        reads: by :func:`benchmarks.ranges.skiplists.measure`.
        seconds: by :func:`benchmarks.paper.skiplists.lists`.
        measured: by way, rows of the table and workers.
        path: the file.
    """
    figure, grid = plt.subplots(2, 3, figsize=(14.5, 8.2), layout="constrained")
    _lists(grid[0, 0], reads, "mean", "Fig. 13(a): stored values read in a search.\nThe paper: "
           "about 25 % fewer when sorted")  # fmt: skip
    _lists(grid[0, 1], reads, "one", "Fig. 13(b): variance of a search over ten builds.\nThe "
           "paper: always 0 when sorted")  # fmt: skip
    _times(grid[0, 2], seconds)
    _ratios(grid[1, 0], measured, "rate", FLAT_MAP, "Rows a second over FlatMap's (Tables 6 to 8)")
    _ratios(grid[1, 1], measured, "rate", RANDOM, "Rows a second over the random list's")
    _ratios(grid[1, 2], measured, "latency_ms", FLAT_MAP, "Latency over FlatMap's (less is better)")
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _lists(axes: Axes, reads: dict[int, Any], what: str, title: str) -> None:
    sizes = sorted(reads)
    for name, kind in ((skiplists.RANDOM, RANDOM), (skiplists.FIXED, SORTED)):
        values = [reads[size][name][what] for size in sizes]
        axes.plot(sizes, values, "o-", color=_COLORS[kind], label=kind)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes)
    axes.set_ylim(bottom=0 if what == "mean" else -1)
    axes.set_xlabel("rows")
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=9, loc="lower right" if what == "mean" else "center right")


def _times(axes: Axes, seconds: dict[int, Any]) -> None:
    sizes = sorted(seconds)
    for kind in (RANDOM, SORTED):
        for what, line in (("build", "--"), ("search", "-")):
            values = [statistics.median(seconds[size][kind][what]) * 1e3 for size in sizes]
            label = f"{kind}, {'build' if what == 'build' else '10,000 searches'}"
            axes.plot(sizes, values, line, color=_COLORS[kind], marker="o", ms=4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes)
    axes.set(yscale="log", xlabel="rows", ylabel="ms, one core")
    axes.set_ylim(bottom=axes.get_ylim()[0] / 40)  # room for the legend
    axes.set_title("The lists alone, here (the paper gives no times)", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _ratios(axes: Axes, measured: Measured, name: str, below: str, title: str) -> None:
    """Each cell a dot: the paper's nine, ours beside them."""
    ways = [way for way in (RANDOM, SORTED) if way != below]
    for at, way in enumerate(ways):
        for shift, values, color, label in (
            (-0.2, told(name, way, below), _PAPER, "the paper, 9 cells"),
            (0.2, ratios(measured, name, way, below), _COLORS[SORTED], "ours"),
        ):
            places = at + shift + np.linspace(-0.05, 0.05, len(values))
            axes.plot(places, values, "o", color=color, ms=5, alpha=0.8,
                      label=label if at == 0 else None)  # fmt: skip
            middle = statistics.median(values)
            axes.hlines(middle, at + shift - 0.1, at + shift + 0.1, color=color, lw=2)
            axes.annotate(f"{middle:.2f}", (at + shift + 0.12, middle), va="center", fontsize=8)
    axes.axhline(1, color="0.3", lw=1, ls="--")
    axes.set_xticks(range(len(ways)), ways)
    axes.set_xlim(-0.5, len(ways) - 0.5)
    axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=9, loc="upper right")
