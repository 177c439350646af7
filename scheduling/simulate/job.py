"""Jobs that the simulator runs: operators, and the tasks and streams that policies see of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.errors import ArgumentError
from scheduling.model import Edge, JobGraph, Resources, Task

__all__ = ["Operator", "checked", "demands", "task_id"]


@dataclass(frozen=True)
class Operator:
    """One operator of a job: a stage of tasks.

    Args:
        name: unique in the job.
        tasks: its number of tasks.
        row_s: core seconds of a row that it reads.
        fixed_s: core seconds of a task in every micro-batch, without a row; default 0.
        inputs: the operators that feed it; none (default) makes it a source.
        part: the part of the job's rows that a source reads; default 1, all.
        out: rows that it sends for a row that it reads; default 1.
        out_bytes: bytes of a row that it sends; default 0.
        remote_s: core seconds more of a row from another host; default 0.
        memory_mb: of a task; default 0.
        state_bytes: of the operator; default 0.
        shares: of its rows by task, sum 1; default all the same.
    """

    name: str
    tasks: int
    row_s: float
    fixed_s: float = 0.0
    inputs: tuple[str, ...] = ()
    part: float = 1.0
    out: float = 1.0
    out_bytes: float = 0.0
    remote_s: float = 0.0
    memory_mb: float = 0.0
    state_bytes: float = 0.0
    shares: Sequence[float] = ()

    def __post_init__(self) -> None:
        numbers = (self.row_s, self.fixed_s, self.part, self.out, self.out_bytes, self.remote_s)
        if self.tasks < 1 or not all(0 <= one < float("inf") for one in numbers):
            raise ArgumentError(f"{self}: give a task or more, and finite numbers of at least 0")
        dealt = self.dealt
        if len(dealt) != self.tasks or min(dealt) < 0 or abs(sum(dealt) - 1) > 1e-6:
            raise ArgumentError(
                f"shares={self.shares!r} of {self.name!r}: give one a task, {self.tasks}, sum 1"
            )

    @property
    def dealt(self) -> list[float]:
        """The share of its rows of each task."""
        return list(self.shares) or [1 / self.tasks] * self.tasks

    def reads(self, rows: float, read: Mapping[str, float], by: Mapping[str, Operator]) -> float:
        """Rows that it reads of so many rows of the job, where its inputs have read theirs."""
        if not self.inputs:
            return rows * self.part
        return sum(read[name] * by[name].out for name in self.inputs)


def task_id(operator: str, index: int) -> str:
    """The id of a task, as in ``count-3``."""
    return f"{operator}-{index}"


def checked(operators: Iterable[Operator]) -> dict[str, Operator]:
    """Operators by name, each once and after its inputs; else an ``ArgumentError``."""
    found: dict[str, Operator] = {}
    for one in operators:
        if one.name in found or not set(one.inputs) <= found.keys():
            raise ArgumentError(
                f"{one.name!r} is there twice, or before its inputs {one.inputs}: name each "
                "operator once, in topological order"
            )
        found[one.name] = one
    if not found:
        raise ArgumentError("there is no operator; give one or more")
    return found


def demands(
    operators: Iterable[Operator],
    rows_per_s: float,
    shares: Mapping[str, Sequence[float]] | None = None,
) -> JobGraph:
    """The tasks with their demands at a rate (Eqs. 20 and 21), and the streams between them.

    Args:
        operators: in topological order.
        rows_per_s: rows of the job.
        shares: of rows, by operator; the operators' own unless given.

    Complexity: O(edges); each task of an operator sends to each of the next one.

    Example:
        >>> read = Operator("read", 2, 1e-4, out_bytes=100)
        >>> graph = demands([read, Operator("join", 4, 2e-4, inputs=("read",))], 10_000)
        >>> len(graph.tasks), len(graph.edges), graph.by_id["join-0"].demand.cpu_cores
        (6, 8, 0.5)
    """
    by_name, read = checked(operators), dict[str, float]()
    tasks, edges = [], []
    dealt = {name: one.dealt if shares is None else shares[name] for name, one in by_name.items()}
    for name, one in by_name.items():
        read[name] = one.reads(rows_per_s, read, by_name)
        for index, share in enumerate(dealt[name]):
            need = Resources(read[name] * share * one.row_s, one.memory_mb)
            rate, state = read[name] * share, one.state_bytes * share
            tasks.append(Task(task_id(name, index), name, index, need, rate, state))
            for source in one.inputs:
                sent = read[source] * by_name[source].out * by_name[source].out_bytes * share
                edges += [
                    Edge(task_id(source, at), task_id(name, index), sent * part)
                    for at, part in enumerate(dealt[source])
                ]
    return JobGraph(tuple(tasks), tuple(edges))
