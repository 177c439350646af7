"""The Kafka example of the documentation, with a broker. A program; see :mod:`checks_apart`.

The environment names the broker (``KAFKA``) and the folder with the jars of Spark's connector
(``KAFKA_CONNECTOR``).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checks_apart
import sessions
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import bsjoin
from scheduling.flow import flow, offsets
from scheduling.spark.internals import limits_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "runtimes.md"

# Key, value and header; and the value that comes back, with the name of the customer.
RECORDS: list[tuple[bytes | None, bytes | None, str | None, dict[str, Any]]] = [
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


def example() -> str:
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text("utf-8"))
    (found,) = [block for block in blocks if "kafka.bootstrap.servers" in block]
    return str(found)


def in_real_time(spark: SparkSession, folder: Path) -> None:
    example_keeps_all(spark, folder, 'realTime="5 seconds"')


def in_micro_batches(spark: SparkSession, folder: Path) -> None:
    with sessions.configured(spark, {"spark.bsjoin.runtime": "python"}):
        example_keeps_all(spark, folder, "availableNow=True")


def example_keeps_all(spark: SparkSession, folder: Path, trigger: str) -> None:
    """What goes into the example comes out of it: keys, headers, values, and the names."""
    orders, enriched = (f"{kind}-{folder.parent.name}-{folder.name}" for kind in ("o", "e"))
    customers = [(1, "Ada"), (2, "Ben"), (3, "Cleo")]
    bsjoin.BatchTable.build(
        spark.createDataFrame(customers, "customer_id long, name string"),
        on="customer_id",
        path=folder / "customers",
    )
    broker = {"kafka.bootstrap.servers": os.environ["KAFKA"]}
    rows = [(k, v, h and [("from", h.encode())]) for k, v, h, _ in RECORDS]
    schema = "key binary, value binary, headers array<struct<key string, value binary>>"
    written = spark.createDataFrame(rows, schema).coalesce(1).write.format("kafka")  # type: ignore[arg-type]
    written.options(**broker, topic=orders, includeHeaders="true").save()

    code = example()
    for place, here in {
        "broker:9092": os.environ["KAFKA"],
        "/data/": f"{folder}/",
        '"orders"': f'"{orders}"',
        '"enriched"': f'"{enriched}"',
        'realTime="5 minutes"': trigger,
    }.items():
        assert place in code
        code = code.replace(place, here)
    names: dict[str, Any] = {"spark": spark, "bsjoin": bsjoin}
    exec(compile(code, str(PAGE), "exec"), names)
    query = names["query"]

    def came() -> list[Any]:
        reader = spark.read.format("kafka").options(**broker, subscribe=enriched)
        try:
            return reader.option("includeHeaders", "true").load().collect()
        except Py4JJavaError as error:  # the topic begins with its first record
            if "UnknownTopicOrPartition" not in str(error):
                raise
            return []

    try:
        wait(lambda: query.exception() is not None or len(came()) >= len(RECORDS))
        assert query.exception() is None, str(query.exception())[:2_000]
        found = came()
    finally:
        query.stop()
    got = [
        (
            None if row.key is None else bytes(row.key),
            [(header.key, bytes(header.value)) for header in row.headers or []],
            json.loads(bytes(row.value)),
        )
        for row in found
    ]
    wanted = [(k, [("from", h.encode())] if h else [], value) for k, _, h, value in RECORDS]
    assert sorted(got, key=repr) == sorted(wanted, key=repr), got


def what_arrives_and_what_waits(spark: SparkSession, folder: Path) -> None:
    """Progress tells both, behind a limit, by the offsets of the partitions."""
    broker = {"kafka.bootstrap.servers": os.environ["KAFKA"]}
    topic = f"flow-{folder.parent.name}-{folder.name}"

    def write(rows: int) -> None:
        made = spark.range(rows).selectExpr("CAST(id AS STRING) AS value")
        made.write.format("kafka").options(**broker, topic=topic).save()

    write(1000)
    reader = spark.readStream.format("kafka").options(**broker, subscribe=topic)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 200).load()
    begun = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "flow"))
    query = begun.start()
    try:
        query.processAllAvailable()
        write(500)
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


def wait(holds: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.3)


CHECKS = checks_apart.named(in_micro_batches, in_real_time, what_arrives_and_what_waits)

if __name__ == "__main__":
    jars = ",".join(map(str, Path(os.environ["KAFKA_CONNECTOR"]).glob("*.jar")))
    checks_apart.run(
        CHECKS, sessions.session("local[3]", {**sessions.SETTINGS, "spark.jars": jars})
    )
