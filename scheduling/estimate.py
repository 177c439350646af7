"""The load of each task, smoothed over the last cycles, and how much it varies.

A change of a plan must gain more than what the measurements vary by, and a partition that is
missing for some cycles, as AQE's are, keeps its estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scheduling.model import JobGraph, Snapshot

__all__ = ["LoadEstimate"]

_KEEP = 0.5  # the weight of the past


class LoadEstimate:
    """Exponentially weighted means and variances of the CPU cores that tasks use.

    Half of a step of the load is seen after one cycle, 94 % after four.

    >>> from scheduling.model import Resources, Task
    >>> estimate = LoadEstimate()
    >>> for cores in (1.0, 3.0):
    ...     estimate.observe(Snapshot(0.0, (), usage={"t0": Resources(cores, 0)}))
    >>> estimate.loads(JobGraph((Task("t0", "t", 0, Resources(2, 0)),)))
    {'t0': 2.0}
    """

    def __init__(self) -> None:
        self._mean: dict[str, float] = {}
        self._variance: dict[str, float] = {}

    @property
    def measured(self) -> bool:
        """Whether the usage of any task is known."""
        return bool(self._mean)

    def observe(self, snapshot: Snapshot) -> None:
        """Take the usage of the tasks into account; what is no usage is left out. O(tasks)."""
        for name, used in snapshot.usage.items():
            cores = used.cpu_cores
            if not 0 <= cores < math.inf:
                continue
            if name not in self._mean:
                self._mean[name], self._variance[name] = cores, 0.0
                continue
            off = cores - self._mean[name]
            self._mean[name] += (1 - _KEEP) * off
            self._variance[name] = _KEEP * (self._variance[name] + (1 - _KEEP) * off * off)

    def loads(self, graph: JobGraph) -> dict[str, float]:
        """The CPU cores of each task: as estimated, else as demanded.

        A task of which nothing is known counts as the mean of its operator's others; where nothing
        is known of any task, each counts as one core.
        """
        found = {task.id: self._mean.get(task.id, task.demand.cpu_cores) for task in graph.tasks}
        for tasks in graph.operators.values():
            known = [found[task.id] for task in tasks if found[task.id] or task.id in self._mean]
            for task in tasks:
                if not found[task.id] and task.id not in self._mean and known:
                    found[task.id] = math.fsum(known) / len(known)
        return found if any(found.values()) else dict.fromkeys(found, 1.0)

    def noise(self, placement: Mapping[str, str]) -> float:
        """The largest standard deviation of a worker's load, as a share of the highest load."""
        sums: dict[str, float] = {}
        variances: dict[str, float] = {}
        for name, worker in placement.items():
            if name in self._mean:
                sums[worker] = sums.get(worker, 0.0) + self._mean[name]
                variances[worker] = variances.get(worker, 0.0) + self._variance[name]
        highest = max(sums.values(), default=0.0)
        return math.sqrt(max(variances.values(), default=0.0)) / highest if highest else 0.0

    def split(self, task: str, part: float, receivers: Sequence[str]) -> None:
        """Move a part of a task's load to other tasks, evenly; to none if there is none known."""
        if task not in self._mean:
            return
        amount = self._mean[task] * part
        self._mean[task] -= amount
        known = [name for name in receivers if name in self._mean]
        for name in known:
            self._mean[name] += amount / len(known)
