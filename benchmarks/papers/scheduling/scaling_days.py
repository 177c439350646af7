"""A simulated day of a streaming query under each scaler: changes, what waits, what is lost.

The query is measured from its progress and scaled by the state machine, as on Spark. OERA as
printed has its answer taken in every window, and loses the rows that its buffer does not hold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.papers.scheduling.steering import (
    Buffered,
    ElasticSimulation,
    Operator,
    demands,
    scaled,
    wanted,
)
from scheduling import Resources, Worker
from scheduling.elastic import Bounds, Elastic
from scheduling.flow import Meter
from scheduling.model.checks import whole
from scheduling.scalers import DS2, OERA, Load, Scaler, Static
from scheduling.simulate import Arrivals


class Median:
    """Change every ``windows`` windows, to the median of what a scaler wanted in them.

    It remembers these answers, by default of ``OERA()``: one object per job.

    >>> from scheduling.scalers import DS2
    >>> median = Median(DS2(target=0.8, band=0.0), windows=3)
    >>> [median.cores(Load(10, rate, 500, 1.0, 0, 4)) for rate in (800, 2400, 2000, 0, 0)]
    [4, 4, 5.0, 5.0, 5.0]
    """

    name: ClassVar[str] = "median"

    def __init__(self, scaler: Scaler | None = None, *, windows: int = 10) -> None:
        self._scaler, self._windows = scaler or OERA(), whole("windows", windows, least=1)
        self._wants: list[float] = []
        self._holds: float | None = None

    def cores(self, load: Load) -> float:
        """The median of the last full ``windows``, what there is before; see ``Scaler``."""
        self._wants.append(self._scaler.cores(load))
        if len(self._wants) == self._windows:
            self._holds = statistics.median(self._wants)
            self._wants.clear()
        return load.cores if self._holds is None else self._holds


DAY_S, SPEED = 86_400, 500.0  # seconds; rows a second of a core
_TASKS, _MOST = 12, 12
_WINDOW_S, _STILL_S = 10.0, 2.0  # of OERA as printed: a fifth of a window, as 120 of 600 s

Curve = list[tuple[float, float]]
LOADS: dict[str, Callable[[int], Curve]] = {
    "constant": lambda seconds: [(0.0, 1900.0)],
    "day curve": lambda seconds: [
        (at * seconds / 96, 2000 - 1500 * math.cos(2 * math.pi * at / 96)) for at in range(97)
    ],
    "steps": lambda seconds: [
        (0.0, 500.0), (seconds / 3, 500.0), (seconds / 3, 3000.0), (2 * seconds / 3, 3000.0),
        (2 * seconds / 3, 500.0),
    ],
}  # fmt: skip
"""Rows a second over so many seconds; they need 4, 1 to 7, and 1 or 6 cores."""

_SCALERS: dict[str, Callable[[], Scaler]] = {
    "OERA mended": OERA,
    "DS2": DS2,
    "median": Median,
    "static, 4 cores": lambda: Static(4),
}

Query = TypeVar("Query", bound=ElasticSimulation)


def _query(kind: type[Query], curve: Curve, seconds: int, start: int, **options: Any) -> Query:
    """A query of 12 tasks on executors of one core, whose arrivals vary by 20 %."""
    seed = options.setdefault("seed", 1)
    workers = [Worker(f"e{at}", Resources(1.0, 1024.0), 1, price_per_s=1.0) for at in range(start)]
    arrived = Arrivals(curve, noise=0.2, seed=seed, horizon_s=seconds)
    join = demands([Operator("join", _TASKS, 1 / SPEED)])
    return kind(join, workers, arrived, fixed_s=0.05, noise=0.05, **options)


def day(
    scaler: Scaler, curve: Curve, *, seconds: int = DAY_S, start: int = 4, **options: Any
) -> tuple[ElasticSimulation, Elastic]:
    """Let the state machine scale a query, of ``start`` executors at first, by what a scaler wants.

    ``curve`` is in rows a second; ``options`` are of :class:`ElasticSimulation`.
    """
    options = {"trigger_s": 5.0, "overhead_s": 0.3, "start_s": 8.0} | options
    query = _query(ElasticSimulation, curve, seconds, start, **options)
    elastic = Elastic(scaler, tasks=_TASKS, bounds=Bounds(most=_MOST))
    scaled(query, elastic, Meter(), seconds)
    return query, elastic


def literal_day(curve: Curve, *, seconds: int, seed: int = 1) -> tuple[Buffered, int]:
    """Obey OERA as printed in windows of 10 s: the query, and how often its executors changed.

    The buffer holds what a core does in one window.
    """
    size = SPEED * _WINDOW_S
    query = _query(
        Buffered, curve, seconds, 4, buffer=size, trigger_s=2.0, overhead_s=0.0, start_s=0.0,
        seed=seed,
    )  # fmt: skip
    scaler, changes = OERA(literal=True, buffer=size), 0
    for load in query.windows(_WINDOW_S, int(seconds / _WINDOW_S), SPEED):
        count = min(_MOST, wanted(scaler, load))
        if count != load.cores:
            changes += 1
            query.resize(count)
            query.pause(_STILL_S)
    return query, changes


def measured(query: ElasticSimulation, lost: float = 0.0) -> dict[str, float]:
    """Rows lost, mean cores, and the mean and the longest wait of a micro-batch's rows."""
    waits = [
        (one.rows, one.end - query.arrived.second(one.offset + one.rows / 2))
        for one in query.batches
    ]
    rows = sum(count for count, _ in waits)
    return {
        "rows lost, %": 100 * lost / query.arrived(query.now),
        "mean cores": query.rent / query.now,
        "mean wait, s": sum(count * wait for count, wait in waits) / rows,
        "longest wait, s": max(wait for _, wait in waits),
    }


def run(context: Context) -> Outcome:
    """The table of all scalers and loads; quick: days of three hours."""
    seconds = context.pick(DAY_S // 8, DAY_S)
    short, told = seconds // 8, context.pick("three hours", "a day")
    rows: list[dict[str, str | float | None]] = []
    figures = []
    for load, curve in LOADS.items():
        literal, changes = literal_day(curve(short), seconds=short, seed=context.seed)
        found = measured(literal, literal.lost)
        rows.append({"load": load, "scaler": "OERA as printed", "changes": 8 * changes, **found})
        for name, make in _SCALERS.items():
            query, elastic = day(make(), curve(seconds), seconds=seconds, seed=context.seed)
            changes = elastic.requests
            rows.append({"load": load, "scaler": name, "changes": changes, **measured(query)})
            if name in ("OERA mended", "DS2"):
                most = 2 if load == "constant" else 20
                figures.append(
                    Figure(f"changes in {told}, {load}, {name}", changes, most, True,
                           simulated=True, unit="changes")
                )  # fmt: skip
        for one in rows[-1 - len(_SCALERS) :]:
            context.say(f"  {load}, {one['scaler']}: {one['changes']:.0f} changes")
    note = (
        f"Simulated: {told}, micro-batches of 12 tasks, 500 rows/s a core, 20 % noise. OERA as "
        "printed: an eighth of the time, its changes times eight; each keeps the query still for "
        "2 s, and a buffer holds what a core does in a window of 10 s. The median holds for ten "
        "micro-batches, which become longer and longer while a query is overloaded."
    )
    table = Table.of("A simulated day under each scaler", rows, note)
    return Outcome(figures, [table], measured={"rows": rows})
