"""Widths against Spark's own join with the literal that a user would write."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import right_rows, rows_of_all, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Incremental

NUMBERS = [
    ("decimal(10,2)", "decimal(10,2)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("decimal(12,4)", "decimal(10,2)"),
    ("decimal(30,3)", "decimal(12,4)"),
    ("decimal(12,4)", "decimal(30,3)"),
    ("decimal(10,2)", "bigint"),
    ("int", "decimal(10,2)"),
    ("float", "double"),
    ("double", "float"),
]
TENTHS = [f"{n / 10:.1f}" for n in (*range(-6, 7), 10, 13)]
HOURS = ["00:00:00", "00:00:00.3", "00:59:59.999999", "01:00:00", "01:00:00.000001", "02:00:00"]
TIMES = [f"{day} {time}" for day in ("2026-03-08", "2326-03-08", "1726-01-01") for time in HOURS]
FAR = timedelta(days=109_573, microseconds=1)  # nearly from one of the days to the next

WIDTHS: list[tuple[Any, str]] = [
    (0.3, "0.3"),
    (np.float32(0.7), "0.7"),
    (np.float64(0.1), "0.1"),
    (Decimal("1.10"), "1.1"),
    (np.int16(1), "1"),
    (0.0001, "0.0001"),
    (1e-6, "0.000001"),
]
CASES: dict[str, tuple[list[tuple[str, str]], list[str], list[tuple[Any, str]]]] = {
    "numbers": (NUMBERS, TENTHS, WIDTHS),
    "times": (
        [("timestamp", "timestamp"), ("timestamp_ntz", "timestamp_ntz")],
        TIMES,
        [
            (0.3, "INTERVAL '0.3' SECOND"),
            ("1 hour", "INTERVAL '1' HOUR"),
            (np.timedelta64(3_600_000_001, "us"), "INTERVAL '3600.000001' SECOND"),
            (pd.Timedelta("2 hours"), "INTERVAL '2' HOUR"),
            (FAR, "INTERVAL '109573 00:00:00.000001' DAY TO SECOND"),
            ("109573 days 1 microsecond", "INTERVAL '109573 00:00:00.000001' DAY TO SECOND"),
        ],
    ),
    "dates": (
        [("date", "date")],
        TIMES,
        [
            ("1 day", "INTERVAL '1' DAY"),
            (np.timedelta64(109_573, "D"), "INTERVAL '109573' DAY"),
            (float("inf"), "INTERVAL '9000000' DAY"),
        ],
    ),
}


def side(spark: SparkSession, values: list[str], names: str, dtype: str) -> DataFrame:
    """Rows with a number, the key 1, and each value as a type."""
    n, value = names.split()
    listed = ", ".join(f"({i}, 1, '{text}')" for i, text in enumerate(values))
    frame = spark.sql(f"SELECT * FROM VALUES {listed} AS t({n}, k, text)")
    exact = dtype.startswith(("decimal", "int", "bigint"))
    through = "decimal(20,10)" if exact else dtype
    return frame.selectExpr(n, "k", f"CAST(CAST(text AS {through}) AS {dtype}) AS {value}")


@pytest.mark.in_turns("runtime")
@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("case", CASES)
def test_a_width_is_the_literal_that_spark_has(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    pairs, values, widths = CASES[case]
    ours, own = {}, {}
    for number, (left, right) in enumerate(pairs):
        stream, table = side(spark, values, "s p", left), side(spark, values, "n q", right)
        any_width = widths[0][0]
        built = BatchTable.build(table, on="k", when=Band("p", "q", any_width, any_width))
        source = Model(tmp_path / str(number), table.toArrow())
        some, caches = widths, [None, Incremental(max_rows=999)]
        if case == "numbers":  # every pair of types meets some of the widths
            some = [widths[(number + i) % len(widths)] for i in (0, 2)]
            caches = caches[: 1 + (number % 4 == 1)]
        for width, literal in some:
            told = f"{left} {right} {literal}"
            both = stream.alias("s").join(table.alias("b"), "k")
            band = both.where(f"q BETWEEN p - {literal} AND p + {literal}")
            last = both.where(f"q BETWEEN p - {literal} AND p").groupBy("s").agg(F.max("q"))
            own[f"band {told}"] = band.selectExpr("s", "string(n)")
            own[f"asof {told}"] = last.selectExpr("s", "string(`max(q)`)")
            for cache in caches:
                join = partial(bsjoin.join, stream, built, on="k")
                if cache is not None:
                    join = partial(bsjoin.join, stream, source, on="k", cache=cache)
                within = join(when=Band("p", "q", width, width))
                nearest = join(when=AsOf("p", "q", tolerance=width))
                where = type(cache).__name__
                ours[f"band {told} {where}"] = within.selectExpr("s", "string(n)")
                ours[f"asof {told} {where}"] = nearest.selectExpr("s", "string(q)")
    expected = {name: cells(rows) for name, rows in right_rows(own).items()}
    assert all(expected.values())
    for name, rows in rows_of_all(ours).items():
        assert cells(rows) == expected[name.rsplit(" ", 1)[0]], name


def cells(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_a_day_has_24_hours_where_spark_follows_the_calendar(spark: SparkSession) -> None:
    noon = "timestamp'2026-03-08 12:00:00 America/New_York'"
    with settings(spark, spark__sql__session__timeZone="America/New_York"):
        stream = spark.sql(f"SELECT 1 AS k, {noon} AS p")
        days = [f"{noon} - INTERVAL {width}" for width in ("1 DAY", "24 HOURS", "23 HOURS")]
        hours = f"timestamp_micros(unix_micros({noon}) - 24 * 3600 * 1000000L)"
        rows = (f"SELECT 1 AS k, {n} AS n, {t} AS q" for n, t in enumerate([*days, hours]))
        table = spark.sql(" UNION ALL ".join(rows))
        exactly = [
            bsjoin.join(stream, table, "k", when=Band("p", "q", width, f"-{width}"))
            for width in ("1 day", "23 hours")
        ]
        assert [sorted(row.n for row in rows.collect()) for rows in exactly] == [[3], [0, 1, 2]]
