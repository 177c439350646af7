"""A table that Spark reads by JDBC: the join's rows, and what a refresh sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation_services import derby
from oracle import check
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows

import bsjoin
from bsjoin import BatchTable
from bsjoin.errors import NotFollowedWarning

# The page on databases joins such a table, too.
pytestmark = [pytest.mark.usefixtures("interpreted"), pytest.mark.long]


def test_a_table_by_jdbc_is_joined_and_read_again_by_each_refresh(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = derby(spark, tmp_path)
    written = spark.sql(
        "SELECT id AS k, cast(id / 3 AS decimal(9, 2)) AS amount, concat('n', id) AS name, "
        "timestamp_seconds(id * 86401) AS at, date_add(date'2020-01-01', int(id)) AS day "
        "FROM range(100)"
    )
    written.write.jdbc(url, "customers")

    def table() -> DataFrame:
        bounds = {"lowerBound": 0, "upperBound": 100, "numPartitions": 3}
        return spark.read.jdbc(url, "customers", column="k", **bounds)

    stream = spark.sql("SELECT id AS k, concat('n', id * 2) AS name FROM range(90, 110)")
    df = table()
    stored = BatchTable.build(df, on="k")
    check(stream, df, ["k"], ("left",), table=stored)
    more = spark.sql("SELECT 105L AS k, 1.50 AS amount, 'new' AS name, now() AS at, now() AS day")
    more.selectExpr("k", "amount", "name", "at", "date(day) AS day").write.jdbc(
        url, "customers", mode="append"
    )
    asked = stream.select("k")
    assert stored.refresh(df) > 1
    assert rows(stored.join(asked)) == rows(asked.join(table(), "k"))

    source = spark.readStream.format("rate").load().selectExpr("value AS k")
    with pytest.warns(NotFollowedWarning, match="JDBC"):
        bsjoin.join(source, df, "k")
    bsjoin.join(source, df, "k", cache=bsjoin.Full(refresh="1 hour"))
