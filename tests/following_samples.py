"""Tables that follow their sources, as the tests look at them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows

from bsjoin import BatchTable, Full
from bsjoin.following.dataframe import followed_of
from bsjoin.following.looks import Following
from bsjoin.following.source import FollowedTable, followed_table
from bsjoin.metrics.refreshes import RefreshProgress, of_table
from bsjoin.sources.protocol import Source


def followed(
    spark: SparkSession, source: Source, store: Path, columns: list[str], **options: Any
) -> tuple[FollowedTable, BatchTable, Following]:
    """A source that a stored table follows, as a join with a cache of its rows makes it."""
    found = followed_table(spark, source, columns)
    full = Full(refresh="on_commit", store=store, **options)
    table = BatchTable._ensure(
        found.at(found.version()), ["k"], found.columns, full, private=False, followed=found
    )
    return found, table, table._following(found, full)


def check_rows(table: BatchTable, source: Source, columns: list[str]) -> None:
    """The stored rows are those of a source, as its scan returns them in this process."""
    there = table.to_df().select(columns).toArrow()
    now = pa.Table.from_batches(source.scan(columns))
    assert sorted(map(repr, there.to_pylist())) == sorted(map(repr, now.to_pylist()))


def following(table: BatchTable, df: DataFrame, **options: Any) -> Following:
    """Looks that a table takes at a DataFrame."""
    given = replace(table._options, refresh="on_commit", **options)
    return table._following(followed_of(df, given.version), given)


def figures(table: BatchTable) -> RefreshProgress:
    """What is known of its refreshes."""
    return of_table(table._location.url)


def stored(table: BatchTable) -> list[tuple[Any, ...]]:
    """Its rows."""
    return rows(table.to_df())
