"""A result remembers the joins that made it, and ``explain`` prints how they run."""

from __future__ import annotations

import inspect
from pathlib import Path

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import SparkSession

import bsjoin
from bsjoin import Band, BatchTable, Incremental
from bsjoin._spark.chain import joins_of
from bsjoin.errors import ArgumentError


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
    assert [step.stream for step in steps] == [stream, first, second]
    assert joins_of(stream) == [] == joins_of(third.select("k"))
    assert joins_of(stream.withColumnRenamed("k", "_bsjoin_step")) == []
    bsjoin.explain(third)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6
    assert printed[0].startswith("(1) left join on k = k: full cache, version 1 of ")
    assert printed[1] == "    Spark's generated code looks keys up, partitioned: none; brings name"
    assert f"k = k and {times_condition()}: full cache, version 1 of" in printed[2]
    assert printed[3].startswith(
        "    Spark's generated code searches ranges, in the pass of the join "
    )
    assert printed[4] == f"(3) semi join on k = id: incremental cache of {source!r}"
    assert printed[5] == "    Python workers receive keys, partitioned: hash; brings no column"


def times_condition() -> str:
    return "Band(stream_col='p', batch_col='at', before=1, after=1, closed='both')"


def test_a_stream_is_explained_before_it_starts(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = spark.readStream.format("rate").load()
    table = spark.range(1).withColumnRenamed("id", "value")
    bsjoin.explain(bsjoin.join(stream, table, cache=bsjoin.Full(refresh="1 hour")))
    assert "full cache, newest version of" in capsys.readouterr().out


def test_what_is_derived_from_a_result_is_refused(spark: SparkSession) -> None:
    joined = bsjoin.join(spark.range(1), spark.range(1), "id")
    with pytest.raises(ArgumentError, match="not the direct result of"):
        bsjoin.explain(joined.where("id > 0"))


def test_the_three_entry_points_take_the_same_arguments() -> None:
    call = {"on", "when", "how", "partition", "select", "suffix"}
    for function in (bsjoin.join, BatchTable.join, bsjoin.cycles):
        assert call <= set(inspect.signature(function).parameters)
