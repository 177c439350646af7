"""Runs of the live experiment: micro-batches of a stream, under one policy after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.harness.outcome import Context
from benchmarks.harness.spark import rate_stream, running
from benchmarks.papers.scheduling import placement_live_jobs as jobs
from benchmarks.papers.scheduling.placement_live_cluster import Cluster, Node
from benchmarks.papers.scheduling.placement_live_jobs import Job
from scheduling import CETSA, GSBFD, LBACE, Policy, RoundRobin, StStream
from scheduling.spark import Placement

DELTA = 0.8
"""The share of an executor that tasks may take, the same for every policy (Eq. 17 of CETSA)."""
UNCOUNTED = 2  # cycles of a turn: without history, and the first after it
_NEEDS = 0.4  # cores that the tasks of a micro-batch need together, in the time of a trigger
_WARM, _BEGIN_ROWS = 3, 3_000
_CALIBRATION_S = 3.0  # of CPU, against which what a micro-batch costs without any row is little


@dataclass(frozen=True)
class Way:
    """A policy, and how it is followed; without one Spark places the tasks.

    ``kept``: the present plan is kept until another pays for its moves (hysteresis, the default of
    a placement); otherwise every answer is pinned. ``streamed``: St-Stream suggests moves.
    """

    name: str
    policy: Callable[[], Policy] | None
    kept: bool = False
    streamed: bool = False

    def placement(self, cluster: Cluster, nodes: Sequence[Node], trigger_s: float) -> Placement:
        """The options of the loop."""
        keep: dict[str, Any] = {"cooldown_s": 2 * trigger_s}
        if not self.kept:
            keep = {"cooldown_s": 0.0, "hysteresis": 0.0}
        return Placement(
            policy=None if self.policy is None else self.policy(),
            prices=cluster.prices(nodes),
            rebalancer=StStream(split=False, cpu_weight=1.0) if self.streamed else None,
            search=False,
            delta=DELTA,
            **keep,
        )


DEFAULT, ROUND_ROBIN = Way("Default", None), Way("round robin", RoundRobin)
WAYS = (
    DEFAULT,
    ROUND_ROBIN,
    Way("GS-BFD", GSBFD),
    Way("CETSA", CETSA),
    Way("LBA-CE", LBACE),
    Way("GS-BFD kept", GSBFD, kept=True),
    Way("CETSA kept", CETSA, kept=True),
    Way("LBA-CE kept", LBACE, kept=True),
)
ST_STREAM_WAYS = (
    DEFAULT,
    ROUND_ROBIN,
    Way("round robin + St-Stream", RoundRobin, kept=True, streamed=True),
    *(
        Way(f"{name} + St-Stream" if streamed else f"{name} kept", policy, True, streamed)
        for name, policy in (("GS-BFD", GSBFD), ("CETSA", CETSA), ("LBA-CE", LBACE))
        for streamed in (False, True)
    ),
)
"""Every placement with and without St-Stream; not Spark's own, in which nothing can be moved."""


@dataclass(frozen=True)
class Cycle:
    """What was seen of a micro-batch, the ``number`` of a way's turn.

    ``ran_s`` is to the sink's end, ``length_s`` to the next one. ``rent_per_s`` and ``workers`` are
    of those that ran tasks; ``moves``: tasks that ran elsewhere than in the cycle before.
    ``requested`` counts tasks with an executor, ``landed`` those that ran there, ``unplaced`` those
    for which no worker had room. Of the nodes' CPU time over what they may use ``deviation`` is S
    of Eq. 26, and ``gap`` the most less the least.
    """

    job: str
    way: str
    turn: int
    number: int
    rows: int
    ran_s: float
    rent_per_s: float
    workers: int
    moves: int
    requested: int
    landed: int
    unplaced: int
    length_s: float = 0.0
    deviation: float = 0.0
    gap: float = 0.0


def in_turns(ways: Sequence[Way], turns: int, cycles: int) -> list[tuple[Way, int, int]]:
    """The way, its turn and the cycle in it, of all micro-batches: every second turn in reverse."""
    return [
        (way, turn, number)
        for turn in range(turns)
        for way in (ways if turn % 2 == 0 else ways[::-1])
        for number in range(cycles)
    ]


def calibrated(
    cluster: Cluster, job: Job, nodes: Sequence[Node], trigger_s: float, table: Any
) -> int:
    """Rows of a micro-batch whose tasks need what :data:`_NEEDS` says, after a warm-up of all.

    The executors are not limited meanwhile: everything is compiled at full speed.
    """
    cluster.limit(None)
    warm = jobs.start(job, Way("warm", RoundRobin).placement(cluster, nodes, trigger_s), table)
    rows, spent = _BEGIN_ROWS * job.first, 0.0
    for number in range(_WARM + 3):
        before = cluster.used_s()
        warm(_static(cluster, job, rows), number)
        spent = sum(cluster.used_s().values()) - sum(before.values())
        if number < _WARM:  # mostly the compiler's
            continue
        if spent >= _CALIBRATION_S:
            break
        rows = int(rows * min(20.0, 1.2 * _CALIBRATION_S / max(spent, 0.05)))
    rows = max(job.first, int(rows * _NEEDS * trigger_s / spent))
    return rows - rows % job.first


def run(
    context: Context, cluster: Cluster, job: Job, schedule: Sequence[tuple[Way, int, int]], *,
    rows: int, trigger_s: float, nodes: Sequence[Node], table: Any = None,
) -> list[Cycle]:  # fmt: skip
    """Run a stream whose micro-batches follow a schedule; every answer is compared with Spark's.

    ``schedule`` is of :func:`in_turns`, ``rows`` of :func:`calibrated`; ``nodes``: what the
    executors are for this job, their shares and prices; ``table``: of the join.
    """
    expected = jobs.plain(job, _static(cluster, job, rows))
    share = {node.name: node.share for node in nodes}
    price = {node.name: node.price_per_s for node in nodes}
    cluster.limit(share)
    found, wrong, placed = list[Cycle](), list[str](), None
    began, used, where = 0.0, dict[str, float](), dict[str, str]()

    def end() -> None:
        """A micro-batch ends where the next one begins."""
        nonlocal began, used
        until, now = cluster.used_s(), time.monotonic()  # reading takes time, of no micro-batch
        if found:
            length_s = now - began
            use = [max(0.0, until[n] - used[n]) / (length_s * share[n]) for n in until]
            spread = {"deviation": statistics.pstdev(use), "gap": max(use) - min(use)}
            found[-1] = replace(found[-1], length_s=length_s, **spread)
        began, used = now, until

    def cycle(df: DataFrame, _: int) -> None:
        nonlocal placed, where
        if len(found) >= len(schedule):
            return
        end()
        way, turn, number = schedule[len(found)]
        if number == 0:
            placed = jobs.start(job, way.placement(cluster, nodes, trigger_s), table)
            where = {}
        assert placed is not None
        answer, seen = placed(df.withColumn("value", df["value"] % rows), number)
        ran_s = time.monotonic() - began
        if answer != expected:
            wrong.append(f"{job.name}, {way.name}: {answer}, and Spark alone {expected}")
        landed = {t: cluster.node_of(w) for each in seen for t, w in each.landed.items()}
        there, before, where = set(landed.values()), where, landed
        found.append(
            Cycle(
                job.name, way.name, turn, number, rows, ran_s,
                sum(price.get(name, 0.0) for name in there), len(there),
                sum(before.get(task, name) != name for task, name in landed.items()),
                sum(len(each.requested) for each in seen),
                sum(each.landed.get(t) == w for each in seen for t, w in each.requested.items()),
                sum(len(each.unplaced) for each in seen),
            )
        )  # fmt: skip

    writer = rate_stream(cluster.spark, rows, job.first).writeStream.foreachBatch(cycle)
    writer = writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
    with running(writer, cluster.folder) as query:
        until = time.monotonic() + 60 + 5 * trigger_s * len(schedule)
        while len(found) < len(schedule) and query.isActive and time.monotonic() < until:
            if wrong:
                break
            time.sleep(0.1)
        error = query.exception()
        end()
    if wrong:
        raise AssertionError(wrong[0])
    if len(found) < len(schedule):
        raise RuntimeError(f"{job.name}: {len(found)} of {len(schedule)} micro-batches: {error}")
    # The last one would have ended where the next one had begun.
    found[-1] = replace(found[-1], length_s=max(trigger_s, found[-1].ran_s))
    for name in dict.fromkeys(one.way for one in found):
        own = [one for one in found if one.way == name and one.number >= UNCOUNTED]
        ran, workers, moves = (
            statistics.fmean(getattr(one, of) for one in own)
            for of in ("ran_s", "workers", "moves")
        )
        told = f"{ran:6.2f} s a cycle, {workers:3.1f} workers, {moves:4.1f} moves"
        context.say(f"  {job.name:<10} {name:<24} {told}")
    return found


def _static(cluster: Cluster, job: Job, rows: int) -> DataFrame:
    """The rows of every micro-batch, as a table."""
    return cluster.spark.range(0, rows, 1, job.first).withColumnRenamed("id", "value")
