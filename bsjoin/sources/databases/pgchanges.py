"""A table of PostgreSQL as its changes are followed: its version, and the rows that have changed.

Only keys are taken from the log, or found by comparing: their rows are then read as they are now,
through the same conversion as all rows. So a change that is read twice does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from bsjoin._secrets import scrubbed
from bsjoin.errors import SourceError
from bsjoin.sources.databases import pgerrors
from bsjoin.sources.databases.declared import How
from bsjoin.sources.databases.pgdecoding import LogicalDecoding
from bsjoin.sources.databases.pgoutput import Key
from bsjoin.sources.databases.pgrelation import Relation, Snapshot, read_relation, read_snapshot
from bsjoin.sources.databases.pgxmin import RowVersions
from bsjoin.sources.databases.statements import fetched, rows_of
from bsjoin.storage.source_version import SourceVersion

OP = "bsjoin_op"
_MOST = 100_000  # rows that change at once; of more the table is read whole
_PART = 10_000
_LONGEST_LOOK_S = 300.0

_log = logging.getLogger("bsjoin")


class TableChanges:
    """Looks at a copy of a table's source, with a connection of its own. One thread calls it."""

    def __init__(self, table: Any, how: How | None):
        table.schema  # noqa: B018 - its columns stay as they are
        self._table = table.copied()
        slow = max(table.target.timeout_s, _LONGEST_LOOK_S)
        self._table.target = replace(table.target, timeout_s=slow)
        self._how = how
        self._connection: Any = None
        self._is_said = False
        self._relation: Relation | None = None
        self._method: LogicalDecoding | RowVersions | None = None
        self._seen: Snapshot | None = None
        self._last: SourceVersion | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell a row from all others; empty if nothing does."""
        if self._relation is None:
            self._relation = self._table._execute(self._described)
        columns, schema = self._table._columns, self._table.schema
        names = tuple(name for name, _ in self._relation.key)
        for name in names:
            column = columns.get(name)
            if column is None or column.refused or not column.exact:
                return ()
            dtype = schema.field(name).type
            if column.type != dtype or pa.types.is_floating(dtype) or dtype.num_fields:
                return ()
        return names

    def unlike(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """As :meth:`bsjoin.sources.databases.dialect.Database.unlike`."""
        found: Iterator[tuple[str, str]] = self._table.unlike(names)
        return found

    def version(self) -> SourceVersion | None:
        """The newest version; None if it is not known for certain at this moment."""
        is_open = self._method is not None
        try:
            return self._newest()
        except SourceError as error:
            # A connection that has ended meanwhile, as one that was idle, is opened again.
            if not (is_open and error.is_transient):
                raise
        return self._newest()

    def _newest(self) -> SourceVersion | None:
        try:
            version: SourceVersion | None = self._table._execute(self._look)
        except BaseException:
            self._method = None
            raise
        return version

    def _described(self, connection: Any) -> Relation:
        relation = read_relation(connection, self._table._regclass())
        if relation is None:
            raise SourceError(
                f"{self._table!r} is not a table whose changes can be followed: there is none of "
                "that name, or it is a view, or a foreign table, or has one. Give "
                'refresh="10 minutes"'
            )
        return relation

    def _look(self, connection: Any) -> SourceVersion | None:
        now = read_snapshot(connection)
        is_same_connection = self._connection is connection and self._method is not None
        if is_same_connection and now.is_same(self._seen):
            return self._last
        relation = self._described(connection)
        if not is_same_connection or self._is_other(relation):
            self._begin(connection, relation)
        assert self._method is not None
        assert self._relation is not None
        found = self._method.look()
        if found is None:
            self._seen = None
            return None
        name = f"the PostgreSQL table {relation.name}"
        self._seen, self._last = now, SourceVersion(name, *found, self._relation.identity)
        return self._last

    def _is_other(self, relation: Relation) -> bool:
        """Whether changes that are read so would not be all."""
        known = self._relation
        if known is None or replace(known, publications=()) != replace(relation, publications=()):
            return True
        is_logical = isinstance(self._method, LogicalDecoding)
        return is_logical and known.publications[:1] != relation.publications[:1]

    def _begin(self, connection: Any, relation: Relation) -> None:
        """Choose the way, and begin."""
        is_first, self._is_said = not self._is_said, True
        self._connection, self._relation, self._method = connection, relation, None
        why = "it is asked for"
        if self._how != "xmin":
            found = self._decoding(connection, relation)
            if not isinstance(found, str):
                self._method = found
                if is_first:
                    _log.info(
                        "bsjoin: %r is followed by logical decoding, through a temporary "
                        "replication slot and the publication %r",
                        self._table, relation.publications[0][0],
                    )  # fmt: skip
                return
            why = found
            if self._how == "logical":
                raise SourceError(
                    f"{self._table!r} cannot be followed by logical decoding: {why}. "
                    'changes="xmin" needs no more than to read the table'
                )
        self._method = RowVersions(connection, relation, self._table._from, _MOST)
        if is_first:
            _log.info(
                "bsjoin: %r is followed by comparing the transactions of its rows (xmin), a pass "
                "over the table on the server for each look: %s",
                self._table, why,
            )  # fmt: skip

    def _decoding(self, connection: Any, relation: Relation) -> LogicalDecoding | str:
        """Logical decoding; or why it is not possible."""
        ((level,),) = rows_of(connection, "SELECT current_setting('wal_level')")
        if level != "logical":
            return f"wal_level is {level}, not logical"
        if relation.kind == "m":
            return "a materialized view is in no publication"
        if relation.inherited:
            return "other tables inherit from it"
        if not relation.publications:
            return (
                f"no publication has all changes of {relation.name}. Its owner makes one: "
                f"CREATE PUBLICATION bsjoin FOR TABLE {'.'.join(self._table.target.table)}"
            )
        try:
            return LogicalDecoding(connection, relation, _MOST)
        except Exception as error:
            if pgerrors.is_of_connection(error):
                raise
            why = scrubbed(pgerrors.message(error), self._table.target.address.secrets)
            return f"the replication slot cannot be made: {why}"

    def has(self, version: str, until: str) -> bool:
        """Whether a table at one version has another one, too."""
        if version == until:
            return True
        return isinstance(self._method, LogicalDecoding) and self._method.has(version)

    def rows(self, since: str, until: str, columns: Sequence[str]) -> pa.Table | str:
        """The rows that have changed after one version up to another one, as they are now.

        ``until`` is what :meth:`version` has returned last; the columns have those of the key.

        Returns:
            Rows with the columns and :data:`OP`, ``upsert`` or ``delete``. Or why what has changed
            is not told, as it is too much: then the table has to be read whole.
        """
        key, method = self.key, self._method
        if not key:
            return "the table has no primary key of types that are compared exactly"
        if method is None:
            raise SourceError(f"what was committed after {since} is not kept: the connection ended")
        if isinstance(method, LogicalDecoding):
            keys = method.keys(since)
        else:
            keys = method.keys(since, until)
        if isinstance(keys, str):
            return keys
        if len(keys) > _MOST:
            return f"more than {_MOST:,} rows have changed"
        found = [self._current(part, columns) for part in _parts(keys)]
        schema = self._table._wanted((), columns)
        schema = schema.append(pa.field(OP, pa.string()))
        return _once(pa.concat_tables([schema.empty_table(), *found]), key)

    def _current(self, keys: list[Key], columns: Sequence[str]) -> pa.Table:
        """The rows of some keys as they are now; of keys that are gone, the key alone."""
        assert self._relation is not None
        schema, chosen = self._table._wanted((), columns), self._table._chosen(columns)
        statement = _statement(self._table, self._relation.key, chosen)
        arrays = [pa.array([key[i] for key in keys], pa.string()) for i in range(len(keys[0]))]
        ends = pa.array([0, len(keys)], pa.int32())
        lists = [pa.ListArray.from_arrays(ends, array) for array in arrays]
        bound = pa.record_batch(lists, names=[f"p{i}" for i in range(len(lists))])
        rows = self._table._execute(partial(fetched, statement=statement, bound=bound))
        there = rows.column(rows.num_columns - 1)
        converted = self._table._converted(rows, chosen, schema)
        ops = pa.chunked_array([["upsert" if one else "delete" for one in there.to_pylist()]])
        return converted.append_column(pa.field(OP, pa.string()), ops.cast(pa.string()))

    def close(self) -> None:
        """End the connection; the server drops the slot."""
        self._method = None
        self._table.close()


def _statement(table: Any, key: Sequence[tuple[str, str]], chosen: Sequence[Any]) -> str:
    """The query for the rows of keys, which are given as an array of texts for each column.

    The server reads the texts as the types of the key, so they are exactly its values.
    """
    names = {name: number for number, (name, _) in enumerate(key)}
    given = ", ".join(f"${i + 1}::text[]" for i in range(len(key)))
    typed = ", ".join(f"u.k{i}::{dtype} AS k{i}" for i, (_, dtype) in enumerate(key))
    texts = ", ".join(f"k{i}" for i in range(len(key)))
    inner, same = [], []
    for column in chosen:
        at = table._at(column.name)
        value = f"coalesce({at}, q.k{names[column.name]})" if column.name in names else at
        inner.append(f"{value} AS {table._quoted(column.name)}")
    for name, number in names.items():
        at = table._at(name)
        same.append(f"{at} = q.k{number}")
        if pa.types.is_string(table.schema.field(name).type):
            # Texts that a collation takes for the same are rows of other keys.
            same.append(f'{at}::text COLLATE "C" = q.k{number}::text COLLATE "C"')
    there = f"{table._at(key[0][0])} IS NOT NULL AS there"
    return (
        f"SELECT {table._selected(chosen)}, t.there FROM (SELECT {', '.join(inner)}, {there} "
        f"FROM (SELECT {typed} FROM unnest({given}) AS u({texts})) AS q "
        f"LEFT JOIN {table._from} ON {' AND '.join(same)}) AS t"
    )


def _parts(keys: set[Key]) -> Iterator[list[Key]]:
    listed = list(keys)
    for begin in range(0, len(listed), _PART):
        yield listed[begin : begin + _PART]


def _once(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Each key once: what the server takes for two values may be one here, as 1.0 and 1.00."""
    found: dict[tuple[Any, ...], int] = {}
    is_there = [op == "upsert" for op in rows.column(OP).to_pylist()]
    keys = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
    for number, one in enumerate(keys):
        if one not in found or is_there[number]:
            found[one] = number
    return rows.take(pa.array(sorted(found.values()), pa.int64()))
