"""How many rows: more rows of a key, and more segments, than the fuzz draws."""

from __future__ import annotations

import oracle
import pyarrow as pa
import pytest
from oracle import assert_same, assert_same_rows, assert_same_schema, check, expected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import Band, BatchTable, Within

pytestmark = pytest.mark.usefixtures("runtime")


def groups(spark: SparkSession, sizes: list[int]) -> DataFrame:
    """Key ``k`` in ``sizes[k]`` rows, and some rows without a key."""
    keys = [key for key, size in enumerate(sizes) for _ in range(size)] + [None, None]
    rows = {"k": pa.array(keys, pa.int64()), "v": pa.array(range(len(keys)), pa.int32())}
    df = spark.createDataFrame(pa.table(rows))
    return df.selectExpr("k", "v", "if(v % 3 = 0, null, concat('row ', v)) AS t")


def probes(spark: SparkSession, most: int) -> DataFrame:
    """Keys 0 to ``most``, some twice, some unknown, some null, and an empty partition."""
    keys = [*range(most), *range(most // 2), None, 10**9, None, -5]
    rows = {"k": pa.array(keys, pa.int64()), "i": pa.array(range(len(keys)), pa.int32())}
    df = spark.createDataFrame(pa.table(rows)).repartition(2)
    return df.union(df.where("i < 0"))


@pytest.mark.in_turns("runtime")
def test_more_than_256_segments_answer_as_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    batch = spark.range(900).selectExpr("id % 800 AS k", "id AS v", "string(id) AS t")
    table = BatchTable.build(batch.repartition(8, "k"), on="k", segment_bytes=1)
    assert table.stats().segments > 256
    check(spark.range(-10, 900).selectExpr("id AS k"), batch, "k", hows=["left"], table=table)


def test_whatever_follows_a_join_sees_the_same_rows(spark: SparkSession) -> None:
    """Filters, fewer columns, aggregates and further joins do not disturb the look-up."""
    stream, batch = probes(spark, 5), groups(spark, [1, 2, 70])

    def followed(one: DataFrame, again: DataFrame) -> dict[str, DataFrame]:
        aggregates = one.groupBy("t").agg(F.count("*").alias("n"), F.sum("i").alias("s"))
        return {
            "filter": one.where("v % 2 = 0 AND k < 3 AND i >= 0").select("i", "t", "k"),
            "null": one.where("t IS NULL").select("i"),
            "fewer": one.select("v"),
            "aggregate": aggregates.select(F.col("n").cast("int"), "t", "s"),
            "again": again.select("i", "t2"),
            "first": one.orderBy("v", "i").limit(7).select("v", "t"),
        }

    small = batch.where("v < 3").withColumnRenamed("t", "t2").select("k", "t2")
    left = bsjoin.join(stream, batch, "k", how="left")
    right = expected(stream, batch, "k", "left")
    got = followed(left, bsjoin.join(left, small, on="k"))
    wanted = followed(right, expected(right, small, "k"))
    for name, df in got.items():
        assert_same_schema(df, wanted[name], name)
    found, right = (oracle.rows_of_all(_as_json(results)) for results in (got, wanted))
    for name, rows in found.items():
        assert_same_rows(rows, right[name], name)


def _as_json(results: dict[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: df.select(F.to_json(F.struct("*"))) for name, df in results.items()}


def test_a_table_joined_with_itself_and_twice_is_not_ambiguous(spark: SparkSession) -> None:
    df = groups(spark, [1, 2, 3])
    check(df, df, "k")
    table = BatchTable.build(df, on="k")
    twice = table.join(table.join(df, suffix="_1"), suffix="_2")
    right = expected(expected(df, df, "k", suffix="_1"), df, "k", suffix="_2")
    assert_same(twice, right)
    either = table.join(df, how="semi").union(table.join(df, how="anti"))
    assert_same(either, df)
    by_shared_names = bsjoin.join(df, df.select("k", "v", F.lit(1).alias("one")), how="inner")
    assert_same(by_shared_names, expected(df, df.withColumn("one", F.lit(1)).drop("t"), None))


@pytest.mark.in_turns("runtime")
def test_a_large_fan_out_comes_in_pieces(spark: SparkSession) -> None:
    table = spark.range(3_000).select(F.lit(1).alias("k"), "id")
    stream = spark.range(200).select(F.lit(1).alias("k"), (F.col("id") * 10).alias("p"))
    when = Band("p", "id", 5_000, 5_000)
    joined = BatchTable.build(table, on="k", when=when).join(stream, when=when)
    assert joined.count() == 600_000


def test_very_many_intervals_that_match_come_in_pieces(spark: SparkSession) -> None:
    """Some pieces of the rows match entirely, some in a few rows, some not at all."""
    late = "id BETWEEN 9000 AND 19000 OR id % 5000 < 3"
    table = spark.range(30_000).selectExpr("id AS n", "id AS q", f"IF({late}, 40000, id) AS y")
    stream = spark.createDataFrame([(p,) for p in (0, 4_097, 29_999, 39_999, 40_000)], "p long")
    when = Within("p", "q", "y")
    joined = BatchTable.build(table, on=[], when=when).join(stream, [], when=when, how="left")
    wanted = stream.join(table, F.expr("q <= p AND p < y"), "left")
    sums = [F.count(F.lit(1)), F.count_distinct("n"), F.sum("n")]
    found, right = (sorted(df.groupBy("p").agg(*sums).collect()) for df in (joined, wanted))
    assert found == right
    assert max(row[1] for row in found) > 10_000
