"""Tables of a key, a number and a text, and streams of their keys: in Parquet and in PostgreSQL.

A table is made of arithmetic and does not depend on the seed; the seed draws the keys of streams.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data.kept import kept, parquet, write_stream
from benchmarks.data.zipf import scattered as scattered_ranks
from benchmarks.data.zipf import zipf
from benchmarks.harness.machine import ROOT

UNIFORM = 0.0
"""The exponent that stands for a uniform distribution."""


def scattered(number: Column, size: int, seed: int) -> Column:
    """A key of 0 … size - 1 that looks random, made of a number and a seed."""
    return F.pmod(F.xxhash64(number, F.lit(seed)), F.lit(size))


def row_of(key: Column) -> list[Column]:
    """The columns of a row besides its key: amount (long), name (12 characters)."""
    name = F.concat(F.lit("name-"), F.lpad(key.cast("string"), 7, "0"))
    return [(key * 7).alias("amount"), name.alias("name")]


def table(spark: SparkSession, rows: int, folder: Path) -> DataFrame:
    """A table ``k, amount, name`` in a Parquet folder, its rows in no order."""
    key = F.col("id")
    made = spark.range(0, rows, 1, 8).select(key.alias("k"), *row_of(key))
    return parquet(folder / f"table-{rows}", made.orderBy(F.xxhash64("k")))


def versions(spark: SparkSession, keys: int, many: int, length: int) -> DataFrame:
    """So many versions ``v`` of each key ``k``, from ``a`` until ``b``, where the next begins."""
    rows = spark.range(keys * many, numPartitions=2).selectExpr(
        "id AS v", f"id DIV {many} AS k", f"{length} * (id % {many}) AS a"
    )
    return rows.selectExpr("*", f"a + {length} AS b")


def with_points(ids: DataFrame, keys: int, until: int, seed: int) -> DataFrame:
    """For each number ``id`` one of so many keys ``k``, and a point ``p`` from 0 until an end."""
    point = f"pmod(xxhash64(id, {seed}), {until}) AS p"
    return ids.selectExpr("id", f"pmod(xxhash64(id), {keys}) AS k", point)


def stream_files(folder: Path, z: float, keys: int, batch: int, batches: int, seed: int) -> Path:
    """Keys, Zipf or uniform, and ``id`` as Parquet files, one per micro-batch."""

    def rows(number: int) -> pa.Table:
        if z == UNIFORM:
            drawn = np.random.default_rng(seed + number).integers(0, keys, batch)
        else:
            drawn = scattered_ranks(zipf(keys, z, batch, seed + number), keys)
        return pa.table({"k": drawn, "id": np.arange(number * batch, (number + 1) * batch)})

    path = folder / f"keys-{z}-{keys}-{batch}-{batches}-{seed}"
    return kept(path, lambda place: write_stream(place, map(rows, range(batches)), 1))


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty PostgreSQL on this machine over TCP: the server of the tests."""
    sys.path.insert(0, str(ROOT / "tests"))
    import servers

    class Server(servers.PostgreSQL):
        def command(self) -> Sequence[str | Path]:
            # The ways without a cache keep a connection in every worker of every stage.
            more = ("shared_buffers=512MB", "synchronous_commit=off", "max_connections=200")
            return [*super().command(), *(word for one in more for word in ("-c", one))]

    programs = servers.postgresql_programs()
    if programs is None:
        raise SystemExit("this benchmark needs a PostgreSQL: pip install pgserver")
    server = Server(programs)
    try:
        yield server.url
    finally:
        server.remove()
