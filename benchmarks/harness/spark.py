"""The Spark session of the benchmarks, and how they run DataFrames and streams."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from benchmarks.harness.machine import ROOT

AQE = "spark.sql.adaptive.enabled"
_TIMEOUT_S = 1_800.0

JVM, PYTHON = "bsjoin, JVM", "bsjoin, Python"

Join = Callable[[DataFrame], DataFrame]


def spark_session(
    memory: str = "6g", *, master: str = "local[*]", jars: Path | None = None
) -> SparkSession:
    """A session with the defaults of a user on this machine, without UI; the one that runs.

    ``jars`` is a folder of libraries that it needs.
    """
    if (running := SparkSession.getActiveSession()) is not None:
        return running  # whose settings would be changed
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    libraries = ",".join(map(str, sorted(jars.glob("*.jar")))) if jars else ""
    spark = (
        SparkSession.builder.master(master)
        .appName("bsjoin-benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count() or 2))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", memory)
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.jars", libraries)
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        # As docs/how-to/cluster.md recommends for narrow rows; Spark and all rivals gain by it.
        .config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
        # Arrow tables are read as an RDD. Of a smaller one than this, 48 MiB by default, all rows
        # are a part of the plan, and Spark goes through them in each analysis, with any join.
        .config("spark.sql.execution.arrow.localRelationThreshold", "0")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def in_runtime(name: str, join: Join) -> Join:
    """The same joins in one runtime, ``jvm`` or ``python``; an error where it cannot run them."""
    return with_settings({"runtime": {"jvm": "jvm-only"}.get(name, name)}, join)


def in_runtimes(join: Join, jvm: str = JVM) -> dict[str, Join]:
    """The same joins in both runtimes, by name; ``jvm``: the name of the first."""
    return {jvm: in_runtime("jvm", join), PYTHON: in_runtime("python", join)}


def with_settings(settings: Mapping[str, str], join: Join) -> Join:
    """The same joins, planned with settings of the session, named without ``spark.bsjoin.``."""
    named = {f"spark.bsjoin.{name}": value for name, value in settings.items()}

    def planned(stream: DataFrame) -> DataFrame:
        with configured(stream.sparkSession, named):
            return join(stream)

    return planned


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, object]) -> Iterator[None]:
    """Settings of a session for a while; then it has those that it had."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)  # type: ignore[arg-type]
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def consume(df: DataFrame) -> None:
    """Execute a DataFrame into a sink that discards all rows."""
    df.write.format("noop").mode("overwrite").save()


def collect_garbage() -> None:
    """Free what queries have left in the heap of the running session, if there is one."""
    if (running := SparkSession.getActiveSession()) is not None:
        jvm: Any = running._jvm
        jvm.System.gc()


def fingerprint(df: DataFrame, columns: Sequence[str]) -> tuple[int, int]:
    """Number of rows, and the sum of the hashes of all rows: equal for equal multisets.

    Spark's hash passes nulls over: which values are null is hashed, too.
    """
    nulls = (F.col(name).isNull() for name in columns)
    hashed = F.xxhash64(*columns, *nulls).cast("decimal(38,0)")
    row = df.agg(F.count(F.lit(1)), F.coalesce(F.sum(hashed), F.lit(0))).first()
    return row[0], int(row[1])


@contextmanager
def in_memory(*dfs: DataFrame) -> Iterator[list[DataFrame]]:
    """The same rows, in Spark's memory for a while."""
    kept = [df.persist() for df in dfs]
    try:
        for df in kept:
            df.count()
        yield kept
    finally:
        for df in kept:
            df.unpersist(blocking=True)


def rate_stream(spark: SparkSession, rows: int, partitions: int | None = None) -> DataFrame:
    """A stream of consecutive numbers ``value``, with so many rows per micro-batch."""
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", partitions or spark.sparkContext.defaultParallelism)
        .load()
    )


def file_stream(spark: SparkSession, schema: str, files: Path, per_batch: int = 1) -> DataFrame:
    """A stream of Parquet files, so many per micro-batch."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch)
    return reader.parquet(str(files))


def run_stream(df: DataFrame, batches: int | None = None) -> StreamingQuery:
    """Run a stream into a sink that discards all rows.

    Args:
        df: the stream.
        batches: stop after the micro-batch of this number; None: when the source is exhausted.

    Returns:
        The stopped query.

    Raises:
        RuntimeError: the query ended before, or takes too long.
        StreamingQueryException: the query failed.
    """
    writer = df.writeStream.format("noop")
    if batches is None:
        with running(writer.trigger(availableNow=True)) as query:
            query.awaitTermination()
        return query
    begun = time.monotonic()
    with running(writer.trigger(processingTime="0 seconds")) as query:
        while (last := query.lastProgress) is None or last.batchId < batches:
            if not query.isActive or time.monotonic() - begun > _TIMEOUT_S:
                raise RuntimeError(f"the query ended or takes too long: {query.exception()}")
            time.sleep(0.05)
    return query


@contextmanager
def running(writer: DataStreamWriter, folder: str | Path | None = None) -> Iterator[StreamingQuery]:
    """A query with a checkpoint of its own, below a folder if one is given; stopped at the end."""
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def add_batch_ms(query: StreamingQuery) -> list[float]:
    """Spark's own ``addBatch`` of each micro-batch with rows, in milliseconds."""
    return [float(p.durationMs["addBatch"]) for p in query.recentProgress if p.numInputRows]


def time_batches(stream: DataFrame, batches: int, warm_up: int) -> list[float]:
    """``addBatch`` in milliseconds of some micro-batches of a stream, after some uncounted."""
    times = add_batch_ms(run_stream(stream, warm_up + batches))
    return times[warm_up : warm_up + batches]
