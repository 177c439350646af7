"""What steers a simulation: a monitor that reads it and an actuator that changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduling.errors import ActuatorError
from scheduling.load import busyness
from scheduling.model import (
    JobGraph,
    Move,
    Plan,
    Receipt,
    Snapshot,
    Utilisation,
    Window,
)
from scheduling.simulate.engine import Simulation
from scheduling.simulate.jobs import demands, task_id

__all__ = ["SimActuator", "SimMonitor"]


class SimMonitor:
    """Reads a simulation as a cluster's metrics are read: sums since the last call.

    Args:
        simulation: what is read; its clock is the snapshots' clock.
        periods: into how many periods of time the busyness is cut (X of Eq. 23).

    Example:
        >>> from scheduling.simulate.clusters import table_4
        >>> from scheduling.simulate.workloads import wordcount
        >>> graph = demands(wordcount(), 20_000)
        >>> workers = table_4()
        >>> at = {task.id: workers[i % 11].id for i, task in enumerate(graph.tasks)}
        >>> simulation = Simulation(wordcount(), workers, lambda _: 20_000.0, at)
        >>> monitor = SimMonitor(simulation)
        >>> _ = simulation.run(10)
        >>> snapshot = monitor.snapshot()
        >>> snapshot.time_s, snapshot.has_history
        (10.0, True)
    """

    def __init__(self, simulation: Simulation, *, periods: int = 6) -> None:
        self.simulation = simulation
        self._periods = periods
        self._step = 0
        self._tuples = np.zeros(len(simulation.workers))
        self._at_s = 0.0
        self._counts = {one.name: (0.0, 0.0, 0.0, 0.0) for one in simulation.job.operators}
        self._busy = np.zeros(len(simulation.job.operators))
        self._windows_at_s = 0.0

    def snapshot(self) -> Snapshot:
        """The workers that are up, and what each did since the last call."""
        simulation, trace = self.simulation, self.simulation.trace
        tuples = simulation.worker_tuples - self._tuples
        span_s = simulation.time_s - self._at_s
        up = [worker for worker in simulation.workers if worker.id not in simulation.down]
        seen: dict[str, Utilisation] = {}
        periods: dict[str, list[list[float]]] = {}
        if len(trace.time_s) > self._step:
            cpu = np.array(trace.cpu[self._step :])
            memory = np.array(trace.memory[self._step :])
            for at, worker in enumerate(simulation.workers):
                seen[worker.id] = Utilisation(float(cpu[:, at].mean()), float(memory[:, at].mean()))
                cut = np.array_split(cpu[:, at], min(self._periods, len(cpu)))
                periods[worker.id] = [part.tolist() for part in cut]
        numbers = {worker.id: at for at, worker in enumerate(simulation.workers)}
        ids = [worker.id for worker in up]
        busy = busyness({name: periods[name] for name in ids if name in periods})
        found = Snapshot(
            simulation.time_s,
            tuple(up),
            utilisation={name: seen[name] for name in ids if name in seen},
            tuples={name: float(tuples[numbers[name]]) for name in ids},
            cost={worker.id: worker.price_per_s * span_s for worker in up},
            busyness=busy,
            backlog=self._waiting(),
            placement={
                task: name for task, name in simulation.placement.items() if name in set(ids)
            },
        )
        self._tuples, self._at_s = simulation.worker_tuples.copy(), simulation.time_s
        self._step = len(trace.time_s)
        return found

    def _waiting(self) -> dict[str, float]:
        simulation = self.simulation
        sources = [one.name for one in simulation.job.operators if not one.inputs]
        return {
            one.name: simulation.backlog * one.share
            if one.name in sources
            else simulation.operator_counts(one.name)[3]
            for one in simulation.job.operators
        }

    def windows(self) -> dict[str, Window]:
        """By operator, what it did since the last call of this method; empty without a step.

        A restart takes counters back to a checkpoint: what would be negative is 0.
        """
        simulation = self.simulation
        length_s = simulation.time_s - self._windows_at_s
        if length_s <= 0:
            return {}
        found = {}
        for at, one in enumerate(simulation.job.operators):
            now, before = simulation.operator_counts(one.name), self._counts[one.name]
            found[one.name] = Window(
                length_s,
                tuples_in=max(now[0] - before[0], 0.0),
                tuples_done=max(now[1] - before[1], 0.0),
                latency_s=simulation.latency_s(one.name),
                parallelism=simulation.parallelism[one.name],
                buffered=before[3],
                busy_s=float(simulation.busy_s[at] - self._busy[at]),
                lost=max(now[2] - before[2], 0.0),
            )
            self._counts[one.name] = now
        self._busy = simulation.busy_s.copy()
        self._windows_at_s = simulation.time_s
        return found

    def graph(self, records_per_s: float | None = None) -> JobGraph:
        """The tasks that run, with their demands at a rate; at the offered rate unless given."""
        simulation = self.simulation
        rate = simulation.rate(simulation.time_s) if records_per_s is None else records_per_s
        job = simulation.job.resized(simulation.parallelism)
        return demands(job, rate, simulation.shares)


class SimActuator:
    """Changes a simulation: placements, numbers of instances, moves of whole tasks and of parts.

    Args:
        simulation: what is changed.
        still_s: how long a change stops the job, on top of carrying state; the 120 s of OERA,
            some seconds in Flink.
    """

    def __init__(self, simulation: Simulation, *, still_s: float = 5.0) -> None:
        self.simulation = simulation
        self.still_s = still_s

    def capabilities(self) -> frozenset[str]:
        """Everything but tiers. A worker without a task costs nothing, so it counts as released."""
        return frozenset({"place", "move", "split", "resize", "executors"})

    def apply(self, plan: Plan) -> Receipt:
        """Put a plan into effect; operators get as many instances as the plan has of them.

        Where the plan lists moves, these are made, parts of tasks included, and nothing else.

        Raises:
            ActuatorError: a task of the plan has no place, or is none of the job's, or an
                operator would have no task.
        """
        if plan.unplaced:
            names = ", ".join(one.task for one in plan.unplaced)
            raise ActuatorError(
                f"there is no room for {names}: a simulated job runs whole. Add workers, or give "
                "the operators fewer instances"
            )
        if plan.moves:
            parts = self.move(plan.moves)
            return self._receipt(plan.placement | dict(parts.requested))
        counts = dict.fromkeys(self.simulation.parallelism, 0)
        for task in plan.placement:
            operator, _, index = task.rpartition("-")
            if operator not in counts or not index.isdigit():
                raise ActuatorError(f"the task {task!r} is none of the job's: {sorted(counts)}")
            counts[operator] += 1
        if empty := [operator for operator, count in counts.items() if not count]:
            raise ActuatorError(f"the plan has no task of {empty}; give each operator one or more")
        self._change(plan.placement, counts)
        return self._receipt(plan.placement)

    def resize(self, operator: str, parallelism: int) -> Receipt:
        """Change the parallelism of an operator; new instances are placed round robin."""
        return self.resize_all({operator: parallelism})

    def resize_all(self, parallelism: Mapping[str, int]) -> Receipt:
        """Give several operators other numbers of instances in one change.

        New instances are placed round robin on the workers that are up.
        """
        simulation = self.simulation
        counts = {**simulation.parallelism, **parallelism}
        up = [worker.id for worker in simulation.workers if worker.id not in simulation.down]
        placement = dict(simulation.placement)
        requested = {}
        turn = len(placement)
        for operator, count in counts.items():
            for index in range(simulation.parallelism[operator], count):
                requested[task_id(operator, index)] = up[turn % len(up)]
                turn += 1
        self._change({**placement, **requested}, counts)
        return self._receipt(requested)

    def _change(self, placement: Mapping[str, str], counts: Mapping[str, int]) -> None:
        simulation = self.simulation
        by_name, seed = simulation.job.by_name, simulation.job.seed
        shares = {
            operator: by_name[operator].shares(count, seed)
            for operator, count in counts.items()
            if count != simulation.parallelism[operator]
        }
        simulation.change(placement, shares=shares, still_s=self.still_s)

    def move(self, moves: Sequence[Move]) -> Receipt:
        """Carry out moves, all in one change. A part of a task becomes a task of its own.

        Raises:
            ActuatorError: a move's task does not run on its source.
        """
        simulation = self.simulation
        placement, shares = dict(simulation.placement), simulation.shares
        requested: dict[str, str] = {}
        for one in moves:
            if placement.get(one.task) != one.source:
                raise ActuatorError(
                    f"{one.task!r} runs on {placement.get(one.task)!r}, not on {one.source!r}; "
                    "plan the moves again from a new snapshot"
                )
            if one.part >= 1:
                placement[one.task] = requested[one.task] = one.target
                continue
            operator, _, index = one.task.rpartition("-")
            given = shares[operator]
            cut = given[int(index)] * one.part
            given[int(index)] -= cut
            shares[operator] = np.append(given, cut)
            name = task_id(operator, len(given))
            placement[name] = requested[name] = one.target
        simulation.change(placement, shares=shares, still_s=self.still_s)
        return self._receipt(requested)

    def _receipt(self, requested: Mapping[str, str]) -> Receipt:
        landed = self.simulation.placement
        return Receipt(
            dict(requested), {task: landed[task] for task in requested if task in landed}
        )
