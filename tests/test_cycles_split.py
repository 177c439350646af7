"""A partition that costs too much is spread by HotSpot's rules in the next cycle, or it is named.

Two executors are simulated: the driver passes for both, and tasks cost what the test says.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import BatchTable, HotSpot
from bsjoin import placement as placing
from scheduling import LBACE, StStream
from scheduling.spark import (
    Executor,
    Loop,
    Placement,
    PlacementResult,
    internals,
    loop,
    monitor,
    pins,
)
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.seen import TaskSeen

pytestmark = pytest.mark.usefixtures("interpreted")

ROWS, PARTS, HOT = 4_000, 4, 7
WORKERS = tuple(Executor(f"h{i}", str(i), 8) for i in range(2))
COST_S = 0.05 / ROWS, 20 / ROWS  # of a row, and of a row with the hot key


def stream(spark: SparkSession) -> DataFrame:
    """A tenth of the rows have one key, the others any of 500."""
    key = F.when(F.col("id") % 10 == 0, HOT).otherwise(F.col("id") % 500).cast("long")
    return spark.range(0, ROWS, 1, 3).select(key.alias("k"), F.col("id").alias("p"))


@pytest.fixture(scope="module")
def built(spark: SparkSession) -> BatchTable:
    return BatchTable.build(spark.range(0, 500).selectExpr("id AS k", "id * 3 AS q"), on="k")


class Ran:
    """Cycles on two simulated executors: the rows, and where those of the hot key were."""

    def __init__(self, built: BatchTable, patch: pytest.MonkeyPatch, **options: Any) -> None:
        self.now, self.rows = 0.0, list[Counter[Any]]()
        self.hot, self.cold = list[Counter[int]](), list[Counter[int]]()
        patch.setattr(monitor, "executors_of", lambda _: (WORKERS, {}))
        patch.setattr(SparkMonitor, "_utilisation", lambda *_: {})
        patch.setattr(internals, "only_executor", lambda _: None)
        patch.setattr(loop, "Prober", lambda *_: None)
        patch.setattr(loop, "executors_of", lambda _: (WORKERS, {}))
        patch.setattr(loop, "tasks_of", self._tasks)
        patch.setattr(pins, "pin", partial(self._pin, pins.pin))
        patch.setattr(placing, "Loop", partial(Loop, clock=lambda: self.now))
        placement = Placement(
            policy=LBACE(), rebalancer=StStream(), cooldown_s=0.0, locality_wait_s=0.0
        )
        self.cycles = bsjoin.cycles(built, "k", sink=self._sink, placement=placement, **options)

    def run(self, spark: SparkSession, cycles: int) -> list[PlacementResult]:
        """What the loop says of each cycle."""
        results = []
        for number in range(cycles):
            self.cycles(stream(spark), number)
            self.now += 10.0
            results.append(self.cycles._placing.loop.last)
        return results

    def _sink(self, df: DataFrame, _: int) -> None:
        found = df.select("*", F.spark_partition_id().alias("at")).collect()
        self.rows.append(Counter((row["k"], row["p"], row["q"]) for row in found))
        self.hot.append(Counter(row["at"] for row in found if row["k"] == HOT))
        self.cold.append(Counter(row["at"] for row in found if row["k"] != HOT))

    def _pin(self, pin: Any, *arguments: Any) -> pins.Pinned:
        self.pinned: pins.Pinned = pin(*arguments)
        return self.pinned

    def _tasks(self, *_: Any) -> tuple[TaskSeen, ...]:
        """The tasks ran where they were requested, and took long where the hot key was."""
        cold, hot = COST_S
        return tuple(
            TaskSeen(i, at.id, cold * self.cold[-1][i] + hot * self.hot[-1][i], 1_000)
            for i, at in enumerate(self.pinned.requested)
            if at is not None
        )


def right() -> Counter[Any]:
    keys = ((HOT if p % 10 == 0 else p % 500, p) for p in range(ROWS))
    return Counter((k, p, 3 * k) for k, p in keys)


@pytest.mark.parametrize("cycles", [3, pytest.param(6, marks=pytest.mark.long)])
def test_a_partition_that_costs_too_much_is_spread(
    spark: SparkSession, built: BatchTable, monkeypatch: pytest.MonkeyPatch, cycles: int
) -> None:
    # By their rows alone the partitions are even enough.
    partition = HotSpot(partitions=PARTS, threshold=1.0)
    ran = Ran(built, monkeypatch, partition=partition)
    results = ran.run(spark, cycles)
    assert ran.rows == [right()] * cycles
    assert len(ran.hot[0]) == 1
    assert len(ran.hot[-1]) >= 2
    assert max(ran.hot[-1].values()) < 0.8 * ROWS / 10
    (source,) = ran.hot[0]
    split = [one for one in results if one.splits]
    assert 1 <= len(split) <= 3
    assert source in split[0].splits
    assert f"{len(split[0].splits)} partitions split" in split[0].summary
    versions = [cycle.partition.rule_version for cycle in bsjoin.progress(ran.cycles)]
    assert len(set(versions)) == 1 + len(split)
    reasons = [cycle.placement.reason for cycle in bsjoin.progress(ran.cycles)]
    assert sum(", splits join-" in reason for reason in reasons) == len(split)
    assert not any(one.dropped for one in results)
    if cycles == 3:
        return
    # The loads of the two executors in the end: at most a fifth from their mean.
    loads = Counter[str]()
    for task, at in results[-1].landed.items():
        index = int(task.rpartition("-")[2])
        loads[at] += COST_S[0] * ran.cold[-1][index] + COST_S[1] * ran.hot[-1][index]
    assert max(loads.values()) < 1.25 * sum(loads.values()) / 2


@pytest.mark.long
def test_without_a_rule_that_splits_keys_the_log_says_once_what_to_do(
    spark: SparkSession,
    built: BatchTable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    partition = HotSpot(partitions=PARTS, threshold=1.0, split_hot_keys=False)
    ran = Ran(built, monkeypatch, partition=partition)
    with caplog.at_level(logging.WARNING, "scheduling"):
        results = ran.run(spark, 5)
    assert ran.rows == [right()] * 5
    assert {len(hot) for hot in ran.hot} == {1}
    (source,) = ran.hot[0]
    dropped = [one for one in results if one.dropped]
    assert 0.2 < dropped[0].dropped[source] < 1
    assert "1 splits dropped" in dropped[0].summary
    assert not any(one.splits for one in results)
    (said,) = [one for one in caplog.messages if "split" in one]
    assert "a heavy partition is not split" in said
    assert "partition=HotSpot()" in said
