"""The application: two streams with sinks that are exactly once; it takes orders from files.

``python -m tests.chaos.app SETTINGS.json`` ends with code 3 when a stream fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import bsjoin
from bsjoin import BatchTable, Incremental
from tests.sessions import CLUSTER, session

STORED_KEYS = 25
"""How many of the stream's keys the stored table has; the others find nothing."""
SCHEMA = "n long, k long, f long"


def table_rows(spark: SparkSession, version: int) -> DataFrame:
    """A version of the stored table: every row says which, and keys have one to three rows."""
    return spark.range(STORED_KEYS).selectExpr(
        "id AS k", f"CAST({version} AS INT) AS v", "explode(sequence(0, id % 3)) AS copy"
    )


class _Application:
    def __init__(self, settings: dict[str, Any]):
        self.settings = settings
        self.folder = Path(settings["folder"])
        options = {
            **CLUSTER,
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.task.maxFailures": "10",
            "spark.bsjoin.runtime": settings["runtime"],
        }
        self.spark = session(settings["master"], options)
        self.table = self._table()

    def _table(self) -> BatchTable:
        path = self.settings["table"]
        try:
            return BatchTable.open(path)
        except bsjoin.errors.TableNotFoundError:
            return BatchTable.build(table_rows(self.spark, 1), on="k", path=path)

    def source(self) -> Any:
        """The table in the database."""
        return bsjoin.sources.sql(
            self.settings["url"],
            table="items",
            unique=True,
            timeout="3 seconds",
            connect_timeout="3 seconds",
        )

    def cache(self) -> Incremental:
        """Smaller than the table, so that it evicts."""
        return Incremental(max_rows=20, retries=6, backoff="100 ms", folder=self.settings["memory"])

    def stream(self) -> DataFrame:
        """One file in each micro-batch."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / "stream"))

    def queries(self) -> list[StreamingQuery]:
        """Start, or go on from the checkpoints."""
        stored = self.table.join(self.stream(), "k", how="left", select=["v", "copy"])
        files = stored.writeStream.format("parquet").option(
            "checkpointLocation", str(self.folder / "checkpoint-files")
        )
        looked_up = bsjoin.join(
            self.stream(), self.source(), "k", how="left", cache=self.cache(), select=["name"]
        )
        batches = looked_up.writeStream.foreachBatch(_into(self.folder / "batches")).option(
            "checkpointLocation", str(self.folder / "checkpoint-batches")
        )
        return [files.start(str(self.folder / "files")), batches.start()]

    def obey(self, order: dict[str, Any]) -> object:
        """Do what a file says."""
        if order["do"] == "refresh":
            return self.table.refresh(table_rows(self.spark, order["version"]))
        if order["do"] == "vacuum":
            return self.table.vacuum(older_than="30 seconds")
        raise AssertionError(order)

    def run(self) -> int:
        queries = self.queries()
        orders = self.folder / "orders"
        while not (self.folder / "stop").exists():
            for query in queries:
                if not query.isActive:
                    print(f"stream failed: {query.exception()}"[:2000], flush=True)
                    return 3
            for path in sorted(orders.glob("*.json")):
                done = path.with_suffix(".done")
                try:
                    result = self.obey(json.loads(path.read_text()))
                except bsjoin.errors.StoreError as error:  # a full disk, say; the order is over
                    result = f"{type(error).__name__}: {error}"
                done.write_text(str(result))
                path.unlink()
            time.sleep(0.05)
        for query in queries:
            query.processAllAvailable()
            query.stop()
        return 0


def _into(folder: Path) -> Callable[[DataFrame, int], None]:
    """A sink that writes each micro-batch once: a second time, it has to have the same rows."""

    def write(batch: DataFrame, number: int) -> None:
        rows = sorted(map(list, batch.select("n", "k", "f", "name").collect()))
        place = folder / f"{number:06d}.json"
        text = json.dumps(rows)
        if place.exists() and place.read_text() != text:
            (folder / f"{number:06d}.differs").write_text(text)
        hidden = folder / f".{number}.tmp"
        hidden.write_text(text)
        os.replace(hidden, place)

    return write


def other(settings: dict[str, Any]) -> int:
    """Another application, with the same cache and table: two joins of a batch DataFrame."""
    application = _Application({**settings, "master": "local[1]"})
    spark, keys = application.spark, list(range(settings["keys"]))
    stream = spark.createDataFrame(pa.table({"k": keys}))
    for _ in range(5):
        looked_up = _collected(
            lambda: bsjoin.join(
                stream, application.source(), "k", how="left", cache=application.cache()
            )
        )
        assert {(r["k"], r["name"]) for r in looked_up} == {
            (k, f"name {k}" if k % 4 else None) for k in keys
        }
        rows = application.table.join(stream, "k").collect()
        assert len(rows) == sum(1 + k % 3 for k in range(STORED_KEYS))
        assert len({r["v"] for r in rows}) == 1
    return 0


def _collected(join: Callable[[], DataFrame], tries: int = 30) -> list[Any]:
    """The rows, once the database answers: it may be down for longer than the retries last."""
    for left in reversed(range(tries)):
        try:
            return join().collect()
        except (PySparkException, bsjoin.errors.SourceError):
            if not left:
                raise
            time.sleep(1)
    raise AssertionError


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    try:
        code = other(given) if sys.argv[2:] == ["other"] else _Application(given).run()
    except Exception:
        traceback.print_exc()
        code = 4
    sys.stdout.flush()
    os._exit(code)
