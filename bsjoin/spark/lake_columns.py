"""The columns of tables of lakes, with the numbers by which the formats tell them apart."""

from __future__ import annotations

import json
import logging
from typing import Any

from pyspark.sql import DataFrame

from bsjoin.spark import compat
from bsjoin.spark.leaves import CatalogTable, DeltaTable, Leaf, is_iceberg, is_metadata, leaves_of
from bsjoin.storage.lake_columns import DELTA_NUMBER, Columns

_log = logging.getLogger("bsjoin")


def columns_of(leaf: Leaf) -> Columns:
    """The columns that a table of a lake has now, or at the version that was asked for.

    None for other leaves, and where Spark does not show them.
    """
    try:
        if isinstance(leaf, DeltaTable):
            metadata = leaf.snapshot().metadata()
            fields = json.loads(str(metadata.schemaString()))["fields"]
            numbers = {one["name"]: one["metadata"].get(DELTA_NUMBER) for one in fields}
            return Columns(str(metadata.id()), numbers)
        table = _iceberg(leaf)
        return Columns() if table is None else _of_schema(table, table.schema())
    except compat.failures() as error:
        _log.debug("bsjoin: the columns of %s are known by their names alone: %s", leaf.name, error)
        return Columns()


def columns_at(leaf: Leaf, version: str, pinned: DataFrame) -> Columns:
    """The columns that a table had at a version, which ``pinned`` reads; as :func:`columns_of`."""
    table = _iceberg(leaf)
    if table is None:
        return columns_of(leaves_of(pinned)[0])
    number = table.snapshot(int(version)).schemaId()
    return _of_schema(table, table.schema() if number is None else table.schemas().get(number))


def _iceberg(leaf: Leaf) -> Any:
    """A table of Iceberg, in the JVM; None for another leaf."""
    if not (isinstance(leaf, CatalogTable) and is_iceberg(leaf.node.table())):
        return None
    table = leaf.newest()
    return None if table is None or is_metadata(table) else table.table()


def _of_schema(table: Any, schema: Any) -> Columns:
    numbers = {str(column.name()): int(column.fieldId()) for column in schema.columns()}
    return Columns(str(table.uuid()), numbers)
