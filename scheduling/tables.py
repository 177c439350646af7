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
from scheduling.simulate.planned import MEASURES, offered, simulated

__all__ = ["explained", "planned", "simulations"]

_ALL = [name for name in POLICIES if name != "exact"]


def planned(cluster: Cluster, plan: Plan, seconds: float) -> str:
    """A plan: tasks without room first, the placement with reasons, costs, the next best policy."""
    snapshot = cluster.snapshot
    costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
    loads = planned_loads(plan.placement, cluster.graph, snapshot)
    rent = rent_per_s(plan, snapshot)
    rows = [("task", "worker", "tier", "reason")]
    rows += [(one.task, "(none now)", "-", one.reason) for one in plan.unplaced]
    for one in plan.assignments:
        rows.append((one.task, one.worker, snapshot.by_id[one.worker].tier or "-", one.reason))
    lines = [
        _table(rows),
        "",
        f"{plan.policy}: {len(plan.assignments)} tasks on {len(plan.by_worker)} of "
        f"{len(snapshot.by_id)} workers, planned in {plan.scheduling_time_s * 1000:.1f} ms",
        f"  rent {rent:.6g} $/s; for {seconds:g} s: rent {costs.rc:.4g}, network {costs.cc:.4g}, "
        f"scheduling {costs.sc:.2g} $, weighted {costs.wec:.4g}",
        f"  load {max(loads.values(), default=0):.0%} at most, S {deviation(loads.values()):.3f}",
    ]
    # Policies that leave more tasks out are no cheaper.
    others = (other for other in _plans(cluster) if other.policy != plan.policy)
    if best := next((one for one in others if len(one.unplaced) <= len(plan.unplaced)), None):
        theirs = rent_per_s(best, snapshot)
        change = theirs / rent - 1 if rent else 0.0
        than = f"{abs(change):.1%} {'more' if change > 0 else 'less'}" if change else "as much"
        lines.append(f"  next best: {best.policy}, {theirs:.6g} $/s ({than})")
    return "\n".join(lines)


def explained(cluster: Cluster, seconds: float) -> str:
    """The ranks of the workers, and what every policy but the exact one would do."""
    snapshot = cluster.snapshot
    cost, fit = cost_evaluation(snapshot), fitness(snapshot)
    mean = average_fitness(fit.values())
    workers = [("worker", "tier", "$/s", "slots", "CE, $ a tuple", "fitness", "list")]
    for one in sorted(snapshot.workers, key=lambda one: cost.get(one.id, math.inf)):
        ranks = ("-", "-", "-")
        if one.id in cost and one.id in fit:
            high = "high" if fit[one.id] >= mean else "low"
            ranks = (f"{cost[one.id]:.3g}", f"{fit[one.id]:.3g}", high)
        workers.append((one.id, one.tier or "-", f"{one.price_per_s:.6g}", str(one.slots), *ranks))
    lines = [_table(workers), ""]
    lines += [f"Ignored: {name}: {why}." for name, why in snapshot.ignored.items()]
    if not cost:
        lines += ["No worker has processed a tuple: CETSA and LBA-CE are round robin.", ""]
    rows = [("policy", "workers", "unplaced", "$/s", f"$ for {seconds:g} s", "load", "S")]
    for plan in _plans(cluster):
        loads = planned_loads(plan.placement, cluster.graph, snapshot).values()
        costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
        counts = (plan.policy, str(len(plan.by_worker)), str(len(plan.unplaced)))
        money = (f"{rent_per_s(plan, snapshot):.6g}", f"{costs.rc + costs.cc:.4g}")
        rows.append((*counts, *money, f"{max(loads, default=0):.0%}", f"{deviation(loads):.3f}"))
    return "\n".join([*lines, _table(rows)])


def simulations(cluster: Cluster, names: Iterable[str] | None, seconds: float, seeds: int) -> str:
    """A row a policy (all but the exact one unless given), means of so many seeds."""
    rate = offered(cluster)
    rows: list[tuple[str, ...]] = [("policy", "workers", "$/s", *MEASURES)]
    for name in names or _ALL:
        plan = policy(name).plan(cluster.graph, cluster.snapshot)
        shown = ["no room"] * len(MEASURES)
        if not plan.unplaced:
            runs = [simulated(cluster, plan, seconds, seed) for seed in range(seeds)]
            shown = [_spread(values) for values in zip(*runs, strict=True)]
        rent = f"{rent_per_s(plan, cluster.snapshot):.6g}"
        rows.append((name, str(len(plan.by_worker)), rent, *shown))
    runs_of = "one seed" if seeds == 1 else f"{seeds} seeds; mean ± half of the range"
    return f"{rate:g} rows/s ± 20 % for {seconds:g} s, {runs_of}\n\n{_table(rows)}"


def _plans(cluster: Cluster) -> list[Plan]:
    """The plans of all policies but the exact one, those that place more first, then by cost."""
    graph, snapshot = cluster.graph, cluster.snapshot

    def cost(plan: Plan) -> tuple[int, float]:
        network = cluster.cost.network_per_s(plan, graph, snapshot)
        return len(plan.unplaced), rent_per_s(plan, snapshot) + network

    return sorted((policy(name).plan(graph, snapshot) for name in _ALL), key=cost)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns, the first row above a line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]]
    padded = (map(str.ljust, line, widths) for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _spread(values: Sequence[float]) -> str:
    """The mean of some runs, and half of their range.

    >>> _spread([1.0, 3.0]), _spread([0.07]), _spread([20_000.4, 20_761.0])
    ('2 ± 1', '0.07', '20381 ± 380')
    """
    mean, half = statistics.fmean(values), (max(values) - min(values)) / 2
    shown = [f"{one:.0f}" if abs(one) >= 100 else f"{one:.3g}" for one in (mean, half)]
    return " ± ".join(shown[: min(len(values), 2)])
