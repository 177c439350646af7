"""A table that Spark reads by JDBC: the join's rows, and what a refresh sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation_services import derby
from pyspark.sql import SparkSession
from spark_samples import Feed, cycles, rows, soon
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import NotFollowedWarning
from bsjoin.sources import sql

# The page on databases joins such a table, too.
pytestmark = [pytest.mark.usefixtures("interpreted"), pytest.mark.long]


ROWS = (
    "SELECT id AS k, cast(id / 3 AS decimal(9, 2)) AS amount, concat('n', id) AS name, "
    "timestamp_seconds(id * 86401) AS at, date_add(date'2020-01-01', int(id)) AS day FROM range({})"
)


def test_a_table_by_jdbc_is_read_again_by_each_refresh(spark: SparkSession, tmp_path: Path) -> None:
    url = derby(spark, tmp_path)
    spark.sql(ROWS.format("100")).write.jdbc(url, "customers")
    bounds = {"lowerBound": 0, "upperBound": 100, "numPartitions": 3}
    df = spark.read.jdbc(url, "customers", column="k", **bounds)
    stored = BatchTable.build(df, on="k")
    spark.sql(ROWS.format("105, 106")).write.jdbc(url, "customers", mode="append")
    assert stored.refresh(df) > 1
    asked = spark.range(90, 110).toDF("k")
    assert rows(stored.join(asked)) == rows(asked.join(df, "k"))
    source = spark.readStream.format("rate").load().selectExpr("value AS k")
    with pytest.warns(NotFollowedWarning, match="JDBC"):
        bsjoin.join(source, df, "k")
    bsjoin.join(source, df, "k", cache=Full(refresh="1 hour"))


@pytest.mark.usefixtures("at_once")
def test_a_query_tells_each_commit_to_a_table_by_jdbc_and_to_a_source(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    """One that Spark sends to the database, too; both are read whole behind each commit."""
    url, file = derby(spark, tmp_path), tmp_path / "shop.db"

    def commit(number: int) -> None:
        made = spark.sql(f"SELECT id AS k, id * {number} AS amount FROM range({number} + 1)")
        made.write.jdbc(url, "customers", mode="overwrite")
        script = "DROP TABLE IF EXISTS cities; CREATE TABLE cities (k INTEGER, city TEXT)"
        in_sqlite(file, f"{script}; INSERT INTO cities VALUES (1, 'city {number}')")
        spark.sql(f"SELECT {number} AS batch").write.jdbc(url, "loads", mode="overwrite")

    commit(1)
    spark.read.jdbc(url, "loads").createOrReplaceTempView("jdbc_loads")
    cache = Full(refresh="on_commit", version="SELECT max(batch) FROM jdbc_loads")
    joined = bsjoin.join(feed.stream, spark.read.jdbc(url, "customers"), "k", "left", cache=cache)
    cities = sql(f"sqlite:///{file}", table="cities")
    query = feed.start(bsjoin.join(joined, cities, "k", "left", cache=cache))
    try:
        for number in range(1, 4):
            if number > 1:
                commit(number)
            probes = spark.range(1, 4).toDF("k")
            own = probes.join(spark.read.jdbc(url, "customers"), "k", "left")
            city = f"CASE WHEN k = 1 THEN 'city {number}' END"
            soon(lambda: feed.turn(query, 1, 2, 3), rows(own.selectExpr("*", city)))
        told = [cycle.source and cycle.source.version for cycle in cycles(query)]
        assert {told[0], told[-1]} == {"1", "3"}
        assert {cycle.refresh and cycle.refresh.read_whole for cycle in cycles(query)} == {2}
    finally:
        query.stop()
        spark.catalog.dropTempView("jdbc_loads")
