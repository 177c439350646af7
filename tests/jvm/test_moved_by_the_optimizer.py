"""What Spark's optimizer moves to the table's side of a join stays above a call of bsjoin.join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oracle import settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
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


@pytest.mark.parametrize("generated", ["true", "false"])
@pytest.mark.parametrize("given", ["k", "x"])
def test_a_stream_may_have_a_column_twice(
    spark: SparkSession, given: str, generated: str, tmp_path: Path
) -> None:
    """Once more under the same name, or as the same attribute: those behind it are others."""
    stream = spark.range(5).selectExpr("id AS k", "id + 40 AS x", "string(id) AS y")
    stream = stream.select("k", "x", "y", stream["x"], stream[given].alias("again"))
    stored = spark.range(60).selectExpr("id AS k", "id * 3 AS v")
    table = BatchTable.build(stored, on="k", path=tmp_path / "table")
    wanted = [(k, k + 40, str(k), k + 40, {"k": k, "x": k + 40}[given], 3 * k) for k in range(5)]
    with settings(spark, spark__sql__codegen__wholeStage=generated):
        for joined in (table.join(stream), stream.join(table.to_df(spark), "k")):
            assert "BsjoinLookup" in joined._jdf.queryExecution().executedPlan().toString()
            assert sorted(map(tuple, joined.collect())) == wanted


def test_a_result_as_a_view_of_another_session(spark: SparkSession) -> None:
    table = spark.range(12).selectExpr("id AS k", "id AS v")
    with settings(spark, spark__bsjoin__runtime="jvm"):
        joined = bsjoin.join(spark.range(5).selectExpr("id AS k"), table, "k")
        joined.createOrReplaceGlobalTempView("joined_of_another")
    try:
        found = spark.newSession().sql("SELECT sum(v) FROM global_temp.joined_of_another")
        assert "BsjoinLookup" in found._jdf.queryExecution().executedPlan().toString()
        assert found.collect()[0][0] == 10
    finally:
        spark.catalog.dropGlobalTempView("joined_of_another")


def test_the_nullability_of_a_stream_does_not_change_with_the_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark keeps rows in the state of a query with the types that a plan has."""
    strict = spark.range(3).selectExpr("id AS k", "id AS v")
    table = BatchTable.build(strict, on="k", path=tmp_path / "table")
    keys = spark.range(3).selectExpr("id AS k")
    for joined in (keys.join(table.to_df(spark), "k"), table.join(Feed(spark, tmp_path).stream)):
        assert [field.nullable for field in joined.schema][-1]
    plan = keys.join(table.to_df(spark), "k")._jdf.queryExecution().executedPlan()
    assert plan.output().last().nullable()
