"""The function behind a callback source; the workers import it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.fuzz.values import equality

__all__ = ["Lookup", "plain"]


@dataclass(frozen=True)
class Lookup:
    """Finds the rows of keys, the last one first.

    Args:
        rows: the table.
    """

    rows: pa.Table

    def __call__(self, keys: pa.Table) -> pa.Table:
        """The rows of some keys."""
        known: dict[Any, list[int]] = {}
        for number, key in enumerate(_keys(self.rows.select(keys.column_names))):
            known.setdefault(key, []).append(number)
        found = [number for key in _keys(keys) for number in known.get(key, [])]
        return self.rows.take(pa.array(found[::-1], pa.int64()))


def _keys(rows: pa.Table) -> list[Any]:
    found: list[Any] = []
    for number, key in enumerate(zip(*map(plain, rows.columns), strict=True)):
        missing = any(value is None for value in key)
        found.append((number, None) if missing else tuple(map(equality, key)))
    return found


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column in their Python form."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_date(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    return list(column.to_pylist())
