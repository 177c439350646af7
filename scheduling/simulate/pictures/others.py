"""Twister2's schedulers, and the join that is disturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scheduling.simulate.container_runs import Containers
from scheduling.simulate.disturbed_runs import BURSTS, FAILURE, Disturbed
from scheduling.simulate.pictures.frame import COLORS, panels, save

__all__ = ["draw_containers", "draw_disturbed"]


def draw_containers(found: Mapping[str, Containers], folder: Path) -> list[Path]:
    """Twister2's schedulers: workers in use, network, waiting for input."""
    figure, grid = panels(
        1,
        3,
        "Twister2's schedulers. Text: first fit reduces the number of containers; "
        "data locality goes where the input is fetched soonest",
        height=3.8,
    )
    names = list(found)
    measures: Sequence[tuple[str, list[float], str]] = (
        ("workers in use", [float(found[name].used) for name in names], "{:.0f}"),
        ("between hosts, MB/s", [found[name].network_mb_s for name in names], "{:.1f}"),
        ("the slowest reader waits, s", [found[name].transfer_s for name in names], "{:.1f}"),
    )
    for axes, (label, values, pattern) in zip(grid, measures, strict=True):
        drawn = axes.bar(names, values, color="#2e6f95")
        axes.bar_label(drawn, [pattern.format(value) for value in values], padding=2, fontsize=9)
        axes.set_ylabel(label)
        axes.margins(y=0.15)
        axes.grid(axis="x", visible=False)
    return [save(figure, folder / "twister2.png")]


def draw_disturbed(found: Mapping[str, Disturbed], folder: Path) -> list[Path]:
    """The join under bursts and a failure: throughput, what waits, buffers, what changes cost."""
    figure, grid = panels(
        2,
        2,
        "A join with bursts (grey) and a failed worker (red), with a controller and left alone; "
        "no paper has this run",
    )
    for way, one in found.items():
        time_s = one.trace.rows("time_s")
        style: dict[str, Any] = {"color": COLORS[way], "label": way, "lw": 1.8}
        grid[0].plot(time_s, one.trace.throughput(5.0) / 1e3, **style)
        grid[1].plot(time_s, one.trace.rows("backlog") / 1e6, **style)
        join = one.trace.operators.index("join")
        grid[2].plot(time_s, 100 * one.trace.rows("buffers")[:, join], **style)
        still = np.cumsum(one.trace.rows("still_s"))
        style["label"] = f"{way}: {still[-1]:.0f} s, {one.still_cost:.2f} $"
        grid[3].plot(time_s, still, **style)
    end = max(float(one.trace.time_s[-1]) for one in found.values())
    labels = (
        "thousand records/s",
        "million records that wait",
        "buffer of join occupied, %",
        "seconds the job stood still so far",
    )
    for axes, label in zip(grid, labels, strict=True):
        for start in np.arange(BURSTS.every_s, end, BURSTS.every_s):
            axes.axvspan(start, start + BURSTS.lasts_s, color="0.85", lw=0, zorder=0)
        axes.axvspan(*FAILURE, color="#d1495b", alpha=0.08, lw=0, zorder=0)
        axes.set(xlabel="seconds", ylabel=label)
        axes.set_ylim(bottom=0)
        if axes is not grid[2]:
            axes.legend(frameon=False, fontsize=9, loc="upper left")
    return [save(figure, folder / "join_disturbed.png")]
