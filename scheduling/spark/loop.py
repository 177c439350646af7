"""The control loop of a live job: monitor, plan, place, run, verify the placement; every cycle.

::

    loop = Loop(spark, Placement(policy=LBACE()), scaler=OERA())
    with loop.cycle() as cycle:                  # observes and decides
        rows = rows.repartition(cycle.partitions)  # the decided number of partitions
        sink(cycle.place(rows))                  # pinned to executors
    loop.last                                    # requested and actual placement

Failures of the loop are logged, each cause once, and Spark places the job.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from scheduling.controller import Controller
from scheduling.decision import Decision
from scheduling.elastic import Static
from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Receipt, Snapshot
from scheduling.partial_moves import dropped_shares, indices
from scheduling.policies import RoundRobin
from scheduling.protocols import Clock, Policy, Scaler
from scheduling.spark import internals, pins
from scheduling.spark.bounded import Bounded
from scheduling.spark.cycle import CycleContext
from scheduling.spark.demand import CycleSeen, TaskSeen
from scheduling.spark.lever_set import LeverSet
from scheduling.spark.locations import Locations
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.once import LogOnce
from scheduling.spark.placement import Placement
from scheduling.spark.placement_result import PlacementResult, tasks_of
from scheduling.spark.prober import Prober
from scheduling.spark.status import is_connect, status_of
from scheduling.spark.tier_monitor import CheapestTier, TierMonitor

__all__ = ["CycleContext", "Loop"]

_log = logging.getLogger("scheduling")

_numbers = itertools.count()

_HOW = (
    "its rows have to be spread by key, which this job does not do. In bsjoin.cycles give "
    "partition=HotSpot(); elsewhere Loop(..., splits=True), and spread CycleContext.splits"
)
_NO_PARTITION = (
    "the executor that has room for a part runs no other partition: give more partitions"
)


class Loop:
    """Controls the placement and the parallelism of one job. Not thread-safe.

    Args:
        spark: the session.
        placement: a policy, or all options; None: Spark places the tasks.
        scaler: chooses the number of partitions; None (default): no change.
        operator: the name of the job in plans; default ``"join"``.
        partitions: the initial number. None (default): the number of the executors' cores.
        clock: a clock in seconds; default ``time.monotonic``.
        splits: whether the caller spreads parts of a partition over others, as a rule for hot keys
            does, if :attr:`CycleContext.splits` says so; default False: a split that would pay is
            dropped, and the log and :attr:`PlacementResult.dropped` say so.

    Raises:
        ArgumentError: the session is one of Spark Connect, whose server runs the jobs.
        ClusterFileError: the price table cannot be read.
    """

    def __init__(
        self,
        spark: SparkSession,
        placement: Policy | Placement | None,
        *,
        scaler: Scaler | None = None,
        operator: str = "join",
        partitions: int | None = None,
        clock: Clock = time.monotonic,
        splits: bool = False,
    ) -> None:
        if is_connect(spark):
            raise ArgumentError(
                "a live loop looks at executors and physical plans, and Spark Connect shows "
                "neither: use a classic session, or Tiers alone"
            )
        self._spark, self._options = spark, Placement.of(placement)
        self._operator, self._clock = operator, clock
        self._splits = splits
        self._log = LogOnce()
        self._status = status_of(spark)
        local = internals.is_local(spark)
        self._monitor = SparkMonitor(
            self._status.executors,
            internals.executor_memory_mb(spark),
            operator,
            clock=clock,
            prices=self._options.price_table(),
            delta=self._options.delta,
            probe=Prober(spark, clock) if self._options.probe and not local else None,
            task_cpus=max(1, int(spark.sparkContext.getConf().get("spark.task.cpus", "1"))),
        )
        self._levers = LeverSet(spark, self._options, operator, splits=splits)
        self._pins, self._tiers = self._levers.pins, self._levers.tiers
        tiers = self._options.tiers
        self._locations = Locations(operator, self._status, self._monitor, self._tiers)
        self._scaled = scaler is not None
        begin = partitions or max(1, int(spark.sparkContext.defaultParallelism))
        self._begin = begin
        self._monitor.expect(begin)
        policy, monitor = self._options.policy or RoundRobin(), self._monitor
        self._controller = Controller(
            TierMonitor(monitor, [tier.worker for tier in tiers], self._locations.tiers)
            if tiers
            else monitor,
            CheapestTier(policy) if tiers else policy,
            self,
            self._graph,
            {operator: begin},
            clock=clock,
            scaler=Bounded(scaler or Static(), lambda: self._levers.bounds(monitor.snapshot_seen)),
            rebalancer=self._options.rebalancer,
            objective=self._options.objective,
            search=self._options.search and not tiers,
            cooldown_s=self._options.cooldown_s,
            hysteresis=self._options.hysteresis,
        )
        self._began_s: float | None = None
        self._tasks: tuple[TaskSeen, ...] = ()
        self.last: PlacementResult | None = None
        """The result of the last cycle; None before it."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the next cycle; in a dry run the initial number."""
        if self._options.dry_run:
            return self._begin
        return self._controller.parallelism[self._operator]

    @property
    def plan(self) -> Plan | None:
        """The active plan; None before the first cycle."""
        return self._controller.plan

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The controller's last 100 steps."""
        return self._controller.decisions

    @property
    def snapshot(self) -> Snapshot | None:
        """The last snapshot of the cluster; None before the first cycle."""
        return self._monitor.snapshot_seen

    def capabilities(self) -> frozenset[str]:
        """The actions that all levers together support in this session.

        ``"executors"`` also where dynamic allocation releases idle executors.
        """
        return self._levers.capabilities()

    def apply(self, plan: Plan) -> Receipt:
        """Let every lever adopt a plan; see :class:`scheduling.Actuator`."""
        return self._levers.apply(plan)

    @contextlib.contextmanager
    def cycle(self) -> Iterator[CycleContext]:
        """One cycle: observe, decide, let the caller place and run, then observe where tasks ran.

        An error of the caller is raised again, and the cycle is not recorded.
        """
        began_s = self._clock()
        self._record(began_s)
        decision = self._step()
        cycle = CycleContext(self, decision, self._splits_of(decision))
        context: Any = self._spark.sparkContext
        tag = f"scheduling-{self._operator}-{next(_numbers)}"
        context.addJobTag(tag)
        try:
            with self._pins.cycle():
                yield cycle
                self._look(cycle, tag)
        finally:
            context.removeJobTag(tag)
        self._began_s = began_s

    def _step(self) -> Decision | None:
        try:
            decision = self._controller.step()
            if self._levers.fleet is not None and self._monitor.snapshot_seen is not None:
                tasks = self._monitor.tasks(self.partitions)
                more, given = self._levers.settle(
                    self._monitor.snapshot_seen, self.plan, tasks, scaled=self._scaled
                )
                if more or given:
                    _log.info("scheduling: %d executors requested, released: %s", more, given)
        except Exception as error:
            self._log.warn("no new plan", error)
            return None
        self._monitor.expect(self.partitions)
        plan = decision.plan
        if plan is not None and plan.fallback:
            self._log.warn(f"{plan.policy} fell back to", plan.fallback)
        if decision.dropped:
            shares = dropped_shares(decision.dropped)
            _log.info("scheduling: of these partitions a share should run elsewhere: %s", shares)
            self._log.warn(
                "a heavy partition is not split", _NO_PARTITION if self._splits else _HOW
            )
        return decision

    def _splits_of(self, decision: Decision | None) -> dict[int, dict[int, float]]:
        """What a decision wants to be spread, by partition."""
        if decision is None or decision.plan is None or not self._splits or self._options.dry_run:
            return {}
        return indices(decision.plan.moves, decision.plan.placement, self._operator)

    def _place(self, cycle: CycleContext, df: DataFrame) -> DataFrame:
        snapshot = self._monitor.snapshot_seen or Snapshot(self._clock(), ())
        dry = self._options.dry_run
        try:
            if self._scaled and not dry:
                df = self._levers.partitions.prepare(df)
            cycle.count = pins.partitions(df)
            if not cycle.count:  # no rows, no tasks
                return df
            self._monitor.prefer(pins.preferred_hosts(df) if self._options.policy else [])
            if cycle.count != self._controller.parallelism[self._operator] and not (
                dry and self._scaled
            ):
                self._monitor.expect(cycle.count)
                seen = snapshot if self._tiers is None else None
                cycle.decision = self._controller.adopt({self._operator: cycle.count}, seen)
            if self._tiers is not None and not dry:
                df = self._tiers.prepare(df)
            # Without a plan it only marks the rows, so that where tasks ran can be observed.
            return self._pins.prepare(df, snapshot)
        except PySparkException:
            raise  # the rows themselves: a shuffle below the pins has failed
        except Exception as error:
            self._log.warn("this cycle is placed by Spark", error)
            return df

    def _look(self, cycle: CycleContext, tag: str) -> None:
        """Where the tasks of the pinned stage ran."""
        pinned, self._tasks = self._pins.pinned, ()
        requested: dict[str, str] = {}
        landed: dict[str, str] = {}
        if pinned is not None:
            try:
                self._tasks = tasks_of(self._spark, self._status, pinned, tag)
                landed = self._locations.landed(self._tasks)
            except Exception as error:
                self._log.warn("where tasks ran is not known", error)
                landed = {
                    f"{self._operator}-{t.index}": f"executor {t.executor}" for t in self._tasks
                }
            requested = self._locations.requested(pinned)
            self._observe(requested, landed)
            if cycle.caches is not None:
                at = {task.index: task.executor for task in self._tasks}
                self._monitor.caches(cycle.count, at, cycle.caches)
        unplaced, idle = self._left()
        decision = cycle.decision
        self.last = PlacementResult(
            decision,
            cycle.count,
            requested,
            landed,
            Counter(landed.values()),
            unplaced,
            idle,
            cycle.splits,
            {} if decision is None else dropped_shares(decision.dropped),
        )
        if pinned is not None:
            _log.info("scheduling: %s", self.last.summary)

    def _observe(self, requested: Mapping[str, str], landed: Mapping[str, str]) -> None:
        """Tell the controller where tasks ran, and the levers if they ran elsewhere."""
        # An action may skip partitions, as take() does: those did not run elsewhere.
        ran = {task: there for task, there in requested.items() if task in landed}
        if not ran:
            return
        receipt = Receipt(ran, landed)
        self._controller.observe(receipt)
        if receipt.missed and self._tiers is None and self._controller.plan is not None:
            self.apply(self._controller.plan)  # or a lost executor is requested again

    def _left(self) -> tuple[dict[str, str], Mapping[str, str]]:
        """The tasks without room, and the idle workers, of the last decision."""
        if self._options.policy is None or self._controller.plan is None:
            return {}, {}
        unplaced = {one.task: one.reason for one in self._controller.plan.unplaced}
        decisions = self._controller.decisions
        return unplaced, decisions[-1].idle if decisions else {}

    def _record(self, now: float) -> None:
        """Record the previous cycle in the monitor: its length is known only now."""
        if self._began_s is None or not self._tasks:
            return
        tasks, self._tasks = self._tasks, ()
        try:
            backlog = float(self._options.backlog()) if self._options.backlog else 0.0
        except Exception as error:
            self._log.warn("the backlog is not known", error)
            backlog = 0.0
        self._monitor.record(CycleSeen(max(now - self._began_s, 1e-3), tasks, backlog))

    def _graph(self, parallelism: Mapping[str, int]) -> JobGraph:
        count = parallelism[self._operator]
        return JobGraph(self._monitor.tasks(count))
