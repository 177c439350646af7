"""What the flights example draws: the cost of a micro-batch, skew, and the table's versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # draws files, needs no screen

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

import bsjoin

_OURS, _SPARK, _NONE = "#00796b", "#c8553d", "0.55"
_COLORS = {"bsjoin": _OURS, "Spark's own join": _SPARK, "no join": _NONE}


def costs(measured: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> None:
    """Draw what each micro-batch took, of each way, in a panel for each kind of table."""
    figure, axes = _grid(f"What a micro-batch of {10_000:,} flights costs", len(measured))
    for panel, (table, ways) in zip(axes, measured.items(), strict=True):
        for way, ms in ways.items():
            numbers = np.arange(len(ms))
            panel.plot(numbers, ms, color=_COLORS[way], marker="o", lw=2.2, label=way,
                       ls="--" if way == "no join" else "-")  # fmt: skip
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_title(table, loc="left", fontweight="bold")
        _labels(panel, "micro-batch", "milliseconds, logarithmic" if panel is axes[0] else "")
    axes[0].sharey(axes[-1])
    axes[-1].legend(frameon=False, loc="best")
    _save(figure, path)


def skew(before: bsjoin.PartitionProgress, after: bsjoin.PartitionProgress, path: Path) -> None:
    """Draw the rows of each partition, by hash and by HotSpot's rule."""
    figure, axes = _grid("Flights on each partition, by carrier", 2)
    most = 1.15 * max(*before.rows, *after.rows)
    for panel, one, told in ((axes[0], before, "by hash"), (axes[1], after, "by HotSpot's rule")):
        mean = float(np.mean(one.rows))
        rows = sorted(one.rows, reverse=True)
        colors = [_SPARK if count > 1.2 * mean else _OURS for count in rows]
        bars = panel.bar(range(len(rows)), rows, color=colors)
        labels = panel.bar_label(bars, fmt="{:,.0f}", padding=4, fontsize=9)
        for label in labels:
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
        panel.axhline(mean, color=_NONE, ls="--", lw=1, zorder=0)
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_ylim(0, most)
        panel.set_xticks(range(len(rows)))
        panel.set_title(f"{told}: DS {one.skew or 0:.2f}", loc="left", fontweight="bold")
        _labels(panel, "partition, the fullest first", "rows" if panel is axes[0] else "")
    _save(figure, path)


def versions(cycles: Sequence[bsjoin.CycleProgress], path: Path) -> None:
    """Draw which version of the table each micro-batch used, and how many keys it found."""
    figure, axes = _grid("A table that is refreshed while the stream runs", 2)
    numbers = [cycle.batch_id for cycle in cycles]
    used = [cycle.table_version or 0 for cycle in cycles]
    axes[0].step(numbers, used, where="mid", color=_OURS, lw=2.5)
    axes[0].plot(numbers, used, "o", color=_OURS)
    axes[0].set_yticks(sorted(set(used)))
    axes[0].set_title("The version that a micro-batch used", loc="left", fontweight="bold")
    axes[1].bar(numbers, [100 * cycle.hit_rate for cycle in cycles], color=_OURS)
    axes[1].yaxis.set_major_formatter("{x:.0f} %")
    axes[1].set_ylim(0, 100)
    axes[1].set_title("Flights whose plane was found", loc="left", fontweight="bold")
    for panel in axes:
        _labels(panel, "micro-batch", "")
        panel.set_xticks(numbers)
    _save(figure, path)


def _grid(title: str, panels: int) -> tuple[Figure, list[Axes]]:
    figure, axes = plt.subplots(1, panels, figsize=(12, 5), layout="constrained", squeeze=False)
    figure.suptitle(title, fontsize=15, fontweight="bold", x=0.01, ha="left")
    return figure, list(axes.flat)


def _labels(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.25)
    plt.close(figure)
