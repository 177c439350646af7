"""Pin the partitions of a DataFrame to executors.

Spark asks for the preferred locations of each partition of an RDD. The partitions of a
``CoalescedRDD`` store theirs, so one with as many partitions as its parent can have any. No jar is
needed; the members of Spark are private (:mod:`scheduling.spark.internals`).

A preference is not an order: Spark waits ``spark.locality.wait`` for the executor to be free, then
runs the task elsewhere. It waits as long for an executor that is gone (seen on 4.3: 150 s and
more). So :func:`waiting` leaves the setting alone: it sets the wait of the pinned stage only, and
frees the tasks of lost executors.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scheduling.errors import ActuatorError, ArgumentError
from scheduling.model import Plan, Receipt, Snapshot
from scheduling.spark import internals
from scheduling.spark.once import WarnOnce

__all__ = ["Executor", "Pinned", "Pins", "only_executor", "partitions", "pin", "waiting"]

_log = logging.getLogger("scheduling")

_EVERY_S = 0.2
_LEAST_WAIT_S = 3.0


@dataclass(frozen=True)
class Executor:
    """The executor on which a partition should run.

    Args:
        host: Spark's name of the host.
        id: Spark's id of the executor.
    """

    host: str
    id: str

    @property
    def location(self) -> str:
        """The preferred location in Spark's format.

        Spark splits it at the first underscores, so those of the host are replaced: the executor's
        id decides, and the host counts only where the executor is lost.

        >>> Executor("node_7.rack_2", "12").location
        'executor_node-7.rack-2_12'
        """
        return f"executor_{self.host.replace('_', '-')}_{self.id}"


@dataclass(frozen=True)
class Pinned:
    """A pinned DataFrame.

    Args:
        df: the same rows.
        rdd: Spark's id of the pinned RDD; the stages that run it name it.
        requested: the requested executor of each partition; None where Spark chooses.
        execution: the ``QueryExecution`` below the pins, with its observed metrics.
    """

    df: DataFrame
    rdd: int
    requested: tuple[Executor | None, ...]
    execution: Any

    def observed(self) -> dict[str, dict[str, Any]]:
        """The metrics of ``DataFrame.observe`` below the pins, by name; empty before it ran."""
        return internals.observed_metrics(self.df.sparkSession, self.execution)


def only_executor(spark: SparkSession) -> str | None:
    """Why there is nothing to choose: a local master. None where there are executors."""
    if internals.is_local(spark):
        return f"the master is {spark.sparkContext.master}: there is one executor, the driver"
    return None


def partitions(df: DataFrame) -> int:
    """How many partitions a DataFrame's physical plan has. With AQE its shuffles are run for it."""
    return internals.plan_of(df)[2]


def pin(df: DataFrame, executors: Sequence[Executor | None]) -> Pinned:
    """Request that Spark runs each partition on an executor.

    Code generation ends at this point of the plan. With adaptive execution the shuffles below run
    immediately. The plan below is fixed: a filter on the result is not pushed down.

    Args:
        df: any DataFrame that is not streaming (in ``foreachBatch`` it is not).
        executors: one per partition; None lets Spark choose.

    Returns:
        The pinned DataFrame, with the same rows and partitions.

    Raises:
        ArgumentError: the plan has another number of partitions.
        ActuatorError: Spark's private members differ from the expected ones.

    Complexity: O(partitions) on the driver; one call to the JVM.
    """
    execution, rdd, count = internals.plan_of(df)
    if count != len(executors):
        raise ArgumentError(
            f"there are {count} partitions, and executors for {len(executors)}: give one, or None, "
            "for each"
        )
    locations = ["" if one is None else one.location for one in executors]
    pinned = internals.pinned_rdd(df.sparkSession, rdd, locations)
    return Pinned(internals.to_frame(df, pinned), int(pinned.id()), tuple(executors), execution)


@contextlib.contextmanager
def waiting(spark: SparkSession, pinned: Pinned, seconds: float) -> Iterator[None]:
    """While the block runs, tasks of the pinned stage wait so many seconds for their executor.

    Tasks whose executor is lost or is being released do not wait: they run on any other. Other
    stages wait as ever, with one exception: where ``spark.locality.wait`` is below 3 s, Spark's
    default, tasks of all jobs wait up to 3 s for an executor that has their data in memory.

    Raises:
        ActuatorError: Spark's private members differ from the expected ones; its own wait applies.
    """
    if not any(pinned.requested):
        yield
        return
    internals.wait_for_executors(spark, pinned.rdd, seconds)  # says whether it can
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY_S):
            try:
                internals.wait_for_executors(spark, pinned.rdd, seconds)
            except Exception as error:  # Spark's own wait applies: tasks are late, but never stuck
                _log.warning("scheduling: tasks may leave their executors: %s", error)
                return

    watcher = threading.Thread(target=watch, name="scheduling-pins", daemon=True)
    with _least_wait.held(spark):
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


class _LeastWait:
    """Spark's own wait, so long that a new stage is found before its tasks run elsewhere."""

    def __init__(self) -> None:
        self._lock, self._holders = threading.Lock(), 0
        self._restore: Callable[[], None]

    @contextlib.contextmanager
    def held(self, spark: SparkSession) -> Iterator[None]:
        """The first block sets it, the last one restores it."""
        with self._lock:
            if not self._holders:
                self._restore = internals.least_wait(spark, _LEAST_WAIT_S)
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._restore()


_least_wait = _LeastWait()


class Pins:
    """Pins partitions to executors: task ``i`` of the operator is partition ``i``.

    Where a session cannot pin, it warns once with the reason, and Spark places the job. With a wait
    of 120 s all tasks ran on their executor in trials (3 s: four in five); a task whose executor is
    gone does not wait.
    """

    def __init__(self, spark: SparkSession, operator: str, locality_wait_s: float = 120.0) -> None:
        self._spark, self._operator, self._wait_s = spark, operator, locality_wait_s
        self._placement: Mapping[str, str] | None = None
        self._there: dict[str, Executor] = {}
        self._stack, self._warn_once = contextlib.ExitStack(), WarnOnce()
        self.pinned: Pinned | None = None
        """The last pinned DataFrame, until its cycle ends; else None."""

    def capabilities(self) -> frozenset[str]:
        """``"place"`` and ``"move"`` (between cycles); nothing with a single executor."""
        can = self._why_not() is None and only_executor(self._spark) is None
        return frozenset({"place", "move"} if can else ())

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan for the next cycle; see :class:`scheduling.Actuator`."""
        self._placement = plan.placement
        return Receipt(plan.placement, plan.placement, tuple(one.task for one in plan.unplaced))

    def prepare(self, df: DataFrame, snapshot: Snapshot) -> DataFrame:
        """The rows of ``df``, with partitions pinned by the plan and the workers in ``snapshot``.

        An executor that only the snapshot before knows is still requested: it may have been
        overlooked, and tasks of one that is gone do not wait. Spark places tasks that the plan
        omits. With a single executor nothing is requested, but where tasks ran is still observed.
        """
        placed = "the job is placed by Spark: "
        if (reason := self._why_not()) is not None:
            self._warn_once.warn(placed + reason)
            return df
        if self._placement is not None and (reason := only_executor(self._spark)) is not None:
            self._warn_once.warn(placed + reason)
            self._placement = {}
        try:
            self.pinned = pin(df, self._wanted(partitions(df), snapshot))
        except ActuatorError as error:
            self._warn_once.warn(f"{placed}{error}")
            return df
        try:
            self._stack.enter_context(waiting(self._spark, self.pinned, self._wait_s))
        except ActuatorError as error:
            self._warn_once.warn(f"tasks wait for executors as spark.locality.wait says: {error}")
        return self.pinned.df

    @contextlib.contextmanager
    def cycle(self) -> Iterator[None]:
        """One cycle: the settings of its stages are restored when it ends."""
        self.pinned = None
        try:
            yield
        finally:
            self._stack.close()

    def _why_not(self) -> str | None:
        if internals.is_connect(self._spark):
            return "Spark Connect gives no access to the physical plan"
        if not internals.can_pin(self._spark):
            return "this version of Spark has no internalCreateDataFrame"
        return None

    def _wanted(self, count: int, snapshot: Snapshot) -> list[Executor | None]:
        there = {
            worker.id: Executor(worker.host, worker.executor_id)
            for worker in snapshot.workers
            if worker.executor_id is not None
        }
        known, self._there = self._there | there, there
        placement = self._placement or {}
        return [known.get(placement.get(f"{self._operator}-{i}", "")) for i in range(count)]
