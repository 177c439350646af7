"""Orders, each joined with its price within milliseconds, while the price list changes.

In real-time mode (Spark 4.2 and newer) Spark passes each row on as it arrives; a batch is only the
interval between two checkpoints. Half-way through, the price list is refreshed: the running query
takes the new prices within a second, and every order is answered from one version of the list.

    python examples/real_time.py [--out FOLDER] [--seconds SECONDS]

The source is the memory stream of Spark's own tests, the only one of Spark's own jars that this
mode admits. Production reads Kafka: `spark.readStream.format("kafka")`, with Spark's connector for
it (`--packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION`); nothing else changes.

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import _support
import flights as demo
import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming import StreamingQuery

import bsjoin

_PRODUCTS = 10_000
_PAUSE_S = 0.02
_FOLLOWS_S = 1.0  # a refresh is noticed within this time


def main() -> None:
    """Send orders, refresh the price list meanwhile, and show how long each answer took."""
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        sys.exit(f"Spark {pyspark.__version__} has no real-time mode in Python: 4.2 or newer has")
    options = arguments()
    out = _support.fresh_folder(options.out)
    spark = demo.start_spark("real-time")
    try:
        orders = Orders(spark)
        prices = bsjoin.BatchTable.build(price_list(spark, 1), on="product", path=out / "prices")
        query = start(prices.join(orders.df, how="left"), out)
        orders.send(1)
        print("Waiting for the first batch …")
        wait_for(query, 1)
        sender = threading.Thread(target=orders.send, args=(options.seconds,))
        sender.start()
        time.sleep(options.seconds / 2)
        began = orders.clock()
        prices.refresh(price_list(spark, 2))
        ended = orders.clock()
        sender.join()
        wait_for(query, orders.sent)
        versions = {cycle.table_version for cycle in bsjoin.progress(query)}
        spark.sparkContext.setLogLevel("OFF")  # Spark logs the batch that stopping interrupts
        query.stop()
        answers = pd.read_json(out / "answers.jsonl", lines=True)
    finally:
        _support.stop(spark)
    show(answers, ended, versions)
    print(f"\nAnswers: {out / 'answers.jsonl'}")
    sys.exit(0 if check(answers, orders.sent, began, ended) else 1)


class Orders:
    """A source of orders: their number, their product, and when they were made.

    Attributes:
        df: the stream.
        clock: nanoseconds, for both ends of the query.
        sent: how many orders were made.
    """

    def __init__(self, spark: SparkSession):
        jvm: Any = spark._jvm
        sources = jvm.org.apache.spark.sql.execution.streaming.sources
        text = jvm.org.apache.spark.sql.Encoders.STRING()
        self._stream = sources.LowLatencyMemoryStream.apply(spark._jsparkSession, 1, text)
        self._sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self.clock = jvm.java.lang.System.nanoTime
        self.sent = 0
        order = F.from_csv("value", "number long, product long, made long")
        self.df = DataFrame(self._stream.toDF(), spark).select(order.alias("o")).select("o.*")

    def send(self, seconds: float) -> None:
        """Make orders, one every 20 ms."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            product = self.sent * 7_919 % (_PRODUCTS + 100)  # some are not on the list
            order = f"{self.sent},{product},{self.clock()}"
            self._stream.addData(self._sequence([order]))
            self.sent += 1
            time.sleep(_PAUSE_S)


def price_list(spark: SparkSession, issue: int) -> DataFrame:
    """Prices of all products; those of the second issue are higher by 10 %."""
    cents = (F.col("id") * 13 % 9_000 + 100) * (9 + issue)
    return spark.range(_PRODUCTS).select(
        F.col("id").alias("product"), cents.alias("tenths_of_cents"), F.lit(issue).alias("issue")
    )


def start(answered: DataFrame, out: Path) -> StreamingQuery:
    """Start the query: `realTime` is all that makes it one of real-time mode.

    A sink in Python gets its rows when a batch ends, so the moment of an answer is a column.
    """
    file = str(out / "answers.jsonl")

    def write(row: Any) -> None:
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(row.asDict()) + "\n")

    moment = F.reflect(F.lit("java.lang.System"), F.lit("nanoTime")).cast("long")
    return (
        answered.withColumn("answered", moment)
        .writeStream.foreach(write)
        .outputMode("update")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(realTime="5 seconds")
        .start()
    )


def wait_for(query: StreamingQuery, orders: int) -> None:
    """Wait until the batches that have ended answered so many orders."""
    while sum(batch.numInputRows for batch in query.recentProgress) < orders:
        failure = query.exception()
        if failure is not None:
            raise failure
        time.sleep(0.1)


def show(answers: pd.DataFrame, refreshed: int, versions: set[int | None]) -> None:
    """Print how long the answers took, and when the new prices came."""
    ms = (answers.answered - answers.made) / 1e6
    print(f"\n{len(answers):,} orders, in the JVM; versions of the list: {sorted(versions)}")
    for share in (0.5, 0.9, 0.99):
        print(f"  answered within, {share:.0%} {ms.quantile(share):>10.1f} ms")
    first = (answers[answers.issue == 2].answered.min() - refreshed) / 1e6
    print(f"The first new price was {first:,.0f} ms after the refresh.")
    print("An order that comes while one batch ends and the next begins waits for that.")


def check(answers: pd.DataFrame, sent: int, began: int, ended: int) -> bool:
    """Hold the answers against what they must be."""
    listed = answers["product"] < _PRODUCTS
    expected = (answers["product"] * 13 % 9_000 + 100) * (9 + answers.issue)
    old, new = answers.answered < began, answers.made > ended + _FOLLOWS_S * 1e9
    return _support.checks(
        {
            "orders that were answered": (sent, answers.number.nunique()),
            "answers": (sent, len(answers)),
            "with a price": (int(listed.sum()), int(answers.issue.notna().sum())),
            "whose price is of one issue": (
                int(listed.sum()),
                int((answers.tenths_of_cents == expected).sum()),
            ),
            "before the refresh, old prices": (
                int((old & listed).sum()),
                int((answers.issue[old] == 1).sum()),
            ),
            "a second after it, new prices": (
                int((new & listed).sum()),
                int((answers.issue[new] == 2).sum()),
            ),
        },
        by="the price lists",
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/real-time"), metavar="FOLDER")
    parser.add_argument("--seconds", type=_support.positive, default=14, metavar="SECONDS")
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
