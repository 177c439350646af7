"""Every spelling of a join type that Spark accepts means what it means to Spark."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, rows

import bsjoin
from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("runtime")

SPELLINGS = (
    ("inner", "INNER", "in_ner"),
    ("left", "leftouter", "left_outer", "LEFT_OUTER", "Left_Outer"),
    ("semi", "leftsemi", "left_semi", "LEFT_SEMI"),
    ("anti", "leftanti", "left_anti", "LeftAnti"),
)
ALL = [how for group in SPELLINGS for how in group]


@pytest.fixture
def table(spark: SparkSession) -> BatchTable:
    return BatchTable.build(spark.range(2, 5).selectExpr("id AS k", "id * 10 AS v"), on="k")


def test_a_spelling_means_what_it_means_to_spark(spark: SparkSession, table: BatchTable) -> None:
    stream = spark.range(4).withColumnRenamed("id", "k")
    batch = spark.range(2, 5).selectExpr("id AS k", "id * 10 AS v")

    def told(joins: dict[str, DataFrame]) -> DataFrame:
        named = [df.select(F.lit(how).alias("how"), "*") for how, df in joins.items()]
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), named)

    ours = {how: bsjoin.join(stream, table, how=how) for how in ALL}  # type: ignore[arg-type]
    own = {how: stream.join(batch, "k", how) for how in ALL}
    assert rows(told(ours)) == rows(told(own))
    assert {how: df.columns for how, df in ours.items()} == {
        how: df.columns for how, df in own.items()
    }


def test_cycles_take_every_spelling(spark: SparkSession, table: BatchTable, tmp_path: Path) -> None:
    found: dict[str, list[tuple[Any, ...]]] = {}
    steered = [
        bsjoin.cycles(
            table,
            how=how,  # type: ignore[arg-type]
            sink=lambda batch, _, how=how: found.update({how: rows(batch)}),  # type: ignore[misc]
        )
        for how in ("LEFT_OUTER", "left_semi", "leftanti")
    ]
    feed = Feed(spark, tmp_path)
    feed.add(1, 2)

    def run(batch: DataFrame, number: int) -> None:
        for cycle in steered:
            cycle(batch, number)

    writer = feed.stream.writeStream.foreachBatch(run)
    query = writer.option("checkpointLocation", str(feed.checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    assert found == {"LEFT_OUTER": [(1, None), (2, 20)], "left_semi": [(2,)], "leftanti": [(1,)]}
    assert [bsjoin.progress(cycle)[0].rows_out for cycle in steered] == [2, 1, 1]
