"""The control loop of a live job: monitor, policy or scaler, act, look where tasks ran.

::

    loop = Loop(spark, Placement(policy=LBACE()), scaler=OERA())
    with loop.cycle() as cycle:                  # observes and decides
        rows = rows.repartition(cycle.partitions)  # the decided number of partitions
        sink(cycle.place(rows))                  # pinned to executors
    loop.last                                    # requested and actual placement
    loop.explain()                               # who decides what, and why

    observe --> scaler: another number? --yes--> adopt it --.
                      '--no--> ask the policy, with history -+-> pin, run, look where tasks ran

Failures of the loop are logged, each cause once, and Spark places the job.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from scheduling.controller import Controller
from scheduling.decision import Decision
from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Receipt, Snapshot
from scheduling.policies import RoundRobin
from scheduling.protocols import Clock, Policy
from scheduling.scalers import Scaler
from scheduling.spark import internals, pins
from scheduling.spark.demand import CachesSeen, CycleSeen, TaskSeen
from scheduling.spark.monitor import SparkMonitor, workers_of
from scheduling.spark.once import LogOnce
from scheduling.spark.placement import Placement
from scheduling.spark.probe import Prober
from scheduling.spark.result import PlacementResult, tasks_of
from scheduling.spark.sizes import Sizes
from scheduling.spark.tiers import Tiers
from scheduling.splits import dropped_shares, indices

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


@dataclass(eq=False)
class CycleContext:
    """A running cycle; created by :meth:`Loop.cycle`.

    Args:
        loop: the loop.
        decision: the controller's decision before the cycle; None if it failed.
        splits: by partition, the share of its load that is to go to each other partition, for
            ``Loop(splits=True)`` only. They hold from this cycle on, and are said once.
        count: the number of placed partitions; 0 (default) before :meth:`place`.
        caches: what the caller says of its caches before the cycle ends; None (default) for
            nothing. It counts in the price of moves from the next cycle on.
    """

    loop: Loop
    decision: Decision | None
    splits: Mapping[int, Mapping[int, float]]
    count: int = 0
    caches: CachesSeen | None = None

    @property
    def partitions(self) -> int:
        """The decided number of partitions of the cycle."""
        return self.loop.partitions

    def place(self, df: DataFrame) -> DataFrame:
        """The rows of ``df``, placed by the plan.

        The partitions are the tasks. If their number differs from the decided one, a new plan is
        made for the actual number.
        """
        return self.loop._place(self, df)

    def observed(self) -> dict[str, dict[str, Any]]:
        """The metrics of ``DataFrame.observe`` below the pins, by name, after their use."""
        pinned = self.loop._pins.pinned
        try:
            return {} if pinned is None else pinned.observed()
        except Exception as error:  # the rows have already been processed
            self.loop._log.warn("what was observed below the pins is not known", error)
            return {}


class Loop:
    """Controls the placement and the size of one job. Not thread-safe.

    Args:
        spark: the session.
        placement: a policy, or all options; None: Spark places the tasks.
        scaler: chooses the number of partitions, or, with ``Placement(executors=)``, of executors,
            which the partitions follow; None (default): no change.
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

    lands: Callable[[Mapping[str, str], Snapshot], Mapping[str, str]]
    """Where placements really run, see :class:`scheduling.Actuator`; with tiers only."""

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
        if internals.is_connect(spark):
            raise ArgumentError(
                "a live loop looks at executors and physical plans, and Spark Connect shows "
                "neither: use a classic session, or Tiers alone"
            )
        options = self._options = Placement.of(placement)
        self._spark, self._operator, self._clock, self._splits = spark, operator, clock, splits
        self._log, self._status = LogOnce(), internals.StatusStore(spark)
        begin = partitions or max(1, int(spark.sparkContext.defaultParallelism))
        measured = options.probe and not internals.is_local(spark)
        self._monitor = SparkMonitor(
            self._status.executors,
            internals.executor_memory_mb(spark),
            operator,
            clock=clock,
            prices=options.price_table(),
            delta=options.delta,
            probe=Prober(spark, clock) if measured else None,
            task_cpus=internals.task_cpus(spark),
        )
        self._monitor.expect(begin)
        self._pins = pins.Pins(spark, operator, options.locality_wait_s)
        self._tiers = Tiers(spark, options.tiers) if options.tiers else None
        self._lever = self._tiers or self._pins
        if self._tiers is not None:
            self.lands = self._tiers.lands
        self._sizes = Sizes(spark, options, scaler, begin)
        self._seen = _Seen()
        self._controller = Controller(
            self._seen,
            options.policy or RoundRobin(),
            self,
            lambda counts: JobGraph(self._monitor.tasks(counts[operator])),
            {operator: begin},
            clock=clock,
            rebalancer=options.rebalancer,
            objective=options.objective,
            search=options.search,
            cooldown_s=options.cooldown_s,
            hysteresis=options.hysteresis,
        )
        self._began_s: float | None = None
        self._tasks: tuple[TaskSeen, ...] = ()
        self.last: PlacementResult | None = None
        """The result of the last cycle; None before it."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the next cycle; in a dry run the initial number."""
        return self._sizes.begin if self._options.dry_run else self._decided

    @property
    def _decided(self) -> int:
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
        """The last snapshot of the executors; None before the first cycle."""
        return self._monitor.snapshot_seen

    def explain(self) -> str:
        """Who decides what here, and why the last cycle ran as it did; some lines."""
        lines = ["placement: by Spark"]
        if self._options.policy is not None:
            lines = self._controller.explain().splitlines()
            if self._tiers is not None:
                lines.append(f"tiers: every cycle runs on one, now on {self._tiers.chosen}")
        lines.append(f"scaling: {self._sizes.explain()}")
        if self._options.dry_run:
            lines.append("dry run: nothing is changed")
        if self.last is not None:
            lines.append(f"last cycle: {self.last.summary}")
            lines += [f"ignored: {name}, {why}" for name, why in self.last.ignored.items()]
        return "\n".join(lines)

    def capabilities(self) -> frozenset[str]:
        """What can be done in this session; see :class:`scheduling.Actuator`.

        ``"executors"`` also where dynamic allocation releases idle executors.
        """
        if self._options.dry_run:
            return frozenset({"place", "move", "resize", "tiers"})
        found = (
            {"resize"} if self._options.policy is None else {"resize", *self._lever.capabilities()}
        )
        found |= {"spread"} if self._splits else set()
        return frozenset(found | ({"executors"} if self._sizes.releases else set()))

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan for the next cycle; see :class:`scheduling.Actuator`."""
        if self._options.policy is None:
            return Receipt({}, {})
        if not self._options.dry_run:
            return self._lever.apply(plan)
        for worker, tasks in plan.by_worker.items():
            _log.info("dry run, %s: %s would have %s", plan.policy, worker, ", ".join(tasks))
        for one in plan.unplaced:
            _log.info("dry run, %s: %s unplaced, %s", plan.policy, one.task, one.reason)
        return Receipt({}, {})

    @contextlib.contextmanager
    def cycle(self) -> Iterator[CycleContext]:
        """One cycle: observe, decide, let the caller place and run, then observe where tasks ran.

        An error of the caller is raised again, and the cycle is not recorded.
        """
        began_s = self._clock()
        self._record(began_s)
        decision = self._step(began_s)
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

    def _record(self, now: float) -> None:
        """Record the previous cycle: its length is known only now."""
        tasks, self._tasks = self._tasks, ()
        if self._began_s is None or not tasks:
            return
        if now <= self._began_s:
            self._log.warn("a cycle is not recorded", "the clock went backwards")
            return
        cycle = CycleSeen(now - self._began_s, tasks)
        self._monitor.record(cycle)
        self._sizes.record(self._began_s, cycle)

    def _step(self, now: float) -> Decision | None:
        """Observe, and adopt another size or ask the policy."""
        try:
            seen = self._seen.now = self._monitor.snapshot()
            if self._tiers is not None:
                self._seen.now = self._tiers.view(seen, self._tiers.of(self._status.executors()))
            wanted = self._sizes.wanted(now, self._decided, seen)
            self._monitor.expect(wanted)
            changed = wanted != self._decided
            decision = self._adopt(wanted) if changed else self._controller.step()
            if self.plan is not None and self._options.policy is not None:
                self._sizes.settle(seen, self.plan)
        except Exception as error:
            self._log.warn("no new plan", error)
            return None
        self._monitor.expect(self.partitions)
        for name, why in self._ignored.items():
            self._log.warn(f"a metric of {name} is not believed", why)
        plan = decision.plan
        if plan is not None and plan.fallback:
            fell = f"{plan.policy} fell back to"
            if len(self.decisions) > 1:
                self._log.warn(fell, plan.fallback)
            else:  # as is usual before anything has run
                _log.info("scheduling: %s: %s", fell, plan.fallback)
        if decision.dropped:
            shares = dropped_shares(decision.dropped)
            _log.info("scheduling: of these partitions a share should run elsewhere: %s", shares)
            why = _NO_PARTITION if self._splits else _HOW
            self._log.warn("a heavy partition is not split", why)
        return decision

    def _adopt(self, count: int) -> Decision:
        self._monitor.expect(count)
        return self._controller.adopt({self._operator: count}, self._seen.now)

    @property
    def _ignored(self) -> dict[str, str]:
        return {**self._seen.now.ignored, **self._monitor.ignored}

    def _splits_of(self, decision: Decision | None) -> dict[int, dict[int, float]]:
        """What a decision wants to be spread, by partition."""
        if decision is None or decision.plan is None or not self._splits or self._options.dry_run:
            return {}
        return indices(decision.plan.moves, decision.plan.placement, self._operator)

    def _place(self, cycle: CycleContext, df: DataFrame) -> DataFrame:
        dry, scaled = self._options.dry_run, self._sizes.scaled
        try:
            if scaled and not dry and pins.partitions(df) != self.partitions:
                df = df.repartition(self.partitions)
            _, rdd, cycle.count = internals.plan_of(df)
            if not cycle.count:  # no rows, no tasks
                return df
            placed = self._options.policy is not None
            self._monitor.prefer(internals.preferred_hosts(self._spark, rdd) if placed else [])
            if cycle.count != self._decided and not (dry and scaled):
                cycle.decision = self._adopt(cycle.count)
            if self._tiers is not None and not dry:
                df = self._tiers.prepare(df)
            # Without a plan it only marks the rows, so that where tasks ran can be observed.
            return self._pins.prepare(df, self.snapshot or self._seen.now)
        except PySparkException:
            raise  # the rows themselves: a shuffle below the pins has failed
        except Exception as error:
            self._log.warn("this cycle is placed by Spark", error)
            return df

    # After the cycle

    def _look(self, cycle: CycleContext, tag: str) -> None:
        """Where the tasks of the pinned stage ran."""
        pinned, self._tasks = self._pins.pinned, ()
        requested = {} if pinned is None else self._requested(pinned.requested)
        landed: dict[str, str] = {}
        if pinned is not None:
            try:
                self._tasks = tasks_of(self._spark, self._status, pinned, tag)
                landed = self._landed()
                self._tell(requested, landed)
            except Exception as error:
                self._log.warn("where tasks ran is not known", error)
                ran = {self._name(one.index): f"executor {one.executor}" for one in self._tasks}
                landed = landed or ran
            if cycle.caches is not None:
                at = {task.index: task.executor for task in self._tasks}
                self._monitor.caches(cycle.count, at, cycle.caches)
        decision, plan = cycle.decision, self.plan if self._options.policy is not None else None
        self.last = PlacementResult(
            decision,
            cycle.count,
            requested,
            landed,
            Counter(landed.values()),
            {one.task: one.reason for one in plan.unplaced} if plan else {},
            self.decisions[-1].idle if plan and self.decisions else {},
            cycle.splits,
            {} if decision is None else dropped_shares(decision.dropped),
            self._ignored,
            self._sizes.reason,
        )
        if pinned is not None:
            _log.info("scheduling: %s", self.last.summary)

    def _name(self, index: int) -> str:
        return f"{self._operator}-{index}"

    def _requested(self, executors: Sequence[pins.Executor | None]) -> dict[str, str]:
        """The requested worker or tier of each task; tasks that Spark places are left out."""
        if self._tiers is None:
            at = [None if one is None else f"{one.host}/{one.id}" for one in executors]
        else:
            at = [self._tiers.chosen] * len(executors)
        return {self._name(i): one for i, one in enumerate(at) if one is not None}

    def _landed(self) -> dict[str, str]:
        """The actual worker or tier of each task; one that a copy overtook ran as requested."""
        ran = {self._name(task.index): task.requested_at or task.executor for task in self._tasks}
        workers = () if self.snapshot is None or self._tiers is not None else self.snapshot.workers
        names = {str(worker.executor_id): worker.id for worker in workers}
        if not set(ran.values()) <= names.keys():
            names |= self._alive()
        return {task: names.get(at, f"executor {at}") for task, at in ran.items()}

    def _alive(self) -> dict[str, str]:
        """The workers, or tiers, of all executors that live now, by Spark's id."""
        executors = self._status.executors()
        if self._tiers is not None:
            return self._tiers.of(executors)
        return {str(one.executor_id): one.id for one in workers_of(executors, 0.0, 1)}

    def _tell(self, requested: Mapping[str, str], landed: Mapping[str, str]) -> None:
        """Tell the controller where tasks ran, and what to pin if they ran elsewhere.

        An action may skip partitions, as take() does: those did not run elsewhere. Nor did the
        placement of a task fail whose executor is lost: it is placed again when that is certain.
        """
        ran = {task: at for task, at in requested.items() if task in landed}
        if any(landed[task] != at for task, at in ran.items()) and self._tiers is None:
            alive = set(self._alive().values())
            ran = {task: at for task, at in ran.items() if landed[task] == at or at in alive}
        receipt = Receipt(ran, {task: landed[task] for task in ran})
        if ran:
            self._controller.observe(receipt)
        if receipt.missed and self._tiers is None and self.plan is not None:
            self.apply(self.plan)


class _Seen:
    """The controller's monitor: what was seen at the beginning of a cycle."""

    now = Snapshot(0.0, ())

    def snapshot(self) -> Snapshot:
        return self.now
