"""Tables whose integer keys are close together, and so are stored in the order of the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from bsjoin import BatchTable

LONG, BYTE = pa.int64(), pa.int8()
TABLES: dict[str, tuple[pa.DataType, list[int | None], bool]] = {
    "each number": (LONG, list(range(-7, 40)), True),
    "gaps": (LONG, [n for n in range(50) if n % 3], True),
    "several rows": (LONG, [n for n in range(30) for _ in range(n % 4)], True),
    "nulls": (LONG, [None, 3, 1, None, 2], True),
    "at the end": (LONG, [2**63 - 1 - n for n in range(9)], True),
    "at the beginning": (LONG, [n - 2**63 for n in range(9)], True),
    "bytes": (BYTE, [-128, *range(100, 128)], False),
    "all bytes": (BYTE, list(range(-128, 128)), True),
    "one row": (LONG, [5], True),
    "scattered": (LONG, [n * 1_000_003 for n in range(40)], False),
    "both ends": (LONG, [-(2**63), 0, 1, 2, 2**63 - 1], False),
}
PROBES = [*range(-9, 60), 127, -128, -129, 128, 1_000_003, 2**63 - 1, 2**63 - 3, -(2**63), None]


def frame(spark: SparkSession, dtype: pa.DataType, keys: Sequence[int | None]) -> DataFrame:
    columns = {"k": pa.array(keys, dtype), "v": [f"{i} of {key}" for i, key in enumerate(keys)]}
    return spark.createDataFrame(pa.table(columns))


def segments(folder: Path) -> list[dict[str, Any]]:
    newest = max((folder / "versions").glob("*.json"))
    found: list[dict[str, Any]] = json.loads(newest.read_text())["segments"]
    return found


@pytest.mark.usefixtures("interpreted")
def test_the_rows_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """With both runtimes."""
    probes = spark.createDataFrame(pa.table({"k": pa.array(PROBES, LONG)})).localCheckpoint()
    results, own = {}, {}
    for name, (dtype, keys, dense) in TABLES.items():
        df = frame(spark, dtype, keys)
        table = BatchTable.build(df, on="k", path=tmp_path / name)
        (segment,) = segments(tmp_path / name)
        first = min(key for key in keys if key is not None)
        assert segment["first_key"] == (first if dense else None), name
        table.verify()
        own[name] = oracle.numbered(probes, df, "k", None)
        for runtime in ("jvm", "python"):
            with oracle.settings(spark, spark__bsjoin__runtime=runtime):
                results[name, runtime] = table.join(probes, "k", how="left")
    right = oracle.right_rows(own)
    for (name, runtime), rows in oracle.rows_of_all(results).items():
        wanted = oracle.by_join_type(right[name], carried=1)["left"]
        oracle.assert_same_rows(rows, wanted, f"{name}, {runtime}")


def test_several_segments_may_each_be_in_the_order_of_its_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.range(-100, 12_000).selectExpr("id AS k", "repeat(cast(id AS string), 30) AS v")
    table = BatchTable.build(df, on="k", path=tmp_path, segment_bytes=1 << 20)
    found = segments(tmp_path)
    assert len(found) > 1
    assert any(segment["first_key"] is not None for segment in found)
    stream = spark.range(-150, 12_050, 7).withColumnRenamed("id", "k")
    wanted = oracle.expected(stream, df, "k", "left").toArrow()
    for runtime in ("jvm", "python"):
        with oracle.settings(spark, spark__bsjoin__runtime=runtime):
            oracle.assert_same_rows(table.join(stream, "k", how="left").toArrow(), wanted)
