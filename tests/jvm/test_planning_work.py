"""What a chain of joins costs Spark's planner: counted, not timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from oracle import settings
from plain_joins import executed_plan
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


def built(spark: SparkSession, path: Path, rows_of_key: int) -> BatchTable:
    rows = spark.range(10 * rows_of_key).selectExpr("id % 10 AS k", "id % 10 AS v")
    return BatchTable.build(rows, on="k", path=str(path))


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


@pytest.mark.parametrize("rows_of_key", [1, 2])
def test_a_longer_chain_takes_no_more_rounds_of_the_optimizer(
    spark: SparkSession, tmp_path: Path, rows_of_key: int
) -> None:
    table = built(spark, tmp_path / "table", rows_of_key)
    two, six = (rules_run(chain(spark, table, joins).selectExpr("*")) for joins in (2, 6))
    assert sum(two.values()) > 100
    assert six == two


def test_a_long_chain_with_many_matches_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    """Asked anew of each join, how many rows a stage makes would be asked 2 to the 30th times."""
    table = built(spark, tmp_path / "table", rows_of_key=2)
    plan = executed_plan(chain(spark, table, joins=30))
    assert plan.count("BsjoinLookup") == 30


@pytest.mark.parametrize("above", [["id", "v"], ["id + v AS sum"], ["count(v)"]])
def test_columns_that_nobody_uses_are_not_read(
    spark: SparkSession, tmp_path: Path, above: list[str]
) -> None:
    """A key of the table, which is the stream's, costs a read from memory for each row."""
    joined = spark.range(10).join(
        built(spark, tmp_path / "table", rows_of_key=1).to_df(spark), F.col("id") == F.col("k")
    )
    plan: Any = joined.where("v >= 0").selectExpr(*above)._jdf.queryExecution().executedPlan()
    (lookup,) = found(plan, "BsjoinLookup")
    brought = [column.split("#")[0] for column in str(lookup.output().mkString(" ")).split()]
    assert brought == ["id", "v"]


def found(plan: Any, name: str) -> list[Any]:
    """The operators of a plan that have a name, its stages included."""
    below = plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else None
    children = (
        [below]
        if below is not None
        else [plan.children().apply(i) for i in range(plan.children().size())]
    )
    here = [plan] if plan.nodeName() == name else []
    return here + [one for child in children for one in found(child, name)]
