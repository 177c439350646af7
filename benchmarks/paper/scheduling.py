"""The scheduling papers' figures and tables from the simulator, each statement beside ours.

What ``python -m scheduling simulate`` runs: CETSA and LBA-CE (Flink), St-Stream and OERA (Storm),
Twister2's schedulers. Everything here is simulated; live placement on Spark is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from benchmarks.harness.outcome import Context, Figure, Outcome, Table

if TYPE_CHECKING:
    from scheduling.simulate.report import Statement

__all__ = ["figure", "optimum", "run", "table", "unmet"]

_UNITS = {", %": "%", ", points": "points", ", share": "of 1"}
_NOTES = {
    "CETSA: Tables": "Arithmetic on the papers' own tables and prices; nothing is simulated.",
    "CETSA and LBA-CE": "A fluid on the 11 workers of Table 4. The paper's percentages contradict "
    "one another in places. Where no worker is short of CPU a way takes the 167 s of the source, "
    "so that RR, LBA-CE and, nearly, Default cannot differ in time and throughput.",
    "St-Stream": "Load of the nodes before is the paper's where it gives it; latency is reckoned "
    "from the nodes' CPU use.",
    "OERA": "The paper's stream is in a picture only; ours has the properties that its text tells. "
    "The median, ten windows late, loses most on it.",
    "Twister2": "The text makes statements without numbers; the worked example is checked.",
    "Join": "Bursts and the failure of the worker with most tasks; no paper has this run.",
}


def run(context: Context) -> Outcome:
    """Run the comparisons, list every statement, draw every picture."""
    from benchmarks.paper.scheduling_picture import draw_st_stream
    from scheduling.simulate.command import draw, measure
    from scheduling.simulate.report import as_json

    context.say("The papers' comparisons in the simulator")
    statements, outcomes = measure(quick=context.quick)
    promised = [one for one in statements if one.figure is not None]
    others = [one for one in statements if one.figure is None]
    context.say(
        f"{sum(one.reached for one in promised)} of {len(promised)} figures to reach are reached; "
        f"{sum(one.reached for one in others)} of {len(others)} other statements hold"
    )
    by_system: dict[str, list[Statement]] = {}
    for one in statements:
        by_system.setdefault(one.system, []).append(one)
    pictures = [
        *draw(outcomes, context.out),
        draw_st_stream(outcomes["skewed"], context.out / "st_stream_measures.png"),
    ]
    return Outcome(
        figures=[optimum(), *map(figure, promised)],
        tables=[
            *(table(system, listed) for system, listed in by_system.items()),
            unmet(statements),
        ],
        pictures=pictures,
        measured=as_json(statements),
    )


def optimum() -> Figure:
    """Figure 1: the rent of CETSA's five nodes over the least that 20 tasks can be placed for."""
    from scheduling import Exact, Snapshot
    from scheduling.simulate import published
    from scheduling.simulate.clusters import table_4
    from scheduling.simulate.jobs import demands
    from scheduling.simulate.workloads import wordcount

    workers = table_4()
    price = {worker.id: worker.price_per_s for worker in workers}
    rent = sum(price[name] for name in published.CETSA_NODES)
    best = Exact().plan(demands(wordcount(), 1.0), Snapshot(0.0, workers)).score
    return Figure(
        f"rent of CETSA's nodes (Table 3), {rent:.6f} $/s, over the exact optimum",
        rent / best,
        1.0 + 1e-9,
        True,
        paper="m3, m2, m4, l1, l3 (Table 3)",
        simulated=True,
    )


def figure(one: Statement) -> Figure:
    """A statement with a bound; of one with two bounds, how far ours is from the paper's value."""
    paper = one.where if math.isnan(one.paper) else f"{one.paper:g} ({one.where})"
    system = one.system.partition(":")[0]
    name = one.what if one.what.startswith(f"{system}:") else f"{system}: {one.what}"
    if "Wordcount at" in one.system or "Fixwindow at" in one.system:
        name = f"{one.system.partition(': ')[2].split()[0]}: {one.what}"
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    value, bound, at_most = float(one.ours), one.least, False
    if one.most is not None:
        bound, at_most = one.most, True
        if one.least is not None:
            value, bound, unit = abs(one.ours - one.paper), round(one.most - one.paper, 9), "$"
            name = f"{name}: difference from the paper's"
    return Figure(name, value, bound, at_most, paper=paper, simulated=True, unit=unit)


def table(system: str, statements: Iterable[Statement]) -> Table:
    """All statements about a system: the paper's value, ours, what is to be, whether it holds."""
    note = next((note for start, note in _NOTES.items() if system.startswith(start)), "")
    rows = tuple(
        (
            one.where,
            one.what,
            _number(one.paper),
            _number(one.ours),
            _number(one.ours - one.paper),
            _bounds(one),
            None if one.figure is None else f"figure {one.figure}",
            "yes" if one.reached else "no",
        )
        for one in statements
    )
    return Table(
        system,
        ("where", "statement", "paper", "ours", "difference", "to be", "promised", "holds"),
        rows,
        note if "Arithmetic" in note else f"Simulated. {note}".strip(),
    )


def unmet(statements: Iterable[Statement]) -> Table:
    """The statements that do not hold in the simulator, the farthest from theirs first."""
    missed = [one for one in statements if not one.reached]
    missed.sort(key=lambda one: -one.missed_by / max(1.0, abs(_or_one(one.paper))))
    return Table(
        f"What the papers say and the simulator does not show ({len(missed)})",
        ("system", "where", "statement", "paper", "ours", "missed by"),
        tuple(
            (
                one.system,
                one.where,
                one.what,
                _number(one.paper),
                _number(one.ours),
                _number(one.missed_by),
            )
            for one in missed
        ),
        "Simulated. None of these is among the figures that were promised."
        if all(one.figure is None for one in missed)
        else "Simulated.",
    )


def _or_one(value: float) -> float:
    return 1.0 if math.isnan(value) else value


def _number(value: float) -> float | None:
    """Rounded to what a reader needs; None for nan."""
    if math.isnan(value):
        return None
    return round(value, 4 if abs(value) < 0.1 else 3 if abs(value) < 20 else 1) + 0.0


def _bounds(one: Statement) -> str:
    if one.most is not None and one.least is not None:
        return f"{one.least:g} to {one.most:g}"
    if one.most is not None:
        return f"≤ {one.most:g}"
    return f"≥ {one.least:g}" if one.least is not None else ""
