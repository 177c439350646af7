"""Range joins in Spark without bsjoin: as one writes them, and at their best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data.ranges import SECOND_US, Case
from benchmarks.harness.spark import Join, persisted

WRITTEN, JOIN, BINS = "Spark as written", "Spark", "Spark, bins"
AS_OF, WINDOW = "Spark's as-of", "Spark, window"

_AS_OF_FLAG = "spark.sql.join.sortMergeAsOfJoin.enabled"
_MAX_PAIRS = 3 * 10**8  # Spark's as-of join goes through the rows of a key for each probe


def written_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """Spark's join as one writes it: a band's arithmetic is evaluated for each pair."""
    if case.kind != "band":
        return spark_join(case, table, stream)
    return _joined(case, table, stream, _between(table, *_ends(case, stream["p"])))


def spark_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """Spark's join; the ends of a band are columns of the stream before it is joined."""
    stream = _with_ends(case, stream)
    return _joined(case, table, stream, _matches(case, table, stream))


def binned(case: Case, table: DataFrame) -> DataFrame:
    """The table with a row for each bin of its points or intervals."""
    if case.kind == "band":
        return table.withColumn("bin", _bin(case, F.col("a")))
    bins = F.sequence(_bin(case, F.col("a")), _bin(case, F.col("b")))
    return table.withColumn("bin", F.explode(bins))


def binned_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: an equality join on bins, then the condition; see :func:`binned`."""
    stream = _with_ends(case, stream)
    if case.kind == "within":
        stream = stream.withColumn("bin", _bin(case, F.col("p")))
    else:
        first, last = ("lo", "hi") if case.kind == "band" else ("p", "q")
        bins = F.sequence(_bin(case, F.col(first)), _bin(case, F.col(last)))
        stream = stream.withColumn("bin", F.explode(bins))
    condition = (stream["bin"] == table["bin"]) & _matches(case, table, stream)
    if case.kind == "overlaps":
        # Two intervals may share several bins: the pair counts in the first of them.
        later = F.greatest(_bin(case, stream["p"]), _bin(case, table["a"]))
        condition &= stream["bin"] == later
    return _joined(case, table, stream, condition)


def as_of_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
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
    return _result(case, table, stream, joined)


def window_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """An as-of join by hand: both sides in one order, the last row of the table before each."""
    row, none = F.struct("v", "a"), F.lit(None)
    asked = stream.select("id", *case.on, F.col("p").alias("at"), none.alias("row"))
    known = table.select(none.alias("id"), *case.on, F.col("a").alias("at"), row.alias("row"))
    keys = case.on or [F.lit(0)]
    order = Window.partitionBy(*keys).orderBy("at", F.col("id").isNotNull())
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last("row", ignorenulls=True).over(so_far)
    found = known.unionByName(asked).withColumn("row", last)
    found = found.where("id IS NOT NULL AND row IS NOT NULL")
    return found.select("id", *case.on, F.col("at").alias("p"), "row.v", "row.a")


WAYS: tuple[
    tuple[str, Callable[[Case, DataFrame, DataFrame], DataFrame], Callable[[Case], bool]], ...
] = (
    (JOIN, spark_join, lambda case: case.kind != "asof"),
    (WRITTEN, written_join, lambda case: case.kind != "asof" and case.written),
    (BINS, binned_join, lambda case: case.bin_s > 0),
    (AS_OF, as_of_join, lambda case: case.kind == "asof" and case.pairs < _MAX_PAIRS),
    (
        WINDOW,
        window_join,
        lambda case: case.kind == "asof" and case.direction == "backward" and not case.width_s,
    ),
)
"""The alternatives on Spark: name, join of table and stream, and the cases that it can do."""


@contextmanager
def alternatives(spark: SparkSession, case: Case, table: DataFrame) -> Iterator[dict[str, Join]]:
    """The alternatives for a case, each a function of the stream; bins are in memory."""
    # The flag is read when a query is planned, and a query is planned when it runs.
    spark.conf.set(_AS_OF_FLAG, True)
    bins = persisted(binned(case, table)) if case.bin_s else None
    sides = {BINS: bins}
    try:
        yield {
            name: partial(join, case, sides.get(name) or table)
            for name, join, suits in WAYS
            if suits(case)
        }
    finally:
        spark.conf.unset(_AS_OF_FLAG)
        if bins is not None:
            bins.unpersist(blocking=True)


def _matches(case: Case, table: DataFrame, stream: DataFrame) -> Column:
    if case.kind == "within":
        return (table["a"] <= stream["p"]) & (stream["p"] < table["b"])
    if case.kind == "overlaps":
        return (table["a"] < stream["q"]) & (stream["p"] < table["b"])
    return _between(table, stream["lo"], stream["hi"])


def _between(table: DataFrame, low: Column, high: Column) -> Column:
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


def _joined(case: Case, table: DataFrame, stream: DataFrame, condition: Column) -> DataFrame:
    condition = reduce(and_, [*(stream[key] == table[key] for key in case.on), condition])
    return _result(case, table, stream, stream.join(table, condition))


def _result(case: Case, table: DataFrame, stream: DataFrame, joined: DataFrame) -> DataFrame:
    ours = set(stream.columns)
    return joined.select(*(stream[n] if n in ours else table[n] for n in case.columns))
