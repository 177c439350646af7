"""A join as functions of the Python workers, which answer keys or whole rows."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from bsjoin.planner.chain import JoinStep, Stage, previous_join, remember
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import UNREADABLE, Projection, register
from bsjoin.planner.references import with_table_columns
from bsjoin.runtimes.python.driver import keys_only, residual, transfer, whole_rows
from bsjoin.spark.workers import check_workers, recommend_sockets

_ROWS, _KEYS = "Python workers receive whole rows", "Python workers receive keys"


def why_not(planned: PlannedJoin) -> str | None:
    """None: the workers can carry out every join."""


def apply(planned: PlannedJoin, rows: DataFrame) -> DataFrame:
    """Put a join behind the stream: see :meth:`bsjoin.runtimes.base.Runtime.apply`."""
    check_workers(rows.sparkSession)
    recommend_sockets(rows.sparkSession)
    where = planned.join.where
    if where is None:
        return remember(*_found(planned, rows))
    if planned.check is not None:
        in_stage = _in_stage(_without_match(planned), rows)
        if in_stage is not None:
            return remember(*in_stage)
    steps = list[JoinStep]()

    def candidates(planned: PlannedJoin, rows: DataFrame) -> DataFrame:
        against = "" if where.is_filter else "where= is checked behind it"
        result, step, _ = _found(planned, rows, against)
        steps.append(step)
        return result

    if where.is_filter:
        result = candidates(planned, rows).where(where.condition)
    else:
        result = residual.matched(planned, rows, candidates)
    # Between its stage and what is above it the condition is checked: a later join begins another.
    register(result, replace(steps[0], planned=planned, stage=None, first=None))
    return result


def _without_match(planned: PlannedJoin) -> PlannedJoin:
    """The same without the column that tells a match, the last one, unless the result has it."""
    if not planned.plan.marks or planned.join.indicator is not None:
        return planned
    plan, join = replace(planned.plan, marks=False), replace(planned.join, match=None)
    return replace(planned, plan=plan, join=join, fields=planned.fields[:-1])


def _found(
    planned: PlannedJoin, rows: DataFrame, against: str = ""
) -> tuple[DataFrame, JoinStep, DataFrame | None]:
    """The result of the join without ``where``, how it was made, and what is below it."""
    found = _in_stage(planned, rows, against, always=True)
    assert found is not None
    return found


def _in_stage(
    planned: PlannedJoin, rows: DataFrame, against: str = "", *, always: bool = False
) -> tuple[DataFrame, JoinStep, DataFrame | None] | None:
    """The same, with what ``PlannedJoin.check`` has checked where whole rows travel.

    None where only keys do, unless ``always``.
    """
    before, between = previous_join(planned.stream)
    result = None
    for reason in (against, UNREADABLE):
        stage, travels, apart = transfer.choose(planned, rows, before, between, reason)
        if not (travels or always):
            return None
        result, below = _result(planned, rows, stage if travels else None)
        if result is not None:
            break
    assert result is not None
    runs = _ROWS if travels else _KEYS
    shares = stage is not None and len(stage.joins) > 1
    step = JoinStep(
        planned,
        f"{runs}, in the stage of the join before" if shares else runs,
        stage=stage,
        first=None if shares else _ROWS,
        apart=apart,
        before=before,
        is_derived=below is not None,
    )
    return with_table_columns(result, planned), step, below


def _result(
    planned: PlannedJoin, rows: DataFrame, stage: Stage | None
) -> tuple[DataFrame | None, DataFrame | None]:
    """The result of a join, and what is below its projections; None where it has none.

    The first is None where Spark's plan cannot be rewritten.
    """
    if stage is None:
        return keys_only.joined(planned, rows), None
    joined = whole_rows.joined(stage)
    if not isinstance(stage.given, Projection):
        return joined, None
    return stage.given.above(joined, len(whole_rows.payload(planned))), joined
