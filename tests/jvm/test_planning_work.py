"""What a chain of joins costs Spark's planner: counted, not timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from oracle import settings
from plain_joins import LOOKUP, plan_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin import BatchTable


def chain(spark: SparkSession, table: BatchTable, joins: int) -> DataFrame:
    """Joins in a row, each by a column that the one before has brought."""
    df = spark.range(10).selectExpr("id AS v0")
    with settings(spark, spark__bsjoin__runtime="jvm"):
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


def test_a_long_chain_with_many_matches_is_planned(spark: SparkSession, table: BatchTable) -> None:
    """Asked anew of each join, how many rows a stage makes would be asked 2 to the 30th times."""
    assert plan_of(chain(spark, table, joins=30)).count(LOOKUP) == 30


def test_columns_that_nobody_uses_are_not_read(spark: SparkSession, table: BatchTable) -> None:
    """A key of the table, which is the stream's, costs a read from memory for each row."""
    joined = spark.range(10).join(table.to_df(spark), F.col("id") == F.col("k"))
    for above in (["id", "v"], ["id + v AS sum"], ["count(v)"]):
        plan: Any = joined.where("v >= 0").selectExpr(*above)._jdf.queryExecution().executedPlan()
        if plan.nodeName() == "AdaptiveSparkPlan":
            plan = plan.executedPlan()
        while plan.nodeName() != LOOKUP:
            plan = plan.children().apply(0)
        brought = [column.split("#")[0] for column in str(plan.output().mkString(" ")).split()]
        assert brought == ["id", "v"]
