"""The pictures of the jobs: every way as bars, and what more workers bring."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.rivals.compare import AQE_ON, FULL, RECORD
from benchmarks.rivals.published import LATENCY_MS, THROUGHPUT, WAYS
from benchmarks.rivals.report import latency_ms, rate

__all__ = ["draw_ways", "draw_workers"]

_OURS, _THEIRS, _DATABASE, _ENGINE = "#d1495b", "#2e6f95", "#c9b458", "#9aa0a6"
_LINES = {FULL: (_OURS, "-"), AQE_ON: (_THEIRS, "-"), RECORD: (_DATABASE, "-")}
_PAPER = dict(zip(WAYS, ("#e8a0aa", "#b9b9b9", "#8a8a8a"), strict=True))


def draw_ways(measured: Mapping[str, Any], title: str, path: Path) -> None:
    """Milliseconds of a micro-batch and rows a second of every way.

    Args:
        measured: by :func:`benchmarks.rivals.compare.compare`.
        title: what was done.
        path: the file.
    """
    ways = next(iter(measured["ways"].values()))
    small, large = measured["batches"]
    times = {name: latency_ms(runs) for name, runs in ways.items() if "ms" in runs[0]}
    rates = {name: rate(runs) for name, runs in ways.items()}
    for name, by_rows in measured["engines"].items():
        at = {int(rows): statistics.median(seconds) for rows, seconds in by_rows.items()}
        times[f"{name}, no stream"] = 1e3 * at[small]
        rates[f"{name}, no stream"] = large / at[large]
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5.2), layout="constrained")
    _bars(left, times, f"ms per micro-batch of {small:,} rows (median)", shortest_first=True)
    _bars(right, rates, "rows of the stream a second (logarithmic)", shortest_first=False)
    right.set_xscale("log")
    right.set_xlim(right=max(rates.values()) * 6)
    left.set_title(title, loc="left")
    right.set_title(f"At full speed: micro-batches of {large:,} rows", loc="left")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _bars(axes: Axes, values: Mapping[str, float], label: str, *, shortest_first: bool) -> None:
    ordered = sorted(values.items(), key=lambda pair: pair[1], reverse=shortest_first)
    colors = [_color(name) for name, _ in ordered]
    drawn = axes.barh([name for name, _ in ordered], [value for _, value in ordered], color=colors)
    axes.bar_label(drawn, [f"{value:,.0f}" for _, value in ordered], padding=4, fontsize=9)
    axes.margins(x=0.15)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)


def _color(name: str) -> str:
    if name.startswith("bsjoin"):
        return _OURS
    if name.startswith("Spark"):
        return _THEIRS
    return _DATABASE if name.startswith("one query") else _ENGINE


def draw_workers(
    ours: Mapping[str, Mapping[int, Mapping[str, float]]],
    ups: Mapping[str, Mapping[int, float]],
    volumes: Mapping[str, Mapping[float, float]],
    job: str,
    drawn: int,
    path: Path,
) -> None:
    """Throughput, latency, speed-up and scalability, the paper's beside.

    Args:
        ours: by way and number of workers, as :func:`benchmarks.rivals.workers.predicted` has it.
        ups: speed-ups, likewise.
        volumes: milliseconds of a micro-batch by way and size of the tables.
        job: its name.
        drawn: the number of the paper's figure.
        path: the file.
    """
    figure, grid = plt.subplots(2, 2, figsize=(13, 9), layout="constrained")
    for axes, which, published in (
        (grid[0, 0], "rate", THROUGHPUT[job]),
        (grid[0, 1], "latency_ms", LATENCY_MS[job]),
    ):
        for name, by in ours.items():
            _line(axes, name, {n: v[which] for n, v in by.items()})
        for index, way in enumerate(WAYS):
            values = [row[index] for row in published.values()]
            axes.plot(list(published), values, ":", color=_PAPER[way], label=f"paper, {way}")
        axes.set(yscale="log")
    for name, speed_ups in ups.items():
        _line(grid[1, 0], name, speed_ups)
    for index, way in enumerate(WAYS):
        up = {n: row[index] / THROUGHPUT[job][1][index] for n, row in THROUGHPUT[job].items()}
        grid[1, 0].plot(list(up), list(up.values()), ":", color=_PAPER[way], label=f"paper, {way}")
    grid[1, 0].set(yscale="log")
    for name, by_size in volumes.items():
        sizes = sorted(by_size)
        ratios = [by_size[size] / by_size[sizes[0]] for size in sizes]
        grid[1, 1].plot(sizes, ratios, color=_LINES[name][0], marker="o", ms=4, label=name)
    grid[1, 1].set(xlabel="size of the tables", ylabel="time / time with the first tables")
    grid[1, 1].set_ylim(bottom=0)
    for axes, title in (
        (grid[0, 0], "Results a second"),
        (grid[0, 1], "ms: ours of a micro-batch, the paper's of a record"),
        (grid[1, 0], f"Speed-up (Formula 5, Fig. {drawn}(a))"),
        (grid[1, 1], f"Larger tables, two workers (Fig. {drawn}(b))"),
    ):
        axes.set_title(title, loc="left")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    for axes in (grid[0, 0], grid[0, 1], grid[1, 0]):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("workers (filled: measured; hollow: model)")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _line(axes: Axes, name: str, by: Mapping[int, float]) -> None:
    color, style = _LINES[name]
    axes.plot(list(by), list(by.values()), style, color=color, label=name)
    for n, value in by.items():
        axes.plot(n, value, "o", ms=5, color=color, mfc=color if n <= 2 else "white")
