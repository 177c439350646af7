"""Everything private of Spark that live placement touches; no other module does.

Verified on Spark 4.1, 4.2 and 4.3 (classic sessions). A member that is missing raises
:class:`scheduling.errors.ActuatorError` where nothing can be done without it. What needs a call for
every partition is Java that the driver compiles by Spark's own Janino, which knows no generics.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scheduling.errors import ActuatorError, ArgumentError
from scheduling.spark.once import log

VERIFIED = ("4.1", "4.2", "4.3")
"""The versions of Spark on which these members were found and worked."""

_MOST_TASKS = 1_000_000
_MISSING = (AttributeError, TypeError, Py4JError)
_lock, _waits = threading.Lock(), list[str | None]()  # what was set before each of least_wait

_IMPORTS = """
import java.util.*;
import org.apache.spark.*;
import org.apache.spark.rdd.*;
import org.apache.spark.scheduler.*;
import scala.Option;
import scala.collection.mutable.Buffer;
import scala.jdk.javaapi.CollectionConverters;
"""

# An RDD of the same partitions; line i of ``where`` is the location of partition i, or empty.
_PIN = """
public CoalescedRDD run(RDD parent, String where) throws Exception {
    String[] at = where.split("\\n", -1);
    Option nowhere = Option.empty();
    CoalescedRDD found = new CoalescedRDD(parent, at.length, nowhere, parent.elementClassTag());
    found.setName("placed");
    for (int i = 0; i < at.length; i++) {
        Option one = at[i].isEmpty() ? nowhere : Option.apply(at[i]);
        found.partitions()[i] = new CoalescedRDDPartition(i, parent, new int[] {i}, one);
    }
    return found;
}
"""

# The preferred locations of an RDD: one line a partition, separated by tabs.
_HOSTS = """
public String run(RDD parent) throws Exception {
    StringJoiner found = new StringJoiner("\\n");
    for (Partition one : parent.partitions()) {
        found.add(parent.preferredLocations(one).mkString("\\t"));
    }
    return found.toString();
}
"""

# Sets how long the running stages of an RDD wait for executors, and frees tasks of lost ones.
_WAIT = """
public int run(SparkContext context, int rdd, int millis) throws Exception {
    TaskSchedulerImpl scheduler = (TaskSchedulerImpl) context.taskScheduler();
    Object backend = scheduler.backend();
    boolean tells = backend instanceof ExecutorAllocationClient;
    List running;
    synchronized (scheduler) {
        Buffer queue = (Buffer) scheduler.rootPool().getSortedTaskSetQueue();
        running = new ArrayList(CollectionConverters.asJava(queue));
    }
    int found = 0;
    boolean changed = false;
    for (Object one : running) {
        TaskSetManager set = (TaskSetManager) one;
        try {
            if (!context.statusStore().lastStageAttempt(set.taskSet().stageId())
                    .rddIds().contains(Integer.valueOf(rdd))) continue;
        } catch (NoSuchElementException notListedYet) {
            continue;
        }
        synchronized (scheduler) {
            if (set.isZombie()) continue;
            found++;
            scala.collection.mutable.Map pinned = set.pendingTasks().forExecutor();
            List free = CollectionConverters.asJava((Buffer) set.pendingTasks().noPrefs());
            boolean lost = false;
            for (Object at : CollectionConverters.asJava(pinned).keySet().toArray()) {
                String name = (String) at;
                if (scheduler.isExecutorAlive(name) && (!tells
                        || ((ExecutorAllocationClient) backend).isExecutorActive(name))) continue;
                free.addAll(CollectionConverters.asJava((Buffer) pinned.remove(name).get()));
                lost = true;
            }
            if (lost) set.recomputeLocality();
            Object[] levels = set.myLocalityLevels();
            long[] waits = new long[levels.length];
            for (int i = 0; i < levels.length; i++) {
                waits[i] = levels[i].toString().equals("PROCESS_LOCAL") ? (long) millis : 0L;
            }
            changed |= lost || !Arrays.equals(waits, set.localityWaits());
            set.localityWaits_$eq(waits);
        }
    }
    if (changed) scheduler.backend().reviveOffers();
    return found;
}
"""


def _context(spark: Any) -> Any:
    return spark.sparkContext._jsc.sc()


def is_connect(spark: object) -> bool:
    """Whether a session, or a query of one, is Spark Connect's: no driver is in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def refuse_connect(spark: object) -> None:
    """Raise :class:`~scheduling.errors.ArgumentError` for a session or query of Spark Connect."""
    if is_connect(spark):
        raise ArgumentError(
            "executors and physical plans are looked at, and Spark Connect shows neither: use a "
            "classic session, or Tiers alone"
        )


def only_executor(spark: SparkSession) -> str | None:
    """Why there is nothing to choose: a local master. None where there are executors."""
    why = f"the master is {spark.sparkContext.master}: there is one executor, the driver"
    return why if _context(spark).isLocal() else None


def is_on(spark: SparkSession, setting: str) -> bool:
    """Whether a setting of the application is true; one that is not set is not."""
    return bool(spark.sparkContext.getConf().get(setting, "false").lower() == "true")


def task_cpus(spark: SparkSession) -> int:
    """The cores that Spark reserves for a task."""
    return max(1, int(spark.sparkContext.getConf().get("spark.task.cpus", "1")))


class StatusStore:
    """The driver's status store, written as JSON by the REST API's own writer."""

    def __init__(self, spark: Any) -> None:
        refuse_connect(spark)
        self._jvm, self._gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
        self._context = _context(spark)
        self._store, self._tracker = self._context.statusStore(), self._context.statusTracker()
        self._writer = self._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def memory_mb(self) -> float:
        """The memory of an executor."""
        return float(self._context.executorMemory())

    def executors(self) -> list[dict[str, Any]]:
        """The executors, the driver among them."""
        return self._json(self._store.executorList(True))

    def attempts(self, tag: str) -> tuple[list[dict[str, Any]], bool]:
        """The attempts of the stages of jobs with a tag, newest first; whether all jobs ended."""
        found = [*map(self._tracker.getJobInfo, sorted(self._tracker.getJobIdsForTag(tag)))]
        jobs = [one.get() for one in found if one.isDefined()]
        ended = len(jobs) == len(found) and all(str(job.status()) != "RUNNING" for job in jobs)
        told, none = [], self._gateway.new_array(self._jvm.double, 0)
        for stage in (stage for job in jobs for stage in sorted(job.stageIds())):
            nothing = self._jvm.java.util.ArrayList()
            told += reversed(self._json(self._store.stageData(stage, False, nothing, False, none)))
        return told, ended

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        """The tasks of one attempt."""
        return self._json(self._store.taskList(stage, attempt, _MOST_TASKS))

    def _json(self, thing: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._writer.writeValueAsString(thing))
        return found


def widest_stage(spark: SparkSession, query: Any) -> int:
    """The most tasks of a stage of a streaming query's last jobs; 0 if nothing is known."""
    tracker = spark.sparkContext.statusTracker()
    last = sorted(tracker.getJobIdsForGroup(str(query.runId)))[-8:]
    jobs = [tracker.getJobInfo(job) for job in last]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return max((stage.numTasks for stage in stages if stage), default=0)


def release_executor(spark: Any, executor: str) -> bool:
    """Let an executor leave: by decommissioning, after its tasks, if that is on; else at once.

    Whether it does.
    """
    if is_on(spark, "spark.decommission.enabled"):
        jvm, backend = spark.sparkContext._jvm, _context(spark).schedulerBackend()
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo
        why = info("scaled down", jvm.scala.Option.empty())
        if backend.decommissionExecutor(executor, why, True, False):
            return True
    return bool(_context(spark).killExecutor(executor))


def request_total(spark: Any, count: int) -> None:
    """Request a total number of executors; a lower number than the current one kills none."""
    nothing = spark.sparkContext._jvm.scala.Predef.Map().empty()
    _context(spark).requestTotalExecutors(count, 0, nothing)


def running_query(spark: Any) -> StreamingQuery | None:
    """The streaming query whose micro-batch this thread runs; None outside ``foreachBatch``."""
    if not (name := spark.sparkContext.getLocalProperty("sql.streaming.queryId")):
        return None
    # The session of a micro-batch is a copy whose ``streams`` knows no query.
    every = spark._jsparkSession.sharedState().activeStreamingQueries()
    found = every.get(spark.sparkContext._jvm.java.util.UUID.fromString(name))
    return None if found is None else StreamingQuery(found)


def recent_progress(query: StreamingQuery, count: int) -> list[dict[str, Any]]:
    """The last progress entries of a query as their JSON."""
    return [json.loads(one.json()) for one in list(query._jsq.recentProgress())[-count:]]


def limits_of(query: Any) -> tuple[float | None, ...] | None:
    """By source of a query, the most rows of a micro-batch: None: no limit, 0: of another kind."""
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


def plan_of(df: DataFrame) -> tuple[Any, Any, int]:
    """The query execution of a DataFrame, its RDD and its partitions; AQE runs the shuffles."""
    execution = df._jdf.queryExecution()
    rdd = execution.toRdd()
    return execution, rdd, int(rdd.getNumPartitions())


def pinned(df: DataFrame, rdd: Any, locations: Sequence[str]) -> tuple[DataFrame, Any]:
    """The rows of a DataFrame's RDD with these preferred locations, empty for none; their RDD."""
    spark: Any = df.sparkSession
    with _needed("partitions cannot be pinned"):
        found = _run(spark, _PIN, rdd, "\n".join(locations))
        made = spark._jsparkSession.internalCreateDataFrame(found, df._jdf.schema(), False)
        return DataFrame(made, spark), found


def observed_metrics(spark: Any, execution: Any) -> dict[str, dict[str, Any]]:
    """The metrics of ``DataFrame.observe`` in a query execution; empty before it ran."""
    java_of = spark.sparkContext._jvm.scala.jdk.javaapi.CollectionConverters.asJava
    try:
        rows = dict(java_of(execution.observedMetrics()))
    except PySparkException:
        return {}
    told = {name: (json.loads(row.json()), row.schema().fieldNames()) for name, row in rows.items()}
    return {name: {one: row.get(one) for one in names} for name, (row, names) in told.items()}


def preferred_hosts(spark: SparkSession, rdd: Any) -> list[tuple[str, ...]]:
    """The hosts that store each partition's data; none where the session cannot tell."""
    try:
        lines = str(_run(spark, _HOSTS, rdd)).split("\n")
    except Exception as error:  # what a source says of its data is a hint
        log.info("scheduling: where the data is stored is not known: %s", error)
        return []
    return [tuple(_host(one) for one in line.split("\t") if one) for line in lines]


def _host(location: str) -> str:
    """The host of a location in Spark's format."""
    if location.startswith("executor_"):
        return location.removeprefix("executor_").rpartition("_")[0]
    return location.removeprefix("hdfs_cache_")


def wait_for_executors(spark: SparkSession, rdd: int, seconds: float) -> int:
    """Set how long running stages of an RDD wait for executors; tasks of lost ones do not.

    To be repeated: Spark sets its own wait again when executors come or go. How many stages run.
    """
    milliseconds = min(round(seconds * 1000), 2**31 - 1)
    with _needed("the wait of a stage cannot be set"):
        return int(_run(spark, _WAIT, _context(spark), rdd, milliseconds))


@contextlib.contextmanager
def least_wait(spark: SparkSession) -> Iterator[None]:
    """Meanwhile tasks of all jobs wait for an executor for 3 s: new stages are found before."""
    conf, name = _context(spark).conf(), "spark.locality.wait.process"
    with _lock:
        _waits.append(conf.get(name) if conf.contains(name) else None)
        known = "spark.locality.wait" if _waits[-1] is None else name
        if len(_waits) == 1 and conf.getTimeAsMs(known, "3s") < 3000:
            conf.set(name, "3000ms")
    try:
        yield
    finally:
        with _lock:
            first, _ = _waits[0], _waits.pop()
            if not _waits:
                conf.remove(name) if first is None else conf.set(name, first)


@contextlib.contextmanager
def _needed(failure: str) -> Iterator[None]:
    """A member that is missing in the block is an error in words."""
    try:
        yield
    except _MISSING as error:
        verified = f"in this version of Spark (verified: {', '.join(VERIFIED)})"
        raise ActuatorError(f"{failure} {verified}: {error}") from error


def _run(spark: Any, script: str, *arguments: Any) -> Any:
    """Run a script in one call to the JVM, and return its result."""
    return _compiled(spark.sparkContext._gateway, script).run(*arguments)


@lru_cache(maxsize=8)
def _compiled(gateway: Any, script: str) -> Any:
    """A compiled script. A session that does not compile it raises in every call."""
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    found = gateway.jvm.org.codehaus.janino.ClassBodyEvaluator()
    found.setParentClassLoader(loader)
    found.cook(_IMPORTS + script)
    return found.getClazz().getConstructor(None).newInstance(None)
