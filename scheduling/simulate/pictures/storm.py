"""St-Stream's and OERA's comparisons with plain Storm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from scheduling.simulate.elastic_runs import Elastic
from scheduling.simulate.pictures.frame import COLORS, NODES, bars, panels, save
from scheduling.simulate.skewed_runs import Skewed

__all__ = ["density", "draw_elastic", "draw_skewed"]

Float64s = NDArray[np.float64]

_GRID = np.linspace(0.0, 105.0, 421)
_LEAST_WIDTH = 1.5  # points; a node whose load never changes would be a spike


def draw_skewed(found: Mapping[str, Skewed], folder: Path) -> list[Path]:
    """St-Stream's comparison: the nodes' CPU use over time and its density, without and with it."""
    figure, grid = panels(
        2,
        2,
        "CPU use of 7 nodes under a skewed stream. Paper: from 11-88.5 % to 40-60 % (grey); "
        "largest minus smallest 77 points\nbefore, 21 after. Densities as in Figs. 15 and 16: "
        "here a node's load does not vary, so each curve is its kernel alone",
        height=3.8,
    )
    for axes, below, (way, one) in zip(grid[:2], grid[2:], found.items(), strict=True):
        time_s = one.trace.rows("time_s")
        cpu = 100 * one.trace.rows("cpu")
        seconds = 20
        for at, host in enumerate(one.trace.hosts):
            smooth = np.convolve(cpu[:, at], np.full(seconds, 1 / seconds), "valid")
            axes.plot(time_s[seconds - 1 :], smooth, color=NODES[at], lw=1.6, label=host)
            # The second half of the run: what was moved has settled.
            settled = cpu[len(cpu) // 2 :, at]
            below.plot(_GRID, density(settled, _GRID), color=NODES[at], lw=1.6)
            below.plot(settled, np.full(len(settled), -0.004), "|", color=NODES[at], ms=5)
        high = one.bounds[-1][1]
        for bound, name in ((30.0, "L_min"), (high, "L_max")):
            axes.axhline(bound, color="0.3", lw=1, ls="--")
            axes.text(time_s[-1], bound + 1, name, ha="right", fontsize=9, color="0.3")
        axes.set(title=way, xlabel="seconds", ylabel="CPU use, mean of 20 s, %", ylim=(0, 118))
        axes.set_yticks(range(0, 101, 20))
        axes.legend(frameon=False, fontsize=9, ncols=7, loc="upper left", columnspacing=1.0)
        below.axvspan(40, 60, color="0.93", lw=0, zorder=0)
        below.set(xlabel="CPU use in the second half, %", ylabel="density", xlim=(0, 105))
    highest = max(axes.get_ylim()[1] for axes in grid[2:])
    for axes in grid[2:]:
        axes.set_ylim(-0.008, highest)
    return [save(figure, folder / "st_stream_use.png")]


def density(samples: Float64s, at: Float64s) -> Float64s:
    """A density of samples in percent: Gaussian kernels by Scott's rule, 1.5 points at least.

    >>> grid = np.linspace(0.0, 100.0, 1001)
    >>> curve = density(np.array([40.0, 42.0, 60.0]), grid)
    >>> round(float(curve.sum() * 0.1), 2)
    1.0
    """
    width = max(float(samples.std()) * len(samples) ** -0.2, _LEAST_WIDTH)
    away = (at[:, None] - samples[None, :]) / width
    curve: Float64s = np.exp(-0.5 * away**2).mean(axis=1) / (width * np.sqrt(2 * np.pi))
    return curve


def draw_elastic(found: Mapping[str, Elastic], folder: Path) -> list[Path]:
    """OERA's comparison: over time, and its three means."""
    ways = ("OERA", "median", "static")
    figure, grid = panels(
        2,
        3,
        "OERA, the median and static allocation on a day's stream. Paper (Figs. 5-8): OERA changes "
        "most often and loses least,\nstatic never changes and loses most, the median is between. "
        "Here the median, ten windows late, loses most",
        height=3.6,
    )
    stream, threads, rates, buffers, losses, use = grid
    trace = found["OERA"].trace
    hours = 8 + trace.rows("time_s") / 3600
    count = trace.operators.index("Count")
    offered = np.diff(trace.rows("offered"), prepend=0.0) / np.diff(
        trace.rows("time_s"), prepend=0.0
    )
    stream.plot(hours, 10 * offered, color="0.3", lw=1.6)
    stream.axhline(1200, color="0.5", lw=1, ls="--")
    stream.text(hours[0], 1220, "12 threads", fontsize=9, color="0.4")
    stream.set(title="Input of Count", ylabel="words/s")
    for way in ways:
        one = found[way]
        style: dict[str, Any] = {"color": COLORS[way], "label": way, "lw": 1.8}
        threads.step(hours, one.trace.rows("parallelism")[:, count], where="post", **style)
        buffers.plot(hours, 100 * one.trace.rows("buffers")[:, count], **style)
        losses.plot(hours, one.trace.rows("lost") / 1e3, **style)
        rates.plot(hours, one.trace.throughput(600.0), **style)
        windows = 8 + np.arange(1, len(one.use["Count"]) + 1) / 6
        use.step(windows, 100 * np.array(one.use["Count"]), where="pre", **style)
    threads.set(title="Parallelism of Count", ylabel="threads")
    threads.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    buffers.set(title="Buffer of Count", ylabel="occupied, %")
    rates.plot(hours, offered, color="0.3", lw=1, ls=":", label="input")
    rates.set(title="Throughput, mean of 10 minutes", ylabel="records/s")
    use.set(title="Use of Count's threads, by window", ylabel="busy, %")
    losses.set(title="Lost since 8:00", ylabel="thousand records")
    for axes in grid:
        axes.set_xlabel("hour of the day")
        axes.set_ylim(bottom=0)
    for axes in (threads, rates, losses):
        axes.legend(frameon=False, fontsize=9)
    first = save(figure, folder / "oera_over_time.png")
    figure, grid = panels(
        1,
        3,
        "OERA's means. Paper, against static and the median: loss -90 % and -30 %, "
        "throughput +4 % and +3 %, use of threads +22 and +9 points",
    )
    for axes, label, values, pattern in (
        (grid[0], "lost, % of the records", [100 * found[way].loss_rate for way in ways], "{:.1f}"),
        (grid[1], "done, thousand records", [found[way].done / 1e3 for way in ways], "{:,.0f}"),
        (
            grid[2],
            "use of threads, % (Split, Count)",
            [100 * found[way].utilisation for way in ways],
            "{:.0f}",
        ),
    ):
        bars(axes, dict(zip(ways, values, strict=True)), pattern)
        axes.set_ylabel(label)
    return [first, save(figure, folder / "oera_means.png")]
