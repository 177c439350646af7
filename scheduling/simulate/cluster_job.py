"""A cluster file's own job in the simulator, under a policy's plan."""

from __future__ import annotations

import math
import statistics

from scheduling.cluster_file import Cluster
from scheduling.errors import ClusterFileError
from scheduling.load import deviation
from scheduling.model import Plan
from scheduling.simulate.arrivals import Arrivals
from scheduling.simulate.engine import Simulation
from scheduling.simulate.job import Operator

__all__ = ["MEASURES", "job_of", "simulated"]

MEASURES = ("rows/s", "delay, s", "over 5 s, %", "S")
"""What :func:`simulated` returns."""

_LATE_S = 5.0
_RATE_PER_TASK = 1000.0  # rows a second where the file says none


def job_of(cluster: Cluster) -> tuple[list[Operator], float]:
    """The operators of a cluster file, and the job's rows a second.

    CPU and bytes of a row follow from the demands and the rates of the operators; one without a
    rate gets 1,000 rows/s a task.

    Raises:
        ClusterFileError: a task demands no CPU.
    """
    graph = cluster.graph
    sent: dict[str, dict[str, float]] = {name: {} for name in graph.operators}
    for edge in graph.edges:
        source, target = graph.by_id[edge.source].operator, graph.by_id[edge.target].operator
        sent[target][source] = sent[target].get(source, 0.0) + edge.bytes_per_s
    rates = {
        name: math.fsum(task.rate_in_per_s for task in tasks) or _RATE_PER_TASK * len(tasks)
        for name, tasks in graph.operators.items()
    }
    total = math.fsum(rates[name] for name, feeders in sent.items() if not feeders)
    out, size = dict[str, float](), dict[str, float]()
    for name, feeders in sent.items():
        share = rates[name] / (math.fsum(rates[one] for one in feeders) or 1.0)
        for one, sent_bytes in feeders.items():
            size.setdefault(one, sent_bytes / (rates[one] * out.setdefault(one, share)))
    found: dict[str, Operator] = {}
    while len(found) < len(sent):  # each after its inputs; the file has no cycles
        for name in [one for one in sent if one not in found and sent[one].keys() <= found.keys()]:
            tasks = graph.operators[name]
            if not tasks[0].demand.cpu_cores:
                raise ClusterFileError(
                    f"operator {name!r} has cpu_cores 0: the simulator needs the CPU of a row; "
                    "give cpu_cores and rate_in_per_s"
                )
            found[name] = Operator(
                name,
                len(tasks),
                tasks[0].demand.cpu_cores * len(tasks) / rates[name],
                inputs=tuple(sent[name]),
                part=rates[name] / total,
                out=out.get(name, 1.0),
                out_bytes=size.get(name, 0.0),
                memory_mb=tasks[0].demand.memory_mb,
            )
    return list(found.values()), total


def simulated(cluster: Cluster, plan: Plan, seconds: float, seed: int) -> dict[str, float]:
    """The ``MEASURES`` of the job under a plan that places all tasks, without the first fifth.

    They are rows a second that were done, the mean seconds that a row waits, the share of rows in
    micro-batches whose mean wait is over 5 s, and S of the loads. The rate of arrivals varies by
    20 % from second to second, with the seed.
    """
    operators, rate = job_of(cluster)
    arrived = Arrivals(rate, noise=0.2, seed=seed, horizon_s=math.ceil(seconds))
    width = max(1.0, *(task.demand.cpu_cores for task in cluster.graph.tasks))
    workers, at = cluster.snapshot.workers, plan.placement
    query = Simulation(operators, workers, arrived, placement=at, width=width, pipelined=True)
    query.run(seconds)
    batches = [one for one in query.batches if one.start >= seconds / 5]
    if not batches:
        return dict(zip(MEASURES, (0.0, math.inf, 100.0, math.nan), strict=True))
    rows = math.fsum(one.rows for one in batches)
    waits = [(one.rows, one.end - arrived.second(one.offset + one.rows / 2)) for one in batches]
    late = math.fsum(count for count, wait in waits if wait > _LATE_S)
    balance = statistics.fmean(deviation(one.busy.values()) for one in batches)
    delay = math.fsum(count * wait for count, wait in waits) / rows
    done = rows / (batches[-1].end - batches[0].start)
    return dict(zip(MEASURES, (done, delay, 100 * late / rows, balance), strict=True))
