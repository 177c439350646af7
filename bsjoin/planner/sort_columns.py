"""Sort orders that name columns of a table: found as it spells them, and their types checked."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import KeyTypeError
from bsjoin.planner.columns import Names
from bsjoin.planner.keys import is_binary_collation
from bsjoin.spark.arrow import not_exchangeable
from bsjoin.values.sort_order import respelled, sort_orders


def sort_columns(
    orders: Iterable[str], schema: T.StructType, table: Names, argument: str
) -> tuple[str, ...]:
    """Sort orders in their normal form, their columns as the table spells them.

    Raises:
        ColumnError: the table has no such column.
        KeyTypeError: a column has no order.
        ArgumentError: a column is named twice.
    """

    def found(given: str) -> str:
        name = table.find(given, argument)
        if not _has_order(schema[name].dataType):
            raise KeyTypeError(
                f"{argument}: the column {name!r} has the type "
                f"{schema[name].dataType.simpleString()}, which bsjoin cannot sort by: maps and "
                "variants have no order, and a collation that is not binary has one of its own. "
                "Cast it, or leave it out"
            )
        return name

    return sort_orders(respelled(orders, found), argument)


def _has_order(dtype: T.DataType) -> bool:
    if isinstance(dtype, T.ArrayType):
        return _has_order(dtype.elementType)
    if isinstance(dtype, T.StructType):
        return all(_has_order(field.dataType) for field in dtype)
    if isinstance(dtype, T.StringType):
        return is_binary_collation(dtype)
    return not_exchangeable(dtype) is None and not isinstance(
        dtype, T.MapType | T.VariantType | T.UserDefinedType
    )
