"""A stream whose rows arrive by a known curve, and a source of look-ups that wait.

The stream is a Python data source: rows have their number. How many have arrived is known for every
moment, so that the wait of each row can be computed, and whether all have been processed.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from scheduling.simulate import Arrivals

KEY_S = 0.002
"""How long a look-up waits for each key."""

_HORIZON_S = 3_600
_BATCH = 10_000


def arrivals(points: Sequence[tuple[float, float]], noise: float = 0.0, seed: int = 7) -> Arrivals:
    """The rows that have arrived by a second: of a curve of rows a second."""
    return Arrivals(points, noise=noise, seed=seed, horizon_s=_HORIZON_S)


def load(
    spark: SparkSession, points: Sequence[tuple[float, float]], *, began_s: float, tasks: int,
    noise: float, seed: int = 7,
) -> DataFrame:  # fmt: skip
    """The stream, with a column ``id``: the number of the row.

    ``points`` and ``noise`` are of the curve, which begins at ``began_s`` of ``time.time()``;
    ``tasks``: the partitions of a micro-batch.
    """
    spark.dataSource.register(Stream)
    told = json.dumps({"points": list(points), "noise": noise, "seed": seed})
    options = {"curve": told, "began_s": repr(began_s), "tasks": str(tasks)}
    return spark.readStream.format(Stream.name()).options(**options).load()


def look_up(keys: pa.Table) -> pa.Table:
    """A database that needs its time for every key, and no CPU of this machine."""
    time.sleep(KEY_S * keys.num_rows)
    names = pa.array([f"n{key}" for key in keys["id"].to_pylist()])
    return pa.table({"id": keys["id"], "name": names})


class Stream(DataSource):
    """The source of :func:`load`."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "placement-live-arrivals"

    def schema(self) -> str:
        """Of a row."""
        return "id long"

    def streamReader(self, schema: Any) -> Reader:  # noqa: N802 - as Spark calls it
        """The reader."""
        return Reader(self.options)


class Reader(DataSourceStreamReader):
    """Reads all that has arrived; a micro-batch has no limit."""

    def __init__(self, options: Any) -> None:
        told = json.loads(options["curve"])
        self._arrived = arrivals(told["points"], told["noise"], told["seed"])
        self._began_s, self._tasks = float(options["began_s"]), int(options["tasks"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first row."""
        return {"rows": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """What has arrived."""
        least = start["rows"] if start else 0
        return {"rows": max(least, int(self._arrived(time.time() - self._began_s)))}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        """Even parts."""
        first, rows = start["rows"], end["rows"] - start["rows"]
        cuts = [first + rows * k // self._tasks for k in range(self._tasks + 1)]
        return [InputPartition((a, b)) for a, b in itertools.pairwise(cuts) if b > a]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The numbers of a part."""
        begin, end = partition.value
        for first in range(begin, end, _BATCH):
            numbers = range(first, min(end, first + _BATCH))
            yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], names=["id"])
