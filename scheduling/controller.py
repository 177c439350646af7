"""The control loop of a job's placement: Monitor, Scaler, Policy, Rebalancer, Actuator.

One :meth:`Controller.step` observes the cluster once and makes at most one change. A change is
made only if it pays: if it lowers rent, imbalance and communication by more than what the moves
cost (:class:`Objective`), with a margin above the noise of the loads. Policy and rebalancer
suggest, local search improves, and the present placement is the start, so plans are sticky. Tasks
of a lost worker are placed again immediately; a placement that failed is not requested again for
some time. (A MAPE control loop: monitor, analyse, plan, execute; J. O. Kephart and D. M. Chess,
"The Vision of Autonomic Computing", 2003.)
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from scheduling.decision import Action, Decision, idle_workers, saving
from scheduling.elastic import Static
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.estimate import LoadEstimate
from scheduling.landing import fresh, landed, restricted
from scheduling.margin import Margin
from scheduling.model import JobGraph, Move, Plan, Receipt, Snapshot
from scheduling.objective import Objective, PlacementCost
from scheduling.partial_moves import take_parts
from scheduling.protocols import Actuator, Clock, Monitor, Policy, Rebalancer, Scaler
from scheduling.recall import Recall
from scheduling.replanning import Candidate, Replanner, Situation
from scheduling.rest import Rest

__all__ = ["Controller"]

_KEPT = 100  # decisions in the history


class Controller:
    """Controls the placement and the parallelism of a job. Not thread-safe.

    Args:
        monitor: observes the cluster.
        policy: makes the first plan, and suggests others.
        actuator: applies plans. With the capability ``"executors"`` it releases idle workers;
            without it all workers are used that can be.
        graph_of: returns the job graph for the number of instances of each operator.
        parallelism: the initial number of instances of each operator.
        clock: a clock in seconds: ``time.monotonic``, or a simulator's.
        scaler: chooses the parallelism of operators. None (default): :class:`Static`, no change.
        rebalancer: suggests moves of running tasks. None (default): none.
        objective: what a placement costs. None (default): ``Objective()``.
        search: whether plans are improved by local search; default True. If False, the first plan
            is the policy's, and it changes only to another plan of the policy or by moves of the
            rebalancer that pay.
        cooldown_s: seconds between two changes, except repairs and the first corrections of a plan
            that was made without measured loads; default 60.
        hysteresis: how much less another plan must cost, as a share of what the present one costs
            over the horizon; default 0.1. In the first three measured cycles, and in three after
            workers have come or gone, 0.02 is enough. In any case it is two standard deviations of
            the loads.
        forget_s: seconds after which a failed placement may be requested again; default 600.

    Raises:
        ArgumentError: a number is out of its range.

    Example:
        >>> from scheduling.policies import RoundRobin
        >>> from scheduling.simulate import SimActuator, SimMonitor, Simulation, demands
        >>> from scheduling.simulate.clusters import table_4
        >>> from scheduling.simulate.workloads import wordcount
        >>> job = wordcount()
        >>> tasks = demands(job, 20_000).tasks
        >>> at = {task.id: table_4()[i % 11].id for i, task in enumerate(tasks)}
        >>> simulation = Simulation(job, table_4(), lambda time_s: 20_000.0, at)
        >>> controller = Controller(
        ...     SimMonitor(simulation),
        ...     RoundRobin(),
        ...     SimActuator(simulation),
        ...     lambda counts: demands(job.resized(counts), 20_000),
        ...     {operator.name: operator.parallelism for operator in job.operators},
        ...     clock=lambda: simulation.time_s,
        ... )
        >>> controller.step().action
        'place'
    """

    def __init__(
        self,
        monitor: Monitor,
        policy: Policy,
        actuator: Actuator,
        graph_of: Callable[[Mapping[str, int]], JobGraph],
        parallelism: Mapping[str, int],
        *,
        clock: Clock,
        scaler: Scaler | None = None,
        rebalancer: Rebalancer | None = None,
        objective: Objective | None = None,
        search: bool = True,
        cooldown_s: float = 60.0,
        hysteresis: float = 0.1,
        forget_s: float = 600.0,
    ) -> None:
        for name, seconds in (("cooldown_s", cooldown_s), ("forget_s", forget_s)):
            if not seconds >= 0:
                raise ArgumentError(f"{name}={seconds!r}: give seconds, at least 0")
        self._margin = Margin(hysteresis)
        self._monitor, self._actuator = monitor, actuator
        self._graph_of, self._clock = graph_of, clock
        self._scaler: Scaler = scaler or Static()
        self._replanner = Replanner(policy, rebalancer, objective or Objective(), search)
        self._cooldown_s, self._forget_s = cooldown_s, forget_s
        self._parallelism = dict(parallelism)
        self._plan: Plan | None = None
        self._changed_s = 0.0
        self._failed: dict[tuple[str, str], float] = {}
        self._known: frozenset[str] = frozenset()
        self._recall = Recall()
        self._estimate = LoadEstimate()
        self._rest = Rest()
        self._turn = self._in_vain = 0  # searches, and those since the last change
        self._decisions: deque[Decision] = deque(maxlen=_KEPT)

    @property
    def plan(self) -> Plan | None:
        """The last observed placement; None before the first step."""
        return self._plan

    @property
    def parallelism(self) -> dict[str, int]:
        """The number of instances of each operator."""
        return dict(self._parallelism)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last 100 steps, oldest first."""
        return tuple(self._decisions)

    @property
    def failed(self) -> frozenset[tuple[str, str]]:
        """Pairs of task and worker whose placement failed and is not requested again yet."""
        return frozenset(self._failed)

    def step(self) -> Decision:
        """Observe the cluster once, and make at most one change.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        now = self._clock()
        snapshot = self._monitor.snapshot()
        wanted = dict(self._parallelism)
        for operator, window in self._monitor.windows().items():
            wanted[operator] = self._scaler.parallelism(operator, window)
        self._failed = {
            pair: since for pair, since in self._failed.items() if now - since < self._forget_s
        }
        return self._noted(self._decide(now, snapshot, wanted), snapshot)

    def observe(self, receipt: Receipt) -> None:
        """Record where tasks run, for actuators that observe it only after :meth:`step`.

        A failed placement is not requested again for ``forget_s``; :attr:`plan` has the actual
        worker. An actuator that repeats its plan in every cycle, as pins do, needs that plan.
        """
        now = self._clock()
        for task, worker in receipt.missed.items():
            self._failed[task, worker] = now
        if self._plan is not None and receipt.missed:
            self._plan = landed(self._plan, receipt)
            self._recall.plan(self._plan)

    def adopt(self, parallelism: Mapping[str, int], snapshot: Snapshot | None = None) -> Decision:
        """Plan for a parallelism that was decided elsewhere, regardless of the cooldown.

        Tasks keep their workers, also those that are missing for some cycles: plans are made for
        the largest of the last 20 numbers, and the current tasks of a plan are requested. The
        cooldown goes on as before, so a number that changes all the time does not keep other
        changes from being made.

        Args:
            parallelism: instances of operators; a missing operator keeps its parallelism.
            snapshot: a current snapshot. None (default): the monitor's.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        now, changed_s = self._clock(), self._changed_s
        snapshot = snapshot or self._monitor.snapshot()
        reason = ", ".join(f"{name} has {count}" for name, count in sorted(parallelism.items()))
        wanted = self._parallelism | dict(parallelism)
        first = self._plan is None
        self._recall.counts(parallelism)
        situation = self._situation(self._graph_of(self._recall.largest(wanted)), snapshot)
        found = self._replanner.first(situation) if first else self._replanner.repaired(situation)
        if first:
            self._known = frozenset(snapshot.by_id)
        decision = self._apply(now, "place", reason, found, wanted)
        if not first:
            self._changed_s = changed_s
        return self._noted(decision, snapshot)

    def _noted(self, decision: Decision, snapshot: Snapshot) -> Decision:
        """The decision with the idle workers, added to the history."""
        if self._plan is not None:
            idle = idle_workers(self._plan, snapshot, released=self._releases)
            decision = dataclasses.replace(decision, idle=idle)
        self._decisions.append(decision)
        return decision

    @property
    def _releases(self) -> bool:
        return "executors" in self._actuator.capabilities()

    def _situation(self, graph: JobGraph, snapshot: Snapshot) -> Situation:
        present = self._recall.present(self._plan, graph, snapshot.by_id)
        return Situation(
            graph,
            snapshot,
            present,
            self._estimate.loads(graph),
            self._releases,
            frozenset(self._failed),
            self._estimate.noise(present, graph),
            self._plan,
        )

    def _decide(self, now: float, snapshot: Snapshot, wanted: dict[str, int]) -> Decision:
        graph = self._graph_of(self._recall.largest(self._parallelism))
        known = self._estimate.measured
        self._estimate.observe(graph, snapshot)
        situation = self._situation(graph, snapshot)
        workers = frozenset(snapshot.by_id)
        if self._plan is None:
            self._known = workers
            return self._apply(now, "place", "the first plan", self._replanner.first(situation))
        if self._estimate.measured and not known:
            self._margin.measured()
        if workers != self._known:
            self._known = workers
            self._margin.disturbed()
        gone = sorted(set(self._plan.by_worker) - workers)
        if gone:
            found = self._replanner.repaired(situation)
            return self._apply(now, "repair", f"gone: {', '.join(gone)}", found)
        left = self._changed_s + self._cooldown_s - now
        if left > 0 and not self._margin.correcting:
            return Decision(now, "none", f"cooldown, {left:.3g} s left")
        if wanted != self._parallelism:
            return self._resized(now, situation, wanted)
        decision = self._better(now, situation)
        self._margin.passed()
        return decision

    def _resized(self, now: float, before: Situation, wanted: dict[str, int]) -> Decision:
        reason = ", ".join(
            f"{name} from {self._parallelism.get(name, 0)} to {count}"
            for name, count in sorted(wanted.items())
            if count != self._parallelism.get(name)
        )
        graph = self._graph_of(wanted)
        self._estimate.redistribute(before.graph, graph)
        self._margin.disturbed()
        self._recall.forget_counts()
        found = self._replanner.repaired(self._situation(graph, before.snapshot), all_may_move=True)
        return self._apply(now, "resize", reason, found, wanted)

    def _better(self, now: float, situation: Situation) -> Decision:
        """A change to a placement that costs less than the present one, if there is any."""
        can, present = self._actuator.capabilities(), situation.present
        if not can & {"place", "move"}:
            return Decision(now, "none", "tasks are placed elsewhere")
        before = self._replanner.cost(situation, present)
        share = self._margin.share(situation.noise)
        margin = share * before.running
        if self._rest.holds(situation, before, share, can):
            return Decision(now, "none", "nothing to gain", cost=before)
        if not before.unplaced and before.running - self._replanner.least(situation) <= margin:
            return Decision(now, "none", "nothing to gain", cost=before)
        moves = self._replanner.moves(situation) if "move" in can else ()
        self._turn, self._in_vain = self._turn + 1, self._in_vain + 1
        for found in self._replanner.candidates(situation, moves, self._turn):
            if found.plan.placement == present:
                break  # the best of all is the present one
            more = before.unplaced - found.cost.unplaced
            if more > 0:
                return self._apply(now, "place", f"{more} more fit", found)
            if more == 0 and before.running - found.cost.total > margin:
                action: Action = "move" if found.plan.moves else "place"
                return self._apply(now, action, self._why(before, found.cost), found)
        parts = self._replanner.split(situation, moves, can)
        if parts is not None and before.running - parts.cost.total > margin:
            reason = f"{self._why(before, parts.cost)}, splits {_split(parts.plan.moves)}"
            return self._apply(now, "move", reason, parts)
        if self._in_vain >= self._replanner.starts(situation):
            self._rest.begin(situation, before, share, can)
        wanted = None if "split" in can else self._replanner.split(situation, moves, {"split"})
        if wanted is None or before.running - wanted.cost.total <= margin:
            return Decision(now, "none", "nothing to gain", cost=before)
        dropped = tuple(one for one in wanted.plan.moves if one.part < 1)
        reason = f"nothing to gain but by splitting {_split(dropped)}, which cannot be done here"
        return Decision(now, "none", reason, cost=before, dropped=dropped)

    def _why(self, before: PlacementCost, after: PlacementCost) -> str:
        return saving(before, after, self._replanner.objective.horizon_s)

    def _apply(
        self,
        now: float,
        action: Action,
        reason: str,
        found: Candidate,
        parallelism: dict[str, int] | None = None,
    ) -> Decision:
        self._changed_s, self._in_vain = now, 0
        current = self._graph_of(self._parallelism if parallelism is None else parallelism).by_id
        self._recall.plan(found.plan)
        plan = restricted(found.plan, current)
        try:
            receipt = self._actuator.apply(plan)
        except ActuatorError as error:
            for one in fresh(self._plan, plan):
                self._failed[one.task, one.worker] = now
            return Decision(now, "failed", f"{action}, {reason}: {error}", plan)
        for task, worker in receipt.missed.items():
            self._failed[task, worker] = now
        if parallelism is not None:
            self._parallelism = parallelism
        for operator, count in take_parts(plan, receipt, current, self._estimate).items():
            self._parallelism[operator] = self._parallelism.get(operator, 0) + count
        self._plan = landed(plan, receipt)
        self._recall.plan(self._plan)
        return Decision(now, action, reason, plan, receipt, found.cost)


def _split(moves: Iterable[Move]) -> str:
    """The tasks of which parts move: three of them, and the number of the others."""
    tasks = sorted({one.task for one in moves if one.part < 1})
    more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
    return ", ".join(tasks[:3]) + more
