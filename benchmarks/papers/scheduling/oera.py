"""OERA against Storm's static allocation and the median: Figures 5-9 of that paper.

Each component of WordCount is a simulation of its own: threads of one core, one buffer, windows of
ten minutes, 120 s in which a change keeps it still. Count gets ten words a sentence, of all
sentences: Split never loses one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.papers.scheduling.median import Median
from benchmarks.papers.scheduling.operators import Operator, demands
from benchmarks.papers.scheduling.published import Row
from benchmarks.papers.scheduling.steering import Buffered, wanted
from scheduling import Resources, Worker
from scheduling.scalers import OERA, Load, Scaler, Static
from scheduling.simulate import Arrivals

NOTE = (
    "WordCount on Storm, 8 h to 15 h in windows of 10 minutes. The paper shows its stream in a "
    "picture only: ours has the properties that its text tells, and its buffer, which is not told, "
    "is chosen (400,000 rows)."
)
_WINDOW_S, _WINDOWS = 600, 42
_STILL_S = 120.0  # section 3.2.3: changing the parallelism takes about 120 s
_BUFFER = 400_000.0  # Bs, the same for each component; the paper does not give it
_STEP_S = 10.0
# Threads at first, rows a second of a thread, rows for a sentence.
_COMPONENTS = {"Split": (5, 200.0, 1.0), "Count": (12, 100.0, 10.0)}


def tweets(windows: int = _WINDOWS, seed: int = 4) -> list[float]:
    """Sentences a second by window: below what the first threads can do, and for a while above.

    Example:
        >>> 10 * min(tweets()) < 1200 < 10 * max(tweets())
        True
    """
    shape = 82 - 70 * np.cos(2 * np.pi * np.linspace(0.0, 1.0, windows))
    noise = np.random.default_rng(seed).normal(0.0, 0.02, windows)
    counts: list[float] = (shape * (1 + noise)).tolist()
    return counts


def run(make: Callable[[], Scaler], rate: list[float]) -> dict[str, float]:
    """Let a scaler choose the threads of each component, window by window.

    Returns:
        ``changes``; of each component ``done`` and ``lost``, its rows, and ``use`` and ``threads``,
        means over time, such as ``use, Count``.
    """
    found = {"changes": 0.0}
    for name, (threads, speed, gain) in _COMPONENTS.items():
        scaler, loads = make(), list[Load]()
        curve = [
            (second, gain * sentences)
            for at, sentences in enumerate(rate)
            for second in (at * _WINDOW_S, (at + 1) * _WINDOW_S)
        ]
        workers = [Worker(f"t{at}", Resources(1.0, 1024.0), 1) for at in range(threads)]
        arrived = Arrivals(curve, horizon_s=len(rate) * _WINDOW_S)
        query = Buffered(
            demands([Operator(name, threads, 1 / speed)]), workers, arrived, buffer=_BUFFER,
            limit=threads * speed * _STEP_S, trigger_s=_STEP_S, overhead_s=0.0, start_s=0.0,
        )  # fmt: skip
        for load in query.windows(_WINDOW_S, len(rate), speed):
            loads.append(load)
            if (count := wanted(scaler, load)) != load.cores:
                found["changes"] += 1
                query.graph = demands([Operator(name, count, 1 / speed)])
                query.limit = count * speed * _STEP_S
                query.resize(count)
                query.pause(_STILL_S)
        found |= {
            f"use, {name}": statistics.fmean(load.busy for load in loads),
            f"threads, {name}": statistics.fmean(load.cores for load in loads),
            f"lost, {name}": query.lost,
            f"done, {name}": sum(one.rows for one in query.batches),
        }
    return found


def _mended() -> OERA:
    return OERA(buffer=_BUFFER, horizon_s=float(_WINDOW_S), downtime_s=_STILL_S)


_SCALERS: dict[str, Callable[[], Scaler]] = {
    "OERA mended": _mended,
    "OERA as printed": lambda: OERA(literal=True, buffer=_BUFFER),
    "median": lambda: Median(_mended()),
    "static": Static,
}


def compare(windows: int = _WINDOWS) -> dict[str, dict[str, float]]:
    """All on the same stream, and both OERAs on a constant one."""
    found = {name: run(make, tweets(windows)) for name, make in _SCALERS.items()}
    for name in ("OERA mended", "OERA as printed"):
        found[f"{name}, constant"] = run(_SCALERS[name], [70.0] * (windows // 2))
    for one in found.values():
        one["loss"] = one["lost, Count"] / max(one["done, Count"] + one["lost, Count"], 1.0)
        for what in ("use", "threads"):
            one[what] = statistics.fmean(one[f"{what}, {name}"] for name in _COMPONENTS)
    return found


_LATE = "the median is ten windows late and loses most on this stream, more than static"
_OTHER = "another stream, another buffer"


def rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """The statements, for OERA mended and as printed."""
    made = []
    for name in ("OERA mended", "OERA as printed"):
        ours, constant = found[name], found[f"{name}, constant"]

        def more(what: str, than: str, ours: Mapping[str, float] = ours) -> float:
            other = found[than][what]
            return 100 * (ours[what] / other - 1) if other else math.nan

        told: list[tuple[str, str, float | None, float, str]] = []
        for against, than, fewer, above, higher, why in (
            ("static", "static", -90.0, 4.0, 22.0, _OTHER),
            ("the median", "median", -30.0, 3.0, 9.0, _LATE),
        ):
            points = 100 * (ours["use"] - found[than]["use"])
            told += [
                ("Fig. 7c", f"loss rate against {against}, %", fewer, more("loss", than), why),
                ("Fig. 6c", f"throughput against {against}, %", above, more("done, Count", than),
                 why),
                ("Fig. 9c", f"use of threads against {against}, points", higher, points, why),
            ]  # fmt: skip
        changes = ours["changes"]
        still = 100 * changes * _STILL_S / (2 * _WINDOWS * _WINDOW_S)
        told += [
            ("section 2", "changes of a run with constant input", 1.0, constant["changes"],
             "two components; the listing oscillates where the buffer is empty"),
            ("Fig. 9a", "use of Count's threads", 0.8, ours["use, Count"], "another stream"),
            ("Fig. 9b", "use of Split's threads", 0.4, ours["use, Split"], "another stream"),
            ("Fig. 8c", "threads over those under static ('slightly more')", None,
             ours["threads"] / found["static"]["threads"], ""),
            ("3.2.3", f"time that {changes:.0f} changes stood still, %", None, still, ""),
        ]  # fmt: skip
        made += [Row(name, at, what, says, value, why=why) for at, what, says, value, why in told]
    return made
