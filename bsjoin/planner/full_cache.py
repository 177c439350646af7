"""A stored table as a join uses it: the full cache."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import TableNotFoundError
from bsjoin.plan import StoredTable
from bsjoin.planner.keys import stream_key
from bsjoin.planner.planned_join import PlannedTable, needs_unique, shape_of
from bsjoin.planner.resolve import ResolvedJoin
from bsjoin.planner.uses import as_nullable, note_use
from bsjoin.storage import Manifest, StorageLocation

__all__ = ["FullCache", "schema_of"]


@dataclass(frozen=True)
class FullCache:
    """A table in files.

    Args:
        location: where it is stored.
        manifest: its newest version.
        may_change: whether other versions of the table may come while a plan is in use.
        max_staleness_us: as for :class:`bsjoin.plan.StoredTable`.
    """

    location: StorageLocation
    manifest: Manifest
    may_change: bool
    max_staleness_us: int = 0

    def note_use(self, stream: DataFrame, join: ResolvedJoin) -> bool:
        """Keep the columns that a join brings from being taken away while queries run.

        Returns:
            Whether they could be taken away until now.
        """
        return note_use(
            stream.sparkSession,
            self.location,
            join.columns,
            # A micro-batch of `foreachBatch` is planned anew each time.
            unique=stream.isStreaming and self.manifest.unique and needs_unique(join),
        )

    def planned(self, stream: DataFrame, join: ResolvedJoin) -> PlannedTable:
        """The table as this join uses it.

        A streaming plan lives on while the table changes; a batch result is bound to a version.
        """
        manifest, changes = self.manifest, self.may_change and stream.isStreaming
        stored = schema_of(manifest)
        fields = [stored[name] for name in join.columns]
        if changes:  # a version that comes later may bring nulls
            fields = [
                T.StructField(f.name, as_nullable(f.dataType), True, f.metadata) for f in fields
            ]
        unique = manifest.unique or (manifest.longest_run <= 1 and not changes)
        types = [stream.schema[name].dataType for name in join.stream_keys]
        # A range condition may be met by none of the rows of a key.
        alone = unique and join.when is None
        return PlannedTable(
            key=lambda column: stream_key(join.key_values(column), types, join.key_types),
            fields=tuple(fields),
            shape=shape_of(join.how, join.columns, alone, manifest.longest_run),
            table=StoredTable(
                location=self.location,
                epoch=manifest.created_at_us,
                version=None if stream.isStreaming else manifest.version,
                keys=manifest.keys,
                max_staleness_us=self.max_staleness_us,
            ),
            longest_run=manifest.longest_run,
            bytes=sum(segment.bytes for segment in manifest.segments),
        )


def schema_of(manifest: Manifest) -> T.StructType:
    """The Spark schema of the columns that can be selected.

    Raises:
        TableNotFoundError: this version of Spark does not know a type that another one has stored.
    """
    try:
        # Nothing else comes here than what the store has read strictly before.
        return T.StructType.fromJson(json.loads(manifest.spark_schema))
    except (AssertionError, KeyError, PySparkException, ValueError) as error:
        raise TableNotFoundError(
            f"version {manifest.version} of the table has a type that this version of Spark does "
            f"not know: {error}. Use the version that it was built with, or build it again"
        ) from error
