"""Range joins in Spark without bsjoin: as one writes them, and at their best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data.ranges import SECOND_US, Case
from benchmarks.harness.spark import Join, configured, in_memory

WRITTEN, JOIN, BINS = "Spark as written", "Spark", "Spark, bins"
AS_OF, WINDOW = "Spark's as-of", "Spark, window"

_AS_OF_FLAG = "spark.sql.join.sortMergeAsOfJoin.enabled"
_MAX_PAIRS = 3 * 10**8  # Spark's as-of join goes through the rows of a key for each probe
_SPANS = {
    "band": (("a", "a"), ("lo", "hi")),
    "within": (("a", "b"), ("p", "p")),
    "overlaps": (("a", "b"), ("p", "q")),
}
"""From where to where a row of the table and one of the stream reach."""


def written_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """Spark's join with a band as one writes it: its arithmetic is evaluated for each pair."""
    ends = case.ends
    return _joined(case, table, stream, (f"a >= {ends['lo']}", f"a <= {ends['hi']}"))


def spark_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """Spark's join; the ends of a band are columns of the stream before it is joined."""
    return _joined(case, table, _with_ends(case, stream), case.matches)


def binned(case: Case, table: DataFrame) -> DataFrame:
    """The table with a row for each bin of its points or intervals."""
    return _with_bins(case, table, *_SPANS[case.kind][0])


def binned_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: an equality join on bins, then the condition; see :func:`binned`."""
    stream = _with_bins(case, _with_ends(case, stream), *_SPANS[case.kind][1])
    conditions = ["s.bin = t.bin", *case.matches]
    if case.kind == "overlaps":
        # Two intervals may share several bins: the pair counts in the first of them.
        conditions.append(f"s.bin = greatest({_bin(case, 'p')}, {_bin(case, 'a')})")
    return _joined(case, table, stream, conditions)


def as_of_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """The as-of join that Spark has under a private name."""
    tolerance = F.lit(case.width_s * SECOND_US) if case.width_s else None
    joined = stream._joinAsOf(  # type: ignore[operator]
        table, stream["p"], table["a"], on="k" if case.keys else None, how="inner",
        direction=case.direction, tolerance=tolerance,
    )  # fmt: skip
    return _result(case, table, stream, joined)


def window_join(case: Case, table: DataFrame, stream: DataFrame) -> DataFrame:
    """An as-of join by hand: both sides in one order, the last row of the table before each."""
    asked = stream.selectExpr("id", *case.on, "p AS at", "NULL AS row")
    known = table.selectExpr("NULL AS id", *case.on, "a AS at", "struct(v, a) AS row")
    order = Window.partitionBy(*case.on or [F.lit(0)]).orderBy("at", F.col("id").isNotNull())
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last("row", ignorenulls=True).over(so_far)
    found = known.unionByName(asked).withColumn("row", last)
    found = found.where("id IS NOT NULL AND row IS NOT NULL")
    return found.selectExpr("id", *case.on, "at AS p", "row.v", "row.a")


WAYS: dict[
    str, tuple[Callable[[Case, DataFrame, DataFrame], DataFrame], Callable[[Case], bool]]
] = {
    JOIN: (spark_join, lambda case: case.kind != "asof"),
    WRITTEN: (written_join, lambda case: case.written),
    BINS: (binned_join, lambda case: case.bin_s > 0),
    AS_OF: (as_of_join, lambda case: case.kind == "asof" and case.pairs < _MAX_PAIRS),
    WINDOW: (
        window_join,
        lambda case: case.kind == "asof" and case.direction == "backward" and not case.width_s,
    ),
}
"""The alternatives on Spark: join of table and stream, and the cases that it can do."""


@contextmanager
def alternatives(spark: SparkSession, case: Case, table: DataFrame) -> Iterator[dict[str, Join]]:
    """The alternatives for a case, each a function of the stream; bins are in memory."""
    # The flag is read when a query is planned, and a query is planned when it runs.
    bins = [binned(case, table)] if case.bin_s else []
    with configured(spark, {_AS_OF_FLAG: True}), in_memory(*bins):
        yield {
            name: partial(join, case, bins[0] if name == BINS else table)
            for name, (join, suits) in WAYS.items()
            if suits(case)
        }


def _with_ends(case: Case, stream: DataFrame) -> DataFrame:
    return stream.selectExpr("*", *(f"{end} AS {name}" for name, end in case.ends.items()))


def _bin(case: Case, point: str) -> str:
    return f"floor(unix_micros({point}) / {case.bin_s * SECOND_US})"


def _with_bins(case: Case, rows: DataFrame, first: str, last: str) -> DataFrame:
    bins = _bin(case, first)
    if first != last:
        bins = f"explode(sequence({bins}, {_bin(case, last)}))"
    return rows.selectExpr("*", f"{bins} AS bin")


def _joined(
    case: Case, table: DataFrame, stream: DataFrame, conditions: Iterable[str]
) -> DataFrame:
    every = " AND ".join([*(f"s.{key} = t.{key}" for key in case.on), *conditions])
    joined = stream.alias("s").join(table.alias("t"), F.expr(every))
    return _result(case, table, stream, joined)


def _result(case: Case, table: DataFrame, stream: DataFrame, joined: DataFrame) -> DataFrame:
    ours = set(stream.columns)
    return joined.select(*(stream[n] if n in ours else table[n] for n in case.columns))
