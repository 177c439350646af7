"""Workers, their resources, and what is observed of them at a moment."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from scheduling.errors import ArgumentError
from scheduling.model import checks
from scheduling.model.checks import AnyText, Checked, Endless, Finite, Positive, Share, SomeShare

# Sums of demands are compared with thresholds: a tolerance for rounding of some thousand terms.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Resources(Checked):
    """CPU, memory and disk: the capacity of a worker, or the demand of a task.

    Args:
        cpu_cores: CPU cores, also fractions.
        memory_mb: memory in MB.
        disk_mb: disk in MB, ``math.inf`` for an unlimited one; default 0.
    """

    cpu_cores: float
    memory_mb: float
    disk_mb: Endless = 0.0

    def __iter__(self) -> Iterator[float]:
        yield from (self.cpu_cores, self.memory_mb, self.disk_mb)

    def __add__(self, other: Self) -> Self:
        return type(self)(*(a + b for a, b in zip(self, other, strict=True)))

    def __mul__(self, factor: float) -> Self:
        return type(self)(*(one * factor for one in self))

    def __str__(self) -> str:
        disk = f" and {self.disk_mb:g} MB of disk" if 0 < self.disk_mb < math.inf else ""
        return f"{self.cpu_cores:g} cores, {self.memory_mb:g} MB{disk}"

    def less(self, taken: Self) -> Self:
        """The rest of these, at least 0 of each."""
        return type(self)(*(max(a - b, 0.0) for a, b in zip(self, taken, strict=True)))

    def within(self, limit: Self) -> bool:
        """Whether each of the three is at most the limit's, up to rounding (Eqs. 1-4, 18-19)."""
        pairs = zip(self, limit, strict=True)
        return all(one <= most * (1 + _ROUNDING) + _ROUNDING for one, most in pairs)


@dataclass(frozen=True)
class DataNode(Checked):
    """A host that stores data and runs no worker.

    Args:
        host: its name.
        bandwidth_bytes_per_s: of its network; default 125e6 (1 Gbit/s).
        latency_s: of its network, one way, in seconds; default 1 ms.
    """

    host: str
    bandwidth_bytes_per_s: Positive = 125e6
    latency_s: float = 0.001
    _of: ClassVar[str] = " of data node {host!r}"


@dataclass(frozen=True)
class Worker(Checked):
    """A worker that runs tasks: an executor of Spark, or a cloud host.

    Args:
        id: its name, unique in a cluster.
        capacity: its resources for tasks.
        slots: the number of concurrent tasks.
        price_per_s: its price in $/s; default 1 for all workers.
        host: its machine, in which no network is between tasks. Default: the id.
        executor_id: Spark's id of the executor; None (default) if it is not an executor.
        tier: the name of its kind, for example m, l, xl; default empty.
        bandwidth_bytes_per_s: of its network; default 125e6 (1 Gbit/s).
        latency_s: of its network, one way, in seconds; default 1 ms.
        delta: the share of the capacity that tasks may use (CETSA and LBA-CE, Eq. 17); default 0.8.
    """

    id: str
    capacity: Resources
    slots: int
    price_per_s: float = 1.0
    host: AnyText = ""
    executor_id: str | None = None
    tier: AnyText = ""
    bandwidth_bytes_per_s: Positive = 125e6
    latency_s: float = 0.001
    delta: SomeShare = 0.8
    _of: ClassVar[str] = " of worker {id!r}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.host:
            object.__setattr__(self, "host", self.id)

    @cached_property
    def usable(self) -> Resources:
        """The capacity times delta: RTH of Eq. 17."""
        return self.capacity * self.delta


@dataclass(frozen=True)
class Utilisation(Checked):
    """The resources in use (Eqs. 26 and 27).

    Args:
        cpu: the share of the CPU.
        memory: the share of the memory; default 0.
    """

    cpu: Share
    memory: Share = 0.0


@dataclass(frozen=True)
class Reserved(Checked):
    """The part of a worker that other jobs and services use; not available to this job.

    Args:
        slots: used slots; default 0.
        resources: used CPU, memory and disk; default none.
    """

    slots: int = 0
    resources: Resources = Resources(0.0, 0.0)
    _of: ClassVar[str] = " reserved"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("disk_mb", self.resources.disk_mb, self._of)


_NO_ONE = Reserved()


@dataclass(frozen=True)
class Snapshot(Checked):
    """The state of a cluster at one moment. Mappings contain only what was measured, default none.

    A measured value that is none (NaN, infinite, negative, of another kind) is left out, and named
    in ``ignored``.

    Args:
        time_s: the time on the controller's clock.
        workers: the available workers, with unique ids.
        utilisation: per worker, over the last period.
        tuples: per worker, the tuples processed in the period (Eq. 22).
        cost: per worker, the $ spent in the period (Eq. 22).
        busyness: per worker, B of Eq. 23 in [0, 1]; :func:`scheduling.busyness` computes it.
        placement: per task, the worker on which it runs.
        usage: per task, its measured resources; its demand if missing.
        reserved: per worker, what others than the tasks of this job use; delta includes it.
        ignored: per worker or task, what was left out, and why; more is added here.

    Raises:
        ArgumentError: a worker is there twice, or something is of another kind.

    >>> workers = (Worker("w", Resources(4, 8192), 4),)
    >>> Snapshot(0.0, workers, tuples={"w": 9}, cost={"w": float("nan")}).ignored
    {'w': 'cost nan is no number of at least 0'}
    """

    time_s: Finite
    workers: tuple[Worker, ...]
    utilisation: Mapping[str, Utilisation] = field(default_factory=dict)
    tuples: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    busyness: Mapping[str, float] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Resources] = field(default_factory=dict)
    reserved: Mapping[str, Reserved] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.unique("worker", (worker.id for worker in self.workers))
        for worker, taken in self.reserved.items():
            checks.instance(Reserved)(f"reserved[{checks.text('a worker id', worker)!r}]", taken)
        ignored = dict(self.ignored)
        for name, (rule, what) in _MEASURED.items():
            good: dict[str, Any] = {}
            for key, value in getattr(self, name).items():
                try:
                    good[key] = rule(name, value)
                except ArgumentError:
                    before = f"{ignored[key]}; " if key in ignored else ""
                    ignored[key] = f"{before}{name} {value!r} is no {what}"
            object.__setattr__(self, name, good)
        object.__setattr__(self, "ignored", ignored)

    @cached_property
    def by_id(self) -> dict[str, Worker]:
        """The workers by their ids."""
        return {worker.id: worker for worker in self.workers}

    def taken(self, worker: str) -> Reserved:
        """The resources of a ``worker`` that others than the tasks of this job use."""
        return self.reserved.get(worker, _NO_ONE)

    @cached_property
    def free(self) -> dict[str, Resources]:
        """Per worker, delta times its capacity minus the reserved part, at least 0 of each."""
        return {one.id: one.usable.less(self.taken(one.id).resources) for one in self.workers}

    @cached_property
    def free_slots(self) -> dict[str, int]:
        """Per worker, its slots minus the reserved ones."""
        return {one.id: max(one.slots - self.taken(one.id).slots, 0) for one in self.workers}


_NUMBER = (checks.number, "number of at least 0")
_MEASURED: dict[str, tuple[checks.Rule, str]] = {
    "utilisation": (checks.instance(Utilisation), "Utilisation"),
    "tuples": _NUMBER,
    "cost": _NUMBER,
    "busyness": (checks.share, "share in [0, 1]"),
    "placement": (checks.text, "worker's id"),
    "usage": (checks.instance(Resources), "Resources"),
}
