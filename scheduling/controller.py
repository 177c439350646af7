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
from collections.abc import Callable, Mapping

from scheduling.decision import Action, Decision
from scheduling.elastic import Static
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.estimate import LoadEstimate
from scheduling.landing import fresh, landed, restricted
from scheduling.model import JobGraph, Plan, Receipt, Snapshot
from scheduling.objective import Objective, PlacementCost
from scheduling.protocols import Actuator, Clock, Monitor, Policy, Rebalancer, Scaler
from scheduling.replanning import Candidate, Replanner, Situation
from scheduling.rest import Rest

__all__ = ["Controller"]

_KEPT = 100  # decisions in the history
_RECENT = 20  # adopted numbers of instances, for the largest of which plans are made
_SETTLING = 3  # measured cycles after a disturbance in which small gains count, too
_SMALL = 0.02  # the margin then
_DEVIATIONS = 2.0  # of the loads, that a gain must exceed


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
        if not 0 <= hysteresis < 1:
            raise ArgumentError(f"hysteresis={hysteresis!r}: give a share, 0 to below 1")
        self._monitor, self._actuator = monitor, actuator
        self._graph_of, self._clock = graph_of, clock
        self._scaler: Scaler = scaler or Static()
        self._replanner = Replanner(policy, rebalancer, objective or Objective(), search)
        self._cooldown_s, self._hysteresis, self._forget_s = cooldown_s, hysteresis, forget_s
        self._parallelism = dict(parallelism)
        self._plan: Plan | None = None
        self._changed_s = 0.0
        self._failed: dict[tuple[str, str], float] = {}
        self._known: frozenset[str] = frozenset()
        self._homes: dict[str, str] = {}
        self._recent: dict[str, deque[int]] = {}
        self._estimate = LoadEstimate()
        self._correcting = self._settling = 0
        self._rest = Rest()
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

        A failed placement is not requested again for ``forget_s``; the plan has the actual worker.
        """
        now = self._clock()
        for task, worker in receipt.missed.items():
            self._failed[task, worker] = now
        if self._plan is not None and receipt.missed:
            self._plan = landed(self._plan, receipt)
            self._remember(self._plan)

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
        for name, count in parallelism.items():
            self._recent.setdefault(name, deque(maxlen=_RECENT)).append(count)
        situation = self._situation(self._graph_of(self._largest(wanted)), snapshot)
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
            idle = set(snapshot.by_id) - set(self._plan.by_worker)
            fate = "kept, no task has to run there"
            if self._releases:
                fate = "released"
            elif len(self._plan.assignments) < len(snapshot.workers):
                fate = "kept, there are fewer tasks than workers"
            decision = dataclasses.replace(decision, idle=dict.fromkeys(sorted(idle), fate))
        self._decisions.append(decision)
        return decision

    @property
    def _releases(self) -> bool:
        return "executors" in self._actuator.capabilities()

    def _situation(self, graph: JobGraph, snapshot: Snapshot) -> Situation:
        there = snapshot.by_id
        homes = {t: at for t, at in self._homes.items() if t in graph.by_id and at in there}
        placed = {} if self._plan is None else self._plan.placement
        present = homes | {task: at for task, at in placed.items() if task in graph.by_id}
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

    def _largest(self, parallelism: Mapping[str, int]) -> dict[str, int]:
        """The numbers of instances that plans are made for."""
        return {
            name: max(count, *self._recent.get(name, ()), count)
            for name, count in parallelism.items()
        }

    def _remember(self, plan: Plan) -> None:
        """Keep the workers of a plan's tasks for when they are missing."""
        self._homes |= plan.placement
        for one in plan.unplaced:
            self._homes.pop(one.task, None)

    def _decide(self, now: float, snapshot: Snapshot, wanted: dict[str, int]) -> Decision:
        graph = self._graph_of(self._largest(self._parallelism))
        known = self._estimate.measured
        self._estimate.observe(graph, snapshot)
        situation = self._situation(graph, snapshot)
        workers = frozenset(snapshot.by_id)
        if self._plan is None:
            self._known = workers
            return self._apply(now, "place", "the first plan", self._replanner.first(situation))
        if self._estimate.measured and not known:
            self._correcting = self._settling = _SETTLING
        if workers != self._known:
            self._known, self._settling = workers, _SETTLING
        gone = sorted(set(self._plan.by_worker) - workers)
        if gone:
            found = self._replanner.repaired(situation)
            return self._apply(now, "repair", f"gone: {', '.join(gone)}", found)
        left = self._changed_s + self._cooldown_s - now
        if left > 0 and not self._correcting:
            return Decision(now, "none", f"cooldown, {left:.3g} s left")
        if wanted != self._parallelism:
            return self._resized(now, situation, wanted)
        decision = self._better(now, situation)
        self._correcting = max(0, self._correcting - 1)
        self._settling = max(0, self._settling - 1)
        return decision

    def _resized(self, now: float, before: Situation, wanted: dict[str, int]) -> Decision:
        reason = ", ".join(
            f"{name} from {self._parallelism.get(name, 0)} to {count}"
            for name, count in sorted(wanted.items())
            if count != self._parallelism.get(name)
        )
        graph = self._graph_of(wanted)
        self._estimate.redistribute(before.graph, graph)
        self._settling = _SETTLING
        self._recent.clear()
        found = self._replanner.repaired(self._situation(graph, before.snapshot), all_may_move=True)
        return self._apply(now, "resize", reason, found, wanted)

    def _better(self, now: float, situation: Situation) -> Decision:
        """A change to a placement that costs less than the present one, if there is any."""
        can, present = self._actuator.capabilities(), situation.present
        if not can & {"place", "move"}:
            return Decision(now, "none", "tasks are placed elsewhere")
        before = self._replanner.cost(situation, present)
        share = self._margin(situation)
        margin = share * before.running
        if self._rest.holds(situation, before, share, can):
            return Decision(now, "none", "nothing to gain", cost=before)
        if not before.unplaced and before.running - self._replanner.least(situation) <= margin:
            return Decision(now, "none", "nothing to gain", cost=before)
        moves = self._replanner.moves(situation) if "move" in can else ()
        for found in self._replanner.candidates(situation, moves):
            if found.plan.placement == present:
                break  # the best of all is the present one
            more = before.unplaced - found.cost.unplaced
            if more > 0:
                return self._apply(now, "place", f"{more} more fit", found)
            if more == 0 and before.running - found.cost.total > margin:
                action: Action = "move" if found.plan.moves else "place"
                return self._apply(now, action, self._why(before, found.cost), found)
        if "split" in can:
            split = self._replanner.split(situation, moves)
            if split is not None and before.running - split.cost.total > margin:
                return self._apply(now, "move", self._why(before, split.cost), split)
        self._rest.begin(situation, before, share, can)
        return Decision(now, "none", "nothing to gain", cost=before)

    def _margin(self, situation: Situation) -> float:
        """The share of the present cost that a change must gain."""
        least = _SMALL if self._settling else self._hysteresis
        return max(least, _DEVIATIONS * situation.noise)

    def _why(self, before: PlacementCost, after: PlacementCost) -> str:
        seconds = self._replanner.objective.horizon_s
        parts = [
            f"{name} {was:.4g} to {becomes:.4g}"
            for name, was, becomes in (
                ("rent", before.rent, after.rent),
                ("imbalance", before.imbalance, after.imbalance),
                ("communication", before.communication, after.communication),
            )
            if f"{was:.4g}" != f"{becomes:.4g}"
        ]
        if after.movement:
            parts.append(f"moves {after.movement:.4g}")
        return (
            f"{after.total:.4g} instead of {before.running:.4g} $ in {seconds:g} s: "
            f"{', '.join(parts)}"
        )

    def _apply(
        self,
        now: float,
        action: Action,
        reason: str,
        found: Candidate,
        parallelism: dict[str, int] | None = None,
    ) -> Decision:
        self._changed_s = now
        current = self._graph_of(self._parallelism if parallelism is None else parallelism).by_id
        self._remember(found.plan)
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
        self._take_parts(plan, receipt)
        self._plan = landed(plan, receipt)
        self._remember(self._plan)
        return Decision(now, action, reason, plan, receipt, found.cost)

    def _take_parts(self, plan: Plan, receipt: Receipt) -> None:
        """Move the estimated load of split tasks; count the instances that were added for them."""
        parts = [move for move in plan.moves if move.part < 1]
        if not parts:
            return
        tasks = self._graph_of(self._parallelism).by_id
        added = len(set(receipt.landed) - set(tasks))
        for number, move in enumerate(parts):
            operator = tasks[move.task].operator
            there = [
                name
                for name in plan.by_worker.get(move.target, ())
                if name in tasks and tasks[name].operator == operator and name != move.task
            ]
            self._estimate.split(move.task, move.part, there)
            if number < added:
                self._parallelism[operator] = self._parallelism.get(operator, 0) + 1
