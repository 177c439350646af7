"""How many partitions a job has, and how many executors.

A scaler chooses the executors within their bounds, and there are as many partitions as cores that
are observed; without bounds it chooses partitions. With bounds alone, executors that a plan leaves
idle are released, and one more is requested for tasks without room.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from scheduling.elastic import Bounds, Elastic
from scheduling.model import Plan, Snapshot
from scheduling.scalers import Scaler, Static
from scheduling.spark import internals
from scheduling.spark.demand import CycleSeen
from scheduling.spark.executors import Executors
from scheduling.spark.placement import Placement
from scheduling.spark.scaling import Follower

__all__ = ["Sizes"]

_RECENT = 20  # cycles that are known to the meter
_IDLE_CYCLES = 3  # without a task, before an executor is released


class Sizes(Follower):
    """The numbers of partitions and executors of one loop, which begins with some partitions."""

    def __init__(
        self, spark: SparkSession, options: Placement, scaler: Scaler | None, begin: int
    ) -> None:
        changes = options.executors is not None and not options.dry_run
        executors, elastic = Executors(spark) if changes else None, Elastic(scaler or Static())
        super().__init__(elastic, executors, options.price_table(), options.backlog)
        self._spark, self._options = spark, options
        self.begin, self.scaled, self.reason = begin, scaler is not None, ""
        self._cpus = internals.task_cpus(spark)
        dynamic = internals.is_on(spark, "spark.dynamicAllocation.enabled")
        mine = executors is not None and executors.reason is None and not self.scaled
        self.releases = dynamic or mine
        """Whether executors that a plan leaves idle are released, so that they cost nothing."""
        self._own: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._busy_s = 0.0
        self._idle: dict[str, int] = {}  # cycles without a task
        self._asked = 0  # executors that are requested and not there yet

    def record(self, began_s: float, cycle: CycleSeen) -> None:
        """Take a finished cycle into account: it tells the load where there is no query."""
        sound = [task for task in cycle.tasks if not task.odd]
        rows = sum(task.rows for task in sound)
        self._busy_s += sum(task.useful_s for task in sound)
        took_s = min(cycle.length_s, max((task.run_s for task in sound), default=0.0))
        progress = {
            "batchId": self._own[-1]["batchId"] + 1 if self._own else 0,
            "timestamp": datetime.fromtimestamp(began_s, UTC).isoformat(),
            "numInputRows": rows,
            "durationMs": {"triggerExecution": 1e3 * took_s},
            "sources": [{"numInputRows": rows}],
        }
        self._own.append(progress)

    def wanted(self, now: float, before: int, seen: Snapshot) -> int:
        """The number of partitions after ``before``; executors are requested on the way.

        Of executors only those that are ``seen`` count, and not those that are requested.
        """
        self.reason = self.stays() if self.scaled else ""
        if not self.scaled or self.reason:
            return before
        if self.executors is None:
            # A price table may say that an executor has a part of a core: it runs a task as well.
            slots = sum(max(1, int(one.capacity.cpu_cores) // self._cpus) for one in seen.workers)
            cores, busy_s = [1] * before, self._busy_s
        else:
            known = {one.executor_id for one in seen.workers}  # one may have come since
            cores = [one.cores for one in self.executors.there() if one.id in known]
            busy_s = self.executors.busy_s()
            slots = sum(one // self._cpus for one in cores) or before
        limits = fewest, most = self._options.partitions or (1, max(slots, 1))
        if self.executors is not None:
            limits = self._options.executors or limits
        cooldown_s = self._options.cooldown_s  # times in the proportions of the defaults
        self._elastic.bounds = Bounds(
            least=limits[0],
            most=limits[1],
            confirm=2 if cooldown_s else 1,
            shrink_after_s=2 * cooldown_s,
            settle_s=cooldown_s / 3,
        )
        query = internals.running_query(self._spark)
        load = self.measured(now, cores, busy_s, query, self._own)
        self._busy_s = 0.0
        step = self.follow(now, cores, load)
        self.reason = f"{self._elastic.scaler.name}: {step.reason}"
        if self.executors is None:
            return step.target or before
        return min(max(slots, fewest), most)

    def settle(self, seen: Snapshot, plan: Plan) -> None:
        """Without a scaler, release executors that a plan leaves idle, or request one more."""
        limits = self._options.executors
        if limits is None or self.executors is None or self.scaled or self.stays():
            return
        (least, most), there, used = limits, len(seen.workers), plan.by_worker
        target = min(max(there + bool(plan.unplaced), least), most)
        if target > max(there, self._asked):
            self._asked = target
            self._idle.clear()
            self.executors.resize(target)
            return
        self._asked = 0 if there >= self._asked else self._asked
        busy = set(seen.by_id) if plan.unplaced or not used else set(used)
        self._idle = {name: self._idle.get(name, 0) + 1 for name in seen.by_id if name not in busy}
        long = [name for name, cycles in self._idle.items() if cycles >= _IDLE_CYCLES]
        long.sort(key=lambda name: -seen.by_id[name].price_per_s)
        if gone := [str(seen.by_id[name].executor_id) for name in long[: max(0, there - least)]]:
            self.executors.release(gone)

    def explain(self) -> str:
        """Who decides the numbers; one line."""
        if self.scaled:
            what = "partitions" if self.executors is None else "executors"
            return f"{self._elastic.scaler.name} decides the number of {what}"
        limits = self._options.executors
        return "none" if limits is None else f"idle executors leave, within {limits}"
