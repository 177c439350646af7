"""The number of executors: releases idle ones, and requests what the tasks need at once.

The rent of an executor ends when it is released. This works on standalone, YARN and Kubernetes.
Requests above ``spark.cores.max`` are ignored silently, so the actual number is observed.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from scheduling.errors import ArgumentError
from scheduling.model import Plan, Receipt, Snapshot
from scheduling.spark import internals, pins
from scheduling.spark.once import WarnOnce
from scheduling.spark.status import is_connect

__all__ = ["Fleet"]


class Fleet:
    """Changes the number of executors within bounds.

    Args:
        spark: the session.
        least: the minimum number of executors.
        most: the maximum number of executors.
        idle_cycles: consecutive cycles without a task before an executor is released; default 3.

    Raises:
        ArgumentError: the bounds are not 1 <= least <= most, or the cycles below 1.
    """

    def __init__(self, spark: SparkSession, least: int, most: int, *, idle_cycles: int = 3) -> None:
        if not 1 <= least <= most:
            raise ArgumentError(f"executors=({least!r}, {most!r}): give 1 <= fewest <= most")
        if idle_cycles < 1:
            raise ArgumentError(f"idle_cycles={idle_cycles!r}: give 1 or more")
        self._spark, self._least, self._most = spark, least, most
        self._idle_cycles = idle_cycles
        self._plan: Plan | None = None
        self._idle: dict[str, int] = {}
        self._wanted = 0  # requested executors that have not started yet
        self._there: int | None = None
        self._warn_once = WarnOnce()
        self.reason = self._why_not()
        """Why the number cannot be changed; None if it can."""

    def capabilities(self) -> frozenset[str]:
        """``"executors"`` if idle ones can be released: not at the minimum, or if Spark cannot."""
        least = self._there is not None and self._there <= self._least
        return frozenset() if self.reason or least else frozenset({"executors"})

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan: executors that it does not use will be released; see :class:`Actuator`."""
        self._plan = plan
        return Receipt({}, {})

    def settle(self, snapshot: Snapshot, needed: int = 0) -> tuple[int, tuple[str, ...]]:
        """Request or release executors between two cycles.

        Args:
            snapshot: the current workers.
            needed: the number of executors that the tasks need: so many are requested at once, and
                no more are released. Default 0: unknown; one more is requested if a task has no
                room.

        Returns:
            The number of newly requested executors, and the ids of the released workers.
        """
        if self._plan is None:
            return 0, ()
        if self.reason is not None:
            self._warn_once.warn(f"the number of executors stays: {self.reason}")
            return 0, ()
        there = self._there = len(snapshot.workers)
        short = len(self._plan.unplaced) > 0
        target = max(there + 1 if short else there, needed)
        target = max(self._least, min(self._most, target))
        if target > max(there, self._wanted):
            more, self._wanted = target - max(there, self._wanted), target
            self._idle.clear()
            internals.request_total(self._spark, target)
            return more, ()
        if there >= self._wanted:
            self._wanted = 0
        return 0, self._give_back(snapshot, needed)

    def _give_back(self, snapshot: Snapshot, needed: int) -> tuple[str, ...]:
        assert self._plan is not None
        used = set(self._plan.by_worker)
        if self._plan.unplaced or not used:
            self._idle.clear()
            return ()
        self._idle = {
            worker.id: self._idle.get(worker.id, 0) + 1
            for worker in snapshot.workers
            if worker.id not in used
        }
        # The most expensive first; never below the minimum.
        spare = max(0, len(snapshot.workers) - max(self._least, needed))
        idle = [name for name, cycles in self._idle.items() if cycles >= self._idle_cycles]
        idle.sort(key=lambda name: -snapshot.by_id[name].price_per_s)
        given = [
            name
            for name in idle[:spare]
            if internals.kill_executor(self._spark, snapshot.by_id[name].executor_id or "")
        ]
        if given:
            # Spark counts from its own target, which may be below the current number.
            internals.request_total(self._spark, len(snapshot.workers) - len(given))
            self._wanted = 0
        return tuple(given)

    def _why_not(self) -> str | None:
        if is_connect(self._spark):
            return "Spark Connect does not say which executors there are"
        if (reason := pins.only_executor(self._spark)) is not None:
            return reason
        conf = self._spark.sparkContext.getConf()
        if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
            return "dynamic allocation changes it already"
        return None
