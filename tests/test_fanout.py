"""How many rows: more rows of a key, and more segments, than the fuzz draws."""

from __future__ import annotations

import oracle
import pyarrow as pa
import pytest
from oracle import assert_same_rows, assert_same_schema, check, expected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import BatchTable, Within

pytestmark = pytest.mark.usefixtures("runtime")


def groups(spark: SparkSession, sizes: list[int]) -> DataFrame:
    """Key ``k`` in ``sizes[k]`` rows, and some rows without a key."""
    keys = [key for key, size in enumerate(sizes) for _ in range(size)] + [None, None]
    rows = {"k": pa.array(keys, pa.int64()), "v": pa.array(range(len(keys)), pa.int32())}
    df = spark.createDataFrame(pa.table(rows))
    return df.selectExpr("k", "v", "if(v % 3 = 0, null, concat('row ', v)) AS t")


@pytest.mark.in_turns("runtime")
@pytest.mark.long
def test_more_than_256_segments_answer_as_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    batch = spark.range(900).selectExpr("id % 800 AS k", "id AS v")
    table = BatchTable.build(batch.repartition(8, "k"), on="k", segment_bytes=1)
    assert table.stats().segments > 256
    check(spark.range(-10, 900).selectExpr("id AS k"), batch, "k", hows=["left"], table=table)


@pytest.mark.in_turns("runtime", others="long")
def test_a_table_joined_with_itself_and_twice_is_not_ambiguous(spark: SparkSession) -> None:
    df = groups(spark, [1, 2, 3])
    table, more = BatchTable.build(df, on="k"), df.select("k", "v", F.lit(1).alias("one"))
    found = {
        "itself": table.join(df),
        "twice": table.join(table.join(df, suffix="_1"), suffix="_2"),
        "by shared names": bsjoin.join(df, more, how="inner"),
    }
    twice = expected(expected(df, df, "k", suffix="_1"), df, "k", suffix="_2")
    own = {"itself": expected(df, df, "k"), "twice": twice}
    own["by shared names"] = expected(df, more, None)
    for name, joined in found.items():
        assert_same_schema(joined, own[name], name)
    right = oracle.right_rows(own)
    for name, rows in oracle.rows_of_all(found).items():
        assert_same_rows(rows, right[name], name)
    either = table.join(df, how="semi").union(table.join(df, how="anti"))
    assert_same_rows(oracle.collected(either), oracle.collected(df))


@pytest.mark.in_turns("runtime", others="long")
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
