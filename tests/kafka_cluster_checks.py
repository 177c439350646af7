"""What :mod:`kafka_checks` runs, with an executor that is a process of its own. A program.

Kafka's sink writes from executors. Here these have no part of the driver: jars, packages and the
stored table come to them as on a cluster.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import kafka_checks
import sessions
from checks_apart import TESTS, named, run
from kafka_fault_checks import Job
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from spark_samples import cycles
from standalone import process_of, start

SLOWLY = "left(reflect('java.lang.Thread', 'sleep', 40L), 0)"
"""An empty text, after a moment: so that a kill finds a part of a micro-batch sent."""


def an_executor_is_killed_while_it_sends(spark: SparkSession, folder: Path) -> None:
    """Another one in its place sends the micro-batch again: nothing is lost, all is equal."""
    job = Job(spark, folder, os.environ["KAFKA"])
    job.send(0, 100)
    for number, runtime in enumerate(("jvm", "python"), 1):
        before = len(job.came())
        with sessions.configured(spark, {"spark.bsjoin.runtime": runtime}):
            query = started(job, runtime)
        kafka_checks.wait(lambda before=before: before + 10 < len(job.came()) < before + 90, 180)
        victim = process_of(spark, "127.0.0.2")
        os.kill(victim, signal.SIGKILL)
        query.processAllAvailable()
        query.stop()
        came = job.came()
        assert process_of(spark, "127.0.0.2") != victim
        assert {*came} == {*range(100)}
        assert len(came) > before + 100, "what the killed one had sent is sent again"
        assert min(map(came.count, range(100))) == number
        (figures,) = cycles(query)
        found = (figures.runtime, figures.rows_in, figures.hits, figures.rows_out)
        assert found == (runtime, 100, 100, 100), found


def started(job: Job, checkpoint: str) -> Any:
    """A query like that of the job, which takes its time."""
    kafka = {"kafka.bootstrap.servers": job.address}
    read = job.spark.readStream.format("kafka").options(**kafka, subscribe=job.topics[0])
    keyed = read.option("startingOffsets", "earliest").load()
    rows = job.table.join(keyed.selectExpr("key", "bigint(CAST(key AS STRING)) AS id"))
    sink = rows.selectExpr("key", f"concat(name, {SLOWLY}) AS value").writeStream.format("kafka")
    sink = sink.options(**kafka, topic=job.topics[1])
    return sink.option("checkpointLocation", str(job.folder / checkpoint)).start()


CHECKS = named(
    an_executor_is_killed_while_it_sends,
    kafka_checks.json_in_real_time,
    kafka_checks.late_rows,
)


def main() -> None:
    """The same on a standalone cluster with one executor."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    jars = ",".join(map(str, Path(os.environ["KAFKA_CONNECTOR"]).glob("*.jar")))
    settings = {
        **sessions.CLUSTER,
        **sessions.CODE["python"],
        "spark.jars": jars,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
    }
    options = sessions.on_this_machine(settings, "driver", "executor")
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(options.items())))
    master = start(SparkContext._gateway, Path.cwd(), (3,), ("",))
    spark = sessions.session(master, options)
    context: Any = spark.sparkContext._jsc.sc()
    kafka_checks.wait(lambda: context.getExecutorMemoryStatus().size() == 2, 180)
    run(CHECKS, spark)


if __name__ == "__main__":
    main()
