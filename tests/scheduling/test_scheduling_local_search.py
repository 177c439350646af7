"""Local search against the exact optimum where streams are paid for; its parts; large jobs."""

from __future__ import annotations

import math
import random

import pytest
from scheduling_samples import few_tasks, few_workers

from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    CETSA,
    GSBFD,
    CostModel,
    Edge,
    Exact,
    JobGraph,
    LocalSearch,
    Resources,
    Snapshot,
    Task,
    Worker,
)
from scheduling.policies.local_search import objective


def paid(seed: int) -> tuple[JobGraph, Snapshot, CostModel]:
    """A case of up to 12 workers whose streams cost a little or a lot."""
    draw = random.Random(seed)
    workers = few_workers(draw, odd_prices=bool(seed % 2))
    every = few_tasks(draw, 10, operators=3)
    names = [task.id for task in every]
    edges = tuple(
        Edge(draw.choice(names), draw.choice(names), draw.random())
        for _ in range(len(names) * draw.choice([1, 2]))
    )
    cost = CostModel(price_per_byte=draw.choice([0.3, 3.0, 10.0]))
    return JobGraph(every, edges), Snapshot(0.0, workers), cost


@pytest.mark.parametrize("seed", range(1, 16))
def test_it_is_at_most_five_percent_dearer_than_the_optimum_with_streams_to_pay(seed: int) -> None:
    graph, snapshot, cost = paid(seed)
    exact = Exact(cost).plan(graph, snapshot)
    plan = LocalSearch(GSBFD(jobs="task"), cost, seed=99).plan(graph, snapshot)
    assert_feasible(plan, graph, snapshot)
    assert len(plan.unplaced) == len(exact.unplaced)
    found = objective(cost, plan.placement, graph, snapshot)
    assert found <= 1.05 * objective(cost, exact.placement, graph, snapshot)


def large(tasks: int, workers: int, kinds: int) -> tuple[JobGraph, Snapshot]:
    """A half full cluster of some kinds of workers."""
    draw = random.Random(tasks)
    sizes = [(4 + 2 * k, 2.0 + k * draw.uniform(0.8, 1.2)) for k in range(kinds)]
    there = []
    for i in range(workers):
        cores, price = sizes[i % kinds]
        there.append(Worker(f"w{i}", Resources(cores, cores * 2048), 24, price_per_s=price))
    share = sum(one.usable.cpu_cores for one in there) / (2 * tasks)
    every = tuple(
        Task(f"t{i}", f"o{i % 3}", i, Resources(share * draw.uniform(0.5, 1.5), 64.0))
        for i in range(tasks)
    )
    edges = tuple(Edge(f"t{i}", f"t{draw.randrange(tasks)}", 1.0) for i in range(tasks))
    return JobGraph(every, edges), Snapshot(0.0, tuple(there))


def least_rent(graph: JobGraph, snapshot: Snapshot) -> float:
    """The least rent of whole workers that have the slots and the cores of all tasks."""
    unit = 0.8 * 2  # all workers of :func:`large` have a multiple of it
    need = math.ceil(sum(task.demand.cpu_cores for task in graph.tasks) / unit - 1e-6)
    best = {(0, 0): 0.0}  # by slots and cores, at most what is needed
    for worker in snapshot.workers:
        size = round(worker.usable.cpu_cores / unit)
        for (slots, cores), rent in list(best.items()):
            more = min(len(graph.tasks), slots + worker.slots), min(need, cores + size)
            best[more] = min(best.get(more, math.inf), rent + worker.price_per_s)
    return best[len(graph.tasks), need]


@pytest.mark.parametrize("cost", [CostModel(), CostModel(price_per_byte=0.01)])
@pytest.mark.parametrize("kinds", [1, 3, 40])
def test_a_large_job_is_packed_close_to_what_a_fluid_would_take(
    kinds: int, cost: CostModel
) -> None:
    graph, snapshot = large(400, 40, kinds)
    plan = LocalSearch(CETSA(by_price=True), cost).plan(graph, snapshot)
    assert_feasible(plan, graph, snapshot)
    assert not plan.unplaced
    if not cost.price_per_byte:
        assert plan.score <= 1.08 * least_rent(graph, snapshot)


def test_the_same_arguments_give_the_same_plan() -> None:
    for graph, snapshot, cost in (paid(3), (*large(200, 20, 3), CostModel(price_per_byte=0.01))):
        one, other = (LocalSearch(cost=cost, seed=5).plan(graph, snapshot) for _ in range(2))
        assert one == other


def test_tries_of_none_keep_the_best_plan_that_it_began_with() -> None:
    graph, snapshot, cost = paid(2)
    plan = LocalSearch(GSBFD(jobs="task"), cost, tries=0).plan(graph, snapshot)
    assert_feasible(plan, graph, snapshot)
    assert {one.reason for one in plan.assignments}
