"""A simulated day of a job under each scaler: how often it changes, what is lost, what it rents.

A queue in windows of 10 s: a core processes 500 rows/s, a change costs 2 s of all cores, and the
load of each window varies by 20 %. OERA as printed has its answer taken in every window, and loses
what its buffer does not hold; the others go through the state machine, and lose nothing.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from scheduling.elastic import Bounds, Elastic
from scheduling.scalers import DS2, OERA, Load, Median, Scaler, Static

WINDOW_S, PER_CORE, DOWN_S, DAY = 10.0, 500.0, 2.0, 8640
_SMOOTHED_S = 20.0
_MOST = 64

SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda _: 1900.0,
    "day curve": lambda t: 2000 - 1500 * math.cos(2 * math.pi * t / 86400),
    "steps": lambda t: 3000.0 if 28800 < t < 57600 else 500.0,
}
"""Rows per second at a second of the day; they need 4, 1 to 7, and 1 or 6 cores."""

_BUFFERS = {"small": 0.02 * PER_CORE * WINDOW_S, "large": PER_CORE * WINDOW_S}
_MADE: dict[str, Callable[[], tuple[Scaler, float]]] = {
    **{
        f"OERA as printed, {name} buffer": lambda rows=rows: (
            OERA(literal=True, buffer=rows),
            rows,
        )
        for name, rows in _BUFFERS.items()
    },
    "OERA mended": lambda: (OERA(), math.inf),
    "DS2": lambda: (DS2(), math.inf),
    "median": lambda: (Median(), math.inf),
    "static, 4 cores": lambda: (Static(4), math.inf),
}


@dataclass
class Day:
    """What a day was like.

    Args:
        changes: of the number of cores that were there.
        requests: that were made.
        lost: share of the rows that no buffer held.
        cores: the mean number.
        late_s: the mean of what waited, in seconds of the load.
        path: the number of cores, by window.
        waits: the rows that waited, by window.
    """

    changes: int
    requests: int
    lost: float
    cores: float
    late_s: float
    path: list[int]
    waits: list[float]


def day(
    scaler: Scaler,
    rate: Callable[[float], float],
    *,
    buffer: float = math.inf,
    noise: float = 0.2,
    seed: int = 1,
    windows: int = DAY,
    start: int = 4,
    tasks: int | None = None,
    give: Callable[[float, int, int], int] = lambda t, wanted, there: wanted,
) -> Day:
    """Simulate windows of 10 s.

    Args:
        scaler: with a buffer its answers are taken as they are, else by :class:`Elastic`.
        rate: rows per second by the second.
        buffer: rows that may wait.
        noise: of the load of a window, as a share.
        seed: of the noise.
        windows: how many.
        start: the cores at first.
        tasks: of a micro-batch; None: any number of cores helps.
        give: what the cluster gives, by second, requested number, and what is there.
    """
    draw = random.Random(seed)
    bare = buffer < math.inf
    machine = Elastic(scaler, tasks=tasks, bounds=Bounds(most=_MOST))
    there, waits, lost, came, smooth, down = start, 0.0, 0.0, 0.0, None, 0.0
    found = Day(0, 0, 0.0, 0.0, 0.0, [], [])
    late = []
    for k in range(windows):
        t = k * WINDOW_S
        now = rate(t) * (1 + noise * draw.uniform(-1, 1))
        turns = tasks / math.ceil(tasks / there) if tasks else there
        room = turns * PER_CORE * (WINDOW_S - down)
        done = min(room, waits + now * WINDOW_S)
        waits = max(0.0, waits + now * WINDOW_S - done)
        lost, waits, came = lost + max(0.0, waits - buffer), min(waits, buffer), came + now
        smooth = now if smooth is None else smooth + (now - smooth) * -math.expm1(-0.5)
        busy = min(1.0, done / (there * PER_CORE * WINDOW_S))
        load = Load(WINDOW_S, now if bare else smooth, PER_CORE, busy, waits, there)
        if bare:
            wanted = max(1, math.ceil(scaler.cores(load) - 1e-9))
        else:
            machine.step(t, there, load)
            wanted = machine.requested or there
        got = min(_MOST, max(1, give(t, wanted, there)))
        down = DOWN_S if got != there else 0.0
        found.changes += got != there
        there = got
        found.path.append(there)
        found.waits.append(waits)
        late.append(waits / max(1.0, now))
    found.requests = found.changes if bare else machine.requests
    found.lost = lost / (came * WINDOW_S)
    found.cores, found.late_s = statistics.fmean(found.path), statistics.fmean(late)
    return found


def run(context: Context) -> Outcome:
    """The table of all scalers and shapes; quick: days of six hours."""
    rows, figures, short = [], [], context.pick(4, 1)
    for shape, rate in SHAPES.items():
        for name, make in _MADE.items():
            scaler, buffer = make()
            one = day(
                scaler,
                lambda t, rate=rate: rate(t * short),
                buffer=buffer,
                seed=context.seed,
                windows=DAY // short,
            )
            rows.append({
                "load": shape, "scaler": name, "changes": one.changes,
                "rows lost, %": 100 * one.lost, "mean cores": one.cores,
                "mean delay, s": one.late_s,
            })  # fmt: skip
            if name in ("OERA mended", "DS2"):
                most = 2 if shape == "constant" else 20
                figures.append(
                    Figure(f"changes in a day, {shape}, {name}", one.changes, most, True,
                           simulated=True, unit="changes")
                )  # fmt: skip
            context.say(f"  {shape}, {name}: {one.changes} changes, {one.lost:.1%} lost")
    note = "Simulated: windows of 10 s, 500 rows/s a core, 2 s for a change, 20 % noise."
    table = Table.of("A simulated day under each scaler", rows, note)
    return Outcome(figures, [table], measured={"rows": rows})
