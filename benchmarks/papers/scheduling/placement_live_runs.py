"""Runs of the live experiment: micro-batches of a stream, under one policy after the other."""

from __future__ import annotations

import contextlib
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.harness.outcome import Context
from benchmarks.papers.scheduling import placement_live_jobs as jobs
from benchmarks.papers.scheduling.placement_live_cluster import Cluster, Node
from benchmarks.papers.scheduling.placement_live_jobs import Job
from scheduling import CETSA, GSBFD, LBACE, Policy, RoundRobin, StStream
from scheduling.spark import Placement, PlacementResult

__all__ = ["ST_STREAM_WAYS", "WAYS", "Cycle", "Way", "calibrated", "in_turns", "run"]

DELTA = 0.8
"""The share of an executor that tasks may take, the same for every policy (Eq. 17 of CETSA)."""
UNCOUNTED = 2  # cycles of a turn: without history, and the first after it
_NEEDS = 0.4  # cores that the tasks of a micro-batch need together, in the time of a trigger
_WARM, _BEGIN_ROWS = 3, 3_000
_CALIBRATION_S = 3.0  # of CPU, against which what a micro-batch costs without any row is little


@dataclass(frozen=True)
class Way:
    """A policy, and how it is followed.

    Args:
        name: for the output.
        policy: makes it; None: Spark places the tasks.
        kept: whether the present plan is kept until another pays for its moves (hysteresis, the
            default of a placement); otherwise every answer is pinned.
        streamed: whether St-Stream suggests moves.
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
    """What was seen of a micro-batch.

    Args:
        job: its name.
        way: the name of the way.
        turn: of the way, counted from 0.
        number: of the cycle in its turn.
        ran_s: from its beginning to the sink's end.
        length_s: to the beginning of the next one.
        rows: of the stream.
        rent_per_s: the price of the workers that ran tasks, in $/s.
        workers: how many these are.
        use: by node, its CPU time over what it may use.
        moves: tasks that ran elsewhere than in the cycle before.
        requested: tasks for which an executor was requested.
        landed: those of them that ran there.
        unplaced: tasks for which no worker had room.
        reason: of the last operator's decision.
    """

    job: str
    way: str
    turn: int
    number: int
    ran_s: float
    length_s: float
    rows: int
    rent_per_s: float
    workers: int
    use: Mapping[str, float]
    moves: int
    requested: int
    landed: int
    unplaced: int
    reason: str

    @property
    def deviation(self) -> float:
        """S of Eq. 26: the standard deviation of the nodes' CPU use."""
        return statistics.pstdev(self.use.values())

    @property
    def gap(self) -> float:
        """Between the most and the least used node."""
        return max(self.use.values()) - min(self.use.values())


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
    running = jobs.start(job, Way("warm", RoundRobin).placement(cluster, nodes, trigger_s), table)
    rows, spent = _BEGIN_ROWS * job.first, 0.0
    for number in range(_WARM + 3):
        before = cluster.used_s()
        running(_static(cluster, job, rows), number)
        spent = sum(cluster.used_s().values()) - sum(before.values())
        if number < _WARM:  # mostly the compiler's
            continue
        if spent >= _CALIBRATION_S:
            break
        rows = int(rows * min(20.0, 1.2 * _CALIBRATION_S / max(spent, 0.05)))
    rows = max(job.first, int(rows * _NEEDS * trigger_s / spent))
    return rows - rows % job.first


def run(
    context: Context,
    cluster: Cluster,
    job: Job,
    schedule: Sequence[tuple[Way, int, int]],
    *,
    rows: int,
    trigger_s: float,
    nodes: Sequence[Node],
    table: Any = None,
) -> list[Cycle]:
    """Run a stream whose micro-batches follow a schedule; every answer is compared with Spark's.

    Args:
        context: of the benchmark.
        cluster: the cluster.
        job: the job.
        schedule: of :func:`in_turns`.
        rows: of every micro-batch: see :func:`calibrated`.
        trigger_s: seconds between two micro-batches.
        nodes: what the executors are for this job: their shares and prices.
        table: of the join.

    Raises:
        AssertionError: an answer differs.
        RuntimeError: the stream ends before, or takes too long.
    """
    expected = jobs.plain(job, _static(cluster, job, rows))
    cluster.limit({node.name: node.share for node in nodes})
    observer = _Observer(cluster, job, nodes, rows)
    at, wrong, running = 0, list[str](), None

    def cycle(df: DataFrame, _: int) -> None:
        nonlocal at, running
        if at >= len(schedule):
            return
        way, turn, number = schedule[at]
        if number == 0:
            placement = way.placement(cluster, nodes, trigger_s)
            running = jobs.start(job, placement, table)
        assert running is not None
        began = observer.begin()
        found, seen = running(df.withColumn("value", df["value"] % rows), number)
        observer.end(began, way, turn, number, seen)
        if found != expected:
            wrong.append(f"{job.name}, {way.name}: {found}, and Spark alone {expected}")
        at += 1

    with _query(cluster, job, rows, trigger_s, cycle) as query:
        until = time.monotonic() + 60 + 5 * trigger_s * len(schedule)
        while at < len(schedule) and query.isActive and time.monotonic() < until and not wrong:
            time.sleep(0.1)
        observer.close(trigger_s)
        error = query.exception()
    if wrong:
        raise AssertionError(wrong[0])
    if at < len(schedule):
        raise RuntimeError(f"{job.name}: {at} of {len(schedule)} micro-batches: {error}")
    _tell(context, job, observer.cycles)
    return observer.cycles


class _Observer:
    """Makes the records of a run's cycles; a cycle ends where the next one begins."""

    def __init__(self, cluster: Cluster, job: Job, nodes: Sequence[Node], rows: int) -> None:
        self._cluster, self._job, self._rows = cluster, job, rows
        self._price = {node.name: node.price_per_s for node in nodes}
        self._share = {node.name: node.share for node in nodes}
        self._open: tuple[float, dict[str, float], Cycle] | None = None
        self._at: dict[str, str] = {}
        self._used: dict[str, float] = {}
        self.cycles: list[Cycle] = []

    def begin(self) -> float:
        """A cycle begins: the one before it has ended."""
        self.close()
        self._used = self._cluster.used_s()
        return time.monotonic()

    def end(
        self, began: float, way: Way, turn: int, number: int, seen: Sequence[PlacementResult]
    ) -> None:
        """Its sink has ended."""
        ran_s = time.monotonic() - began
        landed = {
            task: self._cluster.node_of(worker)
            for one in seen
            for task, worker in one.landed.items()
        }
        before, self._at = ({} if number == 0 else self._at), landed
        nodes = set(landed.values())
        decision = seen[-1].decision if seen else None
        self._open = (
            began,
            self._used,
            Cycle(
                self._job.name, way.name, turn, number, ran_s, math.nan, self._rows,
                sum(self._price.get(name, 0.0) for name in nodes), len(nodes), {},
                sum(before.get(task, name) != name for task, name in landed.items()),
                sum(len(one.requested) for one in seen),
                sum(one.landed.get(t) == w for one in seen for t, w in one.requested.items()),
                sum(len(one.unplaced) for one in seen),
                "" if decision is None else decision.reason,
            ),
        )  # fmt: skip

    def close(self, least_s: float | None = None) -> None:
        """The cycle that is open has ended now; the last one when the next would have begun.

        Args:
            least_s: for the last one, the time between two micro-batches.
        """
        if self._open is None:
            return
        (began, before, cycle), self._open = self._open, None
        length_s = time.monotonic() - began
        use = {
            name: max(0.0, used - before[name]) / (length_s * self._share[name])
            for name, used in self._cluster.used_s().items()
        }
        if least_s is not None:
            length_s = max(least_s, cycle.ran_s)
        self.cycles.append(replace(cycle, length_s=length_s, use=use))


def _static(cluster: Cluster, job: Job, rows: int) -> DataFrame:
    """The rows of every micro-batch, as a table."""
    return cluster.spark.range(0, rows, 1, job.first).withColumnRenamed("id", "value")


@contextlib.contextmanager
def _query(
    cluster: Cluster, job: Job, rows: int, trigger_s: float, cycle: Callable[[DataFrame, int], None]
) -> Iterator[Any]:
    stream = (
        cluster.spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", job.first)
        .load()
    )
    with tempfile.TemporaryDirectory(dir=cluster.folder) as checkpoint:
        query = (
            stream.writeStream.foreachBatch(cycle)
            .trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
            .option("checkpointLocation", checkpoint)
            .start()
        )
        try:
            yield query
        finally:
            query.stop()


def _tell(context: Context, job: Job, cycles: Sequence[Cycle]) -> None:
    for name in dict.fromkeys(one.way for one in cycles):
        own = [one for one in cycles if one.way == name and one.number >= UNCOUNTED]
        ran = statistics.median(one.ran_s for one in own)
        workers = statistics.fmean(one.workers for one in own)
        context.say(
            f"  {job.name:<10} {name:<24} {ran:6.2f} s a cycle, {workers:3.1f} workers, "
            f"{sum(one.moves for one in own) / len(own):4.1f} moves"
        )
