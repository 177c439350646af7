"""Local search against the exact optimum where streams are paid for; its parts; large jobs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling.policies.local_search_state import LocalSearchState
from scheduling.policies.packing import Packing
from scheduling.policies.worker_sets import WorkerSets
from scheduling_samples import clusters, few_tasks, few_workers, graphs

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
    errors,
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
    plan._check(graph, snapshot)
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


@pytest.mark.parametrize("cost", [CostModel(), CostModel(price_per_byte=0.01)])
@pytest.mark.parametrize("kinds", [1, 3, 40])
def test_a_large_job_is_packed_close_to_what_a_fluid_would_take(
    kinds: int, cost: CostModel
) -> None:
    graph, snapshot = large(400, 40, kinds)
    plan = LocalSearch(CETSA(by_price=True), cost).plan(graph, snapshot)
    plan._check(graph, snapshot)
    assert not plan.unplaced
    if not cost.price_per_byte:
        least = min(WorkerSets(graph, snapshot).cheaper(range(40), float("inf"))[0])
        assert plan.score <= 1.08 * least


def test_the_same_arguments_give_the_same_plan() -> None:
    for graph, snapshot, cost in (paid(3), (*large(200, 20, 3), CostModel(price_per_byte=0.01))):
        one, other = (LocalSearch(cost=cost, seed=5).plan(graph, snapshot) for _ in range(2))
        assert one == other


def test_tries_of_none_keep_the_best_plan_that_it_began_with() -> None:
    graph, snapshot, cost = paid(2)
    plan = LocalSearch(GSBFD(jobs="task"), cost, tries=0).plan(graph, snapshot)
    plan._check(graph, snapshot)
    assert {one.reason for one in plan.assignments}


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), snapshot=clusters(), data=st.data())
def test_what_closer_keeps_as_cost_is_what_the_placement_costs(
    graph: JobGraph, snapshot: Snapshot, data: st.DataObject
) -> None:
    cost = CostModel(price_per_byte=0.02, distance={("h0", "h1"): 3.0})
    try:
        ledger = CapacityLedger(graph, snapshot)
    except errors.InfeasibleError:
        return
    for task in graph.tasks:
        fitting = [i for i in range(len(snapshot.workers)) if ledger.fits(task, i)]
        if fitting and data.draw(st.booleans()):
            ledger.place(task, data.draw(st.sampled_from(fitting)), "drawn")
    state = LocalSearchState(graph, snapshot, cost)
    state.load(ledger.at)
    begun = state.value
    if graph.tasks and snapshot.workers:
        state.descend()
        assert state.value <= begun + 1e-9
        state.search(random.Random(1), 5)
    named = {task: snapshot.workers[i].id for task, i in state.placement.items()}
    left_out = state._left_out * (len(graph.tasks) - len(named))
    assert state.value == pytest.approx(objective(cost, named, graph, snapshot) + left_out)
    after = CapacityLedger(graph, snapshot)
    for task in graph.tasks:
        if task.id in named:
            assert after.fits(task, state.placement[task.id])
            after.place(task, state.placement[task.id], "closer")


@settings(max_examples=40, deadline=None)
@given(graph=graphs(most=6), snapshot=clusters(most=5))
def test_the_set_of_the_optimum_is_among_the_sets_and_can_be_packed(
    graph: JobGraph, snapshot: Snapshot
) -> None:
    try:
        best = Exact().plan(graph, snapshot)
    except errors.InfeasibleError:
        return
    if best.unplaced or not graph.tasks:
        return
    sets = WorkerSets(graph, snapshot)
    rents, counts = sets.cheaper(range(0), float("inf"))
    assert rents == sorted(rents)
    packing = Packing(graph, snapshot, 6, random.Random(0))
    packed = [
        rent
        for rent, row in zip(rents, counts, strict=True)
        if next(packing.packed(sets.workers(row, ()), len(graph.tasks)), None) is not None
    ]
    assert min(packed) == pytest.approx(best.score)
