"""The objective, and the local search that lowers it, held against all placements there are."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, graphs

from scheduling import (
    Edge,
    JobGraph,
    Objective,
    PlacementCost,
    Reserved,
    Resources,
    Snapshot,
    Task,
    Worker,
)
from scheduling.improve import improve
from scheduling.objective import Pricing

HOUR = Objective(horizon_s=3600.0)


def cost_of(
    objective: Objective,
    at: Mapping[str, str],
    graph: JobGraph,
    snapshot: Snapshot,
    present: Mapping[str, str] | None = None,
    **options: Any,
) -> PlacementCost:
    return Pricing(objective, graph, snapshot, present, **options).cost(at)


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
    assert cost_of(HOUR, together, graph, snapshot, release=True).total == 3600.0
    kept = cost_of(HOUR, together, graph, snapshot)  # the idle one waits
    assert (kept.rent, kept.imbalance) == (3600.0, pytest.approx(1.1 * 4 * 3600.0))
    apart = {"t0": "w0", "t1": "w1"}
    assert cost_of(HOUR, apart, graph, snapshot).imbalance == 0.0
    # What is measured goes before what is demanded; others on a worker make it slower.
    measured = Snapshot(0.0, workers(1.0, 1.0), usage={"t0": Resources(3, 64)})
    cost = cost_of(HOUR, apart, graph, measured)
    assert cost.imbalance == pytest.approx(0.55 * cost.rent)
    taken = Snapshot(0.0, workers(1.0, 1.0), reserved={"w0": Reserved(0, Resources(2, 0))})
    assert cost_of(HOUR, apart, tasks(1, 2), taken).imbalance == 0.0


def test_a_move_costs_the_bytes_that_the_new_host_lacks() -> None:
    machines = (*workers(2.0), *(Worker("b", Resources(4, 4096), 8, 2.0),))
    graph = tasks(1, state_bytes=1e9, cached={"w0": 3e9, "b": 1e9})
    snapshot = Snapshot(0.0, machines)
    moved = cost_of(Objective(), {"t0": "b"}, graph, snapshot, {"t0": "w0"})
    assert moved.movement == pytest.approx(2.0 * (1.0 + 3e9 / 125e6))
    assert cost_of(Objective(), {"t0": "b"}, graph, snapshot, {"t0": "b"}).movement == 0.0
    # A task that is new loads, but does not move.
    assert cost_of(Objective(), {"t0": "b"}, graph, snapshot, {}).movement == pytest.approx(48.0)


def test_bytes_between_hosts_cost_their_time_and_their_price() -> None:
    snapshot = Snapshot(0.0, workers(1.0, 1.0))
    graph = JobGraph(tasks(1, 1).tasks, (Edge("t0", "t1", 10.0),))
    apart = {"t0": "w0", "t1": "w1"}
    assert cost_of(Objective(), apart, graph, snapshot).communication == pytest.approx(60.0)
    paid = Objective(price_per_byte=0.01)
    assert cost_of(paid, apart, graph, snapshot).communication == pytest.approx(120.0)
    one_host = Snapshot(0.0, workers(1.0, 1.0, host="h"))
    assert cost_of(Objective(), apart, graph, one_host).communication == 0.0
    reading = tasks(1, preferred=("w1",), input_bytes_per_s=10.0)
    far, near = (cost_of(Objective(), {"t0": name}, reading, snapshot) for name in ("w0", "w1"))
    assert far.communication == pytest.approx(60.0)
    assert near.communication == 0.0


@settings(deadline=None, max_examples=8)
@given(clusters(), graphs(), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_a_search_ends_no_dearer_than_it_began(
    snapshot: Snapshot, graph: JobGraph, release: bool, moving: bool, draw: random.Random
) -> None:
    objective = Objective(price_per_byte=0.001).weighted(
        draw.choice([(1, 0, 0), (0, 1, 0), (1, 1, 1), (1, 0, 1)])
    )
    names = [worker.id for worker in snapshot.workers]
    before = {task.id: draw.choice(names) for task in graph.tasks if names and draw.random() < 0.7}
    present = before if moving else None
    pairs = [(draw.choice(graph.tasks).id, name) for name in names if graph.tasks]
    forbidden = [(task, name) for task, name in pairs if before.get(task) != name]
    pricing = Pricing(objective, graph, snapshot, present, release)
    found = improve(before, pricing, forbidden=forbidden, shakes=3)
    again = improve(before, pricing, forbidden=forbidden, shakes=3)
    assert found == again
    assert not set(forbidden) & set(found.items())

    def rank(at: dict[str, str]) -> tuple[int, float]:
        return cost_of(objective, at, graph, snapshot, present, release=release).rank

    # Without a present placement the start counts only as far as it has room.
    if moving:
        left, total = rank(before)
        assert rank(found)[0] <= left
        assert rank(found)[0] < left or rank(found)[1] <= total * (1 + 1e-9) + 1e-6
    # The tasks that moved have room where they are, unless a worker is above its CPU already.
    for worker in snapshot.workers:
        there = [task for task in graph.tasks if found.get(task.id) == worker.id]
        if any(before.get(task.id) != worker.id for task in there):
            total_need = sum((task.demand for task in there), Resources(0, 0))
            free = snapshot.free[worker.id]
            assert total_need.memory_mb <= free.memory_mb * (1 + 1e-9) + 1e-9
            assert len(there) <= snapshot.free_slots[worker.id]


def test_a_hot_partition_leaves_an_overfull_worker_by_an_exchange() -> None:
    """All slots are taken, and the worker is above what it may have: a swap is what helps."""
    every = tuple(Worker(f"w{i}", Resources(4, 4096), 4, 1.0, delta=0.8) for i in range(3))
    loads = [1.0] * 4 + [0.45] * 8
    graph, present = tasks(*loads), {f"t{i}": f"w{i // 4}" for i in range(12)}
    snapshot = Snapshot(0.0, every)
    found = improve(present, Pricing(Objective(), graph, snapshot, present))
    assert all([*found.values()].count(worker.id) == 4 for worker in every)
    cost = cost_of(Objective(), found, graph, snapshot, present)
    assert cost.imbalance < 0.3 * cost_of(Objective(), present, graph, snapshot, present).imbalance
