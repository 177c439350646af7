"""The objective, and the local search that lowers it, held against all placements there are."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling.search import PlacementState, improve
from scheduling_samples import clusters, graphs

from scheduling import (
    Edge,
    JobGraph,
    Objective,
    Reserved,
    Resources,
    Snapshot,
    Task,
    Worker,
    errors,
)
from scheduling.quantities import cpu_loads

HOUR = Objective(horizon_s=3600.0)


def workers(*prices: float, host: str = "") -> tuple[Worker, ...]:
    return tuple(
        Worker(f"w{i}", Resources(4, 4096), 8, price, host=host, bandwidth_bytes_per_s=100.0)
        for i, price in enumerate(prices)
    )


def tasks(*cores: float, **known: object) -> JobGraph:
    return JobGraph(
        tuple(
            Task(f"t{i}", "t", i, Resources(need, 64), **known)  # type: ignore[arg-type]
            for i, need in enumerate(cores)
        )
    )


def test_rent_is_of_the_workers_in_use_only_where_others_are_released() -> None:
    graph, snapshot = tasks(1, 1), Snapshot(0.0, workers(1.0, 3.0))
    together = {"t0": "w0", "t1": "w0"}
    assert HOUR.cost(together, graph, snapshot, release=True).total == 3600.0
    kept = HOUR.cost(together, graph, snapshot)
    assert (kept.rent, kept.imbalance) == (4 * 3600.0, pytest.approx(1.1 * 4 * 3600.0))
    assert HOUR.cost({"t0": "w0", "t1": "w1"}, graph, snapshot).imbalance == 0.0


def test_what_is_measured_goes_before_what_is_demanded() -> None:
    usage = {"t0": Resources(3, 64)}
    snapshot = Snapshot(0.0, workers(1.0, 1.0), usage=usage)
    cost = HOUR.cost({"t0": "w0", "t1": "w1"}, tasks(1, 1), snapshot)
    assert cost.imbalance == pytest.approx(0.55 * cost.rent)


def test_a_move_costs_the_bytes_that_the_new_host_lacks() -> None:
    machines = (*workers(2.0), *(Worker("b", Resources(4, 4096), 8, 2.0),))
    graph = tasks(1, state_bytes=1e9, cached={"w0": 3e9, "b": 1e9})
    snapshot = Snapshot(0.0, machines)
    moved = Objective().cost({"t0": "b"}, graph, snapshot, {"t0": "w0"})
    assert moved.movement == pytest.approx(2.0 * (1.0 + 3e9 / 125e6))
    assert Objective().cost({"t0": "b"}, graph, snapshot, {"t0": "b"}).movement == 0.0
    # A task that is new loads, but does not move.
    assert Objective().cost({"t0": "b"}, graph, snapshot, {}).movement == pytest.approx(48.0)


def test_bytes_between_hosts_cost_their_time_and_their_price() -> None:
    snapshot = Snapshot(0.0, workers(1.0, 1.0))
    graph = JobGraph(tasks(1, 1).tasks, (Edge("t0", "t1", 10.0),))
    apart = {"t0": "w0", "t1": "w1"}
    assert Objective().cost(apart, graph, snapshot).communication == pytest.approx(60.0)
    paid = Objective(price_per_byte=0.01)
    assert paid.cost(apart, graph, snapshot).communication == pytest.approx(120.0)
    one_host = Snapshot(0.0, workers(1.0, 1.0, host="h"))
    assert Objective().cost(apart, graph, one_host).communication == 0.0
    reading = tasks(1, preferred=("w1",), input_bytes_per_s=10.0)
    assert Objective().cost({"t0": "w0"}, reading, snapshot).communication == pytest.approx(60.0)
    assert Objective().cost({"t0": "w1"}, reading, snapshot).communication == 0.0


def test_others_on_a_worker_make_it_slower() -> None:
    taken = {"w0": Reserved(0, Resources(2, 0))}
    snapshot = Snapshot(0.0, workers(1.0, 1.0), reserved=taken)
    cost = HOUR.cost({"t0": "w0", "t1": "w1"}, tasks(1, 2), snapshot)
    assert cost.imbalance == 0.0


@pytest.mark.parametrize("option", ["horizon_s", "imbalance", "price_per_byte", "move_s"])
def test_a_weight_that_cannot_be_used_is_refused(option: str) -> None:
    with pytest.raises(errors.ArgumentError, match=f"{option}=-1"):
        Objective(**{option: -1.0})


@settings(deadline=None, max_examples=60)
@given(clusters(), graphs(), st.booleans(), st.randoms(use_true_random=False))
def test_the_search_s_accounts_are_the_objective_s(
    snapshot: Snapshot, graph: JobGraph, release: bool, draw: random.Random
) -> None:
    objective = Objective(price_per_byte=0.001)
    names = [worker.id for worker in snapshot.workers]
    present = {task.id: draw.choice(names) for task in graph.tasks if names and draw.random() < 0.7}
    loads = cpu_loads(graph, snapshot)
    state = PlacementState(graph, snapshot, objective, present, loads, release=release)

    def check() -> None:
        cost = objective.cost(
            state.placement, graph, snapshot, present, release=release, loads=loads
        )
        assert state.value == pytest.approx(cost.total, rel=1e-6, abs=1e-6)
        assert len(state.unplaced) == cost.unplaced

    state.start(present)
    check()
    every, columns = list(range(len(graph.tasks))), np.arange(len(names))
    rows = [state.extra(t) for t in every]
    assert state.extras(every, columns) == pytest.approx(np.reshape(rows, (len(every), len(names))))
    before = (state.placement, state.value)
    for t in range(len(graph.tasks)):
        changes = state.changes(t)
        for i in range(len(names)):
            if changes[i] < float("inf"):
                value, mark = state.value, len(state.log)
                state.move(t, i)
                check()
                assert state.value - value == pytest.approx(changes[i], rel=1e-6, abs=1e-6)
                state.undo(mark)
    assert (state.placement, state.value) == (before[0], pytest.approx(before[1], abs=1e-6))
    improve(state)
    check()
    least = objective.least(graph, snapshot, release=release)
    if not state.unplaced and (state.free >= 0).all():
        assert state.value >= least * (1 - 1e-6) - 1e-6
    # The tasks that moved have room where they are.
    for i, worker in enumerate(snapshot.workers):
        if any(present.get(graph.tasks[t].id) != worker.id for t in state.on[i]):
            total = sum((graph.tasks[t].demand for t in state.on[i]), Resources(0, 0))
            assert total.within(snapshot.free[worker.id])
            assert len(state.on[i]) <= snapshot.free_slots[worker.id]


def least_total(
    objective: Objective,
    graph: JobGraph,
    snapshot: Snapshot,
    present: dict[str, str],
    release: bool,
) -> float:
    """The least total cost of all feasible placements, tried one by one."""
    names, best = [worker.id for worker in snapshot.workers], float("inf")
    for chosen in itertools.product(names, repeat=len(graph.tasks)):
        at = dict(zip((task.id for task in graph.tasks), chosen, strict=True))
        if all(
            sum(
                (task.demand for task in graph.tasks if at[task.id] == name), Resources(0, 0)
            ).within(snapshot.free[name])
            for name in names
        ):
            cost = objective.cost(at, graph, snapshot, present, release=release)
            best = min(best, cost.total)
    return best


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_search_ends_near_the_optimum(seed: int, release: bool) -> None:
    draw = random.Random(seed)
    machines = workers(*(draw.choice([1.0, 1.5, 2.5]) for _ in range(3)))
    graph = JobGraph(
        tuple(
            Task(f"t{i}", "t", i, Resources(draw.uniform(0.2, 1.4), 64), state_bytes=2e3)
            for i in range(6)
        ),
        (Edge("t0", "t1", draw.choice([0.0, 5.0])), Edge("t2", "t3", draw.choice([0.0, 20.0]))),
    )
    snapshot = Snapshot(0.0, machines)
    present = {task.id: draw.choice(machines).id for task in graph.tasks}
    state = PlacementState(
        graph, snapshot, Objective(), present, cpu_loads(graph, snapshot), release=release
    )
    state.start(present)
    improve(state)
    best = least_total(Objective(), graph, snapshot, present, release)
    assert state.value <= best * 1.05 + 1e-6
