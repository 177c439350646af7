"""The Kafka example of the documentation, with a broker. A program; see :mod:`checks_apart`.

The environment names the broker (``KAFKA``) and the folder with the jars of Spark's connector
(``KAFKA_CONNECTOR``).
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import checks_apart
import kafka_fault_checks
import pytest
import sessions
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from real_time_queries import SHORT_BATCHES

import bsjoin
from examples import _kafka
from scheduling.flow import flow, offsets
from scheduling.spark.internals import limits_of

PAGES = Path(__file__).resolve().parent.parent / "docs" / "how-to"

Record = tuple[bytes | None, bytes | None, str | None, dict[str, Any]]
"""Key, value and header; and the value that comes back, with the name of the customer."""

RECORDS: list[Record] = [
    (b"1", b'{"order_id": 100, "amount": 9.5, "tags": ["a"]}', "web",
     {"order": {"order_id": 100, "amount": 9.5, "tags": ["a"]}, "name": "Ada"}),
    (b"3", b'{"order_id": 101}', None, {"order": {"order_id": 101}, "name": "Cleo"}),
    (b"4", b'{"order_id": 102}', None, {"order": {"order_id": 102}}),
    (b"seven", b'{"order_id": 103}', "shop", {"order": {"order_id": 103}}),
    (b"1.5e3", b"[1, 2]", None, {"order": [1, 2]}),
    (b"99999999999999999999", b'{"order_id": 104}', None, {"order": {"order_id": 104}}),
    (b"\xff\xfe", b'{"order_id": 105}', None, {"order": {"order_id": 105}}),
    (None, b'{"order_id": 106}', None, {"order": {"order_id": 106}}),
    (b"2", b'no "JSON" {', None, {"order": 'no "JSON" {', "name": "Ben"}),
    (b"3", None, None, {"name": "Cleo"}),
    (b"2", b"null", None, {"order": None, "name": "Ben"}),
]  # fmt: skip


# A value of Avro: an order's number, as a varint, and a double.
SCHEMA_7 = bytes(4) + b"\x07"
AVRO = b"\xd0\x0f" + struct.pack("<d", 9.5)  # 1000 and 9.5
ORDER = {"order_id": 1000, "amount": 9.5}


def unread(value: bytes) -> dict[str, str]:
    return {"unread": base64.b64encode(value).decode()}


AVRO_RECORDS: list[Record] = [
    (b"1", SCHEMA_7 + AVRO, "web", ORDER | {"name": "Ada"}),
    (b"one", SCHEMA_7 + AVRO, None, ORDER),
    (b"\xff", SCHEMA_7 + AVRO, None, ORDER),
    (None, SCHEMA_7 + AVRO, None, ORDER),
    (b"3", None, None, {"name": "Cleo"}),
    *(
        (b"2", value, None, unread(value) | {"name": "Ben"})
        for value in (
            b"",
            b"\0",
            b'{"order_id": 1}',
            SCHEMA_7,
            SCHEMA_7 + AVRO[:-1],
            SCHEMA_7 + b"\xff" * 12,  # a number that does not end
            bytes(4) + b"\x08" + AVRO,  # of another schema
            b"\x01" + SCHEMA_7[1:] + AVRO,
        )
    ),
]


def example(page: Path) -> str:
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", page.read_text("utf-8"))
    (found,) = [block for block in blocks if "kafka.bootstrap.servers" in block]
    return str(found)


def send(topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Send records at once, in order: with keys, values, headers and partitions as they are."""
    made = list(records)
    _kafka.send(os.environ["KAFKA"], topic, made.__getitem__, 10**6, (len(made) + 0.5) / 10**6)


def json_in_real_time(spark: SparkSession, folder: Path) -> None:
    example_keeps_all(spark, folder, "runtimes.md", RECORDS)


def avro_in_real_time(spark: SparkSession, folder: Path) -> None:
    example_keeps_all(spark, folder, "kafka.md", AVRO_RECORDS)


def example_keeps_all(spark: SparkSession, folder: Path, page: str, records: list[Record]) -> None:
    """What goes into the example of a page comes out: keys, headers, values, and the names."""
    address, begun = os.environ["KAFKA"], time.time()
    orders, enriched = (f"{kind}-{folder.parent.name}-{folder.name}" for kind in ("o", "e"))
    _kafka.create(address, {orders: 1, enriched: 1})
    customers = [(1, "Ada"), (2, "Ben"), (3, "Cleo")]
    bsjoin.BatchTable.build(
        spark.createDataFrame(customers, "customer_id long, name string"),
        on="customer_id",
        path=folder / "customers",
    )
    sent: list[dict[str, Any]] = [
        {"key": key, "value": value, "headers": [("from", name.encode())] if name else []}
        for key, value, name, _ in records
    ]
    send(orders, sent)

    code = example(PAGES / page)
    for place, here in {
        "broker:9092": address,
        "/data/": f"{folder}/",
        '"orders"': f'"{orders}"',
        '"enriched"': f'"{enriched}"',
    }.items():
        assert place in code
        code = code.replace(place, here)
    names: dict[str, Any] = {"spark": spark, "bsjoin": bsjoin}
    with sessions.configured(spark, {"spark.bsjoin.runtime": "auto"}):  # a page sets it
        exec(compile(code, page, "exec"), names)
    query = names["query"]
    try:
        wait(
            lambda: query.exception() is not None or _kafka.count(address, enriched) >= len(records)
        )
        assert query.exception() is None, str(query.exception())[:2_000]
        found = _kafka.read(address, enriched)
    finally:
        query.stop()
    got = [(one.key(), one.headers() or [], json.loads(one.value())) for one in found]
    times = [value.pop("sent") / 1000 for _, _, value in got if "sent" in value]
    assert all(begun - 5 < at < time.time() + 5 for at in times), times
    assert bool(times) == (page == "kafka.md")
    wanted = [
        (one["key"], one["headers"], value) for one, (*_, value) in zip(sent, records, strict=True)
    ]
    assert sorted(got, key=repr) == sorted(wanted, key=repr), got


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
    assert records("enriched")[-1][2] == {"trace": b"t", waits: str(since[0]).encode()}
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
    assert second is not None
    assert (second.arrived, second.done, second.waiting) == (0, 200, 600), second
    last = next(k for k, one in enumerate(found) if offsets_of(one) > 1000)
    rest = flow(found[last - 1], found[last:], limits)
    assert rest is not None
    assert (rest.arrived, rest.done) == (500, sum(o["numInputRows"] for o in found[last:])), rest


def offsets_of(progress: dict[str, Any]) -> float:
    """How many records the topic had."""
    return sum((offsets(progress["sources"][0]["latestOffset"]) or {}).values())


Row = tuple[int, str | None, int]

CHANGES: tuple[list[tuple[str, Row | None, Row | None]], ...] = (
    [
        ("r", None, (1, "9.50", 10)),
        ("r", None, (2, "1.00", 10)),
        ("r", None, (3, None, 10)),
        ("u", (1, "9.50", 10), (1, "9.75", 11)),
        ("d", (2, "1.00", 10), None),
    ],
    [
        ("c", None, (2, "2.00", 12)),
        ("u", (1, "9.75", 11), (1, None, 13)),
        ("d", (3, None, 10), None),  # a key that moves
        ("c", None, (30, None, 10)),
        ("u", (30, None, 10), (30, "0.10", 14)),
        ("c", None, (4, "4.00", 15)),
        ("d", (4, "4.00", 15), None),
    ],
    [("u", (2, "2.00", 12), (2, "2.50", 16))],
)
"""What happens to a table of MySQL: the operation, and the row before and after it."""


def debezium(number: int, op: str, before: Row | None, after: Row | None) -> list[dict[str, Any]]:
    """The records of a change as its connector of MySQL writes them; a delete has a tombstone."""
    names = ("item", "price", "changed")
    was, now = (
        None if one is None else dict(zip(names, one, strict=True)) for one in (before, after)
    )
    key = json.dumps({"item": (now or was or {})["item"]})
    source = {
        "version": "3.3.0.Final", "connector": "mysql", "name": "shop", "ts_ms": 1_790_000_000_000,
        "snapshot": "true" if op == "r" else "false", "db": "shop", "sequence": None,
        "table": "prices", "server_id": 1, "gtid": None, "file": "binlog.000002",
        "pos": 1000 - number, "row": 0, "thread": 7, "query": None,
    }  # fmt: skip
    value = {"before": was, "after": now, "source": source, "transaction": None, "op": op}
    return [
        {"key": key, "value": json.dumps({**value, "ts_ms": 1_790_000_000_001})},
        *([{"key": key, "value": None}] if op == "d" else []),
    ]


def changes_of_mysql_make_a_table(spark: SparkSession, folder: Path) -> None:
    """The example of the page: the table is what the changes lead to, over starts and a replay."""
    address, topic = os.environ["KAFKA"], f"prices-{folder.parent.name}"
    _kafka.create(address, {topic: 2})
    code = example(PAGES / "changes.md")
    for place, here in {
        "broker:9092": address,
        "shop.shop.prices": topic,
        "/data/": f"{folder}/",
        "/checkpoints/": f"{folder}/checkpoints-",
    }.items():
        assert place in code
        code = code.replace(place, here)

    def run() -> bsjoin.BatchTable:
        names: dict[str, Any] = {"spark": spark, "bsjoin": bsjoin}
        exec(compile(code, "changes.md", "exec"), names)
        (query,) = spark.streams.active
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        table: bsjoin.BatchTable = names["table"]
        return table

    there: dict[int, Row] = {}
    for number, changes in enumerate(CHANGES):
        for place, (op, before, after) in enumerate(changes):
            send(topic, debezium(10 * number + place, op, before, after))
            if before is not None:
                del there[before[0]]
            if after is not None:
                there[after[0]] = after
        table = run()
        found = table.to_df().select("item", "price", "changed").collect()
        assert sorted(map(tuple, found)) == [there[item] for item in sorted(there)], found
    version = table.version
    commits = sorted((folder / "checkpoints-prices" / "commits").glob("[0-9]*"))
    commits[-1].unlink()  # a crash after the batch was applied, before that was noted
    assert run().version == version


def wait(holds: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


CHECKS = checks_apart.named(late_rows)
LONG = kafka_fault_checks.CHECKS | checks_apart.named(
    json_in_real_time,
    avro_in_real_time,
    fewer_slots_than_partitions,
    what_arrives_and_what_waits,
    changes_of_mysql_make_a_table,
)

if __name__ == "__main__":
    jars = ",".join(map(str, Path(os.environ["KAFKA_CONNECTOR"]).glob("*.jar")))
    checks_apart.run(
        LONG if "long" in sys.argv else CHECKS,
        sessions.session("local[3]", {**sessions.INTERPRETED, "spark.jars": jars}),
    )
