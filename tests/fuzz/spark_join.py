"""The oracle held against Spark's own join: equality joins, bands, intervals and overlaps."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin import Band, Overlaps, Within
from bsjoin.conditions import chooses
from tests.fuzz import keys
from tests.fuzz.case import Case, Join, Rows, aggregates, brought, result_columns
from tests.fuzz.engine import completed, frame
from tests.fuzz.exact import TooManyRowsError, difference, expected, latest, width_of
from tests.fuzz.values import KINDS, cells
from tests.oracle import collected

_HOW = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}


def disagreement(spark: SparkSession, case: Case) -> str | None:
    """How the oracle's rows differ from those of Spark, in batch.

    It compares the joins up to one that takes one of several rows, aggregates them, or has several
    range conditions or another relation than an overlap.

    Returns:
        None where they are equal; an empty text where there is nothing to compare.
    """
    joins: list[Join] = []
    for join in case.joins:
        if chooses(join.when) or aggregates(case.tables[join.table], join) or _is_related(join):
            break
        joins.append(join)
    if not joins:
        return ""
    case = replace(case, joins=tuple(joins), cuts=(), events=())
    try:
        ((_, rows),) = expected(case)
    except TooManyRowsError:  # without the refreshes there may be more than the case has
        return ""
    result = _given(spark, case.stream)
    for number, join in enumerate(joins):
        result = _joined(spark, result, case, number, join)
    found = list(zip(*map(cells, collected(result).columns), strict=True))
    return difference(found, rows, result_columns(case)[-1])


def _given(spark: SparkSession, rows: Rows) -> DataFrame:
    """The rows, the ends of networks as the oracle reads them."""
    df = frame(spark, rows.arrow()).coalesce(1)
    return completed(df, rows.columns, networks=False)


def _is_related(join: Join) -> bool:
    """Whether it has several range conditions, or another relation than an overlap."""
    when = join.when
    is_narrow = isinstance(when, Overlaps) and (when.relation, when.at_least) != ("overlaps", None)
    return bool(join.also) or is_narrow


def _joined(
    spark: SparkSession, stream: DataFrame, case: Case, number: int, join: Join
) -> DataFrame:
    table = case.tables[join.table]
    before, after = result_columns(case)[number : number + 2]
    kinds = dict(table.columns)
    left = stream.toDF(*(f"s{i}" for i in range(len(before))))
    right = _given(spark, latest(table, 0))
    right = right.toDF(*(f"b{i}" for i in range(len(right.columns))))
    names = [name for name, _ in before]
    columns = [name for name, _ in table.columns]

    def ours(name: str) -> Column:
        return F.col(f"s{names.index(name)}")

    def theirs(name: str) -> Column:
        return F.col(f"b{columns.index(name)}")

    condition = F.lit(True)
    for name, key in join.on:
        is_safe = key in join.nulls_equal
        one, other = keys.column(name, ours), theirs(key)
        condition = condition & (one.eqNullSafe(other) if is_safe else one == other)
    when = join.when
    if isinstance(when, Band):
        kind = dict(before)[when.stream_col]
        point, value = (
            _number(ours(when.stream_col), kind),
            _number(theirs(when.batch_col), kinds[when.batch_col]),
        )
        low, high = (_moved(point, w, kind, s) for w, s in ((when.before, -1), (when.after, 1)))
        condition = condition & _above(value, low, when.closed in ("both", "left"))
        condition = condition & _above(high, value, when.closed in ("both", "right"))
        condition = condition & point.isNotNull() & value.isNotNull()
    elif isinstance(when, Within):
        start, end = theirs(when.start_col), theirs(when.end_col)
        point = ours(when.stream_col)
        condition = condition & _above(point, start, when.closed in ("both", "left"))
        inside = _above(end, point, when.closed in ("both", "right")) | end.isNull()
        condition = condition & inside & _not_empty(start, end, when.closed)
    elif isinstance(when, Overlaps):
        (a, b), (c, d) = map(ours, when.stream), map(theirs, when.batch)
        touching = when.closed == "both"
        condition = condition & (_above(d, a, touching) | d.isNull())
        condition = condition & (_above(b, c, touching) | b.isNull())
        condition = condition & a.isNotNull() & c.isNotNull()
        condition = condition & _not_empty(a, b, when.closed) & _not_empty(c, d, when.closed)
    if join.where is not None:
        what, one, other = join.where
        given, there = ours(one), theirs(other)
        rest = given.eqNullSafe(there) if what == "same" else given > there
        condition = condition & (there.isNull() if what == "null" else rest)
    joined = left.join(right, condition, _HOW[join.how])
    taken = [] if join.how in ("semi", "anti") else brought(table, join)
    return joined.select(*left.columns, *map(theirs, taken)).toDF(*(name for name, _ in after))


def _above(high: Column | None, low: Column | None, closed: bool) -> Column:
    if high is None or low is None:
        return F.lit(True)
    return high >= low if closed else high > low


def _not_empty(start: Column, end: Column, closed: str) -> Column:
    return end.isNull() | _above(end, start, closed == "both")


def _number(column: Column, kind: str) -> Column:
    """A point as a number in which a band can be computed."""
    family = KINDS[kind].family
    if family == "floating":
        return column.cast(T.DoubleType())
    if family == "date":
        return F.unix_date(column).cast(T.DecimalType(38, 12))
    if family == "timestamp":
        return F.unix_micros(column).cast(T.DecimalType(38, 12))
    if family == "timestamp_ntz":
        return F.unix_micros(
            F.to_utc_timestamp(column.cast("timestamp"), F.current_timezone())
        ).cast(T.DecimalType(38, 12))
    return column.cast(T.DecimalType(38, 12))


def _moved(point: Column, width: object, kind: str, sign: int) -> Column | None:
    by = width_of(width, kind)
    if abs(by) == math.inf:
        return None
    if KINDS[kind].family == "floating":
        return point + F.lit(sign * float(by))
    exact = Fraction(by) * sign
    return point + F.lit(str(float(exact))).cast(T.DecimalType(38, 12))
