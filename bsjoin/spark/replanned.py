"""The plan of a classic DataFrame over other rows: of another version, or those that have changed.

The columns of the leaves keep their identity, so that the operators above need not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.errors import TableMismatchError
from bsjoin.spark import compat
from bsjoin.spark.leaves import listed
from bsjoin.spark.operators import calls_functions_of_users

_OF_ROWS = {"Filter", "Project"}
_NAMES_ONLY = {"SubqueryAlias", "View"}

Other = tuple[DataFrame, Mapping[str, str]]
"""What takes the place of a leaf; and the names that columns have in it, where these are others."""


class MismatchedColumnError(TableMismatchError):
    """A column that a DataFrame uses is gone, or has another type.

    Args:
        text: what is wrong, and what to do.
        column: its name.
    """

    def __init__(self, text: str, column: str):
        super().__init__(text)
        self.column = column


def used_of(df: DataFrame, leaf: Any, names: Collection[str]) -> list[str]:
    """Which of some columns of a leaf a DataFrame uses."""
    used = _used(compat.analyzed(df))
    return [
        str(one.name())
        for one in listed(leaf.output())
        if one.name() in names and one.exprId().id() in used
    ]


def _used(plan: Any) -> set[int]:
    """The identities of the columns that a plan's operators use, or its result has."""
    used = {one.exprId().id() for one in listed(plan.output())}
    plans = [plan]
    while plans:
        one = plans.pop()
        if children := listed(one.children()):  # a leaf refers to nothing
            used |= {column.exprId().id() for column in listed(one.references().toSeq())}
            plans += children
    return used


def _used_of_rows(plan: Any) -> set[int] | None:
    """The same of a plan that filters and selects; None of another one.

    A union goes by places, and what makes rows distinct by all columns.
    """
    names, one = set(), plan
    while len(children := listed(one.children())) == 1:
        names.add(one.getClass().getSimpleName())
        one = children[0]
    return _used(plan) if not children and names <= _OF_ROWS | _NAMES_ONLY else None


def with_leaves(df: DataFrame, leaves: Sequence[Other | None]) -> DataFrame | None:
    """A DataFrame that reads something else in the place of the leaves of its plan, in order.

    A leaf with None stays.

    Returns:
        None where that cannot be done: there are subqueries, or a column that is used is not
        there, as it is hidden, or came later.

    Raises:
        MismatchedColumnError: what takes the place of a leaf has another type.
    """
    plan, left = compat.analyzed(df), list(leaves)
    if not plan.subqueriesAll().isEmpty() or plan.collectLeaves().size() != len(left):
        return None
    made = _with_leaves(plan, left, df, _used_of_rows(plan))
    return None if made is None else compat.dataframe_of(made, df)


def _with_leaves(
    plan: Any, left: list[Other | None], like: DataFrame, used: set[int] | None
) -> Any:
    children = listed(plan.children())
    if not children:
        other = left.pop(0)
        return plan if other is None else _as(plan, *other, (), used)
    made = [_with_leaves(child, left, like, used) for child in children]
    if any(one is None for one in made):
        return None
    return plan.withNewChildren(compat.catalyst(like).seq(made))


def through_operators(
    df: DataFrame, rows: DataFrame, names: Mapping[str, str], beside: Sequence[str]
) -> DataFrame | None:
    """The rows of a DataFrame that come of some rows of the only table that it reads.

    ``df`` is filters and selections of that table. ``names`` are those that columns of the table
    have in ``rows``, where these are others; the result has the columns ``beside``, too.

    Returns:
        None where a row of the DataFrame is not a matter of one row of the table alone, or may be
        another one at another time; or a column is not there.

    Raises:
        MismatchedColumnError: the rows have another type.
    """
    plan, operators = compat.analyzed(df), []
    if not plan.subqueriesAll().isEmpty() or calls_functions_of_users(df):
        return None
    wanted, used = [one.exprId().id() for one in listed(plan.output())], _used_of_rows(plan)
    while not plan.children().isEmpty():
        name = plan.getClass().getSimpleName()
        if name in _OF_ROWS:
            if not all(one.deterministic() for one in listed(plan.expressions())):
                return None
            operators.append(plan)
        elif name not in _NAMES_ONLY:
            return None
        plan = plan.children().head()
    made = _as(plan, rows, names, beside, used)
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


def _as(
    leaf: Any,
    rows: DataFrame,
    names: Mapping[str, str],
    beside: Sequence[str],
    used: set[int] | None,
) -> Any:
    """The plan of rows, its columns as those of a leaf, then others.

    Args:
        leaf: whose columns are wanted.
        rows: the rows.
        names: those that columns have in them, where these are others.
        beside: columns of the rows that come after these.
        used: the identities of the columns that something uses; None: all.

    Returns:
        None if the rows lack a column. One that nothing uses may be gone: it is null then.

    Raises:
        MismatchedColumnError: a column has another type.
    """
    spark, plan = compat.catalyst(rows), compat.analyzed(rows)
    given = {one.name(): one for one in listed(plan.output())}
    folded = {name.lower(): one for name, one in given.items()}
    pairs, nulls = [], {}
    for column in listed(leaf.output()):
        name = names.get(column.name(), column.name())
        found = given.get(name) or folded.get(name.lower())
        is_used = used is None or column.exprId().id() in used
        if not is_used and (found is None or not column.dataType().sameType(found.dataType())):
            nulls[f"bsjoin_{column.exprId().id()}"] = _null(column)
        pairs.append((column, found))
    if nulls:
        plan = compat.analyzed(rows.withColumns(nulls))
        given |= {one.name(): one for one in listed(plan.output())}
    items = []
    for column, there in pairs:
        found = given.get(f"bsjoin_{column.exprId().id()}") or there
        if found is None:
            return None  # where a row was in a file, say
        if not column.dataType().sameType(found.dataType()):
            raise MismatchedColumnError(
                f"the column {column.name()!r} of the source is "
                f"{found.dataType().simpleString()} now, and was "
                f"{column.dataType().simpleString()}. Queries go on with the rows that they have; "
                "cast it, and start them again",
                column.name(),
            )
        items.append(
            spark.alias(
                found, column.name(), column.exprId(), column.qualifier(), spark.none, spark.no_keys
            )
        )
    return spark.project(spark.seq([*items, *(given[name] for name in beside)]), plan)


def _null(column: Any) -> Column:
    """Null, of the type of a column of a plan."""
    return F.lit(None).cast(str(column.dataType().sql()))
