"""Pin the partitions of a DataFrame to executors.

The partitions of a ``CoalescedRDD`` store their preferred locations. Spark waits
``spark.locality.wait`` for the executor to be free, also for one that is gone (seen on 4.3: 150 s
and more). So :func:`waiting` sets the wait of the pinned stage only, and frees such tasks.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scheduling.errors import ArgumentError
from scheduling.spark import internals
from scheduling.spark.once import log
from scheduling.spark.seen import Executor

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


def pin(df: DataFrame, executors: Sequence[Executor | None]) -> Pinned:
    """The rows and partitions of a DataFrame, each partition requested to run on an executor.

    The plan below is fixed: code generation ends here, a filter on the result is not pushed down,
    and with adaptive execution the shuffles run immediately. O(partitions); one call to the JVM.

    Args:
        df: any DataFrame that is not streaming (in ``foreachBatch`` it is not).
        executors: one per partition; None lets Spark choose.

    Raises:
        ArgumentError: the plan has another number of partitions.
        ActuatorError: Spark's private members differ from the expected ones.
    """
    execution, rdd, count = internals.plan_of(df)
    if count != len(executors):
        told = f"there are {count} partitions, and executors for {len(executors)}"
        raise ArgumentError(f"{told}: give one, or None, for each")
    locations = ["" if one is None else one.location for one in executors]
    made, pinned = internals.pinned(df, rdd, locations)
    return Pinned(made, int(pinned.id()), tuple(executors), execution)


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
            log.warning("scheduling: tasks may leave their executors: %s", error)

    watcher = threading.Thread(target=watch, name="scheduling-pins", daemon=True)
    with internals.least_wait(spark):
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
