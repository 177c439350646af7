"""What every source is: a table that stays where it is and answers batches of keys."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources.invalidation import key_table, logs_of

__all__ = ["Source"]


class Source(ABC):
    """A table in a database, a file or a service, looked up by batches of keys.

    The sources of this package are made by :func:`sql`, :func:`parquet`, :func:`redis` and
    :func:`function`. Subclass for anything else: :attr:`schema` and :meth:`lookup` suffice.

    A source travels to the workers by pickle and connects there when it is first asked, so an
    instance keeps connections out of its pickled state. Only one thread asks at a time.

    Attributes:
        max_keys: how many keys one call of :meth:`lookup` may get; the caller splits.
    """

    max_keys: int = 10_000

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's columns, keys included, in types that Spark knows."""

    @abstractmethod
    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some keys, by one query.

        Args:
            keys: the distinct keys, under the table's column names, in exactly the types of
                :attr:`schema`; 1 to :attr:`max_keys` rows, no null.
            columns: the columns wanted besides the keys; None for all.

        Returns:
            The key columns and the wanted ones (more do no harm), in exactly the types of
            :attr:`schema`: every row of every key asked for, in any order. Rows of other keys
            are ignored (a collation that is not binary may bring some).

        Raises:
            BSJoinError: asking again cannot help.
            Exception: anything else counts as a fault that may pass; the caller asks again.
        """

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, for a full cache; the columns in the given order and the schema's types."""
        raise SourceError(
            f"{self!r} cannot be read whole, only looked up: use cache=bsjoin.Incremental(...)"
        )

    @property
    def can_scan(self) -> bool:
        """Whether :meth:`scan` is there."""
        return type(self).scan is not Source.scan

    def size(self) -> int | None:
        """About how many rows there are; None where that is not known cheaply."""
        return None

    def is_unique(self, columns: Sequence[str]) -> bool:
        """Whether the source itself guarantees that these columns are a key."""
        return False

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The keys that a query yields, for a warm-up: as the keys of :meth:`lookup`."""
        raise SourceError(f"{self!r} takes no queries: give the keys to warm up with as a list")

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Give back connections; the next call opens new ones."""

    def invalidate(self, keys: Any) -> None:
        """Let every join of this application that asks this source forget some keys.

        Workers of this machine apply it before their next Arrow batch, others within a second if
        the join was given ``Incremental(invalidation_log=...)``. Look-ups under way are answered
        and not kept.

        Args:
            keys: a list of values for one key column; of tuples (in the order of ``on``) or
                dicts for several; or a ``pyarrow.Table``.

        Raises:
            ArgumentError: no join asks this source, or a key does not have the columns' types.
        """
        for invalidation_log in self._joins():
            invalidation_log.forget(key_table(keys, invalidation_log.keys, "keys"))

    def invalidate_all(self) -> None:
        """Let every join of this application that asks this source forget all keys."""
        for invalidation_log in self._joins():
            invalidation_log.forget(None)

    def _joins(self) -> list[Any]:
        found = logs_of(self.token)
        if not found:
            raise ArgumentError(
                f"no incremental join of this application asks {self!r}: there is nothing to "
                "forget. Call this on the source that was given to bsjoin.join"
            )
        return found
