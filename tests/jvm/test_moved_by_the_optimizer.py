"""What Spark's optimizer moves to the table's side of a join stays above a call of bsjoin.join."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from oracle import settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

import bsjoin

_ODD = F.udf(lambda value: value is not None and value % 2 == 1, T.BooleanType())
_ABOVE: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "a semi join": lambda rows, few: rows.join(few, rows["v"] == few["w"], "left_semi"),
    "an anti join": lambda rows, few: rows.join(few, rows["v"] == few["w"], "left_anti"),
    "a Python function": lambda rows, _: rows.where(_ODD("v")),
    "a subquery": lambda rows, _: rows.where("v > (SELECT min(w) FROM few)"),
    "IN": lambda rows, _: rows.where("v IN (SELECT w FROM few)"),
    "EXISTS": lambda rows, _: rows.where("EXISTS (SELECT 1 FROM few WHERE w = v)"),
    "a filter": lambda rows, _: rows.where("v % 3 = 0"),
    "a limit": lambda rows, _: rows.orderBy("k", "v").limit(3),
    "a count": lambda rows, _: rows.groupBy("v").count(),
    "nothing of it": lambda rows, _: rows.select(F.lit(1).alias("one")),
    "a number of rows": lambda rows, _: rows.agg(F.count("*").alias("n")),
    "a random filter": lambda rows, _: rows.where("rand() < 2"),
}


@pytest.fixture
def few(spark: SparkSession) -> Iterator[DataFrame]:
    df = spark.range(3, 9).selectExpr("id AS w")
    df.createOrReplaceTempView("few")
    yield df
    spark.catalog.dropTempView("few")


@pytest.mark.parametrize("keys", ["columns", "constants"])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("above", _ABOVE)
def test_the_rows_are_those_of_spark(
    spark: SparkSession, few: DataFrame, above: str, how: str, keys: str
) -> None:
    key = "id % 7 AS k" if keys == "columns" else "2L AS k"
    stream = spark.range(20).selectExpr(key, "id % 5 AS s")
    table = spark.range(12).selectExpr("id % 6 AS k", "id AS v")
    if how in ("semi", "anti"):  # what is above uses a column of the stream
        stream = stream.withColumn("v", F.col("s"))
    with settings(spark, spark__bsjoin__runtime="jvm"):
        found = _ABOVE[above](bsjoin.join(stream, table, "k", how=how), few)
        plan = found._jdf.queryExecution().executedPlan().toString()
        rows = sorted(map(tuple, found.collect()), key=str)
    assert "BsjoinLookup" in plan
    wanted = _ABOVE[above](stream.join(table, "k", how), few)
    assert rows == sorted(map(tuple, wanted.collect()), key=str)
