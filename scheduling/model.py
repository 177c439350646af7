"""What is placed, where, and what comes out: tasks, workers, snapshots, plans.

A task is one join partition, a key range of one operator; a worker is a Spark executor, or a cloud
host in the simulator. All of it is frozen; units are in the names. A *share* is a fraction of 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.errors import ArgumentError

__all__ = [
    "Assignment",
    "DataNode",
    "Edge",
    "JobGraph",
    "Move",
    "Plan",
    "Receipt",
    "Resources",
    "Snapshot",
    "Task",
    "Unplaced",
    "Utilisation",
    "Window",
    "Worker",
]

# Sums of demands are compared with thresholds: room for the rounding of a few thousand terms.
_ROUNDING = 1e-9


def _number(name: str, value: float, *, above: bool = False) -> None:
    """Refuse what is no finite number of at least zero (``above``: more than zero)."""
    if not (math.isfinite(value) and (value > 0 if above else value >= 0)):
        rule = "greater than 0" if above else "at least 0"
        raise ArgumentError(f"{name}={value!r}: give a finite number, {rule}")


def _unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the {what} {name!r} is there twice; give each an id of its own")
        seen.add(name)


@dataclass(frozen=True)
class Resources:
    """CPU, memory and disk: what a worker has, or what a task needs.

    Args:
        cpu_cores: cores; fractions are fine.
        memory_mb: memory in MB.
        disk_mb: disk in MB; ``math.inf`` for a worker whose disk is no limit.

    >>> Resources(2, 4096) * 0.5
    Resources(cpu_cores=1.0, memory_mb=2048.0, disk_mb=0.0)
    """

    cpu_cores: float
    memory_mb: float
    disk_mb: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpu_cores", "memory_mb"):
            _number(name, getattr(self, name))
        if not self.disk_mb >= 0:
            raise ArgumentError(f"disk_mb={self.disk_mb!r}: give a number, at least 0")

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_cores + other.cpu_cores,
            self.memory_mb + other.memory_mb,
            self.disk_mb + other.disk_mb,
        )

    def __mul__(self, factor: float) -> Resources:
        return Resources(self.cpu_cores * factor, self.memory_mb * factor, self.disk_mb * factor)

    def within(self, limit: Resources) -> bool:
        """Whether each of the three is at most the limit's, up to rounding (Eqs. 1-4, 18-19)."""
        return (
            self.cpu_cores <= limit.cpu_cores * (1 + _ROUNDING) + _ROUNDING
            and self.memory_mb <= limit.memory_mb * (1 + _ROUNDING) + _ROUNDING
            and self.disk_mb <= limit.disk_mb * (1 + _ROUNDING) + _ROUNDING
        )


@dataclass(frozen=True)
class Worker:
    """A place for tasks: an executor of Spark, or a cloud host.

    Args:
        id: its name, unique in a cluster.
        host: the machine it runs on; tasks on one host talk without the network.
            The id unless given.
        executor_id: Spark's id of the executor, if there is one.
        capacity: what it has for the tasks that are planned.
        slots: how many tasks it runs at a time.
        price_per_s: its price in $/s. Without prices every worker costs the same.
        tier: the name of its kind (m, l, xl).
        bandwidth_bytes_per_s: of its network.
        latency_s: of its network, one way.
        delta: the share of the capacity that may be taken (Eq. 17), 0.8 in the papers.
        labels: anything else that a user wants to find again.

    Source: CETSA and LBA-CE, section 3, Eqs. 3, 4, 17.
    """

    id: str
    capacity: Resources
    slots: int
    price_per_s: float = 1.0
    host: str = ""
    executor_id: str | None = None
    tier: str = ""
    bandwidth_bytes_per_s: float = 125e6
    latency_s: float = 0.001
    delta: float = 0.8
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.id:
            raise ArgumentError("a worker's id is empty; give each worker a name")
        if not self.host:
            object.__setattr__(self, "host", self.id)
        if self.slots < 0 or self.slots != int(self.slots):
            raise ArgumentError(f"slots={self.slots!r} of worker {self.id!r}: give 0, 1, 2, ...")
        _number(f"price_per_s of worker {self.id!r}", self.price_per_s)
        _number(
            f"bandwidth_bytes_per_s of worker {self.id!r}", self.bandwidth_bytes_per_s, above=True
        )
        _number(f"latency_s of worker {self.id!r}", self.latency_s)
        if not 0 < self.delta <= 1:
            raise ArgumentError(
                f"delta={self.delta!r} of worker {self.id!r}: give the share of the capacity that "
                "may be taken, above 0 and at most 1"
            )

    @cached_property
    def usable(self) -> Resources:
        """The capacity times delta: RTH of Eq. 17."""
        return self.capacity * self.delta


@dataclass(frozen=True)
class Task:
    """One instance of an operator: a join partition.

    Args:
        id: its name, unique in a graph.
        operator: the operator it belongs to.
        index: which instance of the operator, from 0.
        demand: what it needs; :meth:`demanding` computes it from a rate (Eqs. 20-21).
        rate_in_per_s: tuples a second that come in.
        state_bytes: what a move has to carry along.
        preferred: hosts or worker ids that hold its data, all of them equally good.
        input_bytes: what it reads from there.
    """

    id: str
    operator: str
    index: int
    demand: Resources
    rate_in_per_s: float = 0.0
    state_bytes: float = 0.0
    preferred: tuple[str, ...] = ()
    input_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not self.id:
            raise ArgumentError("a task's id is empty; give each task a name")
        for name in ("index", "rate_in_per_s", "state_bytes", "input_bytes"):
            _number(f"{name} of task {self.id!r}", getattr(self, name))

    @staticmethod
    def demanding(
        tuples_per_s: float, cpu_s_per_tuple: float, memory_mb_s_per_tuple: float
    ) -> Resources:
        """The demand of a task at a rate (Eqs. 20 and 21: data times what a record takes).

        >>> Task.demanding(2000, 0.0005, 0.25)
        Resources(cpu_cores=1.0, memory_mb=500.0, disk_mb=0.0)
        """
        return Resources(tuples_per_s * cpu_s_per_tuple, tuples_per_s * memory_mb_s_per_tuple)


@dataclass(frozen=True)
class Edge:
    """A stream from one task to another, in bytes a second; both are ids of tasks."""

    source: str
    target: str
    bytes_per_s: float

    def __post_init__(self) -> None:
        _number(f"bytes_per_s from {self.source!r} to {self.target!r}", self.bytes_per_s)


@dataclass(frozen=True)
class JobGraph:
    """The tasks of a job, in the order of submission, and the streams between them.

    Raises:
        ArgumentError: an id is there twice, or an edge names a task that is not there.

    >>> tasks = [Task(f"a{i}", "a", i, Resources(1, 100)) for i in range(2)]
    >>> graph = JobGraph(tuple(tasks), (Edge("a0", "a1", 5.0),))
    >>> graph.neighbours["a1"]
    (('a0', 5.0),)
    """

    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "edges", tuple(self.edges))
        _unique("task", (task.id for task in self.tasks))
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.by_id:
                    raise ArgumentError(
                        f"an edge leads from {edge.source!r} to {edge.target!r}, but there is no "
                        f"task {end!r}; name tasks of the graph"
                    )

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """The tasks by their ids."""
        return {task.id: task for task in self.tasks}

    @cached_property
    def operators(self) -> dict[str, tuple[Task, ...]]:
        """The tasks of each operator, in the order of the graph."""
        found: dict[str, list[Task]] = defaultdict(list)
        for task in self.tasks:
            found[task.operator].append(task)
        return {name: tuple(tasks) for name, tasks in found.items()}

    @cached_property
    def neighbours(self) -> dict[str, tuple[tuple[str, float], ...]]:
        """For each task the tasks it talks to and the bytes a second both ways together."""
        found: dict[str, dict[str, float]] = {task.id: {} for task in self.tasks}
        for edge in self.edges:
            if edge.source != edge.target:
                for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
                    found[one][other] = found[one].get(other, 0.0) + edge.bytes_per_s
        return {task: tuple(others.items()) for task, others in found.items()}


@dataclass(frozen=True)
class Utilisation:
    """The shares of CPU and memory in use (Eqs. 26 and 27), each in [0, 1]."""

    cpu: float
    memory: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(
                    f"{name}={getattr(self, name)!r}: give the share in use, in [0, 1]"
                )


@dataclass(frozen=True)
class DataNode:
    """A host that holds data and runs no worker; bandwidth and latency of its network."""

    host: str
    bandwidth_bytes_per_s: float = 125e6
    latency_s: float = 0.001


@dataclass(frozen=True)
class Snapshot:
    """What is known of a cluster at one moment. Mappings lack what was not measured.

    Args:
        time_s: when, on the controller's clock.
        workers: the workers that are there, each with an id of its own.
        utilisation: by worker, over the last period.
        tuples: by worker, tuples processed in the period (Eq. 22).
        cost: by worker, $ spent in the period (Eq. 22).
        busyness: by worker, B of Eq. 23 in [0, 1]; :func:`scheduling.busyness` computes it.
        backlog: by operator, tuples that wait.
        placement: by task, the worker that it runs on.
        usage: by task, what it takes as measured; its demand where it is missing.

    >>> Snapshot(0.0, (Worker("w", Resources(4, 8192), 4),)).has_history
    False
    """

    time_s: float
    workers: tuple[Worker, ...]
    utilisation: Mapping[str, Utilisation] = field(default_factory=dict)
    tuples: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    busyness: Mapping[str, float] = field(default_factory=dict)
    backlog: Mapping[str, float] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Resources] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", tuple(self.workers))
        _unique("worker", (worker.id for worker in self.workers))

    @cached_property
    def by_id(self) -> dict[str, Worker]:
        """The workers by their ids."""
        return {worker.id: worker for worker in self.workers}

    @property
    def has_history(self) -> bool:
        """Whether any worker has processed a tuple: CE (Eq. 22) can be told."""
        return any(count > 0 for count in self.tuples.values())


@dataclass(frozen=True)
class Window:
    """What one operator did in one window of time: the input of a scaler.

    Args:
        length_s: length of the window.
        tuples_in: tuples that came in.
        tuples_done: tuples that were processed.
        latency_s: processing time of one tuple on one instance; the rate of an instance is 1/it.
        parallelism: instances that ran.
        buffered: tuples that waited when the window began.
        busy_s: time that all instances together spent on tuples; DS2's useful time.
        lost: tuples that did not fit the buffer.
    """

    length_s: float
    tuples_in: float
    tuples_done: float
    latency_s: float
    parallelism: int
    buffered: float = 0.0
    busy_s: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        _number("length_s", self.length_s, above=True)
        _number("latency_s", self.latency_s, above=True)
        for name in ("tuples_in", "tuples_done", "buffered", "busy_s", "lost"):
            _number(name, getattr(self, name))
        if self.parallelism < 1:
            raise ArgumentError(f"parallelism={self.parallelism!r}: give 1 or more")


@dataclass(frozen=True)
class Assignment:
    """A task goes to a worker, and why."""

    task: str
    worker: str
    reason: str


@dataclass(frozen=True)
class Unplaced:
    """A task for which there is no room now, and why; it could run on an emptier cluster."""

    task: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Which task goes where, what has no room now, what it costs.

    Args:
        assignments: each task at most once.
        unplaced: the others.
        score: what the policy made small; by default $/s of the workers in use.
        scheduling_time_s: how long planning took (ST of Eq. 14); 0 unless planned by
            :class:`scheduling.Timed`.
        policy: the name of the policy.
        moves: how to get there from the plan before, for actuators that can move or split tasks.
    """

    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...] = ()
    score: float = 0.0
    scheduling_time_s: float = 0.0
    policy: str = ""
    moves: tuple[Move, ...] = ()

    @cached_property
    def placement(self) -> dict[str, str]:
        """The worker of each placed task."""
        return {one.task: one.worker for one in self.assignments}

    @cached_property
    def by_worker(self) -> dict[str, tuple[str, ...]]:
        """The tasks of each worker that has any, in the order of assignment."""
        found: dict[str, list[str]] = defaultdict(list)
        for one in self.assignments:
            found[one.worker].append(one.task)
        return {worker: tuple(tasks) for worker, tasks in found.items()}

    def _check(self, graph: JobGraph, snapshot: Snapshot) -> None:
        """Assert that the plan can be carried out and forgets nothing.

        Every task is placed once or listed as unplaced; no worker has more tasks than slots, nor
        more demand than delta times its capacity (Eqs. 18 and 19). O(tasks).
        """
        listed = [one.task for one in self.assignments] + [one.task for one in self.unplaced]
        assert len(listed) == len(set(listed)), "a task is there twice"
        assert set(listed) == set(graph.by_id), "a task is missing, or none of the graph's"
        for name, tasks in self.by_worker.items():
            assert name in snapshot.by_id, f"there is no worker {name}"
            worker = snapshot.by_id[name]
            assert len(tasks) <= worker.slots, f"{len(tasks)} tasks in {worker.slots} slots"
            total = Resources(0.0, 0.0)
            for task in tasks:
                total += graph.by_id[task].demand
            assert total.within(worker.usable), f"{name}: {total} is over {worker.usable}"
        assert all(one.reason for one in self.assignments), "an assignment has no reason"
        assert all(one.reason for one in self.unplaced), "an unplaced task has no reason"


@dataclass(frozen=True)
class Move:
    """A task, or a part of its load, goes from one worker to another.

    Args:
        task: the task.
        source: the worker that gives.
        target: the worker that takes.
        gain: by how much the gap between the two loads shrinks, a share.
        state_bytes: what has to be carried.
        part: the share of the task's load that moves; below 1 the task is split.
        load: the load that moves, as a share of the target's capacity.
    """

    task: str
    source: str
    target: str
    gain: float
    state_bytes: float
    part: float = 1.0
    load: float = 0.0


@dataclass(frozen=True)
class Receipt:
    """What an actuator was asked for, and what was seen to land: worker by task."""

    asked: Mapping[str, str]
    landed: Mapping[str, str]

    @property
    def missed(self) -> dict[str, str]:
        """The tasks that are not where they were asked for, with the worker asked."""
        return {task: at for task, at in self.asked.items() if self.landed.get(task) != at}

    @property
    def landing_share(self) -> float:
        """The share of the asked tasks that landed; 1 where nothing was asked."""
        return 1.0 if not self.asked else 1 - len(self.missed) / len(self.asked)
