"""References to columns of both sides hold for a result as they do for that of Spark's own join."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from reference_kinds import (
    Sides,
    asof,
    differences,
    incremental,
    table_differences,
    table_kinds,
)
from sessions import configured
from spark_samples import Feed, rows, table_of, values_of

import bsjoin
from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("interpreted")

TRANSFER = {"spark.bsjoin.python.transfer": "rows"}
LONG = pytest.mark.long
Made = Callable[[DataFrame], tuple[DataFrame, DataFrame]]


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> Sides:
    return Sides.of(spark)


def selected_between(sides: Sides, stream: DataFrame) -> tuple[DataFrame, DataFrame]:
    first, _ = sides.ours(stream, two=False)
    between = first.withColumn("w", first["k"]).drop("w")
    return first, sides.tables["prices"].join(between)


@pytest.mark.parametrize(
    "streams",
    [["one replaced"], pytest.param(["an alias", "none", "one computed", "joined"], marks=LONG)],
    ids=["one", "others"],
)
def test_they_hold_as_after_sparks_own_join(
    spark: SparkSession, sides: Sides, tmp_path: Path, streams: list[str]
) -> None:
    sides = replace(sides, streams={name: sides.streams[name] for name in streams})
    source = Model(tmp_path / "model", pa.table({"k": [1, 2], "name": ["a", "b"]}))

    def run_in(runtime: str, make: Made) -> Made:
        def made(stream: DataFrame) -> tuple[DataFrame, DataFrame]:
            with configured(spark, {"spark.bsjoin.runtime": runtime, **TRANSFER}):
                return make(stream)

        return made

    kinds = {
        "one": run_in("jvm", lambda stream: sides.ours(stream, two=False)),
        "a chain with a selection": run_in("jvm", lambda stream: selected_between(sides, stream)),
        "a chain": run_in("python", lambda stream: sides.ours(stream, two=True)),
        "a range join": run_in("python", asof(sides)),
        "incremental": run_in("python", incremental(sides, source)),
    }
    assert differences(sides, kinds) == []


@pytest.mark.parametrize("runtime", ["python", pytest.param("jvm", marks=LONG)])
def test_their_values_are_the_streams(spark: SparkSession, sides: Sides, runtime: str) -> None:
    """What is referred to is read, filtered and sorted by, not another column of the same name."""
    stream = sides.streams["one replaced"]
    with configured(spark, {"spark.bsjoin.runtime": runtime, **TRANSFER}):
        first, last = sides.ours(stream, two=True)
        some = last.where(stream["amount"] > 20).select(
            stream["amount"], "o.k", first["name"], last["price"], sides.raw["x"]
        )
        again = last.join(first.where(first["k"] > 1), "k").select(last["price"])
        counted = last.groupBy(sides.raw["k"]).count().where("k = 1")
        assert rows(some) == [(40, 2, "b", 6, 3.0)]
        assert rows(again) == [(6,)]
        assert rows(counted) == [(1, 1)]


@pytest.mark.long
def test_they_hold_in_a_stream(spark: SparkSession, feed: Feed) -> None:
    """With a column of the name under which rows are sent, and a watermark."""
    feed.add(1, 2, 9)
    stream = feed.stream.selectExpr("k", "k AS s0", "timestamp_seconds(k) AS t").alias("o")
    stream = stream.withWatermark("t", "1 hour")
    table = BatchTable.build(table_of(spark, 1), on="k")
    with configured(spark, {"spark.bsjoin.runtime": "python", **TRANSFER}):
        first = table.join(stream)
        last = table.join(first, select=["v"], suffix="_2")
        kept = last.where(stream["s0"] > 1).dropDuplicates(["k", "t"])
        feed.run(kept.drop(first["v"], stream["t"]).select("o.s0", "v_2"))
    assert feed.results[0] == [(2, 1)]


@pytest.mark.parametrize(
    ("in_jvm", "in_python"),
    [
        (["an alias, and other names", "a range join"], ["the last of a chain"]),
        pytest.param([], ["an alias, and other names", "a range join"], marks=LONG),
    ],
    ids=["few", "all"],
)
def test_those_to_the_table_hold_as_after_sparks_own_join(
    spark: SparkSession, tmp_path: Path, in_jvm: list[str], in_python: list[str]
) -> None:
    """With all uses over both runtimes, where a join has both; the JVM has all if none is named."""
    known = dict[Any, Any]()
    ways = ("jvm", "keys", in_jvm), ("python", "rows", in_python)
    for first, (runtime, transfer, names) in enumerate(ways):
        own = {"spark.bsjoin.runtime": runtime, "spark.bsjoin.python.transfer": transfer}
        with configured(spark, own):
            # Workers that are sent rows differ in what comes back from them.
            kinds = table_kinds(spark, tmp_path, *names)
            found = table_differences(kinds, known, renamed_are_refused=False, first=first)
            assert found == [], transfer


def test_what_a_result_does_not_have_cannot_be_referred_to(spark: SparkSession) -> None:
    """The table's key is the stream's; a column that is left out, or dropped, is not there."""
    stream, table = spark.range(3).toDF("k"), table_of(spark, 1).alias("c")
    joined = bsjoin.join(stream, table, "k")
    left_out = bsjoin.join(stream, table, "k", select=[])
    for result, column in ((joined, "k"), (joined.drop(table["v"]), "v"), (left_out, "v")):
        with pytest.raises(AnalysisException):
            result.select(table[column])
        assert result.drop(table[column]).columns == result.columns
    itself = bsjoin.join(table.select("k", "v"), table, "k", how="left")
    assert itself.select(table["v"], "c.v_batch").columns == ["v", "v_batch"]
    assert itself.drop(table["v"]).columns == ["k", "v_batch"]


@pytest.mark.long
def test_one_to_the_table_has_the_values_of_each_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Or it is an error, where the type of the DataFrame's column excludes them."""

    def version(value: str) -> DataFrame:
        return spark.range(3).selectExpr(
            "id AS k", f"{value} AS v", f"array({value}) AS a", f"map(id, {value}) AS m",
            f"struct({value} AS x) AS s", f"array(struct(array({value}) AS x)) AS d",
        )  # fmt: skip

    df, path = version("id"), tmp_path / "table"
    table = BatchTable.build(df, on="k", path=path)
    for runtime, later, names in (
        ("jvm", "the same", df.columns[1:]),
        ("jvm", "with nulls", ["v"]),
        ("python", "other types", []),
    ):
        if later == "with nulls":
            table.refresh(version("if(id = 1, null, id)"))
        elif later == "other types":
            BatchTable.build(version("concat('n', id)"), on="k", path=path)
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            joined = table.join(spark.range(4).toDF("k"), how="left")
            held, wanted = dict[str, DataFrame](), dict[str, DataFrame]()
            for name in df.columns[1:]:
                use = F.explode_outer if name in "amd" else F.coalesce
                with suppress(AnalysisException):
                    held[name] = joined.select("k", use(df[name]))
                    wanted[name] = joined.select("k", use(F.col(name)))
            if held:
                assert values_of(held) == values_of(wanted)
        assert [*held] == names, later


@pytest.mark.long
def test_those_to_the_table_hold_in_streams(spark: SparkSession, tmp_path: Path) -> None:
    """In a plan of its own, in ``foreachBatch`` and in a cycle there."""
    table = table_of(spark, 1).selectExpr("k", "v", "v + 1 AS w").alias("c")
    stored = BatchTable.build(table, on="k")
    seen = dict[str, list[Any]]()

    def used(joined: DataFrame) -> DataFrame:
        return joined.where(table["v"] > 0).sort(table["w"]).drop(table["v"])

    def keep(name: str, joined: DataFrame) -> None:
        seen[name] = rows(used(joined))

    steered = bsjoin.cycles(table, on="k", sink=lambda df, _: keep("a cycle", df))

    def function(df: DataFrame, number: int) -> None:
        keep("a batch", bsjoin.join(df, table, "k"))
        keep("a stored table", stored.join(df))
        steered(df, number)

    feed = Feed(spark, tmp_path)
    feed.add(1, 2, 9)
    whole = stored.join(feed.stream).where(table["v"] > 0).drop(table["v"])
    for name, stream, use in (
        ("in a function", feed.stream, function),
        ("a stream", whole, lambda df, _: seen.update({"a stream": rows(df)})),
    ):
        query = stream.writeStream.foreachBatch(use).trigger(availableNow=True)
        checkpoint = str(tmp_path / name)
        query.option("checkpointLocation", checkpoint).start().awaitTermination()
    names = ("a batch", "a stored table", "a cycle", "a stream")
    assert seen == {name: [(1, 2), (2, 2)] for name in names}
