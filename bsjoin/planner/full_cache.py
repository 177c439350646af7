"""A stored table as a join uses it: the full cache."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.plan import StoredTable
from bsjoin.planner.boxes import with_boxes
from bsjoin.planner.columns import schema_of
from bsjoin.planner.planned_join import PlannedJoin, plan_join, shape_of
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.planner.uses import as_nullable, note_use
from bsjoin.storage import Manifest, StorageLocation


def note_columns(
    stream: DataFrame, join: ResolvedJoin, location: StorageLocation, manifest: Manifest
) -> bool:
    """Keep the columns that a join returns from being taken away while queries run.

    Returns:
        Whether they could be taken away until now.
    """
    # A micro-batch of `foreachBatch` is planned anew each time.
    unique = stream.isStreaming and manifest.unique
    needed = unique and join.how in ("inner", "left") and join.condition is None
    return note_use(stream.sparkSession, location, join.columns, unique=needed)


def plan_stored(
    stream: DataFrame,
    join: ResolvedJoin,
    location: StorageLocation,
    manifest: Manifest,
    given: DataFrame | None,
    *,
    may_change: bool,
    max_staleness_us: int = 0,
) -> PlannedJoin:
    """Plan a join with a table in files.

    A streaming plan lives on while the table changes; a batch result is bound to a version. Other
    versions may come while the plan is in use if it ``may_change``.
    """
    join = with_boxes(join, manifest)
    changes, stored = may_change and stream.isStreaming, schema_of(manifest)
    fields = [stored[name] for name in join.columns]
    if changes:  # a version that comes later may bring nulls
        fields = [T.StructField(f.name, as_nullable(f.dataType), True, f.metadata) for f in fields]
    unique = manifest.unique or (manifest.longest_run <= 1 and not changes)
    # A range condition may be met by none of the rows of a key.
    alone = unique and join.condition is None
    table = StoredTable(
        location=location,
        newest=manifest.version,
        epoch=manifest.created_at_us,
        version=None if stream.isStreaming else manifest.version,
        keys=manifest.keys,
        max_staleness_us=max_staleness_us,
    )
    shape = shape_of(join.how, join.columns, alone, manifest.longest_run)
    table_bytes = sum(segment.bytes for segment in manifest.indexed)
    return plan_join(stream, join, table, shape, fields, given, table_bytes)
