"""Scales the executors of a plain streaming query, beside it."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scheduling.elastic import Bounds, Elastic, Step
from scheduling.errors import ArgumentError
from scheduling.flow import Meter
from scheduling.model.checks import number
from scheduling.prices import Price
from scheduling.protocols import Clock
from scheduling.scalers import Load, Scaler
from scheduling.spark import internals
from scheduling.spark.executors import Executors
from scheduling.spark.once import LogOnce, WarnOnce

__all__ = ["UNKNOWN", "Scaling", "progress_of", "request", "told"]

_log = logging.getLogger("scheduling")

_RECENT = 50  # micro-batches to look at in a step
UNKNOWN = (0.0,) * 32
"""The limits of sources of which it is not known whether they have one: they may."""


def progress_of(query: StreamingQuery, meter: Meter) -> list[dict[str, Any]]:
    """The recent progress of a query; the meter is told the limits of its sources."""
    meter.limits = internals.limits_of(query) or UNKNOWN
    return internals.recent_progress(query, _RECENT)


def request(
    step: Step, elastic: Elastic, meter: Meter, executors: Executors, prices: Sequence[Price]
) -> None:
    """Request what a step decided; after an error what was requested before it stands."""
    if step.target is None:
        return
    try:
        gone = executors.resize(step.target, prices)
    except Exception:
        elastic.failed()
        raise
    meter.forget()
    leaving = f", leaving: {', '.join(gone)}" if gone else ""
    _log.info("scheduling: %d executors requested: %s%s", step.target, step.reason, leaving)


def told(backlog: Callable[[], float] | None, log: LogOnce) -> float | None:
    """What a user's function tells of the backlog; None without one, or where it fails."""
    try:
        return None if backlog is None else float(backlog())
    except Exception as error:
        log.warn("the backlog is not known", error)
        return None


class Scaling:
    """Follows a scaler with the number of executors of one streaming query.

    ::

        query = rows.writeStream.format("delta").start(path)
        with Scaling(query, OERA(), executors=(2, 8)):
            query.awaitTermination()

    As a context manager, or between :meth:`start` and :meth:`stop`, it runs :meth:`step` in a
    thread of its own until the query ends; or call :meth:`step` yourself. Failures are logged, each
    cause once, and never end the query. Executors must be the query's alone: what else runs in the
    application counts as its load.

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
            Where the number cannot be changed otherwise (local master, dynamic allocation) a
            warning says why, and so does every step.
    """

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
        if isinstance(scaler, type) or not isinstance(scaler, Scaler):
            raise ArgumentError(f"scaler={scaler!r}: give a scaler, as scheduling.scalers.OERA()")
        if not (isinstance(executors, Sequence) and len(executors) == 2):
            raise ArgumentError(f"executors={executors!r}: give (fewest, most)")
        spark = spark or SparkSession.active()
        if internals.is_connect(spark) or internals.is_connect(query):
            raise ArgumentError(
                "Scaling looks at executors, which Spark Connect does not show: use a classic "
                "session, or dynamic allocation"
            )
        least, most = executors
        bounds = dataclasses.replace(bounds or Bounds(), least=least, most=most)
        self.query = query
        self.executors = Executors(spark)
        self._spark, self._prices, self._clock = spark, tuple(prices), clock
        self._every_s, self._tasks = number("every_s", every_s, above=True), tasks
        self._elastic = Elastic(scaler, tasks=tasks, bounds=bounds)
        self._log, self._warn = LogOnce(), WarnOnce()
        self._meter = Meter(window_s, backlog=lambda: told(backlog, self._log))
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.load: Load | None = None
        """The last load that was measured; None before one."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The last 1,000 steps."""
        return tuple(self._elastic.steps)

    def step(self, now: float | None = None, load: Load | None = None) -> Step:
        """Observe, decide and, if need be, request another number of executors.

        Args:
            now: seconds; None (default): the clock's.
            load: measured elsewhere; None (default): from the query's progress.

        Returns:
            What was decided; see :class:`scheduling.elastic.Step`.

        Raises:
            Exception: what Spark raises; the thread of :meth:`start` logs it.
        """
        now = self._clock() if now is None else now
        if self.executors.reason is not None:
            self._warn.warn(f"the number of executors stays: {self.executors.reason}")
            return Step(now, "steady", 0, None, None, f"not scaled: {self.executors.reason}")
        every = [one.cores for one in self.executors.there()]
        busy_s, query, elastic = self.executors.busy_s(), self.query, self._elastic
        if query is not None:
            if self._tasks is None:
                elastic.tasks = internals.widest_stage(self._spark, query) or elastic.tasks
            progress, cores = progress_of(query, self._meter), sum(every)
            measured = self._meter.load(now, progress, busy_s, cores, query.status)
            load = load or measured
        self.load = load or self.load
        elastic.each = min(every, default=elastic.each)
        step = elastic.step(now, len(every), load)
        request(step, elastic, self._meter, self.executors, self._prices)
        return step

    def start(self) -> Scaling:
        """Step in a thread of its own, every ``every_s``, until :meth:`stop` or the query's end.

        Returns:
            Itself.
        """
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
                self._log.warn("a step of scaling failed", error)
