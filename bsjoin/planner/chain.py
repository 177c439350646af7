"""Chains of joins: the DataFrame that a join returns remembers how it was made.

The planner of a join sees by it that its stream is the result of a join. What is derived from such
a DataFrame, by a selection for instance, is a DataFrame of its own, which remembers nothing: its
plan tells from which result it is derived (:mod:`bsjoin.planner.projections`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, overload

from pyspark.sql import DataFrame

from bsjoin._show import Shown, printable
from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.plan import SourceTable
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import UNREADABLE, Projection, projection, register, results_in
from bsjoin.spark.arrow import not_exchangeable
from bsjoin.spark.session import is_dataframe
from bsjoin.storage.box_file import FEW_ROWS

_ATTRIBUTE = "_bsjoin_step"


@dataclass(frozen=True)
class Stage:
    """Joins that follow each other in one Python function.

    Args:
        stream: the rows that the first one gets.
        joins: first to last.
        found: for each join, which columns of the joins before (the stream's, then those of their
            tables) its key and range columns are, by name.
        given: has the columns of the result but for those of the last join: the stream of that
            join; or what is derived from the rows of the stage without it.
    """

    stream: DataFrame
    joins: tuple[PlannedJoin, ...]
    found: tuple[Mapping[str, int], ...]
    given: DataFrame | Projection

    @classmethod
    def of(cls, planned: PlannedJoin, rows: DataFrame) -> Stage:
        """A join that begins a stage.

        Raises:
            ColumnError: a column of the stream that Spark cannot exchange with Python.
        """
        for field in rows.schema:
            if why := not_exchangeable(field.dataType):
                raise ColumnError(
                    f"the stream's column {field.name!r} has the type "
                    f"{field.dataType.simpleString()}, which cannot travel through a range join: "
                    f"{why}. Drop it, or cast it"
                )
        numbers = {name: number for number, name in enumerate(rows.columns)}
        return cls(rows, (planned,), (numbers,), rows)

    def followed_by(
        self, planned: PlannedJoin, given: DataFrame | Projection, found: Mapping[str, int]
    ) -> Stage:
        """The stage with one more join.

        ``given`` is the result of this stage, or what is derived from it; ``found`` the numbers of
        the columns, among those of this stage, that the join finds its matches by.
        """
        return Stage(self.stream, (*self.joins, planned), (*self.found, found), given)

    @property
    def is_ranged(self) -> bool:
        """Whether all joins are range joins."""
        return all(planned.plan.predicate is not None for planned in self.joins)


@dataclass(frozen=True)
class JoinStep:
    """One join of a chain.

    Args:
        planned: the join.
        runs: what runs it, and how.
        stage: the Python stage that ends with it; None (default) in the JVM, and where its rows
            cannot travel.
        first: how the join runs if a later one shares its stage; None (default) for as ``runs``.
        apart: why it does not share the stage of the join before; empty (default) if it does, or
            if neither has a stage in Python.
        before: the join before; None (default) where the plan was not searched for it.
        is_derived: whether its result has projections above the columns of the stage; default no.
    """

    planned: PlannedJoin
    runs: str
    stage: Stage | None = None
    first: str | None = None
    apart: str = ""
    before: JoinStep | None = None
    is_derived: bool = False

    def shares(self, before: JoinStep) -> bool:
        """Whether the join runs in the Python stage of the join before."""
        return self.stage is not None and any(
            planned is before.planned for planned in self.stage.joins
        )


def remember(result: DataFrame, step: JoinStep, below: DataFrame | None = None) -> DataFrame:
    """Note on the result of a join how it was made.

    ``below`` is the result below its projections, if it has any, with the columns of all joins of
    the stage.
    """
    setattr(result, _ATTRIBUTE, step)
    register(result if below is None else below, step)
    return result


def previous_join(df: DataFrame) -> tuple[JoinStep | None, Projection | None]:
    """Return the join whose result a DataFrame is, and the projections between; each may be None.

    Without projections the DataFrame is the result itself.
    """
    step = step_of(df)
    if step is not None and not step.is_derived:
        return step, None
    between = projection(df)
    if between is not None:
        return between.made_by, between
    return step, None if step is None else Projection(step, UNREADABLE)


def joins_of(df: DataFrame) -> list[JoinStep]:
    """The joins that a DataFrame is made of, first to last, each once; none for any other.

    Between the joins, and above the last, there may be anything that Spark's plan shows. Where a
    stage begins by it, that is said.

    Complexity: O(joins), and O(nodes of the plan) where something is between them.
    """
    step = step_of(df)
    found: dict[int, JoinStep] = {}
    for last in results_in(df) if step is None else [step]:
        for one in _up_to(last):
            found.setdefault(id(one.planned), one)
    return [*found.values()]


def _up_to(step: JoinStep) -> list[JoinStep]:
    """A join, after those that its stream is made of."""
    before = step.before or step_of(step.planned.stream)
    if before is None and (found := projection(step.planned.stream, rows_change=True)):
        before = found.made_by
        if step.stage is not None and before.stage is not None:
            step = replace(step, apart=found.against)
    if before is not None:
        return [*_up_to(before), step]
    return [*joins_of(step.planned.stream), step]


def step_of(df: DataFrame) -> JoinStep | None:
    """Return the join whose direct result a DataFrame is; None for any other."""
    # For ``getattr`` every column of the DataFrame is an attribute, too.
    step: JoinStep | None = getattr(df, "__dict__", {}).get(_ATTRIBUTE)
    return step


@overload
def explain(df: DataFrame, format: Literal["text"] = "text") -> None: ...


@overload
def explain(df: DataFrame, format: Literal["html"]) -> Shown: ...


def explain(df: DataFrame, format: Literal["text", "html"] = "text") -> Shown | None:
    """Print how the joins of a DataFrame run, first to last.

    For each join: its type and condition, how the table is cached, what runs it and how, how the
    stream's rows are sent to partitions, the columns that the join brings, and for one that Python
    workers run why the JVM does not.

    Args:
        df: what :func:`bsjoin.join`, or ``BatchTable.join``, returned, or any DataFrame that is
            made of such results: by selections, filters, unions, joins of Spark, views and so on.
        format: ``"text"`` (default) prints it; ``"html"`` returns it for a notebook, which shows a
            table.

    Returns:
        None; for ``"html"`` what a notebook, or ``print``, shows.

    Raises:
        ArgumentError: the format is another one, it is no DataFrame, or its plan shows no join of
            bsjoin: there is none, or it is hidden, as behind ``checkpoint``, ``rdd``, a micro-batch
            of ``foreachBatch``, or a view or SQL under Spark Connect.

    Example:
        >>> bsjoin.explain(bsjoin.join(orders, customers, "customer_id", how="left"))
        (1) left join on customer_id = customer_id: full cache, newest version of ...
            Spark's generated code looks keys up, partitioned: none; brings name, city
    """
    if not is_dataframe(df):
        raise ArgumentError(
            f"explain() of a {type(df).__name__}: give a DataFrame that bsjoin.join returned, or "
            "one that is made of it. For a running query, bsjoin.progress(query) says what runs it"
        )
    if format not in ("text", "html"):
        raise ArgumentError(f"format={format!r}: give 'text', which is printed, or 'html'")
    steps = joins_of(df)
    if not steps:
        raise ArgumentError(
            f"the plan of this DataFrame, with the columns {df.columns}, shows no join of bsjoin. "
            "If there is one, it is behind what hides it (checkpoint, rdd, a micro-batch of "
            "foreachBatch, a view or SQL under Spark Connect): give what bsjoin.join returned"
        )
    told: list[tuple[int, str, str]] = []
    for number, (step, after) in enumerate(zip(steps, [*steps[1:], None], strict=True), 1):
        first = step.first if after is not None and after.shares(step) else None
        runs = first or step.runs
        if step.apart:
            runs = f"{runs}, in a stage of their own: {step.apart}"
        join, _, more = _lines(step, runs).partition("\n")
        told.append((number, join, more))
    if format == "html":
        lines = ("; ".join(map(str.strip, more.splitlines())) for *_, more in told)
        rows = [(number, join, how) for (number, join, _), how in zip(told, lines, strict=True)]
        return Shown("Joins, first to last", ["", "join", "how it runs"], rows)
    for number, join, more in told:
        print(f"({number}) {join}\n{more}")
    return None


def _lines(step: JoinStep, runs: str) -> str:
    plan, join = step.planned.plan, step.planned.join
    safe = join.safe_keys
    equal = [f"{stream} {'<=>' if table in safe else '='} {table}" for stream, table in join.keys]
    searched = (
        [] if join.condition is None else [join.condition, *(b.condition for b in join.boxes)]
    )
    condition = " and ".join([*equal, *map(repr, searched)])
    how = plan.how
    checked = [one for one in join.checked if one not in searched]
    if checked:
        condition += f", checks {' and '.join(map(repr, checked))}"
    if join.where is not None:
        how = join.where.how
        condition += f" where {join.where.text}" if join.where.text else ""
    if isinstance(plan.table, SourceTable):
        table = f"incremental cache of {plan.table.source!r}"
    else:
        number = plan.table.version
        version = "newest version" if number is None else f"version {number}"
        table = f"full cache, {version} of {str(plan.table.location)!r}"
    names = [*join.names[: len(join.names) - join.extra], *filter(None, [join.indicator])]
    payload = f"brings {', '.join(names)}" if names else "brings no column"
    return (
        f"{how} join on {printable(condition)}: {table}\n    {runs}, partitioned: "
        f"{plan.partitioned}; {printable(payload)}{_search(step)}{_why_not_jvm(step)}"
    )


def _search(step: JoinStep) -> str:
    """A line that says how several ranges are searched, and why; empty for one."""
    join = step.planned.join
    if not join.boxes:
        return ""
    columns = [
        " and ".join(one.names) for one in (join.ranged, *(b.columns for b in join.boxes)) if one
    ]
    if not join.shares:
        why = f"the table has no boxes, which a build makes where a key has over {FEW_ROWS} rows"
        return f"\n    searches {columns[0]}: {why}"
    met = (f"{share:.2g} meet {name}" for share, name in zip(join.shares, columns, strict=True))
    return f"\n    searches boxes of {', '.join(columns)}: of a key's rows {', '.join(met)}"


def _why_not_jvm(step: JoinStep) -> str:
    """A line that says why Python workers run a join; empty for the JVM."""
    plan = step.planned.plan
    if plan.runtime == "jvm":
        return ""
    asked = f", although {plan.asked} asks for it" if plan.asked else ""
    return f"\n    not in the JVM{asked}: {plan.reason}"
