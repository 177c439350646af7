"""What Spark's jars have written and changed: joined as a DataFrame, and read without the jars."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import pyarrow as pa
import pytest
from lake_samples import LAKES, Lake
from oracle import assert_same_rows, assert_same_schema, check, rows_of_all
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from bsjoin.errors import NotFollowedWarning
from bsjoin.sources import Source, delta, iceberg
from bsjoin.sources.types import sparkable
from bsjoin.spark.arrow import arrow_fields
from tests.sessions import CODE, configured

# Delta's statistics cut off microseconds, and texts at 32 characters.
ROWS = """
SELECT id, cast(id % 20 AS int) AS i, cast(id * 1.37 AS decimal(12, 2)) AS amount,
    timestamp_seconds(1700000000 + id * 3601) AS at,
    timestamp_micros(element_at(array(-62135596800000000, 253402300799999999, 1700000000000999,
        -1), cast(id % 4 AS int) + 1)) AS far,
    timestamp_ntz'2020-03-01 00:00:00.123456' + make_dt_interval(id) AS local,
    date'2020-01-01' + cast(id % 30 AS int) AS day, cast(concat('b', id % 9) AS binary) AS bytes,
    id % 2 = 0 AS even, if(id % 7 = 0, double('NaN'), if(id % 5 = 0, -0.0D, id / 3.0D)) AS number,
    if(id % 11 = 0, null, concat(repeat('é', 40), id % 40)) AS text, cast(id % 3 AS int) AS part,
    named_struct('a', cast(id AS int), 'b', array(cast(id AS string), null)) AS nested,
    map(concat('k', id % 3), cast(id AS int), 'z', null) AS pairs,
    if(id % 4 = 1, null, array(named_struct('n', id), null)) AS structs,
    if(id % 5 = 1, null, map(id, array(named_struct('n', id)))) AS mapped,
    concat('o', id) AS old, 'gone' AS gone
FROM range(120)
"""
BY = {"delta": "part", "iceberg": "part, bucket(4, id), days(at)"}
HISTORY = (
    "ALTER TABLE {t} DROP COLUMN gone",
    "ALTER TABLE {t} RENAME COLUMN old TO new",
    "ALTER TABLE {t} ADD COLUMN added STRING",
    "ALTER TABLE {t} RENAME COLUMN structs.element.n TO m",
    "DELETE FROM {t} WHERE id % 13 = 0",
    "UPDATE {t} SET text = 'changed' WHERE id % 17 = 0",
    "INSERT INTO {t} (id, i, part, added) SELECT id + 1000, 1, 9, 'a' FROM range(20)",
)
KEYS = (
    ["id"],
    ["amount", "number"],
    ["at", "bytes"],
    ["local", "far"],
    ["day", "text"],
    ["part", "even"],
)


@pytest.fixture(scope="module", params=LAKES)
def changed(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[Lake, str]:
    """The table, and its version before the history."""
    lake = Lake(spark, request.param)
    with configured(spark, CODE["python"]):  # to compile what a commit runs takes longer than that
        lake.create(ROWS, BY[lake.format])
        first = lake.version()
        assert source_of(lake).size() == 120
        for statement in HISTORY:
            lake.commit(statement)
    return lake, first


def source_of(lake: Lake) -> Source:
    """The table by its folder."""
    if lake.format == "delta":
        (found,) = lake.spark.sql(f"DESCRIBE DETAIL {lake.name}").select("location").collect()
        return delta(found[0])
    warehouse = lake.spark.conf.get("spark.sql.catalog.ice.warehouse")
    return iceberg(f"{warehouse}/{'/'.join(lake.name.split('.')[1:])}")


def lines(df: DataFrame) -> list[str]:
    """The rows as Spark writes them in JSON, whatever their types."""
    return sorted(row.line for row in df.selectExpr("to_json(struct(*)) AS line").collect())


def ids(table: pa.Table, keys: pa.Table) -> list[int]:
    """The ids of the rows with one of the keys; null is none, NaN is one, and so is -0.0 with 0."""

    def comparable(rows: pa.Table, names: Sequence[str]) -> list[tuple[str, ...]]:
        columns = [
            [repr(v + 0.0 if isinstance(v, float) else v) for v in rows[name].to_pylist()]
            for name in names
        ]
        return list(zip(*columns, strict=True))

    asked = set(comparable(keys, keys.column_names))
    has = [row in asked for row in comparable(table, keys.column_names)]
    return sorted(table.filter(pa.array(has))["id"].to_pylist())


def test_sources_read_and_find_what_spark_reads(
    changed: tuple[Lake, str], spark: SparkSession
) -> None:
    lake, _ = changed
    source, df = source_of(lake), lake.read()
    scanned = pa.Table.from_batches(source.scan())
    assert scanned.schema.types == [sparkable(field.type) for field in arrow_fields(df.schema)]
    assert lines(spark.createDataFrame(scanned, df.schema)) == lines(df)
    by_id = scanned.sort_by("id")
    for names in KEYS:
        for begin, count in ((3, 5), (10, 80)):
            asked = by_id.select(names).slice(begin, count).drop_null()
            asked = asked.group_by(names).aggregate([])
            found = source.lookup(asked, [*names, "id"])
            assert ids(found, asked) == ids(scanned, asked), (names, begin)
    # As the source of a join.
    stream = spark.sql("SELECT id * 7 AS id FROM range(200)")
    cache = bsjoin.Incremental(max_rows=10_000)
    joined = bsjoin.join(stream, source, "id", how="left", cache=cache, select=["new", "at"])
    wanted = stream.join(df.select("id", "new", "at"), "id", "left")
    assert_same_schema(joined, wanted, "left")
    found = rows_of_all({"found": joined, "wanted": wanted})
    assert_same_rows(found["found"], found["wanted"], lake.format)


NEWEST = {
    "delta": "delta.enableRowTracking = true, delta.checkpointPolicy = 'v2', "
    "delta.enableInCommitTimestamps = true",
    "iceberg": "'format-version' = '3'",
}


@pytest.mark.long
def test_a_table_of_the_newest_version_of_its_format(lake: Lake, spark: SparkSession) -> None:
    """With deletion vectors in both; the library reads what Spark does, or says why it does not."""
    lake.create(ROWS, BY[lake.format], properties=NEWEST[lake.format])
    for statement in HISTORY:
        lake.commit(statement)
    probe = spark.range(0, 1100, 3)
    check(probe, lake.read(), ["id"], hows=["left"])
    with tempfile.TemporaryDirectory() as folder:
        table = bsjoin.BatchTable.build(lake.read(), on="id", path=f"{folder}/table")
        lake.commit("DELETE FROM {t} WHERE id % 10 = 3")
        lake.version()
        table.refresh(lake.read())
        assert table.stats().rows == lake.read().count()
    found = pa.Table.from_batches(source_of(lake).scan())
    assert lines(spark.createDataFrame(found, lake.read().schema)) == lines(lake.read())


@pytest.mark.long
def test_a_stream_is_warned_of_a_table_that_spark_would_follow(
    changed: tuple[Lake, str], spark: SparkSession
) -> None:
    lake, first = changed
    stream = spark.readStream.format("rate").load().selectExpr("value AS id")
    with pytest.warns(NotFollowedWarning, match=lake.name.rpartition(".")[2]):
        bsjoin.join(stream, lake.read().select("id", "new"), "id", cache=bsjoin.Full())
    bsjoin.join(stream, lake.at(first).select("id", "old"), "id")  # a version that stays
