"""What an objective adds up: the prices and speeds of workers, the loads and bytes of tasks."""

from __future__ import annotations

from scheduling.model import JobGraph, Snapshot, Task, Worker

__all__ = ["LEAST_CORES", "bytes_to_load", "cpu_loads", "is_preferred", "prices", "speeds"]

LEAST_CORES = 0.01
"""The cores of a worker that has none and still runs a task."""


def prices(snapshot: Snapshot) -> list[float]:
    """The price of each worker in $/s, in their order; 1 for all where none has a price.

    >>> from scheduling.model import Resources
    >>> free = tuple(Worker(name, Resources(4, 8192), 4, 0.0) for name in "ab")
    >>> prices(Snapshot(0.0, free))
    [1.0, 1.0]
    """
    found = [worker.price_per_s for worker in snapshot.workers]
    return found if any(found) else [1.0] * len(found)


def cpu_loads(graph: JobGraph, snapshot: Snapshot) -> dict[str, float]:
    """The CPU cores that each task uses, as measured, else as demanded; 1 if none has any.

    >>> from scheduling.model import Resources
    >>> graph = JobGraph((Task("t0", "t", 0, Resources(0, 0)), Task("t1", "t", 1, Resources(0, 0))))
    >>> cpu_loads(graph, Snapshot(0.0, ()))
    {'t0': 1.0, 't1': 1.0}
    """
    usage = snapshot.usage
    found = {task.id: usage.get(task.id, task.demand).cpu_cores for task in graph.tasks}
    return found if any(found.values()) else dict.fromkeys(found, 1.0)


def bytes_to_load(task: Task, host: str) -> float:
    """The bytes that a task loads when it moves to a worker of a host.

    >>> from scheduling.model import Resources
    >>> task = Task("t", "t", 0, Resources(1, 1), state_bytes=5.0, cached={"a": 9.0, "b": 3.0})
    >>> [bytes_to_load(task, host) for host in "abc"]
    [5.0, 11.0, 14.0]
    """
    if not task.cached:
        return task.state_bytes
    return task.state_bytes + max(task.cached.values()) - task.cached.get(host, 0.0)


def is_preferred(task: Task, worker: Worker) -> bool:
    """Whether a worker, or its host, stores the data of a task."""
    return worker.id in task.preferred or worker.host in task.preferred


def speeds(snapshot: Snapshot) -> dict[str, float]:
    """Per worker, the cores that others leave for this job; 0 where no task can run.

    >>> from scheduling.model import Reserved, Resources
    >>> taken = {"a": Reserved(0, Resources(1, 0)), "b": Reserved(4)}
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4) for name in "abc")
    >>> speeds(Snapshot(0.0, workers, reserved=taken))
    {'a': 3.0, 'b': 0.0, 'c': 4.0}
    """
    left = {worker.id: worker.capacity.cpu_cores for worker in snapshot.workers}
    for name, taken in snapshot.reserved.items():
        left[name] = left.get(name, 0.0) - taken.resources.cpu_cores
    slots = snapshot.free_slots
    return {name: max(float(left[name]), 0.0) if slots[name] else 0.0 for name in snapshot.by_id}
