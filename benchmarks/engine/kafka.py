"""Kafka to Kafka: how long a record takes through a query that joins it, and one that does not.

Two ways run, each a query of its own. In real-time mode they read one topic at once, so that what
disturbs one disturbs the other. A micro-batch takes a good part of a processor, of which two at
once would each wait for the other: there each has a topic of its own, and records come to one of
them after the other, in turns of some seconds, while the other query waits for some. A latency is
from the producer's clock, just before a record is sent, to the time at which the broker appended
the result to the query's own topic; both are clocks of one machine.

At the higher rate producers wait for some records to send them at once (``linger.ms``), that of the
benchmark and those of the queries. A request for each record takes so much of two processors that a
copy alone is behind, and then two of the same queries have latencies with a ratio of three. How far
equal queries are apart is measured, too.
"""

from __future__ import annotations

import bisect
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import bsjoin
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import configured, spark_session
from benchmarks.harness.timing import Times, median_of, outcome, ratio
from examples import _kafka
from tests import supervisor

_ROWS = (10_000, 1_000_000, 10_000_000)
_KEYS = 10_000  # of the records: each has a row, in every table
_COPY, _AGAIN, _SPARK = "copy", "another copy", f"Spark's broadcast, {_ROWS[0]:,} rows"
_OURS = {rows: f"bsjoin, {rows:,} rows" for rows in _ROWS}
_ROUTED = f"bsjoin, {_ROWS[0]:,} rows, indicator and route"
# The ways that are compared: with more at once two processors are behind at the higher rate.
_QUICK = ((_COPY, _OURS[_ROWS[0]]), (_OURS[_ROWS[0]], _ROUTED))
_FULL = ((_COPY, _AGAIN), (_COPY, _SPARK), *((_COPY, way) for way in _OURS.values()), _QUICK[1])
_REAL_TIME, _BATCHES = "real-time", "micro-batch"
_FREE = (_AGAIN, _SPARK)  # nothing is promised of them
_LINGER_MS = {10_000: 2}  # by rate; else 0
# The broker's clock has whole milliseconds. A record each millisecond would be sent at one part of
# it, and all latencies be that part and a whole number. A little slower, it falls on every part.
_DRIFT = 0.997
# A query's own latencies drift by a tenth in some ten seconds, as much as is looked for: turns are
# short, and more where the bound is half as wide.
_TURNS, _OF_ROUTE, _TURN_S = 15, 40, 2.0
_TOGETHER = {50: 1, 99: 5}  # turns that a quantile is of: not each has its pause of the collector
_SETTLES_S = 0.5  # after which a new producer is connected; what it sends before is not counted
# When no more records come, the last micro-batch waits for some (fetch.max.wait.ms), half a second.
_ENDS_S = 0.2
_LIMIT_S = 180.0
# Spark's usual way to write a checkpoint asks Hadoop for the status of links. Of a local folder it
# learns that from programs (stat, chmod): a third of what a micro-batch takes. Others need none.
_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager"
}
_NOTE = (
    "Medians of each turn, p99 of each five. Topics with one partition. In real-time mode two ways "
    "at once, over one topic; in micro-batches one after the other."
)
_VALUE = "to_json(struct(given.sent_us, name))"

Way = Callable[[DataFrame, str], DataFrame]
"""Takes records, and the topic for the results; gives what the sink is to send."""
Turns = list[list[float]]
"""Milliseconds of the records of each turn."""


def real_time(context: Context) -> Outcome:
    """Latencies in real-time mode; quick: one rate, a few seconds, the smallest table."""
    return _run(context, _REAL_TIME)


def batches(context: Context) -> Outcome:
    """Latencies in micro-batches; quick: one rate, a few seconds, the smallest table."""
    return _run(context, _BATCHES)


def _run(context: Context, mode: str) -> Outcome:
    rates: tuple[int, ...] = context.pick((200,), (1_000, 10_000))
    # What Spark generates for a query is compiled while it runs, again for each query.
    warm_s = context.pick(2.0, 20.0) * (2 if mode == _BATCHES else 1)
    figures: list[Figure] = []
    found: dict[str, Times] = {}
    supervisor.start()
    with _kafka.broker(supervisor.watch, ["-Xmx1g"]) as address:
        # In real-time mode each query holds a slot for its partition.
        spark = spark_session("5g", master="local[8]", jars=_kafka.connector_jars())
        ways = _ways(spark, context.data, context.pick(_ROWS[:1], _ROWS))
        if mode == _BATCHES:
            # The JVM compiles what plans a micro-batch after hundreds of them: before that each
            # takes twice as long, and longer the more there is to plan. A thousand are enough.
            _measured(spark, address, ways, mode, rates[0], warm_s * len(ways), 0)
        for rate, group in product(rates, context.pick(_QUICK, _FULL)):
            chosen = {way: ways[way] for way in group}
            count = context.pick(3, _OF_ROUTE if _ROUTED in group else _TURNS)
            turns = _measured(spark, address, chosen, mode, rate, warm_s, count)
            for percent, together in _TOGETHER.items():
                name = f"{rate:,} records/s: p{percent}"
                times = {
                    way: [
                        float(np.percentile(np.concatenate(some[n : n + together]), percent))
                        for n in range(0, count, together)
                    ]
                    for way, some in turns.items()
                }
                figures.append(_figure(name, times, mode))
                found[f"{name}, {group[1]}"] = times
                context.say(f"  {name}, ms: {', '.join(f'{way} {times[way]}' for way in group)}")
    return outcome(f"Kafka to Kafka, {mode}: latency of a record", found, figures, _NOTE, "ms")


def _ways(spark: SparkSession, data: Path, sizes: tuple[int, ...]) -> dict[str, Way]:
    """What each query does with records that have a column ``customer``."""
    least, tables = sizes[0], {}
    for rows in sizes:
        # The same records have keys all over a table that is larger.
        made = spark.range(rows).selectExpr("id AS customer", "concat('name ', id) AS name")
        path = data / f"kafka-customers-{rows}"
        tables[rows] = bsjoin.BatchTable.build(made, on="customer", path=path)
    small = tables[least].to_df(spark).localCheckpoint()

    def ours(rows: int) -> Way:
        keyed = F.col("customer") * (rows // least)
        return lambda df, _: _sent(tables[rows].join(df.withColumn("customer", keyed), how="left"))

    def routed(df: DataFrame, topic: str) -> DataFrame:
        joined = tables[least].join(df, how="left", indicator="found")
        topics = {"topic": topic, "retry": "retry", "dead": "dead"}  # all are found
        return bsjoin.kafka.route(joined, value=_VALUE, patience="1 hour", **topics)

    def copied(df: DataFrame, _: str) -> DataFrame:
        return _sent(df.withColumn("name", F.lit("name 0")))

    return {
        _COPY: copied,
        _AGAIN: copied,
        _SPARK: lambda df, _: _sent(df.join(F.broadcast(small), "customer", "left")),
        **{_OURS[rows]: ours(rows) for rows in sizes},
        _ROUTED: routed,
    }


def _sent(df: DataFrame) -> DataFrame:
    return df.selectExpr("key", "headers", f"{_VALUE} AS value")


def _measured(
    spark: SparkSession, address: str, ways: Mapping[str, Way], mode: str, rate: int,
    warm_s: float, count: int,
) -> dict[str, Turns]:  # fmt: skip
    """The latencies of some ways: at once, or one after the other, so many times."""
    run, linger_ms = f"{mode}-{rate}-{time.monotonic_ns()}", _LINGER_MS.get(rate, 0)
    groups = [[*ways]] if mode == _REAL_TIME else [[way] for way in ways]
    sources = {way: f"records-{n}-{run}" for n, group in enumerate(groups) for way in group}
    sinks = {way: f"sink-{n}-{run}" for n, way in enumerate(ways)}
    _kafka.create(address, dict.fromkeys(sources.values(), 1))
    _kafka.create(address, dict.fromkeys(sinks.values(), 1), _kafka.APPENDED)
    queries: list[StreamingQuery] = []
    sent, begins = dict.fromkeys(ways, 0), {way: list[int]() for way in ways}

    def send(group: list[str], at: int, seconds: float) -> None:
        more = _kafka.send(address, sources[group[0]], _record, at * _DRIFT, seconds, linger_ms)
        for way in group:
            sent[way] += more

    def wait(group: list[str]) -> None:
        _wait(address, {sinks[way]: sent[way] for way in group}, queries)

    with tempfile.TemporaryDirectory() as folder, configured(spark, _CHECKPOINTS):
        try:
            for way, sink in sinks.items():
                rows = ways[way](_records(spark, address, sources[way]), sink)
                to = {"topic": sink, "checkpointLocation": f"{folder}/{sink}"}
                to["kafka.linger.ms"] = str(linger_ms)
                queries.append(_started(rows, address, to, mode))
            for group in groups:
                send(group, 10, 1)
                wait(group)  # they begin slowly
                send(group, rate, warm_s / len(groups))
                wait(group)
            for turn in range(count):
                for group in groups[:: 1 - 2 * (turn % 2)]:
                    begun_us = time.time_ns() // 1000 + round(_SETTLES_S * 1e6)
                    for way in group:
                        begins[way].append(begun_us)
                    send(group, rate, _SETTLES_S + _TURN_S + _ENDS_S)
                    wait(group)  # until none is behind
        finally:
            for query in queries:
                query.stop()
    return {way: _latencies(address, way, sinks[way], begins[way], sent[way]) for way in ways}


def _record(number: int) -> dict[str, Any]:
    value = json.dumps({"sent_us": time.time_ns() // 1000})
    return {"key": str(number * 7_919 % _KEYS), "value": value, "headers": [("from", b"here")]}


def _records(spark: SparkSession, address: str, topic: str) -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    read = source.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    given = F.from_json(F.col("value").cast("string"), "sent_us long").alias("given")
    customer = F.expr("try_cast(CAST(key AS STRING) AS BIGINT)").alias("customer")
    return read.load().select("key", "value", "headers", "timestamp", customer, given)


def _started(rows: DataFrame, address: str, options: dict[str, str], mode: str) -> StreamingQuery:
    if "topic" in rows.columns:
        del options["topic"]
    sink = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", address)
    sink = sink.options(includeHeaders="true", **options)
    if mode == _REAL_TIME:
        return sink.outputMode("update").trigger(realTime="1 hour").start()
    return sink.trigger(processingTime="0 seconds").start()


def _wait(address: str, records: Mapping[str, int], queries: list[StreamingQuery]) -> None:
    """Wait until each sink has so many records."""
    until = time.monotonic() + _LIMIT_S
    for sink, wanted in records.items():
        while (came := _kafka.count(address, sink)) < wanted:
            failed = [str(query.exception()) for query in queries if query.exception()]
            if failed or time.monotonic() > until:
                raise RuntimeError(f"{sink}: {came} of {wanted} records arrive; {failed}")
            time.sleep(0.1)


def _latencies(address: str, way: str, topic: str, begins: list[int], sent: int) -> Turns:
    """Milliseconds of the records that were sent in each turn, which ``begins`` in microseconds."""
    messages = _kafka.read(address, topic)
    told = {(message.key(), message.value()) for message in messages}
    if len(messages) != sent or len(told) != sent:  # one may be lost, and another there twice
        raise AssertionError(f"{way}: {len(messages)} records, {len(told)} different, of {sent}")
    times = next((rows // _ROWS[0] for rows, name in _OURS.items() if name == way), 1)
    turns: Turns = [[] for _ in begins]
    for message in messages:
        key, value = int(message.key()), json.loads(message.value())
        if value["name"] != f"name {0 if way in (_COPY, _AGAIN) else key * times}":
            raise AssertionError(f"{way}: the record of {key} has {value}")
        since_us = value["sent_us"]
        turn = bisect.bisect(begins, since_us) - 1
        if turn >= 0 and since_us < begins[turn] + _TURN_S * 1e6:
            # The broker's time is of the millisecond that was running.
            turns[turn].append(message.timestamp()[1] + 0.5 - since_us / 1e3)
    return turns


def _figure(name: str, times: Times, mode: str) -> Figure:
    """The second way by the first: a ratio in real-time mode, else the difference."""
    (other, below), (way, above) = times.items()
    if way == _ROUTED or mode == _REAL_TIME:
        bound = None if way in _FREE else 1.05 if way == _ROUTED else 1.1
        what = f"{name}, {way} / {other}"
        return ratio(what, above, below, bound, at_most=True, by_round=True)
    more = [a - b for a, b in zip(above, below, strict=True)]
    return median_of(f"{name}, {way} - {other}", more, None if way in _FREE else 10.0, unit="ms")
