"""Every spelling of a join type that Spark accepts means what it means to Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import bsjoin
from bsjoin import BatchTable
from bsjoin.planner.chain import joins_of

SPELLINGS = {
    "inner": ("inner", "INNER", "in_ner"),
    "left": ("left", "leftouter", "left_outer", "LEFT_OUTER", "Left_Outer"),
    "semi": ("semi", "leftsemi", "left_semi", "LEFT_SEMI"),
    "anti": ("anti", "leftanti", "left_anti", "LeftAnti"),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> BatchTable:
    return BatchTable.build(spark.range(2, 5).selectExpr("id AS k", "id * 10 AS v"), on="k")


@pytest.mark.parametrize("meant", SPELLINGS)
def test_a_spelling_means_what_it_means_to_spark(
    spark: SparkSession, table: BatchTable, meant: str
) -> None:
    """What the join type itself answers, the oracles say."""
    jvm: Any = spark._jvm
    parsed = jvm.org.apache.spark.sql.catalyst.plans.JoinType.apply
    stream = spark.range(4).withColumnRenamed("id", "k")
    for how in SPELLINGS[meant]:
        assert parsed(how).toString() == parsed(meant).toString()
        joined = bsjoin.join(stream, table, how=how)  # type: ignore[arg-type]
        assert joins_of(joined)[-1].planned.plan.how == meant
        assert bsjoin.cycles(table, how=how, sink=print).call.how == meant  # type: ignore[arg-type]
