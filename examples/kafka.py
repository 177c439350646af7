"""Kafka -> join -> Kafka: orders get the name of their customer, and how long that takes.

Orders go to the topic `orders`, a query joins them with a stored table of customers, and sends them
on to the topic `enriched`, with key and headers as they came. Meanwhile the table is refreshed. The
latency of an order is from the producer's clock, just before it is sent, to the time at which the
broker appended the order with the name to `enriched`.

    python examples/kafka.py [--real-time] [--rate ORDERS] [--seconds SECONDS] [--out FOLDER]

The program fetches Kafka and Spark's connector with Maven, once, starts a broker on this machine,
and ends it: at Ctrl-C and SIGTERM, too. Real-time mode needs Spark 4.2 or newer.

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and Maven.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import _kafka
import _support
import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import bsjoin

_CUSTOMERS = 10_000
_PARTITIONS = 2
_FEW = 10  # orders before all others, and as many behind the refresh
_WARM_S = 10.0
_FOLLOWS_S = 3.0  # a refresh is noticed within this time
_LIMIT_S = 300.0  # of each wait; on a busy machine Spark takes a minute to begin
_JUNK = 100  # each so-many-th order has a key that is no number


def main() -> None:
    """Send orders, refresh the customers meanwhile, and show how long each answer took."""
    options = arguments()
    if options.real_time and tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        sys.exit(f"Spark {pyspark.__version__} has no real-time mode in Python: 4.2 or newer has")
    _support.end_at_sigterm()
    try:
        _kafka.client()
        print("Starting a broker of Kafka …", flush=True)
        connector = _kafka.connector_jars()
        with _kafka.broker() as address:
            right = run(options, address, connector)
    except (_kafka.MissingError, RuntimeError) as error:
        sys.exit(str(error))
    sys.exit(0 if right else 1)


def run(options: argparse.Namespace, address: str, connector: Path) -> bool:
    """The example with a broker; whether all answers are right."""
    out = _support.fresh_folder(options.out)
    _kafka.create(address, {"orders": _PARTITIONS})
    _kafka.create(address, {"enriched": _PARTITIONS}, _kafka.APPENDED)
    spark = start_spark(connector)
    try:
        table = bsjoin.BatchTable.build(customers(spark, 1), on="customer_id", path=out / "table")
        query = start(spark, address, table, out, options.real_time)
        print("Waiting for the first answer …", flush=True)
        sent = _kafka.send(address, "orders", order, _FEW, 1)
        wait_for(query, address, sent)
        warm = min(_WARM_S, options.seconds)
        seconds = warm + options.seconds
        print(f"Sending orders for {seconds:.0f} s …", flush=True)
        timer = threading.Timer(seconds / 2, table.refresh, [customers(spark, 2)])
        timer.daemon = True  # it does not keep a program that fails
        timer.start()
        counted = sent + int(warm * options.rate)
        sent += _kafka.send(
            address, "orders", lambda number: order(number + sent), options.rate, seconds
        )
        timer.join(_LIMIT_S)
        if timer.is_alive():
            raise RuntimeError(f"the refresh of the table has not ended within {_LIMIT_S:.0f} s")
        time.sleep(_FOLLOWS_S)
        late = sent
        sent += _kafka.send(address, "orders", lambda number: order(number + late), _FEW, 1)
        wait_for(query, address, sent)
        spark.sparkContext.setLogLevel("OFF")  # Spark logs the batch that stopping interrupts
        query.stop()
    finally:
        _support.stop(spark)
    answers = pd.DataFrame(map(answer, _kafka.read(address, "enriched")))
    show(answers[answers.order.between(counted, late - 1)], options)
    return check(answers, sent, late)


def start_spark(connector: Path) -> SparkSession:
    """A Spark of this machine that has Kafka's connector.

    In real-time mode each partition of the source holds a slot for as long as a batch runs; one
    more is for the refresh.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = (Path(__file__).resolve().parent / "log4j2.properties").as_uri()
    spark = (
        SparkSession.builder.master(f"local[{_PARTITIONS + 1}]")
        .appName("kafka")
        .config("spark.jars", ",".join(map(str, connector.glob("*.jar"))))
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stopTimeout", "60s")
        .config("spark.bsjoin.runtime", "jvm-only")  # real-time mode takes nothing else
        .getOrCreate()
    )
    _support.end_at_ctrl_c()
    return spark


def customers(spark: SparkSession, issue: int) -> DataFrame:
    """The names of all customers, as of some issue of the table."""
    return spark.range(_CUSTOMERS).selectExpr(
        "id AS customer_id", "concat('name ', id) AS name", f"{issue} AS issue"
    )


def order(number: int) -> dict[str, Any]:
    """An order as Kafka's client takes it; its key is the customer, of whom some are unknown."""
    key = f"no number {number}" if number % _JUNK == 0 else number * 7_919 % (_CUSTOMERS + 100)
    value = {"order": number, "sent_us": time.time_ns() // 1000}
    headers = [("shop", str(number % 3).encode())]
    return {"key": str(key), "value": json.dumps(value), "headers": headers}


def start(
    spark: SparkSession, address: str, table: bsjoin.BatchTable, out: Path, real_time: bool
) -> StreamingQuery:
    """Start the query: the trigger is all that differs between the two modes."""
    kafka = {"kafka.bootstrap.servers": address}
    source = spark.readStream.format("kafka").options(**kafka, subscribe="orders")
    orders = source.options(startingOffsets="earliest", includeHeaders="true").load()
    keyed = orders.selectExpr(
        "key",
        "headers",
        "from_json(CAST(value AS STRING), 'order LONG, sent_us LONG') AS given",
        "try_cast(CAST(key AS STRING) AS BIGINT) AS customer_id",  # null if it is no number
    )
    enriched = table.join(keyed, how="left").selectExpr(
        "key", "headers", "to_json(struct(given.order, given.sent_us, name, issue)) AS value"
    )
    sink = enriched.writeStream.format("kafka").options(
        **kafka, topic="enriched", includeHeaders="true"
    )
    sink = sink.option("checkpointLocation", str(out / "checkpoint"))
    if real_time:
        return sink.outputMode("update").trigger(realTime="5 minutes").start()
    return sink.trigger(processingTime="0 seconds").start()


def wait_for(query: StreamingQuery, address: str, orders: int) -> None:
    """Wait until so many orders have been answered."""
    until = time.monotonic() + _LIMIT_S
    while (answered := _kafka.count(address, "enriched")) < orders:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        if time.monotonic() > until:
            raise RuntimeError(
                f"{answered:,} of {orders:,} orders are answered after {_LIMIT_S:.0f} s; "
                f"the query: {query.status['message']}"
            )
        time.sleep(0.2)


def answer(message: Any) -> dict[str, Any]:
    """An enriched order; the broker's time is of the millisecond that was running."""
    headers = {name: value.decode() for name, value in message.headers() or []}
    appended = {"key": message.key().decode(), "appended_ms": message.timestamp()[1] + 0.5}
    return {"name": None, "issue": 0} | json.loads(message.value()) | headers | appended


def show(answers: pd.DataFrame, options: argparse.Namespace) -> None:
    """Print how long the answers took."""
    ms = answers.appended_ms - answers.sent_us / 1000
    mode = "real-time mode" if options.real_time else "micro-batches"
    print(f"\n{len(answers):,} orders, {options.rate:,} a second, in {mode}")
    print("From the producer to Kafka's log")
    for share in (0.5, 0.9, 0.99):
        print(f"  within, {share:.0%} {ms.quantile(share):>10.1f} ms")


def check(answers: pd.DataFrame, sent: int, late: int) -> bool:
    """Hold the answers against what they must be: each order once, with its own customer.

    Args:
        answers: all of them.
        sent: how many orders were sent.
        late: the first order that was sent after the refresh.
    """
    number = pd.to_numeric(answers.key, errors="coerce")
    known = number < _CUSTOMERS
    before, after = known & (answers.order < _FEW), known & (answers.order >= late)
    named = "name " + number[known].astype(int).astype(str)
    return _support.checks(
        {
            "orders that were answered": (sent, answers.order.nunique()),
            "answers": (sent, len(answers)),
            "with the name of their customer": (
                int(known.sum()), int((answers.name[known] == named).sum()),
            ),
            "without, as their customer is unknown": (
                int((~known).sum()), int(answers.name[~known].isna().sum()),
            ),
            "with the header that they came with": (
                sent, int((answers.shop == (answers.order % 3).astype(str)).sum()),
            ),
            "before the refresh, from the old table": (
                int(before.sum()), int((answers.issue[before] == 1).sum()),
            ),
            "after the refresh, from the new table": (
                int(after.sum()), int((answers.issue[after] == 2).sum()),
            ),
        },
        by="what was sent",
    )  # fmt: skip


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/kafka"), metavar="FOLDER")
    parser.add_argument("--real-time", action="store_true", help="not in micro-batches")
    parser.add_argument("--rate", type=_support.positive, default=1_000, metavar="ORDERS")
    parser.add_argument("--seconds", type=_support.positive, default=20, metavar="SECONDS")
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
