"""Chains of joins: the DataFrame that a join returns remembers how it was made.

The planner of a join sees by it that its stream is the result of a join. What is derived from such
a DataFrame, by a selection for instance, is a DataFrame of its own, which remembers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from bsjoin._plan import SourceTable
from bsjoin._spark.planned_join import PlannedJoin
from bsjoin.errors import ArgumentError

if TYPE_CHECKING:
    from bsjoin._spark.jvm import Lookups
    from bsjoin._spark.python import Stage

__all__ = ["JoinStep", "explain", "joins_of", "remember", "step_of"]

_ATTRIBUTE = "_bsjoin_step"


@dataclass(frozen=True)
class JoinStep:
    """One join of a chain.

    Args:
        stream: its probe side, as the call had it.
        planned: the join.
        runs: what runs it, and how.
        lookups: the look-ups in the JVM that end with it; None (default) in Python.
        stage: the Python stage that ends with it; None (default) in the JVM, and where its rows
            cannot travel.
        first: how the join runs if a later one shares its stage; None (default) for as ``runs``.
    """

    stream: DataFrame
    planned: PlannedJoin
    runs: str
    lookups: Lookups | None = None
    stage: Stage | None = None
    first: str | None = None

    def shares(self, before: JoinStep) -> bool:
        """Whether the join runs in the Python stage of the join before."""
        return self.stage is not None and any(
            planned is before.planned for planned in self.stage.joins
        )


def remember(result: DataFrame, step: JoinStep) -> DataFrame:
    """Note on the result of a join how it was made."""
    setattr(result, _ATTRIBUTE, step)
    return result


def joins_of(df: DataFrame) -> list[JoinStep]:
    """The joins that a DataFrame is the direct result of, first to last; none for any other.

    Complexity: O(joins).
    """
    steps: list[JoinStep] = []
    step = step_of(df)
    while step is not None:
        steps.append(step)
        step = step_of(step.stream)
    return steps[::-1]


def step_of(df: DataFrame) -> JoinStep | None:
    """How a DataFrame was made that is the direct result of a join; None for any other."""
    # For ``getattr`` every column of the DataFrame is an attribute, too.
    step: JoinStep | None = getattr(df, "__dict__", {}).get(_ATTRIBUTE)
    return step


def explain(df: DataFrame) -> None:
    """Print how the joins of a DataFrame run, first to last.

    For each join: its type and condition, how the table is cached, what runs it and how, how the
    stream's rows are sent to partitions, and the columns that the join brings.

    Args:
        df: what :func:`bsjoin.join`, or ``BatchTable.join``, returned; its stream may be the result
            of another join. A DataFrame derived from it by a selection or a filter is a different
            one, and does not remember its joins.

    Raises:
        ArgumentError: the DataFrame is not the direct result of a join.

    Example:
        >>> bsjoin.explain(bsjoin.join(orders, customers, "customer_id", how="left"))
        (1) left join on customer_id = customer_id: full cache, newest version of ...
            Spark's generated code looks keys up, partitioned: none; brings name, city
    """
    steps = joins_of(df)
    if not steps:
        raise ArgumentError(
            "this DataFrame is not the direct result of bsjoin.join: give what the call returned, "
            "before any select, where or withColumn"
        )
    for number, (step, after) in enumerate(zip(steps, [*steps[1:], None], strict=True), 1):
        first = step.first if after is not None and after.shares(step) else None
        print(f"({number}) {_lines(step, first or step.runs)}")


def _lines(step: JoinStep, runs: str) -> str:
    plan, join = step.planned.plan, step.planned.join
    equal = [f"{stream} = {table}" for stream, table in join.keys]
    condition = " and ".join([*equal, *([] if join.when is None else [repr(join.when)])])
    if isinstance(plan.table, SourceTable):
        table = f"incremental cache of {plan.table.source!r}"
    else:
        number = plan.table.version
        version = "newest version" if number is None else f"version {number}"
        table = f"full cache, {version} of {str(plan.table.location)!r}"
    brought = f"brings {', '.join(join.names)}" if join.names else "brings no column"
    return (
        f"{plan.how} join on {condition}: {table}\n"
        f"    {runs}, partitioned: {plan.partitioned}; {brought}"
    )
