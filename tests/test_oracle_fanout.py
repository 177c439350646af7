"""How many rows: any number of rows per key, of segments, of rows per Arrow batch, and none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    FUZZ,
    HOWS,
    assert_same,
    assert_same_rows,
    assert_same_schema,
    check,
    expected,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("runtime")

SIZES = [1, 2, 63, 64, 65, 1000, 5000]
BATCH_ROWS = "spark__sql__execution__arrow__maxRecordsPerBatch"
KEYS = st.sampled_from([0, 1, 2, 3, 4, 2**40, -1, None])


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


@dataclass(frozen=True)
class Prepared:
    """Three tables, one per shape of an answer, and Spark's answers to the same questions."""

    results: Callable[[], dict[str, DataFrame]]
    answers: dict[str, pa.Table]


@pytest.fixture(scope="module")
def prepared(spark: SparkSession) -> Prepared:
    sizes = {"row": [1] * 9, "rows": [1, 2, 63, 64, 3], "runs": SIZES}
    stream = probes(spark, 9)
    sources = {shape: groups(spark, counts) for shape, counts in sizes.items()}
    tables = {shape: BatchTable.build(source, on="k") for shape, source in sources.items()}
    hows = {"row": ["inner", "anti"], "rows": ["left"], "runs": HOWS}
    answers = {}
    for shape, source in sources.items():
        for how, rows in oracle.rows_of_spark(stream, source, "k").items():
            answers[f"{shape} {how}"] = rows

    def results() -> dict[str, DataFrame]:
        return {
            f"{shape} {how}": table.join(stream, how=how)
            for shape, table in tables.items()
            for how in hows[shape]
        }

    return Prepared(results, answers)


@pytest.mark.parametrize("rows", [1, 50, 51])
def test_the_size_of_arrow_batches_changes_no_row(
    spark: SparkSession, prepared: Prepared, rows: int
) -> None:
    with oracle.settings(spark, **{BATCH_ROWS: str(rows)}):
        found = oracle.rows_of_all(prepared.results())
    for question, answer in found.items():
        assert_same_rows(answer, prepared.answers[question], question)


@pytest.mark.parametrize("rows", [50])
def test_a_table_built_from_small_arrow_batches_is_the_same(spark: SparkSession, rows: int) -> None:
    with oracle.settings(spark, **{BATCH_ROWS: str(rows)}):
        check(probes(spark, 6), groups(spark, [1, 2, 63, 64, 65, 200]), "k")


@pytest.mark.parametrize("per_key", [300])
def test_several_segments_answer_as_one(spark: SparkSession, per_key: int) -> None:
    keys = 120_000 // per_key
    batch = spark.range(120_000).selectExpr(
        f"id % {keys} AS k",
        "repeat(string(id), 6) AS text",
        "if(id % 5 = 0, null, array(id, null)) AS list",
        "named_struct('a', id, 'b', if(id % 7 = 0, null, string(id))) AS pair",
    )
    table = BatchTable.build(batch, on="k", segment_bytes=1 << 20)
    assert table.stats().segments >= 3
    step = max(1, keys // 50)
    stream = spark.range(-50, keys + 50, step).selectExpr(
        "if(id % 11 = 0, null, id) AS k", "id AS n"
    )
    check(stream, batch, "k", table=table)


def test_a_composite_key_is_found_in_several_segments(spark: SparkSession) -> None:
    batch = spark.range(60_000).selectExpr(
        "string(id % 20000) AS a", "double(id % 3) AS b", "repeat(string(id), 8) AS text"
    )
    table = BatchTable.build(batch, on=["a", "b"], segment_bytes=1 << 20)
    assert table.stats().segments >= 4
    stream = spark.range(0, 21_000, 100).selectExpr("float(id % 4) AS b", "string(id) AS a")
    check(stream, batch, {"b": "b", "a": "a"}, table=table)


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Few keys in many rows: an integer and a text."""
    sides = []
    for payload in ("x", "y"):
        rows = draw(st.lists(st.tuples(KEYS, st.sampled_from(["", "a", "é", None])), max_size=60))
        numbers, texts = zip(*rows, strict=True) if rows else ((), ())
        columns = {"k": pa.array(numbers, pa.int64()), "t": pa.array(texts, pa.string())}
        sides.append(pa.table({**columns, payload: pa.array(range(len(rows)), pa.int32())}))
    return sides[0], sides[1]


@settings(FUZZ, max_examples=4)
@given(
    two_tables(),
    st.sampled_from([["k"], ["t"], ["k", "t"]]),
    st.sampled_from([1, 10_000, 1 << 20]),
)
def test_segments_of_a_few_rows_answer_as_one(
    spark: SparkSession, case: tuple[pa.Table, pa.Table], on: list[str], segment_bytes: int
) -> None:
    """Runs of three rows, merged to one or more segments by the driver or by tasks."""
    stream, batch = map(spark.createDataFrame, case)
    with pytest.MonkeyPatch.context() as patch, oracle.settings(spark, **{BATCH_ROWS: "3"}):
        patch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
        for module in ("job", "merging"):
            patch.setattr(f"bsjoin.build.{module}.RUN_BYTES", 1)
        table = BatchTable.build(batch, on=on, segment_bytes=segment_bytes)
        check(stream, batch, on, table=table)


@pytest.mark.in_turns("runtime")
def test_more_than_256_segments_answer_as_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    batch = spark.range(900).selectExpr("id % 800 AS k", "id AS v", "string(id) AS t")
    table = BatchTable.build(batch.repartition(8, "k"), on="k", segment_bytes=1)
    assert table.stats().segments > 256
    check(spark.range(-10, 900).selectExpr("id AS k"), batch, "k", table=table)


def _one(spark: SparkSession, name: str, *keys: int | None) -> DataFrame:
    columns = {"k": pa.array(keys, pa.int32()), name: pa.array(map(str, keys), pa.string())}
    return spark.createDataFrame(pa.table(columns))


@pytest.mark.in_turns("runtime")
@pytest.mark.parametrize(
    ("stream", "batch"),
    [
        ((), (1, 2, 2)),
        ((1, 1, None), ()),
        ((), ()),
        ((1, 1, None), (None, None)),
        ((None, None), (1, 2, None)),
        ((7,), (7,)),
    ],
    ids=["empty stream", "empty table", "both empty", "table of nulls", "only nulls", "one row"],
)
def test_little_or_nothing_is_joined_as_in_spark(
    spark: SparkSession, stream: tuple[int | None, ...], batch: tuple[int | None, ...]
) -> None:
    check(_one(spark, "x", *stream), _one(spark, "y", *batch), "k")


@pytest.mark.in_turns("runtime")
def test_empty_partitions_on_both_sides_do_no_harm(spark: SparkSession) -> None:
    stream, batch = probes(spark, 5).repartition(9), groups(spark, [1, 2, 70]).repartition(9)
    check(stream.union(stream.where("false")), batch.union(batch.where("false")), "k")
    check(spark.range(0).selectExpr("id AS k"), batch.where("rand() < 0"), "k", hows=["left"])


@pytest.mark.in_turns("runtime")
@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 2, 5], [1, 2, 70]], ids=["row", "rows", "runs"])
def test_no_selected_column_still_gives_every_pair(spark: SparkSession, sizes: list[int]) -> None:
    stream, batch = probes(spark, 5), groups(spark, sizes)
    check(stream, batch, "k", hows=["inner", "left"], select=[])
    for how in ("inner", "left"):
        joined = bsjoin.join(stream, batch, "k", how=how, select=[])
        assert joined.count() == expected(stream, batch, "k", how, []).count()


def test_selected_columns_come_in_their_order_under_their_names(spark: SparkSession) -> None:
    """Key columns too, under the table's name or with the suffix."""
    stream, batch = probes(spark, 5), groups(spark, [1, 2, 5])
    check(stream, batch, "k", select=["t", "k"], suffix="_of_table")
    renamed = batch.withColumnsRenamed({"k": "key", "v": "i"})
    check(stream, renamed, {"k": "key"}, hows=["inner", "left"], select=["key", "i"])
    single = groups(spark, [1, 1])
    check(stream, single, "k", hows=["inner", "left"], select=["k"])
    for how in ("inner", "left"):
        joined = bsjoin.join(
            stream, renamed, {"k": "key"}, how=how, select=["i", "key"], suffix="2"
        )
        assert joined.columns == ["k", "i", "i2", "key"]
        assert_same(joined, expected(stream, renamed, {"k": "key"}, how, ["i", "key"], "2"))


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 2, 70]], ids=["row", "runs"])
def test_whatever_follows_a_join_sees_the_same_rows(spark: SparkSession, sizes: list[int]) -> None:
    """Filters, fewer columns, aggregates and further joins do not disturb the look-up."""
    stream, batch = probes(spark, 5), groups(spark, sizes)

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
