"""What is tried on a standalone cluster; a program that prints what it saw as JSON.

``python live_scenarios.py FOLDER``; ``test_scheduling_live.py`` runs it, and looks at what it saw.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from scheduling_samples import Asked, Wants
from sessions import CLUSTER, CODE, on_this_machine, session
from standalone import process_of, start

import bsjoin
from bsjoin import BatchTable
from bsjoin.sources import function
from scheduling import (
    CETSA,
    GSBFD,
    LBACE,
    Assignment,
    JobGraph,
    Plan,
    Price,
    RoundRobin,
    Snapshot,
    StStream,
)
from scheduling.spark import Loop, Placement, Tier
from scheduling.spark.internals import StatusStore, request_total

ROWS, WEIGHTED = 5_000, [0, 0, 0, 1, 1, 2]
OPTIONS = {
    **CLUSTER,
    **CODE["python"],
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.sql.shuffle.partitions": "6",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
}


def _amounts(keys: pa.Table) -> pa.Table:
    """The rows of :func:`table` for some keys."""
    there = keys["k"].filter(pc.less(keys["k"], 2_000))
    return pa.table({"k": there, "amount": pc.multiply(there, 7)})


SOURCE = function(_amounts, {"k": pa.int64(), "amount": pa.int64()}, unique=True)
CACHE = bsjoin.Incremental(max_rows=10_000)


class Layout:
    """A policy that places task i on the worker that a list says, the largest worker first."""

    name = "layout"

    def __init__(self, order: list[int]) -> None:
        self.order = order

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        workers = sorted(snapshot.workers, key=lambda one: -one.slots)
        return Plan(
            tuple(
                Assignment(task.id, workers[self.order[i % len(self.order)]].id, "as laid out")
                for i, task in enumerate(graph.tasks)
            )
        )


def wait_for(spark: SparkSession, count: int) -> list[dict[str, Any]]:
    """The executors, once there are so many."""
    until = time.monotonic() + 120
    while True:
        found = [
            one
            for one in StatusStore(spark).executors()
            if one["id"] != "driver" and one["isActive"] and ":" in one["hostPort"]
        ]
        if len(found) == count:
            return found
        assert time.monotonic() < until, f"{len(found)} executors, not {count}"
        time.sleep(0.3)


def stream(spark: SparkSession, seed: int, rows: int = ROWS, parts: int = 3) -> DataFrame:
    return spark.range(0, rows, 1, parts).select(
        F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(3_000)).alias("k"), F.col("id").alias("event")
    )


def table(spark: SparkSession) -> DataFrame:
    return spark.range(2_000).select(F.col("id").alias("k"), (F.col("id") * 7).alias("amount"))


@functools.cache
def built(spark: SparkSession) -> BatchTable:
    return BatchTable.build(table(spark), on="k")


def fingerprint(df: DataFrame) -> list[int]:
    hashed = F.xxhash64(*df.columns).cast("decimal(38,0)")
    row = df.agg(F.count(F.lit(1)), F.sum(hashed)).first()
    return [int(row[0]), int(row[1] or 0)]


@functools.cache
def expected(spark: SparkSession, seed: int) -> list[int]:
    """What Spark's own join answers."""
    return fingerprint(stream(spark, seed).join(table(spark), "k"))


def joined(
    spark: SparkSession, seeds: list[int], batch: Any = None, **options: Any
) -> dict[str, Any]:
    """Cycles of a join through ``bsjoin.cycles``: what came out, where it ran, what is cached."""
    found: list[list[int]] = []
    steered = bsjoin.cycles(
        batch or built(spark),
        "k",
        sink=options.pop("sink", lambda rows, _: found.append(fingerprint(rows))),
        **options,
    )
    for number, seed in enumerate(seeds):
        steered(stream(spark, seed), number)
    placed = [one.placement for one in bsjoin.progress(steered)]
    loop = steered._placing.loop
    return {
        "cached": [task.cached for task in loop.monitor.tasks(loop.last.partitions)],
        "right": found == [expected(spark, seed) for seed in seeds],
        "rows": [one.rows_in for one in bsjoin.progress(steered)],
        "placed": [
            [p.action, p.reason, p.partitions, p.requested, p.landed, dict(p.workers)]
            for p in placed
            if p is not None
        ],
    }


def layouts(spark: SparkSession) -> dict[str, Any]:
    """Figure 8: tasks by a layout that weighs executors by their cores."""
    policy = Placement(policy=Layout(WEIGHTED), probe=False)
    return joined(spark, [1, 2], placement=policy, partition=bsjoin.Hash(12))


def followed(spark: SparkSession) -> dict[str, Any]:
    """Policies that disagree: where each one's tasks were to run in each cycle, and where they did.

    The largest executor is the cheapest, the smallest one the dearest.
    """
    prices = [Price("127.0.0.2", 5.0), Price("127.0.0.3", 1.0), Price("127.0.0.4", 0.1)]
    found = {}
    for policy in (GSBFD(), CETSA(), LBACE()):
        asked = Asked(policy)
        loop = Loop(
            spark,
            Placement(policy=asked, prices=prices, probe=False, delta=1.0, hysteresis=0),
            partitions=3,
        )
        cycles = []
        for seed in (1, 2, 3):
            with loop.cycle() as context:
                rows = fingerprint(context.place(stream(spark, seed, parts=3)))
            cycles.append(
                {
                    "right": rows == fingerprint(stream(spark, seed)),
                    "landed": dict(loop.last.landed),
                    "share": loop.last.share,
                }
            )
        found[policy.name] = {
            "cycles": cycles,
            "answers": [dict(one.placement) for one in asked.answers],
            "history": asked.history,
            "explained": loop.explain(),
        }
    return found


def cycles(spark: SparkSession) -> dict[str, Any]:
    """The closed loop: history, prices, a scaler, hotspots; and a source."""
    prices = [Price("127.0.0.2", 1.0), Price("127.0.0.3", 1.5), Price("127.0.0.4", 40.0)]
    placement = Placement(
        policy=LBACE(),
        prices=prices,
        partitions=(2, 5),
        rebalancer=StStream(),
        cooldown_s=0.0,
        delta=1.0,
    )
    rule, scaler = bsjoin.HotSpot(partitions=3), Wants(9.0)
    return {
        "scaled": joined(spark, [1, 2, 3, 4], placement=placement, scaler=scaler, partition=rule),
        "source": joined(
            spark, [1], SOURCE, placement=LBACE(), partition=bsjoin.Hash(6), cache=CACHE
        ),
    }


def killed(spark: SparkSession) -> dict[str, Any]:
    """An executor dies in the middle of a cycle: nothing is lost, nothing doubled."""
    victim: list[int] = []

    found: list[list[int]] = []

    def sink(rows: DataFrame, number: int) -> None:
        if number == 1:
            slow = rows.mapInArrow(_slowly, rows.schema)
            pid = process_of(spark, "127.0.0.3")
            victim.append(pid)

            def kill() -> None:
                time.sleep(1.0)
                os.kill(pid, signal.SIGKILL)

            import threading

            thread = threading.Thread(target=kill)
            thread.start()
            found.append(fingerprint(slow))
            thread.join()
        else:
            found.append(fingerprint(rows))

    before = {one["id"] for one in wait_for(spark, 3)}
    seen = joined(
        spark,
        [1, 2],
        placement=Placement(policy=Layout([0, 1, 2]), probe=False, cooldown_s=0.0),
        partition=bsjoin.Hash(12),
        sink=sink,
    )
    after = {one["id"] for one in wait_for(spark, 3)}
    return {
        **seen,
        "right": found == [expected(spark, 1), expected(spark, 2)],
        "new executors": len(after - before),
    }


def _slowly(batches):  # type: ignore[no-untyped-def]
    for batch in batches:
        time.sleep(0.5)
        yield batch


def added_and_removed(spark: SparkSession) -> dict[str, Any]:
    """The loop notices an executor that goes and one that comes; all cycles are right.

    One that is released while its tasks are pinned keeps none of them, however long they may wait.
    """
    options = Placement(
        policy=RoundRobin(), probe=False, hysteresis=0, delta=1.0, locality_wait_s=9_000.0
    )
    loop = Loop(spark, options, partitions=6)
    found: list[Any] = []

    def cycle(seed: int, release: str | None = None) -> None:
        with loop.cycle() as context:
            # No shuffle: Spark does not try the stage again where its input is lost.
            rows = stream(spark, seed, parts=context.partitions)
            placed = context.place(rows)
            assert release is None or driver.killExecutor(release)
            answer = fingerprint(placed)
        found.append(
            {
                "right": answer == fingerprint(stream(spark, seed)),
                "action": loop.last.decision.action,
                "reason": loop.last.decision.reason,
                "workers": dict(loop.last.workers),
                "share": loop.last.share,
                "requested": len(loop.last.requested),
            }
        )

    wait_for(spark, 3)
    driver: Any = spark.sparkContext._jsc.sc()
    cycle(1)
    gone = wait_for(spark, 3)[0]
    cycle(2, release=gone["id"])
    wait_for(spark, 2)
    cycle(3)
    cycle(4)
    request_total(spark, 3)
    wait_for(spark, 3)
    cycle(5)
    return {"gone": gone["hostPort"].rpartition(":")[0] + "/" + gone["id"], "cycles": found}


def idle(spark: SparkSession) -> dict[str, Any]:
    """Executors that a cheap plan leaves idle are given back; the next job begins at once."""
    prices = [Price("127.0.0.4", 0.1), Price("*", 5.0)]
    placement = Placement(
        policy=CETSA(by_price=True),
        prices=prices,
        probe=False,
        cooldown_s=0.0,
        executors=(1, 3),
        delta=1.0,
    )
    wait_for(spark, 3)
    seen = joined(spark, [1, 2, 3, 4, 5], placement=placement, partition=bsjoin.Hash(3))
    everywhere = Placement(policy=Layout([0, 1, 2]), probe=False)
    after = joined(spark, [1], placement=everywhere, partition=bsjoin.Hash(6))
    return {**seen, "after": after["right"], "left": len(wait_for(spark, 1))}


DYNAMIC = {
    "spark.executor.cores": "1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "1",
}


def tiers(spark: SparkSession) -> dict[str, Any]:
    """Two tiers by resource profile; the cheaper one is not the first one."""
    every = (Tier("middle", "middle", 1, 512, 4, 3.0), Tier("large", "large", 1, 512, 4, 1.0))
    placement = Placement(policy=CETSA(by_price=True), tiers=every, delta=1.0)
    return joined(spark, [1], placement=placement, partition=bsjoin.Hash(4))


def main(folder: Path) -> None:
    warnings.simplefilter("error", DeprecationWarning)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = on_this_machine(OPTIONS, "driver", "executor")
    SparkContext._ensure_initialized(conf=SparkConf().setAll(options.items()))
    master = start(SparkContext._gateway, folder, (1, 2, 3), ("", "middle", "large"))
    found: dict[str, Any] = {}
    for more, executors, scenarios in (
        ({}, 3, (layouts, followed, cycles, killed, added_and_removed, idle)),
        (DYNAMIC, 1, (tiers,)),
    ):
        spark = session(master, {**options, **more})
        wait_for(spark, executors)
        for scenario in scenarios:
            began = time.monotonic()
            try:
                found[scenario.__name__] = scenario(spark)
            except Exception as error:
                found[scenario.__name__] = {"error": f"{type(error).__name__}: {error}"}
            seconds = time.monotonic() - began
            print(f"{scenario.__name__}: {seconds:.1f} s", file=sys.stderr, flush=True)
        spark.stop()
    (folder / "found.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
