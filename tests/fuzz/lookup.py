"""The function behind a callback source; the workers import it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.fuzz.values import equality


@dataclass(frozen=True)
class Lookup:
    """Finds the rows of keys, the last one first."""

    rows: pa.Table

    def __call__(self, keys: pa.Table) -> pa.Table:
        """The rows of some keys."""
        known: dict[Any, list[int]] = {}
        for number, key in enumerate(_keys(self.rows.select(keys.column_names))):
            known.setdefault(key, []).append(number)
        found = [number for key in _keys(keys) for number in known.get(key, [])]
        return self.rows.take(pa.array(found[::-1], pa.int64()))


def _keys(rows: pa.Table) -> list[Any]:
    # What is null is asked for only where null equals null.
    return [
        tuple(None if value is None else equality(value) for value in key)
        for key in zip(*map(plain, rows.columns), strict=True)
    ]


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column in their Python form."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_date(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    return list(column.to_pylist())
