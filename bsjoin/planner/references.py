"""References to the columns of a join's sides: they hold for its result, as for Spark's own join.

``orders["amount"]``, or ``"o.amount"`` after ``orders.alias("o")``, names an attribute of the plan
of ``orders``, and a join of Spark hands its attributes on. The columns of a stored table, and those
that come back from a Python worker, are new attributes to Spark. So they get the identity of the
columns that they are:

- In a classic session, the attributes themselves.
- Under Spark Connect, projections by which the server finds them:
  :mod:`bsjoin.planner.connect_references`.

Where a private member of Spark that this needs is missing (:mod:`bsjoin.spark.compat`), the columns
stay new ones, and a debug message in the log says so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.planner.connect_references import with_columns_of, with_columns_of_table
from bsjoin.planner.nullability import may_hold
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import Projection
from bsjoin.spark import compat
from bsjoin.spark.session import is_connect

__all__ = ["identified", "with_table_columns"]

_log = logging.getLogger("bsjoin")
_IDENTITIES = "_bsjoin_identities"


def identified(rows: DataFrame, given: DataFrame | Projection, names: Sequence[str]) -> DataFrame:
    """Rows that a Python worker has returned, their first columns as those that they are.

    Args:
        rows: the direct result of ``mapInArrow``.
        given: its columns, or those of the result that it is derived from, are the first ones of
            the rows, with the same names.
        names: the names of the columns of the rows.

    Complexity: a few calls of the JVM, for any number of columns.
    """
    try:
        if isinstance(given, DataFrame) and is_connect(rows.sparkSession):
            return with_columns_of(rows, given, names)
        return _mapped(rows, given)
    except Exception as error:
        _log.debug("bsjoin: references to %s do not hold for the result: %s", names, error)
        return rows


def _mapped(rows: DataFrame, given: DataFrame | Projection) -> DataFrame:
    plan = compat.analyzed(rows)
    below = given.plan if isinstance(given, Projection) else compat.analyzed(given)
    known = below.output()
    made = compat.catalyst(rows).map_in_arrow(
        plan.functionExpr(),
        known.appendedAll(plan.output().drop(known.size())),
        plan.child(),
        plan.isBarrier(),
        plan.profile(),
    )
    return compat.dataframe_of(made, rows)


def with_table_columns(rows: DataFrame, planned: PlannedJoin) -> DataFrame:
    """The result of a join, its columns of the table as those of a DataFrame that they are.

    Args:
        rows: the result; the table's columns are the last ones.
        planned: the join.

    Complexity: O(columns of the table) calls of the JVM.
    """
    try:
        if is_connect(rows.sparkSession):
            return with_columns_of_table(rows, planned.stream, planned.given, planned.given_names)
        if planned.given is None or not planned.fields:
            return rows
        return _identified_columns(rows, planned.given, planned)
    except Exception as error:
        _log.debug("bsjoin: references to %s do not hold for the result: %s", planned.given, error)
        return rows


def _identified_columns(rows: DataFrame, table: DataFrame, planned: PlannedJoin) -> DataFrame:
    spark = compat.catalyst(rows)
    plan, given = compat.analyzed(rows), compat.analyzed(table)
    output, first = plan.output(), len(rows.columns) - len(planned.fields)
    # What the stream has already stays the stream's, as in Spark's own join.
    there = given.outputSet().intersect(plan.outputSet())
    taken = None if there.isEmpty() else there
    known, names = _identities(table), planned.given_names
    items = []
    for number, field in enumerate(planned.fields, first):
        item, own = output.apply(number), names[field.name]
        # A reference keeps the type that it had, and a version of the table may have another one.
        if own is not None and may_hold(known[own].dtype, field.dataType):
            identity = known[own].identity
            if taken is not None and taken.contains(known[own].attribute):
                identity = item.exprId()
            item = spark.alias(
                item, field.name, identity, known[own].qualifier, spark.none, spark.no_keys
            )
        items.append(item)
    projected = output.take(first).appendedAll(spark.seq(items))
    return compat.dataframe_of(spark.project(projected, plan), rows)


@dataclass(frozen=True)
class _Identity:
    """A column of a DataFrame as Spark knows it."""

    dtype: T.DataType
    attribute: Any
    identity: Any
    qualifier: Any


def _identities(table: DataFrame) -> dict[str, _Identity]:
    """The columns of a DataFrame by name."""
    known: dict[str, _Identity] | None = vars(table).get(_IDENTITIES)
    if known is None:
        output = compat.analyzed(table).output()
        attributes = [output.apply(place) for place in range(output.size())]
        known = {
            field.name: _Identity(
                field.dataType, attribute, attribute.exprId(), attribute.qualifier()
            )
            for field, attribute in zip(table.schema, attributes, strict=True)
        }
        setattr(table, _IDENTITIES, known)
    return known
