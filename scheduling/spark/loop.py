"""The control loop of a live job: monitor, plan, place, run, verify the placement; every cycle.

::

    loop = Loop(spark, Placement(policy=LBACE()), scaler=OERA())
    with loop.cycle() as cycle:                  # observes and decides
        rows = rows.repartition(cycle.partitions)  # the decided number of partitions
        sink(cycle.place(rows))                  # pinned to executors
    loop.last                                    # requested and actual placement

Failures of the loop are logged, and Spark places the job.
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

from scheduling.controller import Controller, Decision
from scheduling.elastic import Static
from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Receipt, Snapshot, Task, Window
from scheduling.policies import RoundRobin
from scheduling.protocols import Actuator, Clock, Policy, Scaler
from scheduling.spark import pins
from scheduling.spark.fleet import Fleet
from scheduling.spark.levers import DryRun, Partitions, Pins, together
from scheduling.spark.monitor import CycleSeen, SparkMonitor, TaskSeen, workers_of
from scheduling.spark.placement import Placement
from scheduling.spark.placement_result import PlacementResult, tasks_of
from scheduling.spark.prober import Prober
from scheduling.spark.status import is_connect, status_of
from scheduling.spark.tiers import Tiers

__all__ = ["CycleContext", "Loop"]

_log = logging.getLogger("scheduling")

_numbers = itertools.count()


class CycleContext:
    """A running cycle; created by :meth:`Loop.cycle`.

    Args:
        loop: the loop.
        decision: the controller's decision before the cycle; None if it failed.
    """

    def __init__(self, loop: Loop, decision: Decision | None) -> None:
        self._loop = loop
        self.decision = decision
        self.count = 0
        """The number of placed partitions; 0 before :meth:`place`."""

    @property
    def partitions(self) -> int:
        """The decided number of partitions of the cycle."""
        return self._loop.partitions

    def place(self, df: DataFrame) -> DataFrame:
        """The rows of ``df``, placed by the plan.

        The partitions are the tasks. If their number differs from the decided one, a new plan is
        made for the actual number.
        """
        return self._loop._place(self, df)

    def observed(self) -> dict[str, dict[str, Any]]:
        """The metrics of ``DataFrame.observe`` below the pins, by name, after their use."""
        pinned = self._loop._pins.pinned
        try:
            return {} if pinned is None else pins.observed(pinned)
        except Exception as error:  # the rows have already been processed
            _log.warning("scheduling: what was observed below the pins is not known: %s", error)
            return {}


class Loop:
    """Controls the placement and the parallelism of one job. Not thread-safe.

    Args:
        spark: the session.
        placement: a policy, or all options; None: Spark places the tasks.
        scaler: chooses the number of partitions; None (default): no change.
        operator: the name of the job in plans; default ``"join"``.
        partitions: the initial number. None (default): the number of the executors' cores.
        clock: a clock in seconds; default ``time.monotonic``.

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
    ) -> None:
        if is_connect(spark):
            raise ArgumentError(
                "a live loop looks at executors and physical plans, and Spark Connect shows "
                "neither: use a classic session, or Tiers alone"
            )
        self._spark, self._options = spark, Placement.of(placement)
        self._operator, self._clock = operator, clock
        self._status = status_of(spark)
        context: Any = spark.sparkContext._jsc.sc()
        self._monitor = SparkMonitor(
            self._status.executors,
            float(context.executorMemory()),
            operator,
            clock=clock,
            prices=self._options.price_table(),
            delta=self._options.delta,
            probe=Prober(spark, clock) if self._options.probe and not context.isLocal() else None,
        )
        self._pins = Pins(spark, operator, self._options.locality_wait_s, self._alive)
        self._partitions = Partitions(operator)
        self._fleet = self._fleet_of()
        tiers = self._options.tiers
        self._tiers = Tiers(spark, tiers) if tiers else None
        self._levers = self._levers_of()
        self._scaled = scaler is not None
        begin = partitions or max(1, int(spark.sparkContext.defaultParallelism))
        self._begin = begin
        self._monitor.expect(begin)
        self._controller = Controller(
            _TierMonitor(self._monitor, self._options) if self._options.tiers else self._monitor,
            self._options.policy or RoundRobin(),
            self,
            self._graph,
            {operator: begin},
            clock=clock,
            scaler=_Bounded(scaler or Static(), self._bounds),
            rebalancer=self._options.rebalancer,
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
        """The actions that all levers together support in this session."""
        return frozenset().union(*(lever.capabilities() for lever in self._levers))

    def apply(self, plan: Plan) -> Receipt:
        """Let every lever adopt a plan; see :class:`scheduling.Actuator`."""
        return together(self._levers, plan)

    @contextlib.contextmanager
    def cycle(self) -> Iterator[CycleContext]:
        """One cycle: observe, decide, let the caller place and run, then observe where tasks ran.

        An error of the caller is raised again, and the cycle is not recorded.
        """
        began_s = self._clock()
        self._record(began_s)
        cycle = CycleContext(self, self._step())
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
            if self._fleet is not None and self._monitor.snapshot_seen is not None:
                more, given = self._fleet.settle(self._monitor.snapshot_seen)
                if more or given:
                    _log.info("scheduling: %d executors requested, released: %s", more, given)
        except Exception as error:
            _log.warning("scheduling: no new plan: %s", error)
            return None
        self._monitor.expect(self.partitions)
        return decision

    def _place(self, cycle: CycleContext, df: DataFrame) -> DataFrame:
        snapshot = self._monitor.snapshot_seen or Snapshot(self._clock(), ())
        dry = self._options.dry_run
        try:
            if self._scaled and not dry:
                df = self._partitions.prepare(df)
            cycle.count = pins.partitions(df)
            if not cycle.count:  # no rows, no tasks
                return df
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
            _log.warning("scheduling: this cycle is placed by Spark: %s", error)
            return df

    def _look(self, cycle: CycleContext, tag: str) -> None:
        """Where the tasks of the pinned stage ran."""
        pinned, self._tasks = self._pins.pinned, ()
        if pinned is None:
            self.last = PlacementResult(cycle.decision, cycle.count, {}, {}, {})
            return
        at: dict[str, str] = {}
        try:
            self._tasks = tasks_of(self._spark, self._status, pinned, tag)
            at = self._places({task.executor for task in self._tasks})
        except Exception as error:
            _log.warning("scheduling: where tasks ran is not known: %s", error)
        landed = {
            f"{self._operator}-{task.index}": at.get(task.executor, f"executor {task.executor}")
            for task in self._tasks
        }
        requested = self._requested(pinned)
        # An action may skip partitions, as take() does: those did not run elsewhere.
        ran = {task: there for task, there in requested.items() if task in landed}
        if ran:
            self._controller.observe(Receipt(ran, landed))
        self.last = PlacementResult(
            cycle.decision, cycle.count, requested, landed, Counter(landed.values())
        )

    def _requested(self, pinned: pins.Pinned) -> dict[str, str]:
        """The requested worker or tier of each task."""
        names = [f"{self._operator}-{i}" for i in range(len(pinned.requested))]
        if self._tiers is not None:
            chosen = self._tiers.chosen
            return {} if chosen is None else dict.fromkeys(names, chosen)
        seen = self._monitor.snapshot_seen
        at = {} if seen is None else {worker.executor_id: worker.id for worker in seen.workers}
        return {
            name: at[one.id]
            for name, one in zip(names, pinned.requested, strict=True)
            if one is not None and one.id in at
        }

    def _places(self, executors: set[str]) -> dict[str, str]:
        """The worker or the tier of each executor, by Spark's id of the executor."""
        if self._tiers is not None:
            return self._tiers.of(self._status.executors())
        seen = self._monitor.snapshot_seen
        at = {} if seen is None else {str(w.executor_id): w.id for w in seen.workers}
        return at if executors <= at.keys() else self._alive() | at

    def _alive(self) -> dict[str, str]:
        """The id of the worker of each living executor, by Spark's id."""
        workers = workers_of(self._status.executors(), 0.0, 1)
        return {str(worker.executor_id): worker.id for worker in workers}

    def _record(self, now: float) -> None:
        """Record the previous cycle in the monitor: its length is known only now."""
        if self._began_s is None or not self._tasks:
            return
        tasks, self._tasks = self._tasks, ()
        try:
            backlog = float(self._options.backlog()) if self._options.backlog else 0.0
        except Exception as error:
            _log.warning("scheduling: the backlog is not known: %s", error)
            backlog = 0.0
        self._monitor.record(CycleSeen(max(now - self._began_s, 1e-3), tasks, backlog))

    def _graph(self, parallelism: Mapping[str, int]) -> JobGraph:
        count = parallelism[self._operator]
        tasks = (
            Task(f"{self._operator}-{i}", self._operator, i, demand)
            for i, demand in enumerate(self._monitor.demand(count))
        )
        return JobGraph(tuple(tasks))

    def _bounds(self) -> tuple[int, int]:
        if self._options.partitions is not None:
            return self._options.partitions
        seen = self._monitor.snapshot_seen
        cores = sum(int(worker.capacity.cpu_cores) for worker in seen.workers) if seen else 0
        if self._options.executors is not None and seen is not None and seen.workers:
            cores = cores * self._options.executors[1] // len(seen.workers)
        return 1, cores or max(1, int(self._spark.sparkContext.defaultParallelism))

    def _fleet_of(self) -> Fleet | None:
        if self._options.executors is None:
            return None
        least, most = self._options.executors
        return Fleet(self._spark, least, most)

    def _levers_of(self) -> list[Actuator]:
        if self._options.dry_run:
            self._fleet = None
            return [DryRun()]
        levers: list[Actuator] = [self._partitions]
        if self._options.policy is not None:
            levers.append(self._pins if self._tiers is None else self._tiers)
        return levers if self._fleet is None else [*levers, self._fleet]


class _Bounded:
    """A scaler with bounds."""

    def __init__(self, scaler: Scaler, bounds: Any) -> None:
        self._scaler, self._bounds = scaler, bounds

    @property
    def name(self) -> str:
        return self._scaler.name

    def parallelism(self, operator: str, window: Window) -> int:
        if isinstance(self._scaler, Static):
            return self._scaler.parallelism(operator, window)
        least, most = self._bounds()
        return int(min(max(self._scaler.parallelism(operator, window), least), most))


class _TierMonitor:
    """Observes tiers instead of executors."""

    def __init__(self, monitor: SparkMonitor, options: Placement) -> None:
        self._monitor = monitor
        self._tiers = tuple(tier.worker for tier in options.tiers)

    def snapshot(self) -> Snapshot:
        return Snapshot(self._monitor.snapshot().time_s, self._tiers)

    def windows(self) -> Mapping[str, Window]:
        return self._monitor.windows()
