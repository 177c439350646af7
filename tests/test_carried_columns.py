"""Columns that a join carries along: nested ones, and those that only Spark has.

Simple types, and their values, are those of the fuzz (`test_fuzz.py`).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from nested_values import nested_columns
from oracle import (
    assert_same,
    assert_same_rows,
    assert_same_schema,
    check,
    expected,
    one_part,
    right_rows,
    rows_of_all,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

import bsjoin
from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("runtime")


def nested(keys: list[int | None]) -> pa.Table:
    """The key ``k``, and nested columns of every type, with nulls and declared without them."""
    fields, arrays = [pa.field("k", pa.int32())], [pa.array(keys, pa.int32())]
    for nullable in (True, False):
        more = nested_columns(len(keys), nullable=nullable)
        fields, arrays = fields + more[0], arrays + more[1]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def test_nested_types_arrive_unchanged(spark: SparkSession) -> None:
    """Keys have one row, several, or more than are fetched at once; in another time zone."""
    keys = [1, 2, 2, 3, None, 3, 3, *[5] * 70, 9]
    with configured(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}):
        stream = nested([1, 2, 3, 99, None, 3, 5]).select(["k", "n3", "n7", "n10", "v11", "v12"])
        check(one_part(spark, stream), one_part(spark, nested(keys)), "k", hows=["left"])


_IN_SPARK_ONLY = (
    "make_ym_interval(int(id), 1) AS months",
    "make_interval(0, int(id), 0, 1) AS calendar",
    "parse_json(string(id)) AS variant",
    "cast('x' AS char(3)) AS padded",
    "null AS nothing",
    "named_struct('d', id, 'd', id) AS doubled",
)


@pytest.mark.in_turns("runtime", others="long")
def test_columns_of_the_stream_that_python_cannot_read_pass_by(spark: SparkSession) -> None:
    stream = spark.range(6).selectExpr("id", *_IN_SPARK_ONLY)
    batch = spark.range(3).selectExpr("id", "id * 10 AS v").union(spark.range(1).select("id", "id"))
    table = bsjoin.BatchTable.build(batch, on="id")
    found, right = dict[str, DataFrame](), dict[str, DataFrame]()
    for how in ("left", "anti"):
        joined = table.join(stream, "id", how)  # type: ignore[arg-type]
        for df, texts in ((joined, found), (expected(stream, batch, "id", how), right)):
            texts[how] = df.select(*(F.to_json(F.struct(name)).alias(name) for name in df.columns))
        assert_same_schema(found[how], right[how])
    wanted = right_rows(right)
    for how, rows in rows_of_all(found).items():
        assert_same_rows(rows, wanted[how], how)


@pytest.mark.in_turns("runtime")
def test_columns_of_the_table_that_cannot_be_stored_can_be_left_out(spark: SparkSession) -> None:
    stream = spark.range(6)
    batch = spark.range(3).selectExpr("id", *_IN_SPARK_ONLY[:3], "id * 10 AS v")
    left = bsjoin.join(stream, batch, "id", how="left", select=["v"])
    assert_same(left, expected(stream, batch, "id", "left", ["v"]))
    assert bsjoin.join(stream, batch, how="anti").count() == 3


@pytest.mark.in_turns("runtime")
def test_columns_that_python_cannot_hold_are_joined_or_refused_by_name(
    spark: SparkSession,
) -> None:
    odd = "array()", "map()", "named_struct('x', null)", "make_ym_interval(1)", "parse_json('1')"
    for column in ("named_struct('d', id, 'd', id)", *odd):
        stream, batch = spark.range(3), spark.range(2).selectExpr("id", f"{column} AS odd")
        try:
            joined = bsjoin.join(stream, batch, "id", how="left")
        except bsjoin.errors.ColumnError as error:
            assert "'odd'" in str(error)  # noqa: PT017  either is right
        else:
            assert joined.schema == expected(stream, batch, "id", "left").schema
            assert joined.count() == 3


@pytest.mark.in_turns("runtime")
def test_a_time_that_is_never_null_stays_so(spark: SparkSession) -> None:
    with configured(spark, {"spark.sql.timeType.enabled": "true"}):
        batch = spark.range(2).selectExpr(
            "id", "time'12:34:56.789' AS t", "array(time'1:2:3') AS a"
        )
        check(spark.range(3), batch, "id", hows=["left"])


@pytest.mark.in_turns("runtime")
def test_metadata_of_the_columns_is_kept(spark: SparkSession) -> None:
    df = spark.range(3).select(
        F.col("id").alias("id", metadata={"a": 1}), F.col("id").alias("v", metadata={"b": "x"})
    )
    check(df, df.union(df), "id", hows=["left", "semi"])


@pytest.mark.in_turns("runtime")
def test_the_watermark_of_a_stored_micro_batch_is_not_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata = {"spark.watermarkDelayMs": 60_000, "a": 1}
    at = F.timestamp_seconds("id").alias("at", metadata=metadata)
    given = spark.range(3).select("id", at).select("*", F.struct("at").alias("inside"))
    assert given.schema.json().count("watermarkDelayMs") == 2
    table = BatchTable.build(given, on="id", path=str(tmp_path / "t"))
    for df in (table.join(spark.range(3)), table.to_df(spark)):
        assert df.schema["at"].metadata == {"a": 1}
        assert "watermarkDelayMs" not in df.schema.json()
