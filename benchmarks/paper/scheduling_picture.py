"""St-Stream and plain Storm over time, measure by measure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from scheduling.simulate.skewed_runs import Skewed

__all__ = ["draw_st_stream"]

_COLORS = {"Storm": "#9aa0a6", "St-Stream": "#d1495b"}
_WIDTHS = {"Storm": 4.0, "St-Stream": 1.6}  # where both are alike, both shall be seen
_SMOOTH = 20  # steps of a second
_LATE_S = 5.0
_HEAD = "St-Stream and Storm on 7 nodes, simulated. "


def draw_st_stream(found: Mapping[str, Skewed], path: Path) -> Path:
    """Load deviation, CPU, memory, throughput, latency, SLA, communication, buffers, parallelism.

    Rent is not drawn: both keep all seven nodes, the cost is the same.

    Args:
        found: by way, a run of :func:`scheduling.simulate.skewed_runs.compare`.
        path: the file.
    """
    figure, grid = plt.subplots(3, 3, figsize=(15, 10), layout="constrained")
    figure.suptitle(
        f"{_HEAD}The paper: all nodes between 40 and 60 % from 240 s on (Fig. 11), latency 17.6 % "
        "lower at 200 s (Fig. 14),\nload of every node between 0.3 and 0.6 (Fig. 17). Rent is the "
        "same: both keep all nodes",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    labels = (
        ("Load deviation S", "points of CPU use"),
        ("CPU use: busiest node, the nodes' mean, idlest", "%"),
        ("Memory use: fullest node, the nodes' mean", "%"),
        ("Throughput", "records/s"),
        ("Latency over that of an idle node, by clock", "times"),
        (f"Records that wait over {_LATE_S:g} s, so far", "%"),
        ("Communication between nodes", "KB/s"),
        ("Buffer of count", "occupied, %"),
        ("Parallelism of count (operators split)", "instances"),
    )
    for way, one in found.items():
        trace = one.trace
        time_s = trace.rows("time_s")
        cpu = np.apply_along_axis(_smooth, 0, 100 * trace.rows("cpu"))
        memory = 100 * trace.rows("memory")
        count = trace.operators.index("count")
        done = np.diff(trace.progress(), prepend=0.0)
        late = np.cumsum(np.where(trace.rows("delay_s") > _LATE_S, done, 0.0))
        style = {"color": _COLORS[way], "lw": _WIDTHS[way]}
        dashed = {"color": _COLORS[way], "lw": 1.1, "ls": "--"}
        clocks = time_s[-1] / len(one.latency) * np.arange(1, len(one.latency) + 1)
        s, use, kept, rate, wait, sla, network, buffers, threads = grid.flat
        later = time_s[_SMOOTH - 1 :]
        s.plot(later, cpu.std(axis=1), label=way, **style)
        use.plot(later, cpu.max(axis=1), label=way, **style)
        use.plot(later, cpu.min(axis=1), **style)
        use.plot(later, cpu.mean(axis=1), **dashed)
        kept.plot(time_s, memory.max(axis=1), label=way, **style)
        kept.plot(time_s, memory.mean(axis=1), **dashed)
        rate.plot(time_s, trace.throughput(), label=way, **style)
        wait.step(clocks, one.latency, where="pre", marker="o", ms=4, label=way, **style)
        sla.plot(time_s, 100 * late / np.maximum(np.cumsum(done), 1e-12), label=way, **style)
        sent = trace.rows("network_bytes") / np.diff(time_s, prepend=0.0) / 1e3
        network.plot(later, _smooth(sent), label=way, **style)
        buffers.plot(time_s, 100 * trace.rows("buffers")[:, count], label=way, **style)
        threads.step(time_s, trace.rows("parallelism")[:, count], where="post", label=way, **style)
    for axes, (title, label) in zip(grid.flat, labels, strict=True):
        axes.set_title(title, loc="left", fontsize=10)
        axes.set(xlabel="seconds", ylabel=label)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
    grid[2, 2].yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    grid[0, 0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _smooth(values: np.ndarray) -> np.ndarray:
    """The mean of the seconds before."""
    return np.convolve(values, np.full(_SMOOTH, 1 / _SMOOTH), "valid")
