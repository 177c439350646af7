"""Figures that Spark adds up while rows pass by: of a stream's micro-batch, or of one cycle.

A streaming query reports them with its progress. In ``foreachBatch`` every micro-batch is a batch
of its own: the driver of the cycle collects its figures, or
:mod:`bsjoin.metrics.tasks` keeps them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.metrics.counted import counted, figures, tagged
from bsjoin.metrics.join_metrics import JoinLabel, OperatorMetrics
from bsjoin.metrics.lines import to_line
from bsjoin.metrics.tasks import received
from bsjoin.partitioning.generated import RoutedRows
from bsjoin.plan import FIGURES, ROUTE_FIGURES, JoinPlan, SourceTable
from bsjoin.spark import compat
from bsjoin.spark.session import micro_batch, retained

_SOON_S, _WAIT_S = 0.2, 5.0
_TICK_S = 0.01


class ObservedCycle:
    """One micro-batch whose driver collects its figures."""

    def __init__(self, query: str, number: int):
        self.query = query
        self.number = number
        self._observations: dict[str, Observation] = {}

    def counting(self, spark: SparkSession) -> contextlib.AbstractContextManager[None]:
        """Let the joins in the JVM that run meanwhile count for this cycle."""
        return tagged(spark, self.query, self.number)

    def operators(self) -> list[OperatorMetrics]:
        """Return what they have counted."""
        return counted(self.query, self.number, self.number)

    def routed(self) -> list[RoutedRows]:
        """Return what was sent to partitions in the JVM."""
        return figures(RoutedRows, "partitions", self.query, self.number, self.number, None)

    def observe(self, df: DataFrame, name: str, lines: Column) -> DataFrame:
        """Let Spark compute an aggregate while the rows of ``df`` pass by."""
        observation = self._observations[name] = Observation(name)
        return df.observe(observation, lines)

    def figures(
        self, spark: SparkSession, below: Mapping[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Return what was observed, by name; without what no action has used.

        What is ``below`` was observed in a plan that Spark's observations do not reach, since the
        partitions of its rows were placed.
        """
        missing = {name: one for name, one in self._observations.items() if name not in below}
        # Spark 4.1 reports them a moment after the action; those of rows that no query uses, as
        # `foreachPartition` does without one, never come.
        until = time.monotonic() + _SOON_S
        while any(compat.is_complete(one) is False for one in missing.values()):
            if time.monotonic() > until:
                with contextlib.suppress(compat.MissingMemberError):
                    compat.deliver_events(spark, _WAIT_S)
                break
            time.sleep(_TICK_S)
        found = {name: one.get for name, one in missing.items() if compat.is_complete(one)}
        return {name: figures for name, figures in {**below, **found}.items() if figures}


def _figures_of(observation: Observation) -> dict[str, Any] | None:
    """Return what was observed, without waiting; None if it was not, or the action failed."""
    try:
        return observation.get if compat.is_complete(observation) else None
    except PySparkException:  # Spark Connect raises what the action has raised
        return None


def is_steered(stream: DataFrame, cycle: ObservedCycle | None) -> bool:
    """Whether the figures of these rows steer what comes after them."""
    return stream.isStreaming or cycle is not None


def is_reported(stream: DataFrame, cycle: ObservedCycle | None) -> bool:
    """Whether anybody reads the figures of a join of these rows."""
    return is_steered(stream, cycle) or micro_batch(stream) is not None


LINES = "lines"
"""The name of the column that Spark observes."""


def observed(df: DataFrame, cycle: ObservedCycle | None, name: str, lines: Column) -> DataFrame:
    """Let Spark collect the lines of tasks, null in most rows, while the rows of ``df`` pass by."""
    together = F.listagg(lines, F.lit("\n")).alias(LINES)
    if cycle is not None and not df.isStreaming:
        return cycle.observe(df, name, together)
    batch = None if df.isStreaming else micro_batch(df)
    if batch is None:
        return df.observe(name, together)
    observation = Observation(name)
    received.remember(retained(df.sparkSession))
    number = int(batch.number)
    received.observe(batch.query, batch.run, number, name, lambda: _figures_of(observation))
    return df.observe(observation, together)


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
