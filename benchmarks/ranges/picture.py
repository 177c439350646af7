"""The picture of the range benchmarks: Fig. 13, Tables 6 to 8, and every rival."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.ranges import joins as ranges
from benchmarks.ranges import kernels as range_kernels
from benchmarks.ranges import skiplists
from benchmarks.ranges import tables as range_tables
from benchmarks.ranges.rivals import AS_OF, BINS, JOIN, WINDOW, WRITTEN

__all__ = ["draw"]

_OURS, _THEIRS, _GREY = "#d1495b", "#2e6f95", "#9aa0a6"
_WAYS = {
    range_tables.FLAT_MAP: (_GREY, ":"),
    range_tables.LOOP: (_GREY, "--"),
    range_tables.RANDOM: (_THEIRS, "-"),
    range_tables.SORTED: ("#6aa84f", "-"),
    range_tables.DIRECTORY: ("#e8a33d", "-"),
    range_tables.JOIN: (_OURS, "-"),
}
_RIVALS = {
    WRITTEN: ("#8fb8d3", "s"),
    JOIN: (_THEIRS, "o"),
    BINS: ("#6aa84f", "D"),
    AS_OF: ("#7b4fa0", "^"),
    WINDOW: ("#c9a227", "v"),
    "DuckDB, 2 threads": ("#c9a227", "o"),
    "DuckDB, 1 thread": ("#e8d48a", "o"),
    "Polars, 2 threads": (_THEIRS, "s"),
    "Polars, 1 thread": ("#8fb8d3", "s"),
}


def draw(measured: dict[str, Any], path: Path) -> None:
    """Comparisons, throughput and the rivals' times as multiples of ours.

    Args:
        measured: by the parts of :func:`benchmarks.range_report.run`.
        path: the file.
    """
    figure, places = plt.subplot_mosaic(
        [["reads", "variance", "rates"], ["spark", "spark", "engines"]],
        figsize=(15, 10.5),
        layout="constrained",
        height_ratios=[1, 1.35],
    )
    _reads(places["reads"], places["variance"], measured["skip lists"])
    _rates(places["rates"], measured["tables"])
    _rivals(
        places["spark"],
        measured["joins"],
        ranges.OURS,
        "Spark on the same rows: its time over that of bsjoin's join",
    )
    _rivals(
        places["engines"],
        measured["index"],
        range_kernels.OURS,
        "The index alone, without Spark",
    )
    for axes in places.values():
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _reads(mean: Axes, variance: Axes, found: dict[int, Any]) -> None:
    for name, color in ((skiplists.RANDOM, _THEIRS), (skiplists.FIXED, _OURS)):
        sizes = sorted(found)
        mean.plot(
            sizes, [found[s][name]["mean"] for s in sizes], color=color, marker="o", label=name
        )
        ones = [found[s][name]["one"] for s in sizes]
        variance.plot(sizes, ones, color=color, marker="o", label=name)
    mean.set_title("Stored values read in a search", loc="left")
    variance.set_title("Variance of one search over ten builds", loc="left")
    for axes in (mean, variance):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes)
        axes.set(xlabel="rows")
        axes.set_ylim(bottom=0 if axes is mean else -1)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, loc="lower right" if axes is mean else "center right")


def _rates(axes: Axes, tables: dict[str, dict[int, dict[int, Any]]]) -> None:
    for way, (color, line) in _WAYS.items():
        sizes = sorted(tables[way])
        most = max(tables[way][sizes[0]])
        rates = [tables[way][size][most]["rate"] / 1e3 for size in sizes]
        axes.plot(sizes, rates, line, color=color, marker="o", label=way)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes)
    axes.set(yscale="log", xlabel="rows", ylabel="thousand rows a second")
    low, high = axes.get_ylim()
    ticks = [m * 10**e for e in range(0, 4) for m in (1, 2, 5) if low <= m * 10**e <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title(f"Throughput of {most} workers in Spark", loc="left")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)


def _rivals(axes: Axes, found: dict[str, Any], ours: str, title: str) -> None:
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
    axes.legend(frameon=False, fontsize=8, loc="lower right")
