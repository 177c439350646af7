"""What controllers see of a simulation and do to it, as they see and change Spark."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

from scheduling.elastic import Elastic
from scheduling.errors import ActuatorError
from scheduling.flow import Meter
from scheduling.load import busyness
from scheduling.model import JobGraph, Move, Plan, Receipt, Resources, Snapshot, Utilisation, Worker
from scheduling.simulate.engine import Simulation
from scheduling.simulate.job import demands, task_id

__all__ = ["SimActuator", "SimMonitor", "progress", "scaled"]


class SimMonitor:
    """Reads a simulation as a cluster's metrics are read: what happened since the last call.

    Rows and cost of a worker (Eq. 22) count half as much with each call, and stay while it is
    idle: a worker is not forgotten because a policy left it.

    Args:
        simulation: what is read; its clock is the snapshots' clock.

    Example:
        >>> from scheduling import Resources, Worker
        >>> from scheduling.simulate import Arrivals, Operator
        >>> workers = [Worker(name, Resources(2, 4096), 4) for name in ("e0", "e1")]
        >>> query = Simulation([Operator("join", 4, 0.01)], workers, Arrivals(100))
        >>> monitor = SimMonitor(query)
        >>> query.run(10)
        >>> snapshot = monitor.snapshot()
        >>> snapshot.has_history, round(snapshot.utilisation["e0"].cpu, 2)
        (True, 0.24)
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._batch, self._time_s = 0, 0.0
        self._rows: dict[str, float] = {}
        self._tuples: dict[str, float] = {}
        self._cost: dict[str, float] = {}

    def snapshot(self) -> Snapshot:
        """The executors that are there, and what each did since the last call."""
        query, there = self.simulation, self.simulation.there()
        workers = tuple(one.worker for one in there)
        batches = query.batches[self._batch :]
        if not batches:
            return Snapshot(query.now, workers, placement=self._placement(query))
        span = query.now - self._time_s
        periods = {
            one.id: [[batch.busy[one.id]] for batch in batches if one.id in batch.busy]
            for one in workers
        }
        for one in there:
            name, rows = one.worker.id, one.rows - self._rows.get(one.worker.id, 0.0)
            if rows:
                self._tuples[name] = self._tuples.get(name, 0.0) / 2 + rows
                paid = one.worker.price_per_s * span
                self._cost[name] = self._cost.get(name, 0.0) / 2 + paid
        memory = dict.fromkeys(periods, 0.0)
        usage = {}
        placement = self._placement(query)
        for task, worker in placement.items():
            used = math.fsum(batch.work_s.get(task, 0.0) for batch in batches) / span
            mb = query.operators[task.rpartition("-")[0]].memory_mb
            usage[task] = Resources(used, mb)
            memory[worker] += mb
        found = Snapshot(
            query.now,
            workers,
            utilisation={
                one.id: Utilisation(
                    math.fsum(share for (share,) in periods[one.id]) / len(periods[one.id]),
                    min(1.0, memory[one.id] / max(1.0, one.capacity.memory_mb)),
                )
                for one in workers
                if periods[one.id]
            },
            tuples=self._known(self._tuples, workers),
            cost=self._known(self._cost, workers),
            busyness=busyness({name: seen for name, seen in periods.items() if seen}),
            backlog={
                name: query.arrived(query.now) * one.part - query.offset * one.part
                for name, one in query.operators.items()
                if not one.inputs
            },
            placement=placement,
            usage=usage,
        )
        self._batch, self._time_s = len(query.batches), query.now
        self._rows = {one.worker.id: one.rows for one in there}
        return found

    @staticmethod
    def _known(values: dict[str, float], workers: Sequence[Worker]) -> dict[str, float]:
        return {one.id: values[one.id] for one in workers if one.id in values}

    @staticmethod
    def _placement(query: Simulation) -> dict[str, str]:
        if not query.batches:
            return {}
        there = {one.worker.id for one in query.there()}
        return {task: at for task, at in query.batches[-1].at.items() if at in there}

    def graph(self, rows_per_s: float = 0.0) -> JobGraph:
        """The tasks that run, with their demands at a rate."""
        query = self.simulation
        return demands(query.operators.values(), rows_per_s, query.shares)


class SimActuator:
    """Pins the tasks of a simulation, moves them, and splits them.

    Args:
        simulation: what is changed.
        still_s: how long a change keeps the next micro-batch from its start; default 0, as Spark.
    """

    def __init__(self, simulation: Simulation, *, still_s: float = 0.0) -> None:
        self.simulation, self._still_s = simulation, still_s

    def capabilities(self) -> frozenset[str]:
        """Places and moves whole tasks; executors without a task are released."""
        return frozenset({"place", "move", "executors"})

    def apply(self, plan: Plan) -> Receipt:
        """Pin the tasks from the next stage on; what is unplaced runs on any executor.

        Raises:
            ActuatorError: the plan has a task that the job does not have.
        """
        query = self.simulation
        known = {
            task_id(name, at) for name in query.shares for at in range(len(query.shares[name]))
        }
        if unknown := plan.placement.keys() - known:
            raise ActuatorError(f"the job has no tasks {sorted(unknown)}; it has {sorted(known)}")
        if query.placement != plan.placement:
            query.pause(self._still_s)
        query.placement = dict(plan.placement)
        there = {one.worker.id for one in query.there()}
        landed = {task: at for task, at in plan.placement.items() if at in there}
        return Receipt(plan.placement, landed, tuple(one.task for one in plan.unplaced))

    def move(self, moves: Sequence[Move]) -> None:
        """Carry out moves. A part of a task becomes a task of its own, pinned to the target.

        Raises:
            ActuatorError: a task does not run on the source of its move.
        """
        query = self.simulation
        for one in moves:
            if query.placement.get(one.task) != one.source:
                raise ActuatorError(
                    f"{one.task!r} runs on {query.placement.get(one.task)!r}, not on "
                    f"{one.source!r}; plan the moves again from a new snapshot"
                )
            if one.part >= 1:
                query.placement[one.task] = one.target
                continue
            operator, _, index = one.task.rpartition("-")
            shares = query.shares[operator]
            cut = shares[int(index)] * one.part
            shares[int(index)] -= cut
            shares.append(cut)
            query.placement[task_id(operator, len(shares) - 1)] = one.target
        if moves:
            query.pause(self._still_s)


def scaled(
    simulation: Simulation, elastic: Elastic, meter: Meter, until_s: float, every_s: float = 5.0
) -> None:
    """Let an :class:`~scheduling.elastic.Elastic` choose the number of executors, as on Spark.

    Args:
        simulation: whose time passes.
        elastic: decides; its ``steps`` tell what it did.
        meter: measures the load from :func:`progress`.
        until_s: the end.
        every_s: between two steps; default 5.
    """
    before = simulation.busy_s()
    while simulation.now < until_s:
        simulation.run(min(until_s, simulation.now + every_s))
        there, busy = simulation.there(), simulation.busy_s()
        cores = sum(one.worker.capacity.cpu_cores for one in there)
        load = meter.load(simulation.now, progress(simulation), busy - before, cores)
        before = busy
        step = elastic.step(simulation.now, len(there), load)
        if step.target is not None:
            simulation.resize(step.target)
            meter.forget()


def progress(simulation: Simulation, last: int = 40) -> list[dict[str, Any]]:
    """The last micro-batches as ``StreamingQueryProgress`` tells them, of a source like Kafka.

    Example:
        >>> from scheduling import Resources, Worker
        >>> from scheduling.simulate import Arrivals, Operator
        >>> one = Worker("e0", Resources(2, 4096), 4)
        >>> query = Simulation([Operator("join", 4, 0.01)], [one], Arrivals(100), limit=50)
        >>> query.run(3)
        >>> source = progress(query)[-1]["sources"][0]
        >>> source["endOffset"], source["latestOffset"], progress(query)[-1]["numInputRows"]
        ({'n': 100}, {'n': 200}, 50)
    """
    found = []
    for one in simulation.batches[-last:]:
        start, end = round(one.offset), round(one.offset + one.rows)
        began = datetime.datetime.fromtimestamp(one.start, datetime.UTC)
        source = {
            "startOffset": {"n": start},
            "endOffset": {"n": end},
            "latestOffset": {"n": round(one.latest)},
            "numInputRows": end - start,
        }
        found.append(
            {
                "batchId": one.id,
                "numInputRows": end - start,
                "timestamp": began.isoformat(),
                "durationMs": {"triggerExecution": 1e3 * (one.end - one.start)},
                "sources": [source],
            }
        )
    return found
