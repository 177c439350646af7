"""The exact optimum against all placements, and local search against the exact optimum."""

from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, few_tasks, few_workers, graphs, tasks

from benchmarks.placement.feasible import assert_feasible
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


def check_against_all_placements(graph: JobGraph, snapshot: Snapshot, cost: CostModel) -> None:
    try:
        plan = Exact(cost).plan(graph, snapshot)
    except errors.InfeasibleError:
        return
    assert_feasible(plan, graph, snapshot)
    unplaced, value = cheapest(graph, snapshot, cost)
    assert len(plan.unplaced) == unplaced
    assert objective(cost, plan.placement, graph, snapshot) == pytest.approx(value)


@pytest.mark.parametrize("cost", [CostModel(), PAID], ids=["rent", "rent and network"])
@settings(max_examples=40, deadline=None)
@given(graph=graphs(most=5), snapshot=clusters(most=3))
def test_exact_finds_what_all_placements_hold(
    graph: JobGraph, snapshot: Snapshot, cost: CostModel
) -> None:
    check_against_all_placements(graph, snapshot, cost)


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
    assert_feasible(exact, graph, snapshot)
    for base in (FirstFit(), Spread()):
        plan = LocalSearch(base).plan(graph, snapshot)
        assert_feasible(plan, graph, snapshot)
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
            assert_feasible(plan, graph, snapshot)
            assert len(plan.unplaced) <= len(start.unplaced)
            if len(plan.unplaced) == len(start.unplaced):
                before = objective(PAID, start.placement, graph, snapshot)
                assert objective(PAID, plan.placement, graph, snapshot) <= before + 1e-9


def test_too_large_a_case_is_an_error_that_says_what_to_use() -> None:
    draw = random.Random(1)
    every = few_tasks(draw, 20)
    edges = tuple(
        Edge(one.id, other.id, draw.random()) for one, other in itertools.combinations(every, 2)
    )
    graph, snapshot = JobGraph(every, edges), Snapshot(0, few_workers(draw, odd_prices=True))
    with pytest.raises(errors.TooLargeError, match=r"max_nodes=1 nodes\. Give more nodes, or"):
        Exact(CostModel(price_per_byte=0.3), max_nodes=1).plan(graph, snapshot)


def test_equal_tasks_are_not_tried_in_every_order() -> None:
    workers = tuple(Worker(f"w{i}", Resources(8, 8192), 4, price_per_s=1.0) for i in range(12))
    plan = Exact(max_nodes=1).plan(JobGraph(tasks(30)), Snapshot(0, workers))
    assert plan.score == 8.0


@settings(max_examples=25, deadline=None)
@given(graph=graphs(most=4), snapshot=clusters(most=3), data=st.data())
def test_distances_that_differ_by_direction_are_paid_as_they_are(
    graph: JobGraph, snapshot: Snapshot, data: st.DataObject
) -> None:
    hosts = sorted({worker.host for worker in snapshot.workers})
    far = st.sampled_from([0.0, 0.5, 1.0, 7.0])
    pairs = itertools.permutations(hosts, 2)
    cost = CostModel((0.25, 0.75, 0.0), 0.02, {pair: data.draw(far) for pair in pairs})
    check_against_all_placements(graph, snapshot, cost)


def test_a_sum_that_is_over_by_a_trifle_is_over() -> None:
    # The solver would take 1.00000004 cores for 1.
    one, two = tasks(2)
    one, two = (
        replace(one, demand=Resources(0.5, 1)),
        replace(two, demand=Resources(0.50000004, 1)),
    )
    graph = JobGraph((one, two))
    whole = Worker("w0", Resources(1, 8192), 4, price_per_s=1.0, delta=1.0)
    workers = (whole, replace(whole, id="w1"))
    plan = Exact().plan(graph, Snapshot(0, workers))
    assert_feasible(plan, graph, Snapshot(0, workers))
    assert plan.score == 2.0
    alone = Snapshot(0, workers[:1])
    plan = Exact().plan(graph, alone)
    assert_feasible(plan, graph, alone)
    assert len(plan.unplaced) == 1


def test_workers_without_a_slot_or_none_at_all_get_nothing() -> None:
    worker = Worker("w", Resources(8, 8192), 0, price_per_s=1.0)
    for workers in ((worker,), ()):
        plan = Exact().plan(JobGraph(tasks(2)), Snapshot(0, workers))
        assert not plan.placement
        assert len(plan.unplaced) == 2


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    worker = Worker("w", Resources(8, 8192), 4, price_per_s=1.0)
    with pytest.raises(ImportError, match=r"exact policy needs scipy.*bsjoin\[exact\]"):
        Exact().plan(JobGraph(tasks(2)), Snapshot(0, (worker,)))
