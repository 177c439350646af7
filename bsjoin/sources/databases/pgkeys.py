"""Keys that PostgreSQL can hold; others have no row: the server, or its driver, refuses them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.sources.databases.parts import between, encodable

# The range of PostgreSQL's dates, and of its timestamps as far as Arrow can express them, in days
# and microseconds from 1970.
_DAYS = (-2_440_588, 2_145_042_905)
MICROSECONDS = (-210_866_803_200_000_000, (1 << 63) - 1)


def storable(keys: pa.Table, encoding: str | None) -> pa.Table:
    """The keys whose texts, dates and times a database with some encoding can hold."""
    for name in keys.column_names:
        column = keys.column(name)
        if pa.types.is_string(column.type):
            keys = keys.filter(pc.invert(pc.match_substring(column, "\0")))
            if encoding is not None:
                keys = encodable(keys, name, encoding)
        elif pa.types.is_date(column.type):
            keys = keys.filter(between(column.cast(pa.int32()), _DAYS))
        elif pa.types.is_timestamp(column.type):
            keys = keys.filter(between(column.cast(pa.int64()), MICROSECONDS))
    return keys
