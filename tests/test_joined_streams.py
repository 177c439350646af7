"""What a joined stream has besides the right rows: columns, watermarks, figures.

Its rows, with refreshes, restarts and replays, are those of the fuzz (`test_fuzz.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS, expected, rows_of_all
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed

import bsjoin
from bsjoin import AsOf, Band, BatchTable
from bsjoin.planner.chain import joins_of

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

_START = 1_700_000_000_000_000
SHAPES = {"row": [1, 1, 1, 1], "runs": [1, 2, 65, 200]}
"""How many rows each key has: each is answered in another way."""


def table_of(spark: SparkSession, sizes: list[int]) -> DataFrame:
    """Key ``k`` in ``sizes[k]`` rows, and one row without a key; all columns are nullable."""
    keys = [key for key, size in enumerate(sizes) for _ in range(size)] + [None]
    df = spark.createDataFrame(pa.table({"k": pa.array(keys, pa.int64())}))
    return df.selectExpr(
        "k",
        "nullif(monotonically_increasing_id(), -1) AS v",
    )


def test_columns_of_a_range_join_are_those_of_the_contract(spark: SparkSession) -> None:
    stream = spark.range(3).selectExpr("id AS `odd name`", "id AS k", "named_struct('x', id) AS s")
    table = spark.range(3).selectExpr("id AS k", "id AS q", "'v' AS k_2", "array(id) AS l")
    when = Band("odd name", "q", 0, 0)
    built = BatchTable.build(table, on="k", when=when)
    results = {}
    how: Any
    for how in HOWS:
        of_frame = how == "inner"
        join = partial(bsjoin.join, stream, table) if of_frame else partial(built.join, stream)
        joined = results[how] = join(on="k", when=when, how=how, suffix="_2")
        brought = ["q", "k_2", "l"] if how in ("inner", "left") else []
        assert joined.columns == ["odd name", "k", "s", *brought]
        assert joined.schema["s"] == stream.schema["s"]
        for name in brought:
            nullable = not of_frame or table.schema[name].nullable
            assert joined.schema[name].nullable == nullable
    found = {how: df.select(F.to_json(F.struct("*"))) for how, df in results.items()}
    counts = {how: rows.num_rows for how, rows in rows_of_all(found).items()}
    assert counts == {how: 0 if how == "anti" else 3 for how in HOWS}


def test_watermarks_survive_joins_and_close_windows(spark: SparkSession, feed: Feed) -> None:
    """Joins in a row, two shapes and one of ranges, then an aggregate over windows."""
    minutes, late = range(60), (10_000, 10_001)
    feed.add(*minutes)
    feed.add(*late)
    tables = {name: table_of(spark, sizes) for name, sizes in SHAPES.items()}
    spans = spark.range(_START // 10**6, _START // 10**6 + 4000, 600)
    spans = spans.selectExpr("timestamp_seconds(id) AS since", "id AS span")

    def events(df: DataFrame) -> DataFrame:
        at = f"timestamp_micros({_START} + k * 60000000) AS at"
        return df.selectExpr("if(k = 10000, null, k % 6) AS k", at, "array(k, null) AS list")

    def windows(df: DataFrame, join: Callable[..., DataFrame], ranged: bool) -> DataFrame:
        df = join(df, tables["row"], "k", how="left")
        df = join(df, tables["runs"], "k", how="inner", suffix="_runs")
        if ranged:
            df = bsjoin.join(df, spans, [], when=AsOf("at", "since", tolerance="10 minutes"))
        else:
            own = "since <= at AND at < since + INTERVAL 600 SECONDS"
            df = df.join(spans, F.expr(own))
        per_window = df.groupBy(F.window("at", "5 minutes"), "v", "span")
        counted = per_window.agg(F.count("*").alias("n"), F.sum("v_runs").alias("sum"))
        return counted.selectExpr("window.end", "v", "span", "n", "sum")

    stream = events(feed.stream).withWatermark("at", "10 minutes")
    assert bsjoin.join(stream, tables["row"], "k").schema["at"].metadata != {}
    feed.run(windows(stream, bsjoin.join, True))
    numbers = spark.createDataFrame([(k,) for k in (*minutes, *late)], "k long")
    closed = windows(events(numbers), expected, False)
    closed = closed.where(f"end < timestamp_micros({_START + 10**11})")
    wanted = Counter(map(tuple, closed.collect()))
    assert wanted.total() > 20
    assert Counter(row for some in feed.results.values() for row in some) == wanted


SPELLINGS = {
    "inner": ("inner", "INNER", "in_ner"),
    "left": ("left", "leftouter", "left_outer", "LEFT_OUTER", "Left_Outer"),
    "semi": ("semi", "leftsemi", "left_semi", "LEFT_SEMI"),
    "anti": ("anti", "leftanti", "left_anti", "LeftAnti"),
}


def test_every_spelling_of_a_join_type_means_what_it_means_to_spark(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    parsed = jvm.org.apache.spark.sql.catalyst.plans.JoinType.apply
    stream = spark.range(4).withColumnRenamed("id", "k")
    table = BatchTable.build(spark.range(2, 5).selectExpr("id AS k", "id * 10 AS v"), on="k")
    how: Any
    for meant, spellings in SPELLINGS.items():
        for how in spellings:
            assert parsed(how).toString() == parsed(meant).toString()
            joined = bsjoin.join(stream, table, how=how)
            assert joins_of(joined)[-1].planned.plan.how == meant
            assert bsjoin.cycles(table, how=how, sink=print).call.how == meant
