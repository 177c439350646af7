"""A model of more workers from measurements with one and two.

Where only the driver is shared, a micro-batch takes ``fixed + work / N`` on N workers (Amdahl).
Where every record queries a database, N workers are N times as fast until the database's cores are
busy (P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", 1978:
the bounds of a closed network with one bottleneck): ``X(N) = min(N X(1), cores / demand)`` and
``R(N) = max(R(1), N demand / cores)``, with the measured demand of a record at the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
"""The paper's numbers of TaskManagers, each with one core."""

DATABASE_CORES = 16
"""Of the modelled database: a host of the paper's cluster has two processors of eight cores."""


@dataclass(frozen=True)
class Fixed:
    """A micro-batch that takes ``fixed_s + work_s / N`` on N workers.

    Example:
        >>> model = Fixed.of(one_s=1.0, two_s=0.6)
        >>> round(model.seconds(1), 9), round(model.seconds(2), 9), round(model.seconds(4), 9)
        (1.0, 0.6, 0.4)
    """

    fixed_s: float
    work_s: float

    @classmethod
    def of(cls, one_s: float, two_s: float) -> Fixed:
        """From the seconds on one worker and on two.

        If two are slower than one nothing is shared; if two are more than twice as fast nothing
        is fixed.
        """
        if not (one_s > 0 and two_s > 0):
            raise ValueError(f"one_s={one_s!r}, two_s={two_s!r}: both must be above 0")
        fixed = min(max(2 * two_s - one_s, 0.0), one_s)
        return cls(fixed, one_s - fixed)

    def seconds(self, workers: int) -> float:
        """The time of a micro-batch."""
        return self.fixed_s + self.work_s / workers


@dataclass(frozen=True)
class Database:
    """Records that each query a shared database.

    Args:
        record_s: the time of a record if one worker queries alone.
        demand_s: the processor time of the database for it.
        cores: of the database.

    Example:
        >>> model = Database(record_s=2e-3, demand_s=1e-3, cores=4)
        >>> [model.rate(n) for n in (1, 4, 8, 16)]
        [500.0, 2000.0, 4000.0, 4000.0]
    """

    record_s: float
    demand_s: float
    cores: int = DATABASE_CORES

    def rate(self, workers: int) -> float:
        """Records a second."""
        free = workers / self.record_s
        return min(free, self.cores / self.demand_s) if self.demand_s else free

    def latency_s(self, workers: int) -> float:
        """The time of one record."""
        return max(self.record_s, workers * self.demand_s / self.cores)


def speed_up(rates: Mapping[int, float]) -> dict[int, float]:
    """The paper's Formula 5: the throughput of N workers over that of one.

    Raises:
        ValueError: there is no throughput of one worker.
    """
    if 1 not in rates:
        raise ValueError(f"rates has {sorted(rates)}: the throughput of 1 worker is needed")
    return {workers: rate / rates[1] for workers, rate in rates.items()}
