"""Figures 11 and 12 of the BS-Join paper drawn from what was simulated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

if TYPE_CHECKING:
    from benchmarks.paper.hotspots import Found

__all__ = ["draw"]

_COLORS = {"hash": "#9aa0a6", "the paper's rule": "#2e6f95", "split hot keys": "#d1495b"}


def draw(found: Found, folder: Path) -> list[Path]:
    """Fig. 11 (DS, cache, throughput, latency) and Fig. 12 (load by TaskManager).

    Args:
        found: by exponent and way of routing.
        folder: where the files go.
    """
    return [
        _figure_11(found, folder / "paper_fig11.png"),
        _figure_12(found, folder / "paper_fig12.png"),
    ]


def _figure_11(found: Found, path: Path) -> Path:
    figure, grid = plt.subplots(2, 2, figsize=(11.5, 7.6), layout="constrained")
    figure.suptitle(
        "Fig. 11, simulated: six TaskManagers, 10 million keys. The paper: DS rises by hash and "
        "stays low by its rule (a);\ncaches shrink as the skew grows (b); more throughput (c), "
        "less latency (d) than by hash",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    panels = (
        ("(a) DS", "settled", 1.0, "DS after the first cycle"),
        ("(b) cached rows of all TaskManagers", "cached", 1e6, "million rows"),
        ("(c) throughput with look-ups; diamonds: all cached", "throughput", 1e6, "million rows/s"),
        ("(d) latency", "latency_ms", 1.0, "ms a cycle of a million rows"),
    )
    exponents = list(found)
    ways = list(found[exponents[0]])
    places = np.arange(len(exponents))
    for axes, (title, name, unit, label) in zip(grid.flat, panels, strict=True):
        for index, way in enumerate(ways):
            values = [getattr(found[z][way], name) for z in exponents]
            values = [(v[-1] if isinstance(v, list) else v) / unit for v in values]
            shape = "{:.3f}" if name == "settled" else "{:.0f}" if unit == 1.0 else "{:.2f}"
            drawn_at = places + (index - 1) * 0.27
            drawn = axes.bar(drawn_at, values, 0.25, color=_COLORS[way], label=way)
            axes.bar_label(drawn, [shape.format(v) for v in values], fontsize=7, padding=1)
            if name == "throughput":
                warm = [found[z][way].warm / unit for z in exponents]
                axes.plot(drawn_at, warm, "D", color=_COLORS[way], ms=5, mec="white", mew=0.6)
        axes.set_xticks(places, [f"Z {z:g}" for z in exponents])
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_ylabel(label)
        axes.margins(y=0.12)
        _bare(axes)
    grid[0, 0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _figure_12(found: Found, path: Path) -> Path:
    figure, grid = plt.subplots(
        1, len(found), figsize=(3.6 * len(found), 4.0), layout="constrained", sharey=True
    )
    figure.suptitle(
        "Fig. 12, simulated: load of each TaskManager. The paper: by hash it parts as the skew "
        "grows, by its rule it is balanced",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    for axes, (z, by) in zip(grid, found.items(), strict=True):
        for index, (way, one) in enumerate(by.items()):
            places = np.arange(len(one.shares)) + (index - 1) * 0.27
            axes.bar(places, one.shares, 0.25, color=_COLORS[way], label=way)
        even = 100 / len(one.shares)
        axes.axhline(even, color="0.3", lw=1, ls="--")
        axes.set_xticks(range(len(one.shares)), [f"TM {at + 1}" for at in range(len(one.shares))])
        axes.tick_params(axis="x", labelsize=8)
        axes.set_title(f"Z {z:g}", loc="left", fontsize=10)
        _bare(axes)
    grid[0].set_ylabel("% of the rows (dashed: even)")
    grid[0].margins(y=0.25)
    grid[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _bare(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
