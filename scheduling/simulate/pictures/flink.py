"""CETSA and LBA-CE against Flink's default, round robin and GS-BFD."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from scheduling.simulate import published
from scheduling.simulate.flink import PRICE_PER_GB, Outcome
from scheduling.simulate.pictures.frame import COLORS, LINES, bars, panels, save

__all__ = ["draw_flink"]

Outcomes = Mapping[str, Outcome]


def draw_flink(by_rate: Mapping[int, Mapping[str, Outcomes]], folder: Path) -> list[Path]:
    """CETSA's and LBA-CE's comparisons, six pictures.

    Args:
        by_rate: by records a second and by job, the outcomes; 60,000 must be there.
        folder: where the files go.
    """
    at_60 = by_rate[60_000]
    return [
        _costs(by_rate, folder / "flink_cost.png"),
        _weighted(at_60, folder / "flink_wec.png"),
        _times(at_60, folder / "flink_time.png"),
        _over_time(at_60, folder / "flink_throughput.png", "throughput"),
        _over_time(at_60, folder / "flink_load_deviation.png", "deviation"),
        _use(at_60, folder / "flink_use_network_sla.png"),
    ]


def _costs(by_rate: Mapping[int, Mapping[str, Outcomes]], path: Path) -> Path:
    figure, grid = panels(
        len(by_rate),
        2,
        "Rent for 10 million records. Paper, Wordcount at 60,000/s: CETSA 37.3 % under Default, "
        "58.9 % under RR;\nLBA-CE 37.9 % under Default (Fixwindow: 20.2 %). CETSA under GS-BFD: "
        "11.8 % (Wordcount),\n21.1, 14.7 and 9.1 % from slow to fast (Fixwindow). Here they "
        "differ by at most 1 % below 60,000/s",
        height=3.4,
    )
    spots = iter(grid)
    for rate, by_job in by_rate.items():
        for job, outcomes in by_job.items():
            axes = next(spots)
            values = {way: one.cost for way, one in outcomes.items()}
            bars(axes, values, "{:.2f}", _paper(values, job, "cost") if rate == 60_000 else None)
            axes.set(ylabel="rent, $", title=f"{job}, {rate:,} records/s")
    return save(figure, path)


def _weighted(at_60: Mapping[str, Outcomes], path: Path) -> Path:
    """The three parts of Eq. 15, each times its weight; network and scheduling alone below."""
    figure, grid = panels(
        2,
        len(at_60),
        "Weighted execution cost WEC (Eq. 15) of 10 million records: a third each of rent RC, "
        f"network CC\n(at {PRICE_PER_GB:g} $/GB) and scheduling SC. The paper gives no WEC, nor "
        "the price of a byte",
        height=3.4,
    )
    parts = {"rc": "#2e6f95", "cc": "#c9a227", "sc": "#d1495b"}
    for at, (job, outcomes) in enumerate(at_60.items()):
        above, below = grid[at], grid[at + len(at_60)]
        for axes, shown, scale, unit in (
            (above, ("rc", "cc", "sc"), 1.0, "WEC, $"),
            (below, ("cc", "sc"), 1e3, "CC and SC alone, thousandths of a $"),
        ):
            top = np.zeros(len(outcomes))
            for name in shown:
                part = [scale * getattr(one.costs, name) / 3 for one in outcomes.values()]
                axes.bar(list(outcomes), part, bottom=top, color=parts[name], label=name.upper())
                top += part
            for place, height in enumerate(top):
                axes.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=9)
            axes.set(ylabel=unit, ylim=(0, 1.2 * top.max()))
            axes.grid(axis="x", visible=False)
            axes.legend(frameon=False, fontsize=9, ncols=3, loc="upper right")
        above.set_title(f"{job}, 60,000 records/s")
    return save(figure, path)


def _times(at_60: Mapping[str, Outcomes], path: Path) -> Path:
    figure, grid = panels(
        1,
        len(at_60),
        "Execution time, simulated (lines) and in the paper's Tables 5 and 6 (dots). Paper: LBA-CE "
        "11.9 % and 7.5 % under Default",
    )
    millions = np.arange(1, 11)
    for axes, (job, outcomes) in zip(grid, at_60.items(), strict=True):
        for way, one in outcomes.items():
            axes.plot(millions, one.millions_s, LINES.get(way, "-"), color=COLORS[way], label=way)
            published_s = published.EXECUTION_S[job][way]
            axes.plot(millions, published_s, "o", color=COLORS[way], ms=4)
        axes.set(title=f"{job}, 60,000 records/s", xlabel="million records", ylabel="seconds")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9)
    return save(figure, path)


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
    figure, grid = panels(1, len(at_60), title)
    for axes, (job, outcomes) in zip(grid, at_60.items(), strict=True):
        end = min(float(one.time_s[-1]) for one in outcomes.values())
        for way, one in outcomes.items():
            values = one.rate_over_time / 1e3 if what == "throughput" else one.deviation_over_time
            shown = one.time_s <= end
            line = LINES.get(way, "-")
            axes.plot(one.time_s[shown], values[shown], line, color=COLORS[way], label=way, lw=1.8)
        axes.set(title=f"{job}, 60,000 records/s", xlabel="seconds", ylabel=label)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9, ncols=2)
    return save(figure, path)


def _use(at_60: Mapping[str, Outcomes], path: Path) -> Path:
    figure, grid = panels(
        len(at_60),
        4,
        "CPU and memory of the workers in use, network, SLA at 60,000 records/s. Paper: CETSA's "
        "CPU use 36-58 % above Default's, about 100-106 % above RR's; CETSA's communication 5-22 % "
        "under Default's;\nmore violations for Default, GS-BFD and CETSA than for RR and LBA-CE",
        height=3.6,
    )
    spots = iter(grid)
    for job, outcomes in at_60.items():
        for label, values, pattern in (
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
            measure = {"between hosts, GB": "communication"}.get(label, label.removesuffix(", %"))
            bars(axes, values, pattern, _paper(values, job, measure))
            axes.set(ylabel=label, title=job)
    return save(figure, path)


def _paper(values: Mapping[str, float], job: str, measure: str) -> dict[str, float]:
    """The papers' values of a measure: Default's bar and the text's percentages against it."""
    return {
        claim.way: values[published.DEFAULT] * (1 + claim.percent / 100)
        for claim in published.CLAIMS
        if (claim.job, claim.measure, claim.than) == (job, measure, published.DEFAULT)
    }
