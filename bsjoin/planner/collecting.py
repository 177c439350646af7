"""The rows that an as-of join finds, as one column: an array of structs of the table's columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import AsOf, Condition
from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.planner.aggregates import ResolvedAggregate
from bsjoin.planner.arguments import JoinCall
from bsjoin.planner.columns import Names
from bsjoin.spark.arrow import not_storable


def collected_as(conditions: Sequence[Condition], call: JoinCall) -> str | None:
    """The name of the array that a join returns; None if it returns rows.

    Raises:
        ArgumentError: it has arguments that exclude an array.
    """
    found = next((one for one in conditions if isinstance(one, AsOf) and one.collect), None)
    if found is None:
        return None
    shown = f"collect={found.collect!r}"
    if not call.conditions:
        shown = f"the table was built with {shown}, and joined"
    if len(conditions) > 1 or call.where is not None:
        other = "other range conditions" if call.where is None else f"where={call.where!r}"
        raise ArgumentError(
            f"{shown} with {other}: the nearest rows are put together as they are found, and a "
            "pair of rows is checked behind that. Give when= without collect, which has a row for "
            "each of the nearest rows that pass, or leave the other rows out of the table"
        )
    if call.select is not None and not list(call.select):
        raise ArgumentError(
            f"{shown} with select=[]: there is no column for the structs of the array. Name one "
            "or more, or leave select out for all"
        )
    return found.collect


def resolved_collection(
    name: str, columns: Sequence[str], table: T.StructType, stream: Names
) -> ResolvedAggregate:
    """The array as a column of the result; its structs have some of the table's columns.

    Raises:
        ColumnError: the name is taken, or there is no column, or one that no struct can have.
    """
    if name in stream:
        raise ColumnError(
            f"collect={name!r}: the stream has a column of that name already. Choose another name"
        )
    if not columns:
        raise ColumnError(
            f"collect={name!r}: the table has no column besides its keys for the structs of the "
            "array. Give select=[...] with one or more of them"
        )
    fields = []
    for column in columns:
        field = table[column]
        array = T.ArrayType(T.StructType([field]), containsNull=False)
        if not_storable(T.StructField(name, array)) is not None:
            raise ColumnError(
                f"collect={name!r}: the column {column!r} has the type "
                f"{field.dataType.simpleString()}, which no struct in an array can have. Leave it "
                "out with select=[...], or cast it"
            )
        fields.append(T.StructField(column, field.dataType, nullable=True, metadata=field.metadata))
    array = T.ArrayType(T.StructType(fields), containsNull=False)
    return ResolvedAggregate(name=name, function="collect", column=None, type=array, wraps=False)
