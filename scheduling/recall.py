"""Where tasks ran that are missing at the moment, and how many tasks there have been lately.

Partitions come and go, as AQE's do. Plans are made for the largest of the last numbers, so a
partition that returns has its worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from scheduling.model import JobGraph, Plan

__all__ = ["Recall"]

_RECENT = 20  # adopted numbers of instances


class Recall:
    """The last workers of tasks and the last numbers of instances."""

    def __init__(self) -> None:
        self._workers: dict[str, str] = {}
        self._counts: dict[str, deque[int]] = {}

    def plan(self, plan: Plan) -> None:
        """Keep the workers of a plan's tasks."""
        self._workers |= plan.placement
        for one in plan.unplaced:
            self._workers.pop(one.task, None)

    def counts(self, parallelism: Mapping[str, int]) -> None:
        """Keep numbers of instances that were adopted."""
        for name, count in parallelism.items():
            self._counts.setdefault(name, deque(maxlen=_RECENT)).append(count)

    def forget_counts(self) -> None:
        """Begin anew, since the numbers have been decided."""
        self._counts.clear()

    def largest(self, parallelism: Mapping[str, int]) -> dict[str, int]:
        """The numbers of instances that plans are made for."""
        return {
            name: max(count, *self._counts.get(name, ()), count)
            for name, count in parallelism.items()
        }

    def present(
        self, plan: Plan | None, graph: JobGraph, workers: Collection[str]
    ) -> dict[str, str]:
        """The worker of each task: by the plan, else the last one if it is there still."""
        placed = {} if plan is None else plan.placement
        last = {t: at for t, at in self._workers.items() if t in graph.by_id and at in workers}
        return last | {task: at for task, at in placed.items() if task in graph.by_id}
