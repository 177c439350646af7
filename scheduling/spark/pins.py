"""Pin the partitions of a DataFrame to executors.

Spark queries the preferred locations of each partition of an RDD. The partitions of a
``CoalescedRDD`` store theirs, so one with as many partitions as its parent can have arbitrary
preferences. No jar is needed. The used members of Spark are private; a session in which one is
missing is left unchanged.

A preference is not an order: Spark waits ``spark.locality.wait`` for the executor to be free, then
runs the task elsewhere. It waits as long for one that has died, as long as other tasks of the stage
have executors that live (seen on 4.3: 120 s), so :func:`locality_wait` looks for that.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from scheduling.errors import ActuatorError, ArgumentError
from scheduling.spark.status import is_connect

__all__ = [
    "Executor",
    "Pinned",
    "locality_wait",
    "observed",
    "only_executor",
    "partitions",
    "pin",
    "why_not",
]

_WAITS = ("spark.locality.wait", "spark.locality.wait.process", "spark.locality.wait.node")
_EVERY_S = 0.5


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
        """The preferred location in Spark's format."""
        return f"executor_{self.host}_{self.id}"


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


def why_not(spark: SparkSession) -> str | None:
    """Why partitions cannot be pinned in this session; None if they can. O(1)."""
    if is_connect(spark):
        return "Spark Connect gives no access to the physical plan"
    if not hasattr(spark._jsparkSession, "internalCreateDataFrame"):
        return "this version of Spark has no internalCreateDataFrame"
    return None


def only_executor(spark: SparkSession) -> str | None:
    """Why there is nothing to choose: a local master. None where there are executors."""
    context = spark.sparkContext
    if context._jsc.sc().isLocal():
        return f"the master is {context.master}: there is one executor, the driver"
    return None


def partitions(df: DataFrame) -> int:
    """How many partitions a DataFrame's physical plan has. With AQE its shuffles are run for it."""
    return int(df._jdf.queryExecution().toRdd().getNumPartitions())


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

    Complexity: O(partitions); about 1.5 ms each, on the driver.
    """
    try:
        execution = df._jdf.queryExecution()
        rdd = execution.toRdd()
        count = int(rdd.getNumPartitions())
        if count != len(executors):
            raise ArgumentError(
                f"there are {count} partitions, and executors for {len(executors)}: give one, or "
                "None, for each"
            )
        pinned = _pinned(df.sparkSession, rdd, executors)
        frame = df.sparkSession._jsparkSession.internalCreateDataFrame(
            pinned, df._jdf.schema(), False
        )
    except Py4JJavaError:
        raise  # a shuffle below has failed
    except (AttributeError, TypeError, Py4JError) as error:  # a member is missing
        raise ActuatorError(f"partitions cannot be pinned in this version of Spark: {error}") from (
            error
        )
    return Pinned(DataFrame(frame, df.sparkSession), int(pinned.id()), tuple(executors), execution)


def _pinned(spark: SparkSession, rdd: Any, executors: Sequence[Executor | None]) -> Any:
    """A CoalescedRDD whose partitions say where they would like to be."""
    gateway: Any = spark.sparkContext._gateway
    known = _classes(gateway)
    nowhere = known.option.empty()
    coalesced = known.rdd(rdd, len(executors), nowhere, rdd.elementClassTag())
    coalesced.setName("placed")
    # Spark keeps this array, so what is written to it holds.
    kept = coalesced.partitions()
    wishes = {one: known.option.apply(one.location) for one in set(executors) if one is not None}
    for i, one in enumerate(executors):
        parents = gateway.new_array(known.integer, 1)
        parents[0] = i
        kept[i] = known.partition(i, rdd, parents, nowhere if one is None else wishes[one])
    return coalesced


class _Classes:
    """The JVM's classes that pins are made of; each dot of a name is a call to the JVM."""

    def __init__(self, gateway: Any) -> None:
        self.option = gateway.jvm.scala.Option
        self.rdd = gateway.jvm.org.apache.spark.rdd.CoalescedRDD
        self.partition = gateway.jvm.org.apache.spark.rdd.CoalescedRDDPartition
        self.integer = gateway.jvm.int


@lru_cache(maxsize=4)
def _classes(gateway: Any) -> _Classes:
    return _Classes(gateway)


@contextlib.contextmanager
def locality_wait(
    spark: SparkSession, seconds: float, dead: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Set the time that stages wait for their preferred executor, while the block runs.

    It applies to all jobs of the application and is restored afterwards. If several blocks run at
    the same time (two streams), the longest wait applies, and the last block restores it.

    Args:
        spark: the session.
        seconds: to wait.
        dead: called twice a second: whether a requested executor is lost; then the wait ends. Spark
            reads the setting again whenever executors are added or removed. None (default): the
            wait does not end early.
    """
    conf: Any = spark.sparkContext._jsc.sc().conf()
    over, who = threading.Event(), object()

    def watch(is_dead: Callable[[], bool]) -> None:
        while not over.wait(_EVERY_S):
            if is_dead():
                _waits.hold(conf, who, None)
                return

    watcher = None
    if dead is not None:
        watcher = threading.Thread(target=watch, args=(dead,), name="scheduling-pins", daemon=True)
    _waits.hold(conf, who, seconds)
    if watcher is not None:
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if watcher is not None:
            watcher.join()
        _waits.let_go(conf, who)


class _Waits:
    """The active waits: the setting applies to the whole application."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[object, float | None] = {}
        self._before: dict[str, str | None] = {}

    def hold(self, conf: Any, who: object, seconds: float | None) -> None:
        """Wait so long; None: an executor has died, and nothing is to wait."""
        with self._lock:
            if not self._held:
                self._before = {
                    name: conf.get(name) if conf.contains(name) else None for name in _WAITS
                }
            self._held[who] = seconds
            self._set(conf)

    def let_go(self, conf: Any, who: object) -> None:
        """What the others want, or the setting as it was."""
        with self._lock:
            del self._held[who]
            if self._held:
                self._set(conf)
                return
            for name, value in self._before.items():
                if value is None:
                    conf.remove(name)
                else:
                    conf.set(name, value)

    def _set(self, conf: Any) -> None:
        held = [0.0 if seconds is None else seconds for seconds in self._held.values()]
        longest = 0.0 if None in self._held.values() else max(held)
        for name in _WAITS:
            conf.set(name, f"{round(longest * 1000)}ms")


_waits = _Waits()


def observed(pinned: Pinned) -> dict[str, dict[str, Any]]:
    """The metrics of ``DataFrame.observe`` below the pins, by name; empty before it ran."""
    jvm: Any = pinned.df.sparkSession.sparkContext._jvm
    try:
        rows = jvm.scala.jdk.javaapi.CollectionConverters.asJava(pinned.execution.observedMetrics())
        found = {}
        for name in rows:
            row = rows[name]
            values = json.loads(row.json())
            found[name] = {field: values.get(field) for field in row.schema().fieldNames()}
    except PySparkException:
        return {}
    return found
