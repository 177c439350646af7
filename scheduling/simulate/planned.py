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

__all__ = ["MEASURES", "offered", "simulated"]

MEASURES = ("rows/s", "delay, s", "over 5 s, %", "S")
"""What :func:`simulated` returns."""

_LATE_S = 5.0
_RATE_PER_TASK = 1000.0  # rows a second where the file says none


def offered(cluster: Cluster) -> float:
    """The job's rows a second: those of its sources, 1,000 a task where the file has no rate.

    Raises:
        ClusterFileError: an operator demands no CPU.
    """
    graph = cluster.graph
    for task in graph.tasks:
        if not task.demand.cpu_cores:
            raise ClusterFileError(
                f"operator {task.operator!r} has cpu_cores 0: the simulator needs the CPU of a "
                "row; give cpu_cores and rate_in_per_s"
            )
    fed = {graph.by_id[edge.target].operator for edge in graph.edges}
    return math.fsum(
        math.fsum(task.rate_in_per_s for task in tasks) or _RATE_PER_TASK * len(tasks)
        for name, tasks in graph.operators.items()
        if name not in fed
    )


def simulated(cluster: Cluster, plan: Plan, seconds: float, seed: int) -> tuple[float, ...]:
    """The ``MEASURES`` of the job under a plan that places all tasks, without the first fifth.

    They are rows a second that were done, the mean seconds that a row waits, the share of rows in
    micro-batches whose mean wait is over 5 s, and S of the loads. The rate of arrivals varies by
    20 % from second to second, with the seed.
    """
    rate, width = offered(cluster), max(task.demand.cpu_cores for task in cluster.graph.tasks)
    arrived = Arrivals(rate, noise=0.2, seed=seed, horizon_s=math.ceil(seconds))
    query = Simulation(
        cluster.graph, cluster.snapshot.workers, arrived, rows_per_s=rate,
        placement=plan.placement, width=max(1.0, width), pipelined=True,
    )  # fmt: skip
    query.run(seconds)
    batches = [one for one in query.batches if one.start >= seconds / 5]
    if not batches:
        return 0.0, math.inf, 100.0, math.nan
    waits = [(one.rows, one.end - arrived.second(one.offset + one.rows / 2)) for one in batches]
    rows = math.fsum(count for count, _ in waits)
    delay = math.fsum(count * wait for count, wait in waits) / rows
    late = math.fsum(count for count, wait in waits if wait > _LATE_S)
    balance = statistics.fmean(deviation(one.busy.values()) for one in batches)
    return rows / (batches[-1].end - batches[0].start), delay, 100 * late / rows, balance
