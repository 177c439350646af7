"""The control loop of a live job: monitor, policy or scaler, act, look where tasks ran.

::

    observe --> scaler: another number? --yes--> adopt it --.
                      '--no--> ask the policy, with history -+-> pin, run, look where tasks ran

Failures of the loop are logged, each cause once, and Spark places the job.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from scheduling.controller import Controller
from scheduling.decision import Decision
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.model import JobGraph, Plan, Receipt, Snapshot
from scheduling.policies import RoundRobin
from scheduling.protocols import Clock, Policy
from scheduling.scalers import Scaler
from scheduling.spark import internals, pins
from scheduling.spark.demand import CachesSeen
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.once import Once
from scheduling.spark.placement import Placement
from scheduling.spark.probe import Prober
from scheduling.spark.result import PlacementResult
from scheduling.spark.scaling import Sizes
from scheduling.spark.seen import Executor, TaskSeen, executors_of, tasks_of
from scheduling.spark.tiers import Tiers
from scheduling.splits import dropped_shares, indices

__all__ = ["CycleContext", "Loop"]

_log = logging.getLogger("scheduling")

_HOW = (
    "its rows have to be spread by key, which this job does not do. In bsjoin.cycles give "
    "partition=HotSpot(); elsewhere Loop(..., splits=True), and spread CycleContext.splits"
)
_NO_PARTITION = "the executor with room for a part runs no other partition: give more partitions"


@dataclass(eq=False)
class CycleContext:
    """A running cycle; created by :meth:`Loop.cycle`.

    Args:
        loop: the loop.
        decision: the controller's decision before the cycle; None if it failed.
        splits: by partition, the share of its load that is to go to each other partition, for
            ``Loop(splits=True)`` only. They hold from this cycle on, and are said once.
        count: the number of placed partitions; 0 (default) before :meth:`place`.
        caches: what the caller says of its caches before the cycle ends, which counts in the price
            of moves from the next cycle on; None (default) for nothing.
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
        pinned = self.loop._pinned
        try:
            return {} if pinned is None else pinned.observed()
        except Exception as error:  # the rows have already been processed
            self.loop._once.log("what was observed below the pins is not known", error)
            return {}


class Loop:
    """Controls the placement and the size of one job. Not thread-safe.

    ::

        loop = Loop(spark, Placement(policy=LBACE()), scaler=OERA())
        with loop.cycle() as cycle:  # observes and decides
            sink(cycle.place(rows.repartition(cycle.partitions)))  # pinned to executors
        loop.last, loop.explain()  # requested and actual placement; who decides what, and why

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
        self._once, self._status = Once(), internals.StatusStore(spark)
        begin = partitions or max(1, int(spark.sparkContext.defaultParallelism))
        self._alone = internals.only_executor(spark)
        self._monitor = SparkMonitor(
            self._status.executors,
            self._status.memory_mb(),
            operator,
            begin,
            clock=clock,
            prices=options.price_table(),
            delta=options.delta,
            probe=Prober(spark, clock) if options.probe and self._alone is None else None,
            task_cpus=internals.task_cpus(spark),
        )
        self._sizes = Sizes(spark, options, scaler, begin)
        self._tiers = Tiers(spark, options.tiers) if options.tiers else None
        self._seen = Snapshot(0.0, ())  # of executors, or tiers, when the cycle began
        # One that only the look before saw may have been overlooked: it is requested, too.
        self._there: dict[str, Executor] = {}
        self._preferred: Sequence[tuple[str, ...]] = ()  # hosts that store a partition's data
        seen: Any = SimpleNamespace(snapshot=lambda: self._seen)
        given = ("rebalancer", "objective", "search", "cooldown_s", "hysteresis")
        self._controller = Controller(
            seen,
            options.policy or RoundRobin(),
            self,
            lambda counts: JobGraph(self._monitor.tasks(counts[operator], self._preferred)),
            {operator: begin},
            clock=clock,
            **{name: getattr(options, name) for name in given},
        )
        self._began_s, self._tasks = 0.0, tuple[TaskSeen, ...]()  # of the last cycle
        self._pinned: pins.Pinned | None = None  # of the cycle
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
        return self._monitor.seen

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
        """What can be done in this session; see :class:`scheduling.Actuator`."""
        if self._options.dry_run:
            return frozenset({"place", "move", "resize", "tiers"})
        job = {"resize": True, "spread": self._splits, "executors": self._sizes.releases}
        if self._options.policy is not None:  # moves are made between cycles
            pinned = () if self._alone else ("place", "move")
            job |= dict.fromkeys(self._tiers.capabilities() if self._tiers else pinned, True)
        return frozenset(name for name, known in job.items() if known)

    def lands(self, placement: Mapping[str, str], snapshot: Snapshot) -> Mapping[str, str]:
        """Where a placement really runs; see :class:`scheduling.Actuator`."""
        return placement if self._tiers is None else self._tiers.lands(placement, snapshot)

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan for the next cycle; see :class:`scheduling.Actuator`."""
        if self._options.policy is None:
            return Receipt({}, {})
        if not self._options.dry_run:
            unplaced = tuple(one.task for one in plan.unplaced)
            pinned = Receipt(plan.placement, plan.placement, unplaced)
            return pinned if self._tiers is None else self._tiers.apply(plan)
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
        splits: dict[int, dict[int, float]] = {}
        if self._splits and not self._options.dry_run and decision and decision.plan:
            splits = indices(decision.plan.moves, decision.plan.placement, self._operator)
        cycle, self._pinned = CycleContext(self, decision, splits), None
        context: Any = self._spark.sparkContext
        tag = f"scheduling-{self._operator}-{uuid.uuid4()}"
        context.addJobTag(tag)
        try:
            with contextlib.ExitStack() as self._stack:
                yield cycle
                self._look(cycle, tag)
        finally:
            context.removeJobTag(tag)
        self._began_s = began_s

    def _record(self, now: float) -> None:
        """Record the previous cycle: its length is known only now."""
        length_s, tasks, self._tasks = now - self._began_s, self._tasks, ()
        if tasks and length_s > 0:
            self._monitor.record(length_s, tasks)
            self._sizes.record(self._began_s, length_s, tasks)
        elif tasks:
            self._once.log("a cycle is not recorded", "the clock went backwards")

    def _step(self, now: float) -> Decision | None:
        """Observe, and adopt another size or ask the policy."""
        try:
            before = self._monitor.there
            seen = self._seen = self._monitor.snapshot()
            self._there = before | self._monitor.there
            if self._tiers is not None:
                self._seen = self._tiers.view(seen, self._named(self._there))
            wanted = self._sizes.wanted(now, self._decided, [*self._monitor.there.values()])
            decision = self._controller.step() if wanted == self._decided else self._adopt(wanted)
            if self.plan is not None and self._options.policy is not None:
                self._sizes.settle(seen, self.plan)
        except Exception as error:
            self._once.log("no new plan", error)
            return None
        self._monitor.expected = self.partitions
        for name, why in self._ignored.items():
            self._once.log(f"a metric of {name} is not believed", why)
        if (plan := decision.plan) is not None and plan.fallback:
            if len(self.decisions) > 1:
                self._once.log(f"{plan.policy} fell back to", plan.fallback)
            else:  # as is usual before anything has run
                _log.info("scheduling: %s fell back to %s", plan.policy, plan.fallback)
        if decision.dropped:
            shares = dropped_shares(decision.dropped)
            _log.info("scheduling: of these partitions a share should run elsewhere: %s", shares)
            why = _NO_PARTITION if self._splits else _HOW
            self._once.log("a heavy partition is not split", why)
        return decision

    @property
    def _ignored(self) -> dict[str, str]:
        return {**self._seen.ignored, **self._monitor.ignored}

    def _adopt(self, count: int) -> Decision:
        return self._controller.adopt({self._operator: count}, self._seen)

    def _place(self, cycle: CycleContext, df: DataFrame) -> DataFrame:
        options, scaled = self._options, self._sizes.scaled
        try:
            _, rdd, cycle.count = internals.plan_of(df)
            if scaled and not options.dry_run and cycle.count != self.partitions:
                df = df.repartition(self.partitions)
                _, rdd, cycle.count = internals.plan_of(df)
            if not cycle.count:  # no rows, no tasks
                return df
            if options.policy is not None:
                self._preferred = internals.preferred_hosts(self._spark, rdd)
            if cycle.count != self._decided and not (options.dry_run and scaled):
                cycle.decision = self._adopt(cycle.count)
                self._monitor.expected = cycle.count
            if self._tiers is not None and not options.dry_run:
                df = self._tiers.prepare(df)
            return self._pin(df, cycle.count)
        except PySparkException:
            raise  # the rows themselves: a shuffle below the pins has failed
        except Exception as error:
            self._once.log("this cycle is placed by Spark", error)
            return df

    def _pin(self, df: DataFrame, count: int) -> DataFrame:
        """The rows, with partitions pinned by the plan; why they are not is warned of once.

        Without a plan it only marks the rows, so that where tasks ran can be observed.
        """
        options, said = self._options, "the job is placed by Spark"
        placement: Mapping[str, str] = {}
        if options.policy and self.plan and not (options.dry_run or options.tiers):
            placement = self.plan.placement
            if self._alone is not None:
                placement = {}
                self._once.warn(f"{said}: {self._alone}")
        try:
            names = (placement.get(f"{self._operator}-{i}", "") for i in range(count))
            at = [self._there.get(name) for name in names]
            pinned = self._pinned = pins.pin(df, at)
            df, said = pinned.df, "tasks wait for executors as spark.locality.wait says"
            self._stack.enter_context(pins.waiting(self._spark, pinned, options.locality_wait_s))
        except ActuatorError as error:
            self._once.warn(f"{said}: {error}")
        return df

    def _look(self, cycle: CycleContext, tag: str) -> None:
        """Where the tasks of the pinned stage ran."""
        pinned, requested, landed = self._pinned, dict[str, str](), dict[str, str]()
        if pinned is not None:
            names = [f"{self._operator}-{i}" for i in range(len(pinned.requested))]
            at = [None if one is None else one.name for one in pinned.requested]
            if self._tiers is not None:
                at = [self._tiers.chosen] * len(at)
            requested = {name: one for name, one in zip(names, at, strict=True) if one}
            try:
                self._tasks = tasks_of(self._status, pinned, tag)
                # A task that a copy overtook ran as requested.
                ran = {names[one.index]: one.requested_at or one.executor for one in self._tasks}
                landed = {task: f"executor {one}" for task, one in ran.items()}
                landed |= self._named_and_told(ran, requested)
            except Exception as error:
                self._once.log("where tasks ran is not known", error)
            if cycle.caches is not None:
                executor = {task.index: task.executor for task in self._tasks}
                self._monitor.caches(cycle.count, executor, cycle.caches)
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

    def _named_and_told(
        self, ran: Mapping[str, str], requested: Mapping[str, str]
    ) -> dict[str, str]:
        """The worker or tier of each task that ran on an executor; the controller is told.

        An action may skip partitions, as take() does: those did not run elsewhere. Nor did the
        placement of a task fail whose executor is lost: it is placed again when that is certain.
        """
        names = self._named(self._there)
        alive = set(names.values())
        if any(
            at not in names or requested.get(t, names[at]) != names[at] for t, at in ran.items()
        ):
            now, _ = executors_of(self._status.executors())
            names |= (found := self._named({one.name: one for one in now}))
            alive = set(found.values())
        landed = {task: names[at] for task, at in ran.items() if at in names}
        told = {
            t: at
            for t, at in requested.items()
            if t in ran and (landed.get(t) == at or at in alive)
        }
        if told:
            at = {task: landed.get(task, f"executor {ran[task]}") for task in told}
            self._controller.observe(Receipt(told, at))
        return landed

    def _named(self, there: Mapping[str, Executor]) -> dict[str | None, str]:
        """The worker, or tier, of each executor, by Spark's id."""
        if self._tiers is not None:
            return self._tiers.of(there.values())
        return {one.id: name for name, one in there.items()}
