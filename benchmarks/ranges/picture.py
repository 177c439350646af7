"""The picture of the range benchmarks: every rival, case by case."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from benchmarks.ranges.rivals import AS_OF, BINS, WINDOW, WRITTEN
from benchmarks.ranges.rivals import JOIN as SPARK

__all__ = ["draw_rivals"]

_OURS, _THEIRS = "#d1495b", "#2e6f95"
_RIVALS = {
    WRITTEN: ("#8fb8d3", "s"),
    SPARK: (_THEIRS, "o"),
    BINS: ("#6aa84f", "D"),
    AS_OF: ("#7b4fa0", "^"),
    WINDOW: ("#c9a227", "v"),
    "DuckDB, 2 threads": ("#c9a227", "o"),
    "DuckDB, 1 thread": ("#e8d48a", "o"),
    "Polars, 2 threads": (_THEIRS, "s"),
    "Polars, 1 thread": ("#8fb8d3", "s"),
}


def draw_rivals(found: dict[str, Any], ours: str, title: str, path: Path) -> None:
    """Every rival's time as a multiple of ours, a row a case.

    Args:
        found: by case, with ``size`` and ``seconds`` by way.
        ours: the way that is 1.
        title: of the picture.
        path: the file.
    """
    high = 1.6 + 0.55 * len(found)
    figure, axes = plt.subplots(figsize=(9, high), layout="constrained")
    _rivals(figure, axes, found, ours, title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _rivals(picture: Picture, axes: Axes, found: dict[str, Any], ours: str, title: str) -> None:
    """A row a case, a mark a rival; left of 1 the rival is faster."""
    names = list(found)[::-1]
    drawn: set[str] = set()
    for place, name in enumerate(names):
        least = statistics.median(found[name]["seconds"][ours])
        for way, seconds in found[name]["seconds"].items():
            if way == ours:
                continue
            color, mark = _RIVALS[way]
            ratio = statistics.median(seconds) / least
            label = None if way in drawn else way
            drawn.add(way)
            axes.plot(ratio, place, mark, color=color, ms=8, label=label, mec="white", mew=0.5)
    axes.axvline(1, color=_OURS, lw=1.5)
    axes.set(xscale="log", xlabel="times as long as bsjoin (left of 1: the rival is faster)")
    low, high = min(axes.get_xlim()[0], 0.8), axes.get_xlim()[1]
    axes.set_xlim(low, high)
    axes.axvspan(low, 1, color=_OURS, alpha=0.06, lw=0)
    axes.set_yticks(range(len(names)), [f"{n}\n{found[n]['size']}" for n in names], fontsize=8)
    ticks = [m * 10**e for e in range(-2, 4) for m in (1, 2, 5) if low <= m * 10**e <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.grid(axis="x", alpha=0.25)
    axes.set_title(title, loc="left")
    picture.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=len(drawn))
