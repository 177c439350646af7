"""``where=``: the part of a join's condition that is checked for each pair of rows.

Spark says what a condition is: its names and types are resolved over the columns of the inner join
of both sides, before anything is built or runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.errors import ArgumentError, ColumnError, suggest
from bsjoin.plan import Call
from bsjoin.planner.checks import check_of
from bsjoin.spark import compat
from bsjoin.spark.leaves import listed
from bsjoin.spark.session import is_connect

_NAMES = (
    "UNRESOLVED_COLUMN", "AMBIGUOUS_REFERENCE", "CANNOT_RESOLVE_DATAFRAME_COLUMN",
    "MISSING_ATTRIBUTES", "AMBIGUOUS_COLUMN", "UNRESOLVED_USING_COLUMN",
)  # fmt: skip
_PYTHON = re.compile(r"\)#\d+")  # how a plan shows the call of a Python function
_SUBQUERY = re.compile(r"\b(scalar-subquery|exists|list)#\d+ \[")
_ANY_NAME = re.compile(r"identifier|\.\s*\*")
_STAR = re.compile(r"[(,]\s*\*|unresolvedstar", re.IGNORECASE)
_STAR_OF_A_TABLE = re.compile(rf"{_STAR.pattern}|\.\s*\*", re.IGNORECASE)
_SHORTENED = re.compile(r"\.\.\. \d+ more fields")


@dataclass(frozen=True)
class Where:
    """The condition on a pair of rows.

    Args:
        condition: over the columns of the inner join of both sides.
        how: the join that it is a part of: "inner", "left", "semi" or "anti".
        text: for people.
        in_python: whether it calls a Python function.
        most: so many of the rows that pass are matches, in the order by which the join takes some
            of them; None (default) for all.
        check: reads it as one that a worker can check; None where only Spark can, the default.
    """

    condition: Column
    how: str
    text: str
    in_python: bool
    most: int | None = None
    check: Callable[[], Call | None] = lambda: None

    @property
    def is_filter(self) -> bool:
        """Whether it may as well be a filter above the join."""
        return self.how == "inner" and self.most is None


def where_over(
    where: Column | str,
    how: str,
    pairs: DataFrame,
    lacking: Sequence[str],
    table_names: Sequence[str],
) -> tuple[Where, list[str]]:
    """Resolve a condition over ``pairs``, whose rows do not matter.

    They are the inner join of both sides, with columns ``lacking`` in it, which nothing names but
    ``*`` and ``<alias of the table>.*``. In a classic session the table's columns are last, and
    right before these are those that are lacking.

    Returns:
        The condition, and the columns of the table that it needs.

    Raises:
        ColumnError: a name that no column has, or more than one.
        ArgumentError: the condition is not boolean, not deterministic, or needs more than a pair
            of rows.
    """
    text = where if isinstance(where, str) else str(where).removeprefix("Column<'")[:-2]
    try:
        condition = F.expr(where) if isinstance(where, str) else where
        passing = pairs.where(condition)
        facts = _facts(passing, pairs, condition, table_names, lacking)
    except PySparkException as error:
        names = [name for name in pairs.columns if name not in lacking]
        raise _refused(text, error, names) from None
    stars = _STAR if len(lacking) == 1 else _STAR_OF_A_TABLE  # the table has an alias
    if facts.has_all or (facts.has_all is None and stars.search(text)):
        raise ArgumentError(
            f"where={text!r}: * names all columns, or all of the table, and a pair of rows has "
            "others while it is checked than in the result. Name the columns"
        )
    if facts.varies:
        raise ArgumentError(
            f"where={text!r} is not deterministic: a pair of rows must match or not whenever it is "
            "checked. Compute the value before the join, with withColumn, and compare that"
        )
    if facts.needs_more:
        raise ColumnError(
            f"where={text!r} needs a column that neither side has, or not any more, such as one "
            "that was dropped, or that of window(). Compute it with withColumn before the join"
        )
    if facts.has_subquery:
        raise ArgumentError(
            f"where={text!r} has a subquery, which is more than a pair of rows: join with its "
            "result first, or collect the value and give it as a literal"
        )
    shown = text if isinstance(where, str) else facts.text or text
    check = functools.cache(functools.partial(_check, facts.tree, pairs))
    return Where(condition, how, shown, facts.in_python, check=check), list(facts.needed)


def _check(tree: Callable[[], tuple[str, list[int]]] | None, pairs: DataFrame) -> Call | None:
    """The condition with this tree as one for a worker; None without a tree."""
    try:
        if tree is None:
            return None
        text, ids = tree()
        return check_of(text, pairs.schema, ids)
    except compat.failures():
        return None


def _refused(text: str, error: PySparkException, names: Sequence[str]) -> Exception:
    """What Spark's error means for the call."""
    condition = error.getCondition() or ""
    given = error.getMessageParameters() or {}
    said = str(error).strip().splitlines()[0]
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = given.get("objectName", "").strip("`").split("`.`")[-1]
        return ColumnError(
            f"where={text!r}: neither side has a column {name!r}. {suggest(name, names)} Columns "
            "are called as in the result of the inner join with all columns of the table: its keys "
            "by the stream's names, or their own where the stream has an expression, and with the "
            "suffix what the stream has, too"
        )
    if condition.startswith(_NAMES):
        return ColumnError(
            f"where={text!r}: {said} Columns are those of both sides, as in the result of the "
            "inner join with all columns of the table"
        )
    if condition.endswith("FILTER_NOT_BOOLEAN"):
        return ArgumentError(
            f"where={text!r} has the type {given.get('type', 'of another kind')}: give a "
            "condition, which is BOOLEAN, for example a comparison"
        )
    return ArgumentError(
        f"where={text!r} is no condition on a pair of rows: {said} It may have neither aggregates "
        "nor windows nor generators: compute these before the join, and compare their columns"
    )


@dataclass(frozen=True)
class _Facts:
    """What a condition is.

    Args:
        needed: the columns of the table that it has.
        varies: whether it is not deterministic; None (default) where that is not known.
        needs_more: whether it needs a column that the pairs of rows have not.
        has_subquery: whether it has a subquery.
        in_python: whether it calls a Python function.
        has_all: whether it has all columns, or all of the table, by ``*``; None (default) where
            that is not known.
        text: in SQL; empty (default) where that is not known.
        tree: reads it as JSON, and the identities of the columns of pairs of rows, which it has;
            None (default) where there is none.
    """

    needed: Sequence[str]
    varies: bool | None = None
    needs_more: bool = False
    has_subquery: bool = False
    in_python: bool = False
    has_all: bool | None = None
    text: str = ""
    tree: Callable[[], tuple[str, list[int]]] | None = None


def _facts(
    passing: DataFrame,
    pairs: DataFrame,
    condition: Column,
    table_names: Sequence[str],
    lacking: Sequence[str],
) -> _Facts:
    """Read a condition, which ``passing`` is the filter of.

    Without the private members of Spark that tell, all columns are needed.
    """
    on_connect = is_connect(passing.sparkSession)
    # The client takes the columns of a filter to be those below it, and does not ask the server.
    asked = passing.select("*") if on_connect else passing
    if on_connect:
        _ = asked.columns
    try:
        of = _facts_on_connect if on_connect else _facts_of_plan
        found = of(passing, table_names, lacking)
    except compat.failures():
        found = _Facts(table_names)
    if found.varies is not None:
        return found
    varies = _varies(pairs, condition)
    more = found.needs_more or asked.columns != pairs.columns
    return replace(found, varies=varies, needs_more=more)


def _varies(pairs: DataFrame, condition: Column) -> bool:
    """Whether a condition is not deterministic: Spark refuses to aggregate such a value.

    Nor does it aggregate a column that the rows do not have any more, which a filter finds.
    """
    try:
        _ = pairs.agg(F.max(condition)).columns
    except PySparkException as error:
        found = error.getCondition() or ""
        if found.startswith("UNRESOLVED_COLUMN"):
            raise
        return "NONDETERMINISTIC" in found
    return False


def _facts_of_plan(
    passing: DataFrame, table_names: Sequence[str], lacking: Sequence[str]
) -> _Facts:
    spark, plan = compat.catalyst(passing), compat.analyzed(passing)
    if plan.nodeName() != "Filter":  # others have brought what the pairs lack
        return _Facts(table_names, needs_more=True)
    condition = plan.condition()
    references, names = condition.references(), [*lacking, *table_names]
    columns = plan.output().takeRight(len(names))
    has = [name for i, name in enumerate(names) if references.contains(columns.apply(i))]
    return _Facts(
        [name for name in has if name not in lacking],
        varies=not condition.deterministic(),
        has_subquery=condition.containsPattern(spark.subquery),
        in_python=condition.containsPattern(spark.python_function),
        has_all=any(name in has for name in lacking),
        text=condition.sql(),
        tree=lambda: (
            condition.toJSON(),
            [one.exprId().id() for one in listed(plan.output())],
        ),
    )


def _facts_on_connect(
    passing: DataFrame, table_names: Sequence[str], lacking: Sequence[str]
) -> _Facts:
    """The same, of a plan of names: a column counts as needed if its name is in the condition."""
    plans = compat.explained(passing).split("== Analyzed Logical Plan ==")[-1]
    line = plans.partition("\nFilter ")[2].partition("\n+- ")[0]  # or several, for a literal
    has_all = any(re.search(rf"{re.escape(name)}#\d+", line) for name in lacking)
    for name in passing.columns:
        line = re.sub(rf"{re.escape(name)}#\d+", "", line)
    sent = compat.serialized(passing).filter.condition.SerializeToString()
    text = sent.decode(errors="replace").replace("`", "").lower()
    needed = [
        name
        for name in table_names
        if _ANY_NAME.search(text) or name.replace("`", "").lower() in text
    ]
    return _Facts(
        needed,
        has_subquery=bool(_SUBQUERY.search(line)),
        in_python=bool(_PYTHON.search(line)),
        has_all=True if has_all else None if _SHORTENED.search(line) else False,
    )
