"""Tables of Delta and Iceberg as they were, and what their logs tell of changes."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.spark.leaves import CatalogTable, DeltaTable, Leaf, is_iceberg, leaves_of
from bsjoin.spark.sql import quoted

__all__ = ["CHANGE", "COMMIT", "NO_SNAPSHOT", "changes_between", "committed_at_us", "table_at"]

CHANGE, COMMIT = "_change_type", "_commit_version"
"""The columns that a feed has beside those of its table."""

NO_SNAPSHOT = "none"
"""The version of a table of Iceberg that nothing was committed to."""

_FEED = "delta.enableChangeDataFeed"
# A rewrite of data files changes no rows.
_WITHOUT_CHANGES, _APPEND = "replace", "append"
_MOST_SNAPSHOTS = 10_000


def table_at(spark: SparkSession, leaf: Leaf, version: str) -> DataFrame | None:
    """A table as of a version; None where that cannot be asked for."""
    if isinstance(leaf, DeltaTable):
        reader = spark.read.format("delta").option("versionAsOf", version)
        return reader.load(_path(leaf))
    if isinstance(leaf, CatalogTable) and version != NO_SNAPSHOT and is_iceberg(leaf.node.table()):
        return spark.read.format("iceberg").option("versionAsOf", version).load(_name(leaf))
    return None


def committed_at_us(spark: SparkSession, leaf: Leaf, version: str) -> int | None:
    """When a version of Delta was committed; None for others, whose versions are never repeated."""
    if not isinstance(leaf, DeltaTable):
        return None
    found = table_at(spark, leaf, version)
    assert found is not None
    pinned = leaves_of(found)[0]
    assert isinstance(pinned, DeltaTable)
    return int(pinned.index.getSnapshot().timestamp()) * 1000


def changes_between(spark: SparkSession, leaf: Leaf, since: str, until: str) -> DataFrame | None:
    """The changes after a version, up to another one, with :data:`CHANGE` and :data:`COMMIT`.

    Returns:
        None where the table does not tell them.
    """
    if isinstance(leaf, DeltaTable):
        return _of_delta(spark, leaf, since, until)
    if isinstance(leaf, CatalogTable) and is_iceberg(leaf.node.table()):
        return _of_iceberg(spark, leaf, since, until)
    return None


def _of_delta(spark: SparkSession, leaf: DeltaTable, since: str, until: str) -> DataFrame | None:
    settings = leaf.index.getSnapshot().metadata().configuration()
    is_told = settings.contains(_FEED) and settings.apply(_FEED).lower() == "true"
    if not is_told or not int(since) < int(until):
        return None
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", int(since) + 1).option("endingVersion", int(until))
    return reader.load(_path(leaf))


def _of_iceberg(
    spark: SparkSession, leaf: CatalogTable, since: str, until: str
) -> DataFrame | None:
    """What was appended; a scan of what was appended is silent about all other changes."""
    if NO_SNAPSHOT in (since, until):
        return None
    table = leaf.newest().table()
    snapshot = table.snapshot(int(until))
    for _ in range(_MOST_SNAPSHOTS):
        if snapshot is None or snapshot.operation() not in (_APPEND, _WITHOUT_CHANGES):
            return None
        parent = snapshot.parentId()
        if parent is None:
            return None
        if str(parent) == since:
            break
        snapshot = table.snapshot(parent)
    else:
        return None
    reader = spark.read.format("iceberg").option("start-snapshot-id", since)
    rows = reader.option("end-snapshot-id", until).load(_name(leaf))
    return rows.withColumns({CHANGE: F.lit("insert"), COMMIT: F.lit(0)})


def _path(leaf: DeltaTable) -> str:
    return str(leaf.index.deltaLog().dataPath().toString())


def _name(leaf: CatalogTable) -> str:
    """The table's name in its catalogue, or its path."""
    identifier = leaf.node.identifier().get()
    if identifier.getClass().getSimpleName() == "PathIdentifier":
        return str(identifier.location())
    parts = [leaf.node.catalog().get().name(), *identifier.namespace(), identifier.name()]
    return ".".join(map(quoted, parts))
