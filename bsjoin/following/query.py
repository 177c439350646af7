"""A DataFrame whose version a query of the user tells."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from bsjoin._secrets import scrubbed
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.following.protocol import Changes, SourceVersion
from bsjoin.spark import compat
from bsjoin.spark.fingerprint import renew, selection_of
from bsjoin.spark.leaves import is_cached
from bsjoin.spark.session import is_connect

Answer = TypeVar("Answer")

_LONGEST = 1_000


class QuerySource:
    """A DataFrame, and a query of its version, as a :class:`Followed`.

    Args:
        df: the DataFrame.
        query: in SQL; it returns one row with one value, which is another one after each change.
        read: returns the DataFrame each time it is read; None (default): that one.

    Raises:
        ArgumentError: the query cannot be analysed, or has several columns; or Spark has cached
            the rows.
    """

    def __init__(self, df: DataFrame, query: str, read: Callable[[], DataFrame] | None = None):
        self._df, self._query = df, query
        self._read: Callable[[], DataFrame] = read or (lambda: df)
        if _told(df, is_cached):
            raise ArgumentError(
                'refresh="on_commit" cannot follow this table: Spark has cached its rows, or those '
                "of a part. Give a DataFrame that is not cached"
            )
        try:
            columns = df.sparkSession.sql(query).columns
        except PySparkException as error:
            raise ArgumentError(f"version={query!r} is no query: {error}") from None
        if len(columns) != 1:
            raise ArgumentError(
                f"version={query!r} has the columns {columns}: give a query of one value"
            )
        self._identity = hashlib.sha256(query.encode()).hexdigest()[:16]
        self._selection = _told(df, selection_of) or f"of {uuid.uuid4().hex}"

    def version(self) -> SourceVersion | None:
        """As in :class:`Followed`."""
        rows = self._df.sparkSession.sql(self._query)
        renew(rows)
        found = rows.take(2)
        if len(found) != 1 or found[0][0] is None:
            what = "null" if len(found) == 1 else f"{'several' if found else 'no'} rows"
            raise SourceError(f"the query of the version, {self._query!r}, has returned {what}")
        source, version = f"the query {scrubbed(self._query, ())[:_LONGEST]}", str(found[0][0])
        if getattr(found[0][0], "fold", 0):  # a time of the hour that a clock shows again
            version += " again"
        return SourceVersion(source, version, None, self._identity, self._selection)

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        """As in :class:`Followed`."""
        return version == until

    def at(self, version: SourceVersion) -> DataFrame:
        """As in :class:`Followed`: the newest rows.

        Raises:
            SourceError: Spark has cached them since then.
            MismatchedColumnError: they are of a source that has another column by now.
        """
        if _told(self._df, is_cached):
            raise SourceError(
                f"Spark has cached rows of the table, so they are not those of the version "
                f"{version.version} that its query has returned: unpersist() them"
            )
        df = self._read()
        renew(df)
        return df

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        """As in :class:`Followed`: never told."""
        return None


def _told(df: DataFrame, question: Callable[[DataFrame], Answer | None]) -> Answer | None:
    """What the plan of a DataFrame says; None where it cannot be read."""
    try:
        return None if is_connect(df.sparkSession) else question(df)
    except compat.MissingMemberError:
        return None
