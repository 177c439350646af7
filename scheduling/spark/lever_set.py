"""The levers of a loop: which ones its options ask for, and what they do together."""

from __future__ import annotations

import math

from pyspark.sql import SparkSession

from scheduling.elastic_old.sizing import workers_needed
from scheduling.model import Plan, Receipt, Snapshot, Task
from scheduling.protocols import Actuator
from scheduling.spark.fleet import Fleet
from scheduling.spark.levers import DryRun, Partitions, Pins, together
from scheduling.spark.placement import Placement
from scheduling.spark.tiers import Tiers

__all__ = ["LeverSet"]


class LeverSet:
    """All levers of one job.

    Args:
        spark: the session.
        options: what may be changed.
        operator: the name of the job in plans.
        splits: whether the caller spreads parts of a partition over others.
    """

    def __init__(
        self, spark: SparkSession, options: Placement, operator: str, *, splits: bool
    ) -> None:
        self._spark, self._options, self._splits = spark, options, splits
        self._dynamic = _is_dynamic(spark)
        self.pins = Pins(spark, operator, options.locality_wait_s)
        self.partitions = Partitions(operator)
        self.tiers = Tiers(spark, options.tiers) if options.tiers else None
        dry = options.dry_run
        bounds = None if dry else options.executors
        self.fleet = None if bounds is None else Fleet(spark, *bounds)
        self._all: list[Actuator] = [DryRun()] if dry else [self.partitions]
        if not dry and options.policy is not None:
            self._all.append(self.pins if self.tiers is None else self.tiers)
        if self.fleet is not None:
            self._all.append(self.fleet)

    def capabilities(self) -> frozenset[str]:
        """The actions that all levers together support in this session.

        ``"executors"`` also where dynamic allocation releases idle executors.
        """
        found = frozenset[str]().union(*(lever.capabilities() for lever in self._all))
        if self._splits:
            found |= {"spread"}
        return found | {"executors"} if self._dynamic else found

    def apply(self, plan: Plan) -> Receipt:
        """Let every lever adopt a plan; see :class:`scheduling.Actuator`."""
        return together(self._all, plan)

    def bounds(self, seen: Snapshot | None) -> tuple[int, int]:
        """The minimum and the maximum number of partitions.

        Args:
            seen: the last snapshot; None before the first.
        """
        options = self._options
        if options.partitions is not None:
            return options.partitions
        cores = sum(int(worker.capacity.cpu_cores) for worker in seen.workers) if seen else 0
        if options.executors is not None and seen is not None and seen.workers:
            cores = cores * options.executors[1] // len(seen.workers)
        return 1, cores or max(1, int(self._spark.sparkContext.defaultParallelism))

    def settle(
        self, seen: Snapshot, plan: Plan | None, tasks: tuple[Task, ...], *, scaled: bool
    ) -> tuple[int, tuple[str, ...]]:
        """Request or release executors between two cycles; see :meth:`Fleet.settle`.

        With a scaler each partition gets a core, so executors and partitions are sized together.

        Args:
            seen: the current workers.
            plan: the active plan; None before the first.
            tasks: the partitions.
            scaled: whether a scaler chooses their number.
        """
        if self.fleet is None:
            return 0, ()
        needed = 0
        if seen.workers and plan is not None and (scaled or plan.unplaced):
            by_size = sorted(seen.workers, key=lambda one: one.capacity.cpu_cores)
            usual = by_size[len(by_size) // 2]
            needed = workers_needed(tasks, usual)
            if scaled:
                needed = max(needed, math.ceil(len(tasks) / max(usual.capacity.cpu_cores, 1)))
        return self.fleet.settle(seen, needed)


def _is_dynamic(spark: SparkSession) -> bool:
    """Whether Spark itself releases idle executors."""
    conf = spark.sparkContext.getConf()
    return conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
