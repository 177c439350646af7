"""A stream of a lake that is joined with a table of one goes into a lake, each row once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lake_samples import Lake, quick
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows

from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("interpreted")


@quick("iceberg")
def test_a_micro_batch_that_runs_again_is_in_the_sink_once(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    customers = lake.create("SELECT id AS k, concat('v', id) AS v FROM range(4)")
    orders = Lake(spark, lake.format).create("SELECT id, id % 6 AS k FROM range(12)")
    sink = Lake(spark, lake.format).create("SELECT 0L AS id, 0L AS k, '' AS v WHERE 1 = 0")
    table = BatchTable.build(customers.read(), on="k", path=tmp_path / "table")

    def own(some: str) -> list[tuple[Any, ...]]:
        """The rows of Spark's own join as the table is now."""
        joined = orders.read().where(some).join(customers.read(), "k", "left")
        return rows(joined.select("id", "k", "v"))

    def run() -> list[tuple[Any, ...]]:
        joined: DataFrame = table.join(spark.readStream.table(orders.name), how="left")
        writer = joined.select("id", "k", "v").writeStream.format(lake.format)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).toTable(sink.name).awaitTermination()
        sink.version()
        return rows(sink.read())

    first = own("true")
    assert run() == first
    assert len(first) == 12
    # A crash after the rows were written, before that was noted; and the table has changed since.
    for note in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        note.unlink()
    customers.commit("UPDATE {t} SET v = concat(v, ' changed')")
    table.refresh(customers.read())
    assert run() == first
    orders.commit("INSERT INTO {t} VALUES (100, 1), (101, 99), (102, null)")
    assert run() == first + own("id >= 100")
