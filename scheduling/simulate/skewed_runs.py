"""St-Stream against plain Storm: a skewed stream on 7 nodes, Figures 10-17 of that paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduling.model import Move
from scheduling.protocols import Rebalancer
from scheduling.rebalance import StStream
from scheduling.simulate.clusters import st_stream
from scheduling.simulate.engine import Simulation
from scheduling.simulate.flow import Physics
from scheduling.simulate.jobs import Job, Operator, task_id
from scheduling.simulate.report import Statement
from scheduling.simulate.steering import SimActuator, SimMonitor
from scheduling.simulate.streams import constant
from scheduling.simulate.trace import Trace

__all__ = ["Skewed", "compare", "run", "statements"]

Float64s = NDArray[np.float64]

# CPU use of S1 ... S7 before, in percent. S1, S2 and S7 are in the text; S6 is said to be high and
# S5 to be even; the others are between.
BEFORE = (11.25, 21.2, 38.0, 45.0, 50.0, 66.0, 88.5)
_LEAST = 30.0  # the paper's default for L_min, percent
_RATE = 3500.0
_CLOCK_S = 120.0
_STILL_S = 2.0


def labelled() -> tuple[Job, dict[str, str], Float64s]:
    """A word count whose labelled records load the nodes as ``BEFORE`` says.

    Returns:
        The job, the worker of each task, two Count tasks a node, and the share of each of these.
    """
    workers = st_stream()
    cores = np.array([worker.capacity.cpu_cores for worker in workers])
    load = cores * np.array(BEFORE) / 100
    halves = np.stack([0.55 * load, 0.45 * load], axis=1).ravel()
    job = Job(
        "labelled WordCount",
        (
            Operator(name="read", parallelism=1, cpu_s=1e-9, memory_mb=100),
            Operator(
                name="count",
                inputs=("read",),
                parallelism=len(halves),
                cpu_s=float(load.sum() / _RATE),
                max_cores=2,
                memory_mb=100,
                state_bytes=50e6,
            ),
        ),
    )
    placement = {task_id("read", 0): workers[0].id}
    for at in range(len(halves)):
        placement[task_id("count", at)] = workers[at // 2].id
    return job, placement, halves / halves.sum()


@dataclass
class Skewed:
    """A run: its trace, the moves of each clock, and the nodes' CPU use in percent after each."""

    trace: Trace
    moves: list[list[Move]] = field(default_factory=list)
    use: list[Float64s] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)

    @property
    def even_after(self) -> int:
        """After how many clocks every node is between L_min and L_max; a large number if never."""
        for clock, (use, (low, high)) in enumerate(zip(self.use, self.bounds, strict=True)):
            if (use >= min(low, _LEAST) - 0.05).all() and (use <= high + 0.05).all():
                return clock
        return 1000


def run(rebalancer: Rebalancer | None, *, clocks: int = 6, theta: float = 0.2) -> Skewed:
    """Let some clocks pass, rebalancing after each but the last if there is a rebalancer.

    ``latency`` is what a record waits and is worked on, relative to an idle node: 1 / (1 - use)
    of its node, mean over records. The fluid has no queue below full use; this formula of a
    random queue replaces it.
    """
    job, placement, shares = labelled()
    workers = st_stream()
    physics = Physics(step_s=1.0, base_cpu_cores=0.0, base_memory_mb=0.0, contention=0.0)
    simulation = Simulation(job, workers, constant(_RATE), placement, physics=physics)
    simulation.change(placement, shares={"count": shares})
    monitor = SimMonitor(simulation)
    actuator = SimActuator(simulation, still_s=_STILL_S)
    found = Skewed(simulation.trace)
    for clock in range(1, clocks + 1):
        simulation.run(clock * _CLOCK_S)
        simulation._check()
        snapshot = monitor.snapshot()
        # The last quarter of a clock: a change and the catching up are over.
        tail = np.array(simulation.trace.cpu[-int(_CLOCK_S / 4) :]).mean(axis=0)
        cores = np.array([worker.capacity.cpu_cores for worker in workers])
        mean = float(tail @ cores / cores.sum())
        found.use.append(100 * tail)
        found.bounds.append((100 * (1 - theta) * mean, 100 * (1 + theta) * mean))
        load = tail * cores
        found.latency.append(float((load / load.sum() / np.maximum(1 - tail, 0.01)).sum()))
        if rebalancer is not None and clock < clocks:
            moves = list(rebalancer.rebalance(monitor.graph(), snapshot))
            found.moves.append(moves)
            actuator.move(moves)
    return found


def compare(*, theta: float = 0.2) -> dict[str, Skewed]:
    """Storm as it is, and with St-Stream."""
    return {
        "Storm": run(None, theta=theta),
        "St-Stream": run(StStream(theta=theta, cpu_weight=1.0), theta=theta),
    }


def statements(found: dict[str, Skewed]) -> list[Statement]:
    """The paper's statements, and the figures to reach."""
    storm, ours = found["Storm"], found["St-Stream"]
    before, after = storm.use[-1], ours.use[-1]
    cores = np.array([worker.capacity.cpu_cores for worker in st_stream()])
    moves = [move for clock in ours.moves for move in clock]
    system = "St-Stream: labelled WordCount on 7 nodes"
    listed: list[Statement] = []

    def add(
        where: str,
        what: str,
        paper: float,
        value: float,
        most: float | None = None,
        least: float | None = None,
        figure: int | None = 5,
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

    add("Fig. 12", "clocks until all nodes are in [30 %, L_max]", 2.0, ours.even_after, most=2.0)
    gap = float(after.max() - after.min())
    add("Fig. 12b", "largest minus smallest CPU use after, points", 21.4, gap, most=21.4)
    lost = abs(float((after - before) @ cores)) / float(before @ cores) * 100
    add("conserved", "CPU work that was made or lost by moves, %", 0.0, lost, most=0.5)
    least = min((move.gain for move in moves), default=0.0)
    add(
        "Alg. 2",
        "least gain of a move (each one gains), share",
        float("nan"),
        least,
        least=1e-9,
    )
    slack = 3.0
    for name, at, paper in (("S1", 0, 35.6), ("S2", 1, 40.0), ("S6", 5, 54.0), ("S7", 6, 57.0)):
        low, high = 30.0 - slack, 57.0 + slack
        add("Fig. 12", f"CPU use of {name} after, %", paper, float(after[at]), high, low, None)
    fall = 100 * (ours.latency[-1] / storm.latency[-1] - 1)
    add("Fig. 14", "latency against Storm, %", -17.6, fall, most=-17.6, figure=None)
    skew = 100 * float(after.max() / after.mean() / (before.max() / before.mean()))
    add("Fig. 17", "largest over mean CPU use, after / before, %", 82.86, skew, 82.86, None, None)
    shrunk = 100 * float(after.std() / before.std() - 1)
    add("Fig. 11", "S against Storm, %", float("nan"), shrunk, most=0.0, figure=None)
    return listed
