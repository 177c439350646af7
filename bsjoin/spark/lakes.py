"""Tables of Delta and Iceberg as they were, and what their logs tell of changes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.errors import SourceError
from bsjoin.spark import compat
from bsjoin.spark.leaves import CatalogTable, DeltaTable, Leaf, is_iceberg, leaves_of
from bsjoin.spark.sql import quoted

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


def delta_at(spark: SparkSession, leaf: Leaf, version: str) -> DeltaTable | None:
    """A table of Delta as of a version; None for another leaf."""
    if not isinstance(leaf, DeltaTable):
        return None
    found = table_at(spark, leaf, version)
    assert found is not None
    pinned = leaves_of(found)[0]
    assert isinstance(pinned, DeltaTable)
    return pinned


def changes_between(
    spark: SparkSession, leaf: Leaf, since: str, until: str
) -> DataFrame | str | None:
    """The changes after a version, up to another one, with :data:`CHANGE` and :data:`COMMIT`.

    Returns:
        Or why the table does not tell them; None for what never does.

    Raises:
        SourceError: it did, and its history is gone.
    """
    if isinstance(leaf, DeltaTable):
        return _of_delta(spark, leaf, since, until)
    if isinstance(leaf, CatalogTable) and is_iceberg(leaf.node.table()):
        return _of_iceberg(spark, leaf, since, until)
    return None


def _of_delta(spark: SparkSession, leaf: DeltaTable, since: str, until: str) -> DataFrame | str:
    if not int(since) < int(until):
        raise SourceError(
            f"version {since} of {leaf.name} is not there any more: the table was restored from a "
            "copy"
        )
    if not _tells(leaf):
        try:
            then = delta_at(spark, leaf, since)
            told = then is not None and _tells(then)
        except compat.failures() as error:
            raise SourceError(
                f"version {since} of {leaf.name} cannot be read any more, which would say whether "
                f"the table had a change data feed: {type(error).__name__}"
            ) from None
        if told:
            raise SourceError(
                f"the change data feed of {leaf.name} was switched off after version {since}"
            )
        return f"{leaf.name} has no change data feed ({_FEED})"
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", int(since) + 1).option("endingVersion", int(until))
    return reader.load(_path(leaf))


def _tells(leaf: DeltaTable) -> bool:
    """Whether a table of Delta has a change data feed."""
    settings = leaf.snapshot().metadata().configuration()
    return bool(settings.contains(_FEED) and settings.apply(_FEED).lower() == "true")


def _of_iceberg(spark: SparkSession, leaf: CatalogTable, since: str, until: str) -> DataFrame | str:
    """What was appended; a scan of what was appended is silent about all other changes."""
    if since == NO_SNAPSHOT:
        return f"{leaf.name} had no snapshot"
    if until == NO_SNAPSHOT:
        return f"{leaf.name} has no snapshot any more"
    why = _why_not_appended(leaf, since, until)
    if why is not None:
        return why
    reader = spark.read.format("iceberg").option("start-snapshot-id", since)
    rows = reader.option("end-snapshot-id", until).load(_name(leaf))
    return rows.withColumns({CHANGE: F.lit("insert"), COMMIT: F.lit(0)})


def _why_not_appended(leaf: CatalogTable, since: str, until: str) -> str | None:
    """Why one snapshot is not an earlier one and what was appended since; None if it is.

    Raises:
        SourceError: the snapshots between the two are not there any more.
    """
    table, number = leaf.newest().table(), int(until)
    for _ in range(_MOST_SNAPSHOTS):
        snapshot = table.snapshot(number)
        if snapshot is None:
            break
        if snapshot.operation() not in (_APPEND, _WITHOUT_CHANGES):
            return f"snapshot {number} of {leaf.name} is no append, but {snapshot.operation()}"
        parent = snapshot.parentId()
        if parent is None:
            break
        if str(parent) == since:
            return None
        number = parent
    else:
        return f"there are more than {_MOST_SNAPSHOTS:,} snapshots since {since}"
    if not _led_to(table, int(until), int(since)):  # else the table was rolled back
        if snapshot is None:
            raise SourceError(_gone(leaf, since, f"snapshot {number}"))
        # Some writers leave a snapshot without a parent when that expires: it is not the first one.
        if table.snapshot(int(since)) is None or snapshot.sequenceNumber() > 1:
            raise SourceError(_gone(leaf, since, f"what was before snapshot {number}"))
    return f"snapshot {since} is none of those that led to {until}"


def _led_to(table: Any, first: int, last: int) -> bool:
    """Whether one snapshot is an earlier one of those that led to another one."""
    snapshot = table.snapshot(last)
    for _ in range(_MOST_SNAPSHOTS):
        if snapshot is None or (parent := snapshot.parentId()) is None:
            return False
        if parent == first:
            return True
        snapshot = table.snapshot(parent)
    return False


def _gone(leaf: CatalogTable, since: str, what: str) -> str:
    return (
        f"{leaf.name} does not have its history since snapshot {since} any more: {what} has "
        "expired, or the table was made anew"
    )


def _path(leaf: DeltaTable) -> str:
    return str(leaf.index.deltaLog().dataPath().toString())


def _name(leaf: CatalogTable) -> str:
    """The table's name in its catalogue, or its path."""
    identifier = leaf.node.identifier().get()
    if identifier.getClass().getSimpleName() == "PathIdentifier":
        return str(identifier.location())
    parts = [leaf.node.catalog().get().name(), *identifier.namespace(), identifier.name()]
    return ".".join(map(quoted, parts))
