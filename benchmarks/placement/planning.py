"""How long planning takes, and how far from the optimum its plans are.

Every plan is checked before it is timed; rents are held against the exact optimum on small
clusters. What pinning costs on a live cluster is measured elsewhere.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from scheduling import (
    POLICIES,
    Edge,
    Exact,
    JobGraph,
    Resources,
    Snapshot,
    Task,
    Worker,
    policy,
)
from scheduling.errors import TooLargeError

__all__ = ["cluster", "figures", "measure", "quality", "run"]

SIZES = ((100, 10), (1_000, 100), (10_000, 1_000))
LIMIT_MS = 100.0  # for 1,000 tasks on 100 workers
_TIERS = ((4, 8, 2.417e-3), (8, 12, 4.861e-3), (12, 16, 7.778e-3))  # cores, GB, $/s
_SLOW = ("exact",)


def run(context: Context) -> Outcome:
    """Measure; quick: without 10,000 tasks, and 20 small clusters instead of 100."""
    quick = context.quick
    context.say("Planning time")
    sizes, rounds = (SIZES[:2], 5) if quick else (SIZES, 3)
    times = measure(sizes, rounds, seed=context.seed, say=context.say)
    context.say("Rent against the exact optimum")
    worst = quality(20 if quick else 100, seed=context.seed, say=context.say)
    heads = [_named(*size) for size in sizes]
    rows = tuple((name, *(times[name].get(head) for head in heads)) for name in times)
    columns = ("policy", *(f"ms, {head}" for head in heads))
    above = tuple(
        (name, f"{over:.1%}" if math.isfinite(over) else "leaves tasks out")
        for name, over in sorted(worst.items(), key=lambda item: item[1])
    )
    tables = [
        Table("Median time of a plan, tasks x workers", columns, rows),
        Table("Rent above the exact optimum, the worst small cluster", ("policy", "most"), above),
    ]
    return Outcome(figures(times, worst), tables, measured={"times": times, "worst": worst})


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
    share = sum(worker.usable.cpu_cores for worker in machines) / (2 * tasks)
    memory_share = sum(worker.usable.memory_mb for worker in machines) / (3 * tasks)
    every = tuple(
        Task(
            f"t{i}",
            f"operator-{3 * i // tasks}",
            i,
            Resources(share * draw.uniform(0.5, 1.5), memory_share * draw.uniform(0.5, 1.5)),
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


def measure(
    sizes: Sequence[tuple[int, int]],
    rounds: int,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> dict[str, dict[str, float]]:
    """Milliseconds of a plan, the median of some rounds, by policy and size."""
    found: dict[str, dict[str, float]] = {}
    for tasks, workers in sizes:
        graph, snapshot = cluster(tasks, workers, seed=seed + tasks)
        for name in POLICIES:
            if name in _SLOW:
                continue
            plan = policy(name).plan(graph, snapshot)
            plan._check(graph, snapshot)
            times = []
            for _ in range(rounds):
                start = time.perf_counter()
                policy(name).plan(graph, snapshot)
                times.append((time.perf_counter() - start) * 1000)
            ms = statistics.median(times)
            found.setdefault(name, {})[_named(tasks, workers)] = ms
            say(
                f"  {tasks:>6,} tasks x {workers:>5,} workers  {name:<20} {ms:10.1f} ms  "
                f"{plan.score:.4f} $/s, {len(plan.unplaced)} unplaced"
            )
    return found


def _named(tasks: int, workers: int) -> str:
    return f"{tasks:,} x {workers:,}"


def quality(cases: int, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, float]:
    """The largest rent over that of the exact optimum, less 1, by policy: up to 12 workers.

    Cases in which a policy leaves more tasks out than the optimum does are counted with
    infinity; cases that are not proven in time are left out.
    """
    worst: dict[str, float] = {}
    proven = 0
    for case in range(seed, seed + cases):
        draw = random.Random(case)
        graph, snapshot = cluster(draw.randint(6, 18), draw.randint(3, 12), case)
        try:
            best = Exact().plan(graph, snapshot)
        except TooLargeError:
            continue
        if best.unplaced:
            continue
        proven += 1
        for name in POLICIES:
            if name not in _SLOW:
                plan = policy(name).plan(graph, snapshot)
                over = plan.score / best.score - 1 if not plan.unplaced else float("inf")
                worst[name] = max(worst.get(name, 0.0), over)
    for name, over in sorted(worst.items(), key=lambda item: item[1]):
        say(f"  {name:<20} at most {over:8.1%} above the optimum of {proven} cases")
    return worst


def figures(times: dict[str, dict[str, float]], worst: dict[str, float]) -> list[Figure]:
    """Figure 9 of the design: planning time, and local search against the optimum."""
    named = _named(*SIZES[1])
    found = [
        Figure(
            f"plan for 1,000 tasks on 100 workers, {name}",
            by_size[named],
            LIMIT_MS,
            True,
            unit="ms",
        )
        for name, by_size in times.items()
        if named in by_size
    ]
    if "local-search" in worst:
        found.append(
            Figure("local search above the optimum, worst case", worst["local-search"], 0.05, True)
        )
    return found
