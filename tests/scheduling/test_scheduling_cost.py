"""Rent, network, scheduling; cost per tuple, busyness, fitness, load, S."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, graphs, tasks

from scheduling import (
    CostModel,
    Edge,
    JobGraph,
    Random,
    Resources,
    Snapshot,
    Utilisation,
    Worker,
    busyness,
    errors,
)
from scheduling.cost import rent_per_s
from scheduling.errors import InfeasibleError
from scheduling.load import (
    EPSILON,
    average_fitness,
    cost_evaluation,
    deviation,
    fitness,
    planned_loads,
    task_load,
)

TWO = (
    Worker("a", Resources(4, 4096), 4, price_per_s=0.25, tier="s"),
    Worker("b", Resources(8, 8192), 4, price_per_s=0.5, tier="l"),
)
GRAPH = JobGraph(tasks(3), (Edge("map-0", "map-1", 10), Edge("map-1", "map-2", 100)))
APART = {"map-0": "a", "map-1": "b", "map-2": "b"}


def test_the_weighted_cost_is_the_weighted_sum() -> None:
    cost = CostModel(weights=(0.5, 0.3, 0.2), price_per_byte=0.5)
    plan = dataclasses.replace(Random().plan(GRAPH, Snapshot(0, TWO)), scheduling_time_s=4.0)
    costs = cost.costs(plan, GRAPH, Snapshot(0, TWO), 10)
    assert costs.wec == pytest.approx(0.5 * costs.rc + 0.3 * costs.cc + 0.2 * costs.sc)
    assert costs.sc == pytest.approx(0.4 * costs.rc)
    far = CostModel(price_per_byte=0.5, distance={("b", "a"): 3})
    assert far.network_per_s(APART, GRAPH, Snapshot(0, TWO)) == 15
    wrong: list[dict[str, Any]] = [
        *({"weights": weights} for weights in ((1, 1, 1), (0.5, 0.5), (-0.5, 1, 0.5), None, "abc")),
        *({"weights": (odd, 0.5, 0.5)} for odd in (math.nan, None)),
        *({"price_per_byte": odd} for odd in ("1", True)),
        *({"distance": odd} for odd in ([1], {("a", "b"): math.nan})),
    ]
    for option in wrong:
        with pytest.raises(errors.ArgumentError, match=next(iter(option))):
            CostModel(**option)


@settings(max_examples=12, deadline=None)
@given(graphs(), clusters(), st.integers(0, 5))
def test_costs_are_those_of_a_loop(graph: JobGraph, snapshot: Snapshot, seed: int) -> None:
    try:
        plan = Random(seed).plan(graph, snapshot)
    except InfeasibleError:
        return
    rent = sum(
        worker.price_per_s
        for worker in snapshot.workers
        if any(one.worker == worker.id for one in plan.assignments)
    )
    network = 0.0
    for edge in graph.edges:
        ends = [one for one in plan.assignments if one.task in (edge.source, edge.target)]
        if len({snapshot.by_id[one.worker].host for one in ends}) == 2:
            network += edge.bytes_per_s
    assert rent_per_s(plan.placement, snapshot) == pytest.approx(rent)
    costs = CostModel(price_per_byte=2.0).costs(plan, graph, snapshot, 3)
    assert costs.rc == pytest.approx(3 * rent)
    assert costs.cc == pytest.approx(6 * network)
    assert plan.score == pytest.approx(rent)


def test_cost_per_tuple_of_a_new_worker_is_that_of_its_tier_or_its_price() -> None:
    new = (
        dataclasses.replace(TWO[0], id="a2"),
        dataclasses.replace(TWO[0], id="x", tier="", price_per_s=1.0),
    )
    snapshot = Snapshot(0, (*TWO, *new), tuples={"a": 100, "b": 100}, cost={"a": 1.0, "b": 4.0})
    found = cost_evaluation(snapshot)
    assert found["a2"] == found["a"] == 0.01
    # $ a tuple for the price of a core: 0.16 and 0.64 on the two that are known.
    assert found["x"] == pytest.approx(0.4 * 0.25)
    assert cost_evaluation(Snapshot(0, TWO)) == {}


def test_a_worker_that_is_always_full_is_busy() -> None:
    found = busyness({"full": [[1.0, 1.0], [1.0]], "idle": [[0.1, 0.2], [0.0]]})
    assert found == {"full": 1.0, "idle": 0.0}
    assert busyness({"a": [[1.0]], "b": [[1.0]]}) == {"a": 1.0, "b": 1.0}
    assert busyness({"a": [[0.2]], "b": [[0.2]]}) == {"a": 0.0, "b": 0.0}
    assert busyness({"a": []}) == {"a": 0.0}
    # One that came later is compared with the others in the periods that it has seen.
    late = busyness({"a": [[1.0], [1.0], [0.2]], "b": [[1.0], [1.0], [0.3]], "new": [[0.9]]})
    assert late["new"] == 1.0
    good = busyness({"a": [[1.0, 0.9]], "b": [[0.1, 0.2]]})
    assert 0 <= good["b"] < good["a"] <= 1
    for odd in (math.nan, math.inf, -1.0, None):  # no numbers: they make no worker idle
        seen = {"a": [[1.0, 0.9, odd]], "b": [[0.1, 0.2]], "c": [[odd]], "d": []}
        assert busyness(seen) == good | {"c": 1.0, "d": 1.0}  # type: ignore[arg-type]


def test_fitness_is_one_over_cost_and_busyness() -> None:
    snapshot = Snapshot(
        0,
        TWO,
        utilisation={"b": Utilisation(0.8)},
        tuples={"a": 10, "b": 10},
        cost={"a": 1.0, "b": 2.0},
        busyness={"a": 0.0},
    )
    found = fitness(snapshot)
    assert found == {"a": pytest.approx(1 / (0.1 * EPSILON)), "b": pytest.approx(1 / (0.2 * 0.8))}
    assert average_fitness(found.values()) == pytest.approx(sum(found.values()) / 2)
    free = dataclasses.replace(snapshot, cost={"a": 0.0, "b": 2.0})
    assert fitness(free)["a"] == math.inf
    assert average_fitness(fitness(free).values()) == pytest.approx(1 / (0.2 * 0.8))
    assert average_fitness([]) == 0


def test_planned_loads_are_the_demands_over_the_capacity() -> None:
    """CPU weighs four times as much as memory."""
    assert task_load(Resources(2, 1024), TWO[0].capacity) == pytest.approx(0.45)
    assert task_load(Resources(2, 1024), Resources(0, 2048)) == pytest.approx(0.1)
    found = planned_loads({"map-0": "a"}, GRAPH, Snapshot(0, TWO))
    assert found == {"a": pytest.approx(0.8 / 8 + 0.2 / 8), "b": 0.0}
    measured = Snapshot(0, TWO, usage={"map-0": Resources(2, 0)})
    assert planned_loads({"map-0": "a"}, GRAPH, measured) == {"a": pytest.approx(0.4), "b": 0}


def test_deviation_divides_by_the_number_of_workers() -> None:
    assert deviation([0.0, 1.0]) == 0.5
    assert deviation([]) == 0
    assert deviation([0.3] * 3) == pytest.approx(0, abs=1e-12)
