"""The number of executors of a streaming query, and of partitions and executors of a loop.

In a loop there are as many partitions as cores that are observed; without bounds of executors the
scaler chooses partitions.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scheduling.cost import Price
from scheduling.elastic import Bounds, Elastic, Step
from scheduling.flow import Limits, Meter, Progress, entry
from scheduling.model import Plan, Snapshot
from scheduling.model.checks import number
from scheduling.protocols import Clock
from scheduling.scalers import Load, Scaler, Static
from scheduling.spark import internals
from scheduling.spark.executors import Executors
from scheduling.spark.once import Once, log
from scheduling.spark.placement import Placement
from scheduling.spark.placement import bounds as pair
from scheduling.spark.seen import Executor, TaskSeen

_RECENT = 100  # micro-batches to look at in a step: as many as Spark keeps
_CYCLES = 20  # of a loop that are known to the meter
_IDLE_CYCLES = 3  # without a task, before an executor is released
_UNKNOWN = (0.0,) * 32  # the limits of sources of which it is not known whether they have one


@dataclass(eq=False)
class _Follower:
    """Follows a scaler with the number of executors; None: of partitions, that others change."""

    _elastic: Elastic
    executors: Executors | None
    _prices: Sequence[Price]
    _backlog: Callable[[], float] | None  # returns the rows that wait
    _cpus: int  # the cores of a task
    _window_s: float = 30.0

    def __post_init__(self) -> None:
        self._once, self._meter = Once(), Meter(self._window_s, backlog=self._told)
        self.load: Load | None = None
        """The last load that was measured; None before one."""

    def _cores(self, there: Sequence[Executor]) -> list[int]:
        """How many tasks each executor runs at once: what a task of several cores keeps busy."""
        return [max(1, one.cores // self._cpus) for one in there]

    def _stays(self) -> str:
        """Why the number of executors cannot be changed, with a warning; empty if it can."""
        if self.executors is None or self.executors.reason is None:
            return ""
        why = f"the number of executors stays: {self.executors.reason}"
        self._once.warn(why)
        return why

    def _follow(
        self, now: float, cores: list[int], busy_s: float, query: Any, own: Any, load: Load | None
    ) -> Step:
        """Follow a load, or that of a query, or of a loop's ``own`` progress."""
        status = query.status if query is not None and own is None else None
        limits: Limits | None = () if self._backlog is None else None
        # What limits a loop's cycles is not known: what waits is told, or none does.
        if query is not None:
            own, limits = internals.recent_progress(query, _RECENT), internals.limits_of(query)
        if own is not None:
            self._meter.limits = _UNKNOWN if limits is None else limits
            measured = self._meter.load(now, own, busy_s, sum(cores), status)
            load = load or measured
        self.load, self._elastic.each = load or self.load, min(cores, default=self._elastic.each)
        step = self._elastic.step(now, len(cores), load)
        if step.target is not None:
            try:
                if self.executors is not None:
                    gone = self.executors.resize(step.target, self._prices)
                    told = f"{step.target} executors requested, {len(gone)} leave: {step.reason}"
                    log.info("scheduling: %s", told)
            except Exception:
                self._elastic.failed()  # so the last request stands
                raise
            self._meter.forget()
        return step

    def _told(self) -> float | None:
        try:
            return None if self._backlog is None else float(self._backlog())
        except Exception as error:
            self._once.log("the backlog is not known", error)
            return None


class Sizes(_Follower):
    """The numbers of partitions and executors of one loop, which begins with some partitions."""

    def __init__(
        self, spark: SparkSession, options: Placement, scaler: Scaler | None, begin: int
    ) -> None:
        changes = options.executors is not None and not options.dry_run
        executors, elastic = Executors(spark) if changes else None, Elastic(scaler or Static())
        cpus, prices = internals.task_cpus(spark), options.price_table()
        super().__init__(elastic, executors, prices, options.backlog, cpus)
        self._spark, self._options, pause_s = spark, options, options.cooldown_s
        self._bounds = Bounds(  # times in the proportions of the defaults
            confirm=2 if pause_s else 1, shrink_after_s=2 * pause_s, settle_s=pause_s / 3
        )
        self.begin, self.scaled, self.reason = begin, scaler is not None, ""
        mine = executors is not None and executors.reason is None and not self.scaled
        # Whether executors that a plan leaves idle are released, so that they cost nothing.
        self.releases = mine or internals.is_on(spark, "spark.dynamicAllocation.enabled")
        self._own = deque[Progress](maxlen=_CYCLES)
        self._busy_s = 0.0
        self._idle: dict[str, int] = {}  # cycles without a task
        self._asked = 0  # executors that are requested and not there yet

    def record(self, began_s: float, length_s: float, tasks: Sequence[TaskSeen]) -> None:
        """Take a finished cycle into account: it tells the load where there is no query."""
        sound = [task for task in tasks if not task.odd]
        self._busy_s += sum(task.useful_s for task in sound)
        took_s = min(length_s, max((task.run_s for task in sound), default=0.0))
        number = self._own[-1]["batchId"] + 1 if self._own else 0
        self._own.append(entry(number, began_s, took_s, sum(task.rows for task in sound)))

    def wanted(self, now: float, before: int, there: Sequence[Executor]) -> int:
        """The number of partitions, for the executors that are ``there``; others are requested."""
        self.reason = self._stays() if self.scaled else ""
        if not self.scaled or self.reason:
            return before
        cores, busy_s, self._busy_s = [1] * before, self._busy_s, 0.0
        slots = sum(every := self._cores(there))
        if self.executors is not None:
            cores, busy_s, slots = every, self.executors.busy_s(there), slots or before
        partitions = self._options.partitions or (1, max(slots, 1))
        least, most = (self.executors and self._options.executors) or partitions
        self._elastic.bounds = replace(self._bounds, least=least, most=most)
        query = internals.running_query(self._spark)
        step = self._follow(now, cores, busy_s, query, self._own, None)
        self.reason = f"{self._elastic.scaler.name}: {step.reason}"
        if self.executors is None:
            return step.target or before
        return min(max(slots, partitions[0]), partitions[1])

    def settle(self, seen: Snapshot, plan: Plan) -> None:
        """Without a scaler, release executors that a plan leaves idle, or request one more.

        Those that are leaving are not ``seen``: else fewer than the least would stay.
        """
        limits = self._options.executors
        if limits is None or self.executors is None or self.scaled or self._stays():
            return
        workers, used, (least, most) = seen.by_id, plan.by_worker, limits
        if not (there := len(workers)):
            return  # none has come yet: a target of its own would replace that of Spark
        target = min(max(there + bool(plan.unplaced), least), most)
        if target > max(there, self._asked) or target < there:
            self._asked = target
            self._idle.clear()
            self.executors.resize(target, self._prices)
            return
        self._asked = 0 if there >= self._asked else self._asked
        busy = set(workers) if plan.unplaced or not used else set(used)
        self._idle = {name: self._idle.get(name, 0) + 1 for name in workers if name not in busy}
        long = [workers[name] for name, cycles in self._idle.items() if cycles >= _IDLE_CYCLES]
        long.sort(key=lambda worker: -worker.price_per_s)
        if spare := [str(worker.executor_id) for worker in long[: max(0, there - least)]]:
            self.executors.release(spare)

    def explain(self) -> str:
        """Tell who decides the numbers; one line."""
        if self.scaled:
            what = "partitions" if self.executors is None else "executors"
            return f"{self._elastic.scaler.name} decides the number of {what}"
        limits = self._options.executors
        return "none" if limits is None else f"idle executors leave, within {limits}"


class Scaling(_Follower):
    """Follows a scaler with the number of executors of one streaming query.

    ::

        query = rows.writeStream.format("delta").start(path)
        with Scaling(query, OERA(), executors=(2, 8)):
            query.awaitTermination()

    As a context manager, or between :meth:`start` and :meth:`stop`, it runs :meth:`step` in a
    thread, which logs failures, each cause once; or call :meth:`step` yourself. Executors must be
    the query's alone: what else runs in the application counts as its load.

    Args:
        query: the query. None: it is not known yet; set the attribute before the next step.
        scaler: an object of :mod:`scheduling.scalers`, as ``OERA()`` or ``DS2()``.
        executors: the minimum and the maximum number of executors.
        tasks: of a micro-batch: numbers that leave cores idle in the last turn are not requested.
            None (default): the most tasks of a stage of the query's last jobs.
        backlog: returns the rows that wait, for sources that hide them (files with
            ``maxFilesPerTrigger``). None (default): unknown, and the scaler probes.
        prices: rows or a file, as of :class:`Placement`: the most expensive executors leave first.
            Default none.
        bounds: seconds and confirmations, within ``executors``; None (default): ``Bounds()``.
        every_s: seconds between two steps; default 5.
        window_s: seconds over which rates are smoothed; default 30.
        spark: the session. None (default): the active one.
        clock: seconds, from any start; default ``time.monotonic``.

    Raises:
        ArgumentError: the session is one of Spark Connect, or an argument is out of its range.
            With a local master or dynamic allocation there is a warning, and each step says why.
    """

    executors: Executors

    def __init__(
        self,
        query: StreamingQuery | None,
        scaler: Scaler,
        *,
        executors: tuple[int, int],
        tasks: int | None = None,
        backlog: Callable[[], float] | None = None,
        prices: Sequence[Price] | str | os.PathLike[str] = (),
        bounds: Bounds | None = None,
        every_s: float = 5.0,
        window_s: float = 30.0,
        spark: SparkSession | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        least, most = pair("executors", executors)
        internals.refuse_connect(query)
        spark = spark or SparkSession.active()
        bounds = replace(bounds or Bounds(), least=least, most=most)
        elastic = Elastic(scaler, tasks=tasks, bounds=bounds)
        cpus = internals.task_cpus(spark)
        table = Placement(prices=prices, backlog=backlog).price_table()
        super().__init__(elastic, Executors(spark), table, backlog, cpus, window_s)
        self.query, self._spark, self._clock, self._tasks = query, spark, clock, tasks
        self._every_s = number("every_s", every_s, above=True)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The last 1,000 steps."""
        return tuple(self._elastic.steps)

    def step(self, now: float | None = None, load: Load | None = None) -> Step:
        """Observe, decide and, if need be, request another number; errors of Spark pass.

        Args:
            now: seconds; None (default): the clock's.
            load: measured elsewhere; None (default): from the query's progress.
        """
        now = self._clock() if now is None else now
        if self._stays():
            return Step(now, "steady", 0, None, None, f"not scaled: {self.executors.reason}")
        there = self.executors.there()
        cores, busy_s = self._cores(there), self.executors.busy_s(there)
        if self.query is not None and self._tasks is None:
            widest = internals.widest_stage(self._spark, self.query)
            self._elastic.tasks = widest or self._elastic.tasks
        return self._follow(now, cores, busy_s, self.query, None, load)

    def start(self) -> Self:
        """Itself; a thread steps every ``every_s`` until :meth:`stop` or the end of the query."""
        if self._thread is None or not self._thread.is_alive():
            self._over.clear()
            self._thread = threading.Thread(target=self._steps, name="scaling", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread, if there is one; the executors stay as they are."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    __enter__ = start

    def __exit__(self, *error: object) -> None:
        self.stop()

    def explain(self) -> str:
        """In words: the scaler, the bounds, what was requested, what is there and why."""
        one, why = self._elastic, self.executors.reason
        last = f"last step: {self.steps[-1].reason}" if self.steps else "no step yet"
        return (
            f"scaler {one.scaler.name}, {one.bounds.least} to {one.bounds.most} executors of "
            f"{one.each * self._cpus} cores, tasks: {one.tasks or 'unknown'}\n"
            f"{one.state}: {one.requests} requests, last {one.requested or None}\n"
            f"load: {self.load or 'nothing measured'}\n{f'not scaled: {why}' if why else last}"
        )

    def _steps(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                if self.query is not None and not self.query.isActive:
                    return
                self.step()
            except Exception as error:
                self._once.log("a step of scaling failed", error)
