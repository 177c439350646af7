"""The room that workers have left while tasks are placed, and the plan that comes of it."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedList

from scheduling.cost import rent_per_s
from scheduling.errors import InfeasibleError
from scheduling.model import Assignment, JobGraph, Plan, Resources, Snapshot, Task, Unplaced
from scheduling.model.checks import unchecked

_SLACK = 5e-10  # sums in another order still fit


def room_of(snapshot: Snapshot) -> NDArray[np.float64]:
    """Return what is free of each worker (row): slots, cores, MB of memory and disk; rounded up."""
    slots = snapshot.free_slots
    rows = [(slots[name], *free) for name, free in snapshot.free.items()]
    room = np.array(rows, float).reshape(-1, 4)
    room[:, 1:] = room[:, 1:] * (1 + _SLACK) + _SLACK
    return room


def have_room(free: NDArray[np.float64], need: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell the workers (rows of ``free``) with room for a task; ``all(axis=1)`` is slower."""
    slots, cores, memory, disk = (free >= need).T
    found: NDArray[np.bool_] = slots & cores & memory & disk
    return found


class Room:
    """Free slots and resources of the workers of a snapshot, by their positions in it.

    ``open`` are the workers that can take any task still, in order; ``at`` has the placed tasks.
    """

    def __init__(self, graph: JobGraph, snapshot: Snapshot) -> None:
        _feasible(graph, snapshot)
        self.workers = snapshot.workers
        self.free: list[list[float]] = room_of(snapshot).tolist()
        self.at: dict[str, int] = {}
        self._graph, self._snapshot = graph, snapshot
        self._reasons: dict[str, str] = {}  # of placed tasks, and of those that were left
        self._least_cores, self._least_mb = graph.needs[:, 1:3].min(0, initial=np.inf).tolist()
        some = (i for i, free in enumerate(self.free) if self._takes_any(free))
        self.open: SortedList[int] = SortedList(some)

    def _takes_any(self, free: list[float]) -> bool:
        return free[0] >= 1 and free[1] >= self._least_cores and free[2] >= self._least_mb

    def fits(self, task: Task, i: int) -> bool:
        """Whether worker ``i`` has a slot and the resources free."""
        need, free = task.demand, self.free[i]
        sized = need.memory_mb <= free[2] and need.disk_mb <= free[3]
        return free[0] > 0 and need.cpu_cores <= free[1] and sized

    def place(self, task: Task, i: int, reason: str) -> None:
        """Give a task to worker ``i``, which must have room."""
        self._book(task.demand, i, -1)
        self.at[task.id] = i
        self._reasons[task.id] = reason

    def release(self, task: Task) -> None:
        """Undo a placement."""
        self._book(task.demand, self.at.pop(task.id), 1)
        del self._reasons[task.id]

    def _book(self, need: Resources, i: int, sign: int) -> None:
        free = self.free[i]
        free[0] += sign
        free[1] += sign * need.cpu_cores
        free[2] += sign * need.memory_mb
        if need.disk_mb:
            free[3] += sign * need.disk_mb
        if (takes := self._takes_any(free)) != (i in self.open):
            (self.open.add if takes else self.open.remove)(i)

    def first(self, task: Task, order: Iterable[int], why: Callable[[int, int], str]) -> bool:
        """Place a task on the first worker with room, if any; ``why`` of how many had none."""
        for passed, i in enumerate(order):
            if self.fits(task, i):
                self.place(task, i, why(passed, i))
                return True
        return False

    def leave(self, task: Task, reason: str) -> None:
        """List a task as having no room now, for a reason of the policy's own."""
        self._reasons[task.id] = reason

    def plan(self, policy: str, fallback: str = "") -> Plan:
        """The plan; what was not placed is unplaced; the score is the rent in $/s."""
        at, why = {task: self.workers[i].id for task, i in self.at.items()}, self._reasons
        left = [task for task in self._graph.tasks if task.id not in at]
        return Plan(
            tuple(unchecked(Assignment, task=t, worker=w, reason=why[t]) for t, w in at.items()),
            tuple(Unplaced(task.id, why.get(task.id) or self._why(task)) for task in left),
            rent_per_s(at, self._snapshot),
            policy=policy,
            fallback=fallback,
        )

    def _why(self, task: Task) -> str:
        """Why a task has no room now."""
        if not any(worker.slots for worker in self.workers):
            return "there is no worker with a slot"
        if not any(free[0] for free in self.free):
            every = sum(worker.slots for worker in self.workers)
            others = every - sum(self._snapshot.free_slots.values())
            return f"all {every} slots are taken" + (f", {others} by others" if others else "")
        return f"no worker with a free slot has {task.demand} left below delta"


def _feasible(graph: JobGraph, snapshot: Snapshot) -> None:
    needs = graph.needs[:, 1:]
    large = np.full(len(needs), bool(snapshot.workers))
    for one in {worker.usable for worker in snapshot.workers} if large.size else ():
        large &= (needs > np.array([*one]) * (1 + 2 * _SLACK) + 2 * _SLACK).any(axis=1)
    for t in np.flatnonzero(large)[:1].tolist():
        task = graph.tasks[t]
        most = max(snapshot.workers, key=lambda worker: tuple(worker.usable)[:2])
        raise InfeasibleError(
            f"task {task.id!r} needs {task.demand}; the largest worker, {most.id!r}, has "
            f"{most.capacity}, of which {most.delta:.0%} (delta) may be taken. "
            "Split the task into more partitions, or add a larger worker"
        )
