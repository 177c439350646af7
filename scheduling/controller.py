"""The control loop of a job's placement: the policy is asked in every cycle, and followed.

::

            first plan          worker missed twice: repair at once
      NEW ------------> KEPT ----------------------------------------> KEPT
                         | ^
       an answer pays,   | |  the change landed
       cooldown is over  v |  (not: the cooldown doubles, its pairs of task and worker wait)
                       CHANGED

An answer pays if its running cost, of where it would land, is less by more than the moves cost and
a share of it: so a plan comes to rest (docs/decisions/0015-placement-objective.md).
"""

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping

from scheduling.errors import ActuatorError
from scheduling.history import Action, Decision, History, LoadEstimate, observed, percent
from scheduling.model import JobGraph, Move, Plan, Receipt, Snapshot
from scheduling.model.checks import number, share
from scheduling.objective import Objective, PlacementCost
from scheduling.proposals import Case, Proposal
from scheduling.protocols import Actuator, Clock, Monitor, Policy, Rebalancer, weights_of
from scheduling.splits import split_names, take_parts

Counts = Mapping[str, int]  # by operator, the number of its instances
_KEPT = 100  # decisions in the history
_RECENT = 40  # numbers of instances, once one is adopted: those, and one a step
_SETTLING = 3  # cycles after a disturbance in which small gains count, too
_SMALL = 0.02  # what a change must gain then
_DOUBLED = 6  # how often the cooldown is doubled at most


class Controller:
    """Controls where the tasks of a job run. Not thread-safe.

    Args:
        monitor: observes the cluster.
        policy: asked in every step, with the history in the snapshot and the present plan; its
            ``weights`` of rent, imbalance and communication are (0, 1, 0) if it has none.
        actuator: applies plans.
        graph_of: returns the job graph for the number of instances of each operator.
        parallelism: the initial number of instances of each operator.
        clock: a clock in seconds: ``time.monotonic``, or a simulator's.
        rebalancer: suggests moves of running tasks, and imbalance counts, whatever the policy is
            for. None (default): no moves.
        objective: what a placement costs; its weights are multiplied with the policy's. None
            (default): ``Objective()``.
        search: whether a local search proposes placements, too; default False.
        cooldown_s: seconds between two changes, except repairs and the first corrections of a plan
            that was made without measured loads; default 60. It doubles with each change of which
            most moves do not land.
        hysteresis: how much less another plan must cost, as a share of what the present one costs
            over the horizon; default 0.1. In the first three measured cycles, and in three after
            workers have come or gone, 0.02 is enough. 0: every answer of the policy is requested,
            after the rebalancer's moves; without a search or a cooldown.
        forget_s: seconds after which a failed placement may be requested again; default 600.

    Raises:
        ArgumentError: a number is out of its range.

    Example:
        >>> from types import SimpleNamespace
        >>> from scheduling import Resources, RoundRobin, Task, Worker
        >>> workers = [Worker(name, Resources(4, 8192), 4) for name in "ab"]
        >>> cluster = SimpleNamespace(
        ...     snapshot=lambda: Snapshot(0.0, workers),
        ...     capabilities=lambda: frozenset({"place"}),
        ...     apply=lambda plan: Receipt(plan.placement, plan.placement),
        ... )
        >>> graph = JobGraph([Task(f"t{i}", "t", i, Resources(1, 64)) for i in range(2)])
        >>> parts = cluster, RoundRobin(), cluster, lambda counts: graph, {"t": 2}
        >>> Controller(*parts, clock=lambda: 0.0).step().plan.placement
        {'t0': 'a', 't1': 'b'}
    """

    def __init__(
        self,
        monitor: Monitor,
        policy: Policy,
        actuator: Actuator,
        graph_of: Callable[[Counts], JobGraph],
        parallelism: Counts,
        *,
        clock: Clock,
        rebalancer: Rebalancer | None = None,
        objective: Objective | None = None,
        search: bool = False,
        cooldown_s: float = 60.0,
        hysteresis: float = 0.1,
        forget_s: float = 600.0,
    ) -> None:
        self._cooldown_s = number("cooldown_s", cooldown_s, endless=True)
        self._forget_s = number("forget_s", forget_s, endless=True)
        self._hysteresis = share("hysteresis", hysteresis, below=True)
        rent, imbalance, communication = weights_of(policy)
        weights = (rent, max(imbalance, rebalancer is not None), communication)
        objective = (objective or Objective()).weighted(weights)
        lands = getattr(actuator, "lands", None) if self._hysteresis else None
        self._asked = policy, rebalancer, objective, search, lands
        self._monitor, self._actuator, self._clock = monitor, actuator, clock
        self._graph_of = graph_of
        self.parallelism = dict(parallelism)
        """The number of instances of each operator."""
        self.plan: Plan | None = None
        """The last observed placement; None before the first step."""
        self._estimate, self._history = LoadEstimate(), History()
        self._workers: dict[str, str] = {}  # the last one of each task; empty: it ran nowhere
        self._counts = defaultdict[str, deque[int]](lambda: deque(maxlen=_RECENT))
        self._failed: dict[tuple[str, str], float] = {}
        self._changed_s = 0.0
        self._moved: Collection[str] = ()  # tasks of the last change
        self._missed, self._in_vain = False, 0  # whether, and how often, most did not land
        self._settling = self._correcting = 0  # cycles
        self._decisions: deque[Decision] = deque(maxlen=_KEPT)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last 100 steps, oldest first."""
        return tuple(self._decisions)

    @property
    def failed(self) -> frozenset[tuple[str, str]]:
        """Pairs of task and worker whose placement failed and is not requested again yet."""
        return frozenset(self._failed)

    def explain(self) -> str:
        """Tell how placements are decided, and the last decision with its reason; some lines."""
        policy, rebalancer, o, search, _ = self._asked
        rests = "every answer is requested"
        if self._hysteresis:
            rests = "the present plan is kept until another saves so much of its cost"
        lines = [
            f"policy: {policy.name}, asked in every cycle, for rent {o.rent:g}, "
            f"imbalance {o.imbalance:g}, communication {o.communication:g}",
            f"search: {'on' if search and self._hysteresis else 'off'}",
            f"hysteresis: {percent(self._hysteresis)}, {rests}",
            f"rebalancer: {rebalancer.name if rebalancer else 'none'}",
        ]
        lines += [f"fallback: {self.plan.fallback}"] if self.plan and self.plan.fallback else []
        for last in self.decisions[-1:]:
            lines.append(f"last decision: {last.action} at {last.time_s:g} s, {last.reason}")
        return "\n".join(lines)

    def step(self) -> Decision:
        """Observe the cluster once, and make at most one change.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        now, used = self._clock(), self.plan.by_worker if self.plan else ()
        snapshot, disturbed = self._history.look(self._monitor.snapshot(), used)
        self._failed = {p: t for p, t in self._failed.items() if now - t < self._forget_s}
        if not self._missed:
            self._in_vain = 0
        known = self._estimate.measured
        self._estimate.observe(snapshot)
        if disturbed:
            self._settling = _SETTLING
        if self.plan is not None and not known and self._estimate.measured:
            self._settling = self._correcting = _SETTLING
        for name, counts in self._counts.items():
            if counts:
                counts.append(self.parallelism.get(name, 0))
        case = self._case(now, snapshot, self.parallelism)
        return self._noted(self._decide(case), case)

    def adopt(self, parallelism: Mapping[str, int]) -> Decision:
        """Plan for a number of tasks that was decided elsewhere, regardless of the cooldown.

        Tasks keep their workers, also those that are missing for some cycles: plans are made for
        the largest number of the last 20 to 40 cycles, and their current tasks are requested. With
        ``hysteresis=0`` the policy is asked for the current tasks alone. The cooldown goes on.

        Args:
            parallelism: instances of operators; a missing operator keeps its parallelism.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        changed_s, first = self._changed_s, self.plan is None
        snapshot = self._history.completed(self._monitor.snapshot())
        for name, count in parallelism.items():
            self._counts[name].append(count)
        wanted = self.parallelism | dict(parallelism)
        case = self._case(self._clock(), snapshot, wanted)
        reason = ", ".join(f"{name} has {count}" for name, count in sorted(parallelism.items()))
        one = case.literal() if first or not self._hysteresis else case.repaired(reason)
        decision = self._request("place", reason, one, case, wanted)
        if not first:
            self._changed_s = changed_s
        return self._noted(decision, case)

    def observe(self, receipt: Receipt) -> None:
        """Record where tasks run, for actuators that observe it only after :meth:`step`.

        A failed placement is not requested again for ``forget_s``; :attr:`plan` has the actual
        worker. Tasks on a worker that is missing at the moment are left to its repair.
        """
        missing = self._history.missing
        there = {task: at for task, at in receipt.requested.items() if at not in missing}
        landed = {task: at for task, at in receipt.landed.items() if task in there}
        receipt = Receipt(there, landed, receipt.unplaced)
        self._failed |= dict.fromkeys(receipt.missed.items(), self._clock())
        if self.plan is not None and receipt.missed:
            self._settle(self.plan, receipt)

    def largest(self, name: str, count: int) -> int:
        """How many instances of an operator with ``count`` plans are made for: the most of late."""
        return max([count, *self._counts[name]]) if self._hysteresis else count

    def _decide(self, case: Case) -> Decision:
        if case.previous is None:
            return self._request("place", "the first plan", case.literal(), case)
        if gone := sorted(set(case.previous.by_worker) - set(case.snapshot.by_id)):
            reason = f"gone: {', '.join(gone)}"
            one = case.repaired(reason) if self._hysteresis else case.literal()
            return self._request("repair", reason, one, case)
        can = self._actuator.capabilities()
        if not can & {"place", "move"}:
            return _none(case, "tasks are placed elsewhere")
        if self._hysteresis:
            return self._better(case, can)
        one = case.literal()
        if one.placement == case.present and not one.moves:
            return _none(case, f"{one.by} is the present plan", dropped=one.dropped)
        return self._request("place", one.by, one, case)

    def _better(self, case: Case, can: frozenset[str]) -> Decision:
        """A change to a placement that costs less than the present one, if there is any."""
        before, answer = case.before, case.answer()
        since, doubled = self._changed_s - case.now, 2 ** min(self._in_vain, _DOUBLED)
        left, longer = since + self._cooldown_s, since + self._cooldown_s * doubled
        waits = max(left, 0.0) if before.unplaced else longer
        if waits > 0 and (self._in_vain or not self._correcting):
            return _none(case, f"kept: cooldown, {waits:.3g} s left", before)
        moves = case.moves(case.present) if "move" in can else ()
        found = case.proposals(answer, moves)
        self._settling, self._correcting = max(0, self._settling - 1), max(0, self._correcting - 1)
        best = case.best(found)
        more = before.unplaced - best.cost.unplaced
        if more > 0 and (longer <= 0 or not best.placement.items() & case.failed.keys()):
            return self._request("place", f"{more} more fit", best, case)
        one = best
        if case.spread and not case.pays(best):
            one = case.moved(moves, answer, "spread") or best
        if case.pays(one):
            reason = one.why(before, case.objective.horizon_s)
            return self._request("move" if one.moves else "place", reason, one, case)
        with_all = case.moved(moves, answer, "all")
        if with_all and case.pays(with_all):
            parts = tuple(move for move in with_all.moves if move.part < 1)
            named = f"by splitting {split_names(parts)}, which cannot be done here"
            return _none(case, f"kept: nothing to gain but {named}", before, parts)
        return _none(case, case.why_kept(found), before)

    def _request(
        self, action: Action, reason: str, one: Proposal, case: Case, counts: Counts | None = None
    ) -> Decision:
        """Let the actuator apply a placement, and take note of where it landed."""
        self._changed_s = case.now
        plan = case.plan(one)
        changed = {t: w for t, w in plan.placement.items() if case.present.get(t) != w}
        try:
            receipt = self._actuator.apply(plan)
        except ActuatorError as error:
            self._failed |= dict.fromkeys(changed.items(), case.now)
            return Decision(case.now, "failed", f"{action}, {reason}: {error}", plan)
        self._failed |= dict.fromkeys(receipt.missed.items(), case.now)
        self.parallelism = dict(counts or self.parallelism)
        take_parts(plan, case.current, self._estimate)
        self._workers |= one.placement
        self._moved, self._missed = changed.keys(), False
        self._settle(plan, receipt)
        return Decision(case.now, action, reason, plan, receipt, one.cost, dropped=one.dropped)

    def _settle(self, plan: Plan, receipt: Receipt) -> None:
        """The plan as observed: tasks on their actual workers; those that run nowhere unplaced."""
        missed = receipt.missed.keys() & self._moved
        if 2 * len(missed) > len(self._moved) and not self._missed:
            self._in_vain, self._missed = self._in_vain + 1, True
        self.plan = observed(plan, receipt)
        self._workers |= self.plan.placement | {one.task: "" for one in self.plan.unplaced}

    def _case(self, now: float, snapshot: Snapshot, counts: Mapping[str, int]) -> Case:
        largest = {name: self.largest(name, count) for name, count in counts.items()}
        current = self._graph_of(counts)
        self._estimate.resize(current)
        graph = current if largest == counts else self._graph_of(largest)
        last = {task: self._workers.get(task, "") for task in graph.by_id}
        present = {task: worker for task, worker in last.items() if worker in snapshot.by_id}
        least = self._hysteresis, f"hysteresis {percent(self._hysteresis)}"
        if self._settling:
            least = min(least, (_SMALL, percent(_SMALL)))
        can = self._actuator.capabilities()
        of = self._estimate, "executors" in can, "spread" in can, dict(self._failed)
        return Case(*self._asked, now, graph, current, snapshot, present, *of, self.plan, least)

    def _noted(self, decision: Decision, case: Case) -> Decision:
        """The decision with the idle workers, added to the history."""
        if self.plan is not None:
            few = len(self.plan.assignments) < len(case.snapshot.workers)
            why = "there are fewer tasks than workers" if few else "no task has to run there"
            names = sorted(case.snapshot.by_id.keys() - self.plan.by_worker.keys())
            idle = dict.fromkeys(names, "released" if case.release else f"kept, {why}")
            decision = dataclasses.replace(decision, idle=idle)
        self._decisions.append(decision)
        return decision


def _none(
    case: Case, reason: str, cost: PlacementCost | None = None, dropped: tuple[Move, ...] = ()
) -> Decision:
    return Decision(case.now, "none", reason, cost=cost, dropped=dropped)
