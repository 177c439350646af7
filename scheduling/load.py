"""Cost evaluation, busyness, fitness and load of workers (LBA-CE, section 3.2, Eqs. 22-31).

A worker without a figure that others have is never the best: what is estimated is at most as good
as the best measured, and a worker whose figures are missing or ignored comes last.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from scheduling.model import JobGraph, Resources, Snapshot, Worker
from scheduling.model.checks import grouped, is_number

CPU_WEIGHT = 0.8  # alpha of Eq. 28, the weight of the CPU in a load; memory has the rest
EPSILON = 0.05  # the least busyness: limits the fitness of a worker that was never busy


def cost_evaluation(snapshot: Snapshot) -> dict[str, float]:
    """CE of every worker: $ per tuple in the last period (Eq. 22). O(workers).

    A worker that processed nothing gets the mean of its tier, else what the known workers pay per $
    of price a core, but no less than the least measured. One whose figures are missing or ignored
    has an infinite CE. Empty without history.
    """
    known, workers = _measured(snapshot), snapshot.by_id
    if not known:
        return {}
    tiers = grouped((workers[name].tier, value) for name, value in known.items())
    priced = [value / each for name, value in known.items() if (each := _per_core(workers[name]))]
    ratio, least = statistics.fmean(priced or [0.0]), min(known.values())
    found = dict[str, float]()
    for name, worker in workers.items():
        of_tier = tiers.get(worker.tier) if worker.tier else None
        value = statistics.fmean(of_tier) if of_tier else ratio * _per_core(worker)
        nothing = not snapshot.tuples.get(name) and name not in snapshot.ignored
        found[name] = max(value, least) if nothing else math.inf
    return found | known


def guessed(snapshot: Snapshot, *, busy: bool = False) -> dict[str, str]:
    """The workers without a figure that others have, and why; ``busy``: also without B."""
    known, shares = _measured(snapshot), _busy(snapshot) if busy else {}
    found, nothing = {}, "estimated, it has processed nothing"
    for name in snapshot.by_id:
        if known and name not in known:
            found[name] = "its cost is missing" if snapshot.tuples.get(name) else nothing
        elif shares and name not in shares:
            found[name] = "its busyness is missing"
    return {name: snapshot.ignored.get(name, why) for name, why in found.items()}


def _measured(snapshot: Snapshot) -> dict[str, float]:
    """The CE of the workers that have one of their own."""
    did = ((name, snapshot.cost.get(name), snapshot.tuples.get(name)) for name in snapshot.by_id)
    own = ((name, paid / tuples) for name, paid, tuples in did if tuples and paid is not None)
    return {name: value for name, value in own if math.isfinite(value)}


def _busy(snapshot: Snapshot) -> dict[str, float]:
    """B of the workers that have one, else their CPU utilisation."""
    used = {name: one.cpu for name, one in snapshot.utilisation.items()} | dict(snapshot.busyness)
    return {name: b for name, b in used.items() if name in snapshot.by_id}


def _per_core(worker: Worker) -> float:
    return worker.price_per_s / max(worker.capacity.cpu_cores, EPSILON)


def busyness(periods: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """B of every worker: the share of time that its CPU was above the cluster's mean (Eq. 23).

    The mean over its periods of the share of samples above the mean of all workers' in that period
    (EP), or equal to it where it is above one half: workers all at 100 % are busy. One without
    samples is as busy as the busiest. O(samples).

    Args:
        periods: by worker, for each period, samples of CPU utilisation; odd ones are left out. All
            end with the same period: a worker that has come later has fewer.

    >>> busyness({"a": [[1.0, 1.0]], "b": [[0.1, 0.9]], "c": [[float("nan")]]})
    {'a': 1.0, 'b': 0.5, 'c': 1.0}
    """
    good = {
        worker: [[one for one in samples if is_number(one) and one >= 0] for samples in ones[::-1]]
        for worker, ones in periods.items()
    }
    together = (chain(*samples) for samples in zip_longest(*good.values(), fillvalue=()))
    means = [statistics.fmean(samples or [0.0]) for samples in map(list, together)]
    # At a mean above one half, samples that are equal to it but for rounding count, too.
    bounds, found = [mean + math.copysign(1e-12, 0.5 - mean) for mean in means], {}
    for worker, one in good.items():
        pairs = ((least, samples) for least, samples in zip(bounds, one, strict=False) if samples)
        shares = [statistics.fmean(one > least for one in samples) for least, samples in pairs]
        if shares:
            found[worker] = statistics.fmean(shares)
    most = max(found.values(), default=0.0)
    return {worker: found.get(worker, most) for worker in periods}


def fitness(snapshot: Snapshot, epsilon: float = EPSILON) -> dict[str, float]:
    """F of every worker, 1 / (CE x B) (Eq. 24); the larger the better. Empty without history.

    B is the busyness, else the CPU utilisation, else the largest of the others, else one half; at
    least ``epsilon``. One that is :func:`guessed` is never fitter than the fittest of the others.
    """
    busy, unsure = _busy(snapshot), guessed(snapshot, busy=True)
    most = max(busy.values(), default=0.5)
    costs = {
        worker: evaluation * max(busy.get(worker, most), epsilon)
        for worker, evaluation in cost_evaluation(snapshot).items()
    }
    found = {worker: 1 / cost if cost > 0 else math.inf for worker, cost in costs.items()}
    best = max((value for name, value in found.items() if name not in unsure), default=math.inf)
    return {name: min(value, best) if name in unsure else value for name, value in found.items()}


def average_fitness(values: Iterable[float]) -> float:
    """AF, the mean of all workers' fitness (Eq. 25): of the finite ones that have any."""
    every = list(values)
    finite = [value for value in every if 0 < value < math.inf]
    return statistics.fmean(finite) if finite else max(every, default=0.0)


def task_load(demand: Resources, capacity: Resources, cpu_weight: float = CPU_WEIGHT) -> float:
    """The load that a task is to a worker, alpha x CPU + beta x memory (Eqs. 28 and 29)."""
    cpu = demand.cpu_cores / capacity.cpu_cores if capacity.cpu_cores else 0.0
    memory = demand.memory_mb / capacity.memory_mb if capacity.memory_mb else 0.0
    return cpu_weight * cpu + (1 - cpu_weight) * memory


def planned_loads(
    at: Mapping[str, str], graph: JobGraph, snapshot: Snapshot, cpu_weight: float = CPU_WEIGHT
) -> dict[str, float]:
    """The load of each worker by a placement, also of idle ones; usage goes before demand."""
    found = dict.fromkeys(snapshot.by_id, 0.0)
    for name, worker in at.items():
        used = snapshot.usage.get(name, graph.by_id[name].demand)
        found[worker] += task_load(used, snapshot.by_id[worker].capacity, cpu_weight)
    return found


def deviation(values: Iterable[float]) -> float:
    """S, the standard deviation of the workers' loads (Eqs. 30 and 31); 0 for none."""
    return statistics.pstdev(every) if (every := list(values)) else 0.0
