"""The papers' comparisons as pictures; the only module here that needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")  # draws files, needs no screen

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scheduling.simulate import published
from scheduling.simulate.container_runs import Containers
from scheduling.simulate.disturbed_runs import BURSTS, FAILURE, Disturbed
from scheduling.simulate.elastic_runs import Elastic
from scheduling.simulate.flink import Outcome
from scheduling.simulate.skewed_runs import Skewed

__all__ = ["draw_containers", "draw_disturbed", "draw_elastic", "draw_flink", "draw_skewed"]

Outcomes = Mapping[str, Outcome]

_COLORS = {
    published.DEFAULT: "#9aa0a6",
    published.ROUND_ROBIN: "#6aa84f",
    published.GS_BFD: "#c9a227",
    published.CETSA: "#d1495b",
    published.LBA_CE: "#2e6f95",
    "OERA": "#d1495b",
    "median": "#2e6f95",
    "static": "#9aa0a6",
    "steered": "#d1495b",
    "left alone": "#9aa0a6",
}
# RR and LBA-CE often coincide: both shall be seen.
_LINES = {published.LBA_CE: "--"}
_NODES = ("#2e6f95", "#6aa84f", "#9aa0a6", "#c9a227", "#8e6c8a", "#e08e45", "#d1495b")


def _axes(rows: int, columns: int, title: str, height: float = 4.2) -> tuple[Figure, list[Axes]]:
    figure, grid = plt.subplots(
        rows, columns, figsize=(5.6 * columns, height * rows), layout="constrained", squeeze=False
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
    return figure, list(grid.flat)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _bars(axes: Axes, values: Mapping[str, float], told: str) -> None:
    drawn = axes.bar(list(values), list(values.values()), color=[_COLORS[way] for way in values])
    axes.bar_label(drawn, [told.format(value) for value in values.values()], padding=2, fontsize=9)
    axes.margins(y=0.15)
    axes.grid(axis="x", visible=False)


def draw_flink(
    at_60: Mapping[str, Outcomes], at_20: Mapping[str, Outcomes], folder: Path
) -> list[Path]:
    """CETSA's and LBA-CE's comparisons, five pictures.

    Args:
        at_60: by job, the outcomes at 60,000 records/s.
        at_20: the same at 20,000; may be empty.
        folder: where the files go.
    """
    return [
        _costs(at_60, at_20, folder / "flink_cost.png"),
        _times(at_60, folder / "flink_time.png"),
        _over_time(at_60, folder / "flink_throughput.png", "throughput"),
        _over_time(at_60, folder / "flink_load_deviation.png", "deviation"),
        _use(at_60, folder / "flink_use_network_sla.png"),
    ]


def _costs(at_60: Mapping[str, Outcomes], at_20: Mapping[str, Outcomes], path: Path) -> Path:
    rates = [(60, at_60)] + ([(20, at_20)] if at_20 else [])
    figure, grid = _axes(
        len(rates),
        len(at_60),
        "Rent for 10 million records. Paper, Wordcount at 60,000/s: CETSA 37.3 % under Default, "
        "58.9 % under RR;\nLBA-CE 37.9 % under Default (Fixwindow: 20.2 %)",
    )
    spots = iter(grid)
    for rate, by_job in rates:
        for job, outcomes in by_job.items():
            axes = next(spots)
            _bars(axes, {way: one.cost for way, one in outcomes.items()}, "{:.2f}")
            axes.set(ylabel="rent, $", title=f"{job}, {rate},000 records/s")
    return _save(figure, path)


def _times(at_60: Mapping[str, Outcomes], path: Path) -> Path:
    figure, grid = _axes(
        1,
        len(at_60),
        "Execution time, simulated (lines) and in the paper's Tables 5 and 6 (dots). Paper: LBA-CE "
        "11.9 % and 7.5 % under Default",
    )
    millions = np.arange(1, 11)
    for axes, (job, outcomes) in zip(grid, at_60.items(), strict=True):
        for way, one in outcomes.items():
            axes.plot(millions, one.millions_s, _LINES.get(way, "-"), color=_COLORS[way], label=way)
            told = published.EXECUTION_S[job][way]
            axes.plot(millions, told, "o", color=_COLORS[way], ms=4)
        axes.set(title=f"{job}, 60,000 records/s", xlabel="million records", ylabel="seconds")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9)
    return _save(figure, path)


def _over_time(at_60: Mapping[str, Outcomes], path: Path, what: str) -> Path:
    if what == "throughput":
        title = (
            "Throughput over time. Paper: LBA-CE above the others; Wordcount 17.8 % above Default, "
            "13.2 % above CETSA;\nFixwindow 10.3 % and 27.5 %"
        )
        label = "thousand records/s"
    else:
        title = (
            "Load deviation S over time, all 11 workers. Paper: LBA-CE 23.1 % (Wordcount) and "
            "24.6 % (Fixwindow) under\nDefault, 23.9 % and 24.3 % under CETSA"
        )
        label = "S, share of a worker"
    figure, grid = _axes(1, len(at_60), title)
    for axes, (job, outcomes) in zip(grid, at_60.items(), strict=True):
        end = min(float(one.time_s[-1]) for one in outcomes.values())
        for way, one in outcomes.items():
            values = one.rate_over_time / 1e3 if what == "throughput" else one.deviation_over_time
            shown = one.time_s <= end
            line = _LINES.get(way, "-")
            axes.plot(one.time_s[shown], values[shown], line, color=_COLORS[way], label=way, lw=1.8)
        axes.set(title=f"{job}, 60,000 records/s", xlabel="seconds", ylabel=label)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9, ncols=2)
    return _save(figure, path)


def _use(at_60: Mapping[str, Outcomes], path: Path) -> Path:
    figure, grid = _axes(
        len(at_60),
        4,
        "CPU and memory of the workers in use, network, SLA at 60,000 records/s. Paper: CETSA's "
        "CPU use 36-58 % above Default's, about 100-106 % above RR's; CETSA's communication 5-22 % "
        "under Default's;\nmore violations for Default, GS-BFD and CETSA than for RR and LBA-CE",
        height=3.6,
    )
    spots = iter(grid)
    for job, outcomes in at_60.items():
        for label, values, told in (
            ("CPU use, %", {way: 100 * one.cpu for way, one in outcomes.items()}, "{:.0f}"),
            ("memory use, %", {way: 100 * one.memory for way, one in outcomes.items()}, "{:.0f}"),
            (
                "between hosts, GB",
                {way: one.communication_gb for way, one in outcomes.items()},
                "{:.2f}",
            ),
            (
                "records that wait over 5 s, %",
                {way: 100 * one.late_share for way, one in outcomes.items()},
                "{:.0f}",
            ),
        ):
            axes = next(spots)
            _bars(axes, values, told)
            axes.set(ylabel=label, title=job)
    return _save(figure, path)


def draw_skewed(found: Mapping[str, Skewed], folder: Path) -> list[Path]:
    """St-Stream's comparison: the nodes' CPU use over time, without and with it."""
    figure, grid = _axes(
        1,
        2,
        "CPU use of 7 nodes under a skewed stream. Paper: from 11-88.5 % to 40-60 %; "
        "largest minus smallest 77 points before, 21 after",
    )
    for axes, (way, one) in zip(grid, found.items(), strict=True):
        time_s = one.trace.rows("time_s")
        cpu = 100 * one.trace.rows("cpu")
        seconds = 20
        for at, host in enumerate(one.trace.hosts):
            smooth = np.convolve(cpu[:, at], np.full(seconds, 1 / seconds), "valid")
            axes.plot(time_s[seconds - 1 :], smooth, color=_NODES[at], lw=1.6, label=host)
        high = one.bounds[-1][1]
        for bound, name in ((30.0, "L_min"), (high, "L_max")):
            axes.axhline(bound, color="0.3", lw=1, ls="--")
            axes.text(time_s[-1], bound + 1, name, ha="right", fontsize=9, color="0.3")
        axes.set(title=way, xlabel="seconds", ylabel="CPU use, mean of 20 s, %", ylim=(0, 118))
        axes.set_yticks(range(0, 101, 20))
        axes.legend(frameon=False, fontsize=9, ncols=7, loc="upper left", columnspacing=1.0)
    return [_save(figure, folder / "st_stream_use.png")]


def draw_elastic(found: Mapping[str, Elastic], folder: Path) -> list[Path]:
    """OERA's comparison: over time, and its three means."""
    ways = ("OERA", "median", "static")
    figure, grid = _axes(
        2,
        2,
        "OERA, the median and static allocation on a day's stream. Paper (Figs. 5-8): OERA changes "
        "most often and loses least,\nstatic never changes and loses most, the median is between. "
        "Here the median, ten windows late, loses most",
        height=3.6,
    )
    stream, threads, buffers, losses = grid
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
        style: dict[str, Any] = {"color": _COLORS[way], "label": way, "lw": 1.8}
        threads.step(hours, one.trace.rows("parallelism")[:, count], where="post", **style)
        buffers.plot(hours, 100 * one.trace.rows("buffers")[:, count], **style)
        losses.plot(hours, one.trace.rows("lost") / 1e3, **style)
    threads.set(title="Parallelism of Count", ylabel="threads")
    threads.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    buffers.set(title="Buffer of Count", ylabel="occupied, %")
    losses.set(title="Lost since 8:00", ylabel="thousand records")
    for axes in grid:
        axes.set_xlabel("hour of the day")
        axes.set_ylim(bottom=0)
    for axes in (threads, losses):
        axes.legend(frameon=False, fontsize=9)
    first = _save(figure, folder / "oera_over_time.png")
    figure, grid = _axes(
        1,
        3,
        "OERA's means. Paper, against static and the median: loss -90 % and -30 %, "
        "throughput +4 % and +3 %, use of threads +22 and +9 points",
    )
    for axes, label, values, told in (
        (grid[0], "lost, % of the records", [100 * found[way].loss_rate for way in ways], "{:.1f}"),
        (grid[1], "done, thousand records", [found[way].done / 1e3 for way in ways], "{:,.0f}"),
        (
            grid[2],
            "use of threads, % (Split, Count)",
            [100 * found[way].utilisation for way in ways],
            "{:.0f}",
        ),
    ):
        _bars(axes, dict(zip(ways, values, strict=True)), told)
        axes.set_ylabel(label)
    return [first, _save(figure, folder / "oera_means.png")]


def draw_disturbed(found: Mapping[str, Disturbed], folder: Path) -> list[Path]:
    """The join under bursts and a failure: throughput and what waits."""
    figure, grid = _axes(
        1,
        2,
        "A join with bursts (grey) and a failed worker (red), with a controller and left alone; "
        "no paper has this run",
    )
    for way, one in found.items():
        time_s = one.trace.rows("time_s")
        style: dict[str, Any] = {"color": _COLORS[way], "label": way, "lw": 1.8}
        grid[0].plot(time_s, one.trace.throughput(5.0) / 1e3, **style)
        grid[1].plot(time_s, one.trace.rows("backlog") / 1e6, **style)
    end = max(float(one.trace.time_s[-1]) for one in found.values())
    for axes, label in zip(grid, ("thousand records/s", "million records that wait"), strict=True):
        for start in np.arange(BURSTS.every_s, end, BURSTS.every_s):
            axes.axvspan(start, start + BURSTS.lasts_s, color="0.85", lw=0, zorder=0)
        axes.axvspan(*FAILURE, color="#d1495b", alpha=0.08, lw=0, zorder=0)
        axes.set(xlabel="seconds", ylabel=label)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    return [_save(figure, folder / "join_disturbed.png")]


def draw_containers(found: Mapping[str, Containers], folder: Path) -> list[Path]:
    """Twister2's schedulers: workers in use, network, waiting for input."""
    figure, grid = _axes(
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
    for axes, (label, values, told) in zip(grid, measures, strict=True):
        drawn = axes.bar(names, values, color="#2e6f95")
        axes.bar_label(drawn, [told.format(value) for value in values], padding=2, fontsize=9)
        axes.set_ylabel(label)
        axes.margins(y=0.15)
        axes.grid(axis="x", visible=False)
    return [_save(figure, folder / "twister2.png")]
