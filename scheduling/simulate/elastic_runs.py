"""OERA against Storm's static allocation and the median: Figures 5-9 of that paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduling.elastic import OERA, LiteralOERA, Median, Static
from scheduling.protocols import Scaler
from scheduling.simulate.clusters import oera
from scheduling.simulate.engine import Simulation
from scheduling.simulate.flow import Physics
from scheduling.simulate.jobs import Job, Operator, demands
from scheduling.simulate.report import Statement
from scheduling.simulate.steering import SimActuator, SimMonitor
from scheduling.simulate.streams import Rate, Steps, constant
from scheduling.simulate.trace import Trace

__all__ = ["Elastic", "compare", "run", "statements", "tweets", "word_count"]

Float64s = NDArray[np.float64]

_WINDOW_S = 600.0
_STILL_S = 120.0  # section 3.2.3: changing the parallelism takes about 120 s
_BUFFER = 400_000.0  # Bs, the same for each component; the paper does not give it
_SCALED = ("Split", "Count")


def word_count() -> Job:
    """OERA's WordCount with the threads that it starts with: Spout 5, Split 5, Count 12.

    A sentence has 10 words. A Count thread processes 100 words a second, a Split thread 200
    sentences.
    """
    return Job(
        "WordCount",
        (
            Operator(name="Spout", parallelism=5, cpu_s=1 / 40, buffer=_BUFFER),
            Operator(
                name="Split",
                inputs=("Spout",),
                parallelism=5,
                cpu_s=1 / 200,
                out=10.0,
                buffer=_BUFFER,
            ),
            Operator(
                name="Count", inputs=("Split",), parallelism=12, cpu_s=1 / 100, buffer=_BUFFER
            ),
        ),
    )


def tweets(windows: int = 42, seed: int = 4) -> Float64s:
    """Sentences a second, 10-minute window by window, 8 h to 15 h: float64[windows].

    The paper shows its counts only in a chart. This has the properties that the text states: most
    of the time well below what the first 12 threads of Count can do, and for a while above it.
    """
    at = np.linspace(0.0, 1.0, windows)
    shape = 82 - 70 * np.cos(2 * np.pi * at)
    noise = np.random.default_rng(seed).normal(0.0, 0.02, windows)
    counts: Float64s = shape * (1 + noise)
    return counts


@dataclass
class Elastic:
    """A run: its trace, and window by window, by operator, use of the threads and their number.

    ``predicted`` has the buffer's share that OERA expected after each change it made.
    """

    trace: Trace
    done: float
    lost: float
    offered: float
    changes: int
    use: dict[str, list[float]] = field(default_factory=dict)
    threads: dict[str, list[int]] = field(default_factory=dict)
    lost_by: dict[str, list[float]] = field(default_factory=dict)
    done_by: dict[str, list[float]] = field(default_factory=dict)
    predicted: list[float] = field(default_factory=list)

    @property
    def loss_rate(self) -> float:
        """Records lost, of those that were read."""
        return self.lost / max(self.done + self.lost, 1e-12)

    @property
    def utilisation(self) -> float:
        """The share of its threads' time that an operator worked, mean over Split and Count."""
        return float(np.mean([np.mean(self.use[name]) for name in _SCALED]))

    @property
    def parallelism(self) -> float:
        """Threads of an operator, mean over time, and over Split and Count."""
        return float(np.mean([np.mean(self.threads[name]) for name in _SCALED]))


def run(scaler: Scaler, rate: Rate, windows: int, *, step_s: float = 10.0) -> Elastic:
    """Let a scaler steer WordCount for some windows of 10 minutes."""
    job, workers = word_count(), oera()
    graph = demands(job, 1.0)
    placement = {task.id: workers[at % len(workers)].id for at, task in enumerate(graph.tasks)}
    # Threads process at their own pace here, as the paper's PE has it.
    physics = Physics(step_s=step_s, drops=True, contention=0.0, checkpoint_s=_WINDOW_S)
    simulation = Simulation(job, workers, rate, placement, physics=physics)
    monitor = SimMonitor(simulation)
    actuator = SimActuator(simulation, still_s=_STILL_S)
    found = Elastic(simulation.trace, 0.0, 0.0, 0.0, 0)
    for name in _SCALED:
        found.use[name], found.threads[name] = [], []
        found.lost_by[name], found.done_by[name] = [], []
    for at in range(1, windows + 1):
        simulation.run(at * _WINDOW_S)
        seen = monitor.windows()
        wanted = {name: scaler.parallelism(name, seen[name]) for name in _SCALED}
        for name in _SCALED:
            window = seen[name]
            found.use[name].append(window.busy_s / (window.parallelism * window.length_s))
            found.threads[name].append(window.parallelism)
            found.lost_by[name].append(window.lost)
            found.done_by[name].append(window.tuples_done)
            if wanted[name] != window.parallelism and isinstance(scaler, OERA):
                found.predicted.append(scaler.predicted(window, wanted[name]))
        actuator.resize_all(wanted)
        simulation._check()
    found.done, found.lost, found.offered = simulation.done, simulation.lost, simulation.offered
    found.changes = simulation.reconfigurations
    return found


def scalers() -> dict[str, Callable[[], Scaler]]:
    """What the paper compares, with its thresholds: alpha 0.8, beta 0.2, upsilon 0.7."""

    def optimal() -> OERA:
        return OERA(alpha=0.8, beta=0.2, upsilon=0.7, buffer=_BUFFER, downtime_s=_STILL_S)

    return {
        "OERA": optimal,
        "OERA, literal": lambda: LiteralOERA(buffer=_BUFFER),
        "median": lambda: Median(optimal()),
        "static": Static,
    }


def compare(windows: int = 42) -> dict[str, Elastic]:
    """Run all on the same stream, and both OERAs on a constant one (``"constant"``)."""
    counts = tweets(windows).tolist()
    found = {
        name: run(make(), Steps(counts, _WINDOW_S), windows) for name, make in scalers().items()
    }
    for name, key in (("OERA", "constant"), ("OERA, literal", "constant, literal")):
        found[key] = run(scalers()[name](), constant(70.0), max(windows // 2, 6))
    return found


def statements(found: Mapping[str, Elastic]) -> list[Statement]:
    """The paper's statements, and the figures to reach."""
    improved = _statements(found, "OERA", "constant", "OERA, improved", 6)
    literal = _statements(
        found, "OERA, literal", "constant, literal", "OERA, as published (Algorithm 1)", None
    )
    return [*improved, *literal]


def _statements(
    found: Mapping[str, Elastic], name: str, steady_name: str, label: str, number: int | None
) -> list[Statement]:
    """The statements for one of the two; ``number`` of its figures to reach."""
    ours, static, median = found[name], found["static"], found["median"]
    system = f"{label}: WordCount on Storm, 8 h to 15 h in windows of 10 minutes"
    listed: list[Statement] = []

    def add(
        where: str,
        what: str,
        paper: float,
        value: float,
        *,
        most: float | None = None,
        least: float | None = None,
        figure: int | None = number,
    ) -> None:
        listed.append(
            Statement(
                system=system,
                where=where,
                what=what,
                paper=paper,
                ours=value,
                most=most,
                least=least,
                figure=figure,
            )
        )

    for against, other, fewer, more, higher in (
        ("static", static, -90.0, 4.0, 22.0),
        ("the median", median, -30.0, 3.0, 9.0),
    ):
        fall = 100 * (ours.loss_rate / max(other.loss_rate, 1e-12) - 1)
        rise = 100 * (ours.done / other.done - 1)
        points = 100 * (ours.utilisation - other.utilisation)
        add("Fig. 7c", f"loss rate against {against}, %", fewer, fall, most=fewer)
        add("Fig. 6c", f"throughput against {against}, %", more, rise, least=more)
        add("Fig. 9c", f"use of threads against {against}, points", higher, points, least=higher)
    if ours.predicted:
        worst = max(ours.predicted)
        add("Eq. 2", "largest share of the buffer predicted after a change", 0.7, worst, most=0.7)
    steady = found[steady_name].changes
    add("section 2", "changes of a run with constant input", 1.0, float(steady), most=1.0)
    count = float(np.mean(ours.use["Count"]))
    split = float(np.mean(ours.use["Split"]))
    add("Fig. 9a", "use of Count's threads under OERA", 0.8, count, least=0.7, figure=None)
    add("Fig. 9b", "use of Split's threads under OERA", 0.4, split, least=0.3, figure=None)
    add("Fig. 9c", "use of all threads under OERA", 0.6, ours.utilisation, least=0.5, figure=None)
    still = 100 * float(np.sum(ours.trace.still_s)) / (_WINDOW_S * len(ours.use["Count"]))
    label = f"time that {ours.changes} changes under OERA stood still (120 s each), %"
    add("3.2.3", label, float("nan"), still, most=20.0, figure=None)
    # The paper's two percentages together: (1 - 0.9) / (1 - 0.3) of the static loss.
    between = 100 * (median.loss_rate / max(static.loss_rate, 1e-12) - 1)
    add("Fig. 7c", "loss rate of the median against static, %", -85.7, between, most=0, figure=None)
    add(
        "Fig. 8c",
        "threads under OERA over those under static ('slightly more')",
        1.0,
        ours.parallelism / static.parallelism,
        least=1.0,
        figure=None,
    )
    return listed
