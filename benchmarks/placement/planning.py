"""What planning, a step, and pinning cost, and how far plans are from the optimum.

Every plan is checked before it is timed; rents are compared with the exact optimum on small
clusters. The pins are made by one call into the JVM, so they cost the same on a local master as on
a cluster, where tests check the placement of tasks. A step changes the placement, or rests: loads
are skewed and vary by 3 %, and after a few steps nothing is left to gain. It is CPU time of the
process, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import math
import random
import statistics
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.timing import Times, median_of, outcome, seconds_of
from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    LBACE,
    POLICIES,
    Controller,
    Edge,
    Exact,
    JobGraph,
    Plan,
    Receipt,
    Resources,
    Snapshot,
    StStream,
    Task,
    Worker,
    policy,
)
from scheduling.errors import TooLargeError
from scheduling.spark import Executor, internals, pin

SIZES = ((100, 10), (1_000, 100), (10_000, 1_000))
LIMIT_MS = 50.0  # for 1,000 tasks on 100 workers
SEARCHED_MS = 150.0  # of the policy that searches
NAMES = tuple(name for name in POLICIES if name != "exact")
_EXECUTORS = [Executor(f"host-{i}", str(i)) for i in range(3)]
_PIN_MS = 0.1
_TIERS = ((4, 8, 2.417e-3), (8, 12, 4.861e-3), (12, 16, 7.778e-3))  # cores, GB, $/s


def planning(context: Context) -> Outcome:
    """Measure; quick: without 10,000 tasks, and 20 small clusters instead of 100."""
    sizes, rounds = context.pick((SIZES[:2], 5), (SIZES, 3))
    times: dict[str, Times] = {}
    for tasks, workers in sizes:
        graph, snapshot = cluster(tasks, workers, seed=context.seed + tasks)
        by_name = times[f"{tasks:,} tasks on {workers:,} workers"] = {}
        for name in NAMES:
            assert_feasible(policy(name).plan(graph, snapshot), graph, snapshot)
            by_name[name] = [_cpu_ms(name, graph, snapshot) for _ in range(rounds)]
    size = "1,000 tasks on 100 workers"
    figures = [
        Figure(f"plan for {size}, {name}", statistics.median(ms),
               SEARCHED_MS if name == "local-search" else LIMIT_MS, True, unit="ms")
        for name, ms in times[size].items()
    ]  # fmt: skip
    worst = _worst_rent(context, context.pick(20, 100))
    figures.append(Figure("local search above the optimum, worst case", worst, 0.05, True))
    return outcome("CPU time of a plan", times, figures, unit="ms")


def _cpu_ms(name: str, graph: JobGraph, snapshot: Snapshot) -> float:
    """CPU time of a plan: what else runs on the machine counts little."""
    began_s = time.process_time()
    policy(name).plan(graph, snapshot)
    return (time.process_time() - began_s) * 1e3


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
        Task(f"t{i}", f"operator-{3 * i // tasks}", i, Resources(*needs))
        for i in range(tasks)
        for needs in [[each * draw.uniform(0.5, 1.5) for each in (cpu, memory_mb)]]
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


def _worst_rent(context: Context, cases: int) -> float:
    """The largest rent of the local search over the exact optimum's, less 1: up to 12 workers.

    A case in which it leaves out more tasks than the optimum counts as infinite; cases that are not
    proven in time are skipped.
    """
    worst = 0.0
    for case in range(context.seed, context.seed + cases):
        draw = random.Random(case)
        graph, snapshot = cluster(draw.randint(6, 18), draw.randint(3, 12), case)
        try:
            best = Exact().plan(graph, snapshot)
        except TooLargeError:
            continue
        if not best.unplaced:
            plan = policy("local-search").plan(graph, snapshot)
            worst = max(worst, math.inf if plan.unplaced else plan.score / best.score - 1)
    return worst


def pinning(context: Context) -> Outcome:
    """What pins cost on the driver, without planning the query and its shuffles below the pins."""
    counts, rounds = context.pick(((48, 192), 5), ((48, 192, 2_400), 15))
    times = {
        f"{count} partitions": [_ms_per_partition(context.spark, count) for _ in range(rounds + 2)]
        for count in counts
    }
    # The new DataFrame of a pin is a fixed cost, which few partitions share.
    figures = [
        median_of(f"ms a partition to pin {count}", ms[2:], _PIN_MS, unit="ms")
        for count, ms in zip(counts, times.values(), strict=True)
    ]
    return outcome("Pinning a partition", {"driver": times}, figures, unit="ms")


def _ms_per_partition(spark: SparkSession, count: int) -> float:
    ids = spark.range(0, 1_000, 1, 2)
    df = ids.withColumn("k", F.xxhash64("id")).repartition(count, "k")
    internals.plan_of(df)  # plans it, and runs the shuffle
    return seconds_of(pin, df, [_EXECUTORS[i % 3] for i in range(count)]) * 1e3 / count


_LIMITS_MS = {1_000: (50.0, 150.0), 10_000: (5_000.0, None)}  # without a search, and with it
_STEPS = 12
_PERIOD_S = 100.0  # longer than the cooldown


class Cluster:
    """A cluster whose tasks run where the controller wants them."""

    def __init__(self, graph: JobGraph, bare: Snapshot, *, release: bool, seed: int) -> None:
        self.graph, self._bare, self._draw = graph, bare, random.Random(seed)
        self._can = frozenset({"place", "move"} | ({"executors"} if release else set()))
        self._plan: Plan | None = None
        self._loads = {
            task.id: 0.6 * task.demand.cpu_cores * self._draw.paretovariate(2.5)
            for task in graph.tasks
        }
        self.now_s = 0.0

    def snapshot(self) -> Snapshot:
        """The loads of the tasks, measured."""
        if self._plan is None:
            return self._bare
        usage = {
            task: Resources(load * self._draw.uniform(0.97, 1.03), 0)
            for task, load in self._loads.items()
        }
        return dataclasses.replace(self._bare, placement=dict(self._plan.placement), usage=usage)

    def capabilities(self) -> frozenset[str]:
        """With or without the release of workers."""
        return self._can

    def apply(self, plan: Plan) -> Receipt:
        """All tasks land."""
        self._plan = plan
        left = tuple(one.task for one in plan.unplaced)
        return Receipt(plan.placement, plan.placement, left)


def steps(context: Context) -> Outcome:
    """Measure; quick: without 10,000 tasks."""
    figures, times = [], Times()
    for tasks, workers in context.pick(SIZES[1:2], SIZES[1:]):
        for streams, release, search in itertools.product((False, True), repeat=3):
            if search and tasks > SIZES[1][0]:
                continue  # nobody searches so many
            graph, bare = cluster(tasks, workers, seed=context.seed + tasks)
            made = Cluster(
                graph if streams else JobGraph(graph.tasks), bare, release=release, seed=1
            )
            name = f"{tasks:,} tasks on {workers:,} workers"
            name += ", streams" * streams + ", idle ones released" * release
            name += ", with the search" * search
            times[name] = _milliseconds(made, search)
            bound = _LIMITS_MS[tasks][search]
            figures.append(Figure(f"step, {name}", max(times[name]), bound, True, unit="ms"))
    return outcome("The CPU time of a step", {"step": times}, figures, unit="ms")


def _milliseconds(cluster: Cluster, search: bool) -> list[float]:
    """Of each step."""
    controller = Controller(
        cluster, LBACE(), cluster, lambda _: cluster.graph,
        {"operator-0": len(cluster.graph.tasks)}, clock=lambda: cluster.now_s,
        rebalancer=StStream(), search=search,
    )  # fmt: skip
    spent = []
    gc.collect()
    gc.freeze()  # a collection of the harness's own heap is no part of a step
    for _ in range(_STEPS):
        began_s = time.process_time()
        controller.step()
        spent.append((time.process_time() - began_s) * 1e3)
        cluster.now_s += _PERIOD_S
    gc.unfreeze()
    return spent
