"""Columns that running queries use: noted when a join is planned, asked for before a version."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import DuplicateKeyError, StoreError, TableMismatchError
from bsjoin.spark.replanned import MismatchedColumnError
from bsjoin.spark.session import active_names, any_query_active, is_connect, is_for_a_query
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.uses import RENEWED_EVERY_S, Note, Uses, others


@dataclass
class _Noted:
    """One table, and the columns that joins of this process use."""

    location: StorageLocation
    note: Note
    uses: Uses = field(default_factory=Uses)


_noted: dict[str, _Noted] = {}
_sessions: WeakSet[SparkSession] = WeakSet()
_lock = threading.Lock()
_renewing: threading.Thread | None = None


def note_use(
    spark: SparkSession, location: StorageLocation, columns: Iterable[str], *, unique: bool
) -> bool:
    """Note what a join in a stream uses of a table that may change.

    ``unique`` says that it relies on keys that do not repeat.

    Returns:
        Whether the note was written now; else it was there before.
    """
    global _renewing
    with _lock:
        _sessions.add(spark)
        noted = _noted.get(location.url)
        if noted is None:
            ends = is_for_a_query() or not is_connect(spark)
            noted = _Noted(location, Note(location, ends_with_process=ends))
            _noted[location.url] = noted
        uses = noted.uses | Uses(frozenset(columns), unique)
        is_new = uses != noted.uses or noted.note.is_due
        if is_new:
            noted.uses = uses
            noted.note.write(uses)
        if _renewing is None:
            _renewing = threading.Thread(target=_renew, name="bsjoin-readers", daemon=True)
            _renewing.start()
    return is_new


def _renew() -> None:
    """Write the notes anew while queries run."""
    waiting = threading.Event()
    while not waiting.wait(RENEWED_EVERY_S):
        if _is_running():
            _write_anew()


def _write_anew() -> None:
    """Write the notes anew; a table that was removed does not come back by its note."""
    with _lock:
        for url, noted in list(_noted.items()):
            if _is_there(noted.location):
                noted.note.write(noted.uses)
            else:
                del _noted[url]


def _is_there(location: StorageLocation) -> bool:
    try:
        return bool(versions.numbers(location))
    except (OSError, StoreError):  # which writing says, too
        return True


def _is_running() -> bool:
    """Whether any query of this application runs; all of its joins count as its."""
    with _lock:
        sessions = list(_sessions)
    return any(map(any_query_active, sessions))


def _in_use(location: StorageLocation) -> Uses:
    """The columns of a table that running queries use, of this application and of others."""
    with _lock:
        noted = _noted.get(location.url)
    own = noted.uses if noted is not None and _is_running() else Uses()
    return own | others(location, [] if noted is None else [noted.note.writer])


def check_columns(location: StorageLocation, before: T.StructType, schema: T.StructType) -> None:
    """Refuse a new version that lacks what a running query uses, or has it in another type.

    What the newest version, ``before``, lacks is taken away from nobody.

    Raises:
        TableMismatchError: names the columns of the queries.
    """
    old, new = types_of(before), types_of(schema)
    used = sorted(_in_use(location).columns.intersection(old))
    lacking = [name for name in used if name not in new]
    changed = [name for name in used if name in new and new[name] != old[name]]
    if not lacking and not changed:
        return
    problems = [f"lacks {lacking}"] if lacking else []
    problems += [
        f"has {name!r} as {new[name].simpleString()} instead of {old[name].simpleString()}"
        for name in changed
    ]
    raise TableMismatchError(
        f"the new version of the table in {str(location)!r} {' and '.join(problems)}, and running "
        f"queries{_named()} use the columns {used} of it. Give it these columns in these types, "
        "stop the queries first, or build another table at another path"
    )


def used_by(location: StorageLocation, column: str) -> str:
    """What an error says of a column that running queries use; empty if none does."""
    return f". Running queries{_named()} use it" if column in _in_use(location).columns else ""


@contextlib.contextmanager
def naming_queries(location: StorageLocation) -> Iterator[None]:
    """Let the error of a column of a table's source name the queries that use it."""
    try:
        yield
    except MismatchedColumnError as error:
        raise TableMismatchError(f"{error}{used_by(location, error.column)}") from None


def _named() -> str:
    """The running queries of this application, in brackets; empty if there are none."""
    with _lock:
        sessions = list(_sessions)
    names = sorted({name for session in sessions for name in active_names(session)})
    return f" ({', '.join(names)})" if names else ""


def check_unique(location: StorageLocation, before: int, longest_run: int) -> None:
    """Refuse keys that repeat, where a running query was planned for a table that was unique.

    The most rows of one key are ``before`` in the newest version and ``longest_run`` in the new
    one.

    Raises:
        DuplicateKeyError: they do.
    """
    if before <= 1 < longest_run and _in_use(location).unique:
        raise DuplicateKeyError(
            f"the new version of the table in {str(location)!r} has keys with up to {longest_run} "
            "rows, and a running query was planned when it was declared unique. Remove the "
            "duplicates, stop the queries first, or build another table at another path"
        )


def types_of(schema: T.StructType) -> dict[str, T.DataType]:
    """The types of columns as running queries rely on them, by name."""
    return {column.name: as_nullable(column.dataType) for column in schema.fields}


def as_nullable(dtype: T.DataType) -> T.DataType:
    """The type, every value inside it nullable, its fields without comments."""
    if isinstance(dtype, T.ArrayType):
        return T.ArrayType(as_nullable(dtype.elementType), True)
    if isinstance(dtype, T.MapType):
        return T.MapType(as_nullable(dtype.keyType), as_nullable(dtype.valueType), True)
    if isinstance(dtype, T.StructType):
        return T.StructType(
            [T.StructField(part.name, as_nullable(part.dataType), True) for part in dtype.fields]
        )
    return dtype
