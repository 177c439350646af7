"""The errors that bsjoin raises, one tree under :class:`BSJoinError`.

::

    BSJoinError
    ├── ArgumentError (ValueError)      an argument of a call cannot be used
    │   ├── ColumnError                 a column is missing, doubled or clashes
    │   └── KeyTypeError (TypeError)    key types that the join does not support
    ├── DuplicateKeyError               a table declared unique holds a key twice
    ├── SourceError                     a source cannot be reached, or is not as declared
    │   ├── DataError                   a value does not fit its type, or a key is too long
    │   └── LookupFailedError           a look-up and all its retries failed
    ├── WorkerEnvironmentError          the workers' Python cannot run bsjoin
    └── StoreError                      the stored table cannot be used
        ├── NotATableError              the path holds no table
        ├── OtherKeysError              the table was built for other keys or columns
        ├── DamagedTableError           a file differs from what was written
        ├── VersionGoneError            the requested version was vacuumed
        ├── StaleTableError             the table was not refreshed within max_staleness
        ├── StoreAccessError            the path cannot be created, read or written
        └── StoreFullError              no space left while a table was built

Each message names the value, the rule and what to do. An error raised inside a Spark
worker reaches the driver as Spark's ``PythonException``, which contains the same message.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ArgumentError",
    "BSJoinError",
    "ColumnError",
    "DamagedTableError",
    "DataError",
    "DuplicateKeyError",
    "KeyTypeError",
    "LookupFailedError",
    "NotATableError",
    "OtherKeysError",
    "SourceError",
    "StaleTableError",
    "StoreAccessError",
    "StoreError",
    "StoreFullError",
    "VersionGoneError",
    "WorkerEnvironmentError",
]


class BSJoinError(Exception):
    """The base class of all errors that bsjoin raises."""


class ArgumentError(BSJoinError, ValueError):
    """An argument cannot be used; the message names it, its value and the rule."""


class ColumnError(ArgumentError):
    """A column is missing, occurs twice, or clashes with another name."""


class KeyTypeError(ArgumentError, TypeError):
    """The key columns have types that the join does not support."""


class DuplicateKeyError(BSJoinError):
    """A table that was declared unique has more than one row for a key."""


class SourceError(BSJoinError):
    """A source cannot be reached or read, or its columns are not as declared.

    Attributes:
        is_transient: True where the same call may succeed later, since a connection was lost or
            refused, say; False (default) where something has to be corrected first.
    """

    is_transient = False


class DataError(SourceError):
    """A value in a source cannot be expressed in its column's type, or a key cannot be sent.

    It is of the data, not of the connection: the same query fails again, so it is not retried, and
    the source is not considered down. ``Incremental(on_error="null")`` treats the keys concerned,
    and no others, as not found.

    Attributes:
        keys: a ``pyarrow.Table`` of the keys whose rows have the fault; None (default) if they are
            not known.
    """

    keys: Any = None


class LookupFailedError(SourceError):
    """A look-up in a source and all its retries failed."""


class WorkerEnvironmentError(BSJoinError):
    """The Python of Spark's workers does not start, or lacks bsjoin in the driver's version."""


class StoreError(BSJoinError):
    """The folder of a stored table cannot be used."""


class NotATableError(StoreError):
    """The path does not contain a table that bsjoin has written, or the table was changed.

    A manifest is validated before anything in it is used; the message names the invalid field.
    """


class OtherKeysError(StoreError):
    """The stored table was built for other keys, or lacks a requested column."""


class DamagedTableError(StoreError):
    """A file of the table is missing, differs from its checksum, or has an invalid format."""


class VersionGoneError(StoreError):
    """The requested version of the table no longer exists; it was vacuumed."""


class StaleTableError(StoreError):
    """No version of the table is as fresh as ``max_staleness`` asks for."""


class StoreAccessError(StoreError):
    """A path cannot be created, read or written, or other users can write to a private folder."""


class StoreFullError(StoreError):
    """The disk had no space left while a table was built; the unfinished table is not published."""


def suggest(name: str, choices: Iterable[str]) -> str:
    """A hint for the end of an error message: the names most similar to ``name``, or all names.

    >>> suggest("carier", ["carrier", "origin"])
    "Did you mean 'carrier'?"
    >>> suggest("x", ["carrier", "origin"])
    "There are: 'carrier', 'origin'."
    """
    known = list(choices)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(repr(c) for c in close) + "?"
    if not known:
        return "There are none."
    return "There are: " + ", ".join(repr(c) for c in known) + "."
