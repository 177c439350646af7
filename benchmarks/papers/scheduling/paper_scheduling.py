"""The scheduling papers' statements in one table a paper: theirs, ours, how, why they differ.

Everything here is simulated or computed from plans. Live figures are those of ``placement-live``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.papers.scheduling import flink, oera, st_stream, twister2
from benchmarks.papers.scheduling.claims import Row, as_json, held, tables
from benchmarks.papers.scheduling.operators import demands
from benchmarks.papers.scheduling.published import CETSA, CONTRADICTIONS, GS_BFD, table_4
from scheduling import Exact, Snapshot

_DELTA = 0.8
_SLOW = (1 / 3, 2 / 3)  # of 60,000 records/s


def run(context: Context) -> Outcome:
    """Run the comparisons; quick: one hash of the keys instead of eight."""
    seeds, few = context.pick((1, 1), (8, 2))
    found = {job: flink.compare(job, seeds=seeds) for job in flink.JOBS}
    slow = {
        job: {
            share: flink.change(flink.compare(job, seeds=few, load=share), "cost", CETSA, GS_BFD)
            for share in _SLOW
        }
        for job in flink.JOBS
    }
    skewed, elastic = st_stream.compare(), oera.compare()
    rows = [
        *flink.rows(found, slow), *st_stream.rows(skewed), *oera.rows(elastic), *twister2.rows()
    ]  # fmt: skip
    within, direction, every = held(rows)
    context.say(
        f"{within} of {every} values are within 25 % of the paper's, {direction} more have its "
        "direction"
    )
    shown = [
        *tables(rows, {flink.PAPER: flink.NOTE, st_stream.PAPER: st_stream.NOTE,
                       "OERA mended": oera.NOTE, "OERA as printed": oera.NOTE,
                       twister2.PAPER: twister2.NOTE}),
        *map(_ways, found.items()),
        st_stream.use_table(skewed),
        oera.over_time(elastic),
        Table.of("Where the papers contradict themselves",
                 [{"paper": paper, "what": what} for paper, what in CONTRADICTIONS]),
    ]  # fmt: skip
    return Outcome(_figures(rows, found), shown, measured=as_json(rows))


def _figures(rows: list[Row], found: Mapping[str, Mapping[str, pd.Series[float]]]) -> list[Figure]:
    """What is promised; the bounds are the papers' own values, or this project's promises."""
    best = Exact().plan(demands(flink.JOBS["Wordcount"](), 1.0), Snapshot(0.0, table_4())).score
    rent = float(found["Wordcount"][CETSA]["rent"]) / best
    most = max(float(one["planned"]) for ways in found.values() for one in ways.values())
    by_what = {one.what: one for one in rows if one.paper == st_stream.PAPER}
    figures = [
        Figure("rent of CETSA's workers over the exact optimum", rent, 1 + 1e-9, True,
               paper="Tables 3 and 4", simulated=True),
        Figure("largest share of a worker's CPU in a plan, all policies", most, _DELTA, True,
               paper="delta of Eq. 17", simulated=True, unit="of 1"),
    ]  # fmt: skip
    for what, unit in (
        ("clocks until all nodes are in [30 %, L_max]", "clocks"),
        ("largest minus smallest CPU use after, points", "points"),
    ):
        one = by_what[what]
        figures.append(
            Figure(f"St-Stream: {what}", one.ours or 0.0, one.says, True,
                   paper=f"{one.says:g} ({one.place})", simulated=True, unit=unit)
        )  # fmt: skip
    within, direction, every = held(rows)
    figures.append(
        Figure("statements within 25 % of the paper's value", within / every, simulated=True)
    )
    figures.append(
        Figure("statements with the paper's direction at least", (within + direction) / every,
               simulated=True)
    )  # fmt: skip
    return figures


def _ways(found: tuple[str, Mapping[str, pd.Series[float]]]) -> Table:
    job, ways = found
    shown = {
        "workers": ("workers", 1, 1),
        "rent, $/s": ("rent", 1, 5),
        "$ for a million rows": ("cost", 1, 3),
        "length of a micro-batch, s": ("run_s", 1, 2),
        "S": ("deviation", 1, 3),
        "CPU use of those in use, %": ("cpu", 100, 1),
        "between hosts, MB": ("network_mb", 1, 1),
        "late rows, %": ("late", 100, 1),
        "moves a cycle": ("moves", 1, 1),
    }
    lines = [
        {"way": way}
        | {head: round(scale * float(one[name]), n) for head, (name, scale, n) in shown.items()}
        for way, one in ways.items()
    ]
    title = f"{job} at 60,000 records/s"
    return Table.of(title, lines, "Simulated.").drawn("bars", "way", "$ for a million rows")
