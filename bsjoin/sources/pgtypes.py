"""PostgreSQL's types as Arrow types; types that Spark lacks are read as text."""

from __future__ import annotations

import pyarrow as pa

from bsjoin.sources.dialect import Column
from bsjoin.sources.types import DECIMAL, decimal_type, sparkable

__all__ = ["column_of", "reported_types"]

_NATIVE = {
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "name", "bytea",
    "date", "timestamp", "timestamptz",
}  # fmt: skip


def reported_types(schema: pa.Schema) -> list[tuple[str, int]] | None:
    """Name and modifier of every column's type; None for drivers before version 1.13."""
    kinds = []
    for field in schema:
        metadata = field.metadata or {}
        if b"POSTGRESQL:type" not in metadata:
            return None
        kind = bytes(metadata[b"POSTGRESQL:type"]).decode().strip("'")
        modifier = bytes(metadata.get(b"POSTGRESQL:typmod", b"-1")).decode().strip("'")
        kinds.append((kind, int(modifier)))
    return kinds


def column_of(field: pa.Field, kind: str, modifier: int) -> Column:
    """The column for a type of PostgreSQL: its expression and its Arrow type.

    Args:
        field: the field that the driver reports.
        kind: the type's name in the catalog; arrays have a leading underscore.
        modifier: the type modifier, with the digits of numbers; -1 for none.
    """
    if kind in _NATIVE:
        return Column(field.name, sparkable(field.type), kind)
    if kind == "oid":
        return Column(field.name, pa.int64(), kind, "{}::int8")
    if kind == "numeric":
        return Column(field.name, _decimal(modifier), kind, "{}::text")
    if kind.startswith("_"):
        if kind[1:] in _NATIVE:
            return Column(field.name, sparkable(field.type), kind)
        item = DECIMAL if kind == "_numeric" else pa.string()
        return Column(field.name, pa.list_(item), kind, "{}::text[]")
    return Column(field.name, pa.string(), kind, "{}::text")


def _decimal(modifier: int) -> pa.DataType:
    """The Arrow type of numeric(p, s), from its modifier."""
    if modifier < 4:
        return DECIMAL
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale >= 1024:  # a signed number of eleven bits
        precision, scale = precision + 2048 - scale, 0
    return decimal_type(precision, scale) or DECIMAL
