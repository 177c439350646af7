"""Everything private of Spark that live placement touches; no other module does.

Verified on Spark 4.1, 4.2 and 4.3 (classic sessions). A member that is missing raises
:class:`scheduling.errors.ActuatorError` where nothing can be done without it; callers leave the job
to Spark then, with one warning.

| touch point | used for |
| --- | --- |
| ``SparkContext`` (``_jsc.sc()``): ``isLocal``, ``executorMemory``, ``conf`` | the cluster |
| ``statusTracker().getJobIdsForTag``, ``getJobInfo`` | the stages of a cycle |
| ``statusStore``, ``JacksonMessageWriter.mapper`` | metrics where the UI is off |
| ``killExecutor``, ``requestTotalExecutors``, ``decommissionExecutor`` | the number of executors |
| ``StreamExecution.sources``, ``uniqueSources`` | whether a limit hides a backlog |
| ``_jdf.queryExecution``, ``toRdd``, ``schema``, ``observedMetrics`` | the rows below pins |
| ``CoalescedRDD``, ``CoalescedRDDPartition``, ``RDD.elementClassTag`` | pins |
| ``RDD.preferredLocations`` | where a source has its data |
| ``_jsparkSession.internalCreateDataFrame`` | the rows above pins |
| ``sharedState().activeStreamingQueries`` | the query of a micro-batch |
| ``TaskSchedulerImpl``: ``rootPool``, ``isExecutorAlive``; ``isExecutorActive`` | lost executors |
| ``TaskSetManager``: ``localityWaits``, ``pendingTasks``, ``recomputeLocality`` | waits |
| Janino's ``ClassBodyEvaluator``, as Spark's code generation does | one call for all pins |
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scheduling.errors import ActuatorError
from scheduling.spark import java

VERIFIED = ("4.1", "4.2", "4.3")
"""The versions of Spark on which these members were found and worked."""

_log = logging.getLogger("scheduling")

_MOST_TASKS = 1_000_000
_MOST_MS = 2**31 - 1
_WAIT = "spark.locality.wait"
_PROCESS_WAIT = "spark.locality.wait.process"
_MISSING = (AttributeError, TypeError, Py4JError)


def _jvm(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jvm


def _context(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jsc.sc()


def is_connect(spark: object) -> bool:
    """Whether a session, or a query of one, is Spark Connect's: no driver is in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    """Whether the driver is the only executor."""
    return bool(_context(spark).isLocal())


def executor_memory_mb(spark: SparkSession) -> float:
    """The memory of an executor in MB."""
    return float(_context(spark).executorMemory())


def is_on(spark: SparkSession, setting: str) -> bool:
    """Whether a setting of the application is true; one that is not set is not."""
    return bool(spark.sparkContext.getConf().get(setting, "false").lower() == "true")


def task_cpus(spark: SparkSession) -> int:
    """The cores that Spark reserves for a task."""
    return max(1, int(spark.sparkContext.getConf().get("spark.task.cpus", "1")))


def least_wait(spark: SparkSession, seconds: float) -> Callable[[], None]:
    """Let tasks of all jobs wait for an executor at least so long; the result takes that back."""
    conf = _context(spark).conf()
    before = conf.get(_PROCESS_WAIT) if conf.contains(_PROCESS_WAIT) else None
    if conf.getTimeAsMs(_WAIT if before is None else _PROCESS_WAIT, "3s") < seconds * 1000:
        conf.set(_PROCESS_WAIT, f"{round(seconds * 1000)}ms")
    if before is None:
        return lambda: conf.remove(_PROCESS_WAIT)
    return lambda: conf.set(_PROCESS_WAIT, before)


def stages_of(spark: SparkSession, tag: str) -> tuple[list[int], bool]:
    """The stages of the jobs with a tag, and whether all the jobs have ended."""
    tracker = _context(spark).statusTracker()
    found = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForTag(tag))]
    jobs = [one.get() for one in found if one.isDefined()]
    ended = len(jobs) == len(found) and all(str(job.status()) != "RUNNING" for job in jobs)
    return [stage for job in jobs for stage in sorted(job.stageIds())], ended


def widest_stage(spark: SparkSession, query: Any) -> int:
    """The most tasks of a stage of a streaming query's last jobs; 0 if nothing is known."""
    tracker = spark.sparkContext.statusTracker()
    last = sorted(tracker.getJobIdsForGroup(str(query.runId)))[-8:]
    jobs = [tracker.getJobInfo(job) for job in last]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return max((stage.numTasks for stage in stages if stage), default=0)


class StatusStore:
    """The driver's status store, written as JSON by the REST API's own writer."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm, self._gateway = context._jvm, context._gateway
        self._store = _context(spark).statusStore()
        self._writer = self._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def executors(self) -> list[dict[str, Any]]:
        """The executors, the driver among them."""
        return self._json(self._store.executorList(True))

    def stage(self, stage: int) -> list[dict[str, Any]]:
        """The attempts of a stage."""
        nothing = self._jvm.java.util.ArrayList()
        quantiles = self._gateway.new_array(self._jvm.double, 0)
        return self._json(self._store.stageData(stage, False, nothing, False, quantiles))

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        """The tasks of one attempt."""
        return self._json(self._store.taskList(stage, attempt, _MOST_TASKS))

    def _json(self, thing: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._writer.writeValueAsString(thing))
        return found


def kill_executor(spark: SparkSession, executor: str) -> bool:
    """Release an executor; whether the cluster manager accepted it."""
    return bool(_context(spark).killExecutor(executor))


def decommission_executor(spark: SparkSession, executor: str) -> bool:
    """Let an executor end its tasks and leave; needs ``spark.decommission.enabled``."""
    jvm = _jvm(spark)
    info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo
    why = info("scaled down", jvm.scala.Option.empty())
    backend = _context(spark).schedulerBackend()
    return bool(backend.decommissionExecutor(executor, why, True, False))


def limits_of(query: Any) -> tuple[float | None, ...] | None:
    """The rows of a micro-batch at most, by source of a streaming query.

    None for a source without a limit, 0 for a limit of another kind; None in all if Spark does not
    tell, or does not know yet.
    """
    try:
        run = query._jsq
        if str(run.getClass().getSimpleName()).endswith("Wrapper"):  # not that of a micro-batch
            run = run.streamingQuery()
        sources, limits = run.sources(), run.uniqueSources()
        if sources is None or sources.isEmpty():
            return None
        return tuple(_rows(limits.get(sources.apply(k)).get()) for k in range(sources.size()))
    except _MISSING:
        return None


def _rows(limit: Any) -> float | None:
    kind = str(limit.getClass().getSimpleName())
    if kind == "ReadMaxRows":
        return float(limit.maxRows())
    if kind == "PythonStreamingSourceReadLimit":  # of a source in Python, as JSON
        told = json.loads(limit.json())
        if "max_rows" in told:
            return float(told["max_rows"])
        kind = told.get("_type", "")
    return None if kind in ("ReadAllAvailable", "ReadMinRows") else 0.0


def request_total(spark: SparkSession, count: int) -> None:
    """Request a total number of executors; a lower number than the current one kills none."""
    _context(spark).requestTotalExecutors(count, 0, _jvm(spark).scala.Predef.Map().empty())


def running_query(spark: SparkSession) -> StreamingQuery | None:
    """The streaming query whose micro-batch this thread runs; None outside ``foreachBatch``.

    The session of a micro-batch is a copy whose ``streams`` knows no query, so it is looked up by
    its id among those of all sessions.
    """
    context: Any = spark.sparkContext
    name = context.getLocalProperty("sql.streaming.queryId")
    if not name:
        return None
    every = spark._jsparkSession.sharedState().activeStreamingQueries()
    found = every.get(context._jvm.java.util.UUID.fromString(name))
    return None if found is None else StreamingQuery(found)


def recent_progress(query: StreamingQuery, count: int) -> list[dict[str, Any]]:
    """The last progress entries of a query as their JSON."""
    entries = list(query._jsq.recentProgress())
    return [json.loads(one.json()) for one in entries[-count:]]


def can_pin(spark: SparkSession) -> bool:
    """Whether the session has ``internalCreateDataFrame``."""
    return hasattr(spark._jsparkSession, "internalCreateDataFrame")


def plan_of(df: DataFrame) -> tuple[Any, Any, int]:
    """The query execution of a DataFrame, its RDD and number of partitions.

    With adaptive execution its shuffles are run for it.
    """
    execution = df._jdf.queryExecution()
    rdd = execution.toRdd()
    return execution, rdd, int(rdd.getNumPartitions())


def pinned_rdd(spark: SparkSession, rdd: Any, locations: Sequence[str]) -> Any:
    """An RDD of the same partitions with these preferred locations; empty ones have none."""
    return _run(spark, java.PIN, "partitions cannot be pinned", rdd, "\n".join(locations))


def preferred_hosts(spark: SparkSession, rdd: Any) -> list[tuple[str, ...]]:
    """The hosts that store each partition's data; none where the session cannot tell."""
    try:
        lines = str(_run(spark, java.HOSTS, "locations cannot be read", rdd)).split("\n")
    except Exception as error:  # what a source says of its data is a hint
        _log.info("scheduling: where the data is stored is not known: %s", error)
        return []
    return [tuple(_host(one) for one in line.split("\t") if one) for line in lines]


def _host(location: str) -> str:
    """The host of a location in Spark's format."""
    if location.startswith("executor_"):
        return location.removeprefix("executor_").rpartition("_")[0]
    return location.removeprefix("hdfs_cache_")


def to_frame(df: DataFrame, rdd: Any) -> DataFrame:
    """An RDD of internal rows as a DataFrame with the schema of another."""
    spark = df.sparkSession
    try:
        made = spark._jsparkSession.internalCreateDataFrame(rdd, df._jdf.schema(), False)
    except _MISSING as error:
        raise _unusable("rows cannot be pinned", error) from error
    return DataFrame(made, spark)


def observed_metrics(spark: SparkSession, execution: Any) -> dict[str, dict[str, Any]]:
    """The metrics of ``DataFrame.observe`` in a query execution; empty before it ran."""
    java_of = _jvm(spark).scala.jdk.javaapi.CollectionConverters.asJava
    found = {}
    try:
        for name, row in java_of(execution.observedMetrics()).items():
            values = json.loads(row.json())
            found[name] = {field: values.get(field) for field in row.schema().fieldNames()}
    except PySparkException:
        return {}
    return found


def wait_for_executors(spark: SparkSession, rdd: int, seconds: float) -> int:
    """Set how long the running stages of an RDD wait for the executors that partitions name.

    Tasks whose executor is lost or leaves do not wait. Spark sets its own wait again when executors
    come or go, so this is to be repeated. Returns how many stages run.
    """
    milliseconds = min(round(seconds * 1000), _MOST_MS)
    what = "the wait of a stage cannot be set"
    return int(_run(spark, java.WAIT, what, _context(spark), rdd, milliseconds))


def _run(spark: SparkSession, script: str, failure: str, *arguments: Any) -> Any:
    """What a script returns, in one call to the JVM."""
    try:
        context: Any = spark.sparkContext
        return _compiled(context._gateway, script).run(*arguments)
    except _MISSING as error:
        raise _unusable(failure, error) from error


def _unusable(failure: str, error: Exception) -> ActuatorError:
    verified = ", ".join(VERIFIED)
    return ActuatorError(f"{failure} in this version of Spark (verified: {verified}): {error}")


@lru_cache(maxsize=8)
def _compiled(gateway: Any, script: str) -> Any:
    """A compiled script. A session that does not compile it raises in every call."""
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    found = gateway.jvm.org.codehaus.janino.ClassBodyEvaluator()
    found.setParentClassLoader(loader)
    found.cook(script)
    return found.getClazz().getConstructor(None).newInstance(None)
