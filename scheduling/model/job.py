"""Tasks, and the streams between them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.errors import ArgumentError
from scheduling.model.checks import each, instance, number, set_fields, text, unique, whole
from scheduling.model.cluster import Resources

__all__ = ["Edge", "JobGraph", "Task"]


@dataclass(frozen=True)
class Task:
    """One instance of an operator: a join partition.

    Args:
        id: its name, unique in a graph.
        operator: the operator it belongs to.
        index: which instance of the operator, from 0.
        demand: its demand; :meth:`demanding` computes it from a rate (Eqs. 20-21).
        rate_in_per_s: input tuples per second; default 0.
        state_bytes: the state that a move to any other worker must transfer; default 0.
        preferred: hosts or worker ids that store its data, equally preferred; default none.
        input_bytes: the data that it reads from there once; default 0.
        input_bytes_per_s: the data that it reads from there all the time; default 0.
        cached: by host, the bytes of tables and cache entries of this task that are in memory or
            on disk there; the largest is what it needs, and what is missing on another host is
            loaded after a move. Default none.

    Raises:
        ArgumentError: the id is empty, a value is of another kind, or a number out of its range.
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
    cached: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        of = f" of task {text('a task id', self.id)!r}"
        text("operator", self.operator, of)
        instance("demand", self.demand, Resources, of)
        instance("cached", self.cached, Mapping, of)  # type: ignore[type-abstract]
        numbers = ("rate_in_per_s", "state_bytes", "input_bytes", "input_bytes_per_s")
        set_fields(
            self,
            index=whole("index", self.index, of),
            preferred=each("preferred", self.preferred, str, of),
            **{name: number(name, getattr(self, name), of) for name in numbers},
        )
        for host, size in self.cached.items():
            number(f"cached[{host!r}]", size, of)

    @staticmethod
    def demanding(
        tuples_per_s: float, cpu_s_per_tuple: float, memory_mb_s_per_tuple: float
    ) -> Resources:
        """The demand of a task at a rate (Eqs. 20 and 21: data times the demand of a record).

        Args:
            tuples_per_s: input tuples per second.
            cpu_s_per_tuple: core seconds per tuple.
            memory_mb_s_per_tuple: MB per tuple per second.

        >>> Task.demanding(2000, 0.0005, 0.25)
        Resources(cpu_cores=1.0, memory_mb=500.0, disk_mb=0.0)
        """
        return Resources(tuples_per_s * cpu_s_per_tuple, tuples_per_s * memory_mb_s_per_tuple)


@dataclass(frozen=True)
class Edge:
    """A stream from one task to another.

    Args:
        source: the id of the sending task.
        target: the id of the receiving task.
        bytes_per_s: the traffic in bytes per second.
    """

    source: str
    target: str
    bytes_per_s: float

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            text(name, getattr(self, name), " of a stream")
        if type(self.bytes_per_s) is not float or not 0 <= self.bytes_per_s < math.inf:
            between = f" from {self.source!r} to {self.target!r}"
            set_fields(self, bytes_per_s=number("bytes_per_s", self.bytes_per_s, between))


@dataclass(frozen=True)
class JobGraph:
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
        set_fields(self, tasks=each("tasks", self.tasks, Task))
        set_fields(self, edges=each("edges", self.edges, Edge))
        unique("task", (task.id for task in self.tasks))
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
        """For each task its communication partners and the bytes per second in both directions."""
        found: dict[str, dict[str, float]] = {task.id: {} for task in self.tasks}
        for edge in self.edges:
            if edge.source != edge.target:
                for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
                    found[one][other] = found[one].get(other, 0.0) + edge.bytes_per_s
        return {task: tuple(others.items()) for task, others in found.items()}
