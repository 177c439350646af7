"""Metrics that Spark observes while the rows of joins pass by, and their names.

:mod:`bsjoin.metrics.progress` reads it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.metrics.join_metrics import JoinLabel
from bsjoin.metrics.lines import to_line
from bsjoin.metrics.observing import ObservedCycle, observe
from bsjoin.plan import FIGURES, ROUTE_FIGURES, JoinPlan, SourceTable
from bsjoin.spark.session import micro_batch

LINES = "lines"
"""The name of the column that Spark observes."""


def observed(rows: DataFrame, cycle: ObservedCycle | None, name: str, lines: Column) -> DataFrame:
    """Let Spark collect the lines of tasks, null in most rows, while rows pass by."""
    return observe(rows, cycle, name, F.listagg(lines, F.lit("\n")).alias(LINES))


def name_of(*plans: JoinPlan) -> str:
    """Name the metrics of joins that are counted together: their labels, in a line."""
    return f"{FIGURES}{to_line(map(_described, plans))}"


def route_of(label: str) -> str:
    """Name the statistics of the rows that a join sends to partitions."""
    return f"{ROUTE_FIGURES}{label}"


def label_of(plan: JoinPlan, rows: DataFrame, cycle: ObservedCycle | None) -> JoinLabel:
    """Return the label of a join's operator in the JVM, ``label`` in ``Lookup.java``."""
    label = _described(plan)
    if rows.isStreaming:
        return label
    # It counts for this micro-batch, in whatever thread it is executed.
    if cycle is not None:
        return replace(label, batch=(cycle.query, cycle.number))
    batch = micro_batch(rows)
    return label if batch is None else replace(label, batch=(batch.query, int(batch.number)))


def _described(plan: JoinPlan) -> JoinLabel:
    return JoinLabel(
        label=plan.label,
        mode="incremental" if isinstance(plan.table, SourceTable) else "full",
        partitioned=plan.partitioned,
        runtime=plan.runtime,
        reason=plan.reason,
    )
