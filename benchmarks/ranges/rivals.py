"""Range joins in Spark without bsjoin: as one writes them, and at their best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data.ranges import SECOND_US, Case

__all__ = [
    "AS_OF",
    "BINS",
    "JOIN",
    "WINDOW",
    "WRITTEN",
    "binned",
    "binned_join",
    "rivals",
    "spark_join",
]

WRITTEN = "Spark as written"
JOIN = "Spark"
BINS = "Spark, bins"
AS_OF = "Spark's as-of"
WINDOW = "Spark, window"

_AS_OF_FLAG = "spark.sql.join.sortMergeAsOfJoin.enabled"

_MAX_PAIRS = 3 * 10**8  # Spark's as-of join goes through the rows of a key for each probe

Join = Callable[[DataFrame], DataFrame]


@contextmanager
def rivals(spark: SparkSession, case: Case, table: DataFrame) -> Iterator[dict[str, Join]]:
    """The ways in which Spark carries out a case, each a function of the stream.

    Args:
        spark: the session.
        case: the join.
        table: its table; persist it, so that no way has to read files.
    """
    if case.kind == "asof":
        # The flag is read when a query is planned, and a query is planned when it is run.
        spark.conf.set(_AS_OF_FLAG, True)
        as_of: dict[str, Join] = {}
        if case.pairs < _MAX_PAIRS:
            as_of[AS_OF] = lambda stream: _as_of(case, stream, table)
        if case.direction == "backward" and not case.width_s:
            as_of[WINDOW] = lambda stream: _last_before(case, stream, table)
        try:
            yield as_of
        finally:
            spark.conf.unset(_AS_OF_FLAG)
        return
    ways: dict[str, Join] = {JOIN: lambda stream: spark_join(case, stream, table)}
    if case.written:
        ways[WRITTEN] = lambda stream: spark_join(case, stream, table, written=True)
    kept = binned(case, table).persist() if case.bin_s else None
    if kept is not None:
        kept.count()
        ways[BINS] = lambda stream: binned_join(case, stream, kept)
    try:
        yield ways
    finally:
        if kept is not None:
            kept.unpersist(blocking=True)


def spark_join(
    case: Case, stream: DataFrame, table: DataFrame, *, written: bool = False
) -> DataFrame:
    """Spark's own join on the condition.

    Args:
        case: the join.
        stream: its stream.
        table: its table.
        written: leave a band's arithmetic in the condition. Otherwise the ends of the band are
            columns of the stream before it is joined; Spark would compute them for each pair.
    """
    stream = stream if written else _with_ends(case, stream)
    condition = _matches(case, stream, table, written=written)
    if case.keys:
        condition = (stream["k"] == table["k"]) & condition
    return _result(case, stream.join(table, condition), stream, table)


def binned(case: Case, table: DataFrame) -> DataFrame:
    """The table with the bins in which its points or intervals lie, a row for each."""
    if case.kind == "band":
        return table.withColumn("bin", _bin(case, F.col("a")))
    last = _bin(case, F.col("b"))
    return table.withColumn("bin", F.explode(F.sequence(_bin(case, F.col("a")), last)))


def binned_join(case: Case, stream: DataFrame, table: DataFrame) -> DataFrame:
    """What people write instead: an equality join on bins, then the condition.

    Args:
        case: the join.
        stream: its stream.
        table: what :func:`binned` made of its table.
    """
    stream = _with_ends(case, stream)
    if case.kind == "within":
        stream = stream.withColumn("bin", _bin(case, F.col("p")))
    else:
        first, last = ("lo", "hi") if case.kind == "band" else ("p", "q")
        listed = F.sequence(_bin(case, F.col(first)), _bin(case, F.col(last)))
        stream = stream.withColumn("bin", F.explode(listed))
    conditions = [stream[name] == table[name] for name in (*case.on, "bin")]
    conditions.append(_matches(case, stream, table, written=False))
    if case.kind == "overlaps":
        # Two intervals may share several bins: the pair counts in the first of them.
        later = F.greatest(_bin(case, stream["p"]), _bin(case, table["a"]))
        conditions.append(stream["bin"] == later)
    return _result(case, stream.join(table, reduce(and_, conditions)), stream, table)


def _as_of(case: Case, stream: DataFrame, table: DataFrame) -> DataFrame:
    """The as-of join that Spark has under a private name."""
    joined = stream._joinAsOf(  # type: ignore[operator]
        table,
        stream["p"],
        table["a"],
        on="k" if case.keys else None,
        how="inner",
        direction=case.direction,
        tolerance=F.lit(case.width_s * SECOND_US) if case.width_s else None,
    )
    return _result(case, joined, stream, table)


def _last_before(case: Case, stream: DataFrame, table: DataFrame) -> DataFrame:
    """An as-of join by hand: both sides in one order, the last row of the table before each."""
    row = F.struct("v", "a")
    asked = stream.select("id", *case.on, F.col("p").alias("at"), F.lit(None).alias("row"))
    known = table.select(
        F.lit(None).alias("id"), *case.on, F.col("a").alias("at"), row.alias("row")
    )
    keys = case.on or [F.lit(0)]
    order = Window.partitionBy(*keys).orderBy("at", F.col("id").isNotNull())
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last("row", ignorenulls=True).over(so_far)
    found = known.unionByName(asked).withColumn("row", last).where("id IS NOT NULL")
    return found.where("row IS NOT NULL").select(
        "id", *case.on, F.col("at").alias("p"), "row.v", "row.a"
    )


def _matches(case: Case, stream: DataFrame, table: DataFrame, *, written: bool) -> Column:
    if case.kind == "within":
        return (table["a"] <= stream["p"]) & (stream["p"] < table["b"])
    if case.kind == "overlaps":
        return (table["a"] < stream["q"]) & (stream["p"] < table["b"])
    low, high = _ends(case, stream["p"]) if written else (stream["lo"], stream["hi"])
    return (table["a"] >= low) & (table["a"] <= high)


def _with_ends(case: Case, stream: DataFrame) -> DataFrame:
    if case.kind != "band":
        return stream
    low, high = _ends(case, F.col("p"))
    return stream.withColumn("lo", low).withColumn("hi", high)


def _ends(case: Case, point: Column) -> tuple[Column, Column]:
    width = F.expr(f"INTERVAL {case.width_s} SECONDS")
    return point - width, point + width


def _bin(case: Case, point: Column) -> Column:
    return F.floor(F.unix_micros(point) / F.lit(case.bin_s * SECOND_US))


def _result(case: Case, joined: DataFrame, stream: DataFrame, table: DataFrame) -> DataFrame:
    ours = set(stream.columns)
    return joined.select(*(stream[n] if n in ours else table[n] for n in case.columns))
