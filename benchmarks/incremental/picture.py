"""The picture of the incremental cache: rates of every way, hit rates by size."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

__all__ = ["draw"]


def draw(
    rates: dict[str, float],
    flink: dict[str, float],
    hit_rates: dict[float, dict[float, float]],
    path: Path,
) -> None:
    """Rows per second of every way as bars, and hit rate against cache size as lines.

    Args:
        rates: of the ways that were measured.
        flink: what Flink made of the same, measured elsewhere; drawn apart.
        hit_rates: by exponent and share of the table that fits.
        path: the file.
    """
    figure, (bars, lines) = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
    ways = sorted({**rates, **flink}.items(), key=lambda pair: pair[1])
    names = [name for name, _ in ways]
    colors = [
        "#d1495b" if name.startswith("bsjoin") else "#c9b458" if name in flink else "#2e6f95"
        for name in names
    ]
    drawn = bars.barh(names, [rate for _, rate in ways], color=colors)
    bars.bar_label(drawn, [f"{rate:,.0f}" for _, rate in ways], padding=4, fontsize=9)
    bars.set(xscale="log", xlabel="rows per second (logarithmic)")
    bars.set_xlim(right=max(rate for _, rate in ways) * 6)
    bars.set_title("Zipf 1.04 over the keys of a PostgreSQL table", loc="left")
    for z, by_share in hit_rates.items():
        shares = sorted(by_share)
        values = [100 * by_share[share] for share in shares]
        lines.plot([100 * share for share in shares], values, marker="o", ms=4, label=f"z = {z}")
    lines.set(
        xscale="log", xlabel="cache size, % of the table", ylabel="hit rate, %", ylim=(0, 100)
    )
    ticks = [100 * share for share in next(iter(hit_rates.values()))]
    lines.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    lines.minorticks_off()
    lines.set_title("A small cache serves a skewed stream", loc="left")
    lines.legend(frameon=False, fontsize=9)
    lines.grid(alpha=0.25)
    for axes in (bars, lines):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
