"""Figures of a join, observed by Spark while its rows pass; :mod:`bsjoin._progress` reads them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._plan import FIGURES, INPUT_FIGURES, ROUTE_FIGURES, JoinPlan, SourceTable
from bsjoin._spark.observing import observe

__all__ = ["observed", "observed_range", "observed_route", "observed_rows"]


def observed(answers: DataFrame, plan: JoinPlan, answer: Column, note: Column) -> DataFrame:
    """Let Spark add up the figures of a look-up while its rows pass by."""
    shape = plan.output.shape
    hits = F.count_if(answer) if shape == "exists" else F.count(answer)
    matches = {
        "rows": F.sum(F.array_size(answer)),
        "runs": F.sum(answer.getField("count")),
    }.get(shape, hits)
    return observe(
        answers,
        f"{FIGURES}{plan.label}:{_mode(plan)}:{plan.how}",
        F.count(F.lit(1)).alias("rows_in"),
        hits.alias("hits"),
        *([] if matches is hits else [matches.alias("matches")]),
        F.listagg(note, F.lit(",")).alias("notes"),
    )


def observed_route(rows: DataFrame, label: str, note: Column) -> DataFrame:
    """Let Spark collect what the tasks say of the rows that they route."""
    return observe(rows, f"{ROUTE_FIGURES}{label}", F.listagg(note, F.lit(",")).alias("notes"))


def _mode(plan: JoinPlan) -> str:
    """How the table is kept, and how the stream's rows came."""
    kept = "incremental" if isinstance(plan.table, SourceTable) else "full"
    return f"{kept}-{plan.partitioned}"


def observed_rows(rows: DataFrame, plan: JoinPlan) -> DataFrame:
    """Let Spark count the rows that go into a range join."""
    return observe(rows, f"{INPUT_FIGURES}{plan.label}", F.count(F.lit(1)).alias("rows_in"))


def observed_range(joined: DataFrame, plan: JoinPlan, note: Column) -> DataFrame:
    """Let Spark count the rows that come out of a range join, and collect its notes."""
    return observe(
        joined,
        f"{FIGURES}{plan.label}:{_mode(plan)}:{plan.how}",
        F.count(F.lit(1)).alias("rows_out"),
        F.listagg(note, F.lit(",")).alias("notes"),
    )
