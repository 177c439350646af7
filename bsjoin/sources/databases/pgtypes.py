"""PostgreSQL's types as Arrow types; types that Spark lacks are read as text.

Of arrays of several dimensions the driver returns the items in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.sources.databases.declared import Column
from bsjoin.sources.types import DECIMAL, decimal_type, sparkable
from bsjoin.values.python_values import reprs

SLICE = "[:]"
TIMES = {"date", "timestamp", "timestamptz"}
_NATIVE = {
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "name", "bytea", *TIMES,
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A column's type, a domain's being that which it is based on.

    Args:
        name: the name of a built-in type; empty for a type of the user's.
        item: the name of an array's items, likewise; None if it is no array.
        modifier: the type modifier, with the digits of numbers; -1 for none.
        dimensions: those declared for an array; 0 if none are.
    """

    name: str
    item: str | None
    modifier: int
    dimensions: int


def types_of(columns: str, source: str) -> str:
    """The query for the kinds of some columns, from the catalog.

    Names do not suffice: a type of the user's may have the name of a built-in one, and one that
    begins with an underscore is not always an array.

    Items of a domain over ``inet`` are told as ``inet``: their text is that of its output, too.
    """
    return f"""
        WITH RECURSIVE seen(place, type, modifier, dimensions) AS (
            SELECT u.place, u.type, -1, 0
            FROM (SELECT ARRAY[{columns}] AS types
                  FROM (SELECT 1) AS one LEFT JOIN {source} ON false) AS x,
                unnest(x.types) WITH ORDINALITY AS u(type, place)
            UNION ALL
            SELECT seen.place, p.typbasetype, p.typtypmod, p.typndims
            FROM seen JOIN pg_type AS p ON p.oid = seen.type WHERE p.typtype = 'd'
        )
        SELECT CASE WHEN p.typnamespace = n.oid THEN p.typname::text ELSE '' END,
            e.oid IS NOT NULL, CASE WHEN e.typnamespace = n.oid THEN e.typname::text
                WHEN e.typoutput = (SELECT i.typoutput FROM pg_type AS i
                    WHERE i.oid = 'pg_catalog.inet'::regtype) THEN 'inet' ELSE '' END,
            seen.modifier::int8, seen.dimensions::int8
        FROM seen JOIN pg_type AS p ON p.oid = seen.type
            JOIN pg_namespace AS n ON n.nspname = 'pg_catalog'
            LEFT JOIN pg_type AS e ON e.oid = p.typelem AND e.typarray = p.oid
        WHERE p.typtype <> 'd' ORDER BY seen.place"""


def reported_modifiers(schema: pa.Schema) -> list[int]:
    """The modifier of every column's type, -1 for none; drivers before version 1.13 report none."""
    return [
        int(bytes((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")).decode().strip("'"))
        for field in schema
    ]


def column_of(field: pa.Field, kind: Kind) -> Column:
    """The column for a type of PostgreSQL: its expression and its Arrow type."""
    name = field.name
    if kind.item is not None:
        dtype, item = pa.string(), "text"
        if kind.item in _NATIVE:
            dtype, item = sparkable(field.type.value_type), kind.item
        elif kind.item == "numeric":
            dtype = DECIMAL
        elif kind.item == "inet":
            item = "text::text"
        for _ in range(max(1, kind.dimensions)):
            dtype = pa.list_(dtype)
        # A slice of all begins at 1; the driver reads no arrays that begin elsewhere.
        declared = f"{kind.item or 'a type of the user'}[]"
        return Column(name, dtype, declared, f"({{}}::{item}[]){SLICE}")
    if kind.name in _NATIVE:
        # An infinite time becomes equal to a finite one.
        return Column(name, sparkable(field.type), kind.name, exact=kind.name not in TIMES)
    if kind.name == "oid":
        return Column(name, pa.int64(), kind.name, "{}::int8")
    if kind.name == "numeric":
        return Column(name, _decimal(kind.modifier), kind.name, "{}::text")
    if kind.name == "inet":  # a cast adds /32 to an address, which no client does
        return Column(name, pa.string(), kind.name, "abbrev({})")
    return Column(name, pa.string(), kind.name or "a type of the user", "{}::text")


def _decimal(modifier: int) -> pa.DataType:
    """The Arrow type of numeric(p, s), from its modifier."""
    if modifier < 4:
        return DECIMAL
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale >= 1024:  # a signed number of eleven bits
        precision, scale = precision + 2048 - scale, 0
    return decimal_type(precision, scale) or DECIMAL


LENGTHS = (
    "(SELECT array_agg(array_length({0}, d)::int8 ORDER BY d) "
    "FROM generate_series(1, array_ndims({0})) AS d)"
)
"""The SQL expression for the lengths of an array's dimensions; null for an empty array."""


def depth_of(dtype: pa.DataType) -> int:
    """Count the lists that are in each other."""
    return 1 + depth_of(dtype.value_type) if pa.types.is_list(dtype) else 0


def nested(rows: pa.ChunkedArray, lengths: pa.ChunkedArray, depth: int) -> pa.ChunkedArray:
    """Lists in lists, of as many dimensions as the type has.

    Of each array there are the items, and the lengths of its dimensions, null for an empty one.

    Raises:
        ValueError: an array has another number of dimensions; the message has its items.
    """
    counts = pc.list_value_length(lengths)
    wrong = pc.fill_null(pc.not_equal(counts, depth), False)
    if pc.any(wrong).as_py():
        items = reprs(rows.filter(wrong)[:1].combine_chunks())[0]
        raise ValueError(f"an array of {counts.filter(wrong)[0]} dimensions with the items {items}")
    if depth == 1:
        return rows
    array = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], rows.type)
    whole = np.zeros((len(array), depth), np.int64)
    filled = pc.is_valid(counts).to_numpy(zero_copy_only=False)
    whole[filled] = pc.list_flatten(lengths).to_numpy().reshape(-1, depth)
    values, before = array.flatten(), np.ones(len(array), np.int64)
    levels = []
    for column in whole.T:
        levels.append(np.repeat(column, before))
        before = before * column
    mask = array.is_null()
    for level in reversed(levels[1:]):
        values = pa.ListArray.from_arrays(_offsets(level), values)
    return pa.chunked_array([pa.ListArray.from_arrays(_offsets(levels[0]), values, mask=mask)])


def _offsets(lengths: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
