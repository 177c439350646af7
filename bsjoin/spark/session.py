"""The differences between a classic session and Spark Connect, each with its way round."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._version import OLDEST_SPARK, is_older
from bsjoin.errors import ArgumentError
from bsjoin.spark import compat


def too_old(version: str) -> str | None:
    """Why a version of Spark cannot be used; None if it can.

    >>> too_old("4.0.2"), too_old("4.10.0-SNAPSHOT")
    ('bsjoin needs Spark 4.1 or newer: upgrade Spark 4.0.2', None)
    """
    if not is_older(version, OLDEST_SPARK):
        return None
    return f"bsjoin needs Spark {OLDEST_SPARK} or newer: upgrade Spark {version}"


def is_dataframe(thing: object) -> bool:
    """Whether it is a Spark DataFrame, classic or Connect."""
    return isinstance(thing, DataFrame)


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def application_of(spark: SparkSession) -> Any:
    """Return what is checked or warned about once: the application; on Connect, the session.

    ``foreachBatch`` and ``newSession`` make sessions of the same application.
    """
    return spark if is_connect(spark) else spark.sparkContext


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether column names that differ in case only are different names."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings that a session has; defaults are not among them."""
    if not is_connect(spark):
        with contextlib.suppress(compat.MissingMemberError):
            return compat.settings_at_once(spark)
    return dict(spark.conf.getAll)


def default_parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that the cluster runs at once, as Spark itself assumes."""
    if not is_connect(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    now_s = time.monotonic()
    if spark not in _parallelism or now_s - _parallelism[spark][0] > _KNOWN_S:
        # A range without a number of partitions gets the default number of them.
        numbered = spark.range(0, 1 << 16).select(F.spark_partition_id().alias("p"))
        _parallelism[spark] = now_s, max(1, int(numbered.distinct().count()))
    return _parallelism[spark][1]


_KNOWN_S = 60.0  # executors come and go
_parallelism: WeakKeyDictionary[SparkSession, tuple[float, int]] = WeakKeyDictionary()


@dataclass(frozen=True)
class MicroBatch:
    """The micro-batch whose ``foreachBatch`` function runs.

    Args:
        query: the id of the query.
        number: of the micro-batch.
        run: the id of the run; or another name, where the function gives its jobs one.
        call: Spark's id of the execution that calls the function; empty (default) on Connect.
    """

    query: str
    number: str
    run: str
    call: str = ""


def micro_batch(df: DataFrame) -> MicroBatch | None:
    """The micro-batch that this thread runs; None outside, and where it cannot be known.

    Spark sets it in the thread of a ``foreachBatch`` function. A Connect server runs that
    function in a process of its own, without it: there it is what ``bsjoin.reporting`` says.
    """
    if is_connect(df.sparkSession):
        return _running
    context = df.sparkSession.sparkContext
    query, number, run, call = map(
        context.getLocalProperty,
        (
            "sql.streaming.queryId",
            "streaming.sql.batchId",
            "spark.jobGroup.id",
            "spark.sql.execution.root.id",
        ),
    )
    return MicroBatch(query, number, run or "", call or "") if query and number else None


_running: MicroBatch | None = None


@contextlib.contextmanager
def running(batch: MicroBatch) -> Iterator[None]:
    """Let a micro-batch be that of all threads meanwhile: such a process runs one at a time."""
    global _running
    _running = batch
    try:
        yield
    finally:
        _running = None


def is_for_a_query() -> bool:
    """Whether a Connect server has started this process for a streaming query.

    The process ends with the query. Its sessions may be copies, which list no query.
    """
    return is_remote() and "SPARK_CONNECT_LOCAL_URL" in os.environ


def means_the_same(one: DataFrame, other: DataFrame) -> bool:
    """Whether two DataFrames have the same plan and names of columns, for certain."""
    sessions = one.sparkSession, other.sparkSession
    if any(map(is_connect, sessions)) and sessions[0] is not sessions[1]:
        return False  # Spark compares those of one session
    # To Spark, names are not part of what a plan means.
    return one.columns == other.columns and bool(one.sameSemantics(other))


def retained(spark: SparkSession) -> int:
    """Of how many micro-batches a query keeps its progress."""
    return int(spark.conf.get("spark.sql.streaming.numRecentProgressUpdates") or 0)


def active_session() -> SparkSession:
    """The active session of this thread, or the application's.

    Raises:
        ArgumentError: there is none.
    """
    try:
        spark = SparkSession.active()
    except PySparkException:
        raise ArgumentError("there is no active Spark session: give one, spark=...") from None
    if is_connect(spark):
        return spark
    try:
        # In `foreachBatch` this is the one of its DataFrame; Python calls another one active.
        active = compat.java_session(spark).getActiveSession()
        return SparkSession(spark.sparkContext, active.get()) if active.isDefined() else spark
    except compat.failures():
        return spark


def active_queries() -> set[str] | None:
    """The ids of the streaming queries of the application, of whatever session.

    None where they cannot be listed: without a classic session, or what Spark lists them with.
    """
    spark = compat.first_session()
    if spark is None:
        return None
    try:
        return {*map(str, compat.active_queries_of_all(spark).keySet())}
    except compat.failures():
        return None


def active_names(spark: SparkSession) -> set[str]:
    """The names of the streaming queries of a session that run; of those without one their ids."""
    try:
        return {query.name or str(query.id) for query in spark.streams.active}
    except Exception:  # the session has gone, whatever the transport says of it
        return set()


def any_query_active(spark: SparkSession) -> bool:
    """Whether a streaming query of the application runs, of whatever session; Connect: of this."""
    try:
        if is_connect(spark):
            return is_for_a_query() or bool(spark.streams.active)
        return not compat.active_queries_of_all(spark).isEmpty()
    except Exception:  # the session has gone, whatever the transport says of it
        return False


def needed_since_us() -> int | None:
    """The earliest micro-batch that a query may still run or replay, of any session; Connect: this.

    Returns:
        Microseconds since the epoch; 0 where it cannot be known; None without a query.
    """
    try:
        spark = SparkSession.active()  # the application's own, in any thread
    except PySparkException:
        return None
    # The next micro-batch is later than the last one that was committed.
    if is_connect(spark):
        begun = [query.lastProgress for query in spark.streams.active]
        if not begun and is_for_a_query():
            return 0
        stamps = [one and one.timestamp for one in begun]
    else:
        queries = list(compat.active_queries_of_all(spark).values())
        known = [query.lastProgress() for query in queries]
        stamps = [one and one.timestamp() for one in known]
    return min((_microseconds(one) if one else 0 for one in stamps), default=None)


def _microseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1e6)
