"""Range joins of every pair of types, with each condition, against the exact oracle of the fuzz."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from oracle import counted, rows_of_all
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.conditions import Take
from tests.fuzz.case import Case, Columns, Join, Row, Rows, Table
from tests.fuzz.engine import frame
from tests.fuzz.exact import expected
from tests.fuzz.values import KINDS, fits, special

When = Band | Within | Overlaps | AsOf
Joins = Callable[[When, list[str], str], DataFrame]
"""Of a condition, keys and a join type."""

CLOSED: list[Any] = ["both", "left", "right", "neither"]
PAIRS = {
    "tinyint in int": ("byte", "long", "int", "short"),
    "bigint": ("long", "long", "long", "long"),
    "float in double": ("float", "double", "double", "float"),
    "double": ("double", "double", "double", "double"),
    "decimal in a finer one": ("decimal(4,1)", "decimal(10,2)", "decimal(10,2)", "decimal(18,0)"),
    "long decimal": ("decimal(25,3)", "decimal(25,3)", "decimal(25,3)", "decimal(25,3)"),
    "decimal in a coarser one": ("decimal(10,2)", "decimal(4,1)", "decimal(4,1)", "decimal(10,2)"),
    "long in a coarser one": ("decimal(25,3)", "decimal(25,3)", "decimal(20,0)", "decimal(20,0)"),
    "decimal in bigint": ("decimal(25,3)", "decimal(10,2)", "long", "long"),
    "int in decimal": ("int", "int", "decimal(20,0)", "decimal(25,3)"),
    "date": ("date", "date", "date", "date"),
    "timestamp": ("timestamp", "timestamp", "timestamp", "timestamp"),
    "timestamp_ntz": ("timestamp_ntz", "timestamp_ntz", "timestamp_ntz", "timestamp_ntz"),
    "string": ("string", "string", "string", "string"),
    "binary": ("binary", "binary", "binary", "binary"),
}
"""The types of the columns p, x of the stream and q, y of the table."""
GENERATED = ("bigint", "double", "long decimal", "string")
"""One pair of types of each kind of codes, with code that Spark generates."""
QUICK = {"jvm": ("bigint", "long decimal", "string"), "python": ("double", "decimal in bigint")}
"""By runtime; those of other modules are doubles and timestamps."""
NAMES: list[Any] = [
    pytest.param(name, runtime, marks=[] if name in quick else pytest.mark.long)
    for runtime, quick in QUICK.items()
    for name in PAIRS
]
WIDTHS: dict[str, tuple[Any, Any]] = {
    "exact": (Decimal("0.5"), 3),
    "floating": (0.5, 1.25),
    "date": (timedelta(days=1), timedelta(days=3)),
    "timestamp": (timedelta(minutes=20), timedelta(hours=1, microseconds=1)),
    "timestamp_ntz": (timedelta(minutes=20), timedelta(hours=1, microseconds=1)),
}
"""A smaller and a larger width; none where nothing can be subtracted."""


def near_values(kind: str) -> list[Any]:
    """Difficult values, and some that meet."""
    family, steps = KINDS[kind].family, range(9)
    if family == "exact":
        halves = [fits(kind, Decimal(n) / 2) for n in range(18)]
        return [*special(kind), *(value for value in halves if value is not None)]
    if family == "floating":
        return [*special(kind), *(n / 2 for n in steps)]
    if family in ("timestamp", "timestamp_ntz"):
        return [*special(kind), *(1_700_000_000_000_000 + n * 1_200_000_000 for n in steps)]
    return special(kind)


def sample(columns: Columns, many: int, seed: str) -> tuple[Row, ...]:
    """Rows with a number, a key that may be null, and two range columns that may be null."""
    chance = random.Random(seed)
    pools = [near_values(kind) for _, kind in columns[2:]]
    return tuple(
        (
            number,
            chance.choice([None, 1, 2, 3]),
            *(chance.choice([None, *pool, *pool]) for pool in pools),
        )
        for number in range(many)
    )


def conditions(kind: str, number: int, closed: str | None) -> dict[str, When]:
    """Every condition, and every way to look for the nearest; details differ by the number."""
    one, other = (closed or CLOSED[(number + n) % 4] for n in (0, 2))
    measured = KINDS[kind].family in WIDTHS
    takes: list[Take] = ["earliest_end", "latest_start", *["shortest"] * 2 * measured]
    found: dict[str, When] = {
        # The first: the table of intervals is built for it.
        "taken": Within("p", "q", "y", one, takes[number % len(takes)]),
        "within": Within("p", "q", "y", one),
        "overlaps": Overlaps(("p", "x"), ("q", "y"), one),
        "backward": AsOf("p", "q", n=1 + number % 3),
        "forward": AsOf("p", "q", "forward", exact=False, n=1 + number % 2),
    }
    if measured:
        small, large = WIDTHS[KINDS[kind].family]
        found["band"] = Band("p", "q", small, large, one)
        found["backward"] = AsOf("p", "q", tolerance=large, n=1 + number % 3)
        found["nearest"] = AsOf("p", "q", "nearest", exact=False, n=1 + number % 4)
        if number % 2:
            found["band"] = Band("p", "q", large, -small, other)
            found["nearest"] = AsOf("p", "q", "nearest", large)
    return found


def sides(name: str) -> tuple[Rows, Rows]:
    """Rows of a stream and of a table, whose range columns are a pair of types, or of one type."""
    p, x, q, y = PAIRS.get(name, (name,) * 4)
    stream: Columns = (("s", "int"), ("k", "int"), ("p", p), ("x", x))
    table: Columns = (("n", "int"), ("k", "int"), ("q", q), ("y", y))
    return (
        Rows(stream, sample(stream, 40, f"stream {name}")),
        Rows(table, sample(table, 60, f"table {name}")),
    )


def framed(spark: SparkSession, rows: Rows) -> DataFrame:
    """Rows in one partition."""
    return frame(spark, rows.arrow()).coalesce(1)


def answer(
    stream: Rows, table: Rows, on: list[str], how: str, when: When, also: tuple[When, ...] = ()
) -> Counter[Row]:
    """The numbers of the rows that match, s and n or s alone, by a nested loop.

    That the loop answers as Spark's own join, ``test_fuzz.py`` shows.
    """
    brought = ("n",) if how in ("inner", "left") else ()
    keyed = tuple((key, key) for key in on)
    tables = (Table(table.columns, (table.rows,), tuple(on), when),)
    join = Join(0, keyed, how, when, brought, also=also)
    ((_, rows),) = expected(Case(tables, stream, (join,)))
    return Counter((row[0], *row[len(stream.columns) :]) for row in rows)


def held_against_a_loop(
    spark: SparkSession,
    name: str,
    joins: Callable[[DataFrame, DataFrame], Joins],
    *,
    keyed: bool = False,
) -> None:
    """Hold a pair of types with each condition against a loop; every second or all have a key."""
    number, (stream, table) = list(PAIRS).index(name), sides(name)
    joined = joins(framed(spark, stream), framed(spark, table))
    results, wanted = {}, {}
    closed = "left" if name == "decimal in bigint" else None
    for place, (label, when) in enumerate(conditions(PAIRS[name][0], number, closed).items()):
        on = ["k"] if keyed or isinstance(when, Within | Overlaps) == bool(number % 2) else []
        # Every join type meets every condition, if not with every type.
        turn, now = divmod(place + number, 3)
        for how in ("left", *[("inner", "semi", "anti")[turn % 3]] * (now == 0)):
            told = label, how
            results[told] = joined(when, on, how).select("s", *["n"] * (how in ("inner", "left")))
            wanted[told] = answer(stream, table, on, how, when)
            assert how != "left" or any(n is not None for _, n in wanted[told]), told
    for told, found in rows_of_all(results).items():
        got = counted(found)
        many, lacking = got - wanted[told], wanted[told] - got
        assert got == wanted[told], f"{told}: too many {many}, lacking {lacking}"


def of_tables(stream: DataFrame, table: DataFrame) -> Joins:
    """The joins with stored tables, which conditions of one kind share."""
    built: dict[tuple[Any, ...], BatchTable] = {}

    def joined(when: When, on: list[str], how: Any) -> DataFrame:
        kind = isinstance(when, Within | Overlaps), *on
        if kind not in built:
            with configured(table.sparkSession, CODE["python"]):  # nothing is compiled
                built[kind] = BatchTable.build(table, on=on, when=when)
        return built[kind].join(stream, on, when=when, how=how)

    return joined


@pytest.mark.parametrize(("name", "runtime"), NAMES)
def test_every_condition_answers_as_a_nested_loop_does(
    spark: SparkSession, name: str, runtime: str
) -> None:
    code = CODE["jvm" if runtime == "jvm" and name in GENERATED else "python"]
    with configured(spark, {"spark.bsjoin.runtime": runtime, **code}):
        held_against_a_loop(spark, name, of_tables)


def test_a_day_has_24_hours_where_spark_follows_the_calendar(spark: SparkSession) -> None:
    noon = "timestamp'2026-03-08 12:00:00 America/New_York'"
    with configured(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        stream = spark.sql(f"SELECT 1 AS k, {noon} AS p")
        days = [f"{noon} - INTERVAL {width}" for width in ("1 DAY", "24 HOURS", "23 HOURS")]
        hours = f"timestamp_micros(unix_micros({noon}) - 24 * 3600 * 1000000L)"
        rows = (f"SELECT 1 AS k, {n} AS n, {t} AS q" for n, t in enumerate([*days, hours]))
        table = spark.sql(" UNION ALL ".join(rows))
        exactly = [
            bsjoin.join(stream, table, "k", when=Band("p", "q", width, f"-{width}"))
            for width in ("1 day", "23 hours")
        ]
        assert [sorted(row.n for row in rows.collect()) for rows in exactly] == [[3], [0, 1, 2]]


@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_an_infinite_width_is_no_limit_to_infinities_and_nan(
    spark: SparkSession, runtime: str
) -> None:
    rows = list(enumerate([None, math.nan, math.inf, -math.inf, 0.5, 2.0]))
    stream = spark.createDataFrame([(1, *row) for row in rows], "g int, s int, p double")
    table = spark.createDataFrame([(1, *row) for row in rows], "h int, n int, q double")
    plain = {
        "q <= p + 1D": Band("p", "q", math.inf, 1),
        "q >= p - 1D": Band("p", "q", 1, math.inf),
        "q < p + 1D": Band("p", "q", math.inf, 1, "neither"),
        "p IS NOT NULL AND q IS NOT NULL": Band("p", "q", math.inf, math.inf),
    }
    results, wanted = {}, {}
    with configured(spark, {"spark.bsjoin.runtime": runtime, **CODE["python"]}):
        for text, band in plain.items():
            expected = stream.join(table, F.expr(text))
            joins: list[tuple[When, ...]] = [(band,), (Band("g", "h", 0, 0), band)]
            for when in joins:
                results[when] = bsjoin.join(stream, table, [], when=when).select("s", "n")
                wanted[when] = Counter(tuple(row) for row in expected.select("s", "n").collect())
        for direction in ("backward", "forward", "nearest"):
            for how in ({}, {"tolerance": math.inf}):
                near = AsOf("p", "q", direction, n=9, **how)
                results[near] = bsjoin.join(stream, table, [], when=near).select("s", "n")
        found = {told: counted(one) for told, one in rows_of_all(results).items()}
    for told, one in wanted.items():
        assert found[told] == one, told
    for told, one in found.items():
        if isinstance(told, AsOf):
            assert one == found[replace(told, tolerance=None)], told
