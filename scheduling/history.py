"""The memory of a controller: decisions, loads and workers of tasks, and what is missing now.

One look may miss an executor: a worker with tasks is lost when it is missed twice.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from scheduling.model import Assignment, JobGraph, Move, Plan, Receipt, Snapshot, Unplaced
from scheduling.objective import PlacementCost

_KEEP = 0.5  # the weight of the past in a load: half of a step is seen after one cycle
_OF_WORKERS = ("utilisation", "tuples", "cost", "busyness", "reserved")

Action = Literal["place", "repair", "move", "none", "failed"]


@dataclass(frozen=True)
class Decision:
    """The action of one step, and its reason.

    Args:
        time_s: when, on the controller's clock.
        action: ``"place"`` (the first or another plan), ``"repair"`` (workers are lost),
            ``"move"`` (the rebalancer's moves), ``"none"``, or ``"failed"`` (of the actuator).
        reason: why, in words; of ``"none"`` why the policy's answer was not taken.
        plan: the requested plan; None (default) for no request.
        receipt: where the tasks run, as observed; None (default) for no request.
        cost: what the placement costs over the horizon; None (default) if it was not computed.
        idle: the workers without a task, and whether they are released or kept, and why.
        dropped: the moves of parts of tasks that would pay, and that the actuator cannot make.
    """

    time_s: float
    action: Action
    reason: str
    plan: Plan | None = None
    receipt: Receipt | None = None
    cost: PlacementCost | None = None
    idle: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[Move, ...] = ()


class LoadEstimate:
    """Exponentially weighted means and variances of the CPU cores that tasks use."""

    def __init__(self) -> None:
        self._mean: dict[str, float] = {}
        self._variance: dict[str, float] = {}
        self._counts: dict[str, int] = {}  # of the tasks of its operator, when that was so
        self.measured = False
        """Whether the usage of any task is known."""

    def observe(self, snapshot: Snapshot) -> None:
        """Take the usage of the tasks into account; what is no usage is left out."""
        for name, used in snapshot.usage.items():
            if 0 <= used.cpu_cores < math.inf:
                mean = self._mean.setdefault(name, used.cpu_cores)
                off, variance = used.cpu_cores - mean, self._variance.get(name, 0.0)
                self._mean[name] = mean + (1 - _KEEP) * off
                self.measured = True
                self._variance[name] = _KEEP * (variance + (1 - _KEEP) * off * off)

    def resize(self, graph: JobGraph) -> None:
        """Share the load of operators of which there is another number of tasks than before."""
        for tasks in graph.operators.values():
            for one in tasks:
                share = self._counts.get(one.id, len(tasks)) / len(tasks)
                self._counts[one.id] = len(tasks)
                if share != 1 and one.id in self._mean:
                    self._mean[one.id] *= share
                    self._variance[one.id] *= share * share

    def loads(self, graph: JobGraph) -> dict[str, float]:
        """The CPU cores of each task: as estimated, as demanded, as its operator's mean, or one."""
        found = {task.id: self._mean.get(task.id, task.demand.cpu_cores) for task in graph.tasks}
        for tasks in graph.operators.values():
            known = [found[task.id] for task in tasks if found[task.id] or task.id in self._mean]
            mean = math.fsum(known) / len(known) if known else 0.0
            found |= {t.id: mean for t in tasks if not found[t.id] and t.id not in self._mean}
        return found if any(found.values()) else dict.fromkeys(found, 1.0)

    def noise(self, placement: Mapping[str, str]) -> float:
        """The largest standard deviation of a worker's load, as a share of the highest load."""
        sums, variances = defaultdict[str, float](float), defaultdict[str, float](float)
        for name, worker in placement.items():
            sums[worker] += self._mean.get(name, 0.0)
            variances[worker] += self._variance.get(name, 0.0)
        highest = max(sums.values(), default=0.0)
        return math.sqrt(max(variances.values())) / highest if highest else 0.0

    def split(self, task: str, part: float, receivers: Sequence[str]) -> None:
        """Move a part of a task's load to other tasks, evenly; to none if there is none known."""
        if amount := self._mean.get(task, 0.0) * part:
            self._mean[task] -= amount
            known = [name for name in receivers if name in self._mean]
            for name in known:
                self._mean[name] += amount / len(known)


class History:
    """The last look at the workers, and those in use that it missed for the first time."""

    def __init__(self) -> None:
        self._seen: Snapshot | None = None
        self.missing: frozenset[str] = frozenset()  # workers with tasks, by the last look

    def look(self, snapshot: Snapshot, used: Collection[str]) -> tuple[Snapshot, bool]:
        """A snapshot with the workers in use that it misses first; whether workers came or went."""
        before, missing = self._seen or snapshot, frozenset(used).difference(snapshot.by_id)
        self._seen = _with(snapshot, before, missing - self.missing)
        self.missing = missing
        return self._seen, self._seen.by_id.keys() != before.by_id.keys()

    def completed(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot between two looks, with the workers that the last look has kept."""
        self._seen = self._seen or snapshot
        return _with(snapshot, self._seen, self.missing)


def _with(snapshot: Snapshot, before: Snapshot, names: frozenset[str]) -> Snapshot:
    """A snapshot with the workers of an earlier one that it lacks, in their order, and metrics."""
    names = names & before.by_id.keys() - snapshot.by_id.keys()
    if not names:
        return snapshot
    there = snapshot.by_id | {name: before.by_id[name] for name in names}
    ordered = [there.pop(name) for name in before.by_id if name in there]
    metrics: dict[str, Any] = {}
    for what in _OF_WORKERS:
        was = {name: one for name, one in getattr(before, what).items() if name in names}
        metrics[what] = {**getattr(snapshot, what), **was}
    return dataclasses.replace(snapshot, workers=(*ordered, *there.values()), **metrics)


def observed(plan: Plan, receipt: Receipt) -> Plan:
    """A plan with its tasks on their actual workers; those that run nowhere are unplaced."""
    placed, left = [], list(plan.unplaced)
    for one in plan.assignments:
        at = receipt.landed.get(one.task) if one.task in receipt.requested else one.worker
        if at is None:
            left.append(Unplaced(one.task, f"its placement on {one.worker} failed"))
        elif at == one.worker:
            placed.append(one)
        else:
            placed.append(Assignment(one.task, at, f"runs here, {one.worker} was requested"))
    return dataclasses.replace(plan, assignments=tuple(placed), unplaced=tuple(left))


def percent(share: float) -> str:
    """A share in words."""
    digits = ".0f" if share >= 0.1 else ".2g"
    return f"{100 * share:{digits}} %"
