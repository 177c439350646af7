"""How long planning takes, and how far its plans are from the optimum.

Every plan is checked before it is timed; rents are compared with the exact optimum on small
clusters.
"""

from __future__ import annotations

import math
import random
import statistics

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.timing import seconds_of
from scheduling import POLICIES, Edge, Exact, JobGraph, Resources, Snapshot, Task, Worker, policy
from scheduling.errors import TooLargeError

SIZES = ((100, 10), (1_000, 100), (10_000, 1_000))
LIMIT_MS = 100.0  # for 1,000 tasks on 100 workers
NAMES = tuple(name for name in POLICIES if name != "exact")
_TIERS = ((4, 8, 2.417e-3), (8, 12, 4.861e-3), (12, 16, 7.778e-3))  # cores, GB, $/s


def run(context: Context) -> Outcome:
    """Measure; quick: without 10,000 tasks, and 20 small clusters instead of 100."""
    sizes, rounds = context.pick((SIZES[:2], 5), (SIZES, 3))
    times = {name: {} for name in NAMES}  # type: dict[str, dict[str, float]]
    for tasks, workers in sizes:
        graph, snapshot = cluster(tasks, workers, seed=context.seed + tasks)
        for name in NAMES:
            plan = policy(name).plan(graph, snapshot)
            plan._check(graph, snapshot)
            spent = [seconds_of(policy(name).plan, graph, snapshot) for _ in range(rounds)]
            ms = statistics.median(spent) * 1e3
            times[name][f"{tasks:,} x {workers:,}"] = ms
            context.say(f"  {tasks:>6,} tasks x {workers:>5,} workers  {name:<20} {ms:10.1f} ms")
    worst = _worst_rents(context, context.pick(20, 100))
    figures = [
        Figure(f"plan for 1,000 tasks on 100 workers, {name}", ms, LIMIT_MS, True, unit="ms")
        for name, by_size in times.items()
        if (ms := by_size.get("1,000 x 100")) is not None
    ]
    if "local-search" in worst:
        above = worst["local-search"]
        figures.append(Figure("local search above the optimum, worst case", above, 0.05, True))
    plans = [{"policy": n} | {f"ms, {s}": ms for s, ms in by.items()} for n, by in times.items()]
    rents = [
        {"policy": name, "most": f"{over:.1%}" if math.isfinite(over) else "leaves tasks out"}
        for name, over in sorted(worst.items(), key=lambda item: item[1])
    ]
    tables = [
        Table.of("Median time of a plan, tasks x workers", plans),
        Table.of("Rent above the exact optimum, the worst small cluster", rents),
    ]
    return Outcome(figures, tables, measured={"times": times, "worst": worst})


def cluster(tasks: int, workers: int, seed: int) -> tuple[JobGraph, Snapshot]:
    """A job of three operators on a cluster of three tiers, about half full, with history.

    Each task sends to two of the next operator.
    """
    draw = random.Random(seed)
    slots = max(1, 2 * tasks // workers)
    machines = []
    for i in range(workers):
        cores, memory, price = draw.choice(_TIERS)
        machines.append(Worker(f"w{i}", Resources(cores, memory * 1024), slots, price_per_s=price))
    cpu = sum(worker.usable.cpu_cores for worker in machines) / (2 * tasks)
    memory_mb = sum(worker.usable.memory_mb for worker in machines) / (3 * tasks)
    every = tuple(
        Task(
            f"t{i}",
            f"operator-{3 * i // tasks}",
            i,
            Resources(cpu * draw.uniform(0.5, 1.5), memory_mb * draw.uniform(0.5, 1.5)),
        )
        for i in range(tasks)
    )
    third = tasks // 3
    edges = tuple(
        Edge(f"t{i}", f"t{min(i + third + draw.randrange(third or 1), tasks - 1)}", 1e6)
        for i in range(tasks - third)
        for _ in range(2)
    )
    names = [worker.id for worker in machines]
    snapshot = Snapshot(
        0.0,
        tuple(machines),
        tuples=dict.fromkeys(names, 1e6),
        cost={worker.id: worker.price_per_s * draw.uniform(50, 150) for worker in machines},
        busyness={name: draw.random() for name in names},
    )
    return JobGraph(every, edges), snapshot


def _worst_rents(context: Context, cases: int) -> dict[str, float]:
    """The largest rent over that of the exact optimum, less 1, by policy: up to 12 workers.

    A case in which a policy leaves out more tasks than the optimum counts as infinite; cases
    that are not proven in time are skipped.
    """
    worst: dict[str, float] = {}
    for case in range(context.seed, context.seed + cases):
        draw = random.Random(case)
        graph, snapshot = cluster(draw.randint(6, 18), draw.randint(3, 12), case)
        try:
            best = Exact().plan(graph, snapshot)
        except TooLargeError:
            continue
        if best.unplaced:
            continue
        for name in NAMES:
            plan = policy(name).plan(graph, snapshot)
            over = math.inf if plan.unplaced else plan.score / best.score - 1
            worst[name] = max(worst.get(name, 0.0), over)
    for name, over in sorted(worst.items(), key=lambda item: item[1]):
        context.say(f"  {name:<20} at most {over:8.1%} above the optimum")
    return worst
