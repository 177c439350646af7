"""The scheduling papers' statements in one table a paper: theirs, ours, how, why they differ.

Everything here is simulated or computed from plans. Live figures are those of ``placement-live``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.papers.scheduling import flink, oera, st_stream
from benchmarks.papers.scheduling.operators import demands
from benchmarks.papers.scheduling.published import CETSA, CONTRADICTIONS, GS_BFD, Row, held, table_4
from benchmarks.papers.scheduling.published import tables as by_paper
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
    rows = [
        *flink.rows(found, slow), *st_stream.rows(st_stream.compare()), *oera.rows(oera.compare())
    ]  # fmt: skip
    notes = {
        flink.PAPER: flink.NOTE, st_stream.PAPER: st_stream.NOTE, "OERA mended": oera.NOTE,
        "OERA as printed": oera.NOTE,
    }  # fmt: skip
    contradictions = [{"paper": paper, "what": what} for paper, what in CONTRADICTIONS]
    tables = [
        *by_paper(rows, notes),
        Table.of("Where the papers contradict themselves", contradictions),
    ]
    return Outcome(_figures(rows, found), tables, measured=rows)


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
