"""What :mod:`test_jvm_cluster` runs: joins on a cluster whose executors come and go."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from cache_samples import until
from checks_apart import TESTS, named, run
from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.sql import DataFrame, SparkSession
from sessions import CLUSTER, on_this_machine, session
from spark_samples import Feed, cycles
from standalone import add_worker, process_of, start

from bsjoin import BatchTable, jar, kafka

SEED = 16
PARTITIONS = 4
TABLE = 200  # keys, the first half of them twice
OPTIONS = {
    **CLUSTER,
    "spark.bsjoin.runtime": "jvm",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
    "spark.locality.wait": "0",
    # Code that cannot be compiled, as where the jar is not there, is an error.
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.codegen.fallback": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.5",
}

RECORD = (
    "CAST(string(k) AS BINARY) AS key",
    "CAST('as it came' AS BINARY) AS value",
    "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    "current_timestamp() AS timestamp",
)

ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "3s",
    "spark.executor.cores": "1",
}


def rows_of(spark: SparkSession, version: int) -> DataFrame:
    return spark.range(TABLE + TABLE // 2).selectExpr(f"id % {TABLE} AS k", f"{version} AS v")


def right(keys: Iterable[int], version: int) -> Counter[tuple[Any, ...]]:
    """What a left join answers."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key in keys:
        found[key, version if key < TABLE else None] += 1 + (key < TABLE // 2)
    return found


class Stream:
    """A query on the cluster whose tasks can be slow; it tells where each row was.

    Its rows are routed as records of Kafka are, which counts them.

    Args:
        spark: the session.
        folder: of its own.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.table = BatchTable.build(rows_of(spark, 1), on="k", path=folder / "table")
        self.feed = Feed(spark, folder)
        self.tasks = folder / "tasks"
        self.tasks.mkdir()
        self.batches: list[list[int]] = []
        self._random = random.Random(SEED)
        self.pace = folder / "pace"
        self.set_pace()
        records = self.feed.stream.repartition(PARTITIONS).selectExpr("k", *RECORD)
        joined = self.table.join(records, how="left", indicator="found")
        sent = kafka.route(
            joined, value="string(v)", topic="out", retry="again", dead="never", patience=1
        )
        answers = sent.selectExpr(
            "bigint(string(key)) AS k", "int(IF(topic = 'out', string(value), NULL)) AS v"
        )
        paced = answers.mapInArrow(paced_by(self.pace, self.tasks), "k long, v int, at string")
        self.query = self.feed.start(paced)

    def set_pace(self, each: float = 0, first: float = 0) -> None:
        """How many seconds each task takes, and how many more the first partition's first one."""
        self.pace.write_text(json.dumps([each, first]))

    def add(self) -> None:
        """Add the rows of one micro-batch: some keys are in the table twice, others not at all."""
        self.batches.append([self._random.randrange(TABLE * 5 // 4) for _ in range(200)])
        self.feed.add(*self.batches[-1])

    def run(self) -> set[str]:
        """Run one more micro-batch; the workers that its rows were on."""
        self.add()
        self.query.processAllAvailable()
        return {at for *_, at in self.feed.results[len(self.batches) - 1]}

    def attempts(self) -> Counter[tuple[int, int]]:
        """How many tasks have begun for each micro-batch and partition."""
        return Counter(tuple(map(int, f.name.split("-")[:2])) for f in self.tasks.iterdir())

    def check(self) -> list[int]:
        """Hold rows and figures against what they must be; the versions that have answered."""
        self.query.stop()
        figures = cycles(self.query)
        assert [figure.batch_id for figure in figures] == [*range(len(self.batches))]
        sent = kafka.progress(self.query)
        for number, (keys, figure) in enumerate(zip(self.batches, figures, strict=True)):
            wanted = right(keys, figure.table_version)
            found = Counter((k, v) for k, v, _ in self.feed.results[number])
            assert found == wanted, (number, found - wanted, wanted - found)
            hits = sum(key < TABLE for key in keys)
            got = (figure.runtime, figure.rows_in, figure.hits, figure.misses, figure.rows_out)
            rows = wanted.total()
            assert got == ("jvm", len(keys), hits, len(keys) - hits, rows), (number, got, rows)
            misses = len(keys) - hits
            assert (sent[number].found, sent[number].waiting) == (rows - misses, misses), number
        return [figure.table_version or 0 for figure in figures]


def paced_by(pace: Path, tasks: Path) -> Callable[[Iterator[pa.RecordBatch]], Any]:
    """A function for ``mapInArrow`` that is slow behind the join, and adds the worker's name."""

    def paced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        at = next(part for part in Path.cwd().parts if part.startswith("worker-"))
        number = task.getLocalProperty("streaming.sql.batchId")
        for batch in batches:
            (tasks / f"{number}-{task.partitionId()}-{task.taskAttemptId()}-{at}").touch()
            each, first = json.loads(pace.read_text())
            straggles = task.partitionId() == 0 and task.attemptNumber() == 0
            time.sleep(each + first * straggles)
            yield batch.append_column("at", pa.array([at] * batch.num_rows))

    return paced


wait_for = functools.partial(until, seconds=180)  # a slow machine starts executors slowly


def executors(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1


class Graphite(socketserver.StreamRequestHandler):
    """A server to which the executors' sink writes; the last value of each name."""

    found: ClassVar[dict[str, float]] = {}

    def handle(self) -> None:
        for line in self.rfile:
            name, value, _ = line.decode().split(" ")
            self.found[name] = float(value)


def an_executor_writes_its_figures_to_its_sink(spark: SparkSession, folder: Path) -> None:
    """The first and only one: it has looked nothing up before."""
    table = BatchTable.build(rows_of(spark, 1), on="k", path=folder / "table")
    keys = spark.range(TABLE * 5 // 4).withColumnRenamed("id", "k")
    rows = len(table.join(keys, how="left").collect())
    wanted = {"input_rows.count": TABLE * 5 // 4, "hit_rows.count": TABLE, "open_tables": 1}
    wanted["output_rows.count"] = rows

    def told() -> dict[str, float]:
        begin = f"{spark.sparkContext.applicationId}.0.bsjoin_lookups."
        names = [name for name in [*Graphite.found] if name.startswith(begin)]
        return {name.removeprefix(begin): Graphite.found[name] for name in names}

    wait_for(lambda: wanted.items() <= told().items(), f"{wanted} in the sink")
    assert told()["mapped_bytes"] > 0
    assert told()["open_nanoseconds.count"] > 0


def executors_join_straggle_and_die(spark: SparkSession, folder: Path) -> None:
    """In the end the table is refreshed meanwhile; all executors follow."""
    stream = Stream(spark, folder)
    assert stream.run() == {"worker-0"}
    add_worker(SparkContext._gateway, Path.cwd(), str(spark.sparkContext.master), 1)
    wait_for(lambda: executors(spark) == 2, "the executor of the new worker")
    # The other worker is busy for longer than this one needs to begin: no speculation overtakes it.
    stream.set_pace(each=1)
    wait_for(lambda: "worker-1" in stream.run(), "a task on the new worker")
    assert list(Path.cwd().glob(f"worker-1/app-*/*/{Path(jar()).name}"))

    stream.set_pace(first=20)
    stream.run()
    straggled = len(stream.batches) - 1
    assert stream.attempts()[straggled, 0] > 1, stream.attempts()

    stream.set_pace(each=1)
    victim, number = process_of(spark, "127.0.0.3"), len(stream.batches)

    def kill() -> None:
        wait_for(lambda: list(stream.tasks.glob(f"{number}-*-worker-1")), "a task of the victim")
        os.kill(victim, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    stream.run()
    thread.join()
    assert max(count for (batch, _), count in stream.attempts().items() if batch == number) > 1

    def refresh() -> None:
        for version in (2, 3):
            BatchTable.open(folder / "table").refresh(rows_of(spark, version))

    thread = threading.Thread(target=refresh)
    thread.start()
    while thread.is_alive():
        stream.run()
    # The one that comes in the killed one's place has no jar of its own, nor a mapping.
    wait_for(lambda: "worker-1" in stream.run(), "an executor in the place of the killed one")
    assert process_of(spark, "127.0.0.3") != victim
    stream.run()  # the newest version may have been too new for the last one
    versions = stream.check()
    assert versions == sorted(versions)
    assert (versions[number], versions[-1]) == (1, 3)


def executors_come_and_go_by_themselves(spark: SparkSession, folder: Path) -> None:
    """With Spark's dynamic allocation each micro-batch has an executor that knows nothing yet."""
    stream = Stream(spark, folder)
    processes = set()
    for version in (1, 2, 3):
        if version > 1:
            stream.table.refresh(rows_of(spark, version))
            time.sleep(0.3)  # it is to be seen 0.1 s before it is used
        stream.run()
        processes.add(process_of(spark, "127.0.0.2"))
        wait_for(lambda: executors(spark) == 0, "the end of an executor without work")
    assert len(processes) == 3
    assert stream.check() == [1, 2, 3]


CHECKS = named(
    an_executor_writes_its_figures_to_its_sink,
    executors_join_straggle_and_die,
    executors_come_and_go_by_themselves,
)


def main() -> None:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Graphite)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sink = {
        "class": "org.apache.spark.metrics.sink.GraphiteSink",
        "host": "127.0.0.1",
        "port": str(server.server_address[1]),
        "period": "1",
    }
    sinks = {f"spark.metrics.conf.executor.sink.graphite.{name}": v for name, v in sink.items()}
    allocation = (
        ALLOCATION if sys.argv[1:] == [executors_come_and_go_by_themselves.__name__] else {}
    )
    options = on_this_machine(OPTIONS | sinks | allocation, "driver", "executor")
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(options.items())))
    master = start(SparkContext._gateway, Path.cwd(), (1,), ("",))
    spark = session(master, options)
    wait_for(lambda: executors(spark) == 1, "the executor of the first worker")
    run({name: CHECKS[name] for name in sys.argv[1:] or CHECKS}, spark)


if __name__ == "__main__":
    main()
