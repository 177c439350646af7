"""What :mod:`kafka_checks` runs of faults, and of what a session has too little of."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from checks_apart import named
from pyspark.sql import DataFrame, SparkSession
from real_time_queries import warned
from servers import Kafka
from spark_samples import soon

import bsjoin
from examples import _kafka

# A query that gives up soon.
IMPATIENT = {
    "kafka.request.timeout.ms": "2000",
    "kafka.default.api.timeout.ms": "3000",
    "fetchOffset.numRetries": "2",
    "fetchOffset.retryIntervalMs": "100",
}


class Crashing(Kafka):
    """A broker that may begin again soon after a crash: not before its session has ended."""

    more = "broker.session.timeout.ms=3000"

    def command(self) -> Sequence[str | Path]:
        made = super().command()
        with (self.folder / "server.properties").open("a") as settings:
            settings.write(f"{self.more}\n")  # the last one counts
        return made


class Strict(Crashing):
    """A broker that makes no topics by itself."""

    more = "auto.create.topics.enable=false"


class Job:
    """A query that sends on each record with the name of its key, and what was sent.

    Args:
        spark: the session.
        folder: with the table and the checkpoint.
        address: of the broker.
    """

    def __init__(self, spark: SparkSession, folder: Path, address: str):
        self.spark, self.folder, self.address = spark, folder, address
        self.topics = [f"{kind}-{folder.parent.name}-{folder.name}" for kind in ("in", "out")]
        self.table = bsjoin.BatchTable.build(names(spark, 1), on="id", path=folder / "table")
        _kafka.create(address, dict.fromkeys(self.topics, 1))

    def send(self, first: int, last: int) -> None:
        """Records with the keys from one number to another, in order."""

        def record(number: int) -> dict[str, str]:
            return {"key": str(first + number), "value": ""}

        _kafka.send(self.address, self.topics[0], record, 1000, (last - first) / 1000)

    def start(self, checkpoint: str = "checkpoint", trigger: Any = None, **options: str) -> Any:
        """Start the query; in micro-batches without a pause by default."""
        kafka = {"kafka.bootstrap.servers": self.address}
        stream = self.spark.readStream.format("kafka").options(**kafka, **options)
        rows = stream.options(subscribe=self.topics[0], startingOffsets="earliest").load()
        keyed = rows.selectExpr("key", "bigint(CAST(key AS STRING)) AS id")
        sink = self.table.join(keyed).selectExpr("key", "name AS value").writeStream.format("kafka")
        sink = sink.options(**kafka, **options, topic=self.topics[1])
        sink = sink.option("checkpointLocation", str(self.folder / checkpoint))
        trigger = trigger or {"processingTime": "0 seconds"}
        mode = "update" if "realTime" in trigger else "append"
        return sink.outputMode(mode).trigger(**trigger).start()

    def run(self, checkpoint: str = "checkpoint", **options: str) -> str:
        """Let it read all that there is; what it says of a failure."""
        query = self.start(checkpoint, {"availableNow": True}, **options)
        soon(lambda: query.isActive, False)
        return str(query.exception() or "")

    def came(self) -> list[int]:
        """The keys that were sent on, each with its name."""
        found = [(one.key(), one.value()) for one in _kafka.read(self.address, self.topics[1])]
        assert all(value == b"name %d of 1" % int(key) for key, value in found), found
        return sorted(int(key) for key, _ in found)


def names(spark: SparkSession, issue: int) -> DataFrame:
    return spark.range(100).selectExpr("id", f"concat('name ', id, ' of {issue}') AS name")


def delete(address: str, topic: str, first: int) -> None:
    """Delete the records of a topic's only partition before one of them."""
    kafka = _kafka.client()
    admin = kafka.admin.AdminClient({"bootstrap.servers": address})
    for done in admin.delete_records([kafka.TopicPartition(topic, 0, first)]).values():
        done.result(30)


def a_broker_that_goes_away(spark: SparkSession, folder: Path) -> None:
    """A query waits for one that is back soon. One that stays away ends it, and nothing is lost."""
    _goes_away(spark, folder)


def a_broker_that_goes_away_in_real_time(spark: SparkSession, folder: Path) -> None:
    """The same; each stop repeats a batch."""
    _goes_away(spark, folder, {"realTime": "5 seconds"})


def _goes_away(spark: SparkSession, folder: Path, trigger: Any = None) -> None:
    def came() -> list[int]:
        return sorted(set(job.came())) if trigger else job.came()

    server = Crashing(_kafka.broker_jars())
    try:
        job = Job(spark, folder, server.url)
        job.send(0, 10)
        query = job.start(trigger=trigger)
        soon(came, [*range(10)])
        server.restart()
        job.send(10, 20)
        soon(came, [*range(20)])
        assert query.exception() is None
        if trigger is None:
            query.processAllAvailable()  # a stop before that is noted would have it sent again
        query.stop()

        query = job.start(trigger=trigger, **IMPATIENT)
        job.send(20, 30)
        soon(came, [*range(30)])
        server.kill()
        soon(lambda: query.isActive, False)
        told = str(query.exception()).lower()
        assert "timeout" in told or "timed out" in told, told
        server.start()
        job.send(30, 40)
        query = job.start(trigger=trigger)
        soon(lambda: sorted(set(job.came())), [*range(40)])
        query.stop()
    finally:
        server.remove()


def a_result_that_is_too_large(spark: SparkSession, folder: Path) -> None:
    """Each start ends, until sink and topic take it; what comes before and behind it is there."""
    job = Job(spark, folder, os.environ["KAFKA"])
    large = names(spark, 1).selectExpr("id", "if(id = 3, repeat('x', 1100000), name) AS name")
    job.table.refresh(large)
    job.send(0, 5)
    for _ in range(2):
        told = job.run()
        assert "RecordTooLargeException" in told, told
    room = "1200000"
    _kafka.create(job.address, {f"large-{job.topics[1]}": 1}, {"max.message.bytes": room})
    job.topics[1] = f"large-{job.topics[1]}"
    assert not job.run(**{"kafka.max.request.size": room})
    found = {int(one.key()): len(one.value()) for one in _kafka.read(job.address, job.topics[1])}
    assert found == {key: 1_100_000 if key == 3 else len("name 0 of 1") for key in range(5)}


def a_topic_of_the_sink_that_is_not_there(spark: SparkSession, folder: Path) -> None:
    """The query waits for it and ends; nothing is lost once it is there."""
    server = Strict(_kafka.broker_jars())
    try:
        job = Job(spark, folder, server.url)
        job.topics[1] = f"other-{job.topics[1]}"
        job.send(0, 5)
        told = job.run(**{"kafka.max.block.ms": "2000"})
        assert f"Topic {job.topics[1]} not present in metadata after 2000 ms" in told, told
        _kafka.create(job.address, {job.topics[1]: 1})
        assert not job.run()
        assert job.came() == [*range(5)]
    finally:
        server.remove()


def offsets_that_are_lost(spark: SparkSession, folder: Path) -> None:
    """The query ends and says so; one that goes on without them answers what is there."""
    job = Job(spark, folder, os.environ["KAFKA"])
    job.send(0, 10)
    assert not job.run()
    job.send(10, 30)
    delete(job.address, job.topics[0], 20)
    told = job.run()
    assert "failOnDataLoss" in told, told
    assert not job.run(failOnDataLoss="false")
    assert job.came() == [*range(10), *range(20, 30)]


def _delete_topic(job: Job) -> None:
    admin = _kafka.client().admin.AdminClient({"bootstrap.servers": job.address})
    for done in admin.delete_topics(job.topics[:1]).values():
        done.result(30)


def a_topic_that_is_deleted(spark: SparkSession, folder: Path) -> None:
    """The query ends, and goes on with another topic of its name where that has its offsets."""
    job = Job(spark, folder, os.environ["KAFKA"])
    job.send(0, 10)
    query = job.start(**IMPATIENT)
    query.processAllAvailable()
    _delete_topic(job)
    soon(lambda: query.isActive, False)
    told = str(query.exception())
    assert "UnknownTopicOrPartition" in told or "failOnDataLoss" in told, told
    _kafka.create(job.address, {job.topics[0]: 1})
    job.send(50, 55)
    told = job.run()
    assert "failOnDataLoss" in told, told
    assert job.came() == [*range(10)]
    assert not job.run("another")
    assert job.came() == [*range(10), *range(50, 55)]
    # One with as many records as there were goes on behind these.
    _delete_topic(job)
    _kafka.create(job.address, {job.topics[0]: 1})
    job.send(60, 75)
    assert not job.run("another")
    assert job.came() == [*range(10), *range(50, 55), *range(65, 75)]


def a_record_that_a_broker_refuses(spark: SparkSession, folder: Path) -> None:
    """Who sends it is told."""
    topic = f"small-{folder.parent.name}"
    _kafka.create(os.environ["KAFKA"], {topic: 1}, {"max.message.bytes": "1000"})

    with pytest.raises(RuntimeError, match=r"did not take 1 of 1 records: .*MSG_SIZE_TOO_LARGE"):
        _kafka.send(os.environ["KAFKA"], topic, lambda _: {"value": "x" * 2_000}, 1000, 0.001)


def as_many_slots_as_partitions(spark: SparkSession, folder: Path) -> None:
    """Each run in real-time mode says once that a refresh waits until the batch ends; it does."""
    job = Job(spark, folder, os.environ["KAFKA"])
    job.topics[0] = f"three-{job.topics[0]}"
    _kafka.create(job.address, {job.topics[0]: 3})
    with warned(spark) as said:
        query = job.start(trigger={"realTime": "5 seconds"})
        try:
            job.send(0, 10)
            soon(job.came, [*range(10)])
            assert f"3 here ({job.topics[0]}), and there are 3: a refresh in this" in said(), said()
            assert "local[4], or refresh from another application" in said(), said()
            job.table.refresh(names(spark, 2))
            soon(lambda: (folder / "checkpoint" / "commits" / "0").exists(), True)
        finally:
            query.stop()
        assert said().count("real-time mode") == 1, said()
        repeats = f"query {query.id} repeats the batch that runs when it"
        assert said().count(repeats) == 1, said()
        query = job.start(trigger={"realTime": "5 seconds"})
        soon(lambda: [said().count(one) for one in ("real-time mode", repeats)], [2, 2])
        query.stop()


def partitions_of_all_sources_hold_slots(spark: SparkSession, folder: Path) -> None:
    """Those of two topics, of one that two sources read, and those that it has got meanwhile."""
    job = Job(spark, folder, os.environ["KAFKA"])
    kafka, broker = {"kafka.bootstrap.servers": job.address}, _kafka.client()
    first, second = (f"{number}-{job.topics[0]}" for number in ("first", "second"))
    _kafka.create(job.address, {first: 2, second: 2})

    def start(checkpoint: str, *topics: str) -> Any:
        joined = []
        for topic in topics:
            stream = spark.readStream.format("kafka").options(**kafka, subscribe=topic).load()
            keyed = stream.selectExpr("key", "bigint(CAST(key AS STRING)) AS id")
            joined.append(job.table.join(keyed).selectExpr("key", "name AS value"))
        sink = functools.reduce(DataFrame.union, joined).writeStream.format("kafka")
        sink = sink.options(**kafka, topic=job.topics[1]).outputMode("update")
        sink = sink.option("checkpointLocation", str(folder / checkpoint))
        return sink.trigger(realTime="5 seconds").start()

    def refused(query: Any, topics: str) -> None:
        soon(lambda: query.isActive, False)
        cause = bsjoin.errors.cause_of(query.exception())
        assert isinstance(cause, bsjoin.errors.WorkerEnvironmentError), query.exception()
        assert f"4 here ({topics}), and there are 3" in str(cause), cause

    refused(start("two", first, second), f"{first}, {second}")
    refused(start("one", first, first), first)
    grows = start("grows", first)
    soon(lambda: (folder / "grows" / "offsets").exists(), True)
    admin = broker.admin.AdminClient({"bootstrap.servers": job.address})
    for done in admin.create_partitions([broker.admin.NewPartitions(first, 4)]).values():
        done.result(30)
    refused(grows, first)


CHECKS = named(
    offsets_that_are_lost,
    partitions_of_all_sources_hold_slots,
    as_many_slots_as_partitions,
    a_broker_that_goes_away,
    a_broker_that_goes_away_in_real_time,
    a_record_that_a_broker_refuses,
    a_result_that_is_too_large,
    a_topic_of_the_sink_that_is_not_there,
    a_topic_that_is_deleted,
)
