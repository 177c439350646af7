"""What Spark's jars have written is read without them: row for row, value for value."""

from __future__ import annotations

import pyarrow as pa
from lake_samples import Lake
from oracle import assert_same_rows, assert_same_schema, rows_of_all
from pyspark.sql import DataFrame, SparkSession
from test_lake_joins import HISTORY, KEYS, ROWS

import bsjoin
from bsjoin.sources import Source, delta, iceberg
from bsjoin.sources.types import sparkable
from bsjoin.spark.arrow import arrow_fields


def source_of(lake: Lake, spark: SparkSession) -> Source:
    """The table by its folder."""
    if lake.format == "delta":
        (found,) = spark.sql(f"DESCRIBE DETAIL {lake.name}").select("location").collect()
        return delta(found[0])
    warehouse = spark.conf.get("spark.sql.catalog.ice.warehouse")
    return iceberg(f"{warehouse}/{'/'.join(lake.name.split('.')[1:])}")


def lines(df: DataFrame) -> list[str]:
    """The rows as Spark writes them in JSON, whatever their types."""
    found = df.selectExpr("to_json(struct(*)) AS line")
    return sorted(row.line for row in found.collect())


def test_tables_of_spark_are_read_as_spark_reads_them(lake: Lake, spark: SparkSession) -> None:
    by = "part, bucket(4, id), days(at)" if lake.format == "iceberg" else "part"
    lake.create(ROWS, by)
    first = source_of(lake, spark)
    assert first.size() == 120
    for statement in HISTORY:
        lake.commit(statement)
    source, df = source_of(lake, spark), lake.read()
    scanned = pa.Table.from_batches(source.scan())
    assert scanned.schema.types == [sparkable(field.type) for field in arrow_fields(df.schema)]
    assert lines(spark.createDataFrame(scanned, df.schema)) == lines(df)
    by_id = scanned.sort_by("id")
    for names in KEYS:
        for begin, count in ((3, 5), (10, 80)):
            asked = by_id.select(names).slice(begin, count).drop_null()
            asked = asked.group_by(names).aggregate([])
            read = df.select(*names, "id") if "id" not in names else df.select("id")
            rows = spark.createDataFrame(source.lookup(asked, read.columns), read.schema)
            keys = spark.createDataFrame(asked, read.select(names).schema)
            assert lines(rows.join(keys, names, "left_semi").select("id")) == lines(
                df.join(keys, names, "left_semi").select("id")
            ), (names, begin)


def test_far_times_and_long_texts_that_spark_writes(lake: Lake, spark: SparkSession) -> None:
    """Times of a microsecond, which Delta's statistics cut off; texts longer than any bound."""
    lake.create(
        "SELECT timestamp_micros(at) AS at, timestamp_ntz'2024-01-01 00:00:00.123456' AS local, "
        "concat(repeat('é', 40), at) AS text FROM VALUES (-62135596800000000), "
        "(253402300799999999), (1700000000000999), (-1), (0) AS t(at)"
    )
    source = source_of(lake, spark)
    table = pa.Table.from_batches(source.scan())
    assert lines(spark.createDataFrame(table, lake.read().schema)) == lines(lake.read())
    for name in ("at", "local", "text"):
        for row in range(5):
            asked = table.select([name]).slice(row, 1)
            found = source.lookup(asked, ["text"])
            assert len(found) == (5 if name == "local" else 1), (name, row)


def test_a_join_by_keys_equals_sparks(lake: Lake, spark: SparkSession) -> None:
    lake.create("SELECT id AS k, concat('v', id) AS v FROM range(1000)")
    lake.commit("DELETE FROM {t} WHERE k % 3 = 0")
    stream = spark.sql("SELECT id * 7 AS k FROM range(200)")
    source = source_of(lake, spark)
    wanted = stream.join(lake.read(), "k", "left")
    joined = bsjoin.join(stream, source, "k", how="left", cache=bsjoin.Incremental(max_rows=10_000))
    assert_same_schema(joined, wanted, "left")
    found = rows_of_all({"found": joined, "wanted": wanted})
    assert_same_rows(found["found"], found["wanted"], lake.format)
