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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.planner import connect_references
from bsjoin.planner.connect_references import with_columns_of, with_columns_of_table
from bsjoin.planner.nullability import may_hold
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import Projection
from bsjoin.spark import compat
from bsjoin.spark.session import is_connect

_log = logging.getLogger("bsjoin")
_IDENTITIES = "_bsjoin_identities"


def identified(rows: DataFrame, given: DataFrame | Projection, names: Sequence[str]) -> DataFrame:
    """Rows that a Python worker has returned, their first columns as those that they are.

    They are the direct result of ``mapInArrow``. Their first columns are those of ``given``, or of
    the result that it is derived from, with the same names.

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


def with_table_columns(
    rows: DataFrame, planned: PlannedJoin, between: Sequence[str] = ()
) -> DataFrame:
    """The result of a join, its columns of the table as those of a DataFrame that they are.

    The table's columns are the last ones; ``between`` are others, between the stream's and these.

    Complexity: O(columns of the table) calls of the JVM.
    """
    own = planned.given_names
    return with_columns(rows, planned.stream, planned.given, planned.fields, own, between)


def with_columns(
    rows: DataFrame,
    stream: DataFrame,
    table: DataFrame | None,
    fields: Sequence[T.StructField],
    names: Mapping[str, str | None],
    between: Sequence[str] = (),
    marked: str | None = None,
) -> DataFrame:
    """The same, for rows of a join that is not planned yet.

    ``names`` is what the DataFrame that the table was given as calls its columns; see
    ``PlannedJoin.given_names``. ``marked`` is the last one of ``between``: ``<alias>.*`` has it,
    too, for each alias of the table, in a classic session under its name, else under another one.
    """
    try:
        if is_connect(rows.sparkSession):
            return with_columns_of_table(rows, stream, table, names, between, marked)
        if table is None or not fields:
            return rows
        return _identified_columns(rows, table, fields, names, marked)
    except Exception as error:
        _log.debug("bsjoin: references to %s do not hold for the result: %s", table, error)
        return rows


def with_computed(
    rows: DataFrame, named: DataFrame, names: Sequence[str], value: Column, name: str, behind: int
) -> DataFrame:
    """Rows with a column that is computed of columns by names, and references, that they lack.

    Columns above the rows may then get these references.

    Args:
        rows: the rows.
        named: the rows, and some of their columns once more, under other names: see
            :func:`with_table_columns`.
        names: these names.
        value: over ``named``.
        name: of the new column.
        behind: so many columns of the rows are behind those that are in ``named`` once more.

    Complexity: a few calls of the JVM, for any number of columns.
    """
    try:
        if not is_connect(rows.sparkSession):
            return _computed(rows, named, len(names), value.alias(name), behind)
        connect_references.skip(named, rows)
    except Exception as error:
        _log.debug("bsjoin: references to %s do not hold for the result: %s", names, error)
    return named.select("*", value.alias(name)).drop(*names)


def _computed(
    rows: DataFrame, named: DataFrame, many: int, value: Column, behind: int
) -> DataFrame:
    spark, plan = compat.catalyst(rows), compat.analyzed(rows)
    # Spark would give the columns another identity where one is twice in a plan.
    columns = compat.analyzed(named).output().takeRight(many)
    theirs = plan.output().dropRight(behind).takeRight(many)
    same = spark.map.apply(columns.zip(theirs))
    added = compat.analyzed(named.select(value)).rewriteAttrs(same).projectList()
    return compat.dataframe_of(spark.project(plan.output().appendedAll(added), plan), rows)


def _identified_columns(
    rows: DataFrame,
    table: DataFrame,
    fields: Sequence[T.StructField],
    names: Mapping[str, str | None],
    marked: str | None,
) -> DataFrame:
    spark = compat.catalyst(rows)
    plan, given = compat.analyzed(rows), compat.analyzed(table)
    output, first = plan.output(), len(rows.columns) - len(fields)
    # What the stream has already stays the stream's, as in Spark's own join.
    there = given.outputSet().intersect(plan.outputSet())
    taken = None if there.isEmpty() else there
    known = _identities(table)
    items: list[Any] = []
    qualifiers = []
    for number, field in enumerate(fields, first):
        item, own = output.apply(number), names[field.name]
        # A reference keeps the type that it had, and a version of the table may have another one.
        if own is not None and may_hold(known[own].dtype, field.dataType):
            identity = known[own].identity
            if taken is not None and taken.contains(known[own].attribute):
                identity = item.exprId()
            item = spark.alias(
                item, field.name, identity, known[own].qualifier, spark.none, spark.no_keys
            )
            qualifiers.append(known[own].qualifier)
        items.append(item)
    if marked is not None:
        mark = output.apply(first - 1)
        items = [
            spark.alias(mark, marked, spark.new_identity(), qualifier, spark.none, spark.no_keys)
            for qualifier in dict.fromkeys(qualifiers)
        ] + items
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
