"""The common part of all databases: reconnecting, columns, errors, warm-up."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin._secrets import scrubbed
from bsjoin.errors import ColumnError, DataError, SourceError, suggest
from bsjoin.sources.databases.declared import Column, Target, unlike
from bsjoin.sources.databases.parts import by_nulls, of_keys, rows_of_keys
from bsjoin.sources.protocol import Source
from bsjoin.sources.table import Declared, Table
from bsjoin.sources.transient import LookupTimeoutError, TransientSourceError, of_data
from bsjoin.sources.types import fitted, keeps_keys
from bsjoin.values.plain import has_inside, is_utf8, with_utf8
from bsjoin.values.python_values import reprs

BATCH_ROWS = 16_384

T = TypeVar("T")


class Database(Table):
    """A table or query of a database; one subclass per database."""

    mark = '"'
    as_text = "CAST({} AS VARCHAR)"
    """The SQL expression for the database's text of a value."""
    as_bytes: str
    """The SQL expression for the UTF-8 of a text."""

    def __init__(
        self,
        target: Target,
        schema: pa.Schema | Mapping[str, pa.DataType] | None,
        unique: bool | None,
        max_keys: int,
    ) -> None:
        super().__init__(schema, unique, max_keys, target.address.secrets)
        self.target = target
        self._described: list[Column] = []
        self._null: tuple[str, ...] = ()  # the columns that are null in all rows

    # Implemented by each subclass.

    @abstractmethod
    def _open(self) -> Any:
        """A new read-only connection in autocommit mode."""

    @abstractmethod
    def _describe(self, connection: Any, source: str) -> list[Column]:
        """The columns of a table or query, given in the form that follows FROM."""

    def _is_absent(self, error: Exception) -> bool:
        """Whether the driver's error means that there is no such table, and does not say it."""
        return False

    @abstractmethod
    def _fetched(self, connection: Any, statement: str) -> Any:
        """The rows of a query, as the driver returns them: a table, or a sequence of tuples."""

    @abstractmethod
    def _rows(self, connection: Any, keys: pa.Table, columns: Sequence[Column]) -> Any:
        """The rows of the keys, as :meth:`_fetched` returns them."""

    @abstractmethod
    def _table(self, rows: Any, columns: Sequence[Column], schema: pa.Schema) -> pa.Table:
        """Rows as columns, in types that can be cast to the schema's."""

    def _parts(self, connection: Any, keys: pa.Table) -> Iterable[pa.Table]:
        """The keys that the database can hold, in as many as one statement takes."""
        return (keys,)

    @abstractmethod
    def _stream(self, connection: Any, statement: str) -> Generator[Any, None, None]:
        """All rows of a statement in pieces, in types that can be cast to the schema's."""

    def _count(self, connection: Any) -> int:
        """The number of rows, or about."""
        rows = self._fetched(connection, f"SELECT count(*) FROM {self._from}")
        return int(rows[0][0].as_py() if isinstance(rows, pa.Table) else rows[0][0])

    def _unique(self, connection: Any) -> list[list[str]]:
        """The columns of every unique key that the database guarantees."""
        return []

    def _tables(self, connection: Any) -> list[str]:
        """The names of all tables, for suggestions; none if there may be very many."""
        return []

    @abstractmethod
    def _may_pass(self, error: Exception) -> bool:
        """Whether the driver's error is transient."""

    def _is_of_data(self, error: Exception) -> bool:
        """Whether the driver's error is of the data: a value, a key, or their size."""
        return of_data(error)

    def _read_as(self, column: Column, dtype: pa.DataType) -> Column:
        """The column, read as the user's type instead of the declared one."""
        if column.type is None or column.type.equals(dtype):
            return column
        read, refused = column.read, None
        if pa.types.is_string(dtype):
            read = self.as_text
        elif pa.types.is_binary(dtype) and pa.types.is_string(column.type):
            read = self.as_bytes.format(column.read)
        if not keeps_keys(column.type, dtype):
            refused = (
                f"the column {column.name!r} is declared as {column.declared}, and schema= reads "
                f"it as {dtype}: rows cannot be looked up by it. Convert it in the database, with "
                f"query='SELECT CAST(...) AS {column.name}, ...', or convert the stream's column"
            )
        return replace(column, read=read, refused=refused)

    def _refused_to_write(self, error: Exception) -> bool:
        """Whether the driver's error means that a statement writes in a read-only session."""
        return False

    # Implemented here for all of them.

    def _declared(self) -> list[Declared]:
        self._described = self._with_connection(self._columns_of_table)
        return [(column.name, column.type, column.declared) for column in self._described]

    @cached_property
    def _columns(self) -> dict[str, Column]:
        """The columns by name, each read as the type that the schema has."""
        schema = self.schema
        return {c.name: self._read_as(c, schema.field(c.name).type) for c in self._described}

    def _columns_of_table(self, connection: Any) -> list[Column]:
        try:
            return self._describe(connection, self._from)
        except Exception as error:
            if self.target.table is None or not self._is_absent(error):
                raise
        raise self._absent(connection)

    def _found(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """The rows of some keys, by one query unless they are long.

        Keys with nulls are queried apart, for each set of null columns: an index finds them so,
        which ``OR ... IS NULL`` would keep from it.
        """
        self._check_keys(keys.column_names)
        found = []
        for null, part in by_nulls(keys):
            try:
                rows = self._where_null(null)._rows_of(part, wanted)
            except DataError as fault:
                if null:
                    fault.keys = None  # they have fewer columns
                raise
            for name in null:  # the database's null may be a value: MySQL's zero date is
                rows = rows.filter(rows.column(name).is_null())
            found.append(rows)
        return pa.concat_tables(found) if found else wanted.empty_table()

    def _where_null(self, names: Sequence[str]) -> Database:
        """The same table, or query, with the rows alone in which some columns are null."""
        if not names:
            return self
        part = copy.copy(self)  # with the same connection
        part._null = tuple(names)
        return part

    def _rows_of(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows of keys without nulls; all rows if the keys have no column."""
        chosen = self._chosen(schema.names)
        if not keys.num_columns:
            rows = self._with_connection(lambda c: self._fetched(c, self._select(chosen)))
            return self._converted(rows, chosen, schema)
        keys = with_utf8(keys)
        if not len(keys):
            return schema.empty_table()

        def first(connection: Any) -> tuple[list[pa.Table], Any]:
            parts = list(self._parts(connection, keys))
            return parts, self._rows(connection, parts[0], chosen) if parts else None

        parts, rows = self._with_connection(first)
        found = []
        for number, part in enumerate(parts):
            if number:
                rows = self._with_connection(partial(self._rows, keys=part, columns=chosen))
            found.append(rows_of_keys(self._converted, rows, chosen, schema, part))
        if len(found) > 1:
            # A collation that is not binary finds the same row by keys of several parts.
            found = [of_keys(rows, part) for rows, part in zip(found, parts, strict=True)]
        return pa.concat_tables(found) if found else schema.empty_table()

    def _pieces(self, wanted: pa.Schema) -> Generator[pa.Table, None, None]:
        return self._read(self._from, self._chosen(wanted.names), wanted)

    def size(self) -> int | None:
        """The approximate number of rows; None if counting exceeds the timeout."""
        try:
            return int(self._run(lambda: self._with_connection(self._count)))
        except TransientSourceError:
            return None

    def is_unique(self, columns: Sequence[str]) -> bool:
        """Whether the columns contain a primary key or unique index, or ``unique=`` says so."""
        self._check_keys(self._wanted((), columns).names)
        if self._is_unique is not None or self.target.table is None:
            return bool(self._is_unique)
        known = self._columns
        return any(
            found
            and set(found) <= set(columns)
            and all(known[n].exact and known[n].type == self.schema.field(n).type for n in found)
            for found in self._execute(self._unique)
        )

    def unlike(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Those of some columns that are gone, or are read as another type; with what is so now."""
        schema = self.schema
        given = set() if self._override is None else {*self._override.names}
        # As those that are known: each is read as its own type, or as the one that is given.
        there = {
            one.name: self._read_as(
                one, schema.field(one.name).type if one.name in given else one.type
            )
            for one in self._execute(self._columns_of_table)
        }
        return unlike(self._columns, there, names, given)

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The distinct keys that a query returns, without nulls; see :meth:`Source.keys_of`."""
        source = f"({query.strip().rstrip(';')}\n) AS t"
        found = self._execute(lambda c: self._describe(c, source))
        by_name = {column.name: column for column in found}
        if set(columns) <= set(by_name):
            chosen = [by_name[name] for name in columns]
        elif len(found) == len(columns):
            chosen = found
        else:
            raise ColumnError(
                f"the query for the keys {list(columns)} has the columns "
                f"{[column.name for column in found]}: name them as the keys, or select as many"
            )
        types = self._wanted((), columns)
        given = pa.schema([pa.field(c.name, f.type) for c, f in zip(chosen, types, strict=True)])
        chosen = [self._read_as(c, f.type) for c, f in zip(chosen, types, strict=True)]
        batches = list(self._scanned(lambda: self._read(source, chosen, given)))
        table = pa.Table.from_batches(batches, given).rename_columns(list(columns))
        return table.drop_null().group_by(list(columns)).aggregate([]).cast(types)

    @property
    def database(self) -> str | None:
        """The server, the account, and the settings of its sessions."""
        target, address = self.target, self.target.address
        times = target.timeout_s, target.connect_timeout_s
        every = [getattr(address, one.name) for one in fields(address)]
        digest = hashlib.blake2b(repr((every, times)).encode(), digest_size=16).hexdigest()
        return f"{type(self).__name__} {address} {digest}"

    def share_connection(self, other: Source) -> None:
        """Use the connection of another table of the same database."""
        assert isinstance(other, Database)
        self.close()
        self._session = other._session

    def __repr__(self) -> str:
        target = self.target
        if target.table is not None:
            what = f"table={'.'.join(target.table)!r}"
        else:
            query = " ".join((target.query or "").split())
            what = f"query={query if len(query) <= 60 else query[:57] + '...'!r}"
        return scrubbed(f"sql({str(target.address)!r}, {what})", target.address.secrets)

    # Helper methods for the subclasses.

    def _quoted(self, name: str) -> str:
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark

    @property
    def _from(self) -> str:
        if self.target.table is None:
            found = f"({self.target.query}\n) AS t"
        else:
            found = ".".join(map(self._quoted, self.target.table)) + " AS t"
        if not self._null:
            return found
        null = " AND ".join(f"{self._at(name)} IS NULL" for name in self._null)
        return f"(SELECT * FROM {found} WHERE {null}) AS t"

    def _selected(self, columns: Sequence[Column]) -> str:
        """The list after SELECT."""
        return ", ".join(
            f"{column.read.format(self._at(column.name))} AS {self._quoted(column.name)}"
            for column in columns
        )

    def _select(self, columns: Sequence[Column], source: str | None = None) -> str:
        """The query for all rows: of this table or query, or of another one."""
        return f"SELECT {self._selected(columns)} FROM {source or self._from}"

    def _at(self, name: str) -> str:
        return f"t.{self._quoted(name)}"

    def _chosen(self, names: Sequence[str]) -> list[Column]:
        return [self._columns[name] for name in names]

    def _check_keys(self, names: Sequence[str]) -> None:
        for column in self._chosen(names):
            if column.refused is not None:
                raise ColumnError(f"{self!r}: {column.refused}")

    def _converted(self, rows: Any, columns: Sequence[Column], schema: pa.Schema) -> pa.Table:
        """The columns of rows in the schema's types; every text is UTF-8."""
        found = fitted(self._table(rows, columns, schema), schema, repr(self))
        for field, column in zip(schema, found.columns, strict=True):
            try:
                if has_inside(field.type, pa.types.is_string):
                    column.validate(full=True)
                continue
            except pa.ArrowInvalid:
                shown = ""
                if pa.types.is_string(field.type):
                    wrong = column.filter(pc.invert(is_utf8(column)))
                    shown = f" {reprs(wrong[:1].combine_chunks().cast(pa.binary()))[0]}"
            raise DataError(self._no_text(field.name, shown))
        return found

    def _no_value(self, column: Column, reason: str) -> DataError:
        """The error for a value that has no meaning in Spark."""
        return DataError(
            f"{self!r}: the column {column.name!r} ({column.declared}) holds {reason}, which Spark "
            "cannot express: correct the value, or read it with another type, such as "
            f"schema={{{column.name!r}: pyarrow.string()}}"
        )

    def _no_text(self, name: str, shown: str) -> str:
        return (
            f"{self!r}: the column {name!r} holds a text{shown} that is not UTF-8. "
            f"schema={{{name!r}: pyarrow.binary()}} reads its bytes"
        )

    def _read(
        self, source: str, columns: Sequence[Column], schema: pa.Schema
    ) -> Generator[pa.Table, None, None]:
        """All rows of a table or query, through a connection of their own."""
        connection = self._open()
        pieces = self._stream(connection, self._select(columns, source))
        try:
            for piece in pieces:
                yield self._converted(piece, columns, schema)
        finally:
            try:
                connection.close()
            except Exception:  # a driver that first wants the end of the statement
                with contextlib.suppress(Exception):
                    pieces.close()
                    connection.close()

    def _execute(self, work: Callable[[Any], T]) -> T:
        """Work with the connection; every failure is an error of ours."""
        return self._run(lambda: self._with_connection(work), at_once=True)

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        held = self._session.current()
        opened = [] if held is None else [held]

        def run() -> T:
            if not opened:
                opened.append(self._open())
            return work(opened[0])

        try:
            return self._limited(run, fresh=not opened)
        except BaseException as error:
            if isinstance(error, LookupTimeoutError) or not isinstance(error, Exception):
                opened = []  # only the thread that still waits may use it
            raise
        finally:
            self._session.held = (os.getpid(), opened[0]) if opened else None

    def _limited(self, work: Callable[[], T], *, fresh: bool) -> T:
        """Do the work; some drivers override it and raise :class:`LookupTimeoutError`."""
        return work()

    def _fault(self, error: Exception, text: str) -> Exception:
        if self._refused_to_write(error):
            return SourceError(
                f"{text}: bsjoin uses read-only sessions: remove from query= (or from the view) "
                "all that writes, locks rows or advances a sequence"
            )
        if self._is_of_data(error):
            return DataError(text)
        return TransientSourceError(text) if self._may_pass(error) else SourceError(text)

    def _no_file(self, path: str) -> Exception:
        """The error for a file that is not there; another one may be about to take its place."""
        kind = TransientSourceError if self._session.was_open else SourceError
        return kind(
            f"{self!r}: there is no file {path!r} on this machine, or this account may not see it"
        )

    def _absent(self, connection: Any) -> SourceError:
        """The error for a table that does not exist, with suggestions."""
        name = ".".join(self.target.table or ())
        try:
            hint = suggest(name, self._tables(connection)[:1000])
        except Exception:
            hint = ""
        return SourceError(f"{self!r}: there is no table {name!r}. {hint}")
