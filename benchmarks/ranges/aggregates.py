"""Aggregates of a band beside making its rows and aggregating these: 1,000 matches a row."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, consume, fingerprint, in_runtime, persisted
from benchmarks.harness.timing import check_equal, ratio, time_joins
from bsjoin import Band

_ROWS, _MATCHES = 2_000, 1_000
_AGG = {"n": "count(*)", "total": "sum(v)", "least": "min(v)", "most": "max(v)"}
_COLUMNS = ["id", "k", "p", *_AGG]
_BOUND, _SLOW_S = 50.0, 3.0


def run(context: Context) -> Outcome:
    """Each key has 2,000 rows, and each row of the stream matches half of those of its key."""
    keys = context.pick(200, 2_000)
    spark = context.spark
    rows = spark.range(keys * _ROWS, numPartitions=2)
    table = persisted(
        rows.selectExpr(
            f"id DIV {_ROWS} AS k", f"id % {_ROWS} AS q",
            f"int(pmod(xxhash64(id, {context.seed}), 100000)) AS v",
        )
    )  # fmt: skip
    points = f"{_MATCHES} + pmod(xxhash64(id, {context.seed}), {_ROWS - _MATCHES})"
    ids = spark.range(context.pick(100_000, 500_000), numPartitions=2)
    stream = persisted(ids.selectExpr("id", f"pmod(xxhash64(id), {keys}) AS k", f"{points} AS p"))
    try:
        return Outcome(_compared(context, stream, table))
    finally:
        stream.unpersist(blocking=True)
        table.unpersist(blocking=True)


def _compared(context: Context, stream: DataFrame, table: DataFrame) -> list[Figure]:
    built = bsjoin.BatchTable.build(table, on="k", when=_band({}))
    ways: dict[str, Join] = {}
    for runtime in ("jvm", "python"):
        ways[f"aggregates, {runtime}"] = in_runtime(runtime, partial(_aggregates, built))
        ways[f"rows, {runtime}"] = in_runtime(runtime, partial(_rows, built))
    ways["Spark, join"] = partial(_by_join, table)
    ways["Spark, window"] = partial(_by_window, table)
    check_equal({name: fingerprint(way(stream), _COLUMNS) for name, way in ways.items()})
    ours = [name for name in ways if name.startswith("aggregates")]
    for name in ours:
        for _ in range(context.pick(1, 5)):
            consume(ways[name](stream))
    others = [name for name in ways if name not in ours]
    seconds = time_joins(
        context,
        "1,000 matches a row",
        ways,
        stream,
        context.pick(3, 7),
        warm=others,
        slow_s=_SLOW_S,
    )
    figures = []
    for name in ours:
        runtime = name.split(", ")[1]
        rivals = {f"rows, {runtime}": "making the rows", "Spark, join": "Spark's join",
                  "Spark, window": "Spark's window"}  # fmt: skip
        for rival, shown in rivals.items():
            bound = _BOUND if rival.startswith("rows") else None
            label = f"1,000 matches a row, {runtime}: {shown} / aggregates"
            figures.append(ratio(label, seconds[rival], seconds[name], bound))
    return figures


def _band(agg: dict[str, str]) -> Band:
    return Band("p", "q", before=_MATCHES - 1, after=0, agg=agg)


def _aggregates(built: bsjoin.BatchTable, stream: DataFrame) -> DataFrame:
    return built.join(stream, when=_band(_AGG))


def _aggregated(rows: DataFrame) -> DataFrame:
    calls = (F.expr(text).alias(name) for name, text in _AGG.items())
    return rows.groupBy("id", "k", "p").agg(*calls)


def _rows(built: bsjoin.BatchTable, stream: DataFrame) -> DataFrame:
    return _aggregated(built.join(stream, when=_band({}), select=["v"]))


def _by_join(table: DataFrame, stream: DataFrame) -> DataFrame:
    other = table.withColumnRenamed("k", "other")
    near = (F.col("k") == F.col("other")) & F.col("q").between(
        F.col("p") - (_MATCHES - 1), F.col("p")
    )
    return _aggregated(stream.join(F.broadcast(other), near))


def _by_window(table: DataFrame, stream: DataFrame) -> DataFrame:
    """Both sides together, sorted by key and point: the table's rows in the frame of each row."""
    both = stream.selectExpr("id", "k", "p", "CAST(NULL AS int) AS v").unionByName(
        table.selectExpr("CAST(NULL AS bigint) AS id", "k", "q AS p", "v")
    )
    frame = Window.partitionBy("k").orderBy("p").rangeBetween(1 - _MATCHES, 0)
    calls = (F.expr(text.replace("*", "v")).over(frame).alias(name) for name, text in _AGG.items())
    return both.select("id", "k", "p", *calls).where("id IS NOT NULL")
