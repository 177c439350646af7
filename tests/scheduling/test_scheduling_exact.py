"""The exact optimum against all placements, and local search against the exact optimum."""

from __future__ import annotations

import itertools
import math
import random
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, graphs, tasks

from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    CETSA,
    GSBFD,
    CostModel,
    Edge,
    Exact,
    FirstFit,
    JobGraph,
    LocalSearch,
    Policy,
    Resources,
    RoundRobin,
    Snapshot,
    Task,
    Worker,
    errors,
)
from scheduling.policies.local_search import objective


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
        if all(
            len(there) <= snapshot.free_slots[name]
            and sum((task.demand for task in there), Resources(0, 0)).within(snapshot.free[name])
            for name, there in rows.items()
        ):
            left = len(graph.tasks) - len(placement)
            best = min(best, (left, objective(cost, placement, graph, snapshot)))
    return best


@settings(max_examples=8, deadline=None)
@given(graph=graphs(most=4), snapshot=clusters(most=3), data=st.data())
def test_exact_finds_what_all_placements_hold(
    graph: JobGraph, snapshot: Snapshot, data: st.DataObject
) -> None:
    """Of rent alone, of streams as well, and where distances differ by direction."""
    hosts = sorted({worker.host for worker in snapshot.workers})
    far = st.sampled_from([0.0, 0.5, 1.0, 7.0])
    distance = {pair: data.draw(far) for pair in itertools.permutations(hosts, 2)}
    paid = CostModel((0.25, 0.75, 0.0), 0.02, distance)
    cost = data.draw(st.sampled_from([CostModel(), CostModel(price_per_byte=0.02), paid]))
    try:
        plan = Exact(cost).plan(graph, snapshot)
    except errors.InfeasibleError:
        return
    assert_feasible(plan, graph, snapshot)
    unplaced, value = cheapest(graph, snapshot, cost)
    assert len(plan.unplaced) == unplaced
    assert objective(cost, plan.placement, graph, snapshot) == pytest.approx(value)


def few_workers(draw: random.Random, *, odd_prices: bool) -> tuple[Worker, ...]:
    """3 to 12 workers of some sizes, which the exact policy can still place on."""
    return tuple(
        Worker(
            f"w{i}",
            Resources(draw.choice([4, 8, 12]), draw.choice([8, 12, 16]) * 1024),
            draw.choice([2, 4, 4, 6]),
            price_per_s=round(draw.uniform(1, 10), 2)
            if odd_prices
            else draw.choice([2.4, 4.8, 7.7]),
        )
        for i in range(draw.randint(3, 12))
    )


def few_tasks(draw: random.Random, most: int, *, operators: int = 1) -> tuple[Task, ...]:
    """4 tasks to so many, of some sizes."""
    return tuple(
        Task(
            f"t{i}",
            f"operator-{i % operators}",
            i,
            Resources(draw.choice([0.5, 1, 1.5, 2]), draw.choice([256, 1024, 2048])),
        )
        for i in range(draw.randint(4, most))
    )


def paid(seed: int) -> tuple[JobGraph, Snapshot, CostModel]:
    """A case of up to 12 workers and 10 tasks whose streams cost nothing, a little or a lot."""
    draw = random.Random(seed)
    workers = few_workers(draw, odd_prices=bool(seed % 2))
    every = few_tasks(draw, 10, operators=3)
    names = [task.id for task in every]
    edges = tuple(
        Edge(draw.choice(names), draw.choice(names), draw.random())
        for _ in range(len(names) * draw.choice([1, 2]))
    )
    cost = CostModel(price_per_byte=draw.choice([0.0, 0.3, 3.0, 10.0]))
    return JobGraph(every, edges), Snapshot(0.0, workers), cost


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(GSBFD(jobs="task"), marks=pytest.mark.long),
        FirstFit(),
        pytest.param(RoundRobin(), marks=pytest.mark.long),
    ],
    ids=lambda base: base.name,
)
def test_local_search_is_at_most_five_percent_dearer_than_the_optimum(base: Policy) -> None:
    graph, snapshot, cost = paid(4)
    exact = Exact(cost).plan(graph, snapshot)
    least = objective(cost, exact.placement, graph, snapshot)
    start = base.plan(graph, snapshot)
    first = LocalSearch(base, cost, tries=0).plan(graph, snapshot)
    plan = LocalSearch(base, cost, seed=99).plan(graph, snapshot)
    for one in (first, plan):
        assert_feasible(one, graph, snapshot)
        assert len(exact.unplaced) <= len(one.unplaced) <= len(start.unplaced)
    assert plan == LocalSearch(base, cost, seed=99).plan(graph, snapshot)
    assert len(plan.unplaced) == len(exact.unplaced)
    found = objective(cost, plan.placement, graph, snapshot)
    assert found <= 1.05 * least
    if len(plan.unplaced) == len(start.unplaced):
        assert found <= objective(cost, start.placement, graph, snapshot) + 1e-9


def test_reads_and_unlimited_disks_change_no_plan_of_a_local_search() -> None:
    graph, snapshot, _ = paid(4)
    search = LocalSearch(cost=CostModel(price_per_byte=0.3))
    plan = search.plan(graph, snapshot)
    read = [replace(one, preferred=("w0",), input_bytes_per_s=1e9) for one in graph.tasks]
    endless = [
        replace(one, capacity=replace(one.capacity, disk_mb=math.inf)) for one in snapshot.workers
    ]
    same = search.plan(JobGraph(tuple(read), graph.edges), Snapshot(0.0, tuple(endless)))
    assert same.placement == plan.placement


def test_too_large_a_case_is_an_error_that_says_what_to_use() -> None:
    draw = random.Random(1)
    every = few_tasks(draw, 20)
    edges = tuple(
        Edge(one.id, other.id, draw.random()) for one, other in itertools.combinations(every, 2)
    )
    graph, snapshot = JobGraph(every, edges), Snapshot(0, few_workers(draw, odd_prices=True))
    with pytest.raises(errors.TooLargeError, match=r"max_nodes=1 nodes\. Give more nodes, or"):
        Exact(CostModel(price_per_byte=0.3), max_nodes=1).plan(graph, snapshot)
    # Equal tasks are not tried in every order.
    workers = tuple(Worker(f"w{i}", Resources(8, 8192), 4, price_per_s=1.0) for i in range(12))
    plan = Exact(max_nodes=1).plan(JobGraph(tasks(30)), Snapshot(0, workers))
    assert plan.score == 8.0


def test_a_sum_that_is_over_by_a_trifle_is_over() -> None:
    # The solver would take 1.00000004 cores for 1.
    one, two = tasks(2)
    one = replace(one, demand=Resources(0.5, 1))
    graph = JobGraph((one, replace(two, demand=Resources(0.50000004, 1))))
    whole = Worker("w0", Resources(1, 8192), 4, price_per_s=1.0, delta=1.0)
    workers = (whole, replace(whole, id="w1"))
    for snapshot, score in ((Snapshot(0, workers), 2.0), (Snapshot(0, workers[:1]), 1.0)):
        plan = Exact().plan(graph, snapshot)
        assert_feasible(plan, graph, snapshot)
        assert plan.score == score


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    worker = Worker("w", Resources(8, 8192), 4, price_per_s=1.0)
    with pytest.raises(ImportError, match=r"exact policy needs scipy.*bsjoin\[exact\]"):
        Exact().plan(JobGraph(tasks(2)), Snapshot(0, (worker,)))


@pytest.mark.long
def test_a_large_job_is_packed_close_to_what_its_cores_cost() -> None:
    """A half full cluster of some kinds of workers: few tries, and other steps than small jobs."""
    kinds, draw = 3, random.Random(3)
    sizes = [(4 + 2 * k, 2.0 + k * draw.uniform(0.8, 1.2)) for k in range(kinds)]
    workers = tuple(
        Worker(f"w{i}", Resources(sizes[i % kinds][0], 2**16), 24, sizes[i % kinds][1])
        for i in range(40)
    )
    share = sum(one.usable.cpu_cores for one in workers) / 600
    job = JobGraph(
        tuple(
            Task(f"t{i}", f"o{i % 3}", i, Resources(share * draw.uniform(0.5, 1.5), 64.0))
            for i in range(300)
        )
    )
    plan = LocalSearch(CETSA(by_price=True)).plan(job, Snapshot(0.0, workers))
    assert_feasible(plan, job, Snapshot(0.0, workers))
    assert not plan.unplaced
    need, rent = sum(task.demand.cpu_cores for task in job.tasks), 0.0
    for one in sorted(workers, key=lambda one: one.price_per_s / one.usable.cpu_cores):
        part = min(1.0, need / one.usable.cpu_cores)
        rent, need = rent + part * one.price_per_s, need - part * one.usable.cpu_cores
    assert plan.score <= 1.1 * rent + max(price for _, price in sizes)
