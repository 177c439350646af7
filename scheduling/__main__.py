"""``python -m scheduling example|plan|explain|simulate``: placements of a cluster file.

``plan`` places the job and prints who goes where and why, what it costs, and what the next best
policy would cost. ``explain`` prints what each policy would do, and how the ranks come about.
``simulate FILE`` runs the job under each policy; ``simulate`` alone runs the papers' comparisons
(:mod:`scheduling.simulate`). ``example`` prints a cluster file to begin with.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from scheduling.cluster_file import Cluster, read
from scheduling.cost import rent_per_s
from scheduling.errors import SchedulingError
from scheduling.example_cluster import EXAMPLE
from scheduling.load import (
    average_fitness,
    cost_evaluation,
    deviation,
    fitness,
    planned_loads,
)
from scheduling.model import Plan
from scheduling.policies import POLICIES, Timed, policy
from scheduling.table import table

__all__ = ["main"]

_PER_HOUR = 3600


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: the words after ``python -m scheduling``; those of the process unless given.

    Returns:
        0; 1 when a task has no room; 2 when the arguments or the file cannot be used.
    """
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] == ["simulate"]:
        from scheduling import simulate
        from scheduling.simulate import cluster_runs

        named = len(words) > 1 and not words[1].startswith("-")
        return cluster_runs.main(words[1:]) if named else int(simulate.main(words[1:]))
    parser = argparse.ArgumentParser(
        prog="python -m scheduling", description="Place the tasks of a job on priced workers."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    plans = commands.add_parser("plan", help="place the job: a table, reasons, costs")
    plans.add_argument("--policy", default="lba-ce", help=f"of {', '.join(POLICIES)}; lba-ce")
    explains = commands.add_parser("explain", help="ranks of the workers, and every policy's cost")
    commands.add_parser("simulate", help="run a file's job, or the papers'", add_help=False)
    commands.add_parser("example", help="print a cluster file to begin with")
    for command in (plans, explains):
        command.add_argument("file", help="a cluster file (YAML); see scheduling.cluster_file")
        command.add_argument(
            "--seconds", type=float, default=_PER_HOUR, help="how long the job runs; 3600"
        )
    options = parser.parse_args(words)
    if options.command == "example":
        print(EXAMPLE, end="")
        return 0
    try:
        cluster = read(options.file)
        if options.command == "explain":
            print(explained(cluster, options.seconds))
            return 0
        plan = Timed(policy(options.policy), time.perf_counter).plan(
            cluster.graph, cluster.snapshot
        )
        if plan.fallback:
            print(f"warning: {plan.policy} fell back to {plan.fallback}", file=sys.stderr)
        print(planned(cluster, plan, options.seconds))
        return 1 if plan.unplaced else 0
    except (SchedulingError, ImportError) as error:
        print(f"python -m scheduling: {error}", file=sys.stderr)
        return 2


def planned(cluster: Cluster, plan: Plan, seconds: float) -> str:
    """A plan as text: the placement, the reasons, the cost, the next best policy's cost."""
    by_id = cluster.snapshot.by_id
    rows = [("task", "worker", "tier", "reason")]
    rows += [
        (one.task, one.worker, by_id[one.worker].tier or "-", one.reason)
        for one in plan.assignments
    ]
    rows += [(one.task, "(none now)", "-", one.reason) for one in plan.unplaced]
    costs = cluster.cost.costs(plan, cluster.graph, cluster.snapshot, seconds)
    loads = planned_loads(plan.placement, cluster.graph, cluster.snapshot)
    lines = [
        table(rows),
        "",
        f"{plan.policy}: {len(plan.assignments)} tasks on {len(plan.by_worker)} of "
        f"{len(by_id)} workers, planned in {plan.scheduling_time_s * 1000:.1f} ms",
        f"  rent {rent_per_s(plan, cluster.snapshot):.6g} $/s; for {seconds:g} s: rent "
        f"{costs.rc:.4g}, network {costs.cc:.4g}, scheduling {costs.sc:.2g} $, weighted "
        f"{costs.wec:.4g}",
        f"  load {max(loads.values(), default=0):.0%} at most, S {deviation(loads.values()):.3f}",
    ]
    others = [one for one in _all(cluster) if one.policy != plan.policy]
    # Policies that leave more tasks out are no cheaper.
    others = [one for one in others if len(one.unplaced) <= len(plan.unplaced)]
    if others:
        best = others[0]
        rent = rent_per_s(best, cluster.snapshot)
        lines.append(f"  next best: {best.policy}, {rent:.6g} $/s ({_than(cluster, best, plan)})")
    return "\n".join(lines)


def explained(cluster: Cluster, seconds: float) -> str:
    """The ranks of the workers and the cost of every policy, as text."""
    snapshot = cluster.snapshot
    cost, fit = cost_evaluation(snapshot), fitness(snapshot)
    mean = average_fitness(fit.values())
    order = sorted(snapshot.workers, key=lambda one: cost.get(one.id, 0.0))
    rows = [("worker", "tier", "$/s", "slots", "CE, $ a tuple", "fitness", "list")]
    rows += [
        (
            worker.id,
            worker.tier or "-",
            f"{worker.price_per_s:.6g}",
            str(worker.slots),
            f"{cost[worker.id]:.3g}" if cost else "-",
            f"{fit[worker.id]:.3g}" if fit else "-",
            ("high" if fit[worker.id] >= mean else "low") if fit else "-",
        )
        for worker in order
    ]
    lines = [table(rows), ""]
    if not cost:
        lines += ["No worker has processed a tuple: CETSA and LBA-CE are round robin.", ""]
    rows = [("policy", "workers", "unplaced", "$/s", f"$ for {seconds:g} s", "load", "S")]
    for plan in _all(cluster):
        loads = planned_loads(plan.placement, cluster.graph, snapshot).values()
        costs = cluster.cost.costs(plan, cluster.graph, snapshot, seconds)
        rows.append(
            (
                plan.policy,
                str(len(plan.by_worker)),
                str(len(plan.unplaced)),
                f"{rent_per_s(plan, snapshot):.6g}",
                f"{costs.rc + costs.cc:.4g}",
                f"{max(loads, default=0):.0%}",
                f"{deviation(loads):.3f}",
            )
        )
    lines.append(table(rows))
    return "\n".join(lines)


def _all(cluster: Cluster) -> list[Plan]:
    """The plans of all policies but the exact one, those that place more first, then by cost."""
    plans = [
        policy(name).plan(cluster.graph, cluster.snapshot) for name in POLICIES if name != "exact"
    ]

    def cost(plan: Plan) -> float:
        network = cluster.cost.network_per_s(plan, cluster.graph, cluster.snapshot)
        return rent_per_s(plan, cluster.snapshot) + network

    return sorted(plans, key=lambda plan: (len(plan.unplaced), cost(plan)))


def _than(cluster: Cluster, other: Plan, plan: Plan) -> str:
    mine, theirs = rent_per_s(plan, cluster.snapshot), rent_per_s(other, cluster.snapshot)
    if not mine or mine == theirs:
        return "as much"
    return f"{abs(theirs / mine - 1):.1%} {'more' if theirs > mine else 'less'}"


if __name__ == "__main__":
    sys.exit(main())
