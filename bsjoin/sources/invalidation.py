"""Commands from the driver to all workers: which keys of a source are to be forgotten.

A command is a small numbered file in a folder that the driver and all workers reach. It says
once for every host what to do; each host notes the last number it has carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bsjoin.errors import ArgumentError
from bsjoin.store.location import StorageLocation
from bsjoin.store.names import numbers_in

__all__ = ["InvalidationLog", "controls", "key_table", "register"]

_log = logging.getLogger("bsjoin")

_ENDING = ".forget"

# The joins of this application, by the token of their source.
_controls: dict[str, list[InvalidationLog]] = {}


@dataclass(frozen=True)
class InvalidationLog:
    """The commands of one join.

    Args:
        location: the folder.
        keys: the key columns, in the order of the join.
    """

    location: StorageLocation
    keys: pa.Schema

    def forget(self, keys: pa.Table | None) -> int:
        """Give the command to forget some keys, or all; the number of the command."""
        content = b""
        if keys is not None:
            # Without a schema: readers take theirs, and nothing of what the file says of types.
            columns = [keys.column(name).combine_chunks() for name in keys.column_names]
            batch = pa.RecordBatch.from_arrays(columns, schema=keys.schema)
            content = batch.serialize().to_pybytes()
        number = self.last() + 1
        while not self.location.create(_name(number), content):
            number += 1
        return number

    def last(self) -> int:
        """The number of the last command; 0 without one."""
        return max(self._numbers(), default=0)

    def since(self, number: int) -> list[tuple[int, pa.Table | None]]:
        """The commands after some number, in order; one that cannot be read forgets all keys."""
        return [(later, self._read(later)) for later in self._numbers() if later > number]

    def _read(self, number: int) -> pa.Table | None:
        content = self.location.read(_name(number))
        if not content:
            return None
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(content), self.keys)
            batch.validate(full=True)
        except (pa.ArrowException, EOFError, OSError, ValueError) as error:
            _log.warning(
                "bsjoin: %r in %r is not a list of keys: %s; all keys are forgotten",
                _name(number), str(self.location), error,
            )  # fmt: skip
            return None
        return pa.Table.from_batches([batch])

    def _numbers(self) -> list[int]:
        return numbers_in(self.location.names(""), _ENDING)


def _name(number: int) -> str:
    return f"{number:08d}{_ENDING}"


def register(token: str, control: InvalidationLog) -> None:
    """Let the commands for a source reach one more join."""
    _controls.setdefault(token, []).append(control)


def controls(token: str) -> list[InvalidationLog]:
    """The joins of this application that ask a source."""
    return list(_controls.get(token, []))


def key_table(keys: Any, schema: pa.Schema, argument: str) -> pa.Table:
    """Keys as a user gives them, as a table; nulls are left out, for they match nothing.

    Args:
        keys: a table with the key columns; or a sequence of values for one key column, of
            tuples or dicts for several.
        schema: the key columns.
        argument: what an error message calls the keys.

    Raises:
        ArgumentError: a value does not have its column's type.
    """
    names = schema.names
    if isinstance(keys, pa.Table):
        lacking = [name for name in names if name not in keys.column_names]
        if lacking:
            raise ArgumentError(f"{argument}: the table lacks the key column {lacking[0]!r}")
        columns: list[Any] = [keys.column(name).to_pylist() for name in names]
    else:
        columns = _columns(keys, names, argument)
    try:
        arrays = [_array(c, dtype) for c, dtype in zip(columns, schema.types, strict=True)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"{argument}: the keys are {', '.join(f'{f.name} ({f.type})' for f in schema)}, and "
            f"a value does not fit: {error}"
        ) from error
    return pa.Table.from_arrays(arrays, schema=schema).drop_null()


def _array(values: list[Any], dtype: pa.DataType) -> pa.Array:
    array = pa.array(values, dtype)
    if pa.types.is_integer(dtype) and array.to_pylist() != values:
        lost = next(v for v, kept in zip(values, array.to_pylist(), strict=True) if v != kept)
        raise ValueError(f"{lost!r} is no whole number")  # Arrow cuts its fraction off
    return array


def _columns(keys: Any, names: Sequence[str], argument: str) -> list[list[Any]]:
    if isinstance(keys, str | bytes) or not hasattr(keys, "__iter__"):
        raise ArgumentError(f"{argument}={keys!r}: give a list of keys")
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
