"""Figures that Spark adds up while rows pass by: of a stream's micro-batch, or of one cycle.

A streaming query reports them with its progress. In ``foreachBatch`` every micro-batch is a batch
of its own: the driver of the cycle collects its figures, or
:mod:`bsjoin.metrics.tasks` keeps them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession

from bsjoin.metrics.counted import counted, tagged
from bsjoin.metrics.join_metrics import OperatorMetrics
from bsjoin.metrics.tasks import received
from bsjoin.spark import compat
from bsjoin.spark.session import micro_batch, retained

_WAIT_S = 5.0
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

    def observe(self, df: DataFrame, name: str, *aggregates: Column) -> DataFrame:
        """Let Spark compute aggregates while the rows of ``df`` pass by."""
        observation = self._observations[name] = Observation(name)
        return df.observe(observation, *aggregates)

    def figures(self, below: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return what was observed, by name; without what no action has used.

        What is ``below`` was observed in a plan that Spark's observations do not reach, since the
        partitions of its rows were placed.
        """
        found: dict[str, dict[str, Any]] = dict(below)
        missing = {name: one for name, one in self._observations.items() if name not in below}
        # Spark 4.1 reports them a moment after the action; those of a result that is not used
        # never come.
        until = time.monotonic() + _WAIT_S
        while missing:
            for name, one in [*missing.items()]:
                complete = compat.is_complete(one)
                if complete is not False:
                    del missing[name]
                if complete:
                    found[name] = one.get
            if time.monotonic() > until:
                break
            time.sleep(_TICK_S if missing else 0)
        return {name: figures for name, figures in found.items() if figures}


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


def observe(
    df: DataFrame, cycle: ObservedCycle | None, name: str, *aggregates: Column
) -> DataFrame:
    """Let Spark compute aggregates while the rows of ``df`` pass by."""
    if cycle is not None and not df.isStreaming:
        return cycle.observe(df, name, *aggregates)
    batch = None if df.isStreaming else micro_batch(df)
    if batch is None:
        return df.observe(name, *aggregates)
    observation = Observation(name)
    received.remember(retained(df.sparkSession))
    number = int(batch.number)
    received.observe(batch.query, batch.run, number, name, lambda: _figures_of(observation))
    return df.observe(observation, *aggregates)
