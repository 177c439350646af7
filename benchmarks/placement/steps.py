"""What a step of the controller costs: one that changes the placement, and one at rest.

CPU time of the process, so that what else runs on the machine counts little. Loads are skewed and
vary by 3 %; after a few steps nothing is left to gain.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import random
import time

from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.timing import Times, outcome
from benchmarks.placement.planning import SIZES, cluster
from scheduling import LBACE, Controller, JobGraph, Plan, Receipt, Resources, Snapshot, StStream

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
