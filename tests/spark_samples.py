"""Small sources, results and running streams for the tests that use Spark."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import bsjoin
from tests.oracle import united


def soon(found: Callable[[], Any], expected: Any) -> None:
    """Wait for what tasks do that have not noticed yet that their job has ended."""
    deadline = time.monotonic() + 30
    while (last := found()) != expected:
        assert time.monotonic() < deadline, last
        time.sleep(0.05)


def files(folder: Path) -> list[Path]:
    """Every file below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write_parquet(file: Path, **columns: Any) -> None:
    """Write one Parquet file at once; a file that is there is replaced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    os.replace(_hidden(file, columns), file)


def _hidden(file: Path, columns: dict[str, Any]) -> Path:
    """The file under a name that Spark does not list."""
    hidden = file.with_name(f".{file.name}")
    pq.write_table(pa.table(columns), hidden)
    return hidden


def write_stream_file(folder: Path, number: int, **columns: Any) -> None:
    """Write the file of a stream's micro-batch; Spark reads the file with the lowest number first.

    The file source reads in the order of the times of modification, and files written one after
    the other may have the same one. A file has its time before Spark lists it: once the source has
    seen one that is a week younger than others, it leaves those out.
    """
    file = folder / f"{number:04d}.parquet"
    hidden = _hidden(file, columns)
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    os.replace(hidden, file)


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a result as sorted tuples; null sorts first."""
    return _sorted([tuple(row) for row in df.collect()])


def _sorted(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=lambda row: [(value is not None, value) for value in row])


def values_of(results: Mapping[Any, DataFrame]) -> dict[Any, list[str]]:
    """The rows of several results as JSON, without the names of columns, by one action."""
    texts = []
    for number, df in enumerate(results.values()):
        columns = [f"c{place}" for place in range(len(df.columns))]
        row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
        texts.append(df.toDF(*columns).select(F.lit(number), row))
    found: list[list[str]] = [[] for _ in results]
    for number, text in united(texts).collect():
        found[number].append(text)
    return {name: sorted(some) for name, some in zip(results, found, strict=True)}


def rows_of_each(results: Mapping[Any, DataFrame]) -> dict[Any, list[tuple[Any, ...]]]:
    """The rows of several results as sorted tuples, by one action: values as in JSON."""

    def row_of(text: str) -> tuple[Any, ...]:
        return json.loads(text, object_pairs_hook=lambda pairs: tuple(value for _, value in pairs))

    return {name: _sorted([*map(row_of, texts)]) for name, texts in values_of(results).items()}


def table_of(spark: SparkSession, version: int, keys: int = 4) -> DataFrame:
    """Keys 0, 1, …, each with the version in the column ``v``."""
    return spark.range(keys).selectExpr("id AS k", f"{version} AS v")


def forget_last_commit(checkpoint: Path) -> int:
    """Make the last micro-batch look interrupted; its number."""
    commits = checkpoint / "commits"
    number = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.glob(f"*{number}*"):
        path.unlink()
    return number


class Feed:
    """A stream that reads one file per micro-batch, and what a query makes of it.

    Args:
        spark: the session.
        folder: where the files go, and the query's checkpoint.
    """

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark = spark
        self.source = folder / "stream"
        self.source.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self.added = 0
        self.results: dict[int, list[tuple[Any, ...]]] = {}

    @property
    def stream(self) -> DataFrame:
        """The probe side, with one column ``k``."""
        reader = self.spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.source))

    def add(self, *keys: int | None) -> None:
        """Add the keys of one more micro-batch."""
        write_stream_file(self.source, self.added, k=pa.array(keys, pa.int64()))
        self.added += 1

    def start(self, joined: DataFrame) -> StreamingQuery:
        """Run a query; its rows, sorted, are in ``results`` by the number of the micro-batch."""

        def keep(batch: DataFrame, number: int) -> None:
            self.results[number] = rows(batch)

        return self.call(keep, joined)

    def run(self, joined: DataFrame, *keys: int | None) -> StreamingQuery:
        """The same, with a micro-batch of these keys if any are given; it has read all there is."""
        if keys:
            self.add(*keys)
        query = self.start(joined)
        query.processAllAvailable()
        return query

    def call(
        self, function: Callable[[DataFrame, int], object], joined: DataFrame | None = None
    ) -> StreamingQuery:
        """Run a function with each micro-batch of a query, by default of the stream itself."""
        writer = (self.stream if joined is None else joined).writeStream.foreachBatch(function)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def turn(self, query: StreamingQuery, *keys: int | None) -> list[tuple[Any, ...]]:
        """One more micro-batch of a query, and the rows that it has made, if they are kept."""
        self.add(*keys)
        query.processAllAvailable()
        return self.results[max(self.results)] if self.results else []

    def forget_last_commit(self) -> int:
        """Make the last micro-batch look interrupted; its number."""
        return forget_last_commit(self.checkpoint)


def cycles(query: StreamingQuery) -> list[bsjoin.CycleProgress]:
    """The figures of the micro-batches that had rows."""
    return [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
