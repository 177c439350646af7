"""The live experiment: the papers' jobs, policies and scalers on a Spark cluster of this machine.

Six executors of three prices and speeds; every policy followed in every cycle, and with plans that
are kept until a change pays; St-Stream on its skewed loads; scalers under a load that rises,
stands and falls. Every answer is compared with Spark's own.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.papers.scheduling import placement_live_figures as figures
from benchmarks.papers.scheduling import placement_live_jobs as jobs
from benchmarks.papers.scheduling import placement_live_runs as runs
from benchmarks.papers.scheduling import placement_live_scaling as scaling
from benchmarks.papers.scheduling.placement_live_cluster import NODES, Cluster, Node
from benchmarks.papers.scheduling.placement_live_runs import Cycle, Way
from benchmarks.papers.scheduling.placement_live_source import arrivals

_TRIGGER_S = 2.0
_QUICK = ("Default", "round robin", "CETSA", "LBA-CE kept")
_QUICK_STREAMED = ("round robin", "round robin + St-Stream")
_EQUAL = 0.3  # cores of each node in St-Stream's part
_RELEASED = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": f"{len(NODES)}",
    "spark.dynamicAllocation.maxExecutors": f"{len(NODES)}",
    "spark.decommission.enabled": "false",
}
"""A loop counts idle executors as released then; the minimum keeps them for the next placement."""
_ONES = tuple(Node(f"w{k + 1}", 1.0, 1.0, 1) for k in range(6))


def run(context: Context) -> Outcome:
    """Measure; quick: one turn, four placements, and OERA alone."""
    cycles, how = _placements(context)
    given = scaling.Load(*context.pick((12.0, 30.0), (20.0, 40.0)))
    names = list(scaling.SCALERS)[: context.pick(1, None)]
    context.say("Scalers: executors of one core, look-ups that wait")
    with Cluster(_ONES) as cluster:
        scaled = [scaling.run(context, cluster, name, given) for name in names]
    curve = arrivals(given.points, scaling.NOISE, context.seed)
    found = figures.turns(cycles)
    note = _limits(how, context.pick(1, 3))
    tables = [
        *(figures.table(found, job, note) for job in found.index.unique("job")),
        figures.claims(found),
        scaling.table(scaled, given, curve),
        scaling.claims(scaled, given, curve),
    ]
    landed = float(found["landed"].sum() / found["requested"].sum())
    every = [Figure("tasks that ran where they were pinned", landed, 0.99)]
    measured = {"cycles": cycles, "scalers": scaled}
    return Outcome([*every, *scaling.figures(scaled, given, curve)], tables, measured)


def _placements(context: Context) -> tuple[list[Cycle], str]:
    """The cycles of all jobs and ways, and what makes executors fast and slow."""
    cycles: list[Cycle] = []
    with Cluster(NODES, _RELEASED) as cluster:
        how = cluster.shares.how
        context.say(f"Six executors, fast and slow {how}")
        table = jobs.stored(cluster.spark)
        equal = [dataclasses.replace(node, share=_EQUAL, price_per_s=1.0) for node in cluster.nodes]
        for job in (jobs.WORDCOUNT, jobs.FIXWINDOW, jobs.JOIN, jobs.SKEWED):
            streamed = job is jobs.SKEWED
            nodes: Sequence[Node] = equal if streamed else cluster.nodes
            ways = _ways(context, streamed)
            rows = runs.calibrated(cluster, job, nodes, _TRIGGER_S, table)
            context.say(f"{job.name}: {rows:,} rows a micro-batch, every {_TRIGGER_S:g} s")
            schedule = runs.in_turns(ways, *context.pick((1, 4), (3, 5)))
            options: dict[str, Any] = {"rows": rows, "trigger_s": _TRIGGER_S, "nodes": nodes}
            cycles += runs.run(context, cluster, job, schedule, table=table, **options)
    return cycles, how


def _ways(context: Context, streamed: bool) -> list[Way]:
    every = runs.ST_STREAM_WAYS if streamed else runs.WAYS
    quick = _QUICK_STREAMED if streamed else _QUICK
    return [way for way in every if not context.quick or way.name in quick]


def _limits(how: str, turns: int) -> str:
    return (
        f"Six executors on one machine with {os.cpu_count()} cores, fast and slow {how}: 0.15, "
        "0.30 and 0.45 of a core for m, l and x at Table 4's prices; St-Stream's part has 0.30 "
        f"and one price for all. Delta {runs.DELTA:g} for every policy, no search. Ways take "
        f"{turns} turns, every second in reverse; in brackets the least and the most of them. The "
        f"first {runs.UNCOUNTED} cycles of a turn, without history, are not counted. Rent is that "
        "of the executors which ran tasks: idle ones count as released, and stay for the next "
        "placement. Limits: driver and executors share the cores, so a cycle's time has the "
        "driver's planning in it; there is no network between executors, and what they send "
        "costs nothing; each stage is placed by itself, without edges to the other; CPU is "
        "compared, not memory; minutes, not hours. Plans are kept by the default hysteresis, "
        f"with {2 * _TRIGGER_S:g} s between changes."
    )
