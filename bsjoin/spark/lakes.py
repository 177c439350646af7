"""Tables of Delta and Iceberg as they were, and what their logs tell of changes."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.errors import SourceError
from bsjoin.spark import compat
from bsjoin.spark.leaves import CatalogTable, DeltaTable, Leaf, is_iceberg, leaves_of
from bsjoin.spark.sql import quoted
from bsjoin.storage.lake_history import CHANGE, COMMIT, NO_SNAPSHOT, Snapshot, why_not_appended

_FEED = "delta.enableChangeDataFeed"
_MOST = 10_000  # snapshots; each is calls to the JVM


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
    table = leaf.newest().table()

    def snapshot(number: int) -> Snapshot | None:
        found = table.snapshot(number)
        if found is None:
            return None
        return Snapshot(found.parentId(), found.operation(), found.sequenceNumber())

    why = why_not_appended(snapshot, since, until, _MOST)
    if why is not None:
        return why
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
