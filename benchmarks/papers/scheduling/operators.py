"""The papers' jobs: operators, and the tasks and streams that they are at a rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.model import Edge, JobGraph, Resources, Task


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
