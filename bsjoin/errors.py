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
        ├── TableNotFoundError          the path holds no table
        ├── TableMismatchError          the table was built for other keys or columns
        ├── DamagedTableError           a file differs from what was written
        ├── VersionNotFoundError        the requested version was vacuumed
        ├── StaleTableError             the table was not refreshed within max_staleness
        ├── StoreAccessError            the path cannot be created, read or written
        └── StoreFullError              no space left for a table, or for copies of one
    NotFollowedWarning (UserWarning)    a join reads once what Spark reads in each micro-batch
    NotReportedWarning (UserWarning)    figures of joins in foreachBatch stay on the Connect server

Each message names the value, the rule and what to do. An error raised while a query runs reaches
the driver inside one of Spark's; :func:`cause_of` finds it there.
"""

from __future__ import annotations

import difflib
import importlib
import re
import warnings
from collections.abc import Iterable, Iterator
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
    "NotFollowedWarning",
    "NotReportedWarning",
    "SourceError",
    "StaleTableError",
    "StoreAccessError",
    "StoreError",
    "StoreFullError",
    "TableMismatchError",
    "TableNotFoundError",
    "VersionNotFoundError",
    "WorkerEnvironmentError",
    "cause_of",
]

_RENAMED = {
    "NotATableError": "TableNotFoundError",
    "OtherKeysError": "TableMismatchError",
    "VersionGoneError": "VersionNotFoundError",
}
_RAISED = re.compile(r"\b(bsjoin(?:\.\w+)+)\.(\w+): ")
_END = re.compile(
    r"\n\s*at |\n(?:\n?Traceback |\n?During handling |\n?The above exception |\n?Driver stacktrace:"
    r"|\n?JVM stacktrace:|\s*Caused by: |\s*Suppressed: |=== Streaming Query ===)"
)
_STATE = re.compile(r"(?:\s*SQLSTATE: \w{5})+\s*$")
_TRACES = ("_stackTrace", "_stacktrace")
"""Where PySpark's exceptions have the stack trace of the JVM, which may not be in their text."""


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
    """The Python of Spark's workers does not start, or lacks bsjoin in the driver's version.

    Or real-time mode has fewer slots than its source has partitions, of which some were never read.
    """


class StoreError(BSJoinError):
    """The folder of a stored table cannot be used."""


class TableNotFoundError(StoreError):
    """The path does not contain a table that bsjoin has written, or the table was changed.

    A manifest is validated before anything in it is used; the message names the invalid field.
    """


class TableMismatchError(StoreError):
    """The stored table was built for other keys, or lacks a requested column."""


class DamagedTableError(StoreError):
    """A file of the table is missing, differs from its checksum, or has an invalid format."""


class VersionNotFoundError(StoreError):
    """The requested version of the table no longer exists; it was vacuumed."""


class StaleTableError(StoreError):
    """No version of the table is as fresh as ``max_staleness`` asks for."""


class StoreAccessError(StoreError):
    """A path cannot be created, read or written, or other users can write to a private folder."""


class StoreFullError(StoreError):
    """A disk had no space left: for a table that was built, or for copies of one behind a URL.

    An unfinished table is not published.
    """


class NotFollowedWarning(UserWarning):
    """A join reads its table once, where Spark's own join would read it in each micro-batch.

    With ``cache="auto"`` tables that have versions are followed, and there is no warning. Give
    ``cache=bsjoin.Full(refresh=...)``, or join with a ``BatchTable`` and refresh that. Where
    the rows of now are wanted, ignore this class as any warning of Python.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():  # around the call of join
        ...     warnings.simplefilter("ignore", NotFollowedWarning)
    """


class NotReportedWarning(UserWarning):
    """``progress`` has no figures of a query that runs a function for ``foreachBatch`` on Connect.

    The function runs in a process of the server, and Spark tells that process neither the query
    nor its run. Give it as ``foreachBatch(bsjoin.reporting(function))``, which finds them, join the
    stream before ``foreachBatch``, or observe the result inside the function with
    ``pyspark.sql.Observation``. Where the function joins nothing, ignore this class as any warning
    of Python.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():  # around the call of progress
        ...     warnings.simplefilter("ignore", NotReportedWarning)
    """


def __getattr__(name: str) -> Any:
    """An error under the name that it had in earlier releases."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    warnings.warn(f"{name} is called {new} now", DeprecationWarning, stacklevel=2)
    return globals()[new]


def cause_of(exception: BaseException) -> BSJoinError | None:
    r"""The error of bsjoin inside an exception that Spark raises.

    While a query runs, in Spark's Python workers, its generated code or a function for
    ``foreachBatch``, an error of bsjoin ends the job, and Spark raises an exception of its own that
    has the text of all that happened. This reads the error out of it.

    Args:
        exception: what was caught: an exception of PySpark or Py4J, classic or Connect,
            ``StreamingQuery.exception()``, or any other that was raised from one.

    Returns:
        An error of the class that was raised (its public base class for a private one), with the
        same message; ``exception`` itself if it is one. ``None`` if there is none inside.
        ``is_transient`` of a ``SourceError`` that was raised in another process is False.

    Example:
        >>> failed = RuntimeError("failed: bsjoin.errors.SourceError: no answer\n\tat a.B(C)")
        >>> cause_of(failed)
        SourceError('no answer')
    """
    for one in _chain(exception):
        if isinstance(one, BSJoinError):
            return one
    for one in _chain(exception):
        for text in [str(one), *(getattr(one, name, None) or "" for name in _TRACES)]:
            found = _raised(text)
            if found is not None:
                return found
    return None


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised from."""
    left: list[object] = [exception]
    seen: set[int] = set()
    while left:
        one = left.pop(0)
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__, getattr(one, "_cause", None)]


def _raised(text: str) -> BSJoinError | None:
    """The last error of bsjoin in a text of stack traces; others are what it was raised from."""
    for match in reversed([*_RAISED.finditer(text)]):
        raised = _public(*match.groups())
        if raised is not None:
            end = _END.search(text, match.end())
            message = text[match.end() : end.start() if end else len(text)]
            return raised(_STATE.sub("", message).rstrip())
    return None


def _public(module: str, name: str) -> type[BSJoinError] | None:
    """The public class that an error is of; None for one that is none of bsjoin's."""
    try:
        raised = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    bases = raised.__mro__ if isinstance(raised, type) else ()
    return next((base for base in bases if base.__name__ in __all__), None)


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
