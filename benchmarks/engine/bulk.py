"""Many rows at once: both runtimes, plain joins, all of Spark's joins, and DuckDB."""

from __future__ import annotations

import os
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

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
    STEP,
    Chain,
    check_answered,
    joined,
)
from benchmarks.engine.full_cache import COLUMNS, IDENTITY, with_identity_row
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import JVM, PYTHON, Join, in_memory, in_runtimes
from benchmarks.harness.timing import (
    Times,
    alternate,
    check_equal,
    check_joins,
    ratio,
    seconds_of,
    time_joins,
)

DUCKDB, SHUFFLED = "DuckDB", "Spark, shuffled hash"
_HINTS = {CHOSEN: "", MERGE: "merge", SHUFFLED: "shuffle_hash", BROADCAST: "broadcast"}
_MANY = 100_000
_NOTE = (
    "Spark and DuckDB build what they need in every run, broadcasts included; the stored tables "
    "have their index. DuckDB gives its rows away as Arrow batches, which nobody reads."
)


@dataclass(frozen=True)
class Bulk:
    """A stream's rows and the tables that they are joined with, as Parquet files.

    Each table has a key ``k``, and the stream one of ``keys`` for it. Of ``columns``, those of the
    result, the ``numbers`` are added up, and the lengths of the others but the keys.
    """

    stream: Path
    tables: Sequence[Path]
    indexed: Sequence[bsjoin.BatchTable]
    keys: Sequence[str]
    columns: Sequence[str]
    numbers: Collection[str]

    @property
    def sums(self) -> list[str]:
        """That every way must answer, in the SQL of Spark and of DuckDB."""
        added = [x if x in self.numbers else f"length({x})" for x in self.columns
                 if x not in self.keys]  # fmt: skip
        return ["count(*)", *(f"sum({one})" for one in added)]

    def plain(self, stream: DataFrame) -> DataFrame:
        """Plain joins with the stored tables."""
        tables = (one.to_df(stream.sparkSession) for one in self.indexed)
        return joined(self.keys, tables, stream).select(*self.columns)

    def ours(self, stream: DataFrame) -> DataFrame:
        """The joins by :func:`bsjoin.join`."""
        for key, one in zip(self.keys, self.indexed, strict=True):
            stream = one.join(stream, on={key: "k"})
        return stream.select(*self.columns)

    def theirs(self, hint: str, stream: DataFrame) -> DataFrame:
        """Spark's joins of the files."""
        frames = (stream.sparkSession.read.parquet(str(path)) for path in self.tables)
        hinted = (df.hint(hint) if hint else df for df in frames)
        return joined(self.keys, hinted, stream).select(*self.columns)

    def in_duckdb(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """The same rows in DuckDB's memory, and the query of the result."""
        database = duckdb.connect(config={"threads": os.cpu_count() or 2})
        paths = {"s": self.stream} | {f"stored{i}": path for i, path in enumerate(self.tables)}
        for name, path in paths.items():
            database.sql(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}/*.parquet')")
        joins = [f"JOIN stored{i} ON stored{i}.k = s.{key}" for i, key in enumerate(self.keys)]
        # A key of the table has the name of one of the stream's only where both are equal.
        columns = [f"s.{name}" if name in (*self.keys, "id") else name for name in self.columns]
        return database, f"SELECT {', '.join(columns)} FROM s {' '.join(joins)}"


def _stored(context: Context, name: str, df: DataFrame) -> Path:
    path = context.data / f"bulk-{name}"
    parquet(path, df)
    return path


def _indexed(context: Context, path: Path) -> bsjoin.BatchTable:
    return bsjoin.BatchTable.build(context.spark.read.parquet(str(path)), on="k", unique=True)


def one_table(context: Context, rows: int, size: int, step: int = 1) -> Bulk:
    """Rows with a table of a number and a text; keys are ``step`` apart."""
    spark, key = context.spark, F.col("id")
    df = table(spark, size, context.data).withColumn("k", F.col("k") * step)
    path = _stored(context, f"one-{size}-{step}", df)
    drawn = (scattered(key, size, context.seed) * step).alias("k")
    name = f"stream-{rows}-{size}-{step}-{context.seed}"
    stream = _stored(context, name, spark.range(rows).select(drawn, "id"))
    return Bulk(stream, [path], [_indexed(context, path)], ["k"], COLUMNS, {"id", "amount"})


def six_tables(context: Context, rows: int, chain: Chain) -> Bulk:
    """Rows with a key for each table of a chain."""
    keys = [f"k{i}" for i in range(MOST)]
    drawn = [
        (scattered(F.col("id"), chain.rows, i) * chain.step).alias(name)
        for i, name in enumerate(keys)
    ]
    made = context.spark.range(rows).select("id", *drawn)
    stream = _stored(context, f"six-{rows}-{chain.rows}-{chain.step}", made)
    columns = ["id", *(f"{x}{i}" for i in range(MOST) for x in "kat")]
    numbers = {name for name in columns if not name.startswith("t")}
    return Bulk(stream, chain.paths, chain.indexed, keys, columns, numbers)


def wide_table(context: Context, rows: int, size: int) -> Bulk:
    """Rows with a table of five texts and five numbers, by a text."""

    def text(number: Column) -> Column:
        return F.concat(F.lit("customer-"), number.cast("string"))

    spark, key = context.spark, F.col("id")
    texts = [
        F.concat(F.lit(f"{x}-"), F.md5((key * i).cast("string"))) for i, x in enumerate("abcde", 1)
    ]
    numbers = [(key * i).alias(f"n{i}") for i in range(5)]
    made = spark.range(size).select(
        text(key * STEP).alias("k"), *(t.alias(f"t{i}") for i, t in enumerate(texts)), *numbers
    )
    path = _stored(context, f"wide-{size}", made)
    drawn = text(scattered(key, size, context.seed) * STEP).alias("k")
    name = f"texts-{rows}-{size}-{context.seed}"
    stream = _stored(context, name, spark.range(rows).select(drawn, "id"))
    columns = ["k", "id", *(f"{x}{i}" for x in "tn" for i in range(5))]
    many = {"id", *(f"n{i}" for i in range(5))}
    return Bulk(stream, [path], [_indexed(context, path)], ["k"], columns, many)


def _timed(context: Context, label: str, case: Bulk, names: Sequence[str], rounds: int) -> Times:
    """Seconds of ways by their names; all answers are compared before."""
    every: dict[str, Join] = {
        PLAIN: case.plain,
        **in_runtimes(case.ours),
        IDENTITY: lambda some: with_identity_row(some).select(*COLUMNS),
        **{name: partial(case.theirs, hint) for name, hint in _HINTS.items()},
    }
    ways = {name: every[name] for name in names if name != DUCKDB}
    with in_memory(context.spark.read.parquet(str(case.stream))) as (stream,):
        compared = {n: partial(way, stream) for n, way in ways.items() if n != IDENTITY}
        check_joins(compared, case.columns)
        if PLAIN in ways:
            check_answered(len(case.keys), case.plain(stream))
        times = time_joins(context, label, ways, stream, rounds)
        if DUCKDB in names:
            found = case.plain(stream).selectExpr(*case.sums).first()
            times |= _in_duckdb(context, label, case, found, rounds)
    return times


def _in_duckdb(context: Context, label: str, case: Bulk, right: Any, rounds: int) -> Times:
    """DuckDB's seconds; it lets go of its rows as they come."""
    database, query = case.in_duckdb()
    (sums,) = database.sql(f"SELECT {', '.join(case.sums)} FROM ({query})").fetchall()
    check_equal({PLAIN: tuple(map(int, right)), DUCKDB: tuple(map(int, sums))})

    def run() -> None:
        for _ in database.sql(query).to_arrow_reader(1_000_000):
            pass

    say = lambda line: context.say(f"  {label}  {line}")  # noqa: E731
    times = alternate({DUCKDB: partial(seconds_of, run)}, rounds, say=say)
    database.close()
    return times


def _shown(title: str, times: Mapping[str, Mapping[str, list[float]]]) -> Table:
    lines = [
        {"joined": label, "way": name, "million rows/s": int(label.split()[0].replace(",", ""))
         / statistics.median(seconds) / 1e6}
        for label, by in times.items()
        for name, seconds in by.items()
    ]  # fmt: skip
    drawn = Table.of(title, lines, _NOTE)
    return drawn.drawn("bars", "joined", "million rows/s", by="way", ylabel="million rows/s")


def planned_bulk(
    context: Context, chain: Chain
) -> tuple[list[Figure], Table, dict[str, dict[str, list[float]]]]:
    """Plain joins beside Spark's broadcast and DuckDB: figures, a table, seconds by case and way.

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
        names = (PLAIN, JVM, BROADCAST, DUCKDB)
        times = measured[label] = _timed(context, label, case, names, context.pick(2, 5))
        bounds = {BROADCAST: least, JVM: None, DUCKDB: None}
        for name, bound in bounds.items():
            what = f"rows/s, {PLAIN} / {name}, {label}"
            figures.append(ratio(what, times[name], times[PLAIN], bound, by_round=True))
    return figures, _shown("Plain joins of many rows at once", measured), measured


def bulk(context: Context) -> Outcome:
    """Rows per second, all at once; quick: a twentieth of all rows, one table with dense keys."""
    part, times, figures = context.pick(20, 1), {}, []  # type: int, dict[str, Any], list[Figure]
    rows, few = 10_000_000 // part, 3_000_000 // part
    sizes = (1_000_000 // part, 10_000_000 // part)
    all_ways = (JVM, PYTHON, *_HINTS)
    for size, step in context.pick([(sizes[0], 1)], [*product(sizes, (1, STEP))]):
        what = f"{rows:,} x {size:,}{', keys far apart' if step > 1 else ''}"
        most = size > 1_000_000  # a broadcast of more rows does not fit
        names = [IDENTITY, *(one for one in all_ways if not (most and one == BROADCAST))]
        case = one_table(context, rows, size, step)
        times[what] = found = _timed(context, what, case, names, context.pick(2, 3))
        figures += _over_spark(what, found, *((None, 2.0) if most else (1.5, None)))
        name = f"rows/s, {PYTHON} / {IDENTITY}, {what}"
        figures.append(ratio(name, found[IDENTITY], found[PYTHON], 0.85, by_round=True))
    what = f"{few:,} x six tables of {_MANY:,}"
    case = six_tables(context, few, Chain.of(context, _MANY))
    times[what] = _timed(context, what, case, all_ways, context.pick(2, 3))
    figures += _over_spark(what, times[what], None, 1.3)
    return Outcome(figures, [_shown("Many rows at once", times)], measured=times)


def _over_spark(
    what: str,
    times: Mapping[str, list[float]],
    over_broadcast: float | None,
    over_best: float | None,
) -> list[Figure]:
    """Rows a second of both runtimes over Spark's; only the JVM's have bounds."""
    spark = [name for name in times if name.startswith("Spark")]
    best, found = min(spark, key=lambda name: statistics.median(times[name])), []
    for ours in (JVM, PYTHON):
        rivals = {BROADCAST: (BROADCAST, over_broadcast), "Spark's best": (best, over_best)}
        for name, (rival, bound) in rivals.items():
            if rival in times:
                least = bound if ours == JVM else None
                label = f"rows/s, {ours} / {name}, {what}"
                found.append(ratio(label, times[rival], times[ours], least, by_round=True))
    return found
