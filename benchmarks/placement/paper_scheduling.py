"""The scheduling papers' figures and tables from the simulator, each statement beside ours.

What ``python -m scheduling simulate`` runs: CETSA and LBA-CE (Flink), St-Stream and OERA (Storm),
Twister2's schedulers. Everything here is simulated; live placement on Spark is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import charts
from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from scheduling import Exact, Snapshot
from scheduling.simulate import command, published
from scheduling.simulate.clusters import table_4
from scheduling.simulate.jobs import demands
from scheduling.simulate.report import Statement, as_json
from scheduling.simulate.skewed_runs import Skewed
from scheduling.simulate.workloads import wordcount

_UNITS = {", %": "%", ", points": "points", ", share": "of 1"}
_NOTES = {
    "CETSA: Tables": "Arithmetic on the papers' own tables and prices; nothing is simulated.",
    "CETSA and LBA-CE": "A fluid on the 11 workers of Table 4. The paper's percentages contradict "
    "one another in places. Where no worker is short of CPU a way takes the 167 s of the source, "
    "so that RR, LBA-CE and, nearly, Default cannot differ in time and throughput.",
    "St-Stream": "Load of the nodes before is the paper's where it gives it; latency is derived "
    "from the nodes' CPU use.",
    "OERA": "The paper's stream is in a picture only; ours has the properties that its text tells. "
    "The median, ten windows late, loses most on it.",
    "Twister2": "The text makes statements without numbers; the worked example is checked.",
    "Join": "Bursts and the failure of the worker with most tasks; no paper has this run.",
}


def run(context: Context) -> Outcome:
    """Run the comparisons, list every statement, draw every picture."""
    statements, outcomes = command.measure(quick=context.quick)
    promised = [one for one in statements if one.figure is not None]
    others = [one for one in statements if one.figure is None]
    context.say(
        f"{sum(one.reached for one in promised)} of {len(promised)} promised figures are reached; "
        f"{sum(one.reached for one in others)} of {len(others)} other statements hold"
    )
    by_system: dict[str, list[Statement]] = {}
    for one in statements:
        by_system.setdefault(one.system, []).append(one)
    picture = context.out / "st_stream_measures.svg"
    draw_st_stream(outcomes["skewed"], picture)
    return Outcome(
        [optimum(), *map(figure, promised)],
        [*(table(system, listed) for system, listed in by_system.items()), unmet(statements)],
        [*command.draw(outcomes, context.out), picture],
        as_json(statements),
    )


def optimum() -> Figure:
    """Figure 1: the rent of CETSA's five nodes over the least rent for 20 tasks."""
    workers = table_4()
    price = {worker.id: worker.price_per_s for worker in workers}
    rent = sum(price[name] for name in published.CETSA_NODES)
    best = Exact().plan(demands(wordcount(), 1.0), Snapshot(0.0, workers)).score
    name = f"rent of CETSA's nodes (Table 3), {rent:.6f} $/s, over the exact optimum"
    paper = "m3, m2, m4, l1, l3 (Table 3)"
    return Figure(name, rent / best, 1.0 + 1e-9, at_most=True, paper=paper, simulated=True)


def figure(one: Statement) -> Figure:
    """A statement with a bound; with two bounds, the distance of ours from the paper's value."""
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
    """All statements about a system."""
    note = next((note for start, note in _NOTES.items() if system.startswith(start)), "")
    rows = [
        _row(one)
        | {
            "difference": _number(one.ours - one.paper),
            "bound": _bounds(one),
            "promised": None if one.figure is None else f"figure {one.figure}",
            "holds": "yes" if one.reached else "no",
        }
        for one in statements
    ]
    return Table.of(system, rows, note if "Arithmetic" in note else f"Simulated. {note}".strip())


def unmet(statements: Iterable[Statement]) -> Table:
    """The statements that do not hold in the simulator, the farthest from theirs first."""
    missed = [one for one in statements if not one.reached]
    missed.sort(key=lambda one: -one.missed_by / max(1.0, abs(np.nan_to_num(one.paper, nan=1.0))))
    rows = [
        {"system": one.system} | _row(one) | {"missed by": _number(one.missed_by)} for one in missed
    ]
    none = all(one.figure is None for one in missed)
    note = "Simulated. None of these is among the promised figures." if none else "Simulated."
    title = f"What the papers say and the simulator does not show ({len(missed)})"
    return Table.of(title, rows, note)


def _row(one: Statement) -> dict[str, Cell]:
    paper, ours = _number(one.paper), _number(one.ours)
    return {"where": one.where, "statement": one.what, "paper": paper, "ours": ours}


def _number(value: float) -> float | None:
    """Rounded for a reader; None for nan."""
    if math.isnan(value):
        return None
    return round(value, 4 if abs(value) < 0.1 else 3 if abs(value) < 20 else 1) + 0.0


def _bounds(one: Statement) -> str:
    if one.most is None:
        return "" if one.least is None else f"≥ {one.least:g}"
    return f"≤ {one.most:g}" if one.least is None else f"{one.least:g} to {one.most:g}"


_SMOOTH = 20  # steps of a second
_LATE_S = 5.0


def draw_st_stream(found: Mapping[str, Skewed], file: Path) -> None:
    """Nine measures over time of St-Stream and plain Storm.

    Rent is not drawn: both keep all seven nodes.
    """
    title = (
        "St-Stream and Storm on 7 nodes, simulated. The paper: all nodes between 40 and 60 % from "
        "240 s on (Fig. 11), latency 17.6 % lower at 200 s (Fig. 14),\nload of every node between "
        "0.3 and 0.6 (Fig. 17). Rent is the same: both keep all nodes"
    )
    with charts.panels(file, (15, 10), (3, 3), title) as grid:
        for way, one in found.items():
            for axes, (head, label, steps, places, *measures) in zip(
                grid, _measures(one), strict=True
            ):
                # Where both are alike, both can be seen: the lower line is wide.
                lines = axes.plot(
                    places, np.column_stack(measures), color=charts.color_of(way),
                    lw=4.0 if way == "Storm" else 1.6, drawstyle=steps,
                )  # fmt: skip
                lines[0].set_label(way)
                for mean in lines[1:][-1:]:
                    mean.set(linestyle="--", linewidth=1.1)
                legend = axes is grid[0]
                charts.finish(
                    axes, head, legend=legend, xlabel="seconds", ylabel=label, ylim=(0, None)
                )
        grid[-1].locator_params(axis="y", integer=True)


def _measures(one: Skewed) -> Iterator[tuple[Any, ...]]:
    """By panel: title, unit, steps, places and measures, of several the mean last."""
    trace = one.trace
    time_s = trace.rows("time_s")
    later = time_s[_SMOOTH - 1 :]
    cpu = np.apply_along_axis(_smooth, 0, 100 * trace.rows("cpu"))
    memory = 100 * trace.rows("memory")
    count = trace.operators.index("count")
    done = np.diff(trace.progress(), prepend=0.0)
    late = np.cumsum(np.where(trace.rows("delay_s") > _LATE_S, done, 0.0))
    waits = 100 * late / np.maximum(np.cumsum(done), 1e-12)
    sent = _smooth(trace.rows("network_bytes") / np.diff(time_s, prepend=0.0) / 1e3)
    clocks = time_s[-1] / len(one.latency) * np.arange(1, len(one.latency) + 1)
    plain, three = "default", (cpu.max(axis=1), cpu.min(axis=1), cpu.mean(axis=1))
    two = memory.max(axis=1), memory.mean(axis=1)
    head = "CPU use: busiest node, mean (dashed), idlest"
    yield "Load deviation S", "points of CPU use", plain, later, cpu.std(axis=1)
    yield head, "%", plain, later, *three
    yield "Memory use: fullest node, mean (dashed)", "%", plain, time_s, *two
    yield "Throughput", "records/s", plain, time_s, trace.throughput()
    head = "Latency over that of an idle node, by clock"
    yield head, "times", "steps-pre", clocks, one.latency
    yield f"Records that wait over {_LATE_S:g} s, so far", "%", plain, time_s, waits
    yield "Communication between nodes", "KB/s", plain, later, sent
    buffers, instances = (trace.rows(name)[:, count] for name in ("buffers", "parallelism"))
    yield "Buffer of count", "occupied, %", plain, time_s, 100 * buffers
    head = "Parallelism of count (operators split)"
    yield head, "instances", "steps-post", time_s, instances


def _smooth(values: np.ndarray) -> np.ndarray:
    """The mean of the seconds before."""
    return np.convolve(values, np.full(_SMOOTH, 1 / _SMOOTH), "valid")
