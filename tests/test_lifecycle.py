"""A stored table's life: built, opened, joined, refreshed, verified, vacuumed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import spark_samples
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import files, rows

import bsjoin
from bsjoin import BatchTable
from bsjoin.build import job
from bsjoin.errors import ArgumentError
from bsjoin.runtimes.python.driver import keys_only

pytestmark = pytest.mark.usefixtures("without_code")

table_of = functools.partial(spark_samples.table_of, keys=5)


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.range(3, 7).withColumnRenamed("id", "k")


def test_a_table_is_built_opened_joined_refreshed_and_vacuumed(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    begun = datetime.now(UTC)
    built = BatchTable.build(table_of(spark, 1), on="k", path=tmp_path / "t")
    table = BatchTable.open(str(tmp_path / "t"))
    assert table.path == built.path == str(tmp_path / "t")
    assert (table.keys, table.columns, table.version) == (["k"], ["k", "v"], 1)
    assert repr(table) == f"BatchTable({table.path!r}, on=['k'], version=1)"
    first = table.join(stream, how="left")
    assert rows(first) == [(3, 1), (4, 1), (5, None), (6, None)]

    assert table.refresh(table_of(spark, 2, keys=7)) == 2
    assert built.version == table.version == 2
    # A batch result keeps the version it was planned with; a new one has the newest.
    assert rows(first) == [(3, 1), (4, 1), (5, None), (6, None)]
    assert (
        rows(table.join(stream))
        == rows(bsjoin.join(stream, table))
        == [(k, 2) for k in (3, 4, 5, 6)]
    )
    listed = table.versions()
    assert [(version.number, version.rows) for version in listed] == [(1, 5), (2, 7)]
    assert begun <= listed[0].created_at <= listed[1].created_at <= datetime.now(UTC)
    assert sum(version.bytes for version in listed) == sum(
        file.stat().st_size for file in files(tmp_path / "t" / "data")
    )
    table.verify()

    assert table.vacuum() == []  # version 1 was in use a moment ago
    assert table.vacuum(keep=2, older_than=0) == []
    with pytest.raises(ArgumentError, match="keep=0: the newest version always stays"):
        table.vacuum(keep=0)
    assert table.vacuum(older_than=timedelta(0)) == [1]
    assert [version.number for version in table.versions()] == [2]
    assert len({file.parent for file in files(tmp_path / "t" / "data")}) == 1
    table.verify()


def test_stats_are_those_of_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(10).selectExpr("nullif(id % 4, 3) AS k", "id AS v")
    table = BatchTable.build(df, on="k", path=tmp_path / "t")
    stats = table.stats()
    # Keys 0, 0, 0, 1, 1, 1, 2, 2; rows with a null key match nothing and are stored apart.
    assert (stats.rows, stats.keys, stats.longest_run, stats.version) == (8, 3, 3, 1)
    assert (stats.unindexed, stats.segments) == (2, 1)
    assert stats.bytes == sum(file.stat().st_size for file in files(tmp_path / "t" / "data"))
    assert 0 < stats.build_s < 300
    # The same rows make no version, nor does the order of the columns or the case of their names.
    before = files(tmp_path / "t" / "data"), files(tmp_path / "t" / "versions")
    assert table.refresh(df.select(F.col("v").alias("V"), "k")) == 1
    assert (files(tmp_path / "t" / "data"), files(tmp_path / "t" / "versions")) == before


def test_what_is_shipped_to_workers_is_small_and_holds_no_session(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped: list[Callable[..., Any]] = []
    arrow_udf, writer = keys_only.arrow_udf, job.run_writer

    def seen_udf(function: Callable[..., Any], returned: object) -> object:
        shipped.append(function)
        return arrow_udf(function, returned)

    def seen_writer(*arguments: Any) -> Callable[..., Any]:
        shipped.append(writer(*arguments))
        return shipped[-1]

    monkeypatch.setattr(keys_only, "arrow_udf", seen_udf)
    monkeypatch.setattr(job, "run_writer", seen_writer)
    many = table_of(spark, 1).withColumn("v", F.explode(F.sequence(F.lit(1), F.lit(70))))
    table = BatchTable.build(many, on="k", path=tmp_path / "t")
    python = {"spark.bsjoin.runtime": "python", "spark.bsjoin.python.transfer": "keys"}
    with configured(spark, python):
        table.join(stream)
        table.join(spark.readStream.format("rate").load(), {"value": "k"})
    assert {function.__name__ for function in shipped} >= {"write", "bsjoin_lookup"}
    for function in shipped:
        assert len(CloudPickleSerializer().dumps(function)) < 5_000
        held = inspect.getclosurevars(function).nonlocals.values()
        modules = {type(value).__module__.split(".")[0] for value in held}
        assert modules <= {"builtins", "bsjoin", "pyarrow"}
