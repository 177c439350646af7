"""A model of more workers from measurements with one and two.

Where only the driver is shared, a micro-batch takes ``fixed + work / N`` on N workers (Amdahl).
Where every record queries a database, N workers are N times as fast until the database's cores are
busy (P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", 1978:
the bounds of a closed network with one bottleneck): ``X(N) = min(N X(1), cores / demand)`` and
``R(N) = max(R(1), N demand / cores)``, with the measured demand of a record at the server.
"""

from __future__ import annotations

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
"""The paper's numbers of TaskManagers, each with one core."""

DATABASE_CORES = 16
"""Of the modelled database: a host of the paper's cluster has two processors of eight cores."""

ByWorkers = dict[int, float]


def fixed_and_shared(one_s: float, two_s: float) -> ByWorkers:
    """The time of a micro-batch by workers, from the seconds on one and on two.

    If two are slower nothing is shared; if they are more than twice as fast nothing is fixed.

    Example:
        >>> [round(seconds, 9) for seconds in fixed_and_shared(one_s=1.0, two_s=0.6).values()][:3]
        [1.0, 0.6, 0.4]
    """
    if not (one_s > 0 and two_s > 0):
        raise ValueError(f"one_s={one_s!r}, two_s={two_s!r}: both must be above 0")
    fixed_s = min(max(2 * two_s - one_s, 0.0), one_s)
    return {n: fixed_s + (one_s - fixed_s) / n for n in WORKERS}


def bounded_by_database(
    record_s: float, demand_s: float, cores: int = DATABASE_CORES
) -> tuple[ByWorkers, ByWorkers]:
    """Records a second and seconds of a record by workers, if each queries a shared database.

    Args:
        record_s: the time of a record if one worker queries alone.
        demand_s: the processor time of the database for it.
        cores: of the database.

    Example:
        >>> rates, _ = bounded_by_database(record_s=2e-3, demand_s=1e-3, cores=4)
        >>> [rates[n] for n in (1, 4, 8, 16)]
        [500.0, 2000.0, 4000.0, 4000.0]
    """
    most = cores / demand_s if demand_s else float("inf")
    rates = {n: min(n / record_s, most) for n in WORKERS}
    return rates, {n: max(record_s, n * demand_s / cores) for n in WORKERS}
