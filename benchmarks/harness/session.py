"""The Spark session of the benchmarks, and measuring a streaming query's micro-batches."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

__all__ = ["JDBC_DRIVER", "add_batch_ms", "spark_session", "timed_s"]

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")  # Debian's libpostgresql-jdbc-java

ROOT = Path(__file__).resolve().parents[2]


def spark_session(memory: str = "6g", *, master: str = "local[*]") -> SparkSession:
    """A session as a user would have it on this machine, UI off.

    Args:
        memory: of the driver's JVM.
        master: all cores of this machine, or another one.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    spark = (
        SparkSession.builder.master(master)
        .appName("bsjoin-benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count() or 2))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", memory)
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.driver.extraClassPath", str(JDBC_DRIVER))
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def timed_s(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def add_batch_ms(
    spark: SparkSession,
    pipeline: Callable[[DataFrame], DataFrame],
    source: Callable[[], DataFrame],
    batches: int,
    warm_up: int,
) -> list[float]:
    """Run a pipeline over a stream into a sink that counts nothing, and time its micro-batches.

    Args:
        spark: the session.
        pipeline: from the stream to what is written.
        source: makes the stream, fast enough to be there whenever the query asks.
        batches: how many micro-batches to time.
        warm_up: how many to run before.

    Returns:
        Spark's own ``addBatch`` of each micro-batch, in milliseconds.
    """
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            pipeline(source())
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            while True:
                last = query.lastProgress
                if last is not None and last.batchId >= warm_up + batches:
                    break
                if not query.isActive:
                    raise RuntimeError(f"the query ended: {query.exception()}")
                time.sleep(0.05)
            done = [p for p in query.recentProgress if p.numInputRows > 0]
        finally:
            query.stop()
    times = [float(p.durationMs["addBatch"]) for p in done]
    return times[warm_up : warm_up + batches]
