"""Workers and their resources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.model.checks import instance, number, set_fields, share, text, whole

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
        ArgumentError: a value is no number, negative or not finite.

    >>> Resources(2, 4096) * 0.5
    Resources(cpu_cores=1.0, memory_mb=2048.0, disk_mb=0.0)
    """

    cpu_cores: float
    memory_mb: float
    disk_mb: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpu_cores", "memory_mb", "disk_mb"):
            value = getattr(self, name)
            if type(value) is not float or not 0 <= value < math.inf:
                set_fields(self, **{name: number(name, value, endless=name == "disk_mb")})

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_cores + other.cpu_cores,
            self.memory_mb + other.memory_mb,
            self.disk_mb + other.disk_mb,
        )

    def __mul__(self, factor: float) -> Resources:
        return Resources(self.cpu_cores * factor, self.memory_mb * factor, self.disk_mb * factor)

    def __str__(self) -> str:
        disk = f" and {self.disk_mb:g} MB of disk" if self.disk_mb else ""
        return f"{self.cpu_cores:g} cores, {self.memory_mb:g} MB{disk}"

    def less(self, taken: Resources) -> Resources:
        """What is left of these, at least 0 of each."""
        return Resources(
            max(self.cpu_cores - taken.cpu_cores, 0.0),
            max(self.memory_mb - taken.memory_mb, 0.0),
            max(self.disk_mb - taken.disk_mb, 0.0),
        )

    def within(self, limit: Resources) -> bool:
        """Whether each of the three is at most the limit's, up to rounding (Eqs. 1-4, 18-19)."""
        return (
            self.cpu_cores <= limit.cpu_cores * (1 + _ROUNDING) + _ROUNDING
            and self.memory_mb <= limit.memory_mb * (1 + _ROUNDING) + _ROUNDING
            and self.disk_mb <= limit.disk_mb * (1 + _ROUNDING) + _ROUNDING
        )


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

    def __post_init__(self) -> None:
        set_fields(
            self,
            host=text("the host of a data node", self.host),
            **_network(self, f" of data node {self.host!r}"),
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
        ArgumentError: the id is empty, a value is of another kind, or a number out of its range.

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
        name = text("a worker id", self.id)
        of = f" of worker {name!r}"
        if self.executor_id is not None:
            text("executor_id", self.executor_id, of)
        instance("capacity", self.capacity, Resources, of)
        instance("labels", self.labels, Mapping, of)  # type: ignore[type-abstract]
        set_fields(
            self,
            slots=whole("slots", self.slots, of),
            price_per_s=number("price_per_s", self.price_per_s, of),
            host=text("host", self.host, of, empty=True) or name,
            tier=text("tier", self.tier, of, empty=True),
            delta=share("delta", self.delta, of, above=True),
            **_network(self, of),
        )

    @cached_property
    def usable(self) -> Resources:
        """The capacity times delta: RTH of Eq. 17."""
        return self.capacity * self.delta


def _network(one: Worker | DataNode, of: str) -> dict[str, float]:
    return {
        "bandwidth_bytes_per_s": number(
            "bandwidth_bytes_per_s", one.bandwidth_bytes_per_s, of, above=True
        ),
        "latency_s": number("latency_s", one.latency_s, of),
    }
