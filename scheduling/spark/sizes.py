"""How many partitions a job has, and how many executors.

With a scaler and bounds of executors, the scaler chooses executors, and there are as many
partitions as cores that are observed. With a scaler alone, it chooses partitions. With bounds
alone, executors that a plan leaves idle are released, and one more is requested for tasks without
room.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from scheduling.elastic import Bounds, Elastic
from scheduling.flow import Meter
from scheduling.model import Plan, Snapshot
from scheduling.scalers import Scaler
from scheduling.spark import internals
from scheduling.spark.demand import CycleSeen
from scheduling.spark.executors import Executors
from scheduling.spark.once import LogOnce, WarnOnce
from scheduling.spark.placement import Placement
from scheduling.spark.scaling import UNKNOWN, progress_of, request, told

__all__ = ["Sizes"]

_RECENT = 20  # cycles that are known to the meter
_IDLE_CYCLES = 3  # without a task, before an executor is released


class Sizes:
    """The numbers of partitions and executors of one loop, which begins with some partitions."""

    def __init__(
        self, spark: SparkSession, options: Placement, scaler: Scaler | None, begin: int
    ) -> None:
        self._spark, self._options = spark, options
        self.begin, self.scaled, self.reason = begin, scaler is not None, ""
        self._cpus = internals.task_cpus(spark)
        self._dynamic = internals.is_on(spark, "spark.dynamicAllocation.enabled")
        changes = options.executors is not None and not options.dry_run
        self._executors = Executors(spark) if changes else None
        self._prices = options.price_table()
        self._elastic = None if scaler is None else Elastic(scaler)
        self._meter = Meter(backlog=lambda: told(options.backlog, self._log))
        self._own: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._busy_s = 0.0
        self._idle: dict[str, int] = {}  # cycles without a task
        self._asked = 0  # executors that are requested and not there yet
        self._log, self._warn_once = LogOnce(), WarnOnce()

    @property
    def releases(self) -> bool:
        """Whether executors that a plan leaves idle are released, so that they cost nothing."""
        mine = self._executors is not None and self._executors.reason is None and not self.scaled
        return self._dynamic or mine

    def record(self, began_s: float, cycle: CycleSeen) -> None:
        """Take a finished cycle into account: it tells the load where there is no query."""
        sound = [task for task in cycle.tasks if not task.odd]
        rows = sum(task.rows for task in sound)
        self._busy_s += sum(task.useful_s for task in sound)
        took_s = min(cycle.length_s, max((task.run_s for task in sound), default=0.0))
        self._own.append(
            {
                "batchId": self._own[-1]["batchId"] + 1 if self._own else 0,
                "timestamp": datetime.fromtimestamp(began_s, UTC).isoformat(),
                "numInputRows": rows,
                "durationMs": {"triggerExecution": 1e3 * took_s},
                "sources": [{"numInputRows": rows}],
            }
        )

    def wanted(self, now: float, before: int, seen: Snapshot) -> int:
        """The number of partitions after ``before``; executors are requested on the way.

        Of executors only those that are ``seen`` count, and not those that are requested.
        """
        self.reason, executors = "", self._executors
        if self._elastic is None:
            return before
        if executors is None:
            # A price table may say that an executor has a part of a core; it runs a task all the
            # same.
            slots = sum(max(1, int(one.capacity.cpu_cores) // self._cpus) for one in seen.workers)
            cores, busy_s = [1] * before, self._busy_s
        elif executors.reason is not None:
            return self._stays(before)
        else:
            known = {one.executor_id for one in seen.workers}  # one may have come since
            cores = [one.cores for one in executors.there() if one.id in known]
            busy_s = executors.busy_s()
            slots = sum(one // self._cpus for one in cores) or before
        least, most = self._options.partitions or (1, max(slots, 1))
        limits = self._options.executors if executors is not None else None
        self._elastic.bounds = self._bounds(*(limits or (least, most)))
        self._elastic.each = min(cores, default=1)
        load = self._meter.load(now, self._progress(), busy_s, sum(cores))
        self._busy_s = 0.0
        step = self._elastic.step(now, len(cores), load)
        self.reason = f"{self._elastic.scaler.name}: {step.reason}"
        if executors is not None:
            request(step, self._elastic, self._meter, executors, self._prices)
            return min(max(slots, least), most)
        if step.target is None:
            return before
        self._meter.forget()
        return step.target

    def _progress(self) -> list[dict[str, Any]]:
        """Of the query whose micro-batch runs here; else of the loop's own cycles."""
        query = internals.running_query(self._spark)
        if query is not None:
            return progress_of(query, self._meter)
        # What limits these is not known: what waits is told, or none does.
        self._meter.limits = () if self._options.backlog is None else UNKNOWN
        return list(self._own)

    def _bounds(self, least: int, most: int) -> Bounds:
        """Of the scaler, with times in the proportions of the defaults to the cooldown."""
        cooldown_s = self._options.cooldown_s
        return Bounds(
            least=least,
            most=most,
            confirm=2 if cooldown_s else 1,
            shrink_after_s=2 * cooldown_s,
            settle_s=cooldown_s / 3,
        )

    def _stays(self, before: int) -> int:
        assert self._executors is not None
        self.reason = f"the number of executors stays: {self._executors.reason}"
        self._warn_once.warn(self.reason)
        return before

    def settle(self, seen: Snapshot, plan: Plan) -> None:
        """Without a scaler, release executors that a plan leaves idle, or request one more."""
        if self._executors is None or self.scaled or self._options.executors is None:
            return
        if self._executors.reason is not None:
            self._stays(0)
            return
        (least, most), there, used = self._options.executors, len(seen.workers), plan.by_worker
        target = min(max(there + bool(plan.unplaced), least), most)
        if target > max(there, self._asked):
            self._asked = target
            self._idle.clear()
            self._executors.resize(target)
            return
        self._asked = 0 if there >= self._asked else self._asked
        busy = set(seen.by_id) if plan.unplaced or not used else set(used)
        idle = {name: self._idle.get(name, 0) + 1 for name in seen.by_id if name not in busy}
        self._idle = idle
        long = [name for name, cycles in idle.items() if cycles >= _IDLE_CYCLES]
        long.sort(key=lambda name: -seen.by_id[name].price_per_s)
        if gone := [str(seen.by_id[name].executor_id) for name in long[: max(0, there - least)]]:
            self._executors.release(gone)

    def explain(self) -> str:
        """Who decides the numbers; one line."""
        if self._elastic is not None:
            what = "partitions" if self._executors is None else "executors"
            return f"{self._elastic.scaler.name} decides the number of {what}"
        bounds = self._options.executors
        return "none" if bounds is None else f"idle executors leave, within {bounds}"
