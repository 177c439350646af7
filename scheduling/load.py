"""Cost evaluation, busyness, fitness and load of workers (LBA-CE, section 3.2, Eqs. 22-31).

Interpretation: the number of periods X cancels in the order of Eq. 24 and in the split at AF, so
it is 1. A worker that is always at 100 % never exceeds its own mean and would appear idle, so
busyness is relative to the cluster's mean, and at least ``EPSILON``. Eq. 25 sums from 1 to n.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Resources, Snapshot, Task, Utilisation, Worker

__all__ = [
    "CPU_WEIGHT",
    "EPSILON",
    "average_fitness",
    "busyness",
    "cost_evaluation",
    "deviation",
    "fitness",
    "load",
    "loads",
    "planned_loads",
    "skew",
    "task_load",
]

CPU_WEIGHT = 0.8
"""Alpha of Eq. 28, the weight of the CPU in a load; memory has the rest."""

EPSILON = 0.05
"""The least busyness: limits the fitness of a worker that was never busy."""


def cost_evaluation(snapshot: Snapshot) -> dict[str, float]:
    """CE of every worker: $ per tuple in the last period (Eq. 22).

    A worker that processed nothing has no CE of its own and would never be tried. It gets the mean
    of its tier; where the tier is unknown, what the workers known pay per $ of price a core.
    Empty without any history. O(workers).

    >>> from scheduling.model import Resources, Worker
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4, tier="m") for name in "ab")
    >>> cost_evaluation(Snapshot(0.0, workers, tuples={"a": 50}, cost={"a": 2.0}))
    {'a': 0.04, 'b': 0.04}
    """
    known = {
        worker.id: snapshot.cost.get(worker.id, 0.0) / snapshot.tuples[worker.id]
        for worker in snapshot.workers
        if snapshot.tuples.get(worker.id, 0) > 0
    }
    if not known:
        return {}
    tiers: dict[str, list[float]] = {}
    ratios = []
    for worker in snapshot.workers:
        if worker.id in known:
            tiers.setdefault(worker.tier, []).append(known[worker.id])
            if price := _price_per_core(worker):
                ratios.append(known[worker.id] / price)
    ratio = statistics.fmean(ratios) if ratios else 0.0
    return {
        worker.id: known[worker.id]
        if worker.id in known
        else statistics.fmean(tiers[worker.tier])
        if worker.tier in tiers and worker.tier
        else ratio * _price_per_core(worker)
        for worker in snapshot.workers
    }


def _price_per_core(worker: Worker) -> float:
    return worker.price_per_s / max(worker.capacity.cpu_cores, EPSILON)


def busyness(periods: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """B of every worker: the share of time that its CPU was above the cluster's mean (Eq. 23).

    Args:
        periods: by worker, samples of CPU utilisation in [0, 1] for each of X periods.

    Returns:
        By worker the mean over its periods of the share of samples above the mean of all
        workers' samples in that period (EP). Samples equal to that mean count where it is above
        one half: of workers that are all at 100 % each is busy, not idle.

    Complexity: O(samples).

    >>> busyness({"a": [[1.0, 1.0]], "b": [[0.1, 0.9]]})
    {'a': 1.0, 'b': 0.5}
    """
    most = max((len(one) for one in periods.values()), default=0)
    means = []
    for x in range(most):
        samples = [value for one in periods.values() if x < len(one) for value in one[x]]
        means.append(statistics.fmean(samples) if samples else 0.0)
    found = {}
    for worker, one in periods.items():
        shares = [
            sum(_above(value, means[x]) for value in samples) / len(samples)
            for x, samples in enumerate(one)
            if samples
        ]
        found[worker] = statistics.fmean(shares) if shares else 0.0
    return found


def _above(value: float, mean: float) -> bool:
    return value > mean + 1e-12 or (mean > 0.5 and value > mean - 1e-12)


def fitness(snapshot: Snapshot, *, epsilon: float = EPSILON) -> dict[str, float]:
    """F of every worker, 1 / (CE x B) (Eq. 24); the larger the better. Empty without history.

    If the snapshot has no busyness of a worker, its CPU utilisation is used, and one half if that
    is missing too. A worker without cost has infinite fitness.
    """
    found = {}
    for worker, evaluation in cost_evaluation(snapshot).items():
        used = snapshot.utilisation.get(worker)
        busy = snapshot.busyness.get(worker, used.cpu if used else 0.5)
        product = evaluation * max(busy, epsilon)
        found[worker] = 1 / product if product > 0 else math.inf
    return found


def average_fitness(values: Iterable[float]) -> float:
    """AF, the mean of all workers' fitness (Eq. 25), of the finite ones if there are any."""
    every = list(values)
    finite = [value for value in every if math.isfinite(value)]
    return statistics.fmean(finite) if finite else (math.inf if every else 0.0)


def load(used: Utilisation, *, cpu_weight: float = CPU_WEIGHT) -> float:
    """The load of a worker, alpha x CPU + beta x memory (Eqs. 28 and 29), in [0, 1].

    >>> load(Utilisation(0.5, 1.0))
    0.6
    """
    if not 0 <= cpu_weight <= 1:
        raise ArgumentError(f"cpu_weight={cpu_weight!r}: give a share, in [0, 1]")
    return cpu_weight * used.cpu + (1 - cpu_weight) * used.memory


def loads(snapshot: Snapshot, *, cpu_weight: float = CPU_WEIGHT) -> dict[str, float]:
    """The load of every worker as measured; workers without a measurement are left out."""
    return {
        worker.id: load(snapshot.utilisation[worker.id], cpu_weight=cpu_weight)
        for worker in snapshot.workers
        if worker.id in snapshot.utilisation
    }


def task_load(demand: Resources, capacity: Resources, cpu_weight: float = CPU_WEIGHT) -> float:
    """The share of a worker's capacity that a task takes, weighted as in Eq. 28."""
    cpu = demand.cpu_cores / capacity.cpu_cores if capacity.cpu_cores else 0.0
    memory = demand.memory_mb / capacity.memory_mb if capacity.memory_mb else 0.0
    return cpu_weight * cpu + (1 - cpu_weight) * memory


def planned_loads(
    placement: Mapping[str, str],
    graph: JobGraph,
    snapshot: Snapshot,
    *,
    cpu_weight: float = CPU_WEIGHT,
    every: bool = True,
) -> dict[str, float]:
    """The load each worker would have from the tasks of a placement. O(tasks + workers).

    Args:
        placement: the worker of each task.
        graph: the tasks; the snapshot's ``usage`` goes before a task's demand.
        snapshot: the workers.
        cpu_weight: alpha of Eq. 28.
        every: with the workers that have none, as Eq. 31 counts; else those in use only.
    """
    found = dict.fromkeys(snapshot.by_id if every else placement.values(), 0.0)
    for name, worker in placement.items():
        task: Task = graph.by_id[name]
        used = snapshot.usage.get(name, task.demand)
        found[worker] += task_load(used, snapshot.by_id[worker].capacity, cpu_weight)
    return found


def deviation(values: Iterable[float]) -> float:
    """S, the standard deviation of the workers' loads (Eqs. 30 and 31); 0 for none.

    >>> deviation([0.2, 0.4])
    0.1
    """
    every = list(values)
    if not every:
        return 0.0
    mean = math.fsum(every) / len(every)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in every) / len(every))


def skew(values: Iterable[float]) -> float:
    """The largest load over the mean; 1 where all are equal, none, or idle."""
    every = list(values)
    mean = math.fsum(every) / len(every) if every else 0.0
    return max(every) / mean if mean > 0 else 1.0
