"""What was requested for a cycle, and what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.decision import Decision
from scheduling.model import Receipt

__all__ = ["PlacementResult"]


@dataclass(frozen=True)
class PlacementResult:
    """The requested and the observed placement of one cycle.

    Args:
        decision: the controller's decision before the cycle; None if it failed.
        partitions: the number of tasks of the cycle.
        requested: the requested worker of each task; Spark placed the tasks that are missing here.
        landed: the actual worker of each task; empty if Spark's metrics were not available.
        workers: the number of tasks that ran on each worker.
        unplaced: the tasks for which no worker had room, with the reason; Spark placed them.
        idle: the workers without a task, and whether they are released or kept, and why.
        splits: as :attr:`CycleContext.splits`.
        dropped: by partition, the share of its load that should run on other executors and does
            not: the caller cannot spread it, or no other partition runs there.
        ignored: by worker or task, the metrics that were not believed, and why.
        scaling: what the scaler's step said; empty (default) without a scaler.
    """

    decision: Decision | None
    partitions: int
    requested: Mapping[str, str]
    landed: Mapping[str, str]
    workers: Mapping[str, int]
    unplaced: Mapping[str, str] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    dropped: Mapping[int, float] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    scaling: str = ""

    @property
    def share(self) -> float:
        """The share of all tasks, with or without room, that ran as planned; 1 without a plan."""
        return Receipt(self.requested, self.landed, tuple(self.unplaced)).landing_share

    @property
    def reason(self) -> str:
        """Why the tasks run where they do, and what the scaler said."""
        decided = "see the log of scheduling" if self.decision is None else self.decision.reason
        return f"{decided}; {self.scaling}" if self.scaling else decided

    @property
    def summary(self) -> str:
        """One line: what was decided, how much of it happened, what is left over.

        >>> PlacementResult(None, 4, {"join-0": "a"}, {"join-0": "a"}, {"a": 1}, {
        ...     "join-1": "all 1 slots are taken"}).summary
        '4 tasks, 50 % where planned, 1 without room, 0 workers idle; no decision'
        """
        decided = f"{self.decision.action}: {self.reason}" if self.decision else "no decision"
        told = f"{self.partitions} tasks, {100 * self.share:.0f} % where planned, "
        told += f"{len(self.unplaced)} without room, "
        told += f"{len(self.splits)} partitions split, " if self.splits else ""
        told += f"{len(self.dropped)} splits dropped, " if self.dropped else ""
        told += f"{len(self.ignored)} metrics ignored, " if self.ignored else ""
        return f"{told}{len(self.idle)} workers idle; {decided}"
