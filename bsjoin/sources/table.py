"""What sources have in common that look a table up: its schema, its rows by names, its errors."""

from __future__ import annotations

import contextlib
import copy
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import pyarrow as pa

from bsjoin._secrets import scrubbed
from bsjoin.errors import BSJoinError
from bsjoin.sources.arguments import check_max_keys, check_unique
from bsjoin.sources.protocol import Source
from bsjoin.sources.session import Session
from bsjoin.sources.transient import TransientSourceError, run_translated
from bsjoin.sources.types import as_schema, overridden, wanted_columns

T = TypeVar("T")

Declared = tuple[str, pa.DataType | None, str]
"""A column: name, Spark's type (None: it has none), and what the table calls the type."""


class Table(Source):
    """A table that is described once; what is held of it in a process is in ``_session``."""

    takes_any_text = True  # look-ups leave out what the table cannot hold
    takes_null_keys = True

    def __init__(
        self,
        schema: pa.Schema | Mapping[str, pa.DataType] | None,
        unique: bool | None,
        max_keys: int,
        secrets: tuple[str, ...],
    ) -> None:
        check_unique(unique)
        check_max_keys(max_keys)
        super().__init__()
        self.max_keys = max_keys
        self._override = None if schema is None else as_schema(schema)
        self._is_unique, self._secrets = unique, secrets
        self._schema: pa.Schema | None = None
        self._session = Session()

    # Implemented by each subclass.

    @abstractmethod
    def _declared(self) -> Sequence[Declared]:
        """The columns of the table."""

    @abstractmethod
    def _found(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """The rows of some keys."""

    @abstractmethod
    def _pieces(self, wanted: pa.Schema) -> Generator[pa.Table | pa.RecordBatch, None, None]:
        """All rows, some at a time."""

    @abstractmethod
    def _fault(self, error: Exception, text: str) -> Exception:
        """The error of ours for one of the library; the text of it has no secret."""

    # Implemented here for all of them.

    @property
    def schema(self) -> pa.Schema:
        """The table's columns; read once, and pickled with the source."""
        if self._schema is None:
            declared = self._run(self._declared, at_once=True)
            self._schema = overridden(declared, self._override, repr(self))
        return self._schema

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some keys; see :meth:`Source.lookup`."""
        wanted = self._wanted(columns, keys.column_names)
        return self._run(lambda: self._found(keys, wanted))

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows as they are at one time; see :meth:`Source.scan`."""
        wanted = self._wanted(columns, columns or ())
        return self._scanned(lambda: self._pieces(wanted))

    def _wanted(self, columns: Sequence[str] | None, first: Sequence[str]) -> pa.Schema:
        """The schema of some columns, each once."""
        names = wanted_columns(self.schema, first, columns, repr(self))
        return pa.schema([self.schema.field(name) for name in names])

    def _scanned(
        self, read: Callable[[], Generator[pa.Table | pa.RecordBatch, None, None]]
    ) -> Iterator[pa.RecordBatch]:
        with contextlib.closing(self._run(read, at_once=True)) as pieces:
            while (rows := self._run(lambda: next(pieces, None), at_once=True)) is not None:
                yield from rows.to_batches() if isinstance(rows, pa.Table) else (rows,)

    def is_unique(self, columns: Sequence[str]) -> bool:
        """What ``unique=`` says."""
        return bool(self._is_unique)

    def copied(self) -> Self:
        """The same table with nothing open."""
        found = copy.copy(self)
        found._session = Session()
        return found

    def close(self) -> None:
        """Close what is open, or forget it; the next call opens it again."""
        self._session.close()

    def _run(self, work: Callable[[], T], *, at_once: bool = False) -> T:
        """Run some work; its failure is an error of ours, see :func:`run_translated`."""
        return run_translated(work, self._translated, self.close, at_once=at_once)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, BSJoinError):
            return error
        if isinstance(error, TransientSourceError):
            return type(error)(scrubbed(str(error), self._secrets))
        return self._fault(error, scrubbed(f"{self!r}: {self._message(error)}", self._secrets))

    def _message(self, error: Exception) -> str:
        """The text of the library's error, in a line."""
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
