"""What the records of the live experiment say: tables, figures, and the papers' claims beside them.

Pure: records come in. Policies are compared turn by turn, and medians and ranges of the turns'
ratios are shown: the machine's speed changes from turn to turn, and affects all policies of one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.outcome import Cell, Figure, Table
from benchmarks.papers.scheduling.live_claims import CLAIMS
from benchmarks.papers.scheduling.placement_live_runs import UNCOUNTED, Cycle

__all__ = ["MEASURES", "Turn", "claims", "figures", "table", "turns", "verdict"]

LANDING = 0.99
_DEFAULT, _ROUND_ROBIN = "Default", "round robin"


@dataclass(frozen=True)
class Turn:
    """A policy's counted cycles in one turn.

    Args:
        dollars: rent for a million rows, in $: of the workers that ran tasks, for whole cycles.
        p50_s: the median time of a cycle.
        p95_s: 95 % of the cycles took no longer.
        deviation: the mean S of Eq. 26.
        gap: the mean difference of the most and the least used node, as a share.
        moves: tasks a cycle that ran elsewhere than in the cycle before.
        workers: the mean number of workers that ran tasks.
        requested: tasks with a requested executor.
        landed: those that ran there.
        unplaced: tasks without room.
    """

    dollars: float
    p50_s: float
    p95_s: float
    deviation: float
    gap: float
    moves: float
    workers: float
    requested: int
    landed: int
    unplaced: int


Measure = Callable[[Turn], float]
MEASURES: dict[str, Measure] = {
    "rent": lambda one: one.dollars,
    "time": lambda one: one.p50_s,
    "S": lambda one: one.deviation,
    "gap": lambda one: one.gap,
}


def turns(cycles: Iterable[Cycle]) -> dict[str, dict[str, list[Turn]]]:
    """The turns of each job and way; their first cycles, without history, are not counted."""
    grouped: dict[str, dict[str, dict[int, list[Cycle]]]] = {}
    for one in cycles:
        if one.number >= UNCOUNTED:
            ways = grouped.setdefault(one.job, {})
            ways.setdefault(one.way, {}).setdefault(one.turn, []).append(one)
    return {
        job: {way: [_turn(by_turn[k]) for k in sorted(by_turn)] for way, by_turn in ways.items()}
        for job, ways in grouped.items()
    }


def _turn(cycles: Sequence[Cycle]) -> Turn:
    ran = [one.ran_s for one in cycles]
    rent = math.fsum(one.rent_per_s * one.length_s for one in cycles)
    return Turn(
        dollars=rent / sum(one.rows for one in cycles) * 1e6,
        p50_s=statistics.median(ran),
        p95_s=float(np.percentile(ran, 95)),
        deviation=statistics.fmean(one.deviation for one in cycles),
        gap=statistics.fmean(one.gap for one in cycles),
        moves=statistics.fmean(one.moves for one in cycles),
        workers=statistics.fmean(one.workers for one in cycles),
        requested=sum(one.requested for one in cycles),
        landed=sum(one.landed for one in cycles),
        unplaced=sum(one.unplaced for one in cycles),
    )


def changes(ours: Sequence[Turn], others: Sequence[Turn], measure: Measure) -> list[float]:
    """By how much ours is more than the others', as a share, turn by turn; NaN over nothing."""
    pairs = [(measure(a), measure(b)) for a, b in zip(ours, others, strict=False)]
    return [a / b - 1 if b else math.nan for a, b in pairs]


def verdict(paper: float, ours: Sequence[float]) -> str:
    """Whether a claim holds here.

    It holds if the median of the turns has the paper's direction and at least half its size.

    >>> verdict(-0.37, [-0.4, -0.3, -0.5]), verdict(-0.37, [-0.1]), verdict(-0.37, [0.1, 0.2])
    ('holds here', 'weaker here: less than half of it', 'does not hold here')
    >>> verdict(-0.37, [-0.4, 0.1, -0.5])
    'holds here, not in every turn'
    """
    if not ours or any(map(math.isnan, ours)):
        return "not measured"
    toward = [one * math.copysign(1.0, paper) for one in ours]
    middle = statistics.median(toward)
    if middle <= 0:
        found = "does not hold here"
    elif middle < abs(paper) / 2:
        found = "weaker here: less than half of it"
    else:
        found = "holds here"
    mixed = min(toward) <= 0 < max(toward)
    return (
        f"{found}, {'not in every turn' if middle > 0 else 'but in some turns'}" if mixed else found
    )


def percent(values: Sequence[float]) -> str | None:
    """Changes in per cent: the median, and the range if there are several; None without any.

    >>> percent([-0.4, -0.3, -0.5]), percent([0.1])
    ('-40 % (-50 to -30)', '+10 %')
    """
    if not values or any(map(math.isnan, values)):
        return None
    middle = f"{statistics.median(values):+.0%}".replace("%", " %")
    if len(values) == 1:
        return middle
    return f"{middle} ({100 * min(values):+.0f} to {100 * max(values):+.0f})"


def table(job: str, ways: Mapping[str, Sequence[Turn]], note: str) -> Table:
    """A job's ways: medians over the turns, and changes against Default and round robin."""
    rows: list[dict[str, Cell]] = []
    for way, own in ways.items():
        row: dict[str, Cell] = {"placement": way}
        row["$ per 1 M rows"] = round(_middle(own, "dollars"), 4)
        for other in (_DEFAULT, _ROUND_ROBIN):
            if other in ways and way != other:
                row[f"against {other}"] = percent(changes(own, ways[other], MEASURES["rent"]))
        row["cycle, p50, s"] = round(_middle(own, "p50_s"), 2)
        row["p95, s"] = round(_middle(own, "p95_s"), 2)
        for other in (_DEFAULT, _ROUND_ROBIN):
            if other in ways and way != other:
                row[f"p50 against {other}"] = percent(changes(own, ways[other], MEASURES["time"]))
        row["S"] = round(_middle(own, "deviation"), 3)
        row["S, range"] = _range([one.deviation for one in own])
        row["gap, points"] = round(100 * _middle(own, "gap"), 1)
        row["workers"] = round(_middle(own, "workers"), 1)
        row["moves a cycle"] = round(_middle(own, "moves"), 1)
        asked = sum(one.requested for one in own)
        row["landed"] = f"{sum(one.landed for one in own)} of {asked}" if asked else None
        row["without room"] = sum(one.unplaced for one in own)
        rows.append(row)
    made = Table.of(f"{job}, live, by placement", rows, note)
    return made.drawn(
        "bars", "placement", "$ per 1 M rows", title=f"{job}: rent", ylabel="$ per 1 M rows"
    )


def claims(found: Mapping[str, Mapping[str, Sequence[Turn]]]) -> Table:
    """The papers' claims beside what is seen, with every answer pinned and with plans kept."""
    rows: list[dict[str, Cell]] = []
    for claim in CLAIMS:
        ways = found.get(claim.job, {})
        row: dict[str, Cell] = {
            "claim": f"{claim.way}, {claim.job}: {claim.measure} against {claim.against}",
            "paper": percent([claim.change]),
        }
        for head, way in (("every answer pinned", claim.way), ("plan kept", f"{claim.way} kept")):
            if "St-Stream" in claim.way:  # its moves are kept in any case
                way = claim.way if head == "plan kept" else ""
            ours = changes(ways.get(way, ()), ways.get(claim.against, ()), MEASURES[claim.measure])
            row[head] = percent(ours)
            row[f"{head}: verdict"] = verdict(claim.change, ours) if ours else None
        row["where"] = claim.where
        rows.append(row)
    note = (
        "A claim holds here if the median of the turns has the paper's direction and at least half "
        "its size. S and the gap are those of CPU alone. The paper's memory, bytes between hosts, "
        "throughput and violations of service levels are not measured: see the limits above."
    )
    return Table.of("The papers' claims, and what a live Spark shows", rows, note)


def figures(found: Mapping[str, Mapping[str, Sequence[Turn]]]) -> Iterator[Figure]:
    """The landing share, and the claims as ratios."""
    every = [one for ways in found.values() for own in ways.values() for one in own]
    asked, landed = (sum(getattr(one, name) for one in every) for name in ("requested", "landed"))
    yield Figure("tasks that ran where they were pinned", landed / asked if asked else 1.0, LANDING)
    for claim in CLAIMS:
        ways = found.get(claim.job, {})
        for way in (claim.way, f"{claim.way} kept"):
            ours = changes(ways.get(way, ()), ways.get(claim.against, ()), MEASURES[claim.measure])
            if not ours or any(map(math.isnan, ours)):
                continue
            spread = (1 + min(ours), 1 + max(ours)) if len(ours) > 1 else None
            yield Figure(
                f"{claim.job}, {way} / {claim.against}: {claim.measure}",
                1 + statistics.median(ours), at_most=True, spread=spread,
                paper=f"{1 + claim.change:.3g} ({claim.where})",
            )  # fmt: skip


def _middle(own: Sequence[Turn], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in own))


def _range(values: Sequence[float]) -> str | None:
    return f"{min(values):.3f} to {max(values):.3f}" if len(values) > 1 else None
