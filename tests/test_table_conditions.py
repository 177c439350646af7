"""A table for range joins knows the condition that it was built with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import change
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Within
from bsjoin.conditions import condition_to_json
from bsjoin.errors import ColumnError, TableMismatchError, TableNotFoundError

pytestmark = pytest.mark.usefixtures("without_code")


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> DataFrame:
    return spark.range(10).selectExpr("id % 2 AS k", "id AS q", "id + 3 AS y", "id AS v")


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT * FROM VALUES (0L, 4L, 5L), (1L, 9L, null) AS t(k, p, x)")


@pytest.mark.parametrize("on", ["k", pytest.param([], marks=pytest.mark.long)])
def test_a_table_is_joined_as_it_was_built(
    stream: DataFrame, batch: DataFrame, tmp_path: Path, on: Any
) -> None:
    when = Band("p", "q", 2, 1)
    wanted = rows(bsjoin.join(stream, batch, on, when=when))
    built = BatchTable.build(batch, on=on, when=when, path=tmp_path / "t")
    opened = BatchTable.open(tmp_path / "t")
    for table in (built, opened):
        assert rows(table.join(stream)) == wanted
        assert rows(bsjoin.join(stream, table)) == wanted
    assert rows(opened.join(stream, how="anti")) == []
    # Other widths, and other names of the stream's columns, may still be given.
    renamed = stream.withColumnRenamed("p", "other")
    narrow = opened.join(renamed, on, when=Band("other", "q", 0, 0), select=["v"])
    assert sorted(row["v"] for row in narrow.collect()) == [4, 9]
    with pytest.raises(ColumnError) as error:
        opened.join(renamed)
    for part in ("has no column 'p'", repr(when), "Give when=..."):
        assert part in str(error.value)


def test_the_condition_follows_the_last_build(
    stream: DataFrame, batch: DataFrame, tmp_path: Path
) -> None:
    def told(table: BatchTable) -> list[int]:
        return sorted(row["v"] for row in table.join(stream, select=["v"]).collect())

    path = tmp_path / "t"
    table = BatchTable.build(batch, on=[], when=AsOf("p", "q"), path=path, fingerprint="1")
    assert told(table) == [4, 9]
    for no_keys in ([], {}, ()):
        assert table.join(stream, no_keys).columns == table.join(stream).columns
    before = sorted((path / "data").rglob("*"))
    wider = Band("p", "q", 1, 0)
    for fingerprint in ("1", "2"):  # the rows are known, or turn out, to be the same
        table = BatchTable.build(batch, on=[], when=wider, path=path, fingerprint=fingerprint)
        assert told(table) == [3, 4, 8, 9]
        assert table.version == 2
    assert sorted((path / "data").rglob("*")) == before
    # One join's widths are its own.
    asked = bsjoin.join(
        stream, batch, [], when=AsOf("p", "q"), cache=Full(store=path, fingerprint="3")
    )
    assert asked.count() == 2
    assert BatchTable.open(path).version == 2
    assert table.refresh(batch.where("q < 9")) == 3
    assert told(BatchTable.open(path)) == [3, 4, 8]
    assert table.vacuum(older_than=0) == [1, 2]
    assert told(table) == [3, 4, 8]


def test_a_table_that_does_not_know_its_condition(
    stream: DataFrame, batch: DataFrame, tmp_path: Path
) -> None:
    when = Within("p", "q", "y")
    table = BatchTable.build(batch, on="k", when=when, path=tmp_path)
    change(tmp_path, lambda data: data.pop("condition"))
    with pytest.raises(TableMismatchError, match="an earlier bsjoin wrote it: give when"):
        table.join(stream)
    assert table.join(stream, when=when).count() == 4
    known = condition_to_json(when)["Within"]
    change(tmp_path, lambda data: data.update(condition={"Within": known | {"closed": "ajar"}}))
    with pytest.raises(TableNotFoundError, match="'ajar'"):
        table.join(stream)
    # A condition of other columns than the table is sorted by is not used.
    other = condition_to_json(replace(when, end_col="v"))
    change(tmp_path, lambda data: data.update(condition=other))
    with pytest.raises(TableMismatchError, match="cannot be joined"):
        table.join(stream)
