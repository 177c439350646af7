"""What the command line prints: plans, ranks and simulated runs as tables of text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from scheduling.cluster_file import Cluster
from scheduling.cost import rent_per_s
from scheduling.load import average_fitness, cost_evaluation, deviation, fitness, planned_loads
from scheduling.model import Plan
from scheduling.policies import POLICIES, policy
from scheduling.simulate.cluster_job import MEASURES, job_of, simulated

__all__ = ["explained", "planned", "simulations", "table"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns, the first row above a line.

    >>> print(table([("a", "b"), ("long", "1")]))
    a     b
    ----  -
    long  1
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in ruled
    )


def planned(cluster: Cluster, plan: Plan, seconds: float) -> str:
    """A plan: tasks without room first, the placement with reasons, costs, the next best policy."""
    snapshot = cluster.snapshot
    rows = [("task", "worker", "tier", "reason")]
    rows += [(one.task, "(none now)", "-", one.reason) for one in plan.unplaced]
    rows += [
        (one.task, one.worker, snapshot.by_id[one.worker].tier or "-", one.reason)
        for one in plan.assignments
    ]
    costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
    loads = planned_loads(plan.placement, cluster.graph, snapshot)
    rent = rent_per_s(plan, snapshot)
    lines = [
        table(rows),
        "",
        f"{plan.policy}: {len(plan.assignments)} tasks on {len(plan.by_worker)} of "
        f"{len(snapshot.by_id)} workers, planned in {plan.scheduling_time_s * 1000:.1f} ms",
        f"  rent {rent:.6g} $/s; for {seconds:g} s: rent {costs.rc:.4g}, network {costs.cc:.4g}, "
        f"scheduling {costs.sc:.2g} $, weighted {costs.wec:.4g}",
        f"  load {max(loads.values(), default=0):.0%} at most, S {deviation(loads.values()):.3f}",
    ]
    # Policies that leave more tasks out are no cheaper.
    for one in _all(cluster):
        if one.policy != plan.policy and len(one.unplaced) <= len(plan.unplaced):
            theirs = rent_per_s(one, snapshot)
            change = theirs / rent - 1 if rent else 0.0
            than = f"{abs(change):.1%} {'more' if change > 0 else 'less'}" if change else "as much"
            lines.append(f"  next best: {one.policy}, {theirs:.6g} $/s ({than})")
            break
    return "\n".join(lines)


def explained(cluster: Cluster, seconds: float) -> str:
    """The ranks of the workers, and what every policy but the exact one would do."""
    snapshot = cluster.snapshot
    cost, fit = cost_evaluation(snapshot), fitness(snapshot)
    mean = average_fitness(fit.values())
    rows = [("worker", "tier", "$/s", "slots", "CE, $ a tuple", "fitness", "list")]
    for worker in sorted(snapshot.workers, key=lambda one: cost.get(one.id, math.inf)):
        name, known = worker.id, worker.id in cost and worker.id in fit
        told = (name, worker.tier or "-", f"{worker.price_per_s:.6g}", str(worker.slots))
        ranks = ("-", "-", "-")
        if known:
            high = "high" if fit[name] >= mean else "low"
            ranks = (f"{cost[name]:.3g}", f"{fit[name]:.3g}", high)
        rows.append((*told, *ranks))
    lines = [table(rows), ""]
    lines += [f"Ignored: {name}: {why}." for name, why in getattr(snapshot, "ignored", {}).items()]
    if not cost:
        lines += ["No worker has processed a tuple: CETSA and LBA-CE are round robin.", ""]
    rows = [("policy", "workers", "unplaced", "$/s", f"$ for {seconds:g} s", "load", "S")]
    for plan in _all(cluster):
        loads = planned_loads(plan.placement, cluster.graph, snapshot).values()
        costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
        counts = (plan.policy, str(len(plan.by_worker)), str(len(plan.unplaced)))
        money = (f"{rent_per_s(plan, snapshot):.6g}", f"{costs.rc + costs.cc:.4g}")
        rows.append((*counts, *money, f"{max(loads, default=0):.0%}", f"{deviation(loads):.3f}"))
    lines.append(table(rows))
    return "\n".join(lines)


def simulations(cluster: Cluster, names: Iterable[str], seconds: float, seeds: int) -> str:
    """A row a policy: rows a second, waits and balance, means of so many seeds."""
    offered = job_of(cluster)[1]
    rows: list[tuple[str, ...]] = [("policy", "workers", "$/s", *MEASURES)]
    for name in names:
        plan = policy(name).plan(cluster.graph, cluster.snapshot)
        shown = ["no room"] * len(MEASURES)
        if not plan.unplaced:
            runs = [simulated(cluster, plan, seconds, seed) for seed in range(seeds)]
            shown = [_spread([run[measure] for run in runs]) for measure in MEASURES]
        rent = f"{rent_per_s(plan, cluster.snapshot):.6g}"
        rows.append((name, str(len(plan.by_worker)), rent, *shown))
    runs_of = "one seed" if seeds == 1 else f"{seeds} seeds; mean ± half of the range"
    return f"{offered:g} rows/s ± 20 % for {seconds:g} s, {runs_of}\n\n{table(rows)}"


def _all(cluster: Cluster) -> list[Plan]:
    """The plans of all policies but the exact one, those that place more first, then by cost."""
    graph, snapshot = cluster.graph, cluster.snapshot

    def cost(plan: Plan) -> tuple[int, float]:
        network = cluster.cost.network_per_s(plan, graph, snapshot)
        return len(plan.unplaced), rent_per_s(plan, snapshot) + network

    names = [name for name in POLICIES if name != "exact"]
    return sorted((policy(name).plan(graph, snapshot) for name in names), key=cost)


def _spread(values: Sequence[float]) -> str:
    """The mean of some runs, and half of their range.

    >>> _spread([1.0, 3.0]), _spread([0.07]), _spread([20_000.4, 20_761.0])
    ('2 ± 1', '0.07', '20381 ± 380')
    """
    mean, half = statistics.fmean(values), (max(values) - min(values)) / 2
    shown = [f"{one:.0f}" if abs(one) >= 100 else f"{one:.3g}" for one in (mean, half)]
    return " ± ".join(shown[: min(len(values), 2)])
