"""What the records of the live experiment say: tables, and the papers' claims beside them.

Pure: records come in. Policies are compared turn by turn, and medians and ranges of the turns'
ratios are shown: the machine's speed changes from turn to turn, and affects all policies of one.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.harness.outcome import Cell, Table
from benchmarks.papers.scheduling.placement_live_runs import UNCOUNTED, Cycle

_DEFAULT, _ROUND_ROBIN = "Default", "round robin"
MEASURES = {"rent": "dollars", "time": "p50_s", "S": "deviation", "gap": "gap"}
"""What the papers compare, and its column of :func:`turns`."""


@dataclass(frozen=True)
class Claim:
    """What a paper says of a system (``way``) on a job, against another.

    ``measure`` is one of :data:`MEASURES`; ``change``: by how much it is less (below 0) or more, as
    a share; ``where``: the place in the paper.
    """

    way: str
    job: str
    measure: str
    against: str
    change: float
    where: str


_READ = tomllib.loads(Path(__file__).with_name("live_claims.toml").read_text("utf-8"))
CLAIMS = tuple(Claim(**one) for one in _READ["claims"])
"""Of policies and of St-Stream."""
SCALERS = _READ["scalers"]
"""Of OERA's scaler: measure, against, change, what."""


def turns(cycles: Iterable[Cycle]) -> pd.DataFrame:
    """A row for each job, way and turn; its first cycles, without history, are not counted.

    ``dollars`` are the rent for a million rows: of the workers that ran tasks, for whole cycles.
    Times are quantiles of the cycles', ``requested``, ``landed`` and ``unplaced`` sums over them,
    and the others means; see :class:`~benchmarks.papers.scheduling.placement_live_runs.Cycle`.
    """
    every = pd.DataFrame(vars(one) for one in cycles if one.number >= UNCOUNTED)
    every["rent"] = every["rent_per_s"] * every["length_s"]
    by = every.groupby(["job", "way", "turn"], sort=False)
    means, sums = ["deviation", "gap", "moves", "workers"], ["requested", "landed", "unplaced"]
    found = pd.concat([by[means].mean(), by[sums].sum()], axis=1)
    times = {"p50_s": by["ran_s"].median(), "p95_s": by["ran_s"].quantile(0.95)}
    return found.assign(dollars=by["rent"].sum() / by["rows"].sum() * 1e6, **times)


def changes(found: pd.DataFrame, job: str, way: str, other: str, measure: str) -> list[float]:
    """By how much a way has more than another, as a share, turn by turn; NaN over nothing.

    None where one of both did not run.
    """
    if not {(job, way), (job, other)} <= {one[:2] for one in found.index}:
        return []
    ours, others = (found[MEASURES[measure]][job][one].sort_index() for one in (way, other))
    return ((ours / others).where(others != 0) - 1).tolist()


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


def table(found: pd.DataFrame, job: str, note: str) -> Table:
    """A job's ways: medians over the turns, and changes against Default and round robin."""
    rows: list[dict[str, Cell]] = []
    ways = found.loc[job].index.unique("way")
    for way, own in found.loc[job].groupby(level="way", sort=False):
        middle = own.median()
        asked, seen = own["requested"].sum(), own["deviation"]
        against = {
            f"{head} {other}": percent(changes(found, job, way, other, measure))
            for head, measure in (("against", "rent"), ("p50 against", "time"))
            for other in (_DEFAULT, _ROUND_ROBIN)
            if way != other and other in ways
        }
        rows.append(
            {"placement": way, "$ per 1 M rows": round(middle["dollars"], 4)}
            | against
            | {
                "cycle, p50, s": round(middle["p50_s"], 2),
                "p95, s": round(middle["p95_s"], 2),
                "S, range": f"{seen.min():.3f} to {seen.max():.3f}",
                "gap, points": round(100 * middle["gap"], 1),
                "moves a cycle": round(middle["moves"], 1),
                "landed": f"{own['landed'].sum()} of {asked}" if asked else None,
                "without room": int(own["unplaced"].sum()),
            }
        )
    made = Table.of(f"{job}, live, by placement", rows, note)
    return made.drawn("bar", "placement", "$ per 1 M rows", title=f"{job}: rent")


def claims(found: pd.DataFrame) -> Table:
    """The papers' claims beside what is seen, with every answer pinned and with plans kept."""
    rows: list[dict[str, Cell]] = []
    for claim in CLAIMS:
        row: dict[str, Cell] = {
            "claim": f"{claim.way}, {claim.job}: {claim.measure} against {claim.against}",
            "paper": percent([claim.change]),
        }
        for head, way in (("every answer pinned", claim.way), ("plan kept", f"{claim.way} kept")):
            if "St-Stream" in claim.way:  # its moves are kept in any case
                way = claim.way if head == "plan kept" else ""
            ours = changes(found, claim.job, way, claim.against, claim.measure)
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
