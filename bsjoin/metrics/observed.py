"""Figures of a join that Spark observes while its rows pass.

:mod:`bsjoin.metrics.progress` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.metrics.observing import ObservedCycle, observe
from bsjoin.plan import FIGURES, ROUTE_FIGURES, JoinPlan, SourceTable
from bsjoin.spark.session import micro_batch

__all__ = [
    "label_of",
    "name_of",
    "observed",
    "observed_places",
    "observed_route",
    "observed_stage",
]

_MOST_PLACES = 1 << 20


def observed(
    answers: DataFrame, cycle: ObservedCycle | None, plan: JoinPlan, answer: Column, note: Column
) -> DataFrame:
    """Let Spark add up the figures of a look-up while its rows pass by."""
    shape = plan.shape
    hits = F.count_if(answer) if shape == "exists" else F.count(answer)
    matches = {
        "rows": F.sum(F.array_size(answer)),
        "runs": F.sum(answer.getField("count")),
    }.get(shape, hits)
    return observe(
        answers,
        cycle,
        name_of(plan),
        F.count(F.lit(1)).alias("rows_in"),
        hits.alias("hits"),
        *([] if matches is hits else [matches.alias("matches")]),
        F.listagg(note, F.lit(",")).alias("notes"),
    )


def observed_stage(
    rows: DataFrame, cycle: ObservedCycle | None, plans: Sequence[JoinPlan], note: Column
) -> DataFrame:
    """The same for joins in one Python stage, whose tasks have counted all of it."""
    return observe(rows, cycle, name_of(*plans), F.listagg(note, F.lit(",")).alias("tasks"))


def observed_route(
    rows: DataFrame, cycle: ObservedCycle | None, label: str, note: Column
) -> DataFrame:
    """Let Spark collect what the tasks say of the rows that they route."""
    return observe(
        rows, cycle, f"{ROUTE_FIGURES}{label}", F.listagg(note, F.lit(",")).alias("notes")
    )


def observed_places(
    rows: DataFrame,
    cycle: ObservedCycle | None,
    label: str,
    partitions: int,
    *,
    place: str,
    version: str,
    cells: str,
    task: str,
    drawn: str,
) -> DataFrame:
    """The same for rows that generated code routes; see :mod:`bsjoin.partitioning.generated`.

    A histogram with more bins than there are places counts every place exactly. What is the same in
    all rows is a number: a text would be written, and compared, for each of them.

    Args:
        rows: the rows.
        cycle: the cycle that they are of; None for any other micro-batch.
        label: of the join.
        partitions: how many there are.
        place: the column with the place of the row.
        version: the column with the version of the rule.
        cells: the column with the number of its cells.
        task: the column with the number of the task.
        drawn: the column with what is drawn of the row for the sample, null for most rows.
    """
    aggregates = {
        "version": f"max({version})",
        "cells": f"max({cells})",
        "partitions": f"max({partitions})",
        "tasks": f"max({task}) + 1",
        "places": f"to_json(histogram_numeric({place}, {_MOST_PLACES}))",
        "drawn": f"listagg({drawn}, ',')",
    }
    return _observed(rows, cycle, f"{ROUTE_FIGURES}{label}", aggregates)


def _observed(
    rows: DataFrame, cycle: ObservedCycle | None, name: str, aggregates: Mapping[str, str]
) -> DataFrame:
    """The rows, while Spark collects aggregates, in SQL, by their names."""
    # Each is named in the text: `alias` would be calls to the JVM.
    return observe(
        rows, cycle, name, *(F.expr(f"{value} AS {key}") for key, value in aggregates.items())
    )


def name_of(*plans: JoinPlan) -> str:
    """What the figures of joins are called: :mod:`bsjoin.metrics.progress` reads it."""
    return f"{FIGURES}{json.dumps([*map(_described, plans)])}"


def label_of(plan: JoinPlan, rows: DataFrame, cycle: ObservedCycle | None) -> dict[str, Any]:
    """What the operator of a join in the JVM is called, ``label`` in ``Lookup.java``.

    Args:
        plan: the join, which reports.
        rows: the stream's.
        cycle: the cycle that they are of; None for any other micro-batch.
    """
    cycle = None if rows.isStreaming else cycle
    batch = None if rows.isStreaming else micro_batch(rows)
    label: dict[str, Any] = _described(plan)
    # It counts for this micro-batch, in whatever thread it is executed.
    if cycle is not None:
        label["batch"] = [cycle.query, cycle.number]
    elif batch is not None:
        label["batch"] = [batch.query, int(batch.number)]
    return label


def _described(plan: JoinPlan) -> dict[str, str]:
    return {
        "label": plan.label,
        "mode": "incremental" if isinstance(plan.table, SourceTable) else "full",
        "partitioned": plan.partitioned,
        "how": plan.how,
        "runtime": plan.runtime,
        "reason": plan.reason,
    }
