"""Invalidations: which keys of a source all caches must forget, from the driver to every worker.

An invalidation is a file of keys, an entry of a :mod:`bsjoin.storage.versioned_folder` that the
driver and all workers reach. Every host applies each of them once and keeps the last number.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin._clock import now_us
from bsjoin.errors import ArgumentError, StoreError
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.versioned_folder import VersionedFolder

_log = logging.getLogger("bsjoin")

_MAX_BYTES = 1 << 30
_KEPT = 10_000  # who has not read so many for so long forgets all keys
_AT_ONCE = 100  # as many older ones are removed: of a store each takes requests of its own
_STEP_US = 10_000_000  # of the clock, for numbers that have nine digits

# The logs of this application's joins, by the token of their source.
_registered: dict[str, list[InvalidationLog]] = {}


@dataclass(frozen=True)
class InvalidationLog:
    """The invalidations of one join.

    Args:
        location: the folder.
        keys: the key columns, in the order of the join.
        nulls_equal: which of them are null-safe; None (default) if none is.
    """

    location: StorageLocation
    keys: pa.Schema
    nulls_equal: tuple[bool, ...] | None = None

    def forget(self, keys: pa.Table | None) -> int:
        """Publish an invalidation of some keys, or of all; its number."""
        content = b""
        if keys is not None:
            # Without a schema: readers take theirs, and nothing of what the file says of types.
            columns = [keys.column(name).combine_chunks() for name in keys.column_names]
            batch = pa.RecordBatch.from_arrays(columns, schema=keys.schema)
            content = batch.serialize().to_pybytes()
        # After the folder was cleaned the numbers are not those of before.
        number = self._folder.append(content, first=now_us() // _STEP_US)
        if number % _AT_ONCE == 0:
            with contextlib.suppress(OSError, StoreError):  # the next time
                numbers = self._folder.numbers()
                self._folder.sweep(one for one in numbers if one <= number - _KEPT)
        return number

    def last(self) -> int:
        """The number of the newest invalidation; 0 without one."""
        return self._folder.last()

    def since(self, number: int) -> list[tuple[int, pa.Table | None]]:
        """Later invalidations, in order; what cannot be read, or is gone, is one of all keys."""
        numbers = self._folder.numbers()
        last = max(numbers, default=0)
        if last != number:
            # A listing may lack a file that was created before another one that it has.
            numbers = [one for one in self._folder.numbers() if one <= last]
        before = number or min(numbers, default=1) - 1
        later = [one for one in numbers if one > before]
        if len(later) != last - before or len(later) >= _KEPT:
            return [(last, None)]  # some were removed: by us, as old, or by who cleans the folder
        return [(one, self._read(one)) for one in later]

    def _read(self, number: int) -> pa.Table | None:
        try:
            content = self._folder.read(number)
            return _keys_in(content, self.keys) if content else None
        except (ValueError, FileNotFoundError) as error:
            _log.warning(
                "bsjoin: %r in %r is not a list of keys: %s; all keys are forgotten",
                self._folder.name(number), str(self.location), error,
            )  # fmt: skip
            return None

    @property
    def _folder(self) -> VersionedFolder:
        # One folder serves joins by any keys: each kind of them has numbers of its own.
        kind = repr([(field.name, str(field.type)) for field in self.keys]).encode()
        ending = f".{hashlib.blake2b(kind, digest_size=6).hexdigest()}.forget"
        return VersionedFolder(self.location, "", ending, _MAX_BYTES)


def _keys_in(content: bytes, schema: pa.Schema) -> pa.Table:
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(content), schema)
        batch.validate(full=True)
    except (pa.ArrowException, EOFError, OSError) as error:
        raise ValueError(str(error)) from error
    return pa.Table.from_batches([batch])


def register(token: str, log: InvalidationLog) -> None:
    """Let the invalidations of a source reach one more join."""
    _registered.setdefault(token, []).append(log)


def renewed(token: str) -> str:
    """A token for the same source, read in another way: its invalidations reach the joins of both.

    >>> first = "a"
    >>> logs_of(renewed(first)) == logs_of(first)
    True
    """
    new = uuid.uuid4().hex
    _registered[new] = _registered.setdefault(token, [])
    return new


def logs_of(token: str) -> list[InvalidationLog]:
    """The registered logs of a source: one for each join of this application that queries it."""
    return list(_registered.get(token, []))


def key_table(
    keys: Any, schema: pa.Schema, argument: str, nulls_equal: Sequence[bool] | None = None
) -> pa.Table:
    """Keys as a user gives them, as a table; nulls that match nothing are left out.

    That is a table with the key columns; or a sequence of values for one key column, of tuples or
    dicts for several.
    """
    names = schema.names
    if isinstance(keys, pa.Table):
        lacking = [name for name in names if name not in keys.column_names]
        if lacking:
            raise ArgumentError(f"{argument}: the table lacks the key column {lacking[0]!r}")
        columns: list[Any] = [keys.column(name) for name in names]
    else:
        columns = _columns(keys, names, argument)
    try:
        arrays = [_array(c, dtype) for c, dtype in zip(columns, schema.types, strict=True)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"{argument}: the keys are {', '.join(f'{f.name} ({f.type})' for f in schema)}, and "
            f"a value does not fit: {error}"
        ) from error
    table, safe = pa.Table.from_arrays(arrays, schema=schema), nulls_equal or ()
    for place, array in enumerate(arrays):
        if array.null_count and not (safe and safe[place]):
            table = table.filter(pc.is_valid(table.column(place)))
    return table


def _array(values: list[Any] | pa.ChunkedArray, dtype: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        if values.type == dtype:
            return values.combine_chunks()
        values = values.to_pylist()
    if pa.types.is_temporal(dtype):
        number = next((v for v in values if isinstance(v, int | float)), None)
        if number is not None:
            raise ValueError(f"{number!r} is a number, and no date or time")
    array = pa.array(values, dtype)
    if pa.types.is_integer(dtype) and array.to_pylist() != values:
        lost = next(v for v, kept in zip(values, array.to_pylist(), strict=True) if v != kept)
        raise ValueError(f"{lost!r} is no whole number")  # Arrow cuts its fraction off
    return array


def _columns(keys: Any, names: Sequence[str], argument: str) -> list[list[Any]]:
    is_list = hasattr(keys, "__iter__") and not isinstance(keys, str | bytes | Mapping)
    if not is_list or hasattr(keys, "columns"):  # of which a loop would have the names
        raise ArgumentError(f"{argument}={keys!r}: give a list of keys, or a pyarrow.Table")
    rows = []
    for key in keys:
        if isinstance(key, dict):
            if set(names) - set(key):
                raise ArgumentError(f"{argument}: {key!r} lacks one of the key columns {names}")
            rows.append([key[name] for name in names])
        elif len(names) == 1 and not isinstance(key, tuple):
            rows.append([key])
        elif isinstance(key, tuple | list) and len(key) == len(names):
            rows.append(list(key))
        else:
            raise ArgumentError(
                f"{argument}: {key!r} is not a key of {names}: give "
                + ("one value" if len(names) == 1 else f"a tuple of {len(names)} values")
            )
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
