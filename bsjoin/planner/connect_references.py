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

from bsjoin.planner.columns import unused
from bsjoin.spark import compat
from bsjoin.spark.session import is_case_sensitive
from bsjoin.spark.sql import quoted

_BELOW, _SKIPS_TO = "_bsjoin_below", "_bsjoin_skips_to"
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
    """The plans whose columns a result of a join has, noted on its own plan.

    Args:
        plan: of the probe side.
        names: the names of its columns.
        table: plans of the table, newest first.
    """

    plan: Any
    names: frozenset[str]
    table: tuple[_Known, ...] = ()


def with_columns_of(rows: DataFrame, given: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows whose first columns are found by the references to those of ``given``, named alike."""
    return _projected(rows, names, _known(given, given.columns))


def with_columns_of_table(
    rows: DataFrame,
    stream: DataFrame,
    table: DataFrame | None,
    payload: Mapping[str, str | None],
    between: Sequence[str] = (),
    marked: str | None = None,
) -> DataFrame:
    """The result of a join whose columns of the table are found by references to the table.

    ``payload`` has the names of its columns in the result, and what the DataFrame that it was given
    as calls them, None for those that it lacks; ``between`` are other columns, behind the stream's.
    ``marked`` is one of these, for :func:`_projected`.
    """
    known: tuple[_Known, ...] = ()
    result = {own: name for name, own in payload.items() if own is not None}
    if table is not None and result:
        renamed = frozenset(name for name, own in payload.items() if name != own)
        known = tuple(
            replace(one, names=frozenset(result[own] for own in one.names), renamed=renamed)
            for one in _known(table, result)
        )
        rows = _projected(rows, [*stream.columns, *between, *payload], known, marked)
    below = _Below(compat.connect_plan(stream), frozenset(stream.columns), known)
    setattr(compat.connect_plan(rows), _BELOW, below)
    return rows


def skip(rows: DataFrame, below: DataFrame) -> None:
    """Let columns above rows have references that other columns have in the rows.

    These were made of ``below`` by :func:`with_columns_of_table`.
    """
    setattr(compat.connect_plan(rows), _SKIPS_TO, compat.connect_plan(below))


def _projected(
    rows: DataFrame, names: Sequence[str], known: Iterable[_Known], marked: str | None = None
) -> DataFrame:
    """Projections, one for each plan, the oldest first, and one that has the result's columns.

    Each alias that one of these still has also has the column ``marked``, under a name of its own.
    """
    if not _are_distinct(rows, names):
        return rows  # no name would find a column
    there = _numbers_in(rows)
    # A plan that is there twice has no column that is meant by a reference.
    known = tuple(known)
    times = Counter(one.number for one in known)
    known = [one for one in known if one.number not in there and times[one.number] == 1]
    newest: dict[str, _Known] = {}  # the alias that a column has
    for one in reversed(known):
        if one.alias is not None:
            newest |= dict.fromkeys(one.names, one)
    columns: dict[str, Column] = {name: _column(rows, name) for name in names}
    for one in reversed(known):
        if one.alias is not None:
            aliased = [name for name in names if name in one.names]
            if marked is not None and one in newest.values():
                (mark,) = unused(columns, marked)
                columns[mark] = columns[marked].alias(mark)
                aliased.append(mark)
            rows = rows.select(*columns.values()).alias(one.alias)
            columns |= {name: _column(rows, name) for name in aliased}
        found = one.names - one.renamed
        others = [F.lit(None).alias(name) for name in names if name not in found]
        rows = rows.select(*columns.values(), *others)
        compat.set_plan_id(compat.connect_plan(rows), one.number)
    return rows.select(*columns.values())


def _column(rows: DataFrame, name: str) -> Column:
    return compat.column_of(rows, quoted(name))


def _are_distinct(rows: DataFrame, names: Sequence[str]) -> bool:
    folded = {name.lower() for name in names}
    if len(folded) == len(names):
        return True
    return len(set(names)) == len(names) and is_case_sensitive(rows.sparkSession)


def _numbers_in(rows: DataFrame) -> set[int]:
    """The numbers of the plans whose columns rows have as they are."""
    plans, found = [compat.connect_plan(rows)], set()
    while plans:
        plan = plans.pop()
        plan = vars(plan).get(_SKIPS_TO, plan)
        if type(plan).__name__ != "MapPartitions":
            found.add(compat.plan_id(plan))
            plans += compat.inputs_of(plan)
    return found


def _known(given: DataFrame, names: Iterable[str]) -> Iterator[_Known]:
    """The plans whose columns a result has, newest first."""
    plan, left = compat.connect_plan(given), frozenset(names)
    while plan is not None and left:
        kind = type(plan).__name__
        yield _Known(compat.plan_id(plan), compat.alias_of(plan), left)
        below = vars(plan).get(_BELOW)
        if below is not None:
            yield from (replace(one, names=one.names & left) for one in below.table)
            plan, left = below.plan, left & below.names
            continue
        if kind == "Join":
            yield from _known_of_sides(given, plan, left)
            return
        if kind == "Project":
            left = _handed_on(compat.selected(plan), left)
        elif kind in ("WithColumns", "WithColumnsRenamed"):
            left = _without(left, compat.assigned(plan))
        elif kind not in _SAME_ROWS:
            return
        plan = next(iter(compat.inputs_of(plan)), None)


def _known_of_sides(given: DataFrame, join: Any, names: frozenset[str]) -> Iterator[_Known]:
    """The same below a join of Spark, of both sides.

    A column that both have is the left side's, unless that lacks rows.
    """
    left, right, outer = compat.sides_of(join, given)
    shared = frozenset(left.columns) & frozenset(right.columns)
    yield from _known(right, names & frozenset(right.columns) - shared)
    yield from _known(left, names & frozenset(left.columns) - (shared if outer else frozenset()))


def _handed_on(
    selected: Iterable[tuple[str, tuple[str, ...]]], names: frozenset[str]
) -> frozenset[str]:
    """The columns that a projection hands on as they are."""
    found: set[str] = set()
    computed: set[str] = set()
    for kind, texts in selected:
        if kind == "all":
            found |= names
        elif kind == "name":
            found |= {name for name in names if texts[0] in (name, quoted(name))}
        elif kind == "alias":
            computed.update(texts)
    return frozenset(found - computed)


def _without(names: frozenset[str], others: Iterable[str]) -> frozenset[str]:
    gone = {name.lower() for name in others}
    return frozenset(name for name in names if name.lower() not in gone)
