"""DataFrames of what has versions: Delta, Iceberg, other tables of catalogues, files."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from bsjoin.build.steps import NotTold
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.following.protocol import Changes, Followed, SourceVersion
from bsjoin.following.query import QuerySource
from bsjoin.spark.fingerprint import selection_of
from bsjoin.spark.lake_columns import columns_of
from bsjoin.spark.lakes import changes_between, delta_at
from bsjoin.spark.leaves import is_cached, leaves_of
from bsjoin.spark.replanned import MismatchedColumnError, through_operators, used_of
from bsjoin.spark.settled import Settled
from bsjoin.spark.source_versions import at_version, followable, version_of, why_not_followed
from bsjoin.storage.lake_columns import Columns, known_in, names_in
from bsjoin.storage.lake_history import CHANGE, COMMIT

_UNKNOWN_S = 60.0
"""How long no version may be known before that is an error."""


def followed_of(
    df: DataFrame, version: str | None, read: Callable[[], DataFrame] | None = None
) -> Followed:
    """The source of a DataFrame, to be followed.

    Args:
        df: the DataFrame.
        version: the user's query of its version; None for the versions of what it reads.
        read: with a query, returns the DataFrame each time it is read; None (default): that one.

    Raises:
        ArgumentError: it cannot be followed; the error says why.
    """
    return DataFrameSource(df) if version is None else QuerySource(df, version, read)


class DataFrameSource:
    """A DataFrame as a :class:`Followed`.

    Args:
        df: a classic DataFrame.

    Raises:
        ArgumentError: what it reads has no versions.
    """

    def __init__(self, df: DataFrame):
        why = why_not_followed(df)
        if why is not None:
            raise ArgumentError(
                f'refresh="on_commit" cannot follow this table: {why}. Give refresh="10 minutes", '
                'or a query of its version, version="SELECT max(batch) FROM loads"'
            )
        self._all = leaves = leaves_of(df)
        self._df, self._leaves = df, followable(leaves)
        self._known = [columns_of(leaf) if followable([leaf]) else Columns() for leaf in leaves]
        self._settled = Settled(self._leaves)
        self._is_alone = len(leaves) == 1
        self._known_s = time.monotonic()
        # Where nobody can tell what is done with the rows, nobody else makes the same of them.
        self._selection = selection_of(df) or f"of {uuid.uuid4().hex}"

    def version(self) -> SourceVersion | None:
        """As in :class:`Followed`.

        Raises:
            SourceError: a table is gone, or none was known for a minute.
        """
        found, now_s = version_of(self._leaves, self._selection), time.monotonic()
        if found is not None:
            self._known_s = now_s
        elif now_s - self._known_s > _UNKNOWN_S:
            names = " and ".join(dict.fromkeys(leaf.name for leaf in self._leaves))
            raise SourceError(
                f"no version of {names} could be told for {now_s - self._known_s:.0f} seconds. "
                'If that stays so, follow it by a timer: refresh="10 minutes"'
            )
        return self._settled.settled(found)

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        """As in :class:`Followed`."""
        return version == until

    def at(self, version: SourceVersion) -> DataFrame:
        """As in :class:`Followed`: exactly that version of Delta and Iceberg, of others the newest.

        Raises:
            MismatchedColumnError: a column is gone, or has another type.
            SourceError: Spark has cached the rows since then.
        """
        self._names()
        pinned = at_version(self._df, version, self._known)
        if pinned is None and is_cached(self._df):
            raise SourceError(
                f"Spark has cached rows of {version.source}, so they are not those of its version "
                f"{version.version}: unpersist() them"
            )
        return self._df if pinned is None else pinned

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        """As in :class:`Followed`: of one table, through filters and selections.

        Raises:
            NotTold: the table does not tell them, or operators do not let them through.
            MismatchedColumnError: a column is gone, or has another type.
            SourceError: the history of the table is gone.
        """
        if not since.is_of(until):
            return None
        if not self._is_alone:
            raise NotTold("several tables are read, so a change is not a matter of one row")
        if {CHANGE, COMMIT} & {name.lower() for name in self._df.columns}:
            raise NotTold(f"the table has a column {CHANGE} or {COMMIT}, as changes have")
        spark, leaf = self._df.sparkSession, self._leaves[0]
        (names,) = self._names()
        feed = changes_between(spark, leaf, since.version, until.version)
        if feed is None:
            return None
        if isinstance(feed, str):
            raise NotTold(feed)
        then = delta_at(spark, leaf, since.version)
        if then is not None:
            if int(then.snapshot().timestamp()) * 1000 != since.committed_at_us:
                raise SourceError(
                    f"version {since.version} of {since.source} is not the one that was read: the "
                    "table was restored from a copy"
                )
            before = names_in(self._known[0], columns_of(then))
            if any(before.get(name, now) != now for name, now in names.items()):
                raise NotTold(f"columns were renamed since version {since.version}")
        rows = through_operators(self._df, feed, names, (CHANGE, COMMIT))
        if rows is None:
            raise NotTold("what is done with the table is not a matter of one row at a time")
        return Changes(rows, at=lambda: at_version(self._df, until, self._known))

    def _names(self) -> list[Mapping[str, str]]:
        """Under which names each leaf has the columns now."""
        found: list[Mapping[str, str]] = []
        for place, (leaf, known) in enumerate(zip(self._all, self._known, strict=True)):
            now = columns_of(leaf) if known.numbers else Columns()
            found.append(names_in(known, now))
            gone = known.numbers.keys() - found[-1].keys() if now.numbers else set()
            if gone and (used := used_of(self._df, leaf.node, gone)):
                raise MismatchedColumnError(
                    f"{leaf.name} does not have the column {used[0]!r} any more. Queries go on "
                    "with the rows that they have; give a DataFrame without it, and start them "
                    "again",
                    used[0],
                )
            self._known[place] = known_in(known, now)
        return found
