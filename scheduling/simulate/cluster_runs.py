"""A cluster file's own job in the simulator: each policy, several seeds, confidence intervals.

Records arrive at random (a Poisson process), so every seed is another run of the same job.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.cluster_file import Cluster, read
from scheduling.cost import rent_per_s
from scheduling.errors import ArgumentError, ClusterFileError, SchedulingError
from scheduling.load import deviation
from scheduling.policies import POLICIES, policy
from scheduling.simulate.engine import Simulation
from scheduling.simulate.jobs import Job, Operator
from scheduling.simulate.streams import Poisson
from scheduling.table import table

__all__ = ["Interval", "job_of", "main", "run"]

_RATE_PER_TASK = 1000.0  # records a second where the file says none
_LATE_S = 5.0
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # 97.5 %, 1 to 9 degrees

_NOTHING = 1e-6  # of the mean: a difference that only rounding makes


@dataclass(frozen=True)
class Interval:
    """A mean, and half the width of its 95 % confidence interval (Student's t)."""

    mean: float
    half: float

    @staticmethod
    def of(values: Sequence[float]) -> Interval:
        """The interval of some samples.

        >>> Interval.of([1.0, 3.0])
        Interval(mean=2.0, half=12.706)
        """
        mean = statistics.fmean(values)
        if len(values) < 2:
            return Interval(mean, math.nan)
        t = _T[min(len(values) - 2, len(_T) - 1)]
        return Interval(mean, t * statistics.stdev(values) / math.sqrt(len(values)))

    def __str__(self) -> str:
        if math.isnan(self.half):  # one run tells nothing of others
            return _plain(self.mean, 4)
        if self.half <= abs(self.mean) * _NOTHING:
            return f"{_plain(self.mean, 4)} ± 0"
        return f"{_plain(self.mean, 4)} ± {_plain(self.half, 2)}"


def _plain(value: float, digits: int) -> str:
    """A number to some significant digits, all of those before the point, without an exponent."""
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    behind = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{behind}f}"
    return text.rstrip("0").rstrip(".") if behind else text


def job_of(cluster: Cluster) -> tuple[Job, float]:
    """The job of a cluster file for the simulator, and its records per second.

    CPU and bytes of a record follow from the demands and the rates of the operators; an operator
    without a rate gets 1,000 records/s a task.

    Args:
        cluster: the content of the file.

    Raises:
        ClusterFileError: a task demands no CPU.
    """
    graph = cluster.graph
    inputs: dict[str, dict[str, float]] = {name: {} for name in graph.operators}
    for edge in graph.edges:
        source, target = graph.by_id[edge.source].operator, graph.by_id[edge.target].operator
        inputs[target][source] = inputs[target].get(source, 0.0) + edge.bytes_per_s
    rates = {
        name: math.fsum(task.rate_in_per_s for task in tasks) or _RATE_PER_TASK * len(tasks)
        for name, tasks in graph.operators.items()
    }
    total = math.fsum(rates[name] for name, feeders in inputs.items() if not feeders)
    out: dict[str, float] = {}
    out_bytes: dict[str, float] = {}
    for name, feeders in inputs.items():
        coming = math.fsum(rates[one] for one in feeders)
        for one, size in feeders.items():
            out.setdefault(one, rates[name] / coming)
            out_bytes.setdefault(one, size / (rates[one] * out[one]))
    operators = []
    for name in _ordered(inputs):
        tasks = graph.operators[name]
        need = tasks[0].demand
        if not need.cpu_cores:
            raise ClusterFileError(
                f"operator {name!r} has cpu_cores 0: the simulator needs the CPU of a record; give "
                "cpu_cores and rate_in_per_s"
            )
        operators.append(
            Operator(
                name=name,
                inputs=tuple(inputs[name]),
                parallelism=len(tasks),
                cpu_s=need.cpu_cores * len(tasks) / rates[name],
                max_cores=max(1.0, need.cpu_cores),
                memory_mb=need.memory_mb,
                state_bytes=math.fsum(task.state_bytes for task in tasks),
                out=out.get(name, 1.0),
                out_bytes=out_bytes.get(name, 0.0),
                share=1.0 if inputs[name] else rates[name] / total,
            )
        )
    return Job("cluster file", tuple(operators)), total


def _ordered(inputs: dict[str, dict[str, float]]) -> list[str]:
    """The operators, each after its inputs; the file has no cycles."""
    found: list[str] = []
    while len(found) < len(inputs):
        found += [
            name for name in inputs if name not in found and all(n in found for n in inputs[name])
        ]
    return found


def run(cluster: Cluster, name: str, seconds: float, seeds: int) -> dict[str, Interval] | None:
    """One policy on a cluster, over several seeds; None if a task has no room.

    Args:
        cluster: the content of the file.
        name: the name of the policy.
        seconds: the simulated time.
        seeds: the number of runs.

    Returns:
        By measure, its mean with a confidence interval: records per second, delay, late records,
        deviation of the loads.
    """
    job, rate = job_of(cluster)
    plan = policy(name).plan(cluster.graph, cluster.snapshot)
    if plan.unplaced:
        return None
    samples: dict[str, list[float]] = {}
    for seed in range(seeds):
        simulation = Simulation(job, cluster.snapshot.workers, Poisson(rate, seed), plan.placement)
        trace = simulation.run(seconds)
        half = len(trace.time_s) // 2  # without the start
        for measure, value in (
            ("records/s", (trace.done[-1] - trace.done[half]) / (seconds - trace.time_s[half])),
            ("delay, s", statistics.fmean(trace.delay_s[half:])),
            (f"over {_LATE_S:g} s, %", 100 * trace.late_share(_LATE_S)),
            ("S", statistics.fmean(deviation(row.tolist()) for row in trace.cpu[half:])),
        ):
            samples.setdefault(measure, []).append(value)
    return {measure: Interval.of(values) for measure, values in samples.items()}


def main(args: Sequence[str]) -> int:
    """Simulate a cluster file and print a row per policy.

    Args:
        args: the words after ``simulate``: the file, ``--policy NAME`` (repeatable; all unless
            given), ``--seconds``, ``--seeds``.

    Returns:
        0; 2 when the arguments or the file cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="python -m scheduling simulate",
        description="Run the job of a cluster file in the simulator, under each policy.",
    )
    parser.add_argument("file", help="a cluster file (YAML); see scheduling.cluster_file")
    parser.add_argument("--policy", action="append", help=f"of {', '.join(POLICIES)}; all")
    parser.add_argument("--seconds", type=float, default=300.0, help="simulated time; 300")
    parser.add_argument("--seeds", type=int, default=3, help="runs with other arrivals; 3")
    options = parser.parse_args(args)
    try:
        if not options.seconds >= 10 or options.seeds < 1:
            raise ArgumentError(
                f"--seconds {options.seconds:g} --seeds {options.seeds}: give at least 10 and 1"
            )
        cluster = read(options.file)
        rows = [
            ("policy", "workers", "$/s", "records/s", "delay, s", f"over {_LATE_S:g} s, %", "S")
        ]
        for name in options.policy or [name for name in POLICIES if name != "exact"]:
            plan = policy(name).plan(cluster.graph, cluster.snapshot)
            found = run(cluster, name, options.seconds, options.seeds)
            shown = ["no room"] * 4 if found is None else [str(one) for one in found.values()]
            rent = f"{rent_per_s(plan, cluster.snapshot):.6g}"
            rows.append((name, str(len(plan.by_worker)), rent, *shown))
    except (SchedulingError, ImportError) as error:
        print(f"python -m scheduling: {error}", file=sys.stderr)
        return 2
    offered = job_of(cluster)[1]
    runs = "one seed" if options.seeds == 1 else f"{options.seeds} seeds; mean ± 95 %"
    print(f"{offered:g} records/s for {options.seconds:g} s, {runs}\n")
    print(table(rows))
    return 0
