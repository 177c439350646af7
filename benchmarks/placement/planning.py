"""What planning costs, how far plans are from the optimum, and what pinning partitions costs.

Every plan is checked before it is timed; rents are compared with the exact optimum on small
clusters. The pins are made by one call into the JVM, so they cost the same on a local master as on
a cluster, where tests check the placement of tasks.
"""

from __future__ import annotations

import math
import random
import statistics
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.timing import compare_joins, median_of, ratio, rows_by_way, seconds_of
from benchmarks.placement.feasible import assert_feasible
from scheduling import POLICIES, Edge, Exact, JobGraph, Resources, Snapshot, Task, Worker, policy
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
    times = {name: {} for name in NAMES}  # type: dict[str, dict[str, float]]
    for tasks, workers in sizes:
        graph, snapshot = cluster(tasks, workers, seed=context.seed + tasks)
        for name in NAMES:
            plan = policy(name).plan(graph, snapshot)
            assert_feasible(plan, graph, snapshot)
            ms = statistics.median(_cpu_ms(name, graph, snapshot) for _ in range(rounds))
            times[name][f"{tasks:,} x {workers:,}"] = ms
            context.say(f"  {tasks:>6,} tasks x {workers:>5,} workers  {name:<20} {ms:10.1f} ms")
    worst = _worst_rents(context, context.pick(20, 100))
    figures = [
        Figure(f"plan for 1,000 tasks on 100 workers, {name}", by_size["1,000 x 100"],
               SEARCHED_MS if name == "local-search" else LIMIT_MS, True, unit="ms")
        for name, by_size in times.items()
    ]  # fmt: skip
    above = worst["local-search"]
    figures.append(Figure("local search above the optimum, worst case", above, 0.05, True))
    plans = [{"policy": n} | {f"ms, {s}": ms for s, ms in by.items()} for n, by in times.items()]
    rents = [
        {"policy": name, "most": f"{over:.1%}" if math.isfinite(over) else "leaves tasks out"}
        for name, over in sorted(worst.items(), key=lambda item: item[1])
    ]
    tables = [
        Table.of("Median CPU time of a plan, tasks x workers", plans),
        Table.of("Rent above the exact optimum, the worst small cluster", rents),
    ]
    return Outcome(figures, tables, measured={"times": times, "worst": worst})


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


def pinning(context: Context) -> Outcome:
    """What pins cost on the driver and in a micro-batch; pinned rows are the same rows."""
    spark = context.spark
    counts, rounds, rows = context.pick(((48, 192), 5, 200_000), ((48, 192, 2_400), 15, 2_000_000))
    driver = {
        count: [_ms_per_partition(spark, rows, count) for _ in range(rounds + 2)][2:]
        for count in counts
    }
    ways = {
        "with pins": lambda df: _pinned(_rows(df, 12)),
        "without pins": lambda df: _rows(df, 12),
    }
    given = spark.range(0, rows, 1, 2)
    _, seconds = compare_joins(context, "12 partitions", ways, given, ["id", "k"], rounds)
    # The new DataFrame of a pin is a fixed cost, which few partitions share.
    figures = [
        median_of(f"ms a partition to pin {count}", times, _PIN_MS, unit="ms")
        for count, times in driver.items()
    ]
    name = f"{rows:,} rows in 12 partitions, pinned / not"
    figures.append(ratio(name, *seconds.values(), at_most=True, by_round=True))
    table = Table.of(
        "Milliseconds of the driver to pin a partition",
        rows_by_way({f"{count} partitions": times for count, times in driver.items()}, "ms"),
        "Without planning the query and running the shuffles below the pins.",
    )
    return Outcome(figures, [table], measured={"driver_ms": driver, "seconds": seconds})


def _rows(ids: DataFrame, count: int) -> DataFrame:
    return ids.withColumn("k", F.xxhash64("id")).repartition(count, "k")


def _pinned(df: DataFrame) -> DataFrame:
    return pin(df, [_EXECUTORS[i % 3] for i in range(internals.plan_of(df)[2])]).df


def _ms_per_partition(spark: SparkSession, rows: int, count: int) -> float:
    df = _rows(spark.range(0, min(rows, 1_000), 1, 2), count)
    internals.plan_of(df)  # plans it, and runs the shuffle
    return seconds_of(pin, df, [_EXECUTORS[i % 3] for i in range(count)]) * 1e3 / count
