"""Tasks, and the streams between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

from scheduling.errors import ArgumentError
from scheduling.model.checks import Checked, amounts, grouped, unchecked, unique
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
        cached: by host, the bytes that it has there; the largest is what it needs, and loads what
            is missing after a move. Default none.
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
    cached: Annotated[Mapping[str, float], amounts] = field(default_factory=dict, hash=False)
    _of: ClassVar[str] = " of task {id!r}"


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
        unique("task", (task.id for task in self.tasks))
        for edge in self.edges:
            if missing := [end for end in (edge.source, edge.target) if end not in self.by_id]:
                stream = f"an edge leads from {edge.source!r} to {edge.target!r}, but"
                raise ArgumentError(f"{stream} there is no task {missing[0]!r}; name tasks of it")

    def with_cores(self, cores: Mapping[str, float]) -> JobGraph:
        """The same graph, each task with the CPU in ``cores``; nothing is checked again."""
        tasks = []
        for one in self.tasks:
            demand = one.demand.__dict__ | {"cpu_cores": float(cores[one.id])}
            changed = {"demand": unchecked(Resources, **demand)}
            tasks.append(unchecked(Task, **one.__dict__ | changed))
        return unchecked(JobGraph, tasks=tuple(tasks), edges=self.edges)

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """The tasks by their ids."""
        return {task.id: task for task in self.tasks}

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
