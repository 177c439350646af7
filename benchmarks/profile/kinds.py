"""The pipelines that are profiled: joins of each kind, and what they are held against."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.ranges import Case, stored
from benchmarks.data.tables import SEED, scattered, table
from benchmarks.ranges.rivals import spark_join
from benchmarks.ranges.streams import probes

__all__ = [
    "ANSWER",
    "COLD",
    "FULL",
    "HOTSPOT",
    "JOINS",
    "KEY",
    "NONE",
    "RANGE",
    "ROWS",
    "WARM",
    "Kind",
    "check",
    "kinds",
]

NONE, KEY, ANSWER = "no join", "identity, key in and out", "identity, key in, row out"
ROWS = "identity, rows in and out"
FULL, WARM, COLD, RANGE, HOTSPOT = (
    "full cache", "incremental, warm", "incremental, cold", "range join", "full cache, HotSpot",
)  # fmt: skip
JOINS = (FULL, WARM, COLD, RANGE, HOTSPOT)

Join = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Kind:
    """One pipeline.

    Args:
        name: what it is called in print.
        pipeline: from the stream's numbers (``value``, ``timestamp``) to what is written.
        check: gives the rows that it must make of the same, by Spark itself; None where there
            is nothing to join.
    """

    name: str
    pipeline: Join
    check: Join | None = None


def kinds(
    spark: SparkSession, rows: int, size: int, folder: Path, batches: int, seed: int = SEED
) -> dict[str, Kind]:
    """All pipelines.

    Args:
        spark: the session.
        rows: of a micro-batch.
        size: rows of the table.
        folder: for the tables.
        batches: the most micro-batches that a run has; the table that is asked cold has a key
            for each of their rows.
        seed: of the streams, and of the table of the range join.
    """
    df = table(spark, size, folder)
    full = bsjoin.BatchTable.build(df, on="k", unique=True)
    case = Case(
        name="profile", kind="band", rows=size, probes=1, keys=max(size // 1_000, 1), width_s=3_600,
        seed=seed,
    )  # fmt: skip
    ranged = spark.read.parquet(str(stored(case, folder)[0]))
    indexed = bsjoin.BatchTable.build(ranged, on=case.on, when=case.when)
    many = max(size, rows * batches)
    url = _database(folder, many)
    asked = table(spark, many, folder)

    def keyed(numbers: DataFrame) -> DataFrame:
        return numbers.select(
            scattered(F.col("value"), size, seed).alias("k"), "value", "timestamp"
        )

    def again(numbers: DataFrame) -> DataFrame:
        """The same keys in each micro-batch."""
        value = F.pmod(F.col("value"), F.lit(rows))
        return numbers.select(scattered(value, many, seed).alias("k"), "value", "timestamp")

    def fresh(numbers: DataFrame) -> DataFrame:
        """Other keys in each micro-batch."""
        return numbers.select(F.pmod(F.col("value"), F.lit(many)).alias("k"), "value", "timestamp")

    def ranges(numbers: DataFrame) -> DataFrame:
        return probes(numbers, "value", case)

    @arrow_udf("long")
    def key(keys: pa.Array) -> pa.Array:
        return keys

    @arrow_udf("amount long, name string")
    def answer(keys: pa.Array) -> pa.Array:
        n = len(keys)
        offsets = pa.array(range(0, 12 * n + 1, 12), pa.int32()).buffers()[1]
        texts = pa.Array.from_buffers(
            pa.string(), n, [None, offsets, pa.py_buffer(b"name-0000000" * n)]
        )
        return pa.StructArray.from_arrays([keys, texts], ["amount", "name"])

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def with_answer(numbers: DataFrame) -> DataFrame:
        beside = keyed(numbers).select("*", answer("k").alias("m"))
        return beside.select("k", "value", "timestamp", "m.amount", "m.name")

    def with_same(numbers: DataFrame) -> DataFrame:
        sent = ranges(numbers).withColumns({"v": F.col("id"), "a": F.col("p")})
        return sent.mapInArrow(same, sent.schema)

    def asking(keys: Join) -> Join:
        def pipeline(numbers: DataFrame) -> DataFrame:
            # A source of its own, so that each run begins with an empty cache.
            source = bsjoin.sources.sql(url, table="t")
            cache = bsjoin.Incremental(max_rows=2 * many)
            return bsjoin.join(keys(numbers), source, "k", cache=cache)

        return pipeline

    partition = bsjoin.HotSpot(partitions=spark.sparkContext.defaultParallelism)
    listed = [
        Kind(NONE, keyed),
        Kind(KEY, lambda numbers: keyed(numbers).withColumn("i", key("k"))),
        Kind(ANSWER, with_answer),
        Kind(ROWS, with_same),
        Kind(FULL, lambda n: full.join(keyed(n), "k"), lambda n: keyed(n).join(df, "k")),
        Kind(WARM, asking(again), lambda n: again(n).join(asked, "k")),
        Kind(COLD, asking(fresh), lambda n: fresh(n).join(asked, "k")),
        Kind(
            RANGE,
            lambda n: indexed.join(ranges(n), case.on, when=case.when),
            lambda n: spark_join(case, ranges(n), ranged, written=False),
        ),
        Kind(
            HOTSPOT,
            lambda n: full.join(keyed(n), "k", partition=partition),
            lambda n: keyed(n).join(df, "k"),
        ),
    ]
    return {kind.name: kind for kind in listed}


def check(spark: SparkSession, kind: Kind, rows: int) -> None:
    """A join answers as Spark's own, before anything is timed.

    Raises:
        AssertionError: it does not.
    """
    if kind.check is None:
        return
    numbers = spark.range(rows).select(
        F.col("id").alias("value"), F.timestamp_micros(F.col("id")).alias("timestamp")
    )
    ours, theirs = kind.pipeline(numbers), kind.check(numbers)
    columns = sorted(set(ours.columns) & set(theirs.columns))
    answers = [sorted(map(tuple, answer.select(*columns).collect())) for answer in (ours, theirs)]
    if answers[0] != answers[1]:
        raise AssertionError(
            f"{kind.name}: {len(answers[0])} rows that differ from Spark's {len(answers[1])}"
        )


def _database(folder: Path, rows: int) -> str:
    """A table ``t(k, amount, name)`` in a SQLite file; its URL."""
    path = folder / f"profile-{rows}.sqlite"
    if not path.exists():
        half = path.with_suffix(".half")
        half.unlink(missing_ok=True)
        with sqlite3.connect(half) as connection:
            connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, amount BIGINT, name TEXT)")
            connection.executemany(
                "INSERT INTO t VALUES (?, ?, ?)", ((k, 7 * k, f"name-{k:07d}") for k in range(rows))
            )
        connection.close()
        half.rename(path)
    return f"sqlite:///{path.resolve()}"
