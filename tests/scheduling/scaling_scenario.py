"""A stream whose load rises and falls, scaled on a standalone cluster; a program that prints JSON.

``python scaling_scenario.py FOLDER``; ``test_scaling_live.py`` runs it, and looks at what it saw.

A row costs a wait of 10 ms, so an executor more is more throughput whatever this machine does.
Nothing is timed: each load stays until what it leads to is seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkConf, SparkContext
from sessions import CLUSTER, CODE, on_this_machine, session
from standalone import start

from scheduling import Price
from scheduling.elastic import Bounds
from scheduling.scalers import DS2
from scheduling.spark.scaling import Scaling

OPTIONS = {
    **CLUSTER,
    **CODE["python"],
    "spark.decommission.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
COST_S, LOW, HIGH, WORKERS = 0.01, 20, 160, 4
PRICES = [Price("127.0.0.2", 1.0), Price("127.0.0.3", 2.0), Price("*", 3.0)]
SOON = Bounds(confirm=2, urgent_s=4.0, shrink_after_s=8.0, settle_s=2.0, patience_s=40.0)


class Writer(threading.Thread):
    """Writes numbered rows into a folder, a file every half second."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.rate, self.rows, self.over = folder, LOW, 0, threading.Event()
        folder.mkdir()

    def run(self) -> None:
        while not self.over.wait(0.5):
            ids = range(self.rows, self.rows + self.rate // 2)
            hidden = self.folder / f".{self.rows}"
            pq.write_table(pa.table({"id": list(ids)}), hidden)
            hidden.rename(self.folder / f"{self.rows}.parquet")
            self.rows += len(ids)


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(COST_S * batch.num_rows)
        yield batch


def until(what: str, done: Callable[[], Any], seconds: float = 150.0) -> None:
    end = time.monotonic() + seconds
    print(f"{time.monotonic():.0f} s: waits for {what}", file=sys.stderr, flush=True)
    while not done():
        assert time.monotonic() < end, f"not in {seconds:g} s: {what}"
        time.sleep(0.2)


def main(folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = on_this_machine(OPTIONS, "driver", "executor")
    SparkContext._ensure_initialized(conf=SparkConf().setAll(settings.items()))
    master = start(SparkContext._gateway, folder, [1] * WORKERS, [""] * WORKERS)
    spark = session(master, settings)
    writer, out = Writer(folder / "in"), folder / "out"
    rows = spark.readStream.schema("id long").parquet(str(writer.folder)).repartition(4)
    query = (
        rows.mapInArrow(slowly, "id long")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="3 seconds")
        .start(str(out))
    )
    options: dict[str, Any] = {"executors": (1, WORKERS), "prices": PRICES, "bounds": SOON}
    scaling = Scaling(query, DS2(), every_s=1.0, window_s=6.0, **options)
    found: dict[str, Any] = {"reason": scaling.executors.reason}
    try:
        until("all executors", lambda: len(scaling.executors.there()) == WORKERS)
        scaling.executors.resize(1, PRICES)
        until("one executor", lambda: len(scaling.executors.there()) == 1)
        found["first"] = [one.host for one in scaling.executors.there()]
        writer.start()
        scaling.start()
        until("a load", lambda: scaling.load is not None)
        writer.rate = HIGH
        until("growth", lambda: len(scaling.executors.there()) >= WORKERS - 1)
        found["requests to grow"] = scaling._elastic.requests
        until("drained", lambda: calm(scaling, writer), 240)
        found["seen"] = ["drained", scaling.explain()]
        writer.rate = LOW
        until("shrunk", lambda: len(scaling.executors.there()) <= 2, 240)
        found["left"] = [one.host for one in scaling.executors.there()]
        writer.over.set()
        writer.join()
        query.processAllAvailable()
        query.stop()
        until("the thread has ended with the query", lambda: not scaling._thread.is_alive())
        ids = [row.id for row in spark.read.parquet(str(out)).collect()]
        found["rows"] = [len(ids), len(set(ids)), writer.rows]
    finally:
        scaling.stop()
        found["steps"] = [
            [round(one.time_s, 1), one.state, one.there, one.wanted, one.target, one.reason]
            for one in scaling.steps
        ]
        (folder / "found.json").write_text(json.dumps(found, indent=1))
        spark.stop()


def calm(scaling: Scaling, writer: Writer) -> bool:
    """Whether the new executors leave no more waiting than came in the last few seconds."""
    load = scaling.load
    grown = load.cores >= WORKERS - 1 and load.rising > HIGH / 2
    return grown and (load.waiting or 0.0) < 5 * writer.rate


if __name__ == "__main__":
    main(Path(sys.argv[1]))
