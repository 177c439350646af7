"""Sources of :mod:`bsjoin.sources` that can be followed: tables of PostgreSQL, Delta, Iceberg."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.build.source_scan import scanned, streamed
from bsjoin.build.steps import NotTold
from bsjoin.errors import ArgumentError
from bsjoin.following.protocol import Changes, Followed, SourceVersion
from bsjoin.planner.incremental_cache import schema_of_source
from bsjoin.sources.databases.dialect import Database
from bsjoin.sources.databases.pgchanges import OP
from bsjoin.sources.lakes.lake_table import LakeTable
from bsjoin.sources.protocol import Source
from bsjoin.spark.arrow import arrow_fields
from bsjoin.spark.replanned import MismatchedColumnError
from bsjoin.storage.lake_history import CHANGE, COMMIT
from bsjoin.values.retype import retyped, whole


def followed_table(spark: SparkSession, source: Source, columns: Sequence[str]) -> FollowedTable:
    """A source's table, as what can be followed.

    Raises:
        ArgumentError: the source is none that can be followed.
        SourceError: the server does not answer, or has no such table.
    """
    looks = source.table_changes()
    if looks is None:
        raise ArgumentError(
            f'refresh="on_commit" cannot follow {source!r}: only tables of PostgreSQL, and of '
            "Delta and Iceberg without a number of their version, tell that they have changed. "
            'Give refresh="10 minutes"'
        )
    kind = _OfLake if isinstance(looks, LakeTable) else _OfPostgreSQL
    return kind(spark, source, looks, columns)


class FollowedTable(Followed):
    """A source's table.

    Args:
        spark: the session.
        source: the table.
        looks: what asks for its versions, and for what has changed.
        columns: those that are read, without those of its primary key that are not among them.
    """

    def __init__(self, spark: SparkSession, source: Source, looks: Any, columns: Sequence[str]):
        self._spark, self._source, self._looks = spark, source, looks
        self.columns = [*dict.fromkeys([*columns, *looks.key])]
        schema = schema_of_source(source)
        self._schema = T.StructType([schema[name] for name in self.columns])
        read = repr(pa.schema(arrow_fields(self._schema)))
        self._selection = hashlib.sha256(read.encode()).hexdigest()[:16]

    def version(self) -> SourceVersion | None:
        """As in ``Followed``."""
        found: SourceVersion | None = self._looks.version()
        return None if found is None else replace(found, selection=self._selection)

    def newest(self) -> DataFrame:
        """All rows, each time as they are then."""
        return scanned(self._spark, self._source, self.columns)

    def _here(self, rows: pa.Table, *about: T.StructField) -> DataFrame:
        """Rows that this process has read, with columns about them beside those of the table."""
        schema = T.StructType([*self._schema.fields, *about])
        wanted = pa.schema(arrow_fields(schema))
        arrays = [retyped(whole(rows.column(field.name)), field.type) for field in wanted]
        return self._spark.createDataFrame(pa.Table.from_arrays(arrays, schema=wanted), schema)


class _OfPostgreSQL(FollowedTable):
    """Its version is that by a millisecond, if nothing was committed since."""

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        """As in ``Followed``: positions in PostgreSQL's log grow, whoever has read them."""
        return version.is_of(until) and self._looks.has(version.version, until.version)

    def at(self, version: SourceVersion) -> DataFrame:
        """As in ``Followed``: the newest rows.

        Raises:
            MismatchedColumnError: a column is gone, or has another type.
        """
        # Other columns are another identity, so that changes do not lead there.
        _refuse(version.source, self._looks.unlike(self.columns))
        return self.newest()

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        """As in ``Followed``: of a table with a primary key.

        Raises:
            NotTold: the server does not tell them.
        """
        key = self._looks.key
        if not since.is_of(until):
            return None
        if not {*key} <= {*self.columns}:
            raise NotTold("the table has got another primary key")
        rows = self._looks.rows(since.version, until.version, self.columns)
        if isinstance(rows, str):
            raise NotTold(rows)
        return Changes(self._here(rows, T.StructField(OP, T.StringType())), key=key, op=OP)


class _OfLake(FollowedTable):
    """A table of Delta or Iceberg."""

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        """As in ``Followed``: one that was restored from a copy has others of the same number."""
        times = {version.committed_at_us, until.committed_at_us} - {None}
        return version.is_of(until) and version.version == until.version and len(times) < 2

    def at(self, version: SourceVersion) -> DataFrame:
        """As in ``Followed``: exactly that version.

        Raises:
            MismatchedColumnError: a column is gone, or has another name or type.
        """
        _refuse(version.source, self._looks.unlike(self.columns))
        return scanned(self._spark, self._looks.at(version.version), self.columns)

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        """As in ``Followed``: the rows that came and went, since nothing is a key.

        Raises:
            NotTold: the table's log does not tell them.
            MismatchedColumnError: a column is gone, or has another name or type.
        """
        if not since.is_of(until):
            return None
        _refuse(until.source, self._looks.unlike(self.columns))
        found = self._looks.changes(since, until.version, self.columns)
        if isinstance(found, str):
            raise NotTold(found)
        about = [T.StructField(CHANGE, T.StringType()), T.StructField(COMMIT, T.LongType())]
        # A worker takes longer to start than a few rows to read.
        if (few := found.few()) is not None:
            rows = self._here(few, *about)
        else:
            schema = T.StructType([*self._schema.fields, *about])
            rows = streamed(self._spark, found.scan, found.close, schema)
        return Changes(rows, at=lambda: self.at(until))


def rereading(spark: SparkSession, source: Source) -> Callable[[Sequence[str]], DataFrame]:
    """What reads some columns of a source whole, each time as it is then.

    A table of a database or a lake whose columns have changed is refused, as one that is followed:
    a cast to the type of before would hide that, as long as the values fit.

    Returns:
        A function of the columns' names, which raises a MismatchedColumnError.
    """
    unlike, close = None, source.close
    if isinstance(source, LakeTable) and (looks := source.table_changes()) is not None:
        unlike, close = looks.unlike, looks.close
    elif isinstance(source, Database):
        source.schema  # noqa: B018 - its columns stay as they are
        asked = source.copied()  # of one thread
        unlike, close = asked.unlike, asked.close

    def read(names: Sequence[str]) -> DataFrame:
        if unlike is not None:
            try:
                _refuse(repr(source), unlike(names))
            finally:
                close()  # until the next time a server may end a connection
        return scanned(spark, source, [*names])

    return read


def _refuse(source: str, unlike: Iterable[tuple[str, str]]) -> None:
    """Refuse a table whose columns are not what they were when the source was first read."""
    for name, what in unlike:
        raise MismatchedColumnError(
            f"the column {name!r} of {source} {what}. Queries go on with the rows that "
            "they have; join with a new source, which has the columns of now, and start them "
            "again",
            name,
        )
