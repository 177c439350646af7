"""Tables that follow their sources, as the tests look at them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from spark_samples import rows

from bsjoin import BatchTable
from bsjoin.following.dataframe import followed_of
from bsjoin.following.looks import Following
from bsjoin.metrics.refreshes import RefreshProgress, of_table

__all__ = ["figures", "following", "stored"]


def following(table: BatchTable, df: DataFrame, **options: Any) -> Following:
    """Looks that a table takes at a DataFrame."""
    given = replace(table._options, refresh="on_commit", **options)
    return table._following(followed_of(df, given.version), given)


def figures(table: BatchTable) -> RefreshProgress:
    """What is known of its refreshes."""
    found = of_table(table._location.url)
    assert found is not None
    return found


def stored(table: BatchTable) -> list[tuple[Any, ...]]:
    """Its rows."""
    return rows(table.to_df())
