"""What a joined stream has besides the right rows: columns, watermarks, figures.

Its rows, with refreshes, restarts and replays, are those of the fuzz (`test_fuzz.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS, assert_same_rows, assert_same_schema, collected, expected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, write_stream_file

import bsjoin
from bsjoin import AsOf, Band, BatchTable
from bsjoin.planner.chain import joins_of

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

_names = itertools.count()
_START = 1_700_000_000_000_000
SHAPES = {"row": [1, 1, 1, 1], "rows": [1, 2, 64, 5], "runs": [1, 2, 65, 200]}
"""How many rows each key has: each is answered in another way."""


class Source:
    """A folder of Parquet files; a stream reads one file in each micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder = spark, folder
        folder.mkdir()

    def add(self, keys: list[int | None], first: int = 0) -> None:
        """A micro-batch: a key, a number, a minute of event time, and an array."""
        numbers = range(first, first + len(keys))
        times = [_START + i * 60_000_000 for i in numbers]
        write_stream_file(
            self.folder,
            next(_names),
            k=pa.array(keys, pa.int32()),
            i=pa.array(numbers, pa.int64()),
            at=pa.array(times, pa.timestamp("us", "UTC")),
            list=pa.array([[i, None] for i in numbers], pa.list_(pa.int64())),
        )

    @property
    def batch(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder))

    @property
    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.batch.schema)
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "in")


def finished(df: DataFrame) -> pa.Table:
    """What a query has written when all that is there has been read."""
    name = f"joined_{next(_names)}"
    writer = df.writeStream.format("memory").queryName(name)
    writer.trigger(availableNow=True).start().awaitTermination()
    return collected(df.sparkSession.table(name))


def table_of(spark: SparkSession, sizes: list[int]) -> DataFrame:
    """Key ``k`` in ``sizes[k]`` rows, and one row without a key; all columns are nullable."""
    keys = [key for key, size in enumerate(sizes) for _ in range(size)] + [None]
    df = spark.createDataFrame(pa.table({"k": pa.array(keys, pa.int64())}))
    return df.selectExpr(
        "k",
        "nullif(monotonically_increasing_id(), -1) AS v",
        "if(k % 2 = 0, null, named_struct('a', k, 'b', string(k))) AS s",
    )


def test_columns_are_those_of_sparks_join(spark: SparkSession, source: Source) -> None:
    """Nullability too, of a table that can change and of one that cannot."""
    source.add([1])
    stored = table_of(spark, SHAPES["runs"])
    fixed = table_of(spark, SHAPES["row"])
    fixed = fixed.withColumns({"never": F.lit(1), "nulls": F.array(F.lit("x"))})
    table = BatchTable.build(stored, on="k")
    how: Any
    for how in HOWS:
        wanted = expected(source.batch, stored, "k", how)
        assert_same_schema(table.join(source.stream, how=how), wanted, how)
        if how in ("inner", "left"):
            wanted = expected(source.batch, fixed, "k", how)
            assert_same_schema(bsjoin.join(source.stream, fixed, "k", how=how), wanted, how)


def test_columns_of_a_range_join_are_those_of_the_contract(spark: SparkSession) -> None:
    stream = spark.range(3).selectExpr("id AS `odd name`", "id AS k", "named_struct('x', id) AS s")
    table = spark.range(3).selectExpr("id AS k", "id AS q", "'v' AS k_2", "array(id) AS l")
    when = Band("odd name", "q", 0, 0)
    how: Any
    for how in HOWS:
        joined = bsjoin.join(stream, table, on="k", when=when, how=how, suffix="_2")
        brought = ["q", "k_2", "l"] if how in ("inner", "left") else []
        assert joined.columns == ["odd name", "k", "s", *brought]
        assert joined.schema["s"] == stream.schema["s"]
        for name in brought:
            assert joined.schema[name].nullable == (how == "left" or table.schema[name].nullable)
        assert joined.count() == (0 if how == "anti" else 3)


def test_watermarks_survive_joins_and_close_windows(spark: SparkSession, source: Source) -> None:
    """Joins in a row, one of each shape and one of ranges, then an aggregate over windows."""
    keys: list[int | None] = [i % 6 for i in range(60)]
    source.add(keys[:30])
    source.add(keys[30:], 30)
    source.add([None, 1], 10_000)
    tables = {name: table_of(spark, sizes).select("k", "v") for name, sizes in SHAPES.items()}
    spans = spark.range(_START // 10**6, _START // 10**6 + 4000, 600)
    spans = spans.selectExpr("timestamp_seconds(id) AS since", "id AS span")

    def windows(df: DataFrame, join: Callable[..., DataFrame], ranged: bool) -> DataFrame:
        df = join(df, tables["row"], "k", how="left")
        df = join(df, tables["rows"], "k", how="left", suffix="_rows")
        df = join(df, tables["runs"], "k", how="inner", suffix="_runs")
        if ranged:
            df = bsjoin.join(df, spans, [], when=AsOf("at", "since", tolerance="10 minutes"))
        else:
            own = "since <= at AND at < since + INTERVAL 600 SECONDS"
            df = df.join(spans, F.expr(own))
        per_window = df.groupBy(F.window("at", "5 minutes"), "v", "span")
        counted = per_window.agg(F.count("*").alias("n"), F.sum("v_runs").alias("sum"))
        return counted.selectExpr("window.end", "v", "span", "n", "sum")

    stream = source.stream.withWatermark("at", "10 minutes")
    assert bsjoin.join(stream, tables["row"], "k").schema["at"].metadata != {}
    found = finished(windows(stream, bsjoin.join, True))
    all_windows = windows(source.batch, expected, False)
    closed = collected(all_windows.where(f"end < timestamp_micros({_START + 10**11})"))
    assert closed.num_rows > 20
    assert_same_rows(found, closed)


def test_figures_of_ranges_are_exact_for_every_join_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    when = Band("k", "q", 1, 1)
    table = spark.createDataFrame([(q,) for q in (10, 11, 11, 20)], "q bigint")
    built = BatchTable.build(table, on=[], when=when, path=tmp_path / "table")
    feed = Feed(spark, tmp_path)
    feed.add(10, 11, 30, None)
    feed.add(30, 31)
    feed.add(20)
    hows: list[Any] = [*HOWS]
    joins = [
        built.join(feed.stream, when=when, how=how).select("k", F.lit(how).alias("how"))
        for how in hows
    ]
    query = feed.start(joins[0].union(joins[1]).union(joins[2]).union(joins[3]))
    query.processAllAvailable()
    figures = cycles(query)
    query.stop()
    # 10 meets 10, 11, 11; 11 meets the same; 20 meets 20.
    wanted = {0: (4, 2, 6), 1: (2, 0, 0), 2: (1, 1, 1)}
    for number, (rows_in, hits, matches) in wanted.items():
        found = [cycle for cycle in figures if cycle.batch_id == number]
        assert [cycle.on for cycle in found] == [("k",)] * 4
        for how, cycle in zip(hows, found, strict=True):
            assert (cycle.rows_in, cycle.hits, cycle.mode) == (rows_in, hits, "full"), how
            assert cycle.misses == rows_in - hits
            assert cycle.rows_out == sum(row[1] == how for row in feed.results[number])
            assert how in ("semi", "anti") or cycle.matches == matches


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
