"""A cluster file's own job in the simulator, under a policy, with arrivals of several seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from scheduling.cluster_file import Cluster
from scheduling.errors import ClusterFileError
from scheduling.load import deviation
from scheduling.model import Plan
from scheduling.simulate.arrivals import Arrivals
from scheduling.simulate.engine import Simulation
from scheduling.simulate.job import Operator

__all__ = ["LATE_S", "job_of", "simulated"]

LATE_S = 5.0
"""Rows that wait longer are late."""

_RATE_PER_TASK = 1000.0  # rows a second where the file says none
_NOISE = 0.2  # of the rate of each second
_WARM = 0.2  # the part of the time that is not measured


def job_of(cluster: Cluster) -> tuple[list[Operator], float]:
    """The operators of a cluster file for the simulator, and the job's rows a second.

    CPU and bytes of a row follow from the demands and the rates of the operators; an operator
    without a rate gets 1,000 rows/s a task.

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
    out = {
        one: rates[name] / math.fsum(rates[each] for each in feeders)
        for name, feeders in reversed(sent.items())
        for one in feeders
    }
    size = {one: b for feeders in reversed(sent.values()) for one, b in feeders.items()}
    found: dict[str, Operator] = {}
    while len(found) < len(sent):  # each after its inputs; the file has no cycles
        for name in [one for one in sent if one not in found and sent[one].keys() <= found.keys()]:
            tasks = graph.operators[name]
            need = tasks[0].demand
            if not need.cpu_cores:
                raise ClusterFileError(
                    f"operator {name!r} has cpu_cores 0: the simulator needs the CPU of a row; "
                    "give cpu_cores and rate_in_per_s"
                )
            found[name] = Operator(
                name,
                len(tasks),
                need.cpu_cores * len(tasks) / rates[name],
                inputs=tuple(sent[name]),
                part=rates[name] / total,
                out=out.get(name, 1.0),
                out_bytes=size.get(name, 0.0) / (rates[name] * out.get(name, 1.0)),
                memory_mb=need.memory_mb,
            )
    return list(found.values()), total


def simulated(cluster: Cluster, plan: Plan, seconds: float, seed: int) -> Mapping[str, float]:
    """Measures of the job under a plan, without the first fifth of the time.

    Args:
        cluster: the content of the file.
        plan: of its job, with all tasks placed.
        seconds: the simulated time.
        seed: of the arrivals, whose rate varies by 20 % from second to second.

    Returns:
        Rows a second that were done; the mean seconds that a row waits; the percentage of rows in
        micro-batches whose mean wait is over 5 s; S of the loads.
    """
    operators, rate = job_of(cluster)
    width = max(task.demand.cpu_cores for task in cluster.graph.tasks)
    query = Simulation(
        operators,
        cluster.snapshot.workers,
        Arrivals(rate, noise=_NOISE, seed=seed, horizon_s=math.ceil(seconds)),
        placement=plan.placement,
        width=max(1.0, width),
        pipelined=True,
    )
    query.run(seconds)
    batches = [one for one in query.batches if one.start >= _WARM * seconds]
    if not batches:
        return {"rows/s": 0.0, "delay, s": math.inf, f"over {LATE_S:g} s, %": 100.0, "S": math.nan}
    rows = math.fsum(one.rows for one in batches)
    waits = [
        (one.rows, one.end - query.arrived.second(one.offset + one.rows / 2)) for one in batches
    ]
    return {
        "rows/s": rows / (batches[-1].end - batches[0].start),
        "delay, s": math.fsum(count * wait for count, wait in waits) / rows,
        f"over {LATE_S:g} s, %": 100 * sum(count for count, wait in waits if wait > LATE_S) / rows,
        "S": statistics.fmean(deviation(one.busy.values()) for one in batches),
    }
