"""Lakes as sinks without Spark's jars: what the page on lakes says of ``foreachBatch``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from source_stands import Iceberg
from spark_samples import Feed, table_of

from bsjoin import BatchTable

pytestmark = [
    pytest.mark.usefixtures("interpreted"),
    # pyiceberg, of a batch that runs for the first time
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
]


def test_a_batch_that_runs_again_replaces_its_rows(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    catalog = load_catalog(**Iceberg(tmp_path).properties)
    catalog.create_namespace("shop")
    columns = [("k", pa.int64()), ("v", pa.int32()), ("batch", pa.int32())]
    table = catalog.create_table("shop.enriched", pa.schema(columns))
    names = BatchTable.build(table_of(spark, 1), on="k", path=tmp_path / "names")

    def write(rows: DataFrame, number: int) -> None:
        table.overwrite(
            rows.withColumn("batch", F.lit(number)).toArrow(), overwrite_filter=f"batch = {number}"
        )

    def run() -> list[tuple[Any, ...]]:
        writer = names.join(feed.stream, how="left").writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(feed.checkpoint)).start()
        query.processAllAvailable()
        query.stop()
        return sorted(tuple(row.values()) for row in table.refresh().scan().to_arrow().to_pylist())

    feed.add(0, 1, 99)
    first = [(0, 1, 0), (1, 1, 0), (99, None, 0)]
    assert run() == first
    assert feed.forget_last_commit() == 0
    names.refresh(table_of(spark, 2))
    feed.add(2)
    assert run() == sorted([*first, (2, 2, 1)])
