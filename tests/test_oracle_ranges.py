"""Range joins against Spark's own joins with the conditions written out, on hostile values.

Types, conditions, join types, keys and sizes of Arrow batches meet two by two.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS, one_part, right_rows, rows_of_all, settings
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from range_answers import of_join_type, order
from range_kinds import CLOSED, KINDS, When

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.conditions import Take

pytestmark = pytest.mark.usefixtures("runtime")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The types of both sides' range columns, and how Spark calculates with them.

    Args:
        stream: the stream's type.
        table: the table's type.
        spark: what Spark calls them.
        values: what to choose from; each side takes what its type holds.
        widths: a smaller and a larger width; none where nothing can be subtracted.
        ends: the types of both sides' ends of intervals, where they are others.
        closed: which ends belong to intervals and bands; by default they take turns.
        moved: a column, moved by a width.
        distance: between two columns.
    """

    stream: pa.DataType
    table: pa.DataType
    spark: tuple[str, str]
    values: Sequence[Any]
    widths: tuple[Any, ...] = ()
    ends: tuple[str, str] | None = None
    closed: str | None = None
    moved: Callable[[Column, Any], Column] = lambda column, width: column + F.lit(width)
    distance: Callable[[Column, Column], Column] = lambda p, q: F.abs(p - q)


def _exact(column: Column) -> Column:
    """Wide enough that nothing overflows."""
    return column.cast("decimal(38,6)")


def _numbers(
    stream: pa.DataType,
    table: pa.DataType,
    spark: tuple[str, str],
    values: Sequence[Any],
    widths: tuple[Any, Any],
    ends: tuple[str, str] | None = None,
    closed: str | None = None,
) -> Pair:
    return Pair(
        stream=stream,
        table=table,
        spark=spark,
        values=values,
        widths=widths,
        ends=ends,
        closed=closed,
        moved=lambda column, width: _exact(column) + _exact(F.lit(Decimal(str(width)))),
        distance=lambda p, q: F.abs(_exact(p) - _exact(q)),
    )


def _floats(stream: pa.DataType, spark: str) -> Pair:
    def distance(p: Column, q: Column) -> Column:
        infinite = F.abs(p) == float("inf")
        gap = F.abs(p.cast("double") - q.cast("double"))
        far = F.when(infinite | (F.abs(q) == float("inf")), float("inf")).otherwise(gap)
        return F.when(p == q, 0.0).otherwise(far)

    return Pair(
        stream=stream,
        table=pa.float64(),
        spark=(spark, "double"),
        values=[*KINDS["double"].few, 2.0**24 + 1],
        widths=(0.5, 1.25),
        ends=("double", "float"),
        moved=lambda column, width: column.cast("double") + F.lit(float(width)),
        distance=distance,
    )


def _times(name: str) -> Pair:
    def microseconds(column: Column) -> Column:
        return F.unix_micros(column.cast("timestamp"))

    return Pair(
        stream=KINDS[name].arrow,
        table=KINDS[name].arrow,
        spark=(name, name),
        values=KINDS[name].few,
        widths=(timedelta(minutes=20), timedelta(hours=1, microseconds=1)),
        distance=lambda p, q: F.abs(microseconds(p) - microseconds(q)),
    )


def _ordered(name: str) -> Pair:
    arrow = KINDS[name].arrow
    return Pair(stream=arrow, table=arrow, spark=(name, name), values=KINDS[name].few)


_LONG = Decimal(4 * 10**31)  # the difference of two still fits
PAIRS = {
    "tinyint in int": _numbers(
        pa.int8(),
        pa.int32(),
        ("tinyint", "int"),
        [*range(9), -128, 127, 2**15 - 1, 2**31 - 1, -(2**31)],
        (1, 2.5),
        ("bigint", "smallint"),
    ),
    "bigint": _numbers(
        pa.int64(), pa.int64(), ("bigint", "bigint"), KINDS["bigint"].few, (2, 2**62)
    ),
    "float in double": _floats(pa.float32(), "float"),
    "double": _floats(pa.float64(), "double"),
    "decimal in a finer one": _numbers(
        pa.decimal128(10, 1),
        pa.decimal128(17, 3),
        ("decimal(10,1)", "decimal(17,3)"),
        [
            Decimal(n).scaleb(-3)
            for n in (*range(0, 900, 50), 10**17 - 1, -(10**17) + 1, 10**12 - 100)
        ],
        (Decimal("0.1"), Decimal("0.2505")),
        ("decimal(12,2)", "decimal(20,4)"),
    ),
    "long decimal": _numbers(
        pa.decimal128(34, 2),
        pa.decimal128(38, 6),
        ("decimal(34,2)", "decimal(38,6)"),
        [
            _LONG,
            -_LONG,
            Decimal(2**64),
            *(Decimal(n).scaleb(-6) for n in (-1, 1, *range(0, 50000, 5000))),
        ],
        (Decimal("0.01"), Decimal("0.020005")),
    ),
    "decimal in a coarser one": _numbers(
        pa.decimal128(17, 3),
        pa.decimal128(10, 1),
        ("decimal(17,3)", "decimal(10,1)"),
        [Decimal(n).scaleb(-3) for n in (*range(0, 900, 50), 10**12 - 100, -(10**12) + 1)],
        (Decimal("0.1"), Decimal("0.2505")),
        ("decimal(20,4)", "decimal(12,2)"),
    ),
    "long decimal in a coarser one": _numbers(
        pa.decimal128(38, 6),
        pa.decimal128(34, 2),
        ("decimal(38,6)", "decimal(34,2)"),
        [
            _LONG,
            -_LONG,
            Decimal(2**64),
            *(Decimal(n).scaleb(-6) for n in (-1, 1, *range(0, 50000, 2500))),
        ],
        (Decimal("0.01"), Decimal("0.020005")),
    ),
    "decimal in bigint": _numbers(
        pa.decimal128(25, 2),
        pa.int64(),
        ("decimal(25,2)", "bigint"),
        [
            *range(9),
            *KINDS["bigint"].ends,
            *(Decimal(n).scaleb(-2) for n in (25, 150, 199, 201, -1)),
            *(Decimal(n) + d for n in (-(2**63), 2**63) for d in (Decimal("-0.5"), -1, 0, 1)),
        ],
        (Decimal("0.5"), Decimal("2.25")),
        closed="left",
    ),
    "int in decimal": _numbers(
        pa.int32(),
        pa.decimal128(20, 4),
        ("int", "decimal(20,4)"),
        [*range(9), -(2**31), 2**31 - 1, *(Decimal(n).scaleb(-4) for n in (1, 9_999, 25_000))],
        (Decimal("0.5"), 2),
    ),
    "date": Pair(
        stream=pa.date32(),
        table=pa.date32(),
        spark=("date", "date"),
        values=KINDS["date"].few,
        widths=(timedelta(days=1), timedelta(days=3)),
        moved=lambda column, width: F.date_add(column, width.days),
        distance=lambda p, q: F.abs(F.datediff(p, q)),
    ),
    "timestamp": _times("timestamp"),
    "timestamp_ntz": _times("timestamp_ntz"),
    "string": _ordered("string"),
    "binary": _ordered("binary"),
}


Joins = Callable[[When, list[str], str], DataFrame]
"""Of a condition, keys and a join type."""

_RIGHT: dict[tuple[str, bool], dict[str, pa.Table]] = {}
"""What Spark answers for a pair's conditions, which are the same for both runtimes."""


def fitting(values: Sequence[Any], arrow: pa.DataType) -> list[Any]:
    """The values that a type holds."""
    found = []
    for value in values:
        try:
            found.append(pa.array([value], arrow)[0].as_py())
        except (pa.ArrowInvalid, OverflowError):
            continue
    return found


def sample(arrow: pa.DataType, values: Sequence[Any], names: str, many: int, seed: str) -> pa.Table:
    """Rows with a number, a key that may be null, and two range columns that may be null."""
    chance = random.Random(seed)
    held = fitting(values, arrow)
    some = [[chance.choice([None, *held, *held]) for _ in range(many)] for _ in names[2:]]
    return pa.table(
        {
            names[0]: pa.array(range(many), pa.int32()),
            names[1]: pa.array([chance.choice([None, 1, 2, 3]) for _ in range(many)], pa.int32()),
            **{name: pa.array(column, arrow) for name, column in zip(names[2:], some, strict=True)},
        }
    )


def conditions(pair: Pair, number: int) -> dict[str, When]:
    """Every condition, and every way to look for the nearest; details differ by the number."""
    closed, other = (pair.closed or CLOSED[(number + n) % 4] for n in (0, 2))
    takes: list[Take] = ["earliest_end", "latest_start", *["shortest"] * 2 * bool(pair.widths)]
    found: dict[str, When] = {
        # The first: the table of intervals is built for it.
        "taken": Within("p", "q", "y", closed, takes[number % len(takes)]),
        "within": Within("p", "q", "y", closed),
        "overlaps": Overlaps(("p", "x"), ("q", "y"), closed),
        "backward": AsOf("p", "q", n=1 + number % 3),
        "forward": AsOf("p", "q", "forward", exact=False, n=1 + number % 2),
    }
    if pair.widths:
        small, large = pair.widths
        found["band"] = Band("p", "q", small, large, closed)
        found["backward"] = AsOf("p", "q", tolerance=large, n=1 + number % 3)
        found["nearest"] = AsOf("p", "q", "nearest", exact=False, n=1 + number % 4)
        if number % 2:
            found["band"] = Band("p", "q", large, -small, other)
            found["nearest"] = AsOf("p", "q", "nearest", large)
    return found


def written_out(pair: Pair, when: When) -> Column:
    """The condition as one would write it in Spark."""
    p, x, q, y = (F.col(name) for name in "pxqy")
    if isinstance(when, AsOf):
        terms = []
        if when.direction != "nearest":
            terms.append(q <= p if when.direction == "backward" else q >= p)
        if not when.exact:
            terms.append(q != p)
        if when.tolerance is not None or when.direction == "nearest":
            terms += [~F.isnan(side) for side in (p, q) if pa.types.is_floating(pair.table)]
        if when.tolerance is not None:
            terms.append(
                (p == q) | (pair.distance(p, q) < float("inf")) & _around(pair, when.tolerance)
            )
        return reduce(Column.__and__, terms)
    low, high = when.closed in ("both", "left"), when.closed in ("both", "right")
    if isinstance(when, Band):
        return _above(q, pair.moved(p, -when.before), low) & _above(
            pair.moved(p, when.after), q, high
        )
    touching = when.closed == "both"
    not_empty = y.isNull() | _above(y, q, touching)
    if isinstance(when, Within):
        return _above(p, q, low) & (y.isNull() | _above(y, p, high)) & not_empty
    stream_not_empty = x.isNull() | _above(x, p, touching)
    in_time = (y.isNull() | _above(y, p, touching)) & (x.isNull() | _above(x, q, touching))
    return in_time & not_empty & stream_not_empty & p.isNotNull() & q.isNotNull()


def _around(pair: Pair, width: Any) -> Column:
    p, q = F.col("p"), F.col("q")
    return (q >= pair.moved(p, -width)) & (q <= pair.moved(p, width))


def _above(one: Column, other: Column, or_equal: bool) -> Column:
    return one >= other if or_equal else one > other


def by_spark(
    stream: DataFrame, table: DataFrame, pair: Pair, when: When, on: list[str]
) -> DataFrame:
    """The pairs of rows, by Spark's own join."""
    right = table.withColumnRenamed("k", "l")
    same = F.col("k") == F.col("l") if on else F.lit(True)
    pairs = stream.join(right, same & written_out(pair, when))
    if isinstance(when, AsOf):
        p, q = F.col("p"), F.col("q")
        # The nearer on either side; the earlier of two that are equally near comes first.
        by = [(q > p).asc(), F.when(q <= p, q).desc(), q.asc(), F.col("n")]
        if when.direction == "nearest":
            by.insert(0, pair.distance(p, q).asc())
        place = F.row_number().over(Window.partitionBy("s").orderBy(*by))
        pairs = pairs.withColumn("place", place).where(f"place <= {when.n}")
    if isinstance(when, Within) and when.take != "all":
        q, y = F.col("q"), F.col("y")
        floating = pa.types.is_floating(pair.table)
        length = y.cast("double") - q.cast("double") if floating else pair.distance(y, q)
        first = {
            "latest_start": q.desc(),
            "earliest_end": y.asc_nulls_last(),
            "shortest": F.when(y.isNotNull(), length).asc_nulls_last(),
        }[when.take]
        place = F.row_number().over(Window.partitionBy("s").orderBy(first, "n"))
        pairs = pairs.withColumn("place", place).where("place = 1")
    return pairs.select("s", "n")


def side(spark: SparkSession, rows: pa.Table, **types: str) -> DataFrame:
    """A side of the join with range columns of these types: Arrow alone would not keep them."""
    df = one_part(spark, rows)
    df = df.withColumns({name: F.col(name).try_cast(dtype) for name, dtype in types.items()})
    assert {name: df.schema[name].dataType.simpleString() for name in types} == types
    return df


def of_tables(stream: DataFrame, table: DataFrame) -> Joins:
    """The joins with stored tables, which conditions of one kind share."""
    built: dict[tuple[Any, ...], BatchTable] = {}

    def joined(when: When, on: list[str], how: Any) -> DataFrame:
        kind = isinstance(when, Within | Overlaps), *on
        if kind not in built:
            built[kind] = BatchTable.build(table, on=on, when=when)
        return built[kind].join(stream, on, when=when, how=how)

    return joined


@pytest.mark.parametrize("name", PAIRS)
def test_every_condition_answers_as_spark_does(spark: SparkSession, name: str) -> None:
    size = (10_000, 1, 2, 7, 50)[list(PAIRS).index(name) % 5]
    with settings(spark, spark__sql__execution__arrow__maxRecordsPerBatch=str(size)):
        held_against_spark(spark, name, of_tables)


def held_against_spark(
    spark: SparkSession,
    name: str,
    joins: Callable[[DataFrame, DataFrame], Joins],
    *,
    keyed: bool = False,
) -> None:
    """Hold the joins of a pair of types, with each condition, against Spark's own.

    Args:
        spark: the session.
        name: of the pair.
        joins: make a join of a stream and a table.
        keyed: whether all have a key; otherwise every second one has.
    """
    pair, number = PAIRS[name], list(PAIRS).index(name)
    stream_rows = sample(pair.stream, pair.values, "skpx", 40, f"stream {name}")
    table_rows = sample(pair.table, pair.values, "nkqy", 60, f"table {name}")
    (p, q), (x, y) = pair.spark, pair.ends or pair.spark
    stream, table = side(spark, stream_rows, p=p, x=x), side(spark, table_rows, q=q, y=y)
    joined = joins(stream, table)
    results, pairs = {}, {}
    whens = conditions(pair, number)
    for place, (label, when) in enumerate(whens.items()):
        on = ["k"] if keyed or isinstance(when, Within | Overlaps) == bool(number % 2) else []
        # Every join type meets every condition, if not with every type.
        for how in ("left", ("inner", "semi", "anti")[(place + number) % 3]):
            names = ["s", "n"] if how in ("inner", "left") else ["s"]
            results[f"{label}, {how}"] = joined(when, on, how).select(*names)
        pairs[label] = by_spark(stream, table, pair, when, on)
    if (name, keyed) not in _RIGHT:
        _RIGHT[name, keyed] = right_rows(pairs)
    right = _RIGHT[name, keyed]
    expected = {
        label: (cells(rows), isinstance(whens[label], AsOf)) for label, rows in right.items()
    }
    points = [order(value) for value in table_rows["q"].to_pylist()]
    found: Counter[str] = Counter()
    for label, rows in rows_of_all(results).items():
        condition, how = label.rsplit(", ", 1)
        given, as_of = expected[condition]
        # Of rows with the same value as-of may take any.
        told = {n: points[n] if as_of else n for n in range(len(points))} | {None: None}
        inner = Counter((s, told[n]) for s, n in given)
        found[condition] += len({s for s, _ in inner})
        wanted = of_join_type(how, inner, range(stream_rows.num_rows))
        got = Counter((s, *(told[n] for n in brought)) for s, *brought in cells(rows))
        assert got == wanted, f"{label}: too many {got - wanted}, lacking {wanted - got}"
    assert all(found.values()), f"conditions that no row of the stream meets: {found}"


def cells(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.in_turns("runtime")
@pytest.mark.parametrize("how", HOWS)
def test_empty_sides(spark: SparkSession, how: Any) -> None:
    full = spark.range(5).select("id", F.col("id").alias("t"))
    empty = full.where("id < 0")
    when = Band("t", "t", 1, 1)
    without = BatchTable.build(empty, on="id", when=when)
    kept = 5 if how in ("left", "anti") else 0
    assert without.join(full, when=when, how=how).count() == kept
    assert BatchTable.build(full, on="id", when=when).join(empty, when=when, how=how).count() == 0


def test_a_large_fan_out_comes_in_pieces(spark: SparkSession) -> None:
    table = spark.range(3_000).select(F.lit(1).alias("k"), "id")
    stream = spark.range(200).select(F.lit(1).alias("k"), (F.col("id") * 10).alias("p"))
    when = Band("p", "id", 5_000, 5_000)
    joined = BatchTable.build(table, on="k", when=when).join(stream, when=when)
    assert joined.count() == 600_000


def test_very_many_intervals_that_match_come_in_pieces(spark: SparkSession) -> None:
    """Some pieces of the rows match entirely, some in a few rows, some not at all."""
    late = "id BETWEEN 9000 AND 19000 OR id % 5000 < 3"
    table = spark.range(30_000).selectExpr("id AS n", "id AS q", f"IF({late}, 40000, id) AS y")
    stream = spark.createDataFrame([(p,) for p in (0, 4_097, 29_999, 39_999, 40_000)], "p long")
    when = Within("p", "q", "y")
    joined = BatchTable.build(table, on=[], when=when).join(stream, [], when=when, how="left")
    expected = stream.join(table, F.expr("q <= p AND p < y"), "left")
    sums = [F.count(F.lit(1)), F.count_distinct("n"), F.sum("n")]
    found, wanted = (sorted(df.groupBy("p").agg(*sums).collect()) for df in (joined, expected))
    assert found == wanted
    assert max(row[1] for row in found) > 10_000
