"""Which range conditions of plain joins the index answers, and how; errors are as in Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import settings
from plain_ranges import answers, looked_up, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin import Band, BatchTable, Overlaps, Within
from bsjoin.runtimes.jvm.attach import attached

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
def _stream(spark: SparkSession) -> Iterator[None]:
    spark.range(60).selectExpr(
        "id",
        "int(id % 5) AS k",
        "IF(id % 13 = 0, NULL, timestamp_seconds(1709251200 + id * 600)) AS at",
        "timestamp_seconds(1709251200 + id * 600 + (id % 3) * 1200) AS until",
    ).createOrReplaceTempView("s")
    yield
    spark.catalog.dropTempView("s")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Points and intervals of an hour's length, by names; and the rows of the stream."""
    assert attached(spark) is None
    path = tmp_path_factory.mktemp("ranges")
    rows = (
        spark.range(400)
        .selectExpr(
            "int(id % 4) AS k",
            "timestamp_seconds(1709251200 + id * 90) AS ts",
            "timestamp_seconds(1709251200 + id * 90 + (id % 7 - 1) * 900) AS until",
            "id AS v",
        )
        .withColumn("stop", F.expr("IF(v % 9 = 0, NULL, until)"))
        .drop("until")
    )
    made = {}
    for name, when in {
        "points": Band("at", "ts", 0, 0),
        "intervals": Within("at", "ts", "stop"),
    }.items():
        for keyed in (True, False):
            built = BatchTable.build(
                rows, on=["k"] * keyed, when=when, path=path / f"{name}{keyed}"
            )  # type: ignore[arg-type]
            made[f"{name} {'by key' if keyed else 'alone'}"] = f"bsjoin.`{built.path}`"
    return made


def _explained(spark: SparkSession, query: str) -> str:
    plan = str(spark.sql(query)._jdf.queryExecution().executedPlan().toString())
    found = re.search(r"BsjoinLookup.*", plan)
    assert found, plan
    return found.group()


def _query(table: str, condition: str, *, keyed: bool) -> str:
    key = "s.k = t.k AND " if keyed else ""
    return f"SELECT 0, s.id, t.v FROM s LEFT JOIN {table} t ON {key}{condition}"


@pytest.mark.parametrize("which", ["by key", "alone"])
@pytest.mark.parametrize("condition", BANDS + WITHIN)
def test_the_index_answers_the_whole_condition(
    spark: SparkSession, tables: dict[str, str], condition: str, which: str
) -> None:
    kind = "points" if condition in BANDS else "intervals"
    query = _query(tables[f"{kind} {which}"], condition, keyed=which == "by key")
    assert answers(spark, query) == 1
    shown = _explained(spark, query)
    assert ", ranges " in shown
    # A sum may overflow at the ends of the type: there, and only there, it is checked again.
    left = shown.partition(", condition ")[2]
    assert "INTERVAL" in condition or not left or left.startswith("isnotnull(stop"), shown


@pytest.mark.parametrize("condition", PARTLY)
def test_what_the_index_finds_too_much_is_checked(
    spark: SparkSession, tables: dict[str, str], condition: str
) -> None:
    query = _query(tables["intervals by key"], condition, keyed=True)
    assert answers(spark, query) == 1
    shown = _explained(spark, query)
    assert ", ranges " in shown
    assert ", condition " in shown


@pytest.mark.parametrize(
    "condition",
    [
        "t.v = s.id",
        "t.stop > s.at",
        "date_trunc('day', t.ts) = s.at",
        "(t.ts IS NULL OR t.ts < s.at)",
    ],
)
def test_without_keys_other_conditions_are_left_to_spark(
    spark: SparkSession, tables: dict[str, str], condition: str
) -> None:
    for name in ("points alone", "intervals alone"):
        assert answers(spark, _query(tables[name], condition, keyed=False)) == 0


@pytest.mark.parametrize("condition", ["p > {most}", "p < -{most} - 1", "p >= 20"])
def test_not_in_rows_that_a_bound_leaves_out(
    spark: SparkSession, tmp_path: Path, condition: str
) -> None:
    """A bound beyond 64 bits is met by no row, and so no key is among those that meet it."""
    rows = spark.range(4).selectExpr("id AS k", "id * 10 AS p")
    table = BatchTable.build(rows, on="k", when=Band("a", "p", 0, 0), path=tmp_path / "p")
    assert attached(spark) is None
    chosen = f"SELECT k FROM bsjoin.`{table.path}` WHERE k IS NOT NULL AND "
    query = f"SELECT id FROM range(6) WHERE id NOT IN ({chosen}{condition.format(most=2**63 - 1)})"
    found = sorted(row.id for row in spark.sql(query).collect())
    with settings(spark, spark__bsjoin__planner="off"):
        assert found == sorted(row.id for row in spark.sql(query).collect())


def test_days_are_those_of_the_time_zone(spark: SparkSession, tables: dict[str, str]) -> None:
    """The last Sunday of March 2024 has 23 hours in Berlin."""
    condition = "t.ts + INTERVAL '27' DAY >= s.at + INTERVAL '26 20' DAY TO HOUR AND t.ts <= s.at"
    query = _query(tables["points by key"], condition, keyed=True)
    for zone in ("UTC", "Europe/Berlin"):
        assert answers(spark, query, spark__sql__session__timeZone=zone) == 1


@pytest.mark.parametrize("kind", ["bigint", "timestamp"])
def test_an_overflow_is_an_error_where_it_is_one_in_spark(
    spark: SparkSession, tmp_path: Path, kind: str
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
    for table in (points, ends):
        for ansi in ("true", "false"):
            for condition in conditions:
                query = (
                    f"SELECT 0, s.id, t.k FROM few s LEFT JOIN bsjoin.`{table.path}` t "
                    f"ON s.k = t.k AND {condition}"
                )
                with settings(spark, spark__sql__ansi__enabled=ansi):
                    own = _outcome(spark, query, spark__bsjoin__planner="off")
                    found = _outcome(spark, query)
                    assert looked_up(spark.sql(query)) == 1
                assert found == own, (ansi, condition)
                outcomes.add(own if isinstance(own, str) else "rows")
    assert outcomes == {"rows", "an error"}
    spark.catalog.dropTempView("few")


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        ("org.apache.spark.TaskKilledException", True),
        ("java.lang.InterruptedException", True),
        ("java.lang.RuntimeException", False),
    ],
)
def test_the_end_of_a_task_is_no_error_of_a_value(
    spark: SparkSession, error: str, ends: bool
) -> None:
    """A bound whose value fails leaves out nothing; a task that is killed ends there."""
    assert attached(spark) is None
    gateway, jvm = spark.sparkContext._gateway, spark._jvm
    assert gateway is not None
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    bound = jvm.java.lang.Class.forName("bsjoin.jvm.lookup.Bound", True, loader)
    (pass_on,) = (method for method in bound.getMethods() if method.getName() == "passOn")
    cause = jvm.java.lang.Class.forName(error).newInstance()
    for thrown in (cause, jvm.java.lang.RuntimeException(cause)):
        given = gateway.new_array(jvm.java.lang.Object, 1)
        given[0] = thrown
        if ends:
            with pytest.raises(Py4JJavaError, match=error):
                pass_on.invoke(None, given)
        else:
            assert pass_on.invoke(None, given) is None


def _outcome(spark: SparkSession, query: str, **more: str) -> Any:
    with settings(spark, **more):
        try:
            return rows_of(spark.sql(query))
        except (Py4JJavaError, PySparkException):
            return "an error"
