"""Many rows at once: both runtimes, plain joins, all of Spark's joins, and DuckDB."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from urllib.parse import urlsplit
from urllib.request import url2pathname

import duckdb
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import parquet
from benchmarks.data.tables import scattered, table
from benchmarks.engine.chain import (
    BROADCAST,
    CHOSEN,
    MERGE,
    MOST,
    PLAIN,
    SHUFFLED,
    STEP,
    Chain,
    Joins,
    check_answered,
)
from benchmarks.engine.full_cache import COLUMNS, IDENTITY, with_identity_row
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import JVM, PYTHON, consume, fingerprint, in_memory
from benchmarks.harness.timing import Times, check_equal, check_joins, compare, outcome, ratio

DUCKDB = "DuckDB"
_MANY = 100_000
_FEW = "id < 10000"  # of these DuckDB's rows are compared, of all their count and sums
_NOTE = (
    "Spark and DuckDB build what they need in every run, broadcasts included; the stored tables "
    "have their index. DuckDB gives its rows away as Arrow batches, which nobody reads."
)

Bulk = tuple[DataFrame, Joins]
"""The rows of a stream, as Parquet files, and their joins."""


def _joins(context: Context, name: str, df: DataFrame, columns: Sequence[str]) -> Joins:
    """The join with one table."""
    stored = parquet(context.data / f"bulk-{name}", df)
    indexed = bsjoin.BatchTable.build(stored, on="k", unique=True)
    return Joins([stored], [indexed], ["k"], columns)


def one_table(context: Context, rows: int, size: int, step: int = 1) -> Bulk:
    """Rows with a table of a number and a text; keys are ``step`` apart."""
    spark, seed = context.spark, context.seed
    df = table(spark, size, context.data).withColumn("k", F.col("k") * step)
    drawn = (scattered(F.col("id"), size, seed) * step).alias("k")
    path = context.data / f"bulk-stream-{rows}-{size}-{step}-{seed}"
    stream = parquet(path, spark.range(rows).select(drawn, "id"))
    return stream, _joins(context, f"one-{size}-{step}", df, COLUMNS)


def six_tables(context: Context, rows: int, chain: Chain) -> Bulk:
    """Rows with a key for each table of a chain."""
    keys = [
        (scattered(F.col("id"), chain.rows, context.seed + i) * chain.step).alias(f"k{i}")
        for i in range(MOST)
    ]
    path = context.data / f"bulk-six-{rows}-{chain.rows}-{chain.step}-{context.seed}"
    return parquet(path, context.spark.range(rows).select("id", *keys)), chain.joins(MOST)


def wide_table(context: Context, rows: int, size: int) -> Bulk:
    """Rows with a table of five texts and five numbers, by a text."""

    def text(number: Column) -> Column:
        return F.concat(F.lit("customer-"), number.cast("string"))

    spark, key = context.spark, F.col("id")
    texts = [
        F.concat(F.lit(f"{x}-"), F.md5((key * i).cast("string"))).alias(f"t{i - 1}")
        for i, x in enumerate("abcde", 1)
    ]
    numbers = [(key * i).alias(f"n{i}") for i in range(5)]
    made = spark.range(size).select(text(key * STEP).alias("k"), *texts, *numbers)
    drawn = text(scattered(key, size, context.seed) * STEP).alias("k")
    path = context.data / f"bulk-texts-{rows}-{size}-{context.seed}"
    stream = parquet(path, spark.range(rows).select(drawn, "id"))
    columns = ["k", "id", *(f"{x}{i}" for x in "tn" for i in range(5))]
    return stream, _joins(context, f"wide-{size}", made, columns)


def _timed(context: Context, label: str, case: Bulk, names: Sequence[str], rounds: int) -> Times:
    """Seconds of ways by their names; all answers are compared before."""
    files, joins = case
    ways = joins.ways(*(name for name in names if name not in (DUCKDB, IDENTITY)))
    # What Spark has in memory has no files.
    database, query = in_duckdb(files, joins) if DUCKDB in names else (None, "")
    with in_memory(files) as (stream,):
        answers = {n: partial(_answer, joins, way(stream)) for n, way in ways.items()}
        runs = {name: lambda way=way: consume(way(stream)) for name, way in ways.items()}
        if PLAIN in names:
            check_answered(joins, stream)
        if IDENTITY in names:
            runs[IDENTITY] = lambda: consume(with_identity_row(stream).select(*COLUMNS))
        if database is not None:
            few = database.sql(f"{query} WHERE {_FEW}").to_arrow_table()
            theirs = partial(context.spark.createDataFrame, few)
            ours = partial(joins.plain, stream.where(_FEW))
            check_joins({PLAIN: ours, DUCKDB: theirs}, joins.columns)
            answer = joins.plain(stream).select(*joins.columns)
            sums = _sums(answer)
            told = {PLAIN: answer.selectExpr(*sums).collect()}
            told[DUCKDB] = database.sql(f"SELECT {', '.join(sums)} FROM ({query})").fetchall()
            check_equal({name: [int(one) for one in row] for name, (row,) in told.items()})
            runs[DUCKDB] = lambda: _drained(database, query)
        return compare(context, label, answers, runs, rounds)[1]


def _sums(df: DataFrame) -> list[str]:
    """The count, the sums of numbers, and the lengths of texts, in Spark's and DuckDB's SQL."""
    texts = {name for name, type_ in df.dtypes if type_ == "string"}
    values = (f"length({name})" if name in texts else name for name in df.columns)
    return ["count(*)", *(f"sum(CAST({value} AS decimal(28, 0)))" for value in values)]


def _answer(joins: Joins, answer: DataFrame) -> tuple[int, int]:
    return fingerprint(answer, joins.columns)


def in_duckdb(stream: DataFrame, joins: Joins) -> tuple[duckdb.DuckDBPyConnection, str]:
    """The rows of Parquet files in DuckDB's memory, and the query of the result."""
    database = duckdb.connect(config={"threads": os.cpu_count() or 2})
    frames = {"s": stream} | {f"stored{i}": df for i, df in enumerate(joins.frames)}
    for name, df in frames.items():
        files = [url2pathname(urlsplit(file).path) for file in df.inputFiles()]
        database.from_parquet(files).create(name)
    on = [f"JOIN stored{i} ON stored{i}.k = s.{key}" for i, key in enumerate(joins.keys)]
    # A key of the table has the name of one of the stream's only where both are equal.
    columns = [f"s.{name}" if name in (*joins.keys, "id") else name for name in joins.columns]
    return database, f"SELECT {', '.join(columns)} FROM s {' '.join(on)}"


def _drained(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Run a query, and let go of its rows as they come."""
    for _ in database.sql(query).to_arrow_reader(1_000_000):
        pass


def planned_bulk(context: Context, chain: Chain) -> Outcome:
    """Plain joins beside Spark's broadcast and DuckDB.

    Quick: a twentieth of all rows; ``chain``: six tables.
    """
    part = context.pick(20, 1)
    rows, size, few, wide = (n // part for n in (10_000_000, 1_000_000, 3_000_000, 500_000))
    cases = {
        f"{rows:,} x {size:,}": (one_table(context, rows, size, STEP), 1.5),
        f"{few:,} x six tables of {_MANY:,}": (six_tables(context, few, chain), 1.5),
        f"{few:,} x {wide:,}, eleven columns, text keys": (wide_table(context, few, wide), 1.3),
    }
    figures, measured = [], {}
    for label, (case, least) in cases.items():
        ways = (PLAIN, JVM, BROADCAST, DUCKDB)
        times = measured[label] = _timed(context, label, case, ways, context.pick(2, 5))
        for name, bound in ((BROADCAST, least), (JVM, None), (DUCKDB, None)):
            what = f"rows/s, {PLAIN} / {name}, {label}"
            figures.append(ratio(what, times[name], times[PLAIN], bound, by_round=True))
    return outcome("Plain joins of many rows at once", measured, figures, _NOTE)


def bulk(context: Context) -> Outcome:
    """Rows per second, all at once; quick: a twentieth of all rows, one table with dense keys."""
    part, rounds = context.pick((20, 2), (1, 3))
    rows, few = 10_000_000 // part, 3_000_000 // part
    sizes = (1_000_000 // part, 10_000_000 // part)
    ways = (JVM, PYTHON, CHOSEN, MERGE, SHUFFLED)
    times: dict[str, Times] = {}
    figures: list[Figure] = []
    for size, step in context.pick([(sizes[0], 1)], [*product(sizes, (1, STEP))]):
        what = f"{rows:,} x {size:,}{', keys far apart' if step > 1 else ''}"
        most = size > 1_000_000  # a broadcast of more rows does not fit
        names = [IDENTITY, *ways, *([] if most else [BROADCAST])]
        case = one_table(context, rows, size, step)
        times[what] = found = _timed(context, what, case, names, rounds)
        figures += _over_spark(what, found, *((None, 2.0) if most else (1.5, None)))
        name = f"rows/s, {PYTHON} / {IDENTITY}, {what}"
        figures.append(ratio(name, found[IDENTITY], found[PYTHON], 0.85, by_round=True))
    what = f"{few:,} x six tables of {_MANY:,}"
    case = six_tables(context, few, Chain.of(context, _MANY))
    times[what] = _timed(context, what, case, (*ways, BROADCAST), rounds)
    figures += _over_spark(what, times[what], None, 1.3)
    return outcome("Many rows at once", times, figures, _NOTE)


def _over_spark(
    what: str, times: Mapping[str, list[float]], broadcast: float | None, best: float | None
) -> list[Figure]:
    """Rows a second of both runtimes over Spark's; only the JVM's have bounds."""
    spark = [name for name in times if name.startswith("Spark")]
    fastest = min(spark, key=lambda name: statistics.median(times[name]))
    return [
        ratio(f"rows/s, {ours} / {name}, {what}", times[rival], times[ours], least, by_round=True)
        for ours, name, rival, least in (
            (JVM, BROADCAST, BROADCAST, broadcast),
            (JVM, "Spark's best", fastest, best),
            (PYTHON, "Spark's best", fastest, None),
        )
        if rival in times
    ]
