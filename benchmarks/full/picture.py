"""The picture of what a micro-batch costs."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

__all__ = ["draw"]

STYLES = {
    "no join": ("#9aa0a6", ":"),
    "identity arrow_udf": ("#5f6368", "--"),
    "bsjoin": ("#d1495b", "-"),
    "Spark, AQE on": ("#2e6f95", "-"),
    "Spark, AQE off": ("#2e6f95", "--"),
    "Spark, persisted broadcast": ("#6aa84f", "-"),
}


def draw(medians: dict[str, dict[int, float]], path: Path) -> None:
    """Milliseconds per micro-batch against table size, one line a way, both axes logarithmic."""
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    every = sorted({size for by_size in medians.values() for size in by_size})
    for way, by_size in medians.items():
        color, line = STYLES[way]
        sizes = sorted(by_size)
        wide = 2.6 if way == "bsjoin" else 1.6
        values = [by_size[size] for size in sizes]
        if len(sizes) == 1:  # a way that does not see the table
            sizes, values = every, values * len(every)
        axes.plot(sizes, values, line, color=color, marker="o", ms=4, lw=wide, label=way)
    axes.set(xscale="log", yscale="log", xlabel="rows in the table", ylabel="addBatch, ms (median)")
    axes.yaxis.set_major_formatter(mpl.ticker.ScalarFormatter())
    axes.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    ticks = [50, 100, 200, 500, 1000, 2000, 5000]
    top = max(max(by_size.values()) for by_size in medians.values())
    axes.set_yticks([tick for tick in ticks if tick < top * 1.5])
    axes.set_title("A micro-batch of 10,000 rows: the table's size does not show", loc="left")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)
