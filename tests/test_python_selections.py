"""Selections between joins in Python workers: the joins stay one stage, the answers Spark's own."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import oracle
import pyarrow as pa
import pytest
from cache_samples import Model, until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, values_of
from test_python_stages import stages

import bsjoin
from bsjoin import BatchTable, Incremental
from bsjoin.planner import chain, projections
from bsjoin.planner.chain import joins_of
from bsjoin.spark import compat

CACHE = Incremental(max_rows=1_000)
pytestmark = pytest.mark.usefixtures("in_python")
Change = Callable[[DataFrame], DataFrame]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Keys 0 to 19, each with another one and a text; the key 3 twice, 4 not at all."""
    numbers = [n for n in [*range(20), 3] if n != 4]
    columns = {
        "id": pa.array(numbers, pa.int32()),
        "next": pa.array([(n * 3) % 23 if n % 6 else None for n in numbers], pa.int64()),
        "text": [f"text {n}" if n % 7 else None for n in numbers],
    }
    return Model(tmp_path_factory.mktemp("rows") / "model", pa.table(columns))


@pytest.fixture(scope="module")
def by_id(spark: SparkSession, rows: Model, tmp_path_factory: pytest.TempPathFactory) -> BatchTable:
    folder = tmp_path_factory.mktemp("tables")
    return BatchTable.build(spark.createDataFrame(rows._read()), on="id", path=folder / "id")


def stream(spark: SparkSession) -> DataFrame:
    """Keys with a metadata, a nested value, and names that need quoting."""
    key = F.when(F.col("id") != 8, F.col("id")).alias("k", metadata={"unit": "m"})
    odd = F.col("id").cast("string").alias("an `odd`.name, #1")
    return spark.range(0, 24, 1, 1).select(
        key, (F.col("id") % 5).alias("g"), F.struct("id", F.lit("x").alias("t")).alias("s"), odd
    )


def reasons(df: DataFrame) -> list[str]:
    """For each join why it begins a stage; empty for one that shares the stage before."""
    return [step.apart for step in joins_of(df)]


# What may be between two joins, and the key of the second.
SELECTIONS: dict[str, tuple[Change, str]] = {
    "toDF": (lambda df: df.toDF(*(f"c{i}" for i in range(len(df.columns)))), "c4"),
    "alias": (lambda df: df.alias("a").select("a.next", "a.k", "a.s"), "next"),
    "withColumn": (lambda df: df.withColumn("g", F.col("next") * 2 + F.col("g")), "next"),
    "expressions": (
        lambda df: df.selectExpr(
            "next AS key", "upper(text) AS text", "transform(array(k, next), v -> v + 1) AS l",
            "CASE WHEN g > 2 THEN 'a, b' END AS c", "s.t AS t", "s.*", "current_date() AS d",
            "named_struct('x', next, 'y', map('a', k)) AS m", "1 AS one", "next AS next",
        ),
        "key",
    ),
    "metadata": (lambda df: df.withMetadata("next", {"a": 1}).withMetadata("k", {}), "next"),
    "odd names": (
        lambda df: df.select("`an ``odd``.name, #1`", F.col("next").alias("none#0 AS #1, x")),
        "none#0 AS #1, x",
    ),
    "a chain of them": (
        lambda df: df.drop("text").withColumn("z", F.lit(1)).select("*", F.col("next").alias("m"))
        .alias("b").withColumn("m", F.col("b.m")).drop("g").select("m", "k", "z", "b.next"),
        "m",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "kinds",
    [["a chain of them"], pytest.param([*SELECTIONS], marks=pytest.mark.long)],
    ids=["one", "all"],
)
def test_a_selection_keeps_the_stage(
    spark: SparkSession, rows: Model, by_id: BatchTable, kinds: list[str]
) -> None:
    """A full and an incremental cache, left and inner; a name that was dropped comes again."""
    frame = spark.createDataFrame(rows._read())
    ours, theirs = dict[str, DataFrame](), dict[str, DataFrame]()
    for what in kinds:
        change, key = SELECTIONS[what]
        df = change(by_id.join(stream(spark), {"k": "id"}, how="left"))
        df = bsjoin.join(df, rows, {key: "id"}, cache=CACHE, select=["text"], suffix="_2")
        ours[what] = df.withColumnRenamed(df.columns[-1], "renamed")
        assert stages(df) == 1, what
        wanted = change(oracle.expected(stream(spark), frame, {"k": "id"}, "left"))
        name = next(name for name in wanted.columns if name.lower() == key.lower())
        wanted = oracle.expected(wanted, frame, {name: "id"}, "inner", ["text"], "_2")
        theirs[what] = wanted.withColumnRenamed(wanted.columns[-1], "renamed")
        assert ours[what].schema.simpleString() == theirs[what].schema.simpleString(), what
    found, right = values_of(ours), values_of(theirs)
    assert all(right.values())
    for what in kinds:
        assert found[what] == right[what], what


@pytest.mark.long
def test_two_derivations_of_one_result(spark: SparkSession, rows: Model, by_id: BatchTable) -> None:
    """United, and joined with what they are derived from."""
    frame = spark.createDataFrame(rows._read())

    def results(first: DataFrame, join: Callable[[DataFrame, str], DataFrame]) -> list[DataFrame]:
        one = first.select("k", F.col("next").alias("m"), (F.col("g") + 1).alias("h"))
        other = first.select(F.col("next").alias("k"), F.col("k").alias("m"), "g")
        left, right = join(one, "m"), join(other, "m")
        with_own = left.join(one.alias("o"), F.col("o.h") == left["h"])
        return [left.union(right), with_own, left.join(left.alias("x"), "k")]

    found = results(
        by_id.join(stream(spark), {"k": "id"}),
        lambda df, key: by_id.join(df, {key: "id"}, how="left", select=["text"]),
    )
    wanted = results(
        oracle.expected(stream(spark), frame, {"k": "id"}),
        lambda df, key: oracle.expected(df, frame, {key: "id"}, "left", ["text"]),
    )
    assert [stages(df) for df in found] == [2] * 3
    assert values_of(dict(enumerate(found))) == values_of(dict(enumerate(wanted)))
    # A column of the stream finds its column in the result.
    between = by_id.join(stream(spark), {"k": "id"})
    between = between.withColumn("sum", F.col("k") + F.col("next"))
    second = by_id.join(between, {"next": "id"}, select=["text"], suffix="_2")
    assert second.where(between["sum"] == 4).select(between["sum"]).collect() == [(4,)] * 2


def test_what_begins_a_stage(
    spark: SparkSession, by_id: BatchTable, capsys: pytest.CaptureFixture[str]
) -> None:
    first = by_id.join(stream(spark), {"k": "id"})
    function = F.udf(lambda value: value, "long")
    cached = first.select("next", "k").cache()
    derived_from_cached = cached.withColumnRenamed("k", "q")
    changed = {
        "'next' is computed between them": first.withColumn("next", F.col("next") + 0),
        "'x' is computed between them": first.select(F.col("s.id").alias("x")),
        "an expression between them is not deterministic": first.withColumn("r", F.rand()),
        "a Python function is between them": first.withColumn("f", function("k")),
        "a subquery is between them": first.selectExpr("next", "(SELECT max(id) FROM range(3))"),
        "the rows between them are cached": cached,
        "the rows between them are cached ": derived_from_cached,
        "between them is Filter": first.where("k > 0").select("next"),
        "between them is Aggregate": first.groupBy("next").count(),
    }
    try:
        for reason, df in changed.items():
            key = "x" if "x" in df.columns else "next"
            second = by_id.join(df, {key: "id"}, select=["text"], suffix="_2", how="left")
            assert reasons(second) == ["", reason.strip()]
        bsjoin.explain(second)
    finally:
        cached.unpersist()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert "in a stage of their own: between them is Aggregate, partitioned: none" in lines[4]
    assert joins_of(spark.range(3).select("id")) == []


@pytest.mark.long
def test_a_stream_with_a_watermark_and_its_figures(
    rows: Model, by_id: BatchTable, feed: Feed
) -> None:
    for keys in ([0, 1, 11, 12, 13], [40], [41]):
        feed.add(*keys)
    at = F.timestamp_seconds(F.col("k") * 60 + 1_767_225_600)
    marked = feed.stream.withColumn("at", at).withWatermark("at", "5 minutes")
    df = by_id.join(marked, {"k": "id"}, how="left")
    df = df.select(F.col("k").alias("n"), F.col("at").alias("time"), "next")
    df = bsjoin.join(df, rows, {"next": "id"}, how="left", cache=CACHE, select=["text"])
    df = df.withColumn("text", F.coalesce("text", F.lit("none")))
    df = by_id.join(df, {"n": "id"}, how="left", select=["next"], suffix="_2")
    assert reasons(df) == ["", "", ""]
    assert df.schema["time"].metadata == marked.schema["at"].metadata != {}
    counted = df.groupBy(F.window("time", "10 minutes"), "text").count().select("text", "count")
    found = cycles(feed.run(counted))
    closed = sorted(row for rows in feed.results.values() for row in rows)
    assert closed == [("none", 1), ("none", 1), ("text 10", 1), ("text 16", 1), ("text 3", 2)]
    figures = [(c.batch_id, c.rows_in, c.hits, c.matches, c.mode) for c in found]
    assert figures == [
        (0, 5, 5, 5, "full"), (0, 5, 3, 4, "incremental"), (0, 6, 6, 6, "full"),
        (1, 1, 0, 0, "full"), (1, 1, 0, 0, "incremental"), (1, 1, 0, 0, "full"),
        (2, 1, 0, 0, "full"), (2, 1, 0, 0, "incremental"), (2, 1, 0, 0, "full"),
    ]  # fmt: skip


def test_where_spark_differs_a_stage_begins(
    spark: SparkSession, by_id: BatchTable, caplog: pytest.LogCaptureFixture
) -> None:
    first = by_id.join(stream(spark), {"k": "id"})
    for part in ("projection", "numbers", "above"):

        @projections._guarded
        def fails(*_: object, part: str = part, **__: object) -> None:
            raise AttributeError(f"no {part} in this version of Spark")

        where: Any = chain if part == "projection" else projections.Projection
        with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.DEBUG, "bsjoin"):
            patch.setattr(where, part, fails)
            second = by_id.join(first.select("k", "next"), {"next": "id"}, select=["text"])
        assert f"no {part} in this version of Spark" in caplog.text
        assert stages(second) == 2
        unreadable = "" if part == "projection" else projections.UNREADABLE
        assert reasons(second)[-1] == unreadable


@pytest.mark.long
def test_a_result_is_forgotten_with_its_plan(spark: SparkSession, by_id: BatchTable) -> None:
    jvm: Any = spark._jvm
    known = projections._results_of(compat.catalyst(stream(spark)))

    def make(_: int = 0) -> DataFrame:
        df = by_id.join(stream(spark), {"k": "id"})
        return by_id.join(df.select("next"), {"next": "id"}, select=["text"])

    kept = make().select("text")
    made: list[DataFrame] = []
    threads = [threading.Thread(target=lambda: made.extend(map(make, range(2)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [stages(df) for df in made] == [1] * 4
    before = len(known)
    assert before >= 10
    del threads, thread
    made.clear()
    gc.collect()

    def forgotten() -> bool:
        jvm.java.lang.System.gc()
        known._sweep()
        return len(known) <= before - 4  # a thread of the JVM may keep the last plan it has made

    until(forgotten, "py4j to let the plans go")
    assert len(known) >= 2
    found = projections.projection(kept)
    assert [step.planned.plan.how for step in joins_of_step(found.made_by)] == ["inner"] * 2


def joins_of_step(step: Any) -> list[Any]:
    return [] if step is None else [*joins_of_step(step.before), step]
