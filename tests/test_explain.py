"""A result remembers the joins that made it, and ``explain`` prints how they run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

import bsjoin
from bsjoin import Band, BatchTable, Incremental
from bsjoin.errors import ArgumentError
from bsjoin.planner.chain import joins_of


def test_a_chain_is_known_from_its_first_join_to_its_last(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = spark.range(3).selectExpr("id AS k", "id AS p")
    names = spark.createDataFrame([(1, "one")], "k long, name string")
    times = BatchTable.build(
        spark.createDataFrame([(1, 5)], "k long, at long"),
        on="k",
        when=Band("p", "at", before=1, after=1),
        path=tmp_path / "times",
    )
    source = Model(tmp_path / "model", pa.table({"id": [1], "v": ["x"]}))
    first = bsjoin.join(stream, names, "k", how="left")
    second = times.join(first)
    third = bsjoin.join(
        second, source, {"k": "id"}, how="semi", cache=Incremental(max_rows=5),
        partition=bsjoin.Hash(2),
    )  # fmt: skip
    steps = joins_of(third)
    assert [step.planned.plan.how for step in steps] == ["left", "inner", "semi"]
    assert [step.planned.stream for step in steps] == [stream, first, second]
    assert joins_of(stream) == []
    assert joins_of(stream.withColumnRenamed("k", "_bsjoin_step")) == []
    bsjoin.explain(third)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 7
    assert printed[0].startswith("(1) left join on k = k: full cache, version 1 of ")
    assert printed[1] == "    Spark's generated code looks keys up, partitioned: none; brings name"
    band = "Band(stream_col='p', batch_col='at', before=1, after=1, closed='both')"
    assert f"k = k and {band}: full cache, version 1 of" in printed[2]
    assert printed[3].startswith(
        "    Spark's generated code searches ranges, in the pass of the join "
    )
    assert printed[4] == f"(3) semi join on k = id: incremental cache of {source!r}"
    assert printed[5:] == [
        "    Python workers receive keys, partitioned: hash; brings no column",
        "    not in the JVM: the cache is incremental",
    ]


def made_of(spark: SparkSession, joined: DataFrame) -> dict[str, DataFrame]:
    """All kinds of DataFrames that are made of the result of a join."""
    other = spark.range(3).withColumnRenamed("id", "k")
    joined.createOrReplaceTempView("explained")
    return {
        "where": joined.where("k > 0"),
        "select": joined.select("k"),
        "withColumn": joined.withColumn("n", F.col("k") + 1).drop("v"),
        "groupBy": joined.groupBy("k").count(),
        "union": other.union(joined.select("k")),
        "left of a join": joined.join(other, "k"),
        "right of a join": other.join(joined.where("k > 0"), "k").select("v"),
        "with itself": joined.join(joined.alias("other"), "k"),
        "view": spark.table("explained").limit(2),
        "SQL": spark.sql("WITH t AS (SELECT * FROM explained) SELECT max(k) FROM t"),
        "cached": joined.cache(),
        "sorted": joined.repartition(2).sortWithinPartitions("k").dropDuplicates(["k"]),
        "foreachBatch's": joined.observe("name", F.count(F.lit(1)).alias("n")),
    }


@pytest.mark.usefixtures("runtime", "without_code")
@pytest.mark.in_turns("runtime")
def test_the_joins_that_a_dataframe_is_made_of(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    table = spark.range(3).selectExpr("id AS k", "id AS v")
    joined = bsjoin.join(spark.range(2).withColumnRenamed("id", "k"), table)
    bsjoin.explain(joined)
    wanted = capsys.readouterr().out
    for kind, df in made_of(spark, joined).items():
        bsjoin.explain(df)
        assert capsys.readouterr().out == wanted, kind
    joined.unpersist(blocking=True)
    again = BatchTable.build(table.where("v = 1"), on="k").join(joined.where("v > 0"), suffix="2")
    bsjoin.explain(again.select("k").union(joined.select("k")))
    printed = capsys.readouterr().out
    spark.catalog.dropTempView("explained")
    assert printed.startswith(wanted)
    assert printed.count(" join on k = k: full cache") == 2


def test_what_is_made_of_no_join_is_refused(spark: SparkSession) -> None:
    joined = bsjoin.join(spark.range(1), spark.range(1), "id")
    hidden = spark.createDataFrame(joined.collect(), "id long")
    for df in (spark.range(1), hidden):
        with pytest.raises(ArgumentError, match=r"\['id'\], shows no join of bsjoin"):
            bsjoin.explain(df)
    for thing in (None, joined.columns, joined["id"], "joined"):
        with pytest.raises(ArgumentError, match=type(thing).__name__):
            bsjoin.explain(thing)  # type: ignore[arg-type]


def test_it_says_why_not_in_the_jvm(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Model(tmp_path / "model", pa.table({"id": [1], "v": ["x"]}))
    rate, batch = spark.readStream.format("rate").load(), spark.range(2).toDF("value")
    table = BatchTable.build(batch, on="value")

    def said(setting: str, stream: DataFrame, is_cached: bool) -> str:
        with configured(spark, {"spark.bsjoin.runtime": setting}):
            if is_cached:
                cache = Incremental(max_rows=5)
                joined = bsjoin.join(stream, source, {"value": "id"}, cache=cache)
            else:
                joined = table.join(stream)
            bsjoin.explain(joined)
        return capsys.readouterr().out

    incremental = "    not in the JVM: the cache is incremental\n"
    assert said("auto", batch, True).endswith(incremental)
    assert "although spark.bsjoin.runtime=jvm asks for it: the cache" in said("jvm", batch, True)
    assert said("python", batch, False).endswith("JVM: spark.bsjoin.runtime is python\n")
    started = said("jvm-only", rate, False)  # before it starts
    assert "not in the JVM" not in started
    assert "full cache, newest version of" in started
    with pytest.raises(ArgumentError, match="runtime=jvm-only: the JVM cannot run this, because "):
        said("jvm-only", rate, True)
    nested = BatchTable.build(batch.selectExpr("value", "array(value) AS list"), on="value")
    with configured(spark, {"spark.bsjoin.runtime": "jvm-only"}):
        with pytest.raises(
            ArgumentError, match=r"because the column 'list' of type .* is not read"
        ):
            nested.join(rate)
        nested.join(rate, select=[])
