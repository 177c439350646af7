"""The interface of a source: an external table that is looked up by batches of keys."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources.invalidation import key_table, logs_of


class Source(ABC):
    """A table in a database, a file or a service, looked up by batches of keys.

    :func:`sql`, :func:`parquet`, :func:`redis` and :func:`function` create the sources of this
    package. Subclass it for other systems: implement :attr:`schema` and :meth:`lookup`.

    A source is pickled, sent to the workers and connects there at its first look-up, so its pickled
    state must not contain connections. Only one thread uses it at a time.

    Attributes:
        max_keys: the maximum number of keys per call of :meth:`lookup`; the caller splits larger
            batches. Default 10,000.
        takes_any_text: whether :meth:`lookup` takes keys with text that is not UTF-8, which Spark's
            strings may hold. Default False: such a key has no row, and is not looked up.
        takes_null_keys: whether :meth:`lookup` takes keys that are null, and returns the rows in
            which they are, as joins with ``nulls_equal=`` need it. Default False: such a join is an
            error at the call.

    Example:
        >>> class Squares(Source):
        ...     schema = pa.schema([("n", pa.int64()), ("square", pa.int64())])
        ...
        ...     def lookup(self, keys, columns=None):
        ...         rows = [{"n": n, "square": n * n} for n in keys["n"].to_pylist()]
        ...         return pa.Table.from_pylist(rows, schema=self.schema)
        >>> Squares().lookup(pa.table({"n": [3]})).to_pylist()
        [{'n': 3, 'square': 9}]
    """

    max_keys: int = 10_000
    takes_any_text: bool = False
    takes_null_keys: bool = False

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's columns, key columns included, in types that Spark supports."""

    @abstractmethod
    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some keys, by one query. Workers call it; a join needs no other method.

        Args:
            keys: the distinct keys, with the table's column names and exactly the types of
                :attr:`schema`; 1 to :attr:`max_keys` rows, without nulls unless
                :attr:`takes_null_keys`.
            columns: the columns to return besides the keys. None (default): all columns.

        Returns:
            The key columns and the requested columns, in exactly the types of :attr:`schema`: every
            row of every key, in any order. Additional columns and rows of other keys are ignored (a
            collation that is not binary may return some).

        Raises:
            DataError: a value does not fit its column's type. With ``on_error="null"`` the caller
                looks the keys up in smaller parts, so that only those concerned have no row.
            BSJoinError: another permanent error, which is not retried.
            UnicodeError, OverflowError, pyarrow.ArrowInvalid: the same as a ``DataError``, as are
                Arrow's errors about types.
            Exception: any other error counts as transient; the caller retries.
        """

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, for a full cache (``cache=Full(...)``). Optional.

        Args:
            columns: the columns to return. None (default): all columns.

        Yields:
            Record batches of the columns in the given order, in exactly the types of
            :attr:`schema`; rows in any order.

        Raises:
            SourceError: the source supports look-ups only, or cannot be read.

        Complexity: O(rows) time; the memory of one batch.

        Example:
            >>> import contextlib, sqlite3, tempfile
            >>> from bsjoin.sources import sql
            >>> folder = tempfile.TemporaryDirectory()
            >>> with contextlib.closing(sqlite3.connect(f"{folder.name}/shop.db")) as database:
            ...     with database:
            ...         database.execute("CREATE TABLE planes (tail TEXT, seats INTEGER)")
            ...         database.execute("INSERT INTO planes VALUES ('N101', 180)")
            >>> planes = sql(f"sqlite:///{folder.name}/shop.db", table="planes")
            >>> [batch.to_pylist() for batch in planes.scan(["seats", "tail"])]
            [[{'seats': 180, 'tail': 'N101'}]]
            >>> folder.cleanup()
        """
        raise SourceError(
            f"{self!r} supports look-ups only, not scans: use cache=bsjoin.Incremental(...)"
        )

    @property
    def can_scan(self) -> bool:
        """Whether the source implements :meth:`scan`."""
        return type(self).scan is not Source.scan

    def size(self) -> int | None:
        """The approximate number of rows; None (as here) if it is not known cheaply.

        ``cache="auto"`` uses it to choose between a full and an incremental cache.
        """
        return None

    def is_unique(self, columns: Sequence[str]) -> bool:
        """Whether every key in these columns has at most one row; False here.

        Args:
            columns: names of key columns, in any order.

        Raises:
            ColumnError: a column does not exist (sources that check it).
        """
        return False

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The keys that a query returns, for ``Incremental(warm_up=query)``. Optional.

        Args:
            query: a query in the source's language.
            columns: the names of the key columns.

        Returns:
            The distinct keys without nulls, in the form of the keys of :meth:`lookup`.

        Raises:
            SourceError: the source does not support queries, as here, or the query fails.
        """
        raise SourceError(
            f"{self!r} does not support queries: give the keys of the warm-up as a list"
        )

    @property
    def database(self) -> str | None:
        """The database that is connected to; None (as here) for a connection of its own.

        In a worker the sources with the same text share one connection, one at a time. It names
        all that the connection depends on, without a password.
        """
        return None

    def share_connection(self, other: Source) -> None:  # noqa: B027
        """Use the connection of another source with the same :attr:`database` from now on."""

    def table_changes(self) -> Any:
        """What has changed in the table, for ``Full(refresh="on_commit")``.

        Returns:
            None (as here) if that cannot be asked; tables of PostgreSQL and of lakes have it.
        """
        return None

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Close connections; the next call opens new ones."""

    def invalidate(self, keys: Any) -> None:
        """Invalidate some keys in the caches of all joins of this application on this source.

        Workers on this machine apply it before their next Arrow batch, others within a second if
        the join has ``Incremental(invalidation_log=...)``. Results of look-ups in progress are used
        but not cached.

        Args:
            keys: a list of values for one key column; of tuples (in the order of ``on``) or
                dicts for several; or a ``pyarrow.Table``. A time without a zone is in UTC.

        Raises:
            ArgumentError: no join uses this source, or a key does not have the columns' types.
        """
        for invalidation_log in self._joins():
            safe = invalidation_log.nulls_equal
            invalidation_log.forget(key_table(keys, invalidation_log.keys, "keys", safe))

    def invalidate_all(self) -> None:
        """Invalidate all keys; see :meth:`invalidate`.

        Raises:
            ArgumentError: no join uses this source.
        """
        for invalidation_log in self._joins():
            invalidation_log.forget(None)

    def _joins(self) -> list[Any]:
        found = logs_of(self.token)
        if not found:
            raise ArgumentError(
                f"no incremental join of this application uses {self!r}: there is nothing to "
                "invalidate. Call this on the source object that was given to bsjoin.join"
            )
        return found
