"""Figures of a join, observed by Spark while its rows pass; :mod:`bsjoin._progress` reads them."""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._plan import FIGURES, INPUT_FIGURES, ROUTE_FIGURES, JoinPlan, SourceTable
from bsjoin._spark.observing import observe

__all__ = [
    "observed",
    "observed_range",
    "observed_references",
    "observed_route",
    "observed_rows",
]


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
        _name(plan),
        F.count(F.lit(1)).alias("rows_in"),
        hits.alias("hits"),
        *([] if matches is hits else [matches.alias("matches")]),
        F.listagg(note, F.lit(",")).alias("notes"),
    )


def observed_references(
    answers: DataFrame, plan: JoinPlan, found: Column, matches: Column | None, version: Column
) -> DataFrame:
    """The same for a look-up in the JVM.

    Args:
        answers: the rows.
        plan: the join.
        found: a reference, or -1.
        matches: how many rows of the table match; None for at most one.
        version: the number of the version that answers.
    """
    return observe(
        answers,
        _name(plan),
        F.count(F.lit(1)).alias("rows_in"),
        F.count_if(found >= 0).alias("hits"),
        *([] if matches is None else [F.sum(matches).alias("matches")]),
        F.max(version).alias("version"),
    )


def observed_route(rows: DataFrame, label: str, note: Column) -> DataFrame:
    """Let Spark collect what the tasks say of the rows that they route."""
    return observe(rows, f"{ROUTE_FIGURES}{label}", F.listagg(note, F.lit(",")).alias("notes"))


def _name(plan: JoinPlan) -> str:
    """What the figures of a join are called: :mod:`bsjoin._progress` reads it."""
    kept = "incremental" if isinstance(plan.table, SourceTable) else "full"
    runtime = json.dumps([plan.runtime.name, plan.runtime.reason])
    return f"{FIGURES}{plan.label}:{kept}-{plan.partitioned}:{plan.how}:{runtime}"


def observed_rows(rows: DataFrame, plan: JoinPlan) -> DataFrame:
    """Let Spark count the rows that go into a range join."""
    return observe(rows, f"{INPUT_FIGURES}{plan.label}", F.count(F.lit(1)).alias("rows_in"))


def observed_range(joined: DataFrame, plan: JoinPlan, note: Column) -> DataFrame:
    """Let Spark count the rows that come out of a range join, and collect its notes."""
    return observe(
        joined,
        _name(plan),
        F.count(F.lit(1)).alias("rows_out"),
        F.listagg(note, F.lit(",")).alias("notes"),
    )
