"""The exact optimum against all placements, and local search against the exact optimum."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from scheduling_samples import clusters, few_tasks, few_workers, graphs, tasks

from scheduling import (
    CostModel,
    Edge,
    Exact,
    FirstFit,
    JobGraph,
    LocalSearch,
    Resources,
    RoundRobin,
    Snapshot,
    Spread,
    Task,
    Worker,
    errors,
)
from scheduling.policies.local_search import objective

PAID = CostModel(price_per_byte=0.02)


def cheapest(graph: JobGraph, snapshot: Snapshot, cost: CostModel) -> tuple[int, float]:
    """The fewest unplaced tasks and the least objective, over all placements."""
    best = (len(graph.tasks) + 1, 0.0)
    for choice in itertools.product([None, *snapshot.workers], repeat=len(graph.tasks)):
        rows: dict[str, list[Task]] = {}
        placement = {}
        for task, worker in zip(graph.tasks, choice, strict=True):
            if worker is not None:
                rows.setdefault(worker.id, []).append(task)
                placement[task.id] = worker.id
        fits = True
        for name, there in rows.items():
            total = Resources(0, 0)
            for task in there:
                total += task.demand
            worker = snapshot.by_id[name]
            fits = fits and len(there) <= worker.slots and total.within(worker.usable)
        if fits:
            found = (
                len(graph.tasks) - len(placement),
                objective(cost, placement, graph, snapshot),
            )
            best = min(best, found)
    return best


@pytest.mark.parametrize("cost", [CostModel(), PAID], ids=["rent", "rent and network"])
@settings(max_examples=40, deadline=None)
@given(graph=graphs(most=5), snapshot=clusters(most=3))
def test_exact_finds_what_all_placements_hold(
    graph: JobGraph, snapshot: Snapshot, cost: CostModel
) -> None:
    try:
        plan = Exact(cost).plan(graph, snapshot)
    except errors.InfeasibleError:
        return
    plan._check(graph, snapshot)
    unplaced, value = cheapest(graph, snapshot, cost)
    assert len(plan.unplaced) == unplaced
    assert objective(cost, plan.placement, graph, snapshot) == pytest.approx(value)


def small(seed: int) -> tuple[JobGraph, Snapshot]:
    """A random case of up to 12 workers and 16 tasks."""
    draw = random.Random(seed)
    workers = few_workers(draw, odd_prices=bool(seed % 2))
    every = few_tasks(draw, 16)
    return JobGraph(every), Snapshot(0, workers)


@pytest.mark.parametrize("seed", range(24))
def test_local_search_is_at_most_five_percent_dearer_than_the_optimum(seed: int) -> None:
    graph, snapshot = small(seed)
    exact = Exact().plan(graph, snapshot)
    exact._check(graph, snapshot)
    for base in (FirstFit(), Spread()):
        plan = LocalSearch(base).plan(graph, snapshot)
        plan._check(graph, snapshot)
        if not exact.unplaced:
            assert not plan.unplaced
            assert plan.score <= 1.05 * exact.score


def test_local_search_is_never_dearer_than_its_base() -> None:
    for seed in range(6):
        graph, snapshot = small(seed)
        ends = [task.id for task in graph.tasks]
        draw = random.Random(seed)
        edges = tuple(Edge(draw.choice(ends), draw.choice(ends), draw.random()) for _ in ends)
        graph = JobGraph(graph.tasks, edges)
        for base in (RoundRobin(), FirstFit()):
            start = base.plan(graph, snapshot)
            plan = LocalSearch(base, PAID, tries=30).plan(graph, snapshot)
            plan._check(graph, snapshot)
            assert len(plan.unplaced) <= len(start.unplaced)
            if len(plan.unplaced) == len(start.unplaced):
                before = objective(PAID, start.placement, graph, snapshot)
                assert objective(PAID, plan.placement, graph, snapshot) <= before + 1e-9


def test_too_large_a_case_is_an_error_that_says_what_to_use() -> None:
    edges = tuple(Edge(f"map-{i}", f"map-{j}", 100) for i in range(6) for j in range(i))
    workers = tuple(Worker(f"w{i}", Resources(8, 8192), 4, price_per_s=1.0) for i in range(3))
    with pytest.raises(errors.TooLargeError, match=r"max_steps=3 placements\. Give more steps, or"):
        Exact(PAID, max_steps=3).plan(JobGraph(tasks(6), edges), Snapshot(0, workers))


def test_equal_tasks_are_not_tried_in_every_order() -> None:
    workers = tuple(Worker(f"w{i}", Resources(8, 8192), 4, price_per_s=1.0) for i in range(12))
    plan = Exact(max_steps=2000).plan(JobGraph(tasks(30)), Snapshot(0, workers))
    assert plan.score == 8.0
