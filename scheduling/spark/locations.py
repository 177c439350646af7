"""Where tasks are to run and where they ran: Spark's executor ids as workers or tiers."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.spark.demand import TaskSeen
from scheduling.spark.monitor import SparkMonitor, workers_of
from scheduling.spark.pins import Pinned
from scheduling.spark.status import Status
from scheduling.spark.tiers import Tiers

__all__ = ["Locations"]


class Locations:
    """The workers of a job's tasks, or their tiers where tiers are chosen.

    Args:
        operator: the name of the job in plans.
        status: where executors are listed.
        monitor: knows the workers of the last snapshot.
        tiers: the tiers to choose from; None for single executors.
    """

    def __init__(
        self, operator: str, status: Status, monitor: SparkMonitor, tiers: Tiers | None
    ) -> None:
        self._operator, self._status = operator, status
        self._monitor, self._tiers = monitor, tiers

    def requested(self, pinned: Pinned) -> dict[str, str]:
        """The requested worker or tier of each task; tasks that Spark places are left out."""
        names = [f"{self._operator}-{i}" for i in range(len(pinned.requested))]
        if self._tiers is not None:
            chosen = self._tiers.chosen
            return {} if chosen is None else dict.fromkeys(names, chosen)
        at = self._known()
        return {
            name: at[one.id]
            for name, one in zip(names, pinned.requested, strict=True)
            if one is not None and one.id in at
        }

    def landed(self, tasks: Iterable[TaskSeen]) -> dict[str, str]:
        """The actual worker or tier of each task.

        A task that a speculative copy overtook counts where it was requested.
        """
        names = {f"{self._operator}-{t.index}": t.requested_at or t.executor for t in tasks}
        at = self._names(set(names.values()))
        return {task: at.get(name, f"executor {name}") for task, name in names.items()}

    def tiers(self) -> dict[str, str]:
        """The tier of each executor."""
        return {} if self._tiers is None else self._tiers.of(self._status.executors())

    def _names(self, executors: set[str]) -> dict[str, str]:
        if self._tiers is not None:
            return self.tiers()
        at = self._known()
        return at if executors <= at.keys() else self._alive() | at

    def _known(self) -> dict[str, str]:
        """The workers of the last snapshot."""
        seen = self._monitor.snapshot_seen
        return {} if seen is None else {str(w.executor_id): w.id for w in seen.workers}

    def _alive(self) -> dict[str, str]:
        """The workers of all executors that live now."""
        workers = workers_of(self._status.executors(), 0.0, 1)
        return {str(worker.executor_id): worker.id for worker in workers}
