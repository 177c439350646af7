"""A stream whose rows arrive by a known curve, and a source of look-ups that wait.

The stream is a Python data source: rows have their number.

How many have arrived is known for every moment, so that the wait of each row can be computed, and
whether all have been processed.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

__all__ = ["KEY_S", "Curve", "load", "look_up"]

KEY_S = 0.002
"""How long a look-up waits for each key."""

Points = Sequence[tuple[float, float]]
_HORIZON_S = 3_600
_BATCH = 10_000


class Curve:
    """Arrivals: linear between points, multiplied every second by ``1 + noise * U(-1, 1)``.

    Args:
        points: second and rows a second; constant after the last.
        noise: a share; default 0.
        seed: of the noise; default 7.

    >>> curve = Curve([(0, 100), (10, 100)])
    >>> curve.arrived(2.5), float(curve.arrival_s(250))
    (250, 2.5)
    """

    def __init__(self, points: Points, noise: float = 0.0, seed: int = 7) -> None:
        draw = random.Random(seed)
        self._at, self._rates = zip(*points, strict=True)
        rates = np.array(
            [
                self.rate(second + 0.5) * (1 + noise * draw.uniform(-1, 1))
                for second in range(_HORIZON_S)
            ]
        )
        self._arrived = np.concatenate([[0.0], np.cumsum(np.maximum(rates, 1e-9))])

    def rate(self, seconds: float) -> float:
        """Rows a second, without the noise."""
        return float(np.interp(seconds, self._at, self._rates))

    def arrived(self, seconds: float) -> int:
        """The rows that have arrived by then."""
        return int(np.interp(seconds, np.arange(len(self._arrived)), self._arrived))

    def arrival_s(self, row: Any) -> Any:
        """When a row arrives; arrays, too."""
        return np.interp(row, self._arrived, np.arange(len(self._arrived)))


def load(
    spark: SparkSession, points: Points, *, began_s: float, tasks: int, noise: float, seed: int = 7
) -> DataFrame:
    """The stream, with a column ``id``: the number of the row.

    Args:
        spark: the session.
        points: see :class:`Curve`.
        began_s: the beginning of the curve, as ``time.time()``.
        tasks: the partitions of a micro-batch.
        noise: see :class:`Curve`.
        seed: of the noise.
    """
    spark.dataSource.register(Arrivals)
    told = json.dumps({"points": list(points), "noise": noise, "seed": seed})
    options = {"curve": told, "began_s": repr(began_s), "tasks": str(tasks)}
    return spark.readStream.format(Arrivals.name()).options(**options).load()


def look_up(keys: pa.Table) -> pa.Table:
    """A database that needs its time for every key, and no CPU of this machine."""
    time.sleep(KEY_S * keys.num_rows)
    names = pa.array([f"n{key}" for key in keys["id"].to_pylist()])
    return pa.table({"id": keys["id"], "name": names})


class Rows(InputPartition):
    """Consecutive numbers."""

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end


class Arrivals(DataSource):
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
        self._curve = Curve(told["points"], told["noise"], told["seed"])
        self._began_s, self._tasks = float(options["began_s"]), int(options["tasks"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first row."""
        return {"rows": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """What has arrived."""
        least = start["rows"] if start else 0
        return {"rows": max(least, self._curve.arrived(time.time() - self._began_s))}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        """Even parts."""
        first, rows = start["rows"], end["rows"] - start["rows"]
        cuts = [first + rows * k // self._tasks for k in range(self._tasks + 1)]
        return [Rows(a, b) for a, b in itertools.pairwise(cuts) if b > a]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The numbers of a part."""
        for first in range(partition.first, partition.end, _BATCH):
            numbers = range(first, min(partition.end, first + _BATCH))
            yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], names=["id"])
