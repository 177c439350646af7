"""Workers and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.errors import ArgumentError
from scheduling.model.checks import number

__all__ = ["DataNode", "Resources", "Worker"]

# Sums of demands are compared with thresholds: a tolerance for rounding of some thousand terms.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Resources:
    """CPU, memory and disk: the capacity of a worker, or the demand of a task.

    Args:
        cpu_cores: CPU cores, also fractions.
        memory_mb: memory in MB.
        disk_mb: disk in MB; ``math.inf`` for an unlimited disk; default 0.

    Raises:
        ArgumentError: a number is negative or not finite.

    >>> Resources(2, 4096) * 0.5
    Resources(cpu_cores=1.0, memory_mb=2048.0, disk_mb=0.0)
    """

    cpu_cores: float
    memory_mb: float
    disk_mb: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpu_cores", "memory_mb"):
            number(name, getattr(self, name))
        if not self.disk_mb >= 0:
            raise ArgumentError(f"disk_mb={self.disk_mb!r}: give a number, at least 0")

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_cores + other.cpu_cores,
            self.memory_mb + other.memory_mb,
            self.disk_mb + other.disk_mb,
        )

    def __mul__(self, factor: float) -> Resources:
        return Resources(self.cpu_cores * factor, self.memory_mb * factor, self.disk_mb * factor)

    def within(self, limit: Resources) -> bool:
        """Whether each of the three is at most the limit's, up to rounding (Eqs. 1-4, 18-19)."""
        return (
            self.cpu_cores <= limit.cpu_cores * (1 + _ROUNDING) + _ROUNDING
            and self.memory_mb <= limit.memory_mb * (1 + _ROUNDING) + _ROUNDING
            and self.disk_mb <= limit.disk_mb * (1 + _ROUNDING) + _ROUNDING
        )


@dataclass(frozen=True)
class Worker:
    """A worker that runs tasks: an executor of Spark, or a cloud host.

    Args:
        id: its name, unique in a cluster.
        capacity: its resources for tasks.
        slots: the number of concurrent tasks.
        price_per_s: its price in $/s; default 1 for all workers.
        host: its machine; tasks on one host communicate without the network. Default: the id.
        executor_id: Spark's id of the executor; None (default) if it is not an executor.
        tier: the name of its kind, for example m, l, xl; default empty.
        bandwidth_bytes_per_s: the bandwidth of its network; default 125e6 (1 Gbit/s).
        latency_s: the one-way latency of its network; default 1 ms.
        delta: the share of the capacity that tasks may use (Eq. 17); default 0.8 as in the
            papers.
        labels: additional information of the user; default none.

    Raises:
        ArgumentError: the id is empty, or a number is out of its range.

    Source: CETSA and LBA-CE, section 3, Eqs. 3, 4, 17.
    """

    id: str
    capacity: Resources
    slots: int
    price_per_s: float = 1.0
    host: str = ""
    executor_id: str | None = None
    tier: str = ""
    bandwidth_bytes_per_s: float = 125e6
    latency_s: float = 0.001
    delta: float = 0.8
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.id:
            raise ArgumentError("a worker's id is empty; give each worker a name")
        if not self.host:
            object.__setattr__(self, "host", self.id)
        if self.slots < 0 or self.slots != int(self.slots):
            raise ArgumentError(f"slots={self.slots!r} of worker {self.id!r}: give 0, 1, 2, ...")
        number(f"price_per_s of worker {self.id!r}", self.price_per_s)
        number(
            f"bandwidth_bytes_per_s of worker {self.id!r}", self.bandwidth_bytes_per_s, above=True
        )
        number(f"latency_s of worker {self.id!r}", self.latency_s)
        if not 0 < self.delta <= 1:
            raise ArgumentError(
                f"delta={self.delta!r} of worker {self.id!r}: give the share of the capacity that "
                "may be taken, above 0 and at most 1"
            )

    @cached_property
    def usable(self) -> Resources:
        """The capacity times delta: RTH of Eq. 17."""
        return self.capacity * self.delta


@dataclass(frozen=True)
class DataNode:
    """A host that stores data and runs no worker.

    Args:
        host: its name.
        bandwidth_bytes_per_s: the bandwidth of its network; default 125e6 (1 Gbit/s).
        latency_s: the one-way latency of its network; default 1 ms.
    """

    host: str
    bandwidth_bytes_per_s: float = 125e6
    latency_s: float = 0.001
