"""The plan of a classic DataFrame over other rows: of another version, or those that have changed.

The columns of the leaves keep their identity, so that the operators above need not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from bsjoin.errors import TableMismatchError
from bsjoin.spark import compat
from bsjoin.spark.leaves import listed
from bsjoin.spark.operators import calls_functions_of_users

__all__ = ["through_operators", "with_leaves"]

_OF_ROWS = {"Filter", "Project"}
_NAMES_ONLY = {"SubqueryAlias", "View"}


def with_leaves(df: DataFrame, leaves: Sequence[DataFrame | None]) -> DataFrame | None:
    """A DataFrame that reads something else.

    Args:
        df: the DataFrame.
        leaves: for each leaf of its plan, in order, what takes its place; None: it stays.

    Returns:
        None where that cannot be done: there are subqueries, or a column of a leaf is not there,
        as it is hidden, or came later.

    Raises:
        TableMismatchError: what takes the place of a leaf has another type.
    """
    plan, left = compat.analyzed(df), list(leaves)
    if not plan.subqueriesAll().isEmpty() or plan.collectLeaves().size() != len(left):
        return None
    made = _with_leaves(plan, left, df)
    return None if made is None else compat.dataframe_of(made, df)


def _with_leaves(plan: Any, left: list[DataFrame | None], like: DataFrame) -> Any:
    children = listed(plan.children())
    if not children:
        other = left.pop(0)
        return plan if other is None else _as(plan, other, ())
    made = [_with_leaves(child, left, like) for child in children]
    if any(one is None for one in made):
        return None
    return plan.withNewChildren(compat.catalyst(like).seq(made))


def through_operators(df: DataFrame, rows: DataFrame, beside: Sequence[str]) -> DataFrame | None:
    """The rows of a DataFrame that come of some rows of the only table that it reads.

    Args:
        df: filters and selections of one table.
        rows: rows of the table, and columns beside its own.
        beside: these columns, which the result has, too.

    Returns:
        None where a row of the DataFrame is not a matter of one row of the table alone, or may be
        another one at another time; or a column is not there.

    Raises:
        TableMismatchError: the rows have another type.
    """
    plan, operators = compat.analyzed(df), []
    if not plan.subqueriesAll().isEmpty() or calls_functions_of_users(df):
        return None
    wanted = [one.exprId().id() for one in listed(plan.output())]
    while not plan.children().isEmpty():
        name = plan.getClass().getSimpleName()
        if name in _OF_ROWS:
            if not all(one.deterministic() for one in listed(plan.expressions())):
                return None
            operators.append(plan)
        elif name not in _NAMES_ONLY:
            return None
        plan = plan.children().head()
    made = _as(plan, rows, beside)
    if made is None:
        return None
    spark = compat.catalyst(df)
    extras = made.output().takeRight(len(beside))
    for operator in reversed(operators):
        if operator.getClass().getSimpleName() == "Filter":
            made = operator.withNewChildren(spark.seq([made]))
        else:
            made = spark.project(operator.projectList().appendedAll(extras), made)
    there = {one.exprId().id(): one for one in listed(made.output())}
    if not there.keys() >= {*wanted}:
        return None  # an operator that gives names has given identities, too
    output = spark.seq([there[one] for one in wanted]).appendedAll(extras)
    return compat.dataframe_of(spark.project(output, made), df)


def _as(leaf: Any, rows: DataFrame, beside: Sequence[str]) -> Any:
    """The plan of rows, its columns as those of a leaf, then others; None if they lack one."""
    spark, plan = compat.catalyst(rows), compat.analyzed(rows)
    given = {one.name(): one for one in listed(plan.output())}
    folded = {name.lower(): one for name, one in given.items()}
    items = []
    for column in listed(leaf.output()):
        found = given.get(column.name()) or folded.get(column.name().lower())
        if found is None:
            return None  # where a row was in a file, say
        if not column.dataType().sameType(found.dataType()):
            raise TableMismatchError(
                f"the column {column.name()!r} of the source is "
                f"{found.dataType().simpleString()} now, and was "
                f"{column.dataType().simpleString()}. Queries go on with the rows that they have; "
                "cast it, and start them again"
            )
        items.append(
            spark.alias(
                found, column.name(), column.exprId(), column.qualifier(), spark.none, spark.no_keys
            )
        )
    return spark.project(spark.seq([*items, *(given[name] for name in beside)]), plan)
