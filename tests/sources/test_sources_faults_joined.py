"""Faults of the data in a join: only the keys concerned pay, whatever ``on_error`` says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from source_stands import (
    DATABASES,
    WITHOUT_MEANING,
    Database,
    DuckDB,
    MariaDB,
    PostgreSQL,
    SQLite,
)

import bsjoin
from bsjoin import Incremental
from bsjoin.errors import DataError
from bsjoin.sources import Source

# Workers do not import the folder of the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(params=DATABASES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param in ("sqlite", "duckdb"):
        found: Database = (SQLite if request.param == "sqlite" else DuckDB)(tmp_path)
    else:
        server = request.getfixturevalue(request.param)
        found = (PostgreSQL if request.param == "postgresql" else MariaDB)(server.url)
    declared, value = WITHOUT_MEANING[type(found)]
    with found.cursor() as cursor:
        if isinstance(found, MariaDB):
            cursor.execute("SET sql_mode = ''")
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute(f"CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, n INTEGER, v {declared})")
        for number in range(40):
            written = value if number in (3, 17, 18) else "NULL"
            cursor.execute(f"INSERT INTO t VALUES ('k{number}', {number}, {written})")
    return found


def incremental(on_error: Any) -> Incremental:
    # A failure of the source would be waited for, and leave it alone for an hour.
    return Incremental(
        max_rows=1000, on_error=on_error, retries=2, backoff="1 ms", failure_cooldown="1 hour"
    )


def test_only_the_keys_with_a_fault_have_no_row(spark: SparkSession, place: Database) -> None:
    keys = spark.range(50).selectExpr(
        "CASE WHEN id = 9 THEN CAST(X'6BFF' AS STRING) WHEN id = 8 THEN repeat('k8', 1000) "
        "ELSE concat('k', id) END AS k",
        "id",
    )
    bad = {3, 17, 18, 8, 9, *range(40, 50)}
    source = place.source(table="t")
    for part in ("id < 20", "id >= 10"):  # the second time half of them are in the cache
        joined = bsjoin.join(keys.where(part), source, "k", how="left", cache=incremental("null"))
        found = {row.id: row.n for row in joined.select("id", "n", "v").collect()}
        assert found == {number: None if number in bad else number for number in found}
        assert len(found) in (20, 40)
    fine = bsjoin.join(
        keys.where("id NOT IN (3, 17, 18)"), source, "k", how="left", cache=incremental("fail")
    )
    found = {row.id: row.n for row in fine.select("id", "n", "v").collect()}
    assert found == {number: None if number in bad else number for number in found}
    for on_error in ("fail", "stale"):
        joined = bsjoin.join(keys, source, "k", how="left", cache=incremental(on_error))
        with pytest.raises(PySparkException, match=r"DataError: sql\(.*table='t'.*'v'"):
            joined.select("id", "v").collect()
    source.close()


class Rows(Source):
    """A source of a user's, which fails for some keys."""

    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    def lookup(self, keys: pa.Table, columns: Any = None) -> pa.Table:
        texts = keys["k"].to_pylist()
        if {"k3", "k7"} & set(texts):
            raise self.fault
        return pa.table({"k": texts, "n": [int(text[1:]) for text in texts]}, self.schema)


@pytest.mark.parametrize(
    "fault", [DataError("wrong"), OverflowError("wrong"), pa.ArrowInvalid("wrong")], ids=repr
)
def test_a_source_of_the_users_own_says_which_faults_are_of_the_data(
    spark: SparkSession, fault: Exception
) -> None:
    keys = spark.range(12).selectExpr(
        "CASE WHEN id = 9 THEN CAST(X'6BFF' AS STRING) ELSE concat('k', id) END AS k", "id"
    )
    joined = bsjoin.join(keys, Rows(fault), "k", how="left", cache=incremental("null"))
    found = {row.id: row.n for row in joined.collect()}
    assert found == {n: None if n in (3, 7, 9) else n for n in range(12)}
    joined = bsjoin.join(keys, Rows(fault), "k", how="left", cache=incremental("fail"))
    with pytest.raises(PySparkException, match=r"DataError: .*wrong"):
        joined.collect()


def test_a_hot_key_that_is_not_utf_8_ends_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    place = SQLite(tmp_path)
    place.run("CREATE TABLE t (k TEXT, n INTEGER)", "INSERT INTO t VALUES ('k1', 1), ('k2', 2)")
    ids = spark.range(200)
    ids.coalesce(1).write.parquet(str(tmp_path / "ids"))
    key = "CASE WHEN id % 3 = 0 THEN CAST(X'6BFF' AS STRING) ELSE concat('k', id % 3) END AS k"
    stream = spark.readStream.schema(ids.schema).parquet(str(tmp_path / "ids"))
    joined = bsjoin.join(
        stream.selectExpr(key, "id"), place.source(table="t"), "k", how="left",
        cache=Incremental(max_rows=100),
    )  # fmt: skip
    writer = joined.selectExpr("id", "n").writeStream.format("memory").queryName("hot_keys")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    try:
        found = {row.id: row.n for row in spark.table("hot_keys").collect()}
        assert found == {n: n % 3 or None for n in range(200)}
        cycles = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        assert sum(cycle.rows_in for cycle in cycles) == 200
        assert cycles[0].cache.failed_keys == 0
    finally:
        query.stop()
        spark.sql("DROP VIEW IF EXISTS hot_keys")
