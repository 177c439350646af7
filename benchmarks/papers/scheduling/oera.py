"""OERA against Storm's static allocation and the median: Figures 5-9 of that paper.

Each component of WordCount is a simulation of its own: threads of one core, one buffer, windows of
ten minutes, 120 s in which a change keeps it still. Count gets ten words a sentence, of all
sentences: Split never loses one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
_WINDOW_S = 600
_STILL_S = 120.0  # section 3.2.3: changing the parallelism takes about 120 s
_BUFFER = 400_000.0  # Bs, the same for each component; the paper does not give it
_STEP_S = 10.0
# Threads at first, rows a second of a thread, rows for a sentence.
_COMPONENTS = {"Split": (5, 200.0, 1.0), "Count": (12, 100.0, 10.0)}


def tweets(windows: int = 42, seed: int = 4) -> list[float]:
    """Sentences a second by window: below what the first threads can do, and for a while above.

    Example:
        >>> 10 * min(tweets()) < 1200 < 10 * max(tweets())
        True
    """
    shape = 82 - 70 * np.cos(2 * np.pi * np.linspace(0.0, 1.0, windows))
    noise = np.random.default_rng(seed).normal(0.0, 0.02, windows)
    counts: list[float] = (shape * (1 + noise)).tolist()
    return counts


@dataclass
class Elastic:
    """By component and window: use of the threads, their number; rows done, lost; changes."""

    use: dict[str, list[float]] = field(default_factory=dict)
    threads: dict[str, list[int]] = field(default_factory=dict)
    lost: dict[str, list[float]] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    changes: int = 0

    @property
    def loss_rate(self) -> float:
        """Words lost, of those that came."""
        lost = self.lost["Count"][-1]
        return lost / max(self.done["Count"] + lost, 1.0)

    def mean(self, what: str) -> float:
        """Over time, and over Split and Count."""
        return statistics.fmean(statistics.fmean(one) for one in getattr(self, what).values())


def run(make: Callable[[], Scaler], rate: list[float]) -> Elastic:
    """Let a scaler choose the threads of each component, window by window."""
    found = Elastic()
    for name, (threads, speed, gain) in _COMPONENTS.items():
        scaler, curve = make(), list[tuple[float, float]]()
        for at, sentences in enumerate(rate):
            curve += [(at * _WINDOW_S, gain * sentences), ((at + 1) * _WINDOW_S, gain * sentences)]
        workers = [Worker(f"t{at}", Resources(1.0, 1024.0), 1) for at in range(threads)]
        arrived = Arrivals(curve, horizon_s=len(rate) * _WINDOW_S)
        query = Buffered(
            demands([Operator(name, threads, 1 / speed)]), workers, arrived, buffer=_BUFFER,
            limit=threads * speed * _STEP_S, trigger_s=_STEP_S, overhead_s=0.0, start_s=0.0,
        )  # fmt: skip
        loads, losses = list[Load](), list[float]()
        for load in query.windows(_WINDOW_S, len(rate), speed):
            loads.append(load)
            losses.append(query.lost)
            if (count := wanted(scaler, load)) != load.cores:
                found.changes += 1
                query.graph = demands([Operator(name, count, 1 / speed)])
                query.limit = count * speed * _STEP_S
                query.resize(count)
                query.pause(_STILL_S)
        found.use[name] = [load.busy for load in loads]
        found.threads[name] = [int(load.cores) for load in loads]
        found.lost[name] = losses
        found.done[name] = sum(one.rows for one in query.batches)
    return found


def _mended() -> OERA:
    return OERA(buffer=_BUFFER, horizon_s=float(_WINDOW_S), downtime_s=_STILL_S)


_SCALERS: dict[str, Callable[[], Scaler]] = {
    "OERA mended": _mended,
    "OERA as printed": lambda: OERA(literal=True, buffer=_BUFFER),
    "median": lambda: Median(_mended()),
    "static": Static,
}


def compare(windows: int = 42) -> dict[str, Elastic]:
    """All on the same stream, and both OERAs on a constant one."""
    found = {name: run(make, tweets(windows)) for name, make in _SCALERS.items()}
    for name in ("OERA mended", "OERA as printed"):
        found[f"{name}, constant"] = run(_SCALERS[name], [70.0] * (windows // 2))
    return found


_LATE = "the median is ten windows late and loses most on this stream, more than static"


def rows(found: Mapping[str, Elastic]) -> list[Row]:
    """The statements, for OERA mended and as printed."""
    made = []
    static, median = found["static"], found["median"]
    for name in ("OERA mended", "OERA as printed"):
        ours = found[name]

        def add(
            place: str, what: str, says: float | None, value: float, why: str = "", name: str = name
        ) -> None:
            made.append(Row(name, place, what, says, value, why=why))

        for against, other, fewer, more, higher, why in (
            ("static", static, -90.0, 4.0, 22.0, "another stream, another buffer"),
            ("the median", median, -30.0, 3.0, 9.0, _LATE),
        ):
            fall = 100 * (ours.loss_rate / other.loss_rate - 1) if other.loss_rate else math.nan
            add("Fig. 7c", f"loss rate against {against}, %", fewer, fall, why)
            rise = 100 * (ours.done["Count"] / other.done["Count"] - 1)
            add("Fig. 6c", f"throughput against {against}, %", more, rise, why)
            points = 100 * (ours.mean("use") - other.mean("use"))
            add("Fig. 9c", f"use of threads against {against}, points", higher, points, why)
        changes = found[f"{name}, constant"].changes
        add("section 2", "changes of a run with constant input", 1.0, changes,
            "two components; the listing oscillates where the buffer is empty")  # fmt: skip
        for place, part, says in (("Fig. 9a", "Count", 0.8), ("Fig. 9b", "Split", 0.4)):
            use = statistics.fmean(ours.use[part])
            add(place, f"use of {part}'s threads", says, use, "another stream")
        add("Fig. 8c", "threads over those under static ('slightly more')", None,
            ours.mean("threads") / static.mean("threads"))  # fmt: skip
        still = 100 * ours.changes * _STILL_S / (2 * len(ours.use["Count"]) * _WINDOW_S)
        add("3.2.3", f"time that {ours.changes} changes stood still, %", None, still)
    return made
