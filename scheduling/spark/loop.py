"""The control loop of a live job: monitor, policy or scaler, act, look where tasks ran.

::

    observe --> scaler: another number? --yes--> adopt it --.
                      '--no--> ask the policy, with history -+-> pin, run, look where tasks ran

Failures of the loop are logged, each cause once, and Spark places the job.
"""

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from scheduling.controller import Controller
from scheduling.cost import rent_per_s
from scheduling.errors import ActuatorError
from scheduling.history import Decision
from scheduling.model import JobGraph, Plan, Receipt, Snapshot
from scheduling.model.checks import whole
from scheduling.policies import RoundRobin
from scheduling.protocols import Clock, Policy
from scheduling.scalers import Scaler
from scheduling.spark import internals, pins
from scheduling.spark.demand import CachesSeen
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.once import Once, log
from scheduling.spark.placement import Placement, PlacementResult
from scheduling.spark.probe import Prober
from scheduling.spark.scaling import Sizes
from scheduling.spark.seen import Executor, TaskSeen, executors_of, tasks_of
from scheduling.spark.tiers import Tiers
from scheduling.splits import dropped_shares, indices

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

    loop: "Loop"
    decision: Decision | None
    splits: Mapping[int, Mapping[int, float]]
    count: int = 0
    caches: CachesSeen | None = None
    _pinned: pins.Pinned | None = None
    _waiting: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

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
        try:
            return {} if self._pinned is None else self._pinned.observed()
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
        splits: whether the caller spreads parts of a partition, as a rule for hot keys does, if
            :attr:`CycleContext.splits` says so; default False: they are dropped, which is told.

    Raises:
        ArgumentError: an argument cannot be used, an option of the placement has no effect, as
            ``tiers`` without a policy, or the session is one of Spark Connect.
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
        options = placement if isinstance(placement, Placement) else Placement(policy=placement)
        options.check(scaler)
        self._status = internals.StatusStore(spark)
        self._spark, self._operator, self._clock, self._splits = spark, operator, clock, splits
        self._options, self._once = options, Once()
        begin = max(1, int(spark.sparkContext.defaultParallelism))
        begin = begin if partitions is None else whole("partitions", partitions, least=1)
        self._alone = internals.only_executor(spark)
        self.monitor = SparkMonitor(
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
        """Observes the executors; ``seen`` is its last snapshot."""
        self._sizes = Sizes(spark, options, scaler, begin)
        self._tiers = Tiers(spark, options.tiers, options.delta) if options.tiers else None
        self._seen = Snapshot(0.0, ())  # of executors, or tiers, when the cycle began
        # One that only the look before saw may have been overlooked: it is requested, too.
        self._there: dict[str, Executor] = {}
        self._preferred: Sequence[tuple[str, ...]] = ()  # hosts that store a partition's data
        seen: Any = SimpleNamespace(snapshot=lambda: self._seen)
        given = ("rebalancer", "objective", "search", "cooldown_s", "hysteresis")
        self.controller = Controller(
            seen,
            options.policy or RoundRobin(),
            self,
            lambda counts: JobGraph(self.monitor.tasks(counts[operator], self._preferred)),
            {operator: begin},
            clock=clock,
            **{name: getattr(options, name) for name in given},
        )
        """Has the active plan and the last 100 decisions."""
        self._began_s, self._tasks = 0.0, tuple[TaskSeen, ...]()  # of the last cycle
        self.last: PlacementResult | None = None
        """The result of the last cycle; None before it."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the next cycle; in a dry run the initial number."""
        return self._sizes.begin if self._options.dry_run else self._decided

    @property
    def _decided(self) -> int:
        return self.controller.parallelism[self._operator]

    def explain(self) -> str:
        """Tell who decides what here, and why the last cycle ran as it did; some lines."""
        lines = ["placement: by Spark"]
        if self._options.policy is not None:
            lines = self.controller.explain().splitlines()
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
        """Return what can be done in this session; see :class:`scheduling.Actuator`."""
        if self._options.dry_run:
            return frozenset({"place", "move"})
        job = {"spread": self._splits, "executors": self._sizes.releases}
        if self._options.policy is not None:  # moves are made between cycles
            pinned = () if self._alone else ("place", "move")
            job |= dict.fromkeys(self._tiers.capabilities() if self._tiers else pinned, True)
        return frozenset(name for name, known in job.items() if known)

    def lands(self, placement: Mapping[str, str], snapshot: Snapshot) -> Mapping[str, str]:
        """Return where a placement really runs; see :class:`scheduling.Actuator`."""
        return placement if self._tiers is None else self._tiers.lands(placement, snapshot)

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan for the next cycle; see :class:`scheduling.Actuator`."""
        if self._options.policy is None:
            return Receipt({}, {})
        if not self._options.dry_run:
            if self._tiers is not None:
                return self._tiers.apply(plan)
            return Receipt(plan.placement, plan.placement, tuple(u.task for u in plan.unplaced))
        log.info("scheduling: dry run, this would be requested: %s", plan.summary)
        return Receipt({}, {})

    @contextlib.contextmanager
    def cycle(self) -> Iterator[CycleContext]:
        """One cycle: observe, decide, let the caller place and run, then observe where tasks ran.

        An error of the caller is raised again, and the cycle is not recorded.
        """
        began_s = self._clock()
        if self._tasks and began_s > self._began_s:  # how long the last cycle was is known only now
            length_s, tasks, self._tasks = began_s - self._began_s, self._tasks, ()
            self.monitor.record(length_s, tasks)
            self._sizes.record(self._began_s, length_s, tasks)
        decision = self._step(began_s)
        splits: dict[int, dict[int, float]] = {}
        if self._splits and not self._options.dry_run and decision and decision.plan:
            splits = indices(decision.plan.moves, decision.plan.placement, self._operator)
        cycle = CycleContext(self, decision, splits)
        context: Any = self._spark.sparkContext
        tag = f"scheduling-{self._operator}-{uuid.uuid4()}"
        context.addJobTag(tag)
        try:
            with cycle._waiting:
                yield cycle
                self._look(cycle, tag)
        finally:
            context.removeJobTag(tag)
        self._began_s = began_s

    def _step(self, now: float) -> Decision | None:
        """Observe, and adopt another size or ask the policy."""
        try:
            before = self.monitor.there
            self._seen = self.monitor.snapshot()
            there = self.monitor.there
            self._there = before | there
            if self._tiers is not None:
                self._seen = self._tiers.view(self._seen, self._named(self._there))
            wanted = self._sizes.wanted(now, self._decided, [*there.values()])
            self._fit(self._decided)
            decision = self.controller.step() if wanted == self._decided else self._adopt(wanted)
            if self.controller.plan is not None and self._options.policy is not None:
                self._sizes.settle(self._seen, self.controller.plan)
        except Exception as error:
            self._once.log("no new plan", error)
            return None
        for name, why in self._ignored.items():
            self._once.log(f"a metric of {name} is not believed", why, figures=True)
        plan, first = decision.plan, len(self.controller.decisions) == 1
        if plan and plan.fallback and not first:  # at first that is usual
            self._once.log(f"{plan.policy} fell back to", plan.fallback)
        if decision.dropped:
            why = _NO_PARTITION if self._splits else _HOW
            self._once.log("a heavy partition is not split", why)
        return decision

    @property
    def _ignored(self) -> dict[str, str]:
        return {**self._seen.ignored, **self.monitor.ignored}

    def _fit(self, count: int) -> None:
        """See the executors that stay, with slots for the tasks that plans are made for."""
        self.monitor.expected = self.controller.largest(self._operator, count)
        if self._tiers is None:
            executors = self._sizes.executors
            workers = self.monitor.workers(executors.leaving if executors else ())
            self._seen = replace(self._seen, workers=workers)

    def _adopt(self, count: int) -> Decision:
        """Plan for a number of tasks."""
        self._fit(count)
        return self.controller.adopt({self._operator: count})

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
            if self._tiers is not None and not options.dry_run:
                df = self._tiers.prepare(df)
            return self._pin(cycle, df)
        except PySparkException:
            raise  # the rows themselves: a shuffle below the pins has failed
        except Exception as error:
            self._once.log("this cycle is placed by Spark", error)
            return df

    def _pin(self, cycle: CycleContext, df: DataFrame) -> DataFrame:
        """The rows, with partitions pinned by the plan; why they are not is warned of once.

        Without a plan it only marks the rows, so that where tasks ran can be observed.
        """
        options, plan, said = self._options, self.controller.plan, "the job is placed by Spark"
        placement: Mapping[str, str] = {}
        if options.policy and plan and not (options.dry_run or options.tiers):
            if self._alone is None:
                placement = plan.placement
            else:
                self._once.warn(f"{said}: {self._alone}")
        at = [self._there.get(placement.get(name, "")) for name in self._names(cycle.count)]
        try:
            pinned = cycle._pinned = pins.pin(df, at)
            df, said = pinned.df, "tasks wait for executors as spark.locality.wait says"
            waiting = pins.waiting(self._spark, pinned, options.locality_wait_s)
            cycle._waiting.enter_context(waiting)
        except ActuatorError as error:
            self._once.warn(f"{said}: {error}")
        return df

    def _names(self, count: int) -> list[str]:
        return [f"{self._operator}-{i}" for i in range(count)]

    def _look(self, cycle: CycleContext, tag: str) -> None:
        """Note where the tasks of the pinned stage ran."""
        requested, landed = dict[str, str](), dict[str, str]()
        if (pinned := cycle._pinned) is not None:
            names = self._names(len(pinned.requested))
            tier = None if self._tiers is None else self._tiers.chosen
            wanted = [tier or (one.name if one else "") for one in pinned.requested]
            requested = {name: at for name, at in zip(names, wanted, strict=True) if at}
            try:
                self._tasks = tasks_of(self._status, pinned.rdd, len(names), tag)
                # A task that a copy overtook ran as requested.
                ran = {names[one.index]: one.requested_at or one.executor for one in self._tasks}
                landed = {task: f"executor {one}" for task, one in ran.items()}
                landed |= self._named_and_told(ran, requested)
            except Exception as error:
                self._once.log("where tasks ran is not known", error)
            if cycle.caches is not None:
                self.monitor.caches(cycle.count, self._tasks, cycle.caches)
        rent = None
        if landed and self._seen.by_id.keys() >= set(landed.values()):
            rent = self._options.objective.horizon_s * rent_per_s(landed, self._seen)
        decision, placed = cycle.decision, self._options.policy is not None
        plan, decisions = self.controller.plan if placed else None, self.controller.decisions
        self.last = PlacementResult(
            decision,
            cycle.count,
            requested,
            landed,
            Counter(landed.values()),
            {one.task: one.reason for one in plan.unplaced} if plan else {},
            decisions[-1].idle if plan and decisions else {},
            cycle.splits,
            {} if decision is None else dropped_shares(decision.dropped),
            self._ignored,
            self._sizes.reason,
            rent,
        )
        if pinned is not None:
            log.info("scheduling: %s", self.last.summary)

    def _named_and_told(
        self, ran: Mapping[str, str], requested: Mapping[str, str]
    ) -> dict[str, str]:
        """The worker or tier of each task that ran on an executor; the controller is told.

        An action may skip partitions, as take() does: those did not run elsewhere. Nor did the
        placement of a task fail whose executor is lost: it is placed again when that is certain.
        """
        names = self._named(self._there)
        alive = set(names.values())
        if any(names.get(at) != requested.get(task, names.get(at, "")) for task, at in ran.items()):
            now, _ = executors_of(self._status.executors())
            names |= (found := self._named({one.name: one for one in now}))
            alive = set(found.values())
        landed = {task: names[at] for task, at in ran.items() if at in names}
        told = requested.keys() & ran.keys()
        told = {task for task in told if requested[task] in alive | {landed.get(task)}}
        if told:
            at = {task: landed.get(task, f"executor {ran[task]}") for task in told}
            self.controller.observe(Receipt({task: requested[task] for task in told}, at))
        return landed

    def _named(self, there: Mapping[str, Executor]) -> dict[str | None, str]:
        """The worker, or tier, of each executor, by Spark's id."""
        if self._tiers is not None:
            return self._tiers.of(there.values())
        return {one.id: name for name, one in there.items()}
