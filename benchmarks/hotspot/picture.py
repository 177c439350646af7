"""The picture of the skew benchmarks: the paper's statements, and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.hotspot.skews import EXPONENTS, HASH, PARTITIONS, SPLIT, WAYS

__all__ = ["draw"]

_COLORS = dict(zip(WAYS, ("#9aa0a6", "#2e6f95", "#6aa84f", "#d1495b"), strict=True))


def draw(
    measured: dict[str, Any],
    caches: dict[str, dict[str, Any]],
    live: dict[str, dict[str, Any]],
    path: Path,
) -> None:
    """Skew, recovery, loads and caches.

    Args:
        measured: by :func:`benchmarks.hotspot.skews.measure`.
        caches: by :func:`benchmarks.hotspot.caches.measure`.
        live: by :func:`benchmarks.hotspot.live.measure`.
        path: the file.
    """
    figure, grid = plt.subplots(2, 2, figsize=(13, 9), layout="constrained")
    _skews(grid[0, 0], measured["skews"])
    _recovery(grid[0, 1], measured["recovery"][16])
    _loads(grid[1, 0], live["HotSpot"])
    _caches(grid[1, 1], caches)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _skews(axes: Axes, skews: dict[float, Any]) -> None:
    wide = 0.2
    groups = [(n, z) for n in PARTITIONS for z in EXPONENTS]
    places = np.arange(len(groups)) + np.repeat(np.arange(len(PARTITIONS)), len(EXPONENTS)) * 0.6
    for index, way in enumerate(WAYS):
        values = [skews[z][n][way]["skew"] for n, z in groups]
        axes.bar(places + (index - 1.5) * wide, values, 0.9 * wide, color=_COLORS[way], label=way)
    axes.axhline(0.05, color="0.3", lw=1, ls="--")
    axes.annotate("0.05", (places[-1] + 0.6, 0.05), va="center", fontsize=9, color="0.3")
    axes.set(yscale="log", ylabel="DS of the first adapted cycle")
    axes.set_xticks(places, [f"{z:g}" for _, z in groups], fontsize=8)
    for index, n in enumerate(PARTITIONS):
        middle = places[index * len(EXPONENTS) :][: len(EXPONENTS)].mean()
        axes.annotate(
            f"exponent, {n} partitions", (middle, -0.11), ha="center", fontsize=9,
            xycoords=("data", "axes fraction"), annotation_clip=False,
        )  # fmt: skip
    axes.set_title(
        "The paper: repartitioning by its rule balances the load.\n"
        "Measured: until one key outweighs a partition; then it must be spread",
        loc="left",
        fontsize=10,
    )
    axes.legend(frameon=False, fontsize=8, ncols=2)


def _recovery(axes: Axes, recovery: dict[str, list[dict[str, Any]]]) -> None:
    for way in WAYS:
        skews = [one["skew"] for one in recovery[way]]
        axes.plot(skews, color=_COLORS[way], marker="o", ms=4, label=way)
    for moved in range(4, len(recovery[HASH]), 4):
        axes.axvline(moved - 0.5, color="0.7", lw=1, ls=":")
    axes.set(yscale="log", xlabel="cycle (dotted: other keys become hot)", ylabel="DS")
    axes.set_title(
        "The paper: a cycle's rule comes from the cycle before.\n"
        "Measured: one uneven cycle, then even again (16 partitions, exponent 1.16)",
        loc="left",
        fontsize=10,
    )


def _loads(axes: Axes, live: dict[str, Any]) -> None:
    versions, loads = live["versions"], [np.array(one) for one in live["loads"]]
    before = loads[0]
    after = next((one for v, one in zip(versions, loads, strict=True) if v), loads[-1])
    places = np.arange(len(before))
    for shift, one, color, label in (
        (-0.2, before, _COLORS[HASH], "by hash (the first micro-batch)"),
        (0.2, after, _COLORS[SPLIT], "under the first rule"),
    ):
        axes.bar(places + shift, one / one.mean(), 0.36, color=color, label=label)
    axes.axhline(1, color="0.3", lw=1, ls="--")
    axes.set_xticks(places, [f"partition {n + 1}" for n in places], fontsize=9)
    axes.set(ylabel="rows / mean", ylim=(0, 1.2 * float((before / before.mean()).max())))
    axes.set_title(
        "The paper, Fig. 12: the load of the workers becomes even.\n"
        "Measured in a Spark stream: rows of each partition",
        loc="left",
        fontsize=10,
    )
    axes.legend(frameon=False, fontsize=9, loc="upper left", ncols=3)


def _caches(axes: Axes, caches: dict[str, dict[str, Any]]) -> None:
    ways = list(caches)
    colors = ["#e9a03b", _COLORS[HASH], _COLORS[SPLIT]]
    least = min(one["remote"] for one in caches.values())
    bars = (
        ("remote look-ups\n/ the least", [caches[way]["remote"] / least for way in ways]),
        ("keys cached\n/ distinct", [caches[w]["cached"] / caches[w]["distinct"] for w in ways]),
        ("rows of the busiest\nhost / mean", [caches[way]["busiest"] for way in ways]),
    )
    for index, way in enumerate(ways):
        values = [values[index] for _, values in bars]
        drawn = axes.bar(np.arange(3) + (index - 1) * 0.26, values, 0.24, color=colors[index])
        axes.bar_label(drawn, [f"{value:.2f}" for value in values], fontsize=8)
        drawn.set_label(way)
    axes.set_ylim(0, 1.2 * max(max(values) for _, values in bars))
    axes.set_xticks(np.arange(3), [name for name, _ in bars], fontsize=9)
    axes.set_title(
        "The paper, Fig. 11: smaller caches and fewer look-ups.\n"
        "Simulated, six hosts with a cache each: as few as by hash, and evenly loaded",
        loc="left",
        fontsize=10,
    )
    axes.legend(frameon=False, fontsize=9)
