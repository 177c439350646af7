"""What :mod:`kafka_checks` runs, with an executor that is a process of its own. A program.

Kafka's sink writes from executors. Here these have no part of the driver: jars, packages and the
stored table come to them as on a cluster.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import kafka_checks
import kafka_page_checks
import sessions
from checks_apart import TESTS, named, run
from kafka_fault_checks import Job
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from real_time_queries import warned
from spark_samples import cycles
from standalone import process_of, start

from examples import _kafka

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
        kafka_page_checks.wait(
            lambda before=before: before + 10 < len(job.came()) < before + 90, 180
        )
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


def fewer_slots_than_partitions(spark: SparkSession, folder: Path) -> None:
    """The log says it, unless executors come by themselves; there is no error."""
    context: Any = spark.sparkContext._jsc.sc()
    for grows in (True, False):
        job = Job(spark, folder / str(grows), os.environ["KAFKA"])
        job.topics[0] = f"four-{job.topics[0]}"
        _kafka.create(job.address, {job.topics[0]: 4})
        # Only what reads the setting from now on sees it: no executor comes or goes.
        context.conf().set("spark.dynamicAllocation.enabled", str(grows).lower())
        try:
            with warned(spark) as said:
                query = job.start(trigger={"realTime": "5 seconds"})
                repeats = f"query {query.id} repeats the batch"
                kafka_page_checks.wait(lambda repeats=repeats, said=said: repeats in said())
                time.sleep(1)
                assert query.exception() is None, query.exception()
                query.stop()
        finally:
            context.conf().remove("spark.dynamicAllocation.enabled")
        told = f"4 here ({job.topics[0]}), and there are 3: the other partitions are not read"
        assert (told in said()) != grows, said()
        assert ("Give the executors 5 cores in all" in said()) != grows, said()


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
    fewer_slots_than_partitions,
    kafka_page_checks.avro_in_real_time,
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
    kafka_page_checks.wait(lambda: context.getExecutorMemoryStatus().size() == 2, 180)
    run(CHECKS, spark)


if __name__ == "__main__":
    main()
