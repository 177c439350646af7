"""Range conditions of plain joins: which the index answers; rows and errors are Spark's own.

Some conditions are random, with fixed seeds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_joins import CODE, LOOKUP, PLANNER, lookups, plan_of
from plain_ranges import JOINS, KINDS, Ranges, answers, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sessions import configured

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.planner.range_sql import condition_sql

CLOSED = ("left", "right", "both", "neither")
QUERIES = 3
MODES = ("stage", "projections", "interpreted")
SHORT = ("decimal", "double")
"""Types of random conditions that the others are like, which are left to ``make long``."""
WRAPS = {"spark.sql.ansi.enabled": "false"}
"""Sums that overflow: integers wrap around."""

BANDS = (
    "s.at BETWEEN t.ts - INTERVAL '5' MINUTE AND t.ts",
    "t.ts BETWEEN s.at - INTERVAL '5' MINUTE AND s.at",
    "t.ts > s.at AND s.at + INTERVAL '1' HOUR >= t.ts",
    "s.at >= t.ts",
    "t.ts = s.at",
    "t.ts >= s.at AND t.ts < timestamp'2024-03-01 06:00:00'",
)
WITHIN = (
    "s.at >= t.ts AND (t.stop IS NULL OR s.at < t.stop)",
    "(s.at < t.stop OR t.stop IS NULL) AND t.ts <= s.at",
    "t.ts <= s.at AND t.stop > s.at",
)
PARTLY = (
    "s.at BETWEEN t.ts AND t.stop",  # the table's ends do not belong to its intervals
    "t.ts < s.until AND t.stop > s.at",  # empty intervals overlap others, in plain SQL
    "t.ts <= s.at AND coalesce(t.stop, timestamp'9999-12-31 00:00:00') > s.at",
    "t.ts <= s.at AND t.stop + INTERVAL '1' HOUR > s.at",
    "t.ts >= s.at AND t.stop <= s.until",
)


@pytest.fixture(autouse=True)
def _stream(spark: SparkSession) -> None:
    spark.range(60).selectExpr(
        "id",
        "int(id % 5) AS k",
        "IF(id % 13 = 0, NULL, timestamp_seconds(1709251200 + id * 600)) AS at",
        "timestamp_seconds(1709251200 + id * 600 + (id % 3) * 1200) AS until",
    ).createOrReplaceTempView("s")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Points and intervals, with a key and without one, as SQL names them."""
    path = tmp_path_factory.mktemp("ranges")
    stop = "IF(id % 9 = 0, NULL, timestamp_seconds(1709251200 + id * 90 + (id % 7 - 1) * 900))"
    rows = spark.range(400).selectExpr(
        "int(id % 4) AS k",
        "timestamp_seconds(1709251200 + id * 90) AS ts",
        "id AS v",
        f"{stop} AS stop",
    )
    made = {}
    for name, when in {
        "points": Band("at", "ts", 0, 0),
        "intervals": Within("at", "ts", "stop"),
    }.items():
        for which, on in (("by key", ["k"]), ("alone", list[str]())):
            table = BatchTable.build(rows, on=on, when=when, path=path / f"{name} {which}")
            made[f"{name} {which}"] = f"bsjoin.`{table.path}`"
    return made


def _query(table: str, condition: str, *, keyed: bool, number: int = 0) -> str:
    key = "s.k = t.k AND " if keyed else ""
    return f"SELECT {number}, s.id, t.v FROM s LEFT JOIN {table} t ON {key}{condition}"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_what_the_index_answers_and_what_is_checked(
    spark: SparkSession, tables: dict[str, str], step: int
) -> None:
    conditions = [("points by key", condition) for condition in BANDS]
    conditions += [("points alone", condition) for condition in BANDS]
    conditions += [("intervals by key", condition) for condition in (*WITHIN, *PARTLY)]
    conditions += [("intervals alone", condition) for condition in WITHIN]
    conditions = conditions[::step]
    queries = [
        _query(tables[name], condition, keyed="key" in name, number=number)
        for number, (name, condition) in enumerate(conditions)
    ]
    with configured(spark, CODE["interpreted"]):
        assert len(answers(spark, "\nUNION ALL\n".join(queries))) == len(queries)
    for (_, condition), query in zip(conditions, queries, strict=True):
        plan = plan_of(spark.sql(query))
        shown = plan[plan.index(LOOKUP) :].splitlines()[0]
        assert ", ranges " in shown
        # A sum may overflow at the ends of the type: there, and only there, it is checked again.
        left = shown.partition(", condition ")[2]
        if condition in PARTLY:
            assert left, shown
        elif "INTERVAL" not in condition:
            assert not left or left.startswith("isnotnull(stop"), shown


def test_without_keys_other_conditions_are_left_to_spark(
    spark: SparkSession, tables: dict[str, str]
) -> None:
    conditions = (
        "t.v = s.id",
        "t.stop > s.at",
        "date_trunc('day', t.ts) = s.at",
        "(t.ts IS NULL OR t.ts < s.at)",
    )
    queries = [
        _query(tables[name], condition, keyed=False, number=number)
        for number, condition in enumerate(conditions)
        for name in ("points alone", "intervals alone")
    ]
    assert lookups(spark.sql("\nUNION ALL\n".join(queries))) == 0
    # A bound beyond 64 bits is met by no row, and so no key is among those that meet it.
    chosen = f"SELECT k FROM {tables['points by key']} WHERE k IS NOT NULL AND v"
    bounds = (f"> {2**63 - 1}", f"< -{2**63 - 1} - 1", ">= 398")
    queries = [
        f"SELECT {number}, id FROM range(6) WHERE id NOT IN ({chosen} {bound})"
        for number, bound in enumerate(bounds)
    ]
    answers(spark, "\nUNION ALL\n".join(queries))


def test_what_admits_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A null of the stream, or something else of its row alone, behind ``OR``, on each side."""
    source = spark.range(300).selectExpr(
        "id", "id % 11 AS p", "IF(id % 5 = 0, NULL, id % 11 + id % 4 - 1) AS q",
        "string(id % 11) AS t", "IF(id % 7 = 0, NULL, id % 13) AS r",
    )  # fmt: skip
    source.createOrReplaceTempView("source")
    spark.range(24).selectExpr(
        "id", "IF(id % 4 = 0, NULL, id % 12) AS a", "IF(id % 5 = 1, NULL, id % 9 + 2) AS b",
        "IF(id % 4 = 1, NULL, string(id % 12)) AS c",
    ).createOrReplaceTempView("few")  # fmt: skip
    within = "(t.p <= s.a OR s.a IS NULL) AND (t.q > s.a OR s.a IS NULL)"
    whens: dict[str, tuple[Any, list[str]]] = {
        "points": (Band("a", "p", 0, 0), ["(s.a IS NULL OR t.p >= s.a)", "t.p < s.b OR s.b IS NULL",
                   "s.id % 6 = 0 OR t.p >= s.a", "t.p <= s.a OR s.id % 6 = 1"]),
        "texts": (AsOf("c", "t"), ["(s.c IS NULL OR t.t > s.c)", "t.t <= s.c OR s.id % 6 = 0"]),
        "intervals": (Within("a", "p", "q"), [within, "(s.a IS NULL OR t.p > s.a) AND t.q < s.b"]),
        "boxes": ([Band("a", "p", 0, 0), Band("b", "r", 0, 0)],
                  ["t.p >= s.a AND (s.b IS NULL OR t.r >= s.b)"]),
    }  # fmt: skip
    its, own = list[str](), list[str]()
    for name, (when, conditions) in whens.items():
        table = BatchTable.build(source, on=[], when=when, path=tmp_path / name)
        for on in conditions:
            query = f"SELECT {len(its)}, s.id, t.id FROM few s LEFT JOIN {{}} t ON {on}"
            its.append(query.format(f"bsjoin.`{table.path}`"))
            own.append(query.format("source"))
    with configured(spark, CODE["interpreted"]):
        lines = answers(spark, "\nUNION ALL\n".join(its), "\nUNION ALL\n".join(own))
    # Of `within` Spark makes one OR, of two comparisons of the table: no bound.
    assert len(lines) == len(its) - 1


def test_days_are_those_of_the_time_zone(spark: SparkSession, tables: dict[str, str]) -> None:
    """The last Sunday of March 2024 has 23 hours in Berlin."""
    condition = "t.ts + INTERVAL '27' DAY >= s.at + INTERVAL '26 20' DAY TO HOUR AND t.ts <= s.at"
    query = _query(tables["points by key"], condition, keyed=True)
    assert len(answers(spark, query, **{"spark.sql.session.timeZone": "Europe/Berlin"})) == 1


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("bigint", 3),
        pytest.param("bigint", 1, marks=pytest.mark.long),
        pytest.param("timestamp", 1, marks=pytest.mark.long),
    ],
)
def test_an_overflow_is_an_error_where_it_is_one_in_spark(
    spark: SparkSession, tmp_path: Path, kind: str, step: int
) -> None:
    value, width = "v", "10L"
    if kind == "timestamp":
        value, width = "timestamp_micros(v)", "INTERVAL '0.00001' SECOND"
    numbers = ", ".join(
        f"({k}, bigint('{v}'))" for k, v in [(1, 5), (2, 2**63 - 3), (3, -(2**63) + 3)]
    )
    rows = spark.sql(f"SELECT k, {value} AS p, {value} AS q FROM VALUES {numbers} AS r(k, v)")
    points = BatchTable.build(rows, on="k", when=Band("a", "p", 0, 0), path=tmp_path / "p")
    ends = BatchTable.build(
        rows, on="k", when=Overlaps(("a", "a"), ("p", "q"), closed="both"), path=tmp_path / "q"
    )
    rows.withColumnRenamed("p", "a").withColumn("id", rows.k).createOrReplaceTempView("few")
    conditions = [
        f"t.p >= s.a + {width}",
        f"t.p <= s.a - {width}",
        f"t.p + {width} >= s.a",
        f"t.p - {width} <= s.a",
        f"t.p - {width} <= s.a AND t.p + {width} >= s.a",
        f"t.p <= s.a AND t.q + {width} > s.a",
        f"s.k = 1 AND t.p <= s.a + {width}",
        f"s.k = 1 AND t.p + {width} >= s.a",
    ]
    outcomes = set()
    for number, condition in [*enumerate(conditions)][::step]:
        table = (points, ends)[(number + (kind == "bigint")) % 2]
        query = f"SELECT s.id, t.k FROM few s LEFT JOIN bsjoin.`{table.path}` t ON s.k = t.k AND "
        query += condition
        for ansi in ("true", "false")[: 1 + number % 2]:
            own = _outcome(spark, query, ansi, "off", "interpreted")
            code = ("stage", "interpreted")[number // 2 % 2]
            assert _outcome(spark, query, ansi, "on", code) == own, (ansi, query)
            assert lookups(spark.sql(query)) == 1
            outcomes.add(own if isinstance(own, str) else "rows")
    assert outcomes == {"rows", "an error"}


def _outcome(spark: SparkSession, query: str, ansi: str, planner: str, code: str) -> Any:
    more = {PLANNER: planner, "spark.sql.ansi.enabled": ansi}
    with configured(spark, {**CODE[code], **more}):
        try:
            return rows_of(spark.sql(query))
        except (Py4JJavaError, PySparkException):
            return "an error"


def test_the_end_of_a_task_is_no_error_of_a_value(spark: SparkSession) -> None:
    """A bound whose value fails leaves out nothing; a task that is killed ends there."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    bound = jvm.java.lang.Class.forName("bsjoin.jvm.lookup.Bound", True, loader)
    (pass_on,) = (method for method in bound.getMethods() if method.getName() == "passOn")
    for error in ("org.apache.spark.TaskKilledException", "java.lang.InterruptedException"):
        given: Any = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
        given[0] = jvm.java.lang.RuntimeException(jvm.java.lang.Class.forName(error).newInstance())
        with pytest.raises(Py4JJavaError, match=error):
            pass_on.invoke(None, given)
    given[0] = jvm.java.lang.RuntimeException(jvm.java.lang.RuntimeException())
    assert pass_on.invoke(None, given) is None


@pytest.mark.parametrize(
    ("place", "interval"),
    [
        pytest.param(
            place,
            interval,
            id=f"{kind}, {'intervals' if interval else 'points'}",
            marks=[] if interval == place // 2 % 2 and kind in SHORT else [pytest.mark.long],
        )
        for place, kind in enumerate(KINDS)
        for interval in (False, True)
    ],
)
def test_random_conditions(spark: SparkSession, tmp_path: Path, place: int, interval: bool) -> None:
    """All types of the stream with points or intervals; two by two of keys, ends and code."""
    ranges, numbers = Ranges(list(KINDS)[place], place + interval), itertools.count()
    source = ranges.table(spark)
    source.createOrReplaceTempView("source")
    closed: Any = CLOSED[(place + 2 * interval + place // 4) % 4]
    when = Overlaps(("a", "b"), ("p", "q"), closed=closed) if interval else Band("a", "p", 0, 0)
    keyed = (place + interval) % 2 == 0
    path = tmp_path / "t"
    BatchTable.build(source, on=["k"] * keyed, when=when, path=path)
    stored, plain = [], []
    for given in range(len(ranges.kind.given)):
        ranges.stream(spark, given).createOrReplaceTempView(f"s{given}")
        chosen = list(itertools.islice(numbers, QUERIES))
        query = ranges.queries(chosen, f"s{given}", "{t}", keyed=keyed, interval=interval)
        stored.append(query.replace("{t}", f"bsjoin.`{path}`"))
        plain.append(query.replace("{t}", "source"))
    query, own = ("\nUNION ALL\n".join(parts) for parts in (stored, plain))
    with configured(spark, CODE[MODES[(place + interval) % 3]]):
        assert len(answers(spark, query, own, **WRAPS)) > next(numbers) // 5


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "range-joins.md"
LENGTHS: dict[str, tuple[str, Any]] = {
    "date": ("INTERVAL '3' DAY", "3 days"),
    "timestamp": ("INTERVAL '90' MINUTE", "90 minutes"),
    "timestamp_ntz": ("INTERVAL '90' MINUTE", "90 minutes"),
    "decimal": ("0.5", 0.5),
    "double": ("1.5D", 1.5),
    "float": ("1.5D", 1.5),
    "wide": ("0.5", 0.5),
}
"""As SQL and as a width; the sums of integers are others: these wrap around."""


def _relations(kind: str, closed: Any) -> Iterator[tuple[str, Overlaps]]:
    """What the page says in SQL, and the relation that it is."""
    names = {"d.start": "s.a", "d.end": "s.b", "f.begins": "t.p", "f.ends": "t.q"}
    found = re.findall(r'^\| `"(\w+)"`(, `at_least=2`)? \| `(.*)` \|$', PAGE.read_text(), re.M)
    assert len(found) == 6
    overlaps = found[0][2].replace("<", "<=") if closed == "both" else found[0][2]
    for number, (relation, long, text) in enumerate(found):
        width, at_least = LENGTHS.get(kind, ("", None))
        if long and at_least is None:
            continue
        form = overlaps if number == 0 else text.replace("+ 2", f"+ {width}")
        if long and kind in ("double", "float"):
            form += f" AND {overlaps}"
        form = re.sub("|".join(names), lambda one: names[one[0]], form)
        wanted = at_least if long else None
        yield form, Overlaps(("a", "b"), ("p", "q"), closed, relation, wanted)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        pytest.param(place, kind, marks=[] if kind in ("decimal", "double") else pytest.mark.long)
        for place, kind in enumerate(KINDS)
    ],
)
def test_relations_of_intervals(spark: SparkSession, tmp_path: Path, place: int, kind: str) -> None:
    """Of all types, in turns: with keys, with rows without a start, and closed in all ways.

    Each is held against itself, and, beside what `Overlaps` demands, against that.
    """
    ranges, keyed, complete = Ranges(kind, place), place % 2 == 0, place // 2 % 2 == 0
    closed: Any = CLOSED[place % 4]
    source, stream = ranges.table(spark), ranges.stream(spark)
    source = source.where("p IS NOT NULL") if complete else source
    source.createOrReplaceTempView("source")
    stream.createOrReplaceTempView("s")
    path, touch = tmp_path / "t", "=" * (closed == "both")
    when = Overlaps(("a", "b"), ("p", "q"), closed)
    BatchTable.build(source, on=["k"] * keyed, when=when, path=path)
    demanded = (
        f"s.a IS NOT NULL AND t.p IS NOT NULL AND (s.a <{touch} s.b OR s.b IS NULL) "
        f"AND (t.p <{touch} t.q OR t.q IS NULL)"
    )
    sides = [
        {field.name: (f"{side}.{field.name}", field.dataType) for field in df.schema}
        for side, df in (("s", stream), ("t", source))
    ]
    stored, plain, answered = [], [], 0
    for form, relation in _relations(kind, closed):
        # Where only an open end admits the rows without a start, they are not in the index.
        answered += 1 + (complete or relation.relation not in ("overlaps", "meets"))
        for its, own in (
            (form, form),
            (f"{form} AND {demanded}", condition_sql(relation, *sides)),
        ):
            for parts, table, on in ((stored, f"bsjoin.`{path}`", its), (plain, "source", own)):
                on = f"s.k = t.k AND {on}" if keyed else on
                join = JOINS[(len(parts) + place) % len(JOINS)]
                parts.append(join.format(no=len(parts), s="s", t=table, on=on))
    query, own = ("\nUNION ALL\n".join(parts) for parts in (stored, plain))
    with configured(spark, CODE[MODES[place % 3]]):
        lines = answers(spark, query, own, **WRAPS)
    assert [", ranges " in line for line in lines] == [True] * answered


@pytest.mark.long
def test_both_bounds_of_starts_that_are_not_even(spark: SparkSession, tmp_path: Path) -> None:
    """Many intervals of a key, so that its directory is used, from any place of it."""
    conditions = (
        "t.p >= s.a AND t.p <= s.b AND t.q > s.a",
        "t.p >= s.a AND t.p < s.b AND (t.q IS NULL OR t.q >= s.b)",
        "t.p = s.a AND t.q > s.b",
    )
    given = "SELECT id % 2 AS k, id * 97 AS a, id * 97 + id % 5 * 400 AS b FROM range(110)"
    spark.sql(given).createOrReplaceTempView("s")
    parts = []
    rising, falling = "id * id", "10000 - (100 - id) * (100 - id)"
    for starts, end in ((rising, "NULL"), (falling, "p + 5000"), (rising, "p + id % 7")):
        source = spark.sql(
            f"SELECT k, p, CAST({end} AS BIGINT) AS q FROM "
            f"(SELECT id, id % 2 AS k, {starts} AS p FROM range(100))"
        )
        when, path = Overlaps(("a", "b"), ("p", "q")), tmp_path / str(len(parts))
        BatchTable.build(source, on="k", when=when, path=path)
        parts += [
            f"SELECT {len(parts) + number}, s.*, t.* "
            f"FROM s JOIN bsjoin.`{path}` t ON s.k = t.k AND {condition}"
            for number, condition in enumerate(conditions)
        ]
    with configured(spark, CODE["interpreted"]):
        assert len(answers(spark, "\nUNION ALL\n".join(parts))) == len(parts)


def test_sums_of_a_start_whose_end_has_another_type(spark: SparkSession, tmp_path: Path) -> None:
    """The index has ranks of both; the sums wrap around where the start is the greatest."""
    stored, plain = [], []
    for number, (start, one, end) in enumerate(
        (("TINYINT", "1Y", "DECIMAL(20,0)"), ("BIGINT", "1L", "DECIMAL(20,2)"))
    ):
        greatest = "127" if start == "TINYINT" else f"bigint('{2**63 - 1}')"
        source = spark.sql(
            f"SELECT id AS n, CAST(IF(id = 0, {greatest}, id - 60) AS {start}) AS p, "
            f"CAST(id + 0.25 AS {end}) AS q FROM range(120)"
        )
        source.createOrReplaceTempView(f"source{number}")
        BatchTable.build(source, on=[], when=Within("a", "p", "q"), path=tmp_path / str(number))
        given = f"(SELECT CAST(id - 70 AS {start}) AS a FROM range(140))"
        for place, sign in enumerate(("<=", ">=")):
            query = f"SELECT {2 * number + place}, s.a, t.n FROM {given} s JOIN {{}} t ON "
            query += f"t.p + {one} {sign} s.a AND t.p <= s.a AND t.q > s.a"
            stored.append(query.format(f"bsjoin.`{tmp_path / str(number)}`"))
            plain.append(query.format(f"source{number}"))
    query, own = ("\nUNION ALL\n".join(queries) for queries in (stored, plain))
    with configured(spark, CODE["interpreted"]):
        assert len(answers(spark, query, own, **WRAPS)) == len(stored)
