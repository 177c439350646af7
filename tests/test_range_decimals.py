"""Decimals of different scale in an incremental cache, against Spark's own join."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import rows

import bsjoin
from bsjoin import AsOf, Band, Incremental, Overlaps, Within


@pytest.mark.parametrize(
    ("stream_type", "table_type", "arrow"),
    [
        ("decimal(17,3)", "decimal(10,1)", pa.decimal128(10, 1)),
        ("decimal(34,6)", "decimal(30,2)", pa.decimal128(30, 2)),
        ("decimal(12,2)", "bigint", pa.int64()),
        ("int", "decimal(20,4)", pa.decimal128(20, 4)),
    ],
)
def test_a_cached_group_is_searched_with_finer_digits(
    spark: SparkSession, tmp_path: Path, stream_type: str, table_type: str, arrow: pa.DataType
) -> None:
    def held(*values: int | None) -> pa.Array:
        whole = arrow == pa.int64()
        return pa.array([v if v is None or whole else Decimal(v) for v in values], arrow)

    stored = pa.table(
        {
            "k": pa.array([1, 1, 2, 1, 2, 1], pa.int64()),
            "q": held(0, 1, 1, 2, 5, 100),
            "y": held(2, 3, 3, 4, 7, None),
            "n": pa.array(range(6), pa.int64()),
        }
    )
    source = Model(tmp_path / "model", stored)
    points = ", ".join(map(repr, ("0.999", "1", "1.001", "2.5", "3", "7", "100.5")))
    stream = spark.sql(
        "SELECT 1 + id % 2 AS k, id AS s, CAST(CAST(element_at(array("
        f"{points}), int(id / 2 + 1)) AS double) AS {stream_type}) AS p FROM range(14)"
    ).withColumn("x", (F.col("p") + 1).cast(stream_type))
    table = spark.createDataFrame(stored).select(
        F.col("k").alias("l"), *(F.col(c).cast(table_type) for c in "qy"), "n"
    )
    pairs = stream.join(table, F.col("k") == F.col("l"))
    p, q, y, to = (F.col(c) for c in "pqyx")
    width = F.lit(Decimal("0.5"))
    wanted = {
        Within("p", "q", "y"): pairs.where((q <= p) & (y.isNull() | (p < y))),
        Within("p", "q", "y", "right"): pairs.where((q < p) & (y.isNull() | (p <= y))),
        Overlaps(("p", "x"), ("q", "y")): pairs.where((y.isNull() | (p < y)) & (q < to)),
        Band("p", "q", Decimal("0.5"), 2): pairs.where((q >= p - width) & (q <= p + 2)),
        AsOf("p", "q"): pairs.where(q <= p).groupBy("s").agg(F.max("q").alias("q")),
        AsOf("p", "q", "forward", exact=False): (
            pairs.where(q > p).groupBy("s").agg(F.min("q").alias("q"))
        ),
    }
    for when, own in wanted.items():
        ours = bsjoin.join(stream, source, "k", when=when, cache=Incremental(max_rows=99))
        column = "q" if isinstance(when, AsOf) else "n"
        assert rows(ours.select("s", column)) == rows(own.select("s", column)), when
