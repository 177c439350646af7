"""Plain joins with stored tables, all rows at once: beside Spark's broadcast and DuckDB."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.tables import scattered, table
from benchmarks.full_cache import JVM
from benchmarks.harness.outcome import Context, Figure, Table
from benchmarks.harness.spark import Join, in_runtime, persisted
from benchmarks.harness.timing import alternate, check_equal, check_joins, ratio, time_joins
from benchmarks.runtimes import BROADCAST, STEP, Chain

__all__ = ["DUCKDB", "PLAIN", "bulk", "checked"]

PLAIN, DUCKDB = "plain join", "DuckDB"

_LOOKUP = "BsjoinLookup"
_MANY, _MOST = 100_000, 6
_NOTE = (
    "Spark and DuckDB build what they need in every run; the stored tables have their index. "
    "DuckDB gives its rows away as Arrow batches, which nobody reads."
)


def checked(count: int, df: DataFrame) -> None:
    """See that the index answers the joins of a query.

    Raises:
        AssertionError: it does not answer all of them.
    """
    plan = df._jdf.queryExecution().executedPlan().toString()
    if plan.count(_LOOKUP) < count:
        raise AssertionError(f"of {count} joins some are not answered by the index:\n{plan}")


@dataclass(frozen=True)
class Bulk:
    """A stream's rows and the tables that they are joined with.

    Args:
        stream: Parquet files.
        tables: Parquet files, each with a column ``k``.
        indexed: bsjoin's tables.
        keys: of the stream, one for each table.
        columns: of the result.
        sums: that every way must answer, in the SQL of Spark and of DuckDB.
        bound: of the rate over Spark's broadcast.
    """

    stream: Path
    tables: Sequence[Path]
    indexed: Sequence[bsjoin.BatchTable]
    keys: Sequence[str]
    columns: Sequence[str]
    sums: Sequence[str]
    bound: float

    def plain(self, stream: DataFrame) -> DataFrame:
        """Plain joins with the stored tables."""
        return self._joins(stream, [one.to_df(stream.sparkSession) for one in self.indexed])

    def ours(self, stream: DataFrame) -> DataFrame:
        """The joins by :func:`bsjoin.join`."""
        for key, one in zip(self.keys, self.indexed, strict=True):
            stream = one.join(stream, on={key: "k"})
        return stream.select(*self.columns)

    def broadcast(self, stream: DataFrame) -> DataFrame:
        """Spark's broadcast joins."""
        read = stream.sparkSession.read
        return self._joins(stream, [F.broadcast(read.parquet(str(p))) for p in self.tables])

    def _joins(self, stream: DataFrame, tables: Sequence[DataFrame]) -> DataFrame:
        for key, one in zip(self.keys, tables, strict=True):
            other = one.withColumnRenamed("k", "_k")
            stream = stream.join(other, F.col(key) == F.col("_k")).drop("_k")
        return stream.select(*self.columns)

    def in_duckdb(self) -> InDuckDB:
        """The same rows in DuckDB's memory."""
        database = duckdb.connect(config={"threads": os.cpu_count() or 2})
        for name, path in [
            ("s", self.stream),
            *((f"stored{i}", p) for i, p in enumerate(self.tables)),
        ]:
            database.sql(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}/*.parquet')")
        joins = [f"JOIN stored{i} ON stored{i}.k = s.{key}" for i, key in enumerate(self.keys)]
        # A key of the table has the name of one of the stream's only where both are equal.
        columns = [f"s.{name}" if name in (*self.keys, "id") else name for name in self.columns]
        query = f"SELECT {', '.join(columns)} FROM s {' '.join(joins)}"
        return InDuckDB(database, query)


@dataclass(frozen=True)
class InDuckDB:
    """A query of DuckDB."""

    database: duckdb.DuckDBPyConnection
    query: str

    def sums(self, sums: Sequence[str]) -> tuple[Any, ...]:
        """Sums over the rows of the query."""
        rows = self.database.sql(f"SELECT {', '.join(sums)} FROM ({self.query})").fetchall()
        return tuple(map(int, rows[0]))

    def seconds(self) -> float:
        """Run the query, and let go of its rows as they come."""
        begun = time.perf_counter()
        for _ in self.database.sql(self.query).to_arrow_reader(1_000_000):
            pass
        return time.perf_counter() - begun


def _stored(context: Context, name: str, df: DataFrame) -> Path:
    path = context.data / f"planned-{name}"
    if not (path / "_SUCCESS").exists():
        df.write.mode("overwrite").parquet(str(path))
    return path


def _cases(context: Context) -> dict[str, Bulk]:
    spark, part, key = context.spark, context.pick(20, 1), F.col("id")
    rows, size, few = 10_000_000 // part, 1_000_000 // part, 3_000_000 // part
    cases = {}

    one = table(spark, size, context.data).withColumn("k", F.col("k") * STEP)
    path = _stored(context, f"one-{size}", one)
    drawn = (scattered(key, size, context.seed) * STEP).alias("k")
    stream = _stored(
        context, f"stream-{rows}-{context.seed}", spark.range(rows).select(drawn, "id")
    )
    cases[f"{rows:,} x {size:,}"] = Bulk(
        stream, [path], [_indexed(context, path)], ["k"], ["k", "id", "amount", "name"],
        ["count(*)", "sum(id)", "sum(amount)", "sum(length(name))"], 1.5,
    )  # fmt: skip

    chain = Chain.of(context, _MANY, STEP)
    paths = [context.data / f"chain-{_MANY}-{i}-by-{STEP}" for i in range(_MOST)]
    keys = [f"k{i}" for i in range(_MOST)]
    drawn_keys = [(scattered(key, _MANY, i) * STEP).alias(name) for i, name in enumerate(keys)]
    stream = _stored(context, f"six-{few}", spark.range(few).select("id", *drawn_keys))
    columns = ["id", *(f"{x}{i}" for x in "kat" for i in range(_MOST))]
    sums = [f"sum({x})" for i in range(_MOST) for x in (f"a{i}", f"length(t{i})")]
    cases[f"{few:,} x six tables of {_MANY:,}"] = Bulk(
        stream, paths, chain.indexed, keys, columns, ["count(*)", "sum(id)", *sums], 1.5
    )

    wide = 500_000 // part
    texts = [
        F.concat(F.lit(f"{x}-"), F.md5((key * i).cast("string"))) for i, x in enumerate("abcde", 1)
    ]
    numbers = [(key * i).alias(f"n{i}") for i in range(5)]
    text = _text(key * STEP).alias("k")
    made = spark.range(wide).select(
        text, *(t.alias(f"t{i}") for i, t in enumerate(texts)), *numbers
    )
    path = _stored(context, f"wide-{wide}", made)
    drawn = _text(scattered(key, wide, context.seed) * STEP).alias("k")
    stream = _stored(context, f"texts-{few}-{context.seed}", spark.range(few).select(drawn, "id"))
    columns = ["k", "id", *(f"{x}{i}" for x in "tn" for i in range(5))]
    sums = [f"sum({x})" for i in range(5) for x in (f"n{i}", f"length(t{i})")]
    cases[f"{few:,} x {wide:,}, eleven columns, text keys"] = Bulk(
        stream,
        [path],
        [_indexed(context, path)],
        ["k"],
        columns,
        ["count(*)", "sum(id)", *sums],
        1.3,
    )
    return cases


def _text(number: Column) -> Column:
    return F.concat(F.lit("customer-"), number.cast("string"))


def _indexed(context: Context, path: Path) -> bsjoin.BatchTable:
    return bsjoin.BatchTable.build(context.spark.read.parquet(str(path)), on="k", unique=True)


def bulk(context: Context) -> tuple[list[Figure], Table, dict[str, dict[str, list[float]]]]:
    """Seconds of all ways, as figures, a table, and by case and way."""
    figures, lines, measured = [], [], {}
    for label, case in _cases(context).items():
        times = measured[label] = _timed(context, label, case)
        bound = context.pick(None, case.bound)
        for name, least in ((BROADCAST, bound), (JVM, None), (DUCKDB, None)):
            label_of = f"rows/s, {PLAIN} / {name}, {label}"
            figures.append(ratio(label_of, times[name], times[PLAIN], least, by_round=True))
        rows = int(label.split()[0].replace(",", ""))
        lines += [
            {"joined": label, "way": name, "million rows/s": rows / statistics.median(spent) / 1e6}
            for name, spent in times.items()
        ]
    shown = Table.of("Plain joins of many rows at once", lines, _NOTE)
    shown = shown.drawn("bars", "joined", "million rows/s", by="way", ylabel="million rows/s")
    return figures, shown, measured


def _timed(context: Context, label: str, case: Bulk) -> dict[str, list[float]]:
    stream = persisted(context.spark.read.parquet(str(case.stream)))
    ways: dict[str, Join] = {
        PLAIN: case.plain,
        JVM: in_runtime("jvm", case.ours),
        BROADCAST: case.broadcast,
    }
    checked(len(case.keys), case.plain(stream))
    check_joins({name: partial(way, stream) for name, way in ways.items()}, list(case.columns))
    other, rounds = case.in_duckdb(), context.pick(2, 5)
    found = case.plain(stream).selectExpr(*case.sums).first()
    assert found is not None
    check_equal({PLAIN: tuple(map(int, found)), DUCKDB: other.sums(case.sums)})
    times = time_joins(context, label, ways, stream, rounds)
    times |= alternate(
        {DUCKDB: other.seconds}, rounds, say=lambda s: context.say(f"  {label}  {s}")
    )
    stream.unpersist(blocking=True)
    other.database.close()
    return times
