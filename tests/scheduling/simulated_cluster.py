"""A cluster of executors on which tasks use CPU as a test says, with noise: for a controller.

With the capability ``"spread"`` a part of a partition goes to others, as HotSpot's rules do it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from scheduling import (
    Controller,
    Decision,
    JobGraph,
    Plan,
    Policy,
    Receipt,
    Resources,
    Snapshot,
    Task,
    Utilisation,
    Worker,
)
from scheduling.load import busyness
from scheduling.splits import indices

CYCLE_S = 10.0


def executors(count: int, *, cores: float = 4.0, prices: Sequence[float] = (1.0,)) -> list[Worker]:
    """Executors of one size, two on each host."""
    return [
        Worker(
            f"h{i // 2}/{i}",
            Resources(cores, 8192),
            16,
            prices[i % len(prices)],
            host=f"h{i // 2}",
            executor_id=str(i),
        )
        for i in range(count)
    ]


class SimulatedCluster:
    """Monitor, actuator and clock of a job with one operator.

    ``loads`` are the cores that each partition uses; a measurement differs by ``noise`` at most.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        loads: Sequence[float],
        *,
        noise: float = 0.03,
        can: Sequence[str] = ("place", "move"),
        state_bytes: float = 0.0,
        seed: int = 1,
    ) -> None:
        self.workers, self.loads, self.noise = list(workers), list(loads), noise
        self.can, self.state_bytes = frozenset(can), state_bytes
        self.now = 0.0
        self.at: dict[str, str] = {}
        self.moves = self.splits = 0
        self._draw = random.Random(seed)
        self._ran = False

    def controller(self, policy: Policy, **options: object) -> Controller:
        return Controller(
            self,
            policy,
            self,
            self.graph,
            {"join": len(self.loads)},
            clock=lambda: self.now,
            **{"cooldown_s": 30.0, **options},  # type: ignore[arg-type]
        )

    def graph(self, parallelism: Mapping[str, int]) -> JobGraph:
        return JobGraph(
            tuple(
                Task(f"join-{i}", "join", i, Resources(0.0, 64.0), state_bytes=self.state_bytes)
                for i in range(parallelism["join"])
            )
        )

    def run(
        self,
        controller: Controller,
        cycles: int,
        before: Callable[[int], None] = lambda cycle: None,
    ) -> list[Decision]:
        """So many cycles: a step, then the tasks run. ``before`` sees the number of each."""
        found = []
        for cycle in range(cycles):
            before(cycle)
            found.append(controller.step())
            self._ran = True
            self.now += CYCLE_S
        return found

    def by_worker(self) -> dict[str, float]:
        """The true load of each executor."""
        found = dict.fromkeys((worker.id for worker in self.workers), 0.0)
        for task, worker in self.at.items():
            found[worker] += self.loads[int(task.rpartition("-")[2])]
        cores = {worker.id: worker.capacity.cpu_cores for worker in self.workers}
        return {name: load / cores[name] for name, load in found.items()}

    def skew(self) -> float:
        """The highest load over the mean."""
        loads = list(self.by_worker().values())
        return max(loads) * len(loads) / sum(loads)

    # Monitor

    def snapshot(self) -> Snapshot:
        there = {worker.id for worker in self.workers}
        if not self._ran:
            return Snapshot(self.now, tuple(self.workers))
        at = {task: worker for task, worker in self.at.items() if worker in there}
        usage = {
            task: Resources(
                self.loads[int(task.rpartition("-")[2])]
                * (1 + self._draw.uniform(-self.noise, self.noise)),
                64.0,
            )
            for task in at
        }
        cpu = {
            worker.id: min(
                1.0,
                sum(usage[task].cpu_cores for task, where in at.items() if where == worker.id)
                / worker.capacity.cpu_cores,
            )
            for worker in self.workers
        }
        rows = dict.fromkeys(there, 0.0)
        for task, worker in at.items():
            rows[worker] += 1000 * usage[task].cpu_cores
        return Snapshot(
            self.now,
            tuple(self.workers),
            utilisation={name: Utilisation(share) for name, share in cpu.items()},
            tuples=rows,
            cost={worker.id: worker.price_per_s * CYCLE_S for worker in self.workers},
            busyness=busyness({name: [[share]] for name, share in cpu.items()}),
            placement=at,
            usage=usage,
        )

    # Actuator

    def capabilities(self) -> frozenset[str]:
        return self.can

    def apply(self, plan: Plan) -> Receipt:
        there = {worker.id for worker in self.workers}
        landed = {task: worker for task, worker in plan.placement.items() if worker in there}
        self.moves += sum(self.at.get(task, worker) != worker for task, worker in landed.items())
        self.at = landed
        parts = indices(plan.moves, plan.placement, "join") if "spread" in self.can else {}
        for partition, to in parts.items():
            whole = self.loads[partition]
            for receiver, share in to.items():
                self.loads[partition] -= whole * share
                self.loads[receiver] += whole * share
            self.splits += 1
        unplaced = tuple(one.task for one in plan.unplaced)
        return Receipt(plan.placement, landed, unplaced)
