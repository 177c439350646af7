"""What :mod:`kafka_checks` runs of the examples of the documentation, and what all of it needs."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import checks_apart
import pytest
import sessions
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.streaming import DataStreamWriter

import bsjoin
from examples import _kafka

PAGES = Path(__file__).resolve().parent.parent / "docs" / "how-to"

Record = tuple[bytes | None, bytes | None, str | None, dict[str, Any]]
"""Key, value and header; and the value that comes back, with the name of the customer."""

# A value of Avro: an order's number, as a varint, and a double.
SCHEMA_7 = bytes(4) + b"\x07"
AVRO = b"\xd0\x0f" + struct.pack("<d", 9.5)  # 1000 and 9.5
ORDER = {"order_id": 1000, "amount": 9.5}


def unread(value: bytes) -> dict[str, str]:
    return {"unread": base64.b64encode(value).decode()}


RECORDS: list[Record] = [
    (b"1", SCHEMA_7 + AVRO, "web", ORDER | {"name": "Ada"}),
    *((key, SCHEMA_7 + AVRO, None, ORDER) for key in (b"one", b"1.5e3", b"9" * 20, b"\xff", None)),
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


def page_of(name: str) -> str:
    return (PAGES / name).read_text("utf-8")


def example(page: str) -> str:
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", page_of(page))
    (found,) = [block for block in blocks if "kafka.bootstrap.servers" in block]
    return str(found)


def send(topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Send records at once, in order: with keys, values, headers and partitions as they are."""
    made = list(records)
    _kafka.send(os.environ["KAFKA"], topic, made.__getitem__, 10**6, (len(made) + 0.5) / 10**6)


def avro_in_real_time(spark: SparkSession, folder: Path) -> None:
    avro_keeps_all(spark, folder)


def avro_in_micro_batches(spark: SparkSession, folder: Path) -> None:
    trigger = 'trigger(realTime="5 minutes")', 'trigger(processingTime="0 seconds")'
    avro_keeps_all(spark, folder, dict([trigger]))


def avro_keeps_all(
    spark: SparkSession, folder: Path, changes: Mapping[str, str] | None = None
) -> None:
    """What goes into the example comes out: keys, headers, values, and the names."""
    address = os.environ["KAFKA"]
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
        for key, value, name, _ in RECORDS
    ]
    send(orders, sent)

    code = example("kafka.md")
    for place, here in {
        "broker:9092": address,
        "/data/": f"{folder}/",
        '"orders"': f'"{orders}"',
        '"enriched"': f'"{enriched}"',
        **(changes or {}),
    }.items():
        assert place in code
        code = code.replace(place, here)
    names: dict[str, Any] = {"spark": spark, "bsjoin": bsjoin}
    by_jvm = real_time_by_the_jvm(spark) if spark.version.startswith("4.1.") else nullcontext()
    with sessions.configured(spark, {"spark.bsjoin.runtime": "auto"}), by_jvm:  # a page sets it
        exec(compile(code, "kafka.md", "exec"), names)
    query = names["query"]
    try:
        wait(
            lambda: query.exception() is not None or _kafka.count(address, enriched) >= len(RECORDS)
        )
        assert query.exception() is None, str(query.exception())[:2_000]
        found = _kafka.read(address, enriched)
    finally:
        query.stop()
    got = [(one.key(), one.headers() or [], json.loads(one.value())) for one in found]
    times = [value.pop("sent") for _, _, value in got]
    own = [one.timestamp()[1] for one in _kafka.read(address, orders)]
    assert times == own, (times, own)
    wanted = [
        (one["key"], one["headers"], value) for one, (*_, value) in zip(sent, RECORDS, strict=True)
    ]
    assert sorted(got, key=repr) == sorted(wanted, key=repr), got


@contextmanager
def real_time_by_the_jvm(spark: SparkSession) -> Iterator[None]:
    """Let Python's writers know the trigger, as Spark 4.1 does in the JVM alone."""
    jvm: Any = spark._jvm
    trigger = DataStreamWriter.trigger

    def triggered(self: Any, *, realTime: str | None = None, **others: Any) -> Any:  # noqa: N803
        if realTime is None:
            return trigger(self, **others)
        self._jwrite.trigger(jvm.org.apache.spark.sql.streaming.Trigger.RealTime(realTime))
        return self

    try:
        DataStreamWriter.trigger = triggered  # type: ignore[method-assign]
        yield
    finally:
        DataStreamWriter.trigger = trigger  # type: ignore[method-assign]


LIMITS = " ".join(re.findall(r"-Dorg\.apache\.avro\.limits\.\S+?=\d+", page_of("kafka.md")))
"""Options of a JVM that reads values of Avro of any schema."""


def avro_that_asks_for_memory(spark: SparkSession, folder: Path) -> None:
    """A value that says that there are billions behind it is null, as others that are cut."""
    assert LIMITS.count("=") == 3
    length = b"\xee\xff\xff\xff\x0f"  # of Java's longest array, as a varint
    rows = spark.createDataFrame([(bytearray(length),)], "body binary")
    array, mapped = {"type": "array", "items": "long"}, {"type": "map", "values": "long"}
    for kind in ("string", "bytes", array, mapped):
        record = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
        read = from_avro("body", json.dumps(record), {"mode": "PERMISSIVE"})
        assert rows.select(read.alias("r")).select("r.*").collect() == [(None,)], kind


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
    code = example("changes.md")
    for place, here in {
        "broker:9092": address,
        "shop.shop.prices": topic,
        "/data/": f"{folder}/",
        "/checkpoints/": f"{folder}/checkpoints-",
    }.items():
        assert place in code
        code = code.replace(place, here)

    def run(code: str = code, said: str = "") -> bsjoin.BatchTable:
        names: dict[str, Any] = {"spark": spark, "bsjoin": bsjoin}
        exec(compile(code, "changes.md", "exec"), names)
        (query,) = spark.streams.active
        with pytest.raises(StreamingQueryException, match=said) if said else nullcontext():
            try:
                query.processAllAvailable()
            finally:
                query.stop()
        return names["table"]

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
    # What cannot be read is no tombstone: the query ends, each time.
    (change,) = debezium(90, "c", None, (90, "1.00", 90))
    schemas = {"key": "90", "value": json.dumps({"schema": {}, "payload": change["value"]})}
    cut = {"key": "90", "value": change["value"][:-1]}
    for record, said in ((schemas, "the change 'missing' in the column 'op'"), (cut, "MALFORMED")):
        other = f"{topic}-{len(said)}"
        _kafka.create(address, {other: 1})
        send(other, [record])
        elsewhere = code.replace(topic, other).replace(f"{folder}/", f"{folder}/{other}-")
        for _ in range(2):
            assert run(elsewhere, said).to_df().count() == 0


def wait(holds: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


REAL_TIME = checks_apart.named(avro_in_real_time)
CHECKS = REAL_TIME | checks_apart.named(
    avro_in_micro_batches, avro_that_asks_for_memory, changes_of_mysql_make_a_table
)
