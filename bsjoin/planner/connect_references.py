"""References to columns under Spark Connect, which finds a column by the number of a plan.

``orders["amount"]`` is the number of the plan of ``orders``, and a name. The server looks for the
topmost plan with that number, takes the column of that name, and requires that all plans above
hand it on. So a result gets a projection for each plan that its columns may be referred to by: it
has the number of that plan, and hands all columns on. A name that the plan's column does not have
in the result, or that another column has there, occurs twice in the projection, so that the server
refuses it instead of taking the other column. Unused columns cost nothing: Spark removes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.spark.session import is_case_sensitive
from bsjoin.spark.sql import quoted

__all__ = ["with_columns_of", "with_columns_of_table"]

_BELOW = "_bsjoin_below"
_SAME_ROWS = (
    "CollectMetrics", "Deduplicate", "Drop", "Filter", "Hint", "Limit", "Offset", "Repartition",
    "RepartitionByExpression", "Sample", "Sort", "SubqueryAlias", "Tail", "WithWatermark",
)  # fmt: skip
"""What hands on the columns that its result has."""


@dataclass(frozen=True)
class _Known:
    """A plan, and the columns of it that a result has.

    Args:
        number: of the plan.
        alias: its name, if it is an alias.
        names: of the columns, in the result.
        renamed: those of them that have another name in the plan; by default none.
    """

    number: int
    alias: str | None
    names: frozenset[str]
    renamed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Below:
    """What a result of a join has the columns of, noted on its plan.

    Args:
        plan: of the probe side.
        names: the names of its columns.
        table: plans of the table, newest first.
    """

    plan: Any
    names: frozenset[str]
    table: tuple[_Known, ...] = ()


def with_columns_of(rows: DataFrame, given: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows whose first columns are found by the references that find those of another result.

    Args:
        rows: the rows.
        given: its columns are the first ones of the rows, with the same names.
        names: the names of the columns of the rows.
    """
    return _projected(rows, names, _known(given, given.columns))


def with_columns_of_table(
    rows: DataFrame, stream: DataFrame, table: DataFrame | None, brought: Mapping[str, str | None]
) -> DataFrame:
    """The result of a join whose columns of the table are found by references to the table.

    Args:
        rows: the result.
        stream: the probe side.
        table: the DataFrame that the table was given as; None if it was not.
        brought: the names of its columns in the result, and what the DataFrame calls them; None
            for those that it does not have.
    """
    known: tuple[_Known, ...] = ()
    result = {own: name for name, own in brought.items() if own is not None}
    if table is not None and result:
        renamed = frozenset(name for name, own in brought.items() if name != own)
        known = tuple(
            replace(one, names=frozenset(result[own] for own in one.names), renamed=renamed)
            for one in _known(table, result)
        )
        rows = _projected(rows, [*stream.columns, *brought], known)
    below = _Below(stream._plan, frozenset(stream.columns), known)
    setattr(rows._plan, _BELOW, below)
    return rows


def _projected(rows: DataFrame, names: Sequence[str], known: Iterable[_Known]) -> DataFrame:
    """Projections, one for each plan, the oldest first, and one that has the result's columns."""
    if not _are_distinct(rows, names):
        return rows  # no name would find a column
    there = _numbers_in(rows)
    # A plan that is there twice has no column that is meant by a reference.
    known = tuple(known)
    times = Counter(one.number for one in known)
    columns: dict[str, Column] = {name: _column(rows, name) for name in names}
    for one in reversed(known):
        if one.number in there or times[one.number] > 1:
            continue
        if one.alias is not None:
            rows = rows.select(*columns.values()).alias(one.alias)
            columns |= {name: _column(rows, name) for name in names if name in one.names}
        found = one.names - one.renamed
        others = [F.lit(None).alias(name) for name in names if name not in found]
        rows = rows.select(*columns.values(), *others)
        plan: Any = rows._plan
        plan._root_plan_id = one.number
    return rows.select(*columns.values())


def _column(rows: Any, name: str) -> Column:
    column: Column = rows._col(quoted(name))
    return column


def _are_distinct(rows: DataFrame, names: Sequence[str]) -> bool:
    folded = {name.lower() for name in names}
    if len(folded) == len(names):
        return True
    return len(set(names)) == len(names) and is_case_sensitive(rows.sparkSession)


def _numbers_in(rows: Any) -> set[int]:
    """The numbers of the plans whose columns rows have as they are."""
    plans, found = [rows._plan], set()
    while plans:
        plan = plans.pop()
        if plan is None or type(plan).__name__ == "MapPartitions":
            continue
        found.add(plan._plan_id)
        sides = vars(plan)
        plans += [sides.get("left"), sides["right"]] if "right" in sides else [plan._child]
    return found


def _known(given: Any, names: Iterable[str]) -> Iterator[_Known]:
    """The plans whose columns a result has, newest first."""
    plan, left = given._plan, frozenset(names)
    while plan is not None and left:
        kind = type(plan).__name__
        yield _Known(plan._plan_id, plan._alias if kind == "SubqueryAlias" else None, left)
        below = vars(plan).get(_BELOW)
        if below is not None:
            yield from (replace(one, names=one.names & left) for one in below.table)
            plan, left = below.plan, left & below.names
            continue
        if kind == "Join":
            yield from _known_of_sides(given, plan, left)
            return
        if kind == "Project":
            left = _handed_on(plan._columns, left)
        elif kind == "WithColumns":
            left = _without(left, plan._columnNames)
        elif kind == "WithColumnsRenamed":
            left = _without(left, plan._colsMap.values())
        elif kind not in _SAME_ROWS:
            return
        plan = plan._child


def _known_of_sides(given: Any, join: Any, names: frozenset[str]) -> Iterator[_Known]:
    """The same below a join of Spark, of both sides.

    A column that both have is the left side's, unless that lacks rows.
    """
    from pyspark.sql.connect.proto import Join  # which a classic session need not have

    left, right = (type(given)(side, given.sparkSession) for side in (join.left, join.right))
    shared = frozenset(left.columns) & frozenset(right.columns)
    outer = join.how in (Join.JOIN_TYPE_RIGHT_OUTER, Join.JOIN_TYPE_FULL_OUTER)
    yield from _known(right, names & frozenset(right.columns) - shared)
    yield from _known(left, names & frozenset(left.columns) - (shared if outer else frozenset()))


def _handed_on(columns: Sequence[Any], names: frozenset[str]) -> frozenset[str]:
    """The columns that a projection hands on as they are."""
    found: set[str] = set()
    computed: set[str] = set()
    for column in columns:
        expression = column._expr
        kind = type(expression).__name__
        if kind == "UnresolvedStar" or (kind == "SQLExpression" and expression._expr == "*"):
            found |= names
        elif kind in ("ColumnReference", "SQLExpression"):
            text = expression._unparsed_identifier if kind[0] == "C" else expression._expr
            found |= {name for name in names if text in (name, quoted(name))}
        elif kind == "ColumnAlias":
            computed |= set(expression._alias)
    return frozenset(found - computed)


def _without(names: frozenset[str], others: Iterable[str]) -> frozenset[str]:
    gone = {name.lower() for name in others}
    return frozenset(name for name in names if name.lower() not in gone)
