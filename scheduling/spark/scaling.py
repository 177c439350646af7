"""Scales the executors of a plain streaming query, beside it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scheduling.cost import Price
from scheduling.elastic import Bounds, Elastic, Step
from scheduling.errors import ArgumentError
from scheduling.flow import Meter
from scheduling.model.checks import instance, number
from scheduling.protocols import Clock
from scheduling.scalers import Load, Scaler
from scheduling.spark import internals
from scheduling.spark.executors import Executors
from scheduling.spark.once import Once
from scheduling.spark.placement import bounds as pair

__all__ = ["Follower", "Scaling"]

_log = logging.getLogger("scheduling")

_RECENT = 50  # micro-batches to look at in a step
_UNKNOWN = (0.0,) * 32  # the limits of sources of which it is not known whether they have one


@dataclass(eq=False)
class Follower:
    """Follows a scaler with the number of executors; None: of partitions, that others change."""

    _elastic: Elastic
    executors: Executors | None
    _prices: Sequence[Price]
    _backlog: Callable[[], float] | None  # returns the rows that wait
    _window_s: float = 30.0

    def __post_init__(self) -> None:
        self._once, self._meter = Once(), Meter(self._window_s, backlog=self._told)

    def stays(self) -> str:
        """Why the number of executors cannot be changed, with a warning; empty if it can."""
        if self.executors is None or self.executors.reason is None:
            return ""
        why = f"the number of executors stays: {self.executors.reason}"
        self._once.warn(why)
        return why

    def measured(
        self, now: float, cores: Sequence[int], busy_s: float, query: Any, own: Any = None
    ) -> Load | None:
        """The load of a query; or, where there is none, of a loop's ``own`` progress."""
        status = query.status if own is None else None
        if query is not None:
            own, limits = internals.recent_progress(query, _RECENT), internals.limits_of(query)
        else:  # what limits these is not known: what waits is told, or none does
            limits = () if self._backlog is None else None
        self._meter.limits = _UNKNOWN if limits is None else limits
        return self._meter.load(now, own, busy_s, sum(cores), status)

    def follow(self, now: float, cores: Sequence[int], load: Load | None) -> Step:
        """One step with the ``cores`` that are there; after an error the last request stands."""
        self._elastic.each = min(cores, default=self._elastic.each)
        step = self._elastic.step(now, len(cores), load)
        if step.target is not None and self.executors is not None:
            try:
                gone = ", ".join(self.executors.resize(step.target, self._prices))
            except Exception:
                self._elastic.failed()
                raise
            leaving = f", leaving: {gone}" if gone else ""
            _log.info("scheduling: %d executors requested: %s%s", step.target, step.reason, leaving)
        if step.target is not None:
            self._meter.forget()
        return step

    def _told(self) -> float | None:
        try:
            return None if self._backlog is None else float(self._backlog())
        except Exception as error:
            self._once.log("the backlog is not known", error)
            return None


class Scaling(Follower):
    """Follows a scaler with the number of executors of one streaming query.

    ::

        query = rows.writeStream.format("delta").start(path)
        with Scaling(query, OERA(), executors=(2, 8)):
            query.awaitTermination()

    As a context manager, or between :meth:`start` and :meth:`stop`, it runs :meth:`step` in a
    thread of its own, which logs failures, each cause once; or call :meth:`step` yourself.
    Executors must be the query's alone: what else runs in the application counts as its load.

    Args:
        query: the query. None: it is not known yet; set the attribute before the next step.
        scaler: an object of :mod:`scheduling.scalers`, as ``OERA()`` or ``DS2()``.
        executors: the minimum and the maximum number of executors.
        tasks: of a micro-batch: numbers that leave cores idle in the last turn are not requested.
            None (default): the most tasks of a stage of the query's last jobs.
        backlog: returns the rows that wait at the source, for sources that hide it (files with
            ``maxFilesPerTrigger``). None (default): unknown, and the scaler probes.
        prices: a price table, by which the most expensive executors leave first; default none.
        bounds: seconds and confirmations; its ``least`` and ``most`` are those of ``executors``.
            None (default): ``Bounds()``.
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
        prices: Sequence[Price] = (),
        bounds: Bounds | None = None,
        every_s: float = 5.0,
        window_s: float = 30.0,
        spark: SparkSession | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        instance(Scaler, "a scaler, as scheduling.scalers.OERA()")("scaler", scaler)
        least, most = pair("executors", executors)
        spark = spark or SparkSession.active()
        if internals.is_connect(spark) or internals.is_connect(query):
            raise ArgumentError(
                "Scaling looks at executors, which Spark Connect does not show: use a classic "
                "session, or dynamic allocation"
            )
        bounds = replace(bounds or Bounds(), least=least, most=most)
        elastic = Elastic(scaler, tasks=tasks, bounds=bounds)
        super().__init__(elastic, Executors(spark), tuple(prices), backlog, window_s)
        self.query, self._spark, self._clock, self._tasks = query, spark, clock, tasks
        self._every_s = number("every_s", every_s, above=True)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.load: Load | None = None
        """The last load that was measured; None before one."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The last 1,000 steps."""
        return tuple(self._elastic.steps)

    def step(self, now: float | None = None, load: Load | None = None) -> Step:
        """Observe, decide and, if need be, request another number; errors of Spark pass.

        Args:
            now: seconds; None (default): the clock's.
            load: measured elsewhere; None (default): from the query's progress.

        Returns:
            What was decided; see :class:`scheduling.elastic.Step`.
        """
        now = self._clock() if now is None else now
        if self.stays():
            return Step(now, "steady", 0, None, None, f"not scaled: {self.executors.reason}")
        cores, busy_s = [one.cores for one in self.executors.there()], self.executors.busy_s()
        if self.query is not None:
            if self._tasks is None:
                widest = internals.widest_stage(self._spark, self.query)
                self._elastic.tasks = widest or self._elastic.tasks
            measured = self.measured(now, cores, busy_s, self.query)
            load = load or measured
        self.load = load or self.load
        return self.follow(now, cores, load)

    def start(self) -> Scaling:
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

    def __enter__(self) -> Scaling:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def explain(self) -> str:
        """In words: the scaler, the bounds, what was requested, what is there and why."""
        elastic, last = self._elastic, "no step yet"
        if self.steps:
            last = f"last step: {self.steps[-1].there} are there, {self.steps[-1].reason}"
        if self.executors.reason is not None:
            last = f"not scaled: {self.executors.reason}"
        return (
            f"scaler {elastic.scaler.name}, {elastic.bounds.least} to {elastic.bounds.most} "
            f"executors of {elastic.each} cores, tasks: {elastic.tasks or 'unknown'}\n"
            f"{elastic.state}: {elastic.requests} requests, last {elastic.requested or None}\n"
            f"load: {self.load or 'nothing measured'}\n{last}"
        )

    def _steps(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                if self.query is not None and not self.query.isActive:
                    return
                self.step()
            except Exception as error:
                self._once.log("a step of scaling failed", error)
