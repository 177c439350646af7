"""Sources of :mod:`bsjoin.sources` that can be followed: tables of PostgreSQL, Delta, Iceberg."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.build.source_scan import scanned, streamed
from bsjoin.build.steps import NotTold
from bsjoin.errors import ArgumentError
from bsjoin.following.protocol import Changes, SourceVersion
from bsjoin.planner.incremental_cache import schema_of_source
from bsjoin.sources.databases.pgchanges import OP
from bsjoin.sources.lakes.lake_versions import CHANGE, COMMIT, LakeVersions
from bsjoin.sources.protocol import Source
from bsjoin.spark.arrow import arrow_fields
from bsjoin.values.retype import retyped, whole

__all__ = ["FollowedTable"]


class FollowedTable:
    """A source's table, as a :class:`bsjoin.following.protocol.Followed`.

    Args:
        spark: the session.
        source: the table.
        columns: those that are read, without those of its primary key that are not among them.

    Raises:
        ArgumentError: the source is none that can be followed.
        SourceError: the server does not answer, or has no such table.
    """

    def __init__(self, spark: SparkSession, source: Source, columns: Sequence[str]):
        changes = source.table_changes()
        if changes is None:
            raise ArgumentError(
                f'refresh="on_commit" cannot follow {source!r}: only tables of PostgreSQL, and of '
                "Delta and Iceberg without a number of their version, tell that they have changed. "
                'Give refresh="10 minutes"'
            )
        self._spark, self._source, self._changes = spark, source, changes
        self.columns = [*dict.fromkeys([*columns, *changes.key])]
        schema = schema_of_source(source)
        self._schema = T.StructType([schema[name] for name in self.columns])
        read = repr(pa.schema(arrow_fields(self._schema)))
        self._selection = hashlib.sha256(read.encode()).hexdigest()[:16]

    def version(self) -> SourceVersion | None:
        """As in ``Followed``: of PostgreSQL by a millisecond, if nothing was committed since."""
        found = self._changes.version()
        if found is None:
            return None
        return SourceVersion(
            found.name,
            found.text,
            found.committed_at_us,
            found.identity,
            self._selection,
        )

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        """As in ``Followed``: positions in PostgreSQL's log grow, whoever has read them.

        A table of a lake that was restored from a copy has other versions of the same number.
        """
        if not version.is_of(until):
            return False
        if isinstance(self._changes, LakeVersions):
            times = {version.committed_at_us, until.committed_at_us} - {None}
            return version.version == until.version and len(times) < 2
        return bool(self._changes.has(version.version, until.version))

    def at(self, version: SourceVersion) -> DataFrame:
        """As in ``Followed``: exactly that version of a lake; of PostgreSQL the newest rows."""
        is_lake = isinstance(self._changes, LakeVersions)
        source = self._changes.at(version.version) if is_lake else self._source
        return scanned(self._spark, source, self.columns)

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        """As in ``Followed``: of a table of PostgreSQL with a primary key, and of lakes."""
        if not since.is_of(until):
            return None
        if isinstance(self._changes, LakeVersions):
            return self._of_lake(since, until)
        key = self._changes.key
        if not (key and {*key} <= {*self.columns}):
            return None
        rows = self._changes.rows(since.version, until.version, self.columns)
        if rows is None:
            return None
        wanted = pa.schema([*arrow_fields(self._schema), pa.field(OP, pa.string())])
        arrays = [retyped(whole(rows.column(field.name)), field.type) for field in wanted]
        schema = T.StructType([*self._schema.fields, T.StructField(OP, T.StringType())])
        df = self._spark.createDataFrame(pa.Table.from_arrays(arrays, schema=wanted), schema)
        return Changes(df, key=key, op=OP)

    def _of_lake(self, since: SourceVersion, until: SourceVersion) -> Changes:
        """The rows that came and went: a table of a lake has no key.

        Raises:
            NotTold: the table's log does not tell them.
        """
        found = self._changes.changes(
            since.version, since.committed_at_us, until.version, self.columns
        )
        if isinstance(found, str):
            raise NotTold(found)
        about = [T.StructField(CHANGE, T.StringType()), T.StructField(COMMIT, T.LongType())]
        schema = T.StructType([*self._schema.fields, *about])
        rows = streamed(self._spark, found.scan, found.close, schema)
        return Changes(rows, at=lambda: self.at(until))
