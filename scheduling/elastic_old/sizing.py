"""How many workers the tasks of a job need, so that they are requested at once.

Assumes workers of one size. The number follows from slots, CPU, memory and disk, each up to delta,
and from a packing, since a task cannot be divided between two workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from scheduling.model import JobGraph, Snapshot, Task, Worker
from scheduling.policies.first_fit import FirstFit

__all__ = ["workers_needed"]


def workers_needed(tasks: Sequence[Task], worker: Worker, *, most: int = 1000) -> int:
    """The number of workers of a size that hold all tasks.

    Args:
        tasks: the tasks, with their demands.
        worker: one of the workers.
        most: the largest number that is tried; default 1000.

    Returns:
        0 without tasks; ``most`` if no number up to it is enough.

    Raises:
        InfeasibleError: a task is larger than delta times the worker's capacity.

    Complexity: O(tasks x workers) for each number that is tried; two or three as a rule.

    >>> from scheduling.model import Resources
    >>> tasks = [Task(f"t{i}", "t", i, Resources(0.5, 100)) for i in range(12)]
    >>> workers_needed(tasks, Worker("w", Resources(2, 8192), 8, delta=0.8))
    4
    """
    if not tasks:
        return 0
    need = tasks[0].demand
    for task in tasks[1:]:
        need += task.demand
    usable = worker.usable
    shares = [
        len(tasks) / max(worker.slots, 1),
        need.cpu_cores / usable.cpu_cores if usable.cpu_cores else 0.0,
        need.memory_mb / usable.memory_mb if usable.memory_mb else 0.0,
    ]
    count = max(1, min(most, -int(-max(shares) // 1)))
    graph = JobGraph(tuple(tasks))
    while count < most:
        workers = tuple(dataclasses.replace(worker, id=f"{worker.id} {i}") for i in range(count))
        if not FirstFit().plan(graph, Snapshot(0.0, workers)).unplaced:
            break
        count = min(most, count + max(1, count // 20))
    return count
