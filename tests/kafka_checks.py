"""Late rows, keys, slots and faults, with a broker of Kafka. A program; see :mod:`checks_apart`.

The environment names the broker (``KAFKA``) and the folder with the jars of Spark's connector
(``KAFKA_CONNECTOR``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import checks_apart
import kafka_fault_checks
import kafka_page_checks
import pytest
import sessions
from kafka_page_checks import send, wait
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from real_time_queries import SHORT_BATCHES

import bsjoin
from examples import _kafka
from scheduling.flow import flow, offsets
from scheduling.spark.internals import limits_of


def raw_keys(spark: SparkSession, folder: Path) -> None:
    """Keys that are no text are compared byte by byte, with a binary column of the table."""
    address, broker = os.environ["KAFKA"], {"kafka.bootstrap.servers": os.environ["KAFKA"]}
    asked, out = (f"{kind}-{folder.parent.name}-{folder.name}" for kind in ("asked", "out"))
    _kafka.create(address, {asked: 1, out: 1})
    names = {b"\x00\xff": "Ada", b"": "Ben", b"\x00": "Cleo"}
    rows = [(bytearray(key), name) for key, name in names.items()]
    customers = spark.createDataFrame(rows, "key binary, name string")
    table = bsjoin.BatchTable.build(customers, on="key", path=folder / "table")
    keys = [b"\x00\xff", b"", b"\x00", b"\xff\x00", b"\x00\xff\x00", None]
    send(asked, ({"key": key, "value": ""} for key in keys))
    reader = spark.readStream.format("kafka").options(**broker, subscribe=asked)
    records = reader.option("startingOffsets", "earliest").load().select("key")
    for number, runtime in enumerate(("jvm", "python"), 1):
        with sessions.configured(spark, {"spark.bsjoin.runtime": runtime}):
            sent = table.join(records, how="left").selectExpr("key", "name AS value")
            sink = sent.writeStream.format("kafka").options(**broker, topic=out)
            sink = sink.option("checkpointLocation", str(folder / runtime))
            sink.trigger(availableNow=True).start().awaitTermination()
        found = [(one.key(), one.value()) for one in _kafka.read(address, out)]
        wanted = [(key, names[key].encode() if key in names else None) for key in keys]
        assert found == wanted * number, (runtime, found)


def fewer_slots_than_partitions(spark: SparkSession, folder: Path) -> None:
    """Real-time mode says it, before it leaves partitions unread; micro-batches take turns."""
    topic, out = (f"{kind}-{folder.parent.name}" for kind in ("wide", "narrow"))
    _kafka.create(os.environ["KAFKA"], {topic: 4, out: 1})
    names = spark.createDataFrame([(1, "Ada")], "id long, name string")
    table = bsjoin.BatchTable.build(names, on="id", path=folder / "table")
    broker = {"kafka.bootstrap.servers": os.environ["KAFKA"]}
    send(topic, ({"key": "1", "value": str(n), "partition": n % 4} for n in range(40)))

    def start(mode: str, **trigger: Any) -> Any:
        read = spark.readStream.format("kafka").options(**broker, subscribe=topic)
        rows = read.option("startingOffsets", "earliest").load()
        keyed = rows.selectExpr("bigint(CAST(key AS STRING)) AS id", "value")
        sink = table.join(keyed).selectExpr("concat(value, name) AS value").writeStream
        sink = sink.format("kafka").options(**broker, topic=out)
        sink = sink.option("checkpointLocation", str(folder / "checkpoint")).outputMode(mode)
        return sink.trigger(**trigger).start()

    refused = start("update", realTime="5 seconds")
    try:
        wait(lambda: refused.exception() is not None)
    finally:
        refused.stop()
    cause = bsjoin.errors.cause_of(refused.exception())
    assert isinstance(cause, bsjoin.errors.WorkerEnvironmentError), refused.exception()
    assert f"4 here ({topic}), and there are 3" in str(cause), cause
    assert "local[5]" in str(cause), cause
    start("append", availableNow=True).awaitTermination()
    assert len(_kafka.read(os.environ["KAFKA"], out)) == 40


def late_rows(spark: SparkSession, folder: Path) -> None:
    """Orders before their customer: each is in one place, and a replay sends the same again.

    Those that come first in real-time mode, of which Python knows from Spark 4.2 on; those that
    wait in a micro-batch of the JVM; and in one of Python they are found, or have waited too long.
    """
    broker = {"kafka.bootstrap.servers": os.environ["KAFKA"]}
    names = {
        name: f"{name}-{folder.parent.name}-{folder.name}"
        for name in ("orders", "enriched", "retry", "dead")
    }
    _kafka.create(os.environ["KAFKA"], dict.fromkeys(names.values(), 1))

    def records(topic: str) -> list[tuple[bytes, bytes, dict[str, bytes]]]:
        found = _kafka.read(os.environ["KAFKA"], names[topic])
        return [(one.key(), one.value(), dict(one.headers() or [])) for one in found]

    def customers(*ids: int) -> Any:
        return spark.createDataFrame([(i, f"name {i}") for i in ids], "id long, name string")

    table = bsjoin.BatchTable.build(customers(1, 2), on="id", path=folder / "customers")

    def run(topic: str, patience: str, trigger: dict[str, Any], mode: str = "append") -> Any:
        stream = spark.readStream.format("kafka").options(**broker, subscribe=names[topic])
        options = stream.option("startingOffsets", "earliest").option("includeHeaders", "true")
        keyed = options.load().withColumn("id", F.expr("try_cast(CAST(key AS STRING) AS BIGINT)"))
        joined = table.join(keyed, how="left", indicator="found")
        sent = bsjoin.kafka.route(
            joined,
            value="to_json(struct(CAST(value AS STRING) AS order, name))",
            topic=names["enriched"],
            retry=names["retry"],
            dead=names["dead"],
            patience=patience,
        )
        sink = sent.writeStream.format("kafka").options(**broker, includeHeaders="true")
        sink = sink.option("checkpointLocation", str(folder / topic)).outputMode(mode)
        return sink.trigger(**trigger).start()

    def run_to_its_end(patience: str, runtime: str) -> bsjoin.kafka.RouteProgress:
        with sessions.configured(spark, {"spark.bsjoin.runtime": runtime}):
            query = run("retry", patience, {"availableNow": True})
            query.awaitTermination()
        assert {one.runtime for one in bsjoin.progress(query)} == {runtime}
        (found,) = bsjoin.kafka.progress(query)
        assert found.topic == names["enriched"], found
        return found

    def routed(query: Any) -> tuple[int, ...]:
        """What became of the rows in all batches."""
        told = bsjoin.kafka.progress(query)
        kinds = ("found", "recovered", "waiting", "expired")
        return tuple(sum(getattr(one, kind) for one in told) for kind in kinds)

    trace = {"headers": [("trace", b"t")]}
    send(names["orders"], ({"key": f"{k}", "value": f"order {k}", **trace} for k in (1, 7, 2, 9)))

    if spark.version.startswith("4.1."):
        first = run("orders", "1 hour", {"processingTime": "0 seconds"})
    else:
        with sessions.configured(spark, SHORT_BATCHES):
            first = run("orders", "1 hour", {"realTime": "2 seconds"}, "update")
    wait(lambda: first.exception() is not None or sum(routed(first)) == 4)
    assert first.exception() is None, first.exception()
    first.stop()
    assert routed(first) == (2, 0, 2, 0), bsjoin.kafka.progress(first)
    assert {one.waiting_now for one in bsjoin.kafka.progress(first)} == {None}
    once = [(b"7", b"order 7"), (b"9", b"order 9")]
    waits = bsjoin.kafka.WAITING_SINCE
    assert [(k, v) for k, v, _ in records("retry")] == once
    assert [has for _, _, has in records("retry")] == [{"trace": b"t", waits: b""}] * 2

    second = run_to_its_end("1 hour", "jvm")
    assert (second.found, second.waiting, second.waiting_now) == (0, 2, 2), second
    since = [int(has[waits]) for _, _, has in records("retry")[2:]]
    assert abs(since[0] / 1000 - time.time()) < 600, since
    table.refresh(customers(1, 2, 7))
    last = run_to_its_end("1 ms", "python")
    assert (last.found, last.recovered, last.waiting, last.expired) == (1, 1, 0, 1), last
    assert last.waiting_now == 0, last
    enriched = [(k, json.loads(v)) for k, v, _ in records("enriched")]
    found = {b"%d" % i: {"order": f"order {i}", "name": f"name {i}"} for i in (1, 2, 7)}
    assert sorted(enriched, key=repr) == sorted(found.items()), enriched
    waited = {bsjoin.kafka.WAITED_SINCE: str(since[0]).encode()}
    assert records("enriched")[-1][2] == {"trace": b"t", **waited}
    dead = [(b"9", b"order 9", {"trace": b"t", waits: str(since[1]).encode()})]
    assert records("dead") == dead

    # A crash after the rows were sent, before that was noted; and the table has changed since.
    table.refresh(customers(1, 2, 7, 9))
    commits = sorted((folder / "retry" / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    commits[-1].unlink()
    if spark.version.startswith("4.1."):
        # Its connector does not know the latest offsets of a topic when such a micro-batch has
        # been committed, and wants to tell them.
        with pytest.raises(StreamingQueryException, match=r"Option\.get\(\)"):
            run_to_its_end("1 ms", "jvm")
        ended = run("retry", "1 ms", {"availableNow": True})
        ended.awaitTermination()
    else:
        again = run_to_its_end("1 ms", "jvm")
        assert (again.found, again.recovered, again.expired) == (1, 1, 1), again
        assert again.waiting_now is None, again  # Spark does not tell what the topic has
    assert records("dead") == dead * 2
    assert [(k, json.loads(v)) for k, v, _ in records("enriched")][-1] == enriched[-1]
    assert len(records("enriched")) == 4

    if spark.version.startswith("4.1."):
        return
    # Records that are gone before they were read: the query says so, and sends nothing.
    send(names["retry"], ({"key": "1", "value": "late"} for _ in range(2)))
    last_one = len(records("retry")) - 1
    kafka_fault_checks.delete(os.environ["KAFKA"], names["retry"], last_one)
    lost = run("retry", "1 hour", {"availableNow": True})
    wait(lambda: not lost.isActive)
    assert "failOnDataLoss" in str(lost.exception()), lost.exception()
    assert len(records("enriched")) == 4


def what_arrives_and_what_waits(spark: SparkSession, folder: Path) -> None:
    """Progress tells both, behind a limit, by the offsets of the partitions."""
    broker = {"kafka.bootstrap.servers": os.environ["KAFKA"]}
    topic = f"flow-{folder.parent.name}-{folder.name}"
    _kafka.create(os.environ["KAFKA"], {topic: 1})
    send(topic, ({"value": str(n)} for n in range(1000)))
    reader = spark.readStream.format("kafka").options(**broker, subscribe=topic)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 200).load()
    begun = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "flow"))
    query = begun.start()
    try:
        query.processAllAvailable()
        send(topic, ({"value": str(n)} for n in range(500)))
        query.processAllAvailable()
        limits = limits_of(query)
        found = [json.loads(one.json) for one in query.recentProgress if one.numInputRows]
    finally:
        query.stop()
    assert limits == (200.0,), limits
    assert sum(one["numInputRows"] for one in found) == 1500
    second = flow(found[0], found[1:2], limits)
    assert (second.arrived, second.done, second.waiting) == (0, 200, 600), second
    last = next(k for k, one in enumerate(found) if offsets_of(one) > 1000)
    rest = flow(found[last - 1], found[last:], limits)
    assert (rest.arrived, rest.done) == (500, sum(o["numInputRows"] for o in found[last:])), rest


def offsets_of(progress: dict[str, Any]) -> float:
    """How many records the topic had."""
    return sum((offsets(progress["sources"][0]["latestOffset"]) or {}).values())


CHECKS = checks_apart.named(late_rows)
LONG = {**kafka_fault_checks.CHECKS, **kafka_page_checks.CHECKS} | checks_apart.named(
    raw_keys,
    fewer_slots_than_partitions,
    what_arrives_and_what_waits,
)

if __name__ == "__main__":
    jars = ",".join(map(str, Path(os.environ["KAFKA_CONNECTOR"]).glob("*.jar")))
    options = "spark.driver.extraJavaOptions"
    limited = f"{sessions.INTERPRETED[options]} {kafka_page_checks.LIMITS}"
    checks_apart.run(
        {"long": LONG, "real-time": kafka_page_checks.REAL_TIME}.get(sys.argv[-1], CHECKS),
        sessions.session(
            "local[3]", {**sessions.INTERPRETED, options: limited, "spark.jars": jars}
        ),
    )
