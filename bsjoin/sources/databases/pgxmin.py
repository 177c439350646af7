"""The keys of changed rows from the numbers of the transactions that wrote them (``xmin``).

It needs no right but to read the table, and a pass over it on the server for each look at which
anything has been committed.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa

from bsjoin.errors import SourceError
from bsjoin.sources.databases.pgoutput import Key
from bsjoin.sources.databases.pgrelation import Relation
from bsjoin.sources.databases.statements import fetched, rows_of, run

_KEPT = 3  # states, so that a version of another application is found
_REMEMBERED = 1_000
_MOST_ROWS = 5_000_000


class RowVersions:
    """The rows of a table, each with its key and the transaction that wrote it.

    ``source`` is the table as it follows FROM, with the name ``t``. Of more than ``most`` rows that
    have changed the keys are not told.
    """

    def __init__(self, connection: Any, relation: Relation, source: str, most: int):
        self._connection, self._source, self._most = connection, source, most
        self._key = [name for name, _ in relation.key]
        self._states: dict[str, pa.Table | None] = {}
        self._left: deque[str] = deque(maxlen=_REMEMBERED)  # versions whose rows are not kept
        run(connection, "SET statement_timeout = 0")

    def look(self) -> tuple[str, int | None]:
        """A digest of all rows' transactions: any change of a row changes it."""
        version = self._version()
        if version not in self._states:
            # The keys have to be those of the version.
            run(self._connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                version = self._version()
                self._states[version] = self._rows(int(version.partition(":")[0]))
            finally:
                run(self._connection, "COMMIT")
            for old in list(self._states)[:-_KEPT]:
                del self._states[old]
                self._left.append(old)
        return version, None

    def _version(self) -> str:
        # A transaction's number occurs in many rows as a rule: a hash of each of them once.
        ((count, digest),) = rows_of(
            self._connection,
            "SELECT coalesce(sum(n), 0)::int8, "
            "coalesce(sum(n * hashtextextended(x::text, 0)::numeric), 0)::text "
            f"FROM (SELECT t.xmin AS x, count(*) AS n FROM {self._source} GROUP BY 1) AS g",
        )
        return f"{count}:{digest}"

    def _rows(self, count: int) -> pa.Table | None:
        """The key and the transaction of each row; None if that is not kept."""
        if not self._key or count > _MOST_ROWS:
            return None
        columns = [f't."{name.replace(chr(34), chr(34) * 2)}"::text' for name in self._key]
        named = ", ".join(f"{column} AS k{i}" for i, column in enumerate(columns))
        statement = f"SELECT {named}, t.xmin::text::int8 AS x FROM {self._source}"
        return fetched(self._connection, statement)

    def keys(self, since: str, until: str) -> set[Key] | str:
        """The keys of all rows that differ between two versions; or why they are not told."""
        if since not in self._states and since in self._left:
            return f"there were {_KEPT} other versions of its rows meanwhile"
        if since not in self._states:
            raise SourceError(
                f"what rows there were at {since} is not kept: that is known of what was looked at "
                "since the last start, or lost connection"
            )
        before, after = self._states[since], self._states.get(until)
        if before is None or after is None:
            return f"the table has no primary key, or more than {_MOST_ROWS:,} rows"
        keys = [f"k{i}" for i in range(len(self._key))]
        changed = after.join(before, keys=[*keys, "x"], join_type="left anti")
        gone = before.join(after, keys=keys, join_type="left anti")
        if len(changed) + len(gone) > self._most:
            return f"more than {self._most:,} rows have changed"
        found: set[Key] = set()
        for part in (changed, gone):
            found.update(zip(*(part.column(name).to_pylist() for name in keys), strict=True))
        return found
