"""Rent, network, scheduling; cost per tuple, busyness, fitness, load, S."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, graphs, table_3, tasks

from scheduling import (
    CostModel,
    Costs,
    Edge,
    JobGraph,
    Plan,
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
    guessed,
    planned_loads,
    task_load,
)

TWO = (
    Worker("a", Resources(4, 4096), 4, price_per_s=0.25, tier="s"),
    Worker("b", Resources(8, 8192), 4, price_per_s=0.5, tier="l"),
)
GRAPH = JobGraph(tasks(3), (Edge("map-0", "map-1", 10), Edge("map-1", "map-2", 100)))
APART = {"map-0": "a", "map-1": "b", "map-2": "b"}


def test_rent_is_paid_once_for_each_worker_in_use() -> None:
    snapshot = Snapshot(0, TWO)
    assert rent_per_s(APART, snapshot) == 0.75
    assert rent_per_s({"map-0": "a"}, snapshot) == 0.25
    assert rent_per_s({}, snapshot) == 0


def test_each_stream_between_hosts_is_paid_once() -> None:
    cost = CostModel(price_per_byte=0.5)
    assert cost.network_per_s(APART, GRAPH, Snapshot(0, TWO)) == 5
    together = tuple(dataclasses.replace(worker, host="h") for worker in TWO)
    assert cost.network_per_s(APART, GRAPH, Snapshot(0, together)) == 0
    far = CostModel(price_per_byte=0.5, distance={("b", "a"): 3})
    assert far.network_per_s(APART, GRAPH, Snapshot(0, TWO)) == 15


def test_the_weighted_cost_is_the_weighted_sum() -> None:
    cost = CostModel(weights=(0.5, 0.3, 0.2), price_per_byte=0.5)
    plan = dataclasses.replace(Random().plan(GRAPH, Snapshot(0, TWO)), scheduling_time_s=4.0)
    costs = cost.costs(plan, GRAPH, Snapshot(0, TWO), 10)
    assert costs.wec == pytest.approx(0.5 * costs.rc + 0.3 * costs.cc + 0.2 * costs.sc)
    assert costs.sc == pytest.approx(0.4 * costs.rc)


@pytest.mark.parametrize("weights", [(1, 1, 1), (0.5, 0.5), (-0.5, 1, 0.5)])
def test_weights_that_do_not_sum_to_one_are_refused(weights: tuple[float, float, float]) -> None:
    with pytest.raises(errors.ArgumentError, match="weights="):
        CostModel(weights=weights)


@settings(deadline=None)
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


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=2), st.lists(st.lists(st.floats(0, 1), max_size=4))))
def test_busyness_is_a_share(periods: dict[str, list[list[float]]]) -> None:
    found = busyness(periods)
    assert found.keys() == periods.keys()
    assert all(0 <= value <= 1 for value in found.values())


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


def test_load_weighs_cpu_four_times_memory() -> None:
    assert task_load(Resources(2, 1024), TWO[0].capacity) == pytest.approx(0.45)
    assert task_load(Resources(2, 1024), Resources(0, 2048)) == pytest.approx(0.1)


def test_planned_loads_are_the_demands_over_the_capacity() -> None:
    found = planned_loads({"map-0": "a"}, GRAPH, Snapshot(0, TWO))
    assert found == {"a": pytest.approx(0.8 / 8 + 0.2 / 8), "b": 0.0}
    measured = Snapshot(0, TWO, usage={"map-0": Resources(2, 0)})
    assert planned_loads({"map-0": "a"}, GRAPH, measured) == {"a": pytest.approx(0.4), "b": 0}


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_deviation_is_zero_for_even_loads(values: list[float]) -> None:
    assert deviation(values) >= 0
    assert deviation([values[0]] * 3) == pytest.approx(0, abs=1e-12)


def test_deviation_divides_by_the_number_of_workers() -> None:
    assert deviation([0.0, 1.0]) == 0.5
    assert deviation([]) == 0


def test_an_empty_plan_costs_nothing() -> None:
    assert CostModel().costs(Plan(()), JobGraph(()), table_3(), 9) == Costs(0, 0, 0, 0)


ODD = [math.nan, math.inf, -1.0, None, "3", True]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("name", ["tuples", "cost", "busyness", "utilisation"])
def test_a_worker_without_a_figure_that_others_have_is_never_the_fittest(
    name: str, odd: object
) -> None:
    good = table_3()
    figures = {
        "tuples": dict(good.tuples),
        "cost": dict(good.cost),
        "busyness": {} if name == "utilisation" else dict.fromkeys(good.by_id, 0.5),
        "utilisation": dict.fromkeys(good.by_id, Utilisation(0.5)) if name != "busyness" else {},
    }
    for missing in (False, True):
        figures[name].pop("m3")  # the best of Table 3
        if not missing:
            figures[name]["m3"] = odd  # type: ignore[assignment]
        seen = dataclasses.replace(good, **figures)  # type: ignore[arg-type]
        assert ("m3" in seen.ignored) is not missing
        if name in ("tuples", "cost"):
            assert (
                min(cost_evaluation(seen), key=lambda worker: cost_evaluation(seen)[worker]) != "m3"
            )
            assert "m3" in guessed(seen)
        found = fitness(seen)
        assert found["m3"] <= max(value for worker, value in found.items() if worker != "m3")
        assert "m3" in guessed(seen, busy=True)


@settings(deadline=None)
@given(clusters(), st.data())
def test_no_estimate_is_better_than_the_best_measured(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    every = {
        name: {
            worker: data.draw(st.sampled_from([0.3, math.nan, 5.0, -2, math.inf, 1.0]))
            for worker in snapshot.by_id
            if data.draw(st.booleans())
        }
        for name in ("tuples", "cost", "busyness")
    }
    seen = dataclasses.replace(snapshot, **every)  # type: ignore[arg-type]
    cost, fit = cost_evaluation(seen), fitness(seen)
    assert cost.keys() == fit.keys()
    assert set(cost) in ({}.keys(), set(seen.by_id))
    unsure = guessed(seen)
    if cost:
        assert min(cost.values()) == min(v for name, v in cost.items() if name not in unsure)
    surely = [value for name, value in fit.items() if name not in guessed(seen, busy=True)]
    if surely:
        assert max(fit.values()) == max(surely)


def test_samples_that_are_no_numbers_make_no_worker_idle() -> None:
    good = busyness({"a": [[1.0, 0.9]], "b": [[0.1, 0.2]]})
    for odd in (math.nan, math.inf, -1.0, None):
        found = busyness({"a": [[1.0, 0.9, odd]], "b": [[0.1, 0.2]], "c": [[odd]], "d": []})  # type: ignore[list-item]
        assert found == good | {"c": 1.0, "d": 1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": None},
        {"weights": (0.5, 0.5, None)},
        {"weights": (math.nan, 0.5, 0.5)},
        {"weights": "abc"},
        {"price_per_byte": "1"},
        {"price_per_byte": True},
        {"distance": [1]},
        {"distance": {("a", "b"): math.nan}},
    ],
    ids=repr,
)
def test_what_is_no_price_or_weight_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.ArgumentError):
        CostModel(**wrong)  # type: ignore[arg-type]


def test_a_worker_without_tuples_costs_as_its_tier_and_one_that_is_not_believed_the_most() -> None:
    workers = tuple(Worker(name, Resources(4, 8192), 4, tier="m") for name in "abc")
    seen = Snapshot(0.0, workers, tuples={"a": 50, "c": 50}, cost={"a": 2.0, "c": math.nan})
    assert cost_evaluation(seen) == {"a": 0.04, "b": 0.04, "c": math.inf}
