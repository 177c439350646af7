"""Tasks and the streams between them; plans that place them, and what was observed of these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scheduling.errors import ArgumentError
from scheduling.model import checks
from scheduling.model.checks import AnyText, Checked, Finite, SomeShare, grouped
from scheduling.model.cluster import Resources


@dataclass(frozen=True)
class Task(Checked):
    """One instance of an operator: a join partition.

    Args:
        id: its name, unique in a graph.
        operator: the operator it belongs to.
        index: which instance of the operator, from 0.
        demand: its rate times the demand of a record (Eqs. 20-21).
        rate_in_per_s: input tuples per second; default 0.
        state_bytes: the state that a move to any other worker must transfer; default 0.
        preferred: hosts or worker ids that store its data, equally preferred; default none.
        input_bytes: what it reads from there once; default 0.
        input_bytes_per_s: what it reads from there all the time; default 0.
        cached: by host, the bytes that it has there; a move loads what the largest has more.
            Default none.
    """

    id: str
    operator: str
    index: int
    demand: Resources
    rate_in_per_s: float = 0.0
    state_bytes: float = 0.0
    preferred: tuple[str, ...] = ()
    input_bytes: float = 0.0
    input_bytes_per_s: float = 0.0
    cached: Annotated[Mapping[str, float], checks.amounts] = field(default_factory=dict, hash=False)
    _of: ClassVar[str] = " of task {id!r}"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("disk_mb", self.demand.disk_mb, f" of task {self.id!r}")


@dataclass(frozen=True)
class Edge(Checked):
    """A stream from one task to another.

    Args:
        source: the id of the sending task.
        target: the id of the receiving task.
        bytes_per_s: the traffic in bytes per second.
    """

    source: str
    target: str
    bytes_per_s: float
    _of: ClassVar[str] = " from {source!r} to {target!r}"


@dataclass(frozen=True)
class JobGraph(Checked):
    """The tasks of a job and the streams between them.

    Args:
        tasks: the tasks, in the order of submission.
        edges: the streams; default none.

    Raises:
        ArgumentError: an id occurs twice, or an edge names a missing task.

    >>> tasks = [Task(f"a{i}", "a", i, Resources(1, 100)) for i in range(2)]
    >>> graph = JobGraph(tuple(tasks), (Edge("a0", "a1", 5.0),))
    >>> graph.neighbours["a1"]
    (('a0', 5.0),)
    """

    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.unique("task", (task.id for task in self.tasks))
        for edge in self.edges:
            if missing := [end for end in (edge.source, edge.target) if end not in self.by_id]:
                stream = f"an edge leads from {edge.source!r} to {edge.target!r}, but"
                raise ArgumentError(f"{stream} there is no task {missing[0]!r}; name tasks of it")

    def with_cores(self, cores: Mapping[str, float]) -> Self:
        """The same graph, each task with the CPU in ``cores``; nothing is checked again."""
        tasks = []
        for one in self.tasks:
            demand = one.demand.__dict__ | {"cpu_cores": float(cores[one.id])}
            changed = {"demand": checks.unchecked(Resources, **demand)}
            tasks.append(checks.unchecked(Task, **one.__dict__ | changed))
        return checks.unchecked(type(self), tasks=tuple(tasks), edges=self.edges)

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """The tasks by their ids."""
        return {task.id: task for task in self.tasks}

    @cached_property
    def needs(self) -> NDArray[np.float64]:
        """The needs of each task (row): a slot, cores, MB of memory, MB of disk. Read only."""
        return np.array([(1.0, *one.demand) for one in self.tasks], float).reshape(-1, 4)

    @cached_property
    def operators(self) -> dict[str, tuple[Task, ...]]:
        """The tasks of each operator, in the order of the graph."""
        return grouped((task.operator, task) for task in self.tasks)

    @cached_property
    def neighbours(self) -> dict[str, tuple[tuple[str, float], ...]]:
        """For each task its communication partners and the bytes per second in both directions."""
        found: dict[str, dict[str, float]] = {task.id: {} for task in self.tasks}
        for edge in self.edges:
            if edge.source != edge.target:
                for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
                    found[one][other] = found[one].get(other, 0.0) + edge.bytes_per_s
        return {task: tuple(others.items()) for task, others in found.items()}


@dataclass(frozen=True)
class Assignment(Checked):
    """The placement of a task on a worker.

    Args:
        task: its id.
        worker: its id.
        reason: why, in words.
    """

    task: str
    worker: str
    reason: AnyText
    _of: ClassVar[str] = " of an assignment"


@dataclass(frozen=True)
class Unplaced(Checked):
    """A task without room at the moment, which could run on an emptier cluster.

    Args:
        task: the id of the task.
        reason: why, in words.
    """

    task: str
    reason: AnyText
    _of: ClassVar[str] = " without room"


@dataclass(frozen=True)
class Move(Checked):
    """The move of a task, or of a part of its load, to another worker.

    Args:
        task: its id.
        source: the worker that it leaves.
        target: the worker that receives it.
        gain: the decrease of the difference between the two loads, as a share.
        state_bytes: the state to transfer.
        part: the share of the task's load that moves; below 1 the task is split. Default 1.
        load: the load that moves, as a share of the target's capacity; default 0.
    """

    task: str
    source: str
    target: str
    gain: Finite
    state_bytes: float
    part: SomeShare = 1.0
    load: float = 0.0
    _of: ClassVar[str] = " of a move"


@dataclass(frozen=True)
class Plan(Checked):
    """A placement of all tasks, with reasons and cost.

    Args:
        assignments: the placed tasks, each once.
        unplaced: the other tasks; default none.
        score: what the policy minimised, usually $/s of the workers in use; default 0.
        scheduling_time_s: how long planning took (ST of Eq. 14); 0 (default) if not measured.
        policy: the name of the policy; default empty.
        moves: the moves from the previous plan, of tasks and parts of them; default none.
        fallback: the policy that planned instead, and why; empty (default) if none did.
    """

    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...] = ()
    score: Finite = 0.0
    scheduling_time_s: float = 0.0
    policy: AnyText = ""
    moves: tuple[Move, ...] = ()
    fallback: AnyText = ""

    @cached_property
    def placement(self) -> dict[str, str]:
        """The worker of each placed task."""
        return {one.task: one.worker for one in self.assignments}

    @cached_property
    def by_worker(self) -> dict[str, tuple[str, ...]]:
        """The tasks of each worker that has any, in the order of assignment."""
        return grouped((one.worker, one.task) for one in self.assignments)

    @property
    def summary(self) -> str:
        """The plan in words: first the tasks without room, then the tasks of each worker."""

        def many(count: int, what: str) -> str:
            return f"{count} {what}{'' if count == 1 else 's'}"

        left, lines = len(self.unplaced), list[str]()
        if left:
            total = many(left + len(self.assignments), "task")
            lines.append(f"{left} of {total} {'has' if left == 1 else 'have'} no room now:")
        whys = grouped((one.reason, one.task) for one in self.unplaced)
        lines += [f"  {', '.join(tasks)}: {why}" for why, tasks in whys.items()]
        tasks, workers = many(len(self.assignments), "task"), many(len(self.by_worker), "worker")
        fallback = f"; fell back to {self.fallback}" if self.fallback else ""
        lines.append(f"{self.policy or 'plan'}: {tasks} on {workers}, {self.score:g} $/s{fallback}")
        lines += [f"  {worker}: {', '.join(there)}" for worker, there in self.by_worker.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Receipt(Checked):
    """The requested placement, and the observed one.

    Args:
        requested: the requested worker of each task.
        landed: the observed worker of each task.
        unplaced: the tasks for which the plan had no worker; default none.
    """

    requested: Mapping[str, str]
    landed: Mapping[str, str]
    unplaced: tuple[str, ...] = ()

    @property
    def missed(self) -> dict[str, str]:
        """The tasks that do not run on their requested worker, with that worker."""
        return {task: at for task, at in self.requested.items() if self.landed.get(task) != at}

    @property
    def landing_share(self) -> float:
        """The share of all tasks, with or without a place, that run as planned; 1 of none."""
        every = len(self.requested) + len(self.unplaced)
        return (len(self.requested) - len(self.missed)) / every if every else 1.0
