"""Joins in Python workers that follow each other are one stage; both transfers are the same."""

from __future__ import annotations

import logging
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles

import bsjoin
from bsjoin import BatchTable, Incremental
from bsjoin.errors import ArgumentError
from bsjoin.plan import SourceTable
from bsjoin.planner.chain import joins_of
from bsjoin.spark.workers import recommend_sockets

pytestmark = pytest.mark.usefixtures("in_python")

CACHE = Incremental(max_rows=1_000)


def stages(df: DataFrame) -> int:
    """How often the plan calls Python workers."""
    plan = str(df._jdf.queryExecution().optimizedPlan().toString())
    return plan.count("MapInArrow") + plan.count("ArrowEvalPython")


@pytest.fixture
def names(tmp_path: Path) -> Model:
    """Names 0 to 19, each with the number of another one; the key 3 twice, 4 not at all."""
    numbers = [n for n in [*range(20), 3] if n != 4]
    columns = {
        "id": pa.array(numbers, pa.int32()),
        "name": [f"name {n}" * n if n % 7 else None for n in numbers],
        "other": pa.array([(n * 3) % 23 for n in numbers], pa.decimal128(20, 2)),
        "at": [n * 60 for n in numbers],
    }
    return Model(tmp_path / "names", pa.table(columns))


def test_columns_keep_their_metadata_and_nullability(spark: SparkSession) -> None:
    column = F.col("id").alias("id", metadata={"unit": "m"})
    stream = spark.range(3).select(column, F.struct("id").alias("s"), F.lit("x").alias("twice"))
    stream = stream.select("*", F.lit(None).cast("string").alias("twice"))
    table = spark.range(3).select("id", F.col("id").alias("v", metadata={"of": "the table"}))
    for transfer in ("keys", "rows"):
        with configured(spark, {"spark.bsjoin.python.transfer": transfer}):
            first = bsjoin.join(stream, table, "id")
            second = bsjoin.join(first, table, "id", how="left", suffix="_2")
        assert second.schema.fields[:4] == stream.schema.fields
        assert second.schema["v"] == table.schema["v"]
        assert second.schema["v_2"].metadata == {"of": "the table"}
        assert second.schema["v_2"].nullable
        found = sorted((row[0], row[1][0], row[2], row[3], row[4]) for row in second.collect())
        assert found == [(n, n, "x", None, n) for n in range(3)], transfer


@pytest.mark.long
def test_figures_of_a_chain_of_which_nothing_is_left(
    spark: SparkSession, names: Model, feed: Feed
) -> None:
    """The first join has hits; no row of the micro-batch comes out."""
    for keys in ([3, 3, 5], [99], [7]):
        feed.add(*keys)
    # Columns that are never null, of which a row of figures has values, too.
    nobody = spark.range(1).selectExpr(
        "-1L AS other", "'text' AS t", "array(named_struct('x', 1, 'y', 'z')) AS l",
        "map('a', 1.5BD) AS m", "DATE'2026-01-01' AS d", "named_struct('b', X'00') AS b",
        "true AS yes", "TIMESTAMP'2026-01-01' AS now", "INTERVAL '1' DAY AS i", "1.5BD AS n",
    )  # fmt: skip
    first = bsjoin.join(feed.stream, names, {"k": "id"}, cache=CACHE, select=["other"])
    found = cycles(feed.run(bsjoin.join(first, nobody, "other")))
    assert [rows for rows in feed.results.values() if rows] == []
    by_join = [(c.batch_id, c.rows_in, c.hits, c.matches, c.rows_out, c.mode) for c in found]
    assert by_join == [
        (0, 3, 3, 5, 5, "incremental"),
        (0, 5, 0, 0, 0, "full"),
        (1, 1, 0, 0, 0, "incremental"),
        (2, 1, 1, 1, 1, "incremental"),
        (2, 1, 0, 0, 0, "full"),
    ]
    assert (found[0].cache.misses, found[0].cache.keys_queried) == (3, 2)
    assert found[1].table_version == 1


def test_a_stage_is_explained(
    spark: SparkSession, names: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    table = BatchTable.build(spark.range(3).selectExpr("id", "id AS v"), on="id")

    def explained(df: DataFrame) -> list[str]:
        bsjoin.explain(df)
        return [
            line.strip().split(", partitioned")[0]
            for line in capsys.readouterr().out.splitlines()[1::3]
        ]

    rows, keys = "Python workers receive whole rows", "Python workers receive keys"
    with_text = spark.range(3).selectExpr("id", *(f"'{n}' AS t{n}" for n in range(5)))
    first = table.join(with_text)
    assert explained(first) == [keys]
    second = bsjoin.join(first, names, cache=CACHE, on={"v": "id"}, select=["name"])
    assert explained(second) == [rows, f"{rows}, in the stage of the join before"]
    wide = with_text.select("*", *(F.lit(n).alias(f"n{n}") for n in range(70)))
    apart = table.join(table.join(wide), suffix="_2")
    assert explained(apart) == [keys, f"{keys}, in a stage of their own: the rows are wide"]
    third = table.join(second, suffix="_3", partition=bsjoin.Hash(2))
    assert explained(third)[2].endswith("of their own: its rows are sent to partitions first")
    for setting, value in (("chains", "false"), ("transfer", "keys")):
        with configured(spark, {f"spark.bsjoin.python.{setting}": value}):
            third = table.join(second, suffix="_3")
        told = explained(third)[2]
        assert told.endswith(f"of their own: spark.bsjoin.python.{setting} is {value}")
    assert told.startswith(keys)


def test_a_stage_behind_the_jvm(spark: SparkSession, names: Model) -> None:
    """What the JVM can run stays below; two incremental joins above are one stage."""
    table = spark.range(30).selectExpr("id", "id + 1 AS v")
    with configured(spark, {"spark.bsjoin.runtime": "auto"}):
        df = bsjoin.join(spark.range(10), table, "id")
        for number in range(2):
            df = bsjoin.join(
                df, names, {"v": "id"}, cache=CACHE, select=["name"], suffix=f"_{number}"
            )
    assert stages(df) == 1
    kinds = [isinstance(step.planned.plan.table, SourceTable) for step in joins_of(df)]
    assert kinds == [False, True, True]
    assert df.count() == 12  # 1 to 10, of which 4 is missing and 3 there twice: four for it


def test_rows_that_cannot_travel_send_their_keys(spark: SparkSession) -> None:
    odd = ["parse_json('{\"a\": 1}') AS variant", "NULL AS nothing", "INTERVAL '1' MONTH AS month"]
    stream = spark.range(3).selectExpr("id", *odd)
    table = BatchTable.build(spark.range(2).selectExpr("id", "id * 2 AS v"), on="id")
    parts = []
    with configured(spark, {"spark.bsjoin.python.transfer": "rows"}):
        for name in stream.columns[1:]:
            df = table.join(stream.select("id", name))
            df = table.join(df, {"v": "id"}, how="left", suffix="_2")
            assert df.schema[name] == stream.schema[name]
            parts.append(df.select(F.lit(name), "id", "v", "v_2"))
        found = {tuple(row) for row in reduce(DataFrame.union, parts).collect()}
    wanted = ((0, 0, 0), (1, 2, None))
    assert found == {(name, *row) for name in stream.columns[1:] for row in wanted}


def test_unknown_settings_are_refused(spark: SparkSession) -> None:
    for setting, value in (("transfer", "row"), ("chains", "no")):
        with (
            configured(spark, {f"spark.bsjoin.python.{setting}": value}),
            pytest.raises(ArgumentError, match=rf"python\.{setting}='{value}' is not known"),
        ):
            bsjoin.join(spark.range(1), spark.range(1), "id")


def test_sockets_are_recommended_once_where_nobody_has_decided(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Session:
        """What the recommendation reads of a session."""

        def __init__(self, **settings: str) -> None:
            self.conf, self.sparkContext = settings, type("Context", (), {})()

    setting = "spark.python.unix.domain.socket.enabled"
    undecided: Any = Session()
    with caplog.at_level(logging.WARNING, "bsjoin"):
        for value in ("true", "false"):
            decided: Any = Session(**{setting: value})
            recommend_sockets(decided)
        assert not caplog.records
        recommend_sockets(undecided)
        recommend_sockets(undecided)
    (record,) = caplog.records
    assert f"{setting}=true" in record.message
