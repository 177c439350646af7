"""Pin the partitions of a DataFrame to executors.

The partitions of a ``CoalescedRDD`` store their preferred locations, so one with as many partitions
as its parent can have any. A preference is not an order: Spark waits ``spark.locality.wait`` for
the executor to be free, then runs the task elsewhere. It waits as long for an executor that is gone
(seen on 4.3: 150 s and more). So :func:`waiting` sets the wait of the pinned stage only, and frees
the tasks of lost executors.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scheduling.errors import ActuatorError, ArgumentError
from scheduling.model import Plan, Receipt, Snapshot
from scheduling.spark import internals
from scheduling.spark.executors import Executor
from scheduling.spark.internals import only_executor
from scheduling.spark.once import Once

__all__ = ["Pinned", "Pins", "partitions", "pin", "waiting"]

_log = logging.getLogger("scheduling")

_EVERY_S = 0.2


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


def partitions(df: DataFrame) -> int:
    """How many partitions a DataFrame's physical plan has. With AQE its shuffles are run for it."""
    return internals.plan_of(df)[2]


def pin(df: DataFrame, executors: Sequence[Executor | None]) -> Pinned:
    """The rows and partitions of a DataFrame, each partition requested to run on an executor.

    Code generation ends at this point of the plan. With adaptive execution the shuffles below run
    immediately. The plan below is fixed: a filter on the result is not pushed down. O(partitions)
    on the driver; one call to the JVM.

    Args:
        df: any DataFrame that is not streaming (in ``foreachBatch`` it is not).
        executors: one per partition; None lets Spark choose.

    Raises:
        ArgumentError: the plan has another number of partitions.
        ActuatorError: Spark's private members differ from the expected ones.
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

    Tasks whose executor is lost or is being released run on any other. Other stages wait as ever,
    but where ``spark.locality.wait`` is below Spark's default, 3 s, tasks of all jobs wait up to
    3 s for an executor that has their data in memory.

    Raises:
        ActuatorError: Spark's private members differ from the expected ones; its own wait applies.
    """
    if not any(pinned.requested):
        yield
        return
    internals.wait_for_executors(spark, pinned.rdd, seconds)  # says whether it can
    over = threading.Event()

    def watch() -> None:
        try:
            while not over.wait(_EVERY_S):
                internals.wait_for_executors(spark, pinned.rdd, seconds)
        except Exception as error:  # Spark's own wait applies: tasks are late, but never stuck
            _log.warning("scheduling: tasks may leave their executors: %s", error)

    watcher = threading.Thread(target=watch, name="scheduling-pins", daemon=True)
    with internals.least_wait(spark):
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


class Pins:
    """Pins partitions to executors: task ``i`` of the operator is partition ``i``.

    With a wait of 120 s all tasks ran on their executor in trials, with 3 s four in five.
    """

    def __init__(self, spark: SparkSession, operator: str, locality_wait_s: float = 120.0) -> None:
        self._spark, self._operator, self._wait_s = spark, operator, locality_wait_s
        self._placement: Mapping[str, str] | None = None
        self._there: dict[str, Executor] = {}
        self._stack, self._once = contextlib.ExitStack(), Once()
        self.pinned: Pinned | None = None
        """The last pinned DataFrame, until its cycle ends; else None."""

    def capabilities(self) -> frozenset[str]:
        """``"place"`` and ``"move"`` (between cycles); nothing with a single executor."""
        why_not = internals.cannot_pin(self._spark) or only_executor(self._spark)
        return frozenset(() if why_not else ("place", "move"))

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan for the next cycle; see :class:`scheduling.Actuator`."""
        self._placement = plan.placement
        return Receipt(plan.placement, plan.placement, tuple(one.task for one in plan.unplaced))

    def prepare(self, df: DataFrame, snapshot: Snapshot) -> DataFrame:
        """The rows of ``df``, with partitions pinned by the plan; why not is warned of once.

        An executor that only the snapshot before knows may have been overlooked: it is requested,
        too. With a single executor nothing is, but where tasks ran is still observed.
        """
        workers = {one.id: one for one in snapshot.workers if one.executor_id is not None}
        there = {name: Executor(one.host, str(one.executor_id)) for name, one in workers.items()}
        known, self._there, placed = self._there | there, there, "the job is placed by Spark: "
        try:
            if why := internals.cannot_pin(self._spark):
                raise ActuatorError(why)
            if self._placement is not None and (why := only_executor(self._spark)):
                self._once.warn(placed + why)
                self._placement = {}
            names = (f"{self._operator}-{i}" for i in range(partitions(df)))
            placement = self._placement or {}
            self.pinned = pin(df, [known.get(placement.get(name, "")) for name in names])
        except ActuatorError as error:
            self._once.warn(f"{placed}{error}")
            return df
        try:
            self._stack.enter_context(waiting(self._spark, self.pinned, self._wait_s))
        except ActuatorError as error:
            self._once.warn(f"tasks wait for executors as spark.locality.wait says: {error}")
        return self.pinned.df

    @contextlib.contextmanager
    def cycle(self) -> Iterator[None]:
        """One cycle: the settings of its stages are restored when it ends."""
        self.pinned = None
        with self._stack:
            yield
