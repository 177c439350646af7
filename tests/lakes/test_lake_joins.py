"""Joins with tables of Delta and Iceberg have the rows of Spark's own, whatever was committed."""

from __future__ import annotations

import itertools

import pytest
from lake_samples import Lake
from oracle import check
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from bsjoin import BatchTable
from tests.sessions import CODE, configured

ROWS = """
SELECT id, cast(id % 20 AS int) AS i, cast(id * 1.37 AS decimal(12, 2)) AS amount,
    timestamp_seconds(1700000000 + id * 3601) AS at,
    timestamp_ntz'2020-03-01 00:00:00' + make_dt_interval(id) AS local,
    date'2020-01-01' + cast(id % 30 AS int) AS day, cast(concat('b', id % 9) AS binary) AS bytes,
    id % 2 = 0 AS even, if(id % 7 = 0, double('NaN'), if(id % 5 = 0, -0.0D, id / 3.0D)) AS number,
    if(id % 11 = 0, null, concat('s', id % 40)) AS text, cast(id % 3 AS int) AS part,
    named_struct('a', cast(id AS int), 'b', array(cast(id AS string), null)) AS nested,
    map(concat('k', id % 3), cast(id AS int), 'z', null) AS pairs,
    concat('o', id) AS old, 'gone' AS gone
FROM range(120)
"""
# Each with one of the runtimes, in turn.
KEYS = (
    ["id"],
    ["id"],
    ["amount"],
    ["number"],
    ["at", "bytes"],
    ["local"],
    ["day", "text"],
    ["part", "even"],
)
HISTORY = (
    "ALTER TABLE {t} DROP COLUMN gone",
    "ALTER TABLE {t} RENAME COLUMN old TO new",
    "ALTER TABLE {t} ADD COLUMN added STRING",
    "DELETE FROM {t} WHERE id % 13 = 0",
    "UPDATE {t} SET text = 'changed' WHERE id % 17 = 0",
    "INSERT INTO {t} (id, i, part, added) SELECT id + 1000, 1, 9, 'a' FROM range(20)",
)


@pytest.fixture(scope="module")
def probe(spark: SparkSession) -> DataFrame:
    rows = spark.sql(ROWS).drop("nested", "pairs", "old", "gone", "i").where("id < 60")
    more = spark.range(1000, 1005)
    return rows.unionByName(more, allowMissingColumns=True).localCheckpoint()


def test_keys_of_every_type_after_deletes_updates_and_other_columns(
    lake: Lake, spark: SparkSession, probe: DataFrame
) -> None:
    by = "part, bucket(4, id)" if lake.format == "iceberg" else "part"
    lake.create(ROWS, by)
    first = lake.version()
    for statement in HISTORY:
        lake.commit(statement)
    # Each on its own, and the table as it was before all that, through a selection.
    tables = [(lake.read(), keys) for keys in KEYS]
    tables.append((lake.at(first).select("id", "old", "gone"), ["id"]))
    tables.append((lake.read().where("part IN (1, 2) AND i > 3").selectExpr("id", "new"), ["id"]))
    for (df, keys), runtime in zip(tables, itertools.cycle(("jvm", "python")), strict=False):
        with configured(spark, {"spark.bsjoin.runtime": runtime, **CODE[runtime]}):
            check(probe.select(*keys), df, keys, hows=["left"])  # which has all pairs of rows


def test_a_stream_is_warned_of_a_table_that_spark_would_follow(
    lake: Lake, spark: SparkSession
) -> None:
    lake.create("SELECT id AS k, id AS v FROM range(3)")
    stream = spark.readStream.format("rate").load().selectExpr("value AS k")
    with pytest.warns(bsjoin.errors.NotFollowedWarning, match=lake.name.rpartition(".")[2]):
        bsjoin.join(stream, lake.read().where("k > 0"), "k", cache=bsjoin.Full())
    # One that is followed, a version that stays, and a table that is refreshed.
    bsjoin.join(stream, lake.read().where("k > 0"), "k")
    bsjoin.join(stream, lake.at(lake.version()), "k")
    bsjoin.join(stream, lake.read(), "k", cache=bsjoin.Full(refresh="1 hour"))
    BatchTable.build(lake.read(), on="k").join(stream)
