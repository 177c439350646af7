"""The control loop of a job's placement: Monitor, Scaler, Policy, Rebalancer, Actuator.

One :meth:`Controller.step` observes the cluster once and makes at most one change. It waits after
a change (cooldown), adopts another plan only if it is cheaper by a margin (hysteresis) or uses new
workers, verifies where tasks actually run, and for some time does not request a placement again
that has failed. Tasks of a lost worker are placed again immediately. (A MAPE control loop: monitor,
analyse, plan, execute; J. O. Kephart and D. M. Chess, "The Vision of Autonomic Computing", 2003.)
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduling.cost import rent_per_s
from scheduling.elastic import Static
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.model import Assignment, JobGraph, Move, Plan, Receipt, Snapshot, Unplaced
from scheduling.policies.capacity import CapacityLedger
from scheduling.protocols import Actuator, Clock, Monitor, Policy, Rebalancer, Scaler

__all__ = ["Controller", "Decision"]

_KEPT = 100  # decisions in the history


@dataclass(frozen=True)
class Decision:
    """The action of one step, and its reason.

    Args:
        time_s: when, on the controller's clock.
        action: ``"place"`` (the first or a better plan), ``"repair"`` (workers are lost),
            ``"resize"``, ``"move"``, ``"none"``, or ``"failed"`` (the actuator raised an error).
        reason: why, in words.
        plan: the requested plan; None (default) for no request.
        receipt: where the tasks run, as observed; None (default) for no request.
    """

    time_s: float
    action: Literal["place", "repair", "resize", "move", "none", "failed"]
    reason: str
    plan: Plan | None = None
    receipt: Receipt | None = None


class Controller:
    """Controls the placement and the parallelism of a job. Not thread-safe.

    Args:
        monitor: observes the cluster.
        policy: places tasks.
        actuator: applies plans.
        graph_of: returns the job graph for the number of instances of each operator.
        parallelism: the initial number of instances of each operator.
        clock: a clock in seconds: ``time.monotonic``, or a simulator's.
        scaler: chooses the parallelism of operators. None (default): :class:`Static`, no change.
        rebalancer: moves running tasks. None (default): no moves.
        cooldown_s: seconds between two changes, except repairs; default 60.
        hysteresis: how much cheaper another plan must be, as a share; default 0.1.
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
        cooldown_s: float = 60.0,
        hysteresis: float = 0.1,
        forget_s: float = 600.0,
    ) -> None:
        for name, seconds in (("cooldown_s", cooldown_s), ("forget_s", forget_s)):
            if not seconds >= 0:
                raise ArgumentError(f"{name}={seconds!r}: give seconds, at least 0")
        if not 0 <= hysteresis < 1:
            raise ArgumentError(f"hysteresis={hysteresis!r}: give a share, 0 to below 1")
        self._monitor, self._policy, self._actuator = monitor, policy, actuator
        self._graph_of, self._clock = graph_of, clock
        self._scaler: Scaler = scaler or Static()
        self._rebalancer = rebalancer
        self._cooldown_s, self._hysteresis, self._forget_s = cooldown_s, hysteresis, forget_s
        self._parallelism = dict(parallelism)
        self._plan: Plan | None = None
        self._changed_s = 0.0
        self._failed: dict[tuple[str, str], float] = {}
        self._known: frozenset[str] = frozenset()
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
        decision = self._decide(now, snapshot, wanted)
        self._decisions.append(decision)
        return decision

    def observe(self, receipt: Receipt) -> None:
        """Record where tasks run, for actuators that observe it only after :meth:`step`.

        A failed placement is not requested again for ``forget_s``; the plan has the actual worker.
        """
        now = self._clock()
        for task, worker in receipt.missed.items():
            self._failed[task, worker] = now
        if self._plan is not None and receipt.missed:
            self._plan = _landed(self._plan, receipt)

    def adopt(self, parallelism: Mapping[str, int], snapshot: Snapshot | None = None) -> Decision:
        """Plan for a parallelism that was decided elsewhere, regardless of the cooldown.

        Args:
            parallelism: instances of operators; a missing operator keeps its parallelism.
            snapshot: a current snapshot. None (default): the monitor's.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        now = self._clock()
        snapshot = snapshot or self._monitor.snapshot()
        reason = ", ".join(f"{name} has {count}" for name, count in sorted(parallelism.items()))
        self._known = frozenset(snapshot.by_id)
        wanted = self._parallelism | dict(parallelism)
        plan = self._planned(self._graph_of(wanted), snapshot)
        decision = self._apply(now, "place", reason, plan, wanted)
        self._decisions.append(decision)
        return decision

    def _decide(self, now: float, snapshot: Snapshot, wanted: dict[str, int]) -> Decision:
        if self._plan is None:
            self._known = frozenset(snapshot.by_id)
            plan = self._planned(self._graph_of(self._parallelism), snapshot)
            return self._apply(now, "place", "the first plan", plan)
        graph = self._graph_of(self._parallelism)
        gone = sorted(set(self._plan.by_worker) - set(snapshot.by_id))
        if gone:
            self._known = frozenset(snapshot.by_id)
            plan = self._planned(graph, snapshot)
            return self._apply(now, "repair", f"gone: {', '.join(gone)}", plan)
        left = self._changed_s + self._cooldown_s - now
        if left > 0:
            return Decision(now, "none", f"cooldown, {left:.3g} s left")
        if wanted != self._parallelism:
            reason = ", ".join(
                f"{name} from {self._parallelism.get(name, 0)} to {count}"
                for name, count in sorted(wanted.items())
                if count != self._parallelism.get(name)
            )
            plan = self._planned(self._graph_of(wanted), snapshot)
            return self._apply(now, "resize", reason, plan, wanted)
        plan = self._planned(graph, snapshot)
        if len(plan.unplaced) < len(self._plan.unplaced):
            return self._apply(
                now, "place", f"{len(self._plan.unplaced) - len(plan.unplaced)} more fit", plan
            )
        new = sorted(set(snapshot.by_id) - self._known)
        self._known = frozenset(snapshot.by_id)
        pays = rent_per_s(self._plan, snapshot)
        # A policy that spreads tasks uses new workers immediately, regardless of their price.
        if rent_per_s(plan, snapshot) > pays and set(new) & set(plan.by_worker):
            return self._apply(now, "place", f"new: {', '.join(new)}", plan)
        same = len(plan.unplaced) == len(self._plan.unplaced)
        if same and rent_per_s(plan, snapshot) < (1 - self._hysteresis) * pays:
            reason = f"{rent_per_s(plan, snapshot):.4g} instead of {pays:.4g} $/s"
            return self._apply(now, "place", reason, plan)
        return self._even_out(now, graph, snapshot)

    def _even_out(self, now: float, graph: JobGraph, snapshot: Snapshot) -> Decision:
        can = self._actuator.capabilities()
        if self._rebalancer is None or self._plan is None or "move" not in can:
            return Decision(now, "none", "nothing to gain")
        ledger = _ledger_of(self._plan, graph, snapshot)
        at = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        made: list[Move] = []
        if not snapshot.placement:
            snapshot = dataclasses.replace(snapshot, placement=self._plan.placement)
        for move in self._rebalancer.rebalance(graph, snapshot):
            task = graph.by_id[move.task]
            if (move.task, move.target) in self._failed or move.task not in ledger.at:
                continue
            if move.part < 1:
                if "split" in can:
                    made.append(move)
            elif ledger.fits(task, at[move.target]) and ledger.at[task.id] == at[move.source]:
                ledger.release(task)
                ledger.place(task, at[move.target], f"{move.gain:.1%} less between two workers")
                made.append(move)
        if not made:
            return Decision(now, "none", "nothing to gain")
        plan = dataclasses.replace(ledger.plan(self._rebalancer.name), moves=tuple(made))
        return self._apply(now, "move", f"{len(made)} moves", plan)

    def _planned(self, graph: JobGraph, snapshot: Snapshot) -> Plan:
        """The policy's plan, with recently failed placements on other workers if there is room."""
        plan = self._policy.plan(graph, snapshot, self._plan)
        bad = [one for one in plan.assignments if (one.task, one.worker) in self._failed]
        if not bad:
            return plan
        ledger = _ledger_of(plan, graph, snapshot)
        cheap = sorted(range(len(ledger.workers)), key=lambda i: ledger.workers[i].price_per_s)
        for one in bad:
            task = graph.by_id[one.task]
            ledger.release(task)
            used = set(ledger.at.values())
            choices = [i for i in cheap if i in used] + [i for i in cheap if i not in used]
            for i in choices:
                if (task.id, ledger.workers[i].id) not in self._failed and ledger.fits(task, i):
                    ledger.place(task, i, f"its placement on {one.worker} failed")
                    break
            else:
                ledger.place(task, snapshot.workers.index(snapshot.by_id[one.worker]), one.reason)
        return ledger.plan(plan.policy)

    def _apply(
        self,
        now: float,
        action: Literal["place", "repair", "resize", "move"],
        reason: str,
        plan: Plan,
        parallelism: dict[str, int] | None = None,
    ) -> Decision:
        self._changed_s = now
        try:
            receipt = self._actuator.apply(plan)
        except ActuatorError as error:
            for one in _fresh(self._plan, plan):
                self._failed[one.task, one.worker] = now
            return Decision(now, "failed", f"{action}, {reason}: {error}", plan)
        for task, worker in receipt.missed.items():
            self._failed[task, worker] = now
        if parallelism is not None:
            self._parallelism = parallelism
        self._plan = _landed(plan, receipt)
        return Decision(now, action, reason, plan, receipt)


def _ledger_of(plan: Plan, graph: JobGraph, snapshot: Snapshot) -> CapacityLedger:
    """A ledger with the tasks of a plan placed."""
    ledger = CapacityLedger(graph, snapshot)
    at = {worker.id: i for i, worker in enumerate(snapshot.workers)}
    for one in plan.assignments:
        if one.task in graph.by_id and one.worker in at:
            ledger.place(graph.by_id[one.task], at[one.worker], one.reason)
    return ledger


def _fresh(before: Plan | None, plan: Plan) -> Sequence[Assignment]:
    """The assignments that differ from the previous plan."""
    old = before.placement if before else {}
    return [one for one in plan.assignments if old.get(one.task) != one.worker]


def _landed(plan: Plan, receipt: Receipt) -> Plan:
    """The plan as observed: tasks on their actual workers; tasks without a worker are unplaced."""
    placed, lost = [], list(plan.unplaced)
    for one in plan.assignments:
        at = receipt.landed.get(one.task) if one.task in receipt.requested else one.worker
        if at is None:
            lost.append(Unplaced(one.task, f"its placement on {one.worker} failed"))
        elif at == one.worker:
            placed.append(one)
        else:
            placed.append(Assignment(one.task, at, f"runs here, {one.worker} was requested"))
    return dataclasses.replace(plan, assignments=tuple(placed), unplaced=tuple(lost))
