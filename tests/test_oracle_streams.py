"""The same join in a streaming query answers in all what Spark's join answers in a batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FUZZ, HOWS, assert_same, assert_same_rows, assert_same_schema, expected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from spark_samples import write_stream_file

import bsjoin
from bsjoin import BatchTable

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

_names = itertools.count()
_START = 1_700_000_000_000_000


@dataclass(frozen=True)
class Source:
    """A folder of Parquet files; a stream reads one file in each micro-batch."""

    spark: SparkSession
    folder: Path

    def write(self, *tables: pa.Table) -> Source:
        for table in tables:
            columns = dict(zip(table.column_names, table.columns, strict=True))
            write_stream_file(self.folder, next(_names), **columns)
        return self

    @property
    def batch(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder))

    @property
    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.batch.schema)
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Callable[..., Source]:
    def make(*tables: pa.Table) -> Source:
        folder = tmp_path / f"stream-{next(_names)}"
        folder.mkdir()
        return Source(spark, folder).write(*tables)

    return make


def finished(df: DataFrame, mode: str = "append") -> tuple[DataFrame, StreamingQuery]:
    """What a query has written when all that is there has been read."""
    name = f"oracle_{next(_names)}"
    writer = df.writeStream.format("memory").queryName(name).outputMode(mode)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return df.sparkSession.table(name), query


def rows(keys: list[int | None], first: int = 0) -> pa.Table:
    """Rows of a stream: a key, a number, a minute of event time, and an array."""
    numbers = range(first, first + len(keys))
    return pa.table(
        {
            "k": pa.array(keys, pa.int32()),
            "i": pa.array(numbers, pa.int64()),
            "at": pa.array([_START + i * 60_000_000 for i in numbers], pa.timestamp("us", "UTC")),
            "list": pa.array([[i, None] for i in numbers], pa.list_(pa.int64())),
        }
    )


def table_of(spark: SparkSession, sizes: list[int]) -> DataFrame:
    """Key ``k`` in ``sizes[k]`` rows, and one row without a key.

    All columns are nullable: in a stream those of a BatchTable are, whose next version may
    bring nulls.
    """
    keys = [key for key, size in enumerate(sizes) for _ in range(size)] + [None]
    df = spark.createDataFrame(pa.table({"k": pa.array(keys, pa.int64())}))
    return df.selectExpr(
        "k",
        "nullif(monotonically_increasing_id(), -1) AS v",
        "if(k % 2 = 0, null, named_struct('a', k, 'b', string(k))) AS s",
        "timestamp_micros(k) AS at",
    )


SHAPES = {"row": [1, 1, 1, 1], "rows": [1, 2, 64, 5], "runs": [1, 2, 65, 200]}
KEYS = st.sampled_from([0, 1, 2, 3, 4, None])


@pytest.mark.parametrize(
    ("shape", "zone"), [("row", "UTC"), ("rows", "America/New_York"), ("runs", "Asia/Kolkata")]
)
@settings(FUZZ, max_examples=1)
@given(st.lists(st.lists(KEYS, max_size=20), min_size=3, max_size=3))
def test_every_join_type_in_one_streaming_query(
    spark: SparkSession,
    source: Callable[..., Source],
    shape: str,
    zone: str,
    keys: list[list[int | None]],
) -> None:
    """Four joins, their union, three micro-batches (an empty one among them, perhaps)."""
    batch = table_of(spark, SHAPES[shape])
    if shape == "row":
        batch = batch.withColumns({"never": F.lit(1), "nulls": F.array(F.lit("x"))})
    with oracle.settings(spark, spark__sql__session__timeZone=zone):
        data = source(*(rows(some, 100 * i) for i, some in enumerate(keys)))
        if shape == "row":  # a table that cannot change, or else its keys may not stay unique
            joined = {how: bsjoin.join(data.stream, batch, "k", how=how) for how in HOWS}
        else:
            table = BatchTable.build(batch, on="k")
            joined = {how: table.join(data.stream, how=how) for how in HOWS}
        for how, df in joined.items():
            assert_same_schema(df, expected(data.batch, batch, "k", how), how)
        found, query = finished(oracle.together(joined))
        assert len([p for p in query.recentProgress if p.numInputRows]) == sum(map(bool, keys))
        wanted = oracle.rows_of_spark(data.batch, batch, "k")
        for how, part in oracle.apart(found, joined).items():
            assert_same_rows(part, wanted[how], how)


def test_watermarks_survive_joins_and_close_windows(
    spark: SparkSession, source: Callable[..., Source]
) -> None:
    """Three joins in a row, one of each shape, then an aggregate over windows."""
    keys = [i % 6 for i in range(60)]
    data = source(rows(keys[:30]), rows(keys[30:], 30), rows([None, 1], 10_000))
    tables = {name: table_of(spark, sizes).select("k", "v") for name, sizes in SHAPES.items()}

    def windows(df: DataFrame, join: Callable[..., DataFrame]) -> DataFrame:
        df = join(df, tables["row"], "k", how="left")
        df = join(df, tables["rows"], "k", how="left", suffix="_rows")
        df = join(df, tables["runs"], "k", how="inner", suffix="_runs")
        per_window = df.groupBy(F.window("at", "5 minutes"), "v")
        counted = per_window.agg(F.count("*").alias("n"), F.sum("v_runs").alias("sum"))
        return counted.selectExpr("window.end", "v", "n", "sum")

    stream = data.stream.withWatermark("at", "10 minutes")
    found, _ = finished(windows(stream, bsjoin.join))
    closed = windows(data.batch, expected).where(f"end < timestamp_micros({_START + 10**11})")
    assert closed.count() > 20
    assert_same_rows(oracle.collected(found), oracle.collected(closed))


def test_aggregates_before_and_after_a_join(
    spark: SparkSession, source: Callable[..., Source]
) -> None:
    data = source(rows([0, 1, 2, 2, None]), rows([3, 2, 0, 9], 10))
    batch = table_of(spark, SHAPES["rows"])
    after = bsjoin.join(data.stream, batch, "k", how="left").groupBy("v").agg(F.sum("i"))
    right = expected(data.batch, batch, "k", "left").groupBy("v").agg(F.sum("i"))
    assert_same(finished(after, "complete")[0], right)
    before = bsjoin.join(data.stream.groupBy("k").count(), batch, "k", how="inner")
    right = expected(data.batch.groupBy("k").count(), batch, "k", "inner")
    assert_same_rows(*map(oracle.collected, (finished(before, "complete")[0], right)))


def test_one_joined_stream_goes_into_a_union_twice(
    spark: SparkSession, source: Callable[..., Source]
) -> None:
    data = source(rows([0, 1, 2, None, 3]), rows([3, 3, 5], 10))
    batch = table_of(spark, SHAPES["row"])
    joined = bsjoin.join(data.stream, batch, "k")
    right = expected(data.batch, batch, "k")
    halves = joined.where("i < 5").union(joined.where("i >= 3"))
    assert_same(finished(halves)[0], right.where("i < 5").union(right.where("i >= 3")))


def test_two_joined_streams_are_united(spark: SparkSession, source: Callable[..., Source]) -> None:
    one, other = source(rows([0, 1, 2, None])), source(rows([3], 50), rows([2, 1, 1, 7], 60))
    small, large = table_of(spark, SHAPES["row"]), table_of(spark, SHAPES["runs"])
    union = reduce(
        DataFrame.union,
        [bsjoin.join(one.stream, large, "k"), bsjoin.join(other.stream, small, "k", how="left")],
    )
    right = expected(one.batch, large, "k").union(expected(other.batch, small, "k", "left"))
    assert_same(finished(union)[0], right)
