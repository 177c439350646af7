"""Aggregates of a band beside making its rows and aggregating these: 1,000 matches a row."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, consume, in_memory, in_runtime
from benchmarks.harness.timing import check_joins, ratio, time_joins
from bsjoin import Band

_ROWS, _MATCHES = 2_000, 1_000
_AGG = {"n": "count(*)", "total": "sum(v)", "least": "min(v)", "most": "max(v)"}
_COLUMNS = ["id", "k", "p", *_AGG]
_BOUND, _SLOW_S = 50.0, 3.0
_LABEL = "1,000 matches a row"


def run(context: Context) -> Outcome:
    """Each key has 2,000 rows, and each row of the stream matches half of those of its key."""
    keys, spark = context.pick(200, 2_000), context.spark
    table = spark.range(keys * _ROWS, numPartitions=2).selectExpr(
        f"id DIV {_ROWS} AS k", f"id % {_ROWS} AS q",
        f"int(pmod(xxhash64(id, {context.seed}), 100000)) AS v",
    )  # fmt: skip
    points = f"{_MATCHES} + pmod(xxhash64(id, {context.seed}), {_ROWS - _MATCHES})"
    ids = spark.range(context.pick(100_000, 500_000), numPartitions=2)
    stream = ids.selectExpr("id", f"pmod(xxhash64(id), {keys}) AS k", f"{points} AS p")
    with in_memory(table, stream):
        return Outcome(_compared(context, stream, table))


def _compared(context: Context, stream: DataFrame, table: DataFrame) -> list[Figure]:
    built = bsjoin.BatchTable.build(table, on="k", when=_band({}))
    ours: dict[str, Join] = {}
    others: dict[str, Join] = {
        "Spark's join": partial(_by_join, table),
        "Spark's window": partial(_by_window, table),
    }
    for runtime in ("jvm", "python"):
        ours[runtime] = in_runtime(runtime, partial(built.join, when=_band(_AGG)))
        others[f"making the rows, {runtime}"] = in_runtime(runtime, partial(_rows, built))
    ways = ours | others
    check_joins({name: partial(way, stream) for name, way in ways.items()}, _COLUMNS)
    for way in list(ours.values()) * context.pick(1, 5):
        consume(way(stream))
    seconds = time_joins(
        context, _LABEL, ways, stream, context.pick(3, 7), warm=others, slow_s=_SLOW_S
    )
    return [
        ratio(f"{_LABEL}, {runtime}: {name} / aggregates", seconds[way], seconds[runtime], bound)
        for runtime in ours
        for name, way, bound in (
            ("making the rows", f"making the rows, {runtime}", _BOUND),
            ("Spark's join", "Spark's join", None),
            ("Spark's window", "Spark's window", None),
        )
    ]


def _band(agg: dict[str, str]) -> Band:
    return Band("p", "q", before=_MATCHES - 1, after=0, agg=agg)


def _aggregated(rows: DataFrame) -> DataFrame:
    calls = (F.expr(text).alias(name) for name, text in _AGG.items())
    return rows.groupBy("id", "k", "p").agg(*calls)


def _rows(built: bsjoin.BatchTable, stream: DataFrame) -> DataFrame:
    return _aggregated(built.join(stream, when=_band({}), select=["v"]))


def _by_join(table: DataFrame, stream: DataFrame) -> DataFrame:
    other = table.withColumnRenamed("k", "other")
    near = F.expr(f"k = other AND q BETWEEN p - {_MATCHES - 1} AND p")
    return _aggregated(stream.join(F.broadcast(other), near))


def _by_window(table: DataFrame, stream: DataFrame) -> DataFrame:
    """Both sides together, sorted by key and point: the table's rows in the frame of each row."""
    both = stream.selectExpr("id", "k", "p", "CAST(NULL AS int) AS v").unionByName(
        table.selectExpr("CAST(NULL AS bigint) AS id", "k", "q AS p", "v")
    )
    frame = Window.partitionBy("k").orderBy("p").rangeBetween(1 - _MATCHES, 0)
    calls = (F.expr(text.replace("*", "v")).over(frame).alias(name) for name, text in _AGG.items())
    return both.select("id", "k", "p", *calls).where("id IS NOT NULL")
