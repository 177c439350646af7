"""Observations: a cluster at a moment, an operator in a window of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.errors import ArgumentError
from scheduling.model.checks import number, unique
from scheduling.model.cluster import Resources, Worker

__all__ = ["Reserved", "Snapshot", "Utilisation", "Window"]

_NOTHING = Resources(0.0, 0.0)


@dataclass(frozen=True)
class Utilisation:
    """The shares of CPU and memory in use (Eqs. 26 and 27).

    Args:
        cpu: the share of the CPU in use, in [0, 1].
        memory: the share of the memory in use, in [0, 1]; default 0.

    Raises:
        ArgumentError: a share is not in [0, 1].
    """

    cpu: float
    memory: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(
                    f"{name}={getattr(self, name)!r}: give the share in use, in [0, 1]"
                )


@dataclass(frozen=True)
class Reserved:
    """The part of a worker that other jobs and services use; not available to this job.

    Args:
        slots: used slots; default 0.
        resources: used CPU, memory and disk; default none.

    Raises:
        ArgumentError: the number of slots is negative.
    """

    slots: int = 0
    resources: Resources = _NOTHING

    def __post_init__(self) -> None:
        if self.slots < 0 or self.slots != int(self.slots):
            raise ArgumentError(f"slots={self.slots!r} reserved: give 0, 1, 2, ...")
        number("disk_mb reserved", self.resources.disk_mb)


_NO_ONE = Reserved()


@dataclass(frozen=True)
class Snapshot:
    """The state of a cluster at one moment. Mappings contain only what was measured.

    Args:
        time_s: the time on the controller's clock.
        workers: the available workers, with unique ids.
        utilisation: per worker, over the last period; all mappings are empty by default.
        tuples: per worker, the tuples processed in the period (Eq. 22).
        cost: per worker, the $ spent in the period (Eq. 22).
        busyness: per worker, B of Eq. 23 in [0, 1]; :func:`scheduling.busyness` computes it.
        backlog: per operator, the waiting tuples.
        placement: per task, the worker on which it runs.
        usage: per task, its measured resources; its demand if missing.
        reserved: per worker, the part that others use. It counts towards delta, which limits the
            total load of a worker. It does not include the tasks of this job.

    >>> Snapshot(0.0, (Worker("w", Resources(4, 8192), 4),)).has_history
    False
    """

    time_s: float
    workers: tuple[Worker, ...]
    utilisation: Mapping[str, Utilisation] = field(default_factory=dict)
    tuples: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    busyness: Mapping[str, float] = field(default_factory=dict)
    backlog: Mapping[str, float] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Resources] = field(default_factory=dict)
    reserved: Mapping[str, Reserved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", tuple(self.workers))
        unique("worker", (worker.id for worker in self.workers))

    @cached_property
    def by_id(self) -> dict[str, Worker]:
        """The workers by their ids."""
        return {worker.id: worker for worker in self.workers}

    @cached_property
    def free(self) -> dict[str, Resources]:
        """Per worker, delta times its capacity minus the reserved part, at least 0 of each.

        >>> worker = Worker("w", Resources(4, 8192), 4, delta=0.5)
        >>> Snapshot(0.0, (worker,), reserved={"w": Reserved(1, Resources(1, 6000))}).free["w"]
        Resources(cpu_cores=1.0, memory_mb=0.0, disk_mb=0.0)
        """
        found = {}
        for worker in self.workers:
            limit = worker.usable
            if worker.id in self.reserved:
                taken = self.reserved[worker.id].resources
                limit = Resources(
                    max(limit.cpu_cores - taken.cpu_cores, 0.0),
                    max(limit.memory_mb - taken.memory_mb, 0.0),
                    max(limit.disk_mb - taken.disk_mb, 0.0),
                )
            found[worker.id] = limit
        return found

    @cached_property
    def free_slots(self) -> dict[str, int]:
        """Per worker, its slots minus the reserved ones."""
        return {
            worker.id: max(worker.slots - self.reserved.get(worker.id, _NO_ONE).slots, 0)
            for worker in self.workers
        }

    @property
    def has_history(self) -> bool:
        """Whether any worker has processed a tuple, so that CE (Eq. 22) is defined."""
        return any(count > 0 for count in self.tuples.values())


@dataclass(frozen=True)
class Window:
    """The metrics of one operator in one window of time: the input of a scaler.

    Args:
        length_s: the length of the window in seconds.
        tuples_in: input tuples.
        tuples_done: processed tuples.
        latency_s: the processing time of one tuple on one instance in seconds; an instance
            processes 1/``latency_s`` tuples per second.
        parallelism: the number of instances.
        buffered: waiting tuples at the start of the window; default 0.
        busy_s: the processing time of all instances together in seconds (DS2's useful time);
            default 0.
        lost: tuples that did not fit into the buffer; default 0.

    Raises:
        ArgumentError: a number is out of its range.
    """

    length_s: float
    tuples_in: float
    tuples_done: float
    latency_s: float
    parallelism: int
    buffered: float = 0.0
    busy_s: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        number("length_s", self.length_s, above=True)
        number("latency_s", self.latency_s, above=True)
        for name in ("tuples_in", "tuples_done", "buffered", "busy_s", "lost"):
            number(name, getattr(self, name))
        if self.parallelism < 1:
            raise ArgumentError(f"parallelism={self.parallelism!r}: give 1 or more")
