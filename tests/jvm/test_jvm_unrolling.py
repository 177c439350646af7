"""Very many matches of one row, more than generated code keeps at once."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import Band, Overlaps, Within

ROWS = 20_000
"""Of one key: four pieces and a part of one."""

WHENS: dict[str, tuple[Any, str]] = {
    "key": (None, "true"),
    "band": (Band("p", "q", 9_000, 500, closed="right"), "p - 9000 < q AND q <= p + 500"),
    "within": (Within("p", "q", "y"), "q <= p AND p < y"),
    "overlaps": (Overlaps(("p", "r"), ("q", "y"), closed="both"), "q <= r AND p <= y"),
}


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Intervals of which some pieces match entirely, some in few rows; points, and nulls."""
    late = "id BETWEEN 5000 AND 15000 OR id % 5000 < 3"
    table = spark.range(ROWS).selectExpr(
        "1 AS k", "id AS n", "id AS q", f"IF({late}, 40000, id) AS y"
    )
    points: list[tuple[int, int | None]] = [
        (1, p) for p in (0, 4_097, 19_999, 30_000, 40_000, None)
    ]
    stream = spark.createDataFrame([*points, (2, 5_000)], "k int, p long")
    return table, stream.withColumn("r", F.col("p") + 1)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("kind", WHENS)
def test_no_match_is_lost_or_repeated(
    spark: SparkSession,
    sides: tuple[DataFrame, DataFrame],
    kind: str,
    how: Any,
) -> None:
    table, stream = sides
    when, written = WHENS[kind]
    strict = {
        "spark__bsjoin__runtime": "jvm",
        "spark__sql__codegen__factoryMode": "CODEGEN_ONLY",
        "spark__sql__codegen__fallback": "false",
    }
    with settings(spark, **strict):
        joined = bsjoin.join(stream, table, "k", when=when, how=how)
        assert "BsjoinLookup" in joined._jdf.queryExecution().executedPlan().toString()
        sums = [F.count(F.lit(1)), F.count_distinct("n"), F.sum("n"), F.max("y")]
        condition = F.expr(written) & (F.col("s.k") == F.col("t.k"))
        wanted = stream.alias("s").join(table.alias("t"), condition, how).drop(F.col("t.k"))
        found, expected = (
            sorted(df.groupBy("k", "p").agg(*sums).collect(), key=str) for df in (joined, wanted)
        )
    assert found == expected
    assert max(row[2] for row in found) > 5_000
