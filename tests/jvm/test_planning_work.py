"""What Spark's optimizer does with joins, and what they cost it: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from plain_joins import KINDS, LOOKUP, Query, check_same, plan_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from sessions import configured
from spark_samples import Feed

import bsjoin
from bsjoin import BatchTable

_ODD = F.udf(lambda value: value is not None and value % 2 == 1, T.BooleanType())
_ABOVE: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "a semi join": lambda rows, few: rows.join(few, rows["v"] == few["w"], "left_semi"),
    "an anti join": lambda rows, few: rows.join(few, rows["v"] == few["w"], "left_anti"),
    "a Python function": lambda rows, _: rows.where(_ODD("v")),
    "a subquery": lambda rows, _: rows.where("v > (SELECT min(w) FROM few)"),
    "IN": lambda rows, _: rows.where("v IN (SELECT w FROM few)"),
    "EXISTS": lambda rows, _: rows.where("EXISTS (SELECT 1 FROM few WHERE w = v)"),
    "a filter": lambda rows, _: rows.where("v % 3 = 0"),
    "a limit": lambda rows, _: rows.orderBy("k", "v", "s").limit(3),
    "a count": lambda rows, _: rows.groupBy("v").count(),
    "nothing of it": lambda rows, _: rows.select(F.lit(1).alias("one")),
    "a number of rows": lambda rows, _: rows.agg(F.count("*").alias("n")),
    "a random filter": lambda rows, _: rows.where("rand() < 2"),
}


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_what_is_moved_to_a_table_stays_above(
    spark: SparkSession, tmp_path: Path, step: int
) -> None:
    """Each with a kind of join; keys are columns or constants."""
    few = spark.range(3, 9).selectExpr("id AS w")
    few.createOrReplaceTempView("few")
    table = spark.range(12).selectExpr("id % 6 AS k", "id AS v")
    stored = BatchTable.build(table, on="k", path=tmp_path / "table")
    found: list[Query] = []
    right: list[Query] = []
    for number, above in [*enumerate(_ABOVE.values())][::step]:
        how = KINDS[number * 3 % 4]
        key = ("id % 7 AS k", "2L AS k")[(number // 4 + number) % 2]
        stream = spark.range(0, 20, 1, 1).selectExpr(key, "id % 5 AS s")
        if how in ("semi", "anti"):  # what is above uses a column of the stream
            stream = stream.withColumn("v", F.col("s"))
        with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
            joined = stored.join(stream, "k", how=how)  # type: ignore[arg-type]
        found.append(partial(above, joined, few))
        right.append(partial(above, stream.join(table, "k", how), few))
    check_same(spark, *found, right=right, codes=["interpreted"])


def test_a_stream_may_have_a_column_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Once more under the same name, or as the same attribute: those behind it are others."""
    stored = spark.range(60).selectExpr("id AS k", "id * 3 AS v")
    table = BatchTable.build(stored, on="k", path=tmp_path / "table")
    for given, generated in (("k", "true"), ("x", "false")):
        stream = spark.range(5).selectExpr("id AS k", "id + 40 AS x", "string(id) AS y")
        stream = stream.select("k", "x", "y", stream["x"], stream[given].alias("again"))
        wanted = [
            (k, k + 40, str(k), k + 40, {"k": k, "x": k + 40}[given], 3 * k) for k in range(5)
        ]
        with configured(spark, {"spark.sql.codegen.wholeStage": generated}):
            for joined in (table.join(stream), stream.join(table.to_df(spark), "k")):
                assert LOOKUP in plan_of(joined)
                assert sorted(map(tuple, joined.collect())) == wanted


def test_a_result_as_a_view_of_another_session(spark: SparkSession) -> None:
    """The session that plans has the strategy, whichever session has loaded the table."""
    table = spark.range(12).selectExpr("id AS k", "id AS v")
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        joined = bsjoin.join(spark.range(5).selectExpr("id AS k"), table, "k")
        joined.createOrReplaceGlobalTempView("joined_of_another")
    other = spark.newSession()
    try:
        found = other.sql("SELECT sum(v) FROM global_temp.joined_of_another")
        assert LOOKUP in plan_of(found)
        assert found.collect()[0][0] == 10
    finally:
        spark.catalog.dropGlobalTempView("joined_of_another")
        spark.range(1).count()  # and ours is the active one again


def test_the_nullability_of_a_stream_does_not_change_with_the_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark keeps rows in the state of a query with the types that a plan has."""
    strict = spark.range(3).selectExpr("id AS k", "id AS v")
    table = BatchTable.build(strict, on="k", path=tmp_path / "table")
    keys = spark.range(3).selectExpr("id AS k")
    for joined in (keys.join(table.to_df(spark), "k"), table.join(Feed(spark, tmp_path).stream)):
        assert [field.nullable for field in joined.schema][-1]
    plan: Any = keys.join(table.to_df(spark), "k")._jdf.queryExecution().executedPlan()
    assert plan.output().last().nullable()


def chain(spark: SparkSession, table: BatchTable, joins: int) -> DataFrame:
    """Joins in a row, each by a column that the one before has brought."""
    df = spark.range(10).selectExpr("id AS v0")
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        for number in range(joins):
            df = table.join(df, {f"v{number}": "k"}, "left")
            df = df.withColumnRenamed("v", f"v{number + 1}")
    return df


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> BatchTable:
    """Two rows of each key."""
    rows = spark.range(20).selectExpr("id % 10 AS k", "id % 10 AS v")
    return BatchTable.build(rows, on="k", path=tmp_path / "table")


def rules_run(df: DataFrame) -> Counter[str]:
    """How often each rule of the optimizer and of the preparation is applied to a query."""
    execution: Any = df._jdf.queryExecution()
    execution.executedPlan()
    found: Counter[str] = Counter()
    rules = execution.tracker().rules().iterator()
    while rules.hasNext():
        rule = rules.next()
        if ".analysis." not in rule._1():
            found[rule._1()] = rule._2().numInvocations()
    return found


def test_a_longer_chain_takes_no_more_rounds_of_the_optimizer(
    spark: SparkSession, table: BatchTable
) -> None:
    two, six = (rules_run(chain(spark, table, joins).selectExpr("*")) for joins in (2, 6))
    assert sum(two.values()) > 100
    assert six == two


@pytest.mark.long
def test_a_long_chain_with_many_matches_is_planned(spark: SparkSession, table: BatchTable) -> None:
    """Asked anew of each join, how many rows a stage makes would be asked 2 to the 30th times."""
    assert plan_of(chain(spark, table, joins=30)).count(LOOKUP) == 30
