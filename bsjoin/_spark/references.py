"""References to the columns of a join's sides: they hold for its result, as for Spark's own join.

``orders["amount"]``, or ``"o.amount"`` after ``orders.alias("o")``, names an attribute of the plan
of ``orders``, and a join of Spark hands its attributes on. Columns that come back from a Python
worker, or that a chain of joins in the JVM reads once more, are new attributes to Spark. So they
get the identity of the columns that they are:

- In a classic session, the attributes themselves. All members that are private in Spark are used
  here and in :mod:`bsjoin._spark.projections`; where one is missing, the columns stay new ones, and
  a debug message in the log says so.
- Under Spark Connect an attribute is found by the number of a plan and a name: the result gets
  projections that have the numbers of the plans whose columns they have, and a name (``alias``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._spark.columns import quoted, unused
from bsjoin._spark.projections import Derivation
from bsjoin._spark.session import is_connect

__all__ = ["identified", "read_again"]

_log = logging.getLogger("bsjoin")
_SAME_ROWS = (
    "CollectMetrics", "Deduplicate", "Drop", "Filter", "Hint", "Limit", "Offset", "Repartition",
    "RepartitionByExpression", "Sample", "Sort", "SubqueryAlias", "Tail", "WithWatermark",
)  # fmt: skip
"""What hands on the columns that its result has, in Connect's plans."""


def identified(rows: DataFrame, given: DataFrame | Derivation, names: Sequence[str]) -> DataFrame:
    """Rows that a Python worker has returned, their first columns as those that they are.

    Args:
        rows: the direct result of ``mapInArrow``.
        given: its columns, or those of the result that it is derived from, are the first ones of
            the rows, with the same names.
        names: the names of the columns of the rows.

    Complexity: a few calls of the JVM, for any number of columns.
    """
    if isinstance(given, DataFrame) and is_connect(rows.sparkSession):
        return _numbered(rows, given, names)
    try:
        return _mapped(rows, given)
    except Exception as error:
        _log.debug("bsjoin: references to %s do not hold for the result: %s", names, error)
        return rows


def _mapped(rows: DataFrame, given: DataFrame | Derivation) -> DataFrame:
    plan = rows._jdf.queryExecution().analyzed()
    below = given.plan if isinstance(given, Derivation) else given._jdf.queryExecution().analyzed()
    known = below.output()
    catalyst = _sql(rows).catalyst
    made = catalyst.plans.logical.MapInArrow(
        plan.functionExpr(),
        known.appendedAll(plan.output().drop(known.size())),
        plan.child(),
        plan.isBarrier(),
        plan.profile(),
    )
    return _rows_of(rows, made)


def read_again(rows: DataFrame, given: DataFrame, numbers: Iterable[int]) -> DataFrame:
    """Rows of a projection, some of its columns as those of an earlier result that they are.

    Args:
        rows: the direct result of a selection.
        given: its columns are the first ones of the rows, with the same names.
        numbers: the columns of it that the selection computes once more; the others are the same
            already.

    Complexity: O(numbers) calls of the JVM.
    """
    if is_connect(rows.sparkSession):
        return _numbered(rows, given, rows.columns)
    try:
        return _projected(rows, given, numbers)
    except Exception as error:
        _log.debug("bsjoin: references to %s do not hold for the result: %s", given, error)
        return rows


def _projected(rows: DataFrame, given: DataFrame, numbers: Iterable[int]) -> DataFrame:
    plan = rows._jdf.queryExecution().analyzed()
    known = given._jdf.queryExecution().analyzed().output()
    catalyst = _sql(rows).catalyst
    items = plan.projectList()
    for number in numbers:
        item, attribute = items.apply(number), known.apply(number)
        same = catalyst.expressions.Alias(
            item.child(),
            item.name(),
            attribute.exprId(),
            attribute.qualifier(),
            item.explicitMetadata(),
            item.nonInheritableMetadataKeys(),
        )
        items = items.updated(number, same)
    return _rows_of(rows, catalyst.plans.logical.Project(items, plan.child()))


def _rows_of(rows: DataFrame, plan: Any) -> DataFrame:
    spark = rows.sparkSession
    made = _sql(rows).classic.Dataset.ofRows(spark._jsparkSession, plan)
    return type(rows)(made, spark)


def _sql(rows: DataFrame) -> Any:
    jvm: Any = rows.sparkSession._jvm
    return jvm.org.apache.spark.sql


@dataclass(frozen=True)
class _Known:
    """A plan of a Connect session, and the columns of it that a result has.

    Args:
        plan: the plan.
        names: of the columns.
        is_beside: whether it is the right side of a join: the left side's columns stay.
    """

    plan: Any
    names: frozenset[str]
    is_beside: bool = False


def _numbered(rows: DataFrame, given: DataFrame, names: Sequence[str]) -> DataFrame:
    """Projections, one for each plan that the columns may be referred to by, the oldest first.

    A column that such a plan does not have has another name there, and is found by none.
    """
    hidden = dict(zip(names, unused(names, *(f"c{i}" for i in range(len(names)))), strict=True))
    shown = frozenset(names)

    def show(next_: frozenset[str]) -> DataFrame:
        columns = []
        for name in names:
            below = name if name in shown else hidden[name]
            above = name if name in next_ else hidden[name]
            column = F.col(quoted(below))
            columns.append(column if above == below else column.alias(above))
        return rows.select(*columns)

    for known in reversed([*_known(given, frozenset(given.columns))]):
        next_ = known.names | shown if known.is_beside else known.names
        rows, shown = show(next_), next_
        if type(known.plan).__name__ == "SubqueryAlias" and not known.is_beside:
            rows = rows.alias(known.plan._alias)
        plan: Any = rows._plan
        plan._root_plan_id = known.plan._plan_id
    return show(frozenset(names))


def _known(given: Any, names: frozenset[str]) -> Iterator[_Known]:
    """The plans whose columns a result has, newest first."""
    plan = given._plan
    while plan is not None and names:
        yield _Known(plan, names)
        kind = type(plan).__name__
        if kind == "Join":
            yield from _known_of_sides(given, plan, names)
            return
        if kind == "Project":
            names = _handed_on(plan._columns, names)
        elif kind == "WithColumns":
            names = _without(names, plan._columnNames)
        elif kind == "WithColumnsRenamed":
            names = _without(names, plan._colsMap.values())
        elif kind not in _SAME_ROWS:
            return
        plan = plan._child


def _known_of_sides(given: Any, join: Any, names: frozenset[str]) -> Iterator[_Known]:
    """The same below a join of Spark: the sides, and what the left one is made of.

    A column that both have is the left side's, unless that lacks rows.
    """
    from pyspark.sql.connect.proto import Join  # which a classic session need not have

    left, right = (type(given)(side, given.sparkSession) for side in (join.left, join.right))
    shared = frozenset(left.columns) & frozenset(right.columns)
    outer = join.how in (Join.JOIN_TYPE_RIGHT_OUTER, Join.JOIN_TYPE_FULL_OUTER)
    yield _Known(join.right, names & frozenset(right.columns) - shared, is_beside=True)
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
