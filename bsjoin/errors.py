"""The errors that bsjoin raises, one tree under :class:`BSJoinError`.

::

    BSJoinError
    ├── ArgumentError (ValueError)      an argument of a call cannot be used
    │   ├── ColumnError                 a column is missing, doubled or clashes
    │   └── KeyTypeError (TypeError)    key types that the join does not support
    ├── DuplicateKeyError               a table declared unique holds a key twice
    ├── SourceError                     a source cannot be reached, or is not what it should be
    │   └── LookupFailedError           a look-up failed, its repetitions too
    ├── WorkerEnvironmentError          the workers' Python cannot run bsjoin
    └── StoreError                      the stored table cannot be used
        ├── NotATableError              the path holds no table
        ├── OtherKeysError              the table was built for other keys or columns
        ├── DamagedTableError           a segment is not what was written
        ├── VersionGoneError            the version that is asked for was vacuumed
        ├── StoreAccessError            the path cannot be created, read or written
        └── StoreFullError              no space left while a table was built

Each message gives the value, the rule and what to do. An error raised inside a Spark
worker reaches the driver as Spark's ``PythonException`` with the same message in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "BSJoinError",
    "ColumnError",
    "DamagedTableError",
    "DuplicateKeyError",
    "KeyTypeError",
    "LookupFailedError",
    "NotATableError",
    "OtherKeysError",
    "SourceError",
    "StoreAccessError",
    "StoreError",
    "StoreFullError",
    "VersionGoneError",
    "WorkerEnvironmentError",
]


class BSJoinError(Exception):
    """The root of every error that bsjoin raises on purpose."""


class ArgumentError(BSJoinError, ValueError):
    """An argument cannot be used; the message names it, its value and the rule."""


class ColumnError(ArgumentError):
    """A column is not there, is there twice, or clashes with another name."""


class KeyTypeError(ArgumentError, TypeError):
    """The key columns have types that the join does not support."""


class DuplicateKeyError(BSJoinError):
    """A table that was declared unique holds one key in more than one row."""


class SourceError(BSJoinError):
    """A source cannot be reached or read, or its columns are not what they should be."""


class LookupFailedError(SourceError):
    """A look-up in a source failed, and so did its repetitions."""


class WorkerEnvironmentError(BSJoinError):
    """The Python of Spark's workers does not start, or lacks bsjoin in the driver's version."""


class StoreError(BSJoinError):
    """The folder of a stored table cannot be used."""


class NotATableError(StoreError):
    """The path does not hold a table that bsjoin has written, or somebody has changed it.

    A manifest is checked before anything in it is used; the message names what is wrong.
    """


class OtherKeysError(StoreError):
    """The stored table was built for other keys, or lacks a column that is asked for."""


class DamagedTableError(StoreError):
    """A file of the table is missing, differs from its checksum, or is not what bsjoin writes."""


class VersionGoneError(StoreError):
    """The table version that is asked for is no longer there."""


class StoreAccessError(StoreError):
    """The process cannot create, read or write a path; or others may write to a private one."""


class StoreFullError(StoreError):
    """The disk had no space left while a table was built; nothing of it is visible."""


def suggest(name: str, choices: Iterable[str]) -> str:
    """Say which names come near to ``name``, for the end of an error message.

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
