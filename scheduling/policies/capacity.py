"""What policies keep while they place tasks: free capacity, assignments, reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduling.cost import rent_per_s
from scheduling.errors import InfeasibleError
from scheduling.model import Assignment, JobGraph, Plan, Resources, Snapshot, Task, Unplaced, Worker

__all__ = ["CapacityLedger", "FreeCapacity", "free_of", "largest", "ledger_of"]

# Half of what Plan._check allows: sums in another order still pass it.
_SLACK = 5e-10


def free_of(snapshot: Snapshot) -> tuple[list[int], list[float], list[float], list[float]]:
    """What may be taken of each worker: slots, cores, MB of memory, MB of disk.

    It is a little more than what is free, so that sums may be rounded.
    """

    def limit(free: float) -> float:
        return free * (1 + _SLACK) + _SLACK

    free = [snapshot.free[worker.id] for worker in snapshot.workers]
    return (
        [snapshot.free_slots[worker.id] for worker in snapshot.workers],
        [limit(one.cpu_cores) for one in free],
        [limit(one.memory_mb) for one in free],
        [limit(one.disk_mb) for one in free],
    )


def largest(workers: Iterable[Worker]) -> Worker:
    """The worker with the most usable CPU, then memory."""
    return max(workers, key=lambda worker: (worker.usable.cpu_cores, worker.usable.memory_mb))


class FreeCapacity:
    """Free slots and free resources of workers, by their positions.

    Args:
        slots, cpu, memory, disk: one entry per worker, as :func:`free_of` returns them.
    """

    def __init__(
        self,
        slots: Sequence[int],
        cpu: Sequence[float],
        memory: Sequence[float],
        disk: Sequence[float],
    ) -> None:
        self.slots, self.cpu, self.memory, self.disk = [*slots], [*cpu], [*memory], [*disk]

    def fits(self, task: Task, i: int) -> bool:
        """Whether worker ``i`` has a slot and the resources free."""
        demand = task.demand
        return (
            self.slots[i] > 0
            and demand.cpu_cores <= self.cpu[i]
            and demand.memory_mb <= self.memory[i]
            and demand.disk_mb <= self.disk[i]
        )

    def _book(self, demand: Resources, i: int, sign: int) -> None:
        self.slots[i] -= sign
        self.cpu[i] -= sign * demand.cpu_cores
        self.memory[i] -= sign * demand.memory_mb
        if demand.disk_mb:
            self.disk[i] -= sign * demand.disk_mb


class CapacityLedger(FreeCapacity):
    """Free slots and free resources of the workers of a snapshot, by their positions in it.

    Made at the start of a plan; it refuses tasks that could never fit, were others' tasks gone.
    What others take (``snapshot.reserved``) is not free. Every method but
    :meth:`plan` is O(1).

    Args:
        graph: what is to be placed.
        snapshot: the workers.

    Raises:
        InfeasibleError: a task is larger than delta times any worker's capacity.
    """

    def __init__(self, graph: JobGraph, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.workers = snapshot.workers
        super().__init__(*free_of(snapshot))
        self.at: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._unplaced: dict[str, str] = {}
        self._tasks = graph.by_id
        _feasible(graph, self.workers)

    def place(self, task: Task, i: int, reason: str) -> None:
        """Give a task to worker ``i``, which must have room."""
        self._book(task.demand, i, 1)
        self.at[task.id] = i
        self._reasons[task.id] = reason

    def release(self, task: Task) -> None:
        """Undo a placement."""
        self._book(task.demand, self.at.pop(task.id), -1)
        del self._reasons[task.id]

    def leave(self, task: Task, reason: str = "") -> None:
        """List a task as having no room now."""
        self._unplaced[task.id] = reason or self.why(task)

    def why(self, task: Task) -> str:
        """Why a task has no room now."""
        if not any(worker.slots for worker in self.workers):
            return "there is no worker with a slot"
        if not any(self.slots):
            every = sum(worker.slots for worker in self.workers)
            others = every - sum(self._snapshot.free_slots.values())
            return f"all {every} slots are taken" + (f", {others} by others" if others else "")
        demand = task.demand
        return (
            f"no worker with a free slot has {demand.cpu_cores:g} cores and "
            f"{demand.memory_mb:g} MB left below delta"
        )

    def plan(self, policy: str, score: float | None = None) -> Plan:
        """The plan; tasks that were neither placed nor left are listed as unplaced."""
        names = [worker.id for worker in self.workers]
        assignments = tuple(
            Assignment(task, names[i], self._reasons[task]) for task, i in self.at.items()
        )
        for task in self._tasks.values():
            if task.id not in self.at and task.id not in self._unplaced:
                self.leave(task)
        unplaced = tuple(Unplaced(task, reason) for task, reason in self._unplaced.items())
        if score is None:
            score = rent_per_s({task: names[i] for task, i in self.at.items()}, self._snapshot)
        return Plan(assignments, unplaced, score, 0.0, policy)


def ledger_of(placement: Mapping[str, str], graph: JobGraph, snapshot: Snapshot) -> CapacityLedger:
    """A ledger with tasks placed; those on workers that are gone are left out.

    Raises:
        InfeasibleError: a task is larger than delta times any worker's capacity.
    """
    ledger = CapacityLedger(graph, snapshot)
    at = {worker.id: i for i, worker in enumerate(snapshot.workers)}
    for task, worker in placement.items():
        if task in graph.by_id and worker in at:
            ledger.place(graph.by_id[task], at[worker], "")
    return ledger


def _feasible(graph: JobGraph, workers: tuple[Worker, ...]) -> None:
    if not workers:
        return
    sizes = {worker.usable: worker for worker in workers}
    seen: set[Resources] = set()
    for task in graph.tasks:
        if task.demand in seen:
            continue
        seen.add(task.demand)
        if not any(task.demand.within(usable) for usable in sizes):
            most = largest(workers)
            raise InfeasibleError(
                f"task {task.id!r} needs {_shown(task.demand)}; the largest worker, {most.id!r}, "
                f"has {_shown(most.capacity)}, of which {most.delta:.0%} (delta) may be taken. "
                "Split the task into more partitions, or add a larger worker"
            )


def _shown(resources: Resources) -> str:
    disk = f" and {resources.disk_mb:g} MB of disk" if resources.disk_mb else ""
    return f"{resources.cpu_cores:g} cores, {resources.memory_mb:g} MB{disk}"
