"""``python -m scheduling example|plan|explain|simulate``: placements of a cluster file."""

import argparse
import io
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduling.cluster_file import Cluster, read
from scheduling.cost import rent_per_s
from scheduling.errors import ArgumentError, ClusterFileError, SchedulingError
from scheduling.load import average_fitness, cost_evaluation, deviation, fitness, planned_loads
from scheduling.model import JobGraph, Plan, Snapshot, Worker
from scheduling.policies import POLICIES, policy
from scheduling.protocols import Policy
from scheduling.simulate import Arrivals, Simulation

_ALL = [name for name in POLICIES if name != "exact"]
# Delay is the mean of rows; over 5 s: the rows in micro-batches with such a mean; S of the loads.
_MEASURES = ("rows/s", "delay, s", "over 5 s, %", "S")
_LATE_S = 5.0
_RATE_PER_TASK = 1000.0  # rows a second where the file says none


def main(args: Sequence[str] | None = None) -> int:
    """Run a command: 0; 1 when a task has no room; 2 when arguments or the file cannot be used.

    ``args`` are the words after ``python -m scheduling``; None (default): those of the process.
    """
    told = "Place the tasks of a job on priced workers."
    parser = argparse.ArgumentParser(prog="python -m scheduling", description=told)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    example = commands.add_parser("example", help="print a cluster file to begin with")
    example.set_defaults(run=_example)
    made, names = {}, f"of {', '.join(POLICIES)}; "
    for name, run, told, seconds in (
        ("plan", _plan, "place the job: a table, reasons, costs", 3600.0),
        ("explain", _explain, "ranks of the workers, and every policy's cost", 3600.0),
        ("simulate", _simulate, "run the job under each policy", 300.0),
    ):
        command = made[name] = commands.add_parser(name, help=told)
        command.set_defaults(run=run)
        command.add_argument("file", help="a cluster file (YAML); see scheduling.cluster_file")
        told = f"how long the job runs; {seconds:g}"
        command.add_argument("--seconds", type=float, default=seconds, help=told)
    made["plan"].add_argument("--policy", default="lba-ce", help=f"{names}lba-ce")
    made["simulate"].add_argument("--policy", action="append", help=f"{names}all but exact")
    told = "runs with other arrivals; 3"
    made["simulate"].add_argument("--seeds", type=int, default=3, help=told)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal has no character for is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        options = parser.parse_args(args)
        if not 0 < getattr(options, "seconds", 1.0) < math.inf:
            raise ArgumentError(f"--seconds {options.seconds:g}: give a number above 0")
        return options.run(options)  # type: ignore[no-any-return]
    except (SchedulingError, ImportError) as error:
        print(f"python -m scheduling: {error}", file=sys.stderr)
        return 2


def _example(options: argparse.Namespace) -> int:
    print(Path(__file__).with_name("example.yaml").read_text("utf-8"), end="")
    return 0


def _plan(options: argparse.Namespace) -> int:
    """Tasks without room first, the placement with reasons, costs, the next best policy."""
    cluster, seconds, began = read(options.file), options.seconds, time.perf_counter()
    snapshot = cluster.snapshot
    plan = _policy(options.policy, cluster).plan(cluster.graph, snapshot)
    plan = replace(plan, scheduling_time_s=time.perf_counter() - began)
    if plan.fallback:
        print(f"warning: {plan.policy} fell back to {plan.fallback}", file=sys.stderr)
    costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
    (most, deviates), rent = _balance(cluster, plan), rent_per_s(plan, snapshot)
    rows = [("task", "worker", "tier", "reason")]
    rows += [(one.task, "(none now)", "-", one.reason) for one in plan.unplaced]
    tier = {one.id: one.tier or "-" for one in snapshot.workers}
    rows += [(one.task, one.worker, tier[one.worker], one.reason) for one in plan.assignments]
    lines = [
        _table(rows),
        "",
        f"{plan.policy}: {len(plan.assignments)} tasks on {len(plan.by_worker)} of "
        f"{len(snapshot.by_id)} workers, planned in {plan.scheduling_time_s * 1000:.1f} ms",
        f"  rent {rent:.6g} $/s; for {seconds:g} s: rent {costs.rc:.4g}, network {costs.cc:.4g}, "
        f"scheduling {costs.sc:.2g} $, weighted {costs.wec:.4g}",
        f"  load {most} at most, S {deviates}",
    ]
    # Policies that leave more tasks out are no cheaper.
    others = (other for other in _plans(cluster) if other.policy != plan.policy)
    if best := next((one for one in others if len(one.unplaced) <= len(plan.unplaced)), None):
        theirs = rent_per_s(best, snapshot)
        change = theirs / rent - 1 if rent else 0.0
        than = f"{abs(change):.1%} {'more' if change > 0 else 'less'}" if change else "as much"
        lines.append(f"  next best: {best.policy}, {theirs:.6g} $/s ({than})")
    print("\n".join(lines))
    return 1 if plan.unplaced else 0


def _explain(options: argparse.Namespace) -> int:
    """The ranks of the workers, and what every policy but the exact one would do."""
    cluster, seconds = read(options.file), options.seconds
    snapshot = cluster.snapshot
    cost, fit = cost_evaluation(snapshot), fitness(snapshot)
    mean = average_fitness(fit.values())
    workers = [("worker", "tier", "$/s", "slots", "CE, $ a tuple", "fitness", "list")]
    for one in sorted(snapshot.workers, key=lambda one: cost.get(one.id, math.inf)):
        ranks = ("-", "-", "-")
        if one.id in cost:
            high = "high" if fit[one.id] >= mean else "low"
            ranks = (f"{cost[one.id]:.3g}", f"{fit[one.id]:.3g}", high)
        workers.append((one.id, one.tier or "-", f"{one.price_per_s:.6g}", str(one.slots), *ranks))
    lines = [_table(workers), ""]
    if not cost:
        lines += ["No worker has processed a tuple: CETSA and LBA-CE are round robin.", ""]
    rows = [("policy", "workers", "unplaced", "$/s", f"$ for {seconds:g} s", "load", "S")]
    for plan in _plans(cluster):
        costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
        counts = (plan.policy, str(len(plan.by_worker)), str(len(plan.unplaced)))
        money = (f"{rent_per_s(plan, snapshot):.6g}", f"{costs.rc + costs.cc:.4g}")
        rows.append((*counts, *money, *_balance(cluster, plan)))
    print("\n".join([*lines, _table(rows)]))
    return 0


def _simulate(options: argparse.Namespace) -> int:
    """A row a policy (all but the exact one unless given), means of so many seeds."""
    cluster, seconds, seeds = read(options.file), options.seconds, options.seeds
    if not seconds >= 10 or seeds < 1:
        raise ArgumentError(f"--seconds {seconds:g} --seeds {seeds}: give at least 10 and 1")
    rate = _offered(cluster.graph)
    rows: list[tuple[str, ...]] = [("policy", "workers", "$/s", *_MEASURES)]
    for name in options.policy or _ALL:
        plan = _policy(name, cluster).plan(cluster.graph, cluster.snapshot)
        shown = ["no room"] * len(_MEASURES)
        if not plan.unplaced:
            runs = [_simulated(cluster, plan, rate, seconds, seed) for seed in range(seeds)]
            shown = [_spread(values) for values in zip(*runs, strict=True)]
        rent = f"{rent_per_s(plan, cluster.snapshot):.6g}"
        rows.append((name, str(len(plan.by_worker)), rent, *shown))
    runs_of = "one seed" if seeds == 1 else f"{seeds} seeds; mean ± half of the range"
    print(f"{rate:g} rows/s ± 20 % for {seconds:g} s, {runs_of}\n\n{_table(rows)}")
    return 0


def _offered(graph: JobGraph) -> float:
    """The job's rows a second: those of its sources, 1,000 a task where the file has no rate."""
    if idle := [task.operator for task in graph.tasks if not task.demand.cpu_cores]:
        needs = "the simulator needs the CPU of a row; give cpu_cores and rate_in_per_s"
        raise ClusterFileError(f"operator {idle[0]!r} has cpu_cores 0: {needs}")
    fed = {graph.by_id[edge.target].operator for edge in graph.edges}
    return math.fsum(
        math.fsum(task.rate_in_per_s for task in tasks) or _RATE_PER_TASK * len(tasks)
        for name, tasks in graph.operators.items()
        if name not in fed
    )


def _simulated(
    cluster: Cluster, plan: Plan, rate: float, seconds: float, seed: int
) -> tuple[float, ...]:
    """``_MEASURES`` of the job under a plan that places all tasks, without the first fifth."""
    width = max(task.demand.cpu_cores for task in cluster.graph.tasks)
    arrived = Arrivals(rate, noise=0.2, seed=seed, horizon_s=math.ceil(seconds))
    query = Simulation(
        cluster.graph, _left(cluster.snapshot), arrived, rows_per_s=rate,
        placement=plan.placement, width=max(1.0, width), pipelined=True,
    )  # fmt: skip
    query.run(seconds)
    batches = [one for one in query.batches if one.start >= seconds / 5]
    if not batches:
        return 0.0, math.inf, 100.0, math.nan
    rows = [one.rows for one in batches]
    waits = [one.end - arrived.second(one.offset + one.rows / 2) for one in batches]
    late = 100 * statistics.fmean((wait > _LATE_S for wait in waits), rows)
    balance = statistics.fmean(deviation(one.busy.values()) for one in batches)
    span_s = batches[-1].end - batches[0].start
    return sum(rows) / span_s, statistics.fmean(waits, rows), late, balance


def _left(snapshot: Snapshot) -> list[Worker]:
    """The workers with what others leave of each, without those of which nothing is left."""
    found = []
    for one in snapshot.workers:
        slots = snapshot.free_slots[one.id]
        capacity = one.capacity.less(snapshot.taken(one.id).resources)
        if slots and capacity.cpu_cores:
            found.append(replace(one, slots=slots, capacity=capacity))
    return found


def _policy(name: str, cluster: Cluster) -> Policy:
    """A policy; those that minimise costs take the prices and weights of the file."""
    return policy(name, **({"cost": cluster.cost} if name in ("exact", "local-search") else {}))


def _balance(cluster: Cluster, plan: Plan) -> tuple[str, str]:
    """The highest load of a worker, and S."""
    loads = planned_loads(plan.placement, cluster.graph, cluster.snapshot).values()
    return f"{max(loads, default=0):.0%}", f"{deviation(loads):.3f}"


def _plans(cluster: Cluster) -> list[Plan]:
    """The plans of all policies but the exact one, those that place more first, then by cost."""
    graph, snapshot = cluster.graph, cluster.snapshot

    def cost(plan: Plan) -> tuple[int, float]:
        network = cluster.cost.network_per_s(plan, graph, snapshot)
        return len(plan.unplaced), rent_per_s(plan, snapshot) + network

    return sorted((_policy(name, cluster).plan(graph, snapshot) for name in _ALL), key=cost)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns, the first row above a line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _spread(values: Sequence[float]) -> str:
    """The mean of some runs, and half of their range."""
    mean, half = statistics.fmean(values), (max(values) - min(values)) / 2
    shown = [f"{one:.0f}" if abs(one) >= 100 else f"{one:.3g}" for one in (mean, half)]
    return " ± ".join(shown[: min(len(values), 2)])


if __name__ == "__main__":
    sys.exit(main())
