"""What was seen: a cluster at a moment, an operator over a window of time."""

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
    """The shares of CPU and memory in use (Eqs. 26 and 27), each in [0, 1]."""

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
    """What others take of a worker: other jobs, services; no task of this job may have it.

    Args:
        slots: slots that are taken.
        resources: cores, MB of memory, MB of disk that are taken.
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
    """What is known of a cluster at one moment. Mappings lack what was not measured.

    Args:
        time_s: when, on the controller's clock.
        workers: the workers that are there, each with an id of its own.
        utilisation: by worker, over the last period.
        tuples: by worker, tuples processed in the period (Eq. 22).
        cost: by worker, $ spent in the period (Eq. 22).
        busyness: by worker, B of Eq. 23 in [0, 1]; :func:`scheduling.busyness` computes it.
        backlog: by operator, tuples that wait.
        placement: by task, the worker that it runs on.
        usage: by task, what it takes as measured; its demand where it is missing.
        reserved: by worker, what others take of it. It counts towards delta, since delta is
            about the worker, whoever loads it. The tasks that this graph places are none of it.

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
        """By worker, delta times its capacity less what others take: at least 0 of each.

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
        """By worker, its slots less those that others take."""
        return {
            worker.id: max(worker.slots - self.reserved.get(worker.id, _NO_ONE).slots, 0)
            for worker in self.workers
        }

    @property
    def has_history(self) -> bool:
        """Whether any worker has processed a tuple: CE (Eq. 22) can be told."""
        return any(count > 0 for count in self.tuples.values())


@dataclass(frozen=True)
class Window:
    """What one operator did in one window of time: the input of a scaler.

    Args:
        length_s: length of the window.
        tuples_in: tuples that came in.
        tuples_done: tuples that were processed.
        latency_s: processing time of one tuple on one instance; the rate of an instance is 1/it.
        parallelism: instances that ran.
        buffered: tuples that waited when the window began.
        busy_s: time that all instances together spent on tuples; DS2's useful time.
        lost: tuples that did not fit the buffer.
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
