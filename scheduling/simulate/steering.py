"""What controllers see of a simulation and do to it, as they see and change Spark."""

from __future__ import annotations

import datetime
import math
from typing import Any

from scheduling.elastic import Elastic
from scheduling.errors import ActuatorError
from scheduling.flow import Meter
from scheduling.load import busyness
from scheduling.model import Plan, Receipt, Resources, Snapshot, Utilisation
from scheduling.simulate.engine import Simulation

__all__ = ["SimCluster", "progress", "scaled"]


class SimCluster:
    """A simulation as a :class:`scheduling.Controller`'s monitor and actuator.

    Rows and cost of a worker (Eq. 22) count half as much with each call, and stay while it is
    idle: a worker is not forgotten because a policy left it.

    Args:
        simulation: what is read and changed; its clock is the snapshots' clock.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._batch, self._time_s = 0, 0.0
        self._rows: dict[str, float] = {}
        self._tuples: dict[str, float] = {}
        self._cost: dict[str, float] = {}

    def snapshot(self) -> Snapshot:
        """The executors, and what each did since the last call; without a micro-batch nothing."""
        query = self.simulation
        there = {one.worker.id: one for one in query.there()}
        workers = tuple(one.worker for one in there.values())
        batches, span_s = query.batches[self._batch :], query.now - self._time_s
        last = query.batches[-1].at if query.batches else {}
        placement = {task: at for task, at in last.items() if at in there}
        if not batches:
            return Snapshot(query.now, workers, placement=placement)
        for name, one in there.items():
            rows, self._rows[name] = one.rows - self._rows.get(name, 0.0), one.rows
            if rows:
                self._tuples[name] = self._tuples.get(name, 0.0) / 2 + rows
                paid = one.worker.price_per_s * span_s
                self._cost[name] = self._cost.get(name, 0.0) / 2 + paid
        usage, memory = dict[str, Resources](), dict.fromkeys(there, 0.0)
        for task, worker in placement.items():
            used = math.fsum(batch.work_s.get(task, 0.0) for batch in batches) / span_s
            usage[task] = Resources(used, query.graph.by_id[task].demand.memory_mb)
            memory[worker] += usage[task].memory_mb
        use, periods = dict[str, Utilisation](), dict[str, list[list[float]]]()
        for name, one in there.items():
            if seen := [batch.busy[name] for batch in batches if name in batch.busy]:
                full = min(1.0, memory[name] / max(1.0, one.worker.capacity.memory_mb))
                use[name] = Utilisation(math.fsum(seen) / len(seen), full)
                periods[name] = [[share] for share in seen]
        self._batch, self._time_s = len(query.batches), query.now
        return Snapshot(
            query.now,
            workers,
            utilisation=use,
            tuples={name: rows for name, rows in self._tuples.items() if name in there},
            cost={name: paid for name, paid in self._cost.items() if name in there},
            busyness=busyness(periods),
            placement=placement,
            usage=usage,
        )

    def capabilities(self) -> frozenset[str]:
        """Places and moves whole tasks; executors without a task are released."""
        return frozenset({"place", "move", "executors"})

    def apply(self, plan: Plan) -> Receipt:
        """Pin the tasks from the next stage on; what is unplaced runs on any executor.

        Raises:
            ActuatorError: the plan has a task that the job does not have.
        """
        known = self.simulation.graph.by_id.keys()
        if unknown := plan.placement.keys() - known:
            raise ActuatorError(f"the job has no tasks {sorted(unknown)}; it has {sorted(known)}")
        self.simulation.placement = dict(plan.placement)
        there = {one.worker.id for one in self.simulation.there()}
        landed = {task: at for task, at in plan.placement.items() if at in there}
        return Receipt(plan.placement, landed, tuple(one.task for one in plan.unplaced))


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
    before, seen = simulation.busy_s(), 0
    while simulation.now < until_s:
        simulation.run(min(until_s, simulation.now + every_s))
        there, busy = simulation.there(), simulation.busy_s()
        cores = sum(one.worker.capacity.cpu_cores for one in there)
        told = progress(simulation, seen)
        load = meter.load(simulation.now, told, busy - before, cores)
        before, seen = busy, max(0, len(simulation.batches) - 1)
        step = elastic.step(simulation.now, len(there), load)
        if step.target is not None:
            simulation.resize(step.target)
            meter.forget()


def progress(simulation: Simulation, first: int = 0) -> list[dict[str, Any]]:
    """Micro-batches as ``StreamingQueryProgress`` tells them, of a source like Kafka.

    Args:
        simulation: whose micro-batches.
        first: the number of the first one; default 0.
    """
    found = []
    for one in simulation.batches[first:]:
        start, end = round(one.offset), round(one.offset + one.rows)
        began = datetime.datetime.fromtimestamp(one.start, datetime.UTC)
        source = {
            "startOffset": {"n": start}, "endOffset": {"n": end},
            "latestOffset": {"n": round(one.latest)}, "numInputRows": end - start,
        }  # fmt: skip
        found.append({
            "batchId": one.id, "numInputRows": end - start, "timestamp": began.isoformat(),
            "sources": [source], "durationMs": {"triggerExecution": 1e3 * (one.end - one.start)},
        })  # fmt: skip
    return found
