"""Simulated jobs, what controllers and scalers see of a simulation, and what they do to it.

They see and change it as they do Spark. A job has operators, which are tasks and streams at a rate;
executors come late and leave; an operator may be behind a buffer, as in Storm.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.elastic import Elastic
from scheduling.errors import ActuatorError
from scheduling.flow import Meter, Progress, entry
from scheduling.load import busyness
from scheduling.model import (
    Edge,
    JobGraph,
    Plan,
    Receipt,
    Resources,
    Snapshot,
    Task,
    Utilisation,
    Worker,
)
from scheduling.model.checks import number
from scheduling.scalers import Load, Scaler
from scheduling.simulate import Arrivals, Batch, Executor, Simulation


@dataclass(frozen=True)
class Operator:
    """One operator of a job: a stage of tasks.

    ``row_s`` are core seconds of a row that it reads, ``inputs`` the operators that feed it, of
    which a source has none, ``part`` the rows that it reads for a row of the job, ``out_bytes``
    what it sends, to each operator that it feeds, for a row that it reads, and ``shares`` those of
    its rows by task, by default all the same.
    """

    name: str
    tasks: int
    row_s: float
    inputs: tuple[str, ...] = ()
    part: float = 1.0
    out_bytes: float = 0.0
    memory_mb: float = 0.0
    state_bytes: float = 0.0
    shares: Sequence[float] = ()

    @property
    def dealt(self) -> list[float]:
        """The share of its rows of each task."""
        return list(self.shares) or [1 / self.tasks] * self.tasks


def demands(operators: Iterable[Operator], rows_per_s: float = 1.0) -> JobGraph:
    """The tasks with their demands at a rate (Eqs. 20 and 21), and the streams between them.

    Operators are in topological order; each task of one sends to each of the next one.

    Example:
        >>> read = Operator("read", 2, 1e-4, out_bytes=100)
        >>> graph = demands([read, Operator("join", 4, 2e-4, inputs=("read",))], 10_000)
        >>> len(graph.tasks), len(graph.edges), graph.by_id["join-0"].demand.cpu_cores
        (6, 8, 0.5)
    """
    by_name, tasks, edges = {one.name: one for one in operators}, [], []
    for name, one in by_name.items():
        for index, share in enumerate(one.dealt):
            task, rate = f"{name}-{index}", rows_per_s * one.part * share
            need = Resources(rate * one.row_s, one.memory_mb)
            tasks.append(Task(task, name, index, need, rate, one.state_bytes * share))
            for feeder in map(by_name.__getitem__, one.inputs):
                sent = rows_per_s * feeder.part * feeder.out_bytes * share
                edges += [
                    Edge(f"{feeder.name}-{at}", task, sent * part)
                    for at, part in enumerate(feeder.dealt)
                ]
    return JobGraph(tuple(tasks), tuple(edges))


_CYCLES = 10  # for which rows, cost and samples count, as of the live monitor
_KEEP = 1 - 1 / _CYCLES


class ElasticSimulation(Simulation):
    """A simulation whose executors come, and leave after their tasks.

    Of the ``workers``, the executors at the start, those that come later are like the first;
    ``start_s`` is from the request of one to its first task. All else is as of a simulation.
    """

    def __init__(
        self, graph: JobGraph, workers: Sequence[Worker], arrived: Arrivals, *,
        start_s: float = 5.0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(graph, workers, arrived, **options)
        self._start_s, self.rent = number("start_s", start_s), 0.0
        self.requested = 0
        self._leaving: set[str] = set()  # or gone: they take no more tasks
        self._template, self._ids, self._coming = workers[0], itertools.count(len(workers)), 0

    def there(self) -> list[Executor]:
        """The executors that take tasks."""
        return [one for name, one in self.executors.items() if name not in self._leaving]

    def busy_s(self) -> float:
        """Durations of all finished tasks: the sum of ``totalDuration`` of Spark's executors."""
        return math.fsum(one.run_s for one in self.executors.values())

    def resize(self, target: int) -> None:
        """Request a number of executors, which stands; the youngest leave after their tasks."""
        self.requested = target
        for one in self.there()[target:]:
            self._leaving.add(one.worker.id)
            self._queues[""] += self._queues.pop(one.worker.id, ())
        self._fulfil()
        self._dispatch()

    def _pass(self, time_s: float) -> None:
        there, gone = self.executors.items(), self._leaving
        paid = (one.worker for name, one in there if one._running or name not in gone)
        self.rent += sum(worker.price_per_s for worker in paid) * (time_s - self.now)
        super()._pass(time_s)

    def _fulfil(self) -> None:
        while len(self.there()) + self._coming < self.requested:
            self._coming += 1
            self.at(self.now + self._start_s, self._come)

    def _come(self) -> None:
        self._coming -= 1
        if len(self.there()) < self.requested:
            name = f"{self._template.id.rstrip('0123456789')}{next(self._ids)}"
            worker = replace(self._template, id=name, host="")
            self.executors[name] = Executor(worker, _since=self.now)
            self._dispatch()


class SimCluster:
    """A simulation as a :class:`scheduling.Controller`'s monitor and actuator, as live ones.

    Rows and cost of a worker (Eq. 22) are those of about ten micro-batches in which it had rows;
    its busyness (Eq. 23) is of the last ten. The clock is that of the ``simulation``.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._batch, self._time_s = 0, 0.0
        self._did: dict[str, tuple[float, float]] = {}  # by executor its rows and seconds
        self._samples = defaultdict[str, deque[list[float]]](lambda: deque(maxlen=_CYCLES))

    def snapshot(self) -> Snapshot:
        """The executors, and what each did since the last call; without a micro-batch nothing."""
        query = self.simulation
        there = {one.worker.id: one.worker for one in query.there()}
        workers, batches = tuple(there.values()), query.batches[self._batch :]
        last = query.batches[-1].at if query.batches else {}
        placement = {task: at for task, at in last.items() if at in there}
        if not batches:
            return Snapshot(query.now, workers, placement=placement)
        ends = [*(one.start for one in batches[1:]), query.now]
        for batch, end in zip(batches, ends, strict=True):
            self._record(batch, end - batch.start)
        span_s, usage, use = query.now - self._time_s, dict[str, Resources](), {}
        for task in placement:
            used = math.fsum(batch.work_s.get(task, 0.0) for batch in batches) / span_s
            usage[task] = Resources(used, query.graph.by_id[task].demand.memory_mb)
        for name in there:
            if seen := [batch.busy[name] for batch in batches if name in batch.busy]:
                use[name] = Utilisation(statistics.fmean(seen))
        self._batch, self._time_s = len(query.batches), query.now
        did = {name: self._did[name] for name in there if name in self._did}
        return Snapshot(
            query.now,
            workers,
            utilisation=use,
            tuples={name: rows for name, (rows, _) in did.items()},
            cost={name: there[name].price_per_s * spent_s for name, (_, spent_s) in did.items()},
            busyness=busyness({name: list(self._samples[name]) for name in there}),
            placement=placement,
            usage=usage,
        )

    def _record(self, batch: Batch, seconds: float) -> None:
        rows: dict[str, float] = {}
        for task, at in batch.at.items():
            part = self.simulation.graph.by_id[task].rate_in_per_s / self.simulation.rows_per_s
            rows[at] = rows.get(at, 0.0) + part * batch.rows
        for name, count in rows.items():
            before, spent_s = self._did.get(name, (0.0, 0.0))
            self._did[name] = _KEEP * before + count, _KEEP * spent_s + seconds
        for name in self.simulation.executors:
            self._samples[name].append([batch.busy[name]] if name in batch.busy else [])

    def capabilities(self) -> frozenset[str]:
        """Whole tasks are placed and moved; executors without a task are released."""
        return frozenset({"place", "move", "executors"})

    def apply(self, plan: Plan) -> Receipt:
        """Pin the tasks from the next stage on; what is unplaced runs on any executor."""
        known = self.simulation.graph.by_id.keys()
        if unknown := plan.placement.keys() - known:
            raise ActuatorError(f"the job has no tasks {sorted(unknown)}; it has {sorted(known)}")
        self.simulation.placement = dict(plan.placement)
        there = {one.worker.id for one in self.simulation.there()}
        landed = {task: at for task, at in plan.placement.items() if at in there}
        return Receipt(plan.placement, landed, tuple(one.task for one in plan.unplaced))


def scaled(
    simulation: ElasticSimulation,
    elastic: Elastic,
    meter: Meter,
    until_s: float,
    every_s: float = 5.0,
) -> None:
    """Let an ``elastic`` choose the number of executors, as on Spark, every ``every_s`` seconds."""
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


def progress(simulation: Simulation, first: int = 0) -> list[Progress]:
    """Micro-batches from the ``first`` on as ``StreamingQueryProgress`` of a source like Kafka."""
    found = []
    for one in simulation.batches[first:]:
        counts = map(round, (one.offset, one.offset + one.rows, one.latest))
        start, end, latest = ({"n": count} for count in counts)
        told = {"startOffset": start, "endOffset": end, "latestOffset": latest}
        found.append(entry(one.id, one.start, one.end - one.start, end["n"] - start["n"], **told))
    return found


class Buffered(ElasticSimulation):
    """One whose rows wait in a ``buffer`` of so many, and which a change keeps still.

    ``lost`` counts what came beyond.
    """

    def __init__(
        self, graph: JobGraph, workers: Sequence[Worker], arrived: Arrivals, *,
        buffer: float, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(graph, workers, arrived, **options)
        self.buffer, self.lost, self._still_s = buffer, 0.0, 0.0

    def pause(self, seconds: float) -> None:
        """No micro-batch begins for some seconds."""
        self._still_s = max(self._still_s, self.now + seconds)

    def take(self) -> float:
        """What the buffer holds; nothing while it is kept still."""
        dropped = max(0.0, super().take() - self.buffer)
        self.lost, self.offset = self.lost + dropped, self.offset + dropped
        return 0.0 if self.now < self._still_s else super().take()

    def windows(self, seconds: float, count: int, speed: float) -> Iterator[Load]:
        """Let windows pass; what a scaler is told of each. ``speed``: rows a second of a core."""
        worked = 0.0
        for window in range(1, count + 1):
            self.run(window * seconds)
            cores, before = len(self.there()), worked
            worked = sum(one.busy_s for one in self.executors.values())
            busy = min(1.0, (worked - before) / cores / seconds)
            came = self.arrived(self.now) - self.arrived(self.now - seconds)
            waiting = min(self.buffer, max(0.0, self.arrived(self.now) - self.offset))
            yield Load(seconds, came / seconds, speed, busy, waiting, cores)


def wanted(scaler: Scaler, load: Load) -> int:
    """The cores that a scaler wants: whole ones, one at least."""
    return max(1, math.ceil(scaler.cores(load) - 1e-9))
