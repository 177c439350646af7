"""Controllers and scalers on the simulator, as on Spark."""

from __future__ import annotations

import math

import pytest

from benchmarks.papers.scheduling.operators import Operator, demands
from benchmarks.papers.scheduling.steering import ElasticSimulation, SimCluster, scaled
from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    LBACE,
    Assignment,
    Controller,
    JobGraph,
    Plan,
    Policy,
    Resources,
    Snapshot,
    StStream,
    Worker,
    policy,
)
from scheduling.elastic import Bounds, Elastic
from scheduling.errors import ActuatorError
from scheduling.flow import Meter
from scheduling.protocols import Actuator, Monitor
from scheduling.scalers import DS2, OERA, Scaler
from scheduling.simulate import Arrivals, Simulation

PRICES = (1.0, 2.0, 4.0)


def query(
    tasks: int = 6, row_s: float = 0.003, shares: tuple[float, ...] = (), **options: object
) -> ElasticSimulation:
    """Three executors of three prices, half busy."""
    there = [Worker(f"e{at}", Resources(2, 1024), 4, price) for at, price in enumerate(PRICES)]
    join = Operator("join", tasks, row_s, memory_mb=64.0, state_bytes=600.0, shares=shares)
    return ElasticSimulation(
        demands([join], 1000.0), there, Arrivals(1000.0, horizon_s=1000), rows_per_s=1000.0,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def plan(placement: dict[str, str]) -> Plan:
    return Plan(tuple(Assignment(task, at, "told") for task, at in placement.items()))


def test_they_are_what_a_controller_requires() -> None:
    assert isinstance(SimCluster(query()), Monitor)
    assert isinstance(SimCluster(query()), Actuator)


def test_a_snapshot_has_what_happened_since_the_last() -> None:
    one = query()
    monitor = SimCluster(one)
    assert not monitor.snapshot().has_history
    one.run(20.0)
    first = monitor.snapshot()
    rows, seconds = recalled([b.rows for b in one.batches]), recalled([1.0] * len(one.batches))
    assert sum(first.tuples.values()) == pytest.approx(rows, rel=0.01)
    assert sum(used.cpu * 2 for used in first.utilisation.values()) == pytest.approx(3.0, rel=0.1)
    assert sum(used.cpu_cores for used in first.usage.values()) == pytest.approx(3.0, rel=0.1)
    paid = {f"e{at}": price * seconds for at, price in enumerate(PRICES)}
    assert first.cost == pytest.approx(paid, rel=0.01)
    assert first.placement == one.batches[-1].at
    one.kill("e2")
    one.run(40.0)
    second = monitor.snapshot()
    assert set(second.by_id) == set(second.utilisation) == {"e0", "e1"}
    assert "e2" not in second.placement.values()
    assert second.cost["e0"] == pytest.approx(recalled([1.0] * len(one.batches)), rel=0.01)


def recalled(values: list[float]) -> float:
    """What a worker did in some cycles, each of nine tenths of the weight of the one after it."""
    return math.fsum(value * 0.9**age for age, value in enumerate(reversed(values)))


def test_a_worker_that_a_policy_left_is_remembered() -> None:
    one = query()
    monitor = actuator = SimCluster(one)
    one.run(10.0)
    known = monitor.snapshot()
    actuator.apply(plan({f"join-{at}": "e0" if at < 4 else "e1" for at in range(6)}))
    one.run(12.0)
    monitor.snapshot()
    one.run(30.0)
    left = monitor.snapshot()
    assert left.utilisation["e2"].cpu == 0
    assert left.tuples["e2"] / left.cost["e2"] == pytest.approx(
        known.tuples["e2"] / known.cost["e2"], rel=0.5
    )


def test_a_plan_lands_and_what_is_unknown_is_refused() -> None:
    one = query()
    actuator = SimCluster(one)
    at = {f"join-{k}": f"e{k % 2}" for k in range(6)}
    one.run(3.5)
    receipt = actuator.apply(plan(at))
    assert receipt.landing_share == 1
    one.run(20.0)
    assert one.batches[-1].at == at
    one.kill("e1")
    assert actuator.apply(plan(at)).landing_share == 0.5
    with pytest.raises(ActuatorError, match="mars"):
        actuator.apply(plan({"mars-0": "e0"}))


@pytest.mark.parametrize("name", ["round-robin", "cetsa", "gs-bfd", "lba-ce", "first-fit"])
def test_policies_see_on_it_what_they_need(name: str) -> None:
    one = query()
    monitor = actuator = SimCluster(one)
    for cycle in range(1, 6):
        one.run(cycle * 5.0)
        snapshot = monitor.snapshot()
        graph = one.graph
        answer = policy(name).plan(graph, snapshot)
        assert_feasible(answer, graph, snapshot)
        assert not answer.fallback
        actuator.apply(answer)
    one.run(30.0)
    assert one.batches[-1].at == answer.placement
    if name == "cetsa":
        assert set(answer.placement.values()) == {"e0", "e1"}, "the cheapest that have room"


def controlled(one: Simulation, asked: str | Policy, **options: object) -> Controller:
    monitor = SimCluster(one)
    return Controller(
        monitor, policy(asked) if isinstance(asked, str) else asked, monitor, lambda _: one.graph,
        {"join": len(one.graph.tasks)}, clock=lambda: one.now, **options,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("name", ["round-robin", "cetsa", "gs-bfd", "lba-ce", "random"])
@pytest.mark.parametrize("balanced", [False, True])
def test_controllers_rest_on_it_and_place_again_what_ran_on_the_dead(
    name: str, balanced: bool
) -> None:
    shares = (0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05)
    one = query(tasks=8, row_s=0.002, shares=shares, noise=0.03)
    options = {"rebalancer": StStream(cpu_weight=1.0)} if balanced else {}
    controller, seen = controlled(one, name, **options), []
    for cycle in range(1, 31):
        controller.step()
        one.run(cycle * 10.0)
        seen.append(dict(one.placement))
    assert seen[5:] == [seen[5]] * 25, "at most five cycles until it rests"
    assert one.batches[-1].at == one.placement == controller.plan.placement  # type: ignore[union-attr]
    dead = one.placement["join-0"]
    one.kill(dead)
    for cycle in range(31, 36):
        controller.step()
        one.run(cycle * 10.0)
    assert dead not in one.placement.values()
    assert one.batches[-1].at == one.placement
    assert len(one.placement) == 8


class Recorded(LBACE):
    """A policy whose last answer is kept."""

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        self.__dict__["answer"] = super().plan(graph, snapshot, previous)
        return self.__dict__["answer"]


def test_without_hysteresis_the_answer_of_every_cycle_is_pinned() -> None:
    one, asked, answers = query(noise=0.05), Recorded(), []
    controller = controlled(one, asked, hysteresis=0.0)
    for cycle in range(1, 8):
        one.run(cycle * 5.0)
        decision = controller.step()
        assert decision.plan is not None
        assert one.placement == decision.plan.placement
        answers.append(asked.__dict__["answer"].placement)
        assert one.placement == answers[-1]
    assert answers[0] != answers[-1]


def elastic_run(
    scaler: Scaler, curve: list[tuple[float, float]], until_s: float, **options: float
) -> tuple[ElasticSimulation, Elastic]:
    """A query of 12 tasks of 500 rows a core second, which begins on four executors."""
    there = [Worker(f"e{at}", Resources(1, 1024), 1) for at in range(4)]
    arrived = Arrivals(curve, noise=0.2, seed=3, horizon_s=int(until_s))
    one = ElasticSimulation(
        demands([Operator("join", 12, 0.002)]), there, arrived, fixed_s=0.05, trigger_s=5.0,
        overhead_s=0.3, start_s=8.0, noise=0.05, **options,  # type: ignore[arg-type]
    )  # fmt: skip
    elastic = Elastic(scaler, tasks=12, bounds=Bounds(most=12))
    scaled(one, elastic, Meter(), until_s)
    return one, elastic


def waits(one: Simulation) -> float:
    last = one.batches[-1]
    return last.end - one.arrived.second(last.offset + last.rows / 2)


@pytest.mark.parametrize("scaler", [OERA(), DS2()], ids=["oera", "ds2"])
def test_scalers_rest_at_constant_load_and_follow_a_rise_and_a_fall(scaler: Scaler) -> None:
    one, elastic = elastic_run(scaler, [(0, 1900.0)], 3 * 3600.0)
    assert elastic.requests <= 2
    assert one.offset == pytest.approx(sum(batch.rows for batch in one.batches))
    assert waits(one) < 15
    curve = [(0, 500.0), (900, 500.0), (930, 3000.0), (2000, 3000.0), (2030, 500.0)]
    one, elastic = elastic_run(scaler, curve, 3000.0)
    ups = [step for step in elastic.steps if step.target and 900 < step.time_s < 1300]
    assert 1 <= len(ups) <= 3
    during = [step.there for step in elastic.steps if 1500 < step.time_s < 2000]
    assert min(during) >= 3000 / 500
    assert waits(one) < 15
    assert elastic.steps[-1].there <= 4


def test_a_scaler_is_given_fewer_then_what_it_asked_for_and_what_dies_comes_back() -> None:
    there = [Worker(f"e{at}", Resources(1, 1024), 1) for at in range(2)]
    arrived = Arrivals(2500.0, noise=0.2, horizon_s=3000)
    one = ElasticSimulation(
        demands([Operator("join", 12, 0.002)]),
        there,
        arrived,
        trigger_s=5.0,
        start_s=8.0,
        most=4,
    )
    elastic = Elastic(DS2(), tasks=12, bounds=Bounds(most=12))
    meter = Meter()
    one.at(1500.0, lambda: setattr(one, "most", math.inf))
    one.at(1500.0, lambda: one.resize(one.requested or 0))
    one.at(2200.0, lambda: one.kill(one.there()[0].worker.id))
    scaled(one, elastic, meter, 1499.0)
    assert len(one.there()) == 4
    assert elastic.requests <= 4, "requests in vain are not repeated in every window"
    asked = elastic.requested
    scaled(one, elastic, meter, 2199.0)
    assert len(one.there()) == elastic.requested >= 6
    assert asked is not None
    there_before = len(one.there())
    scaled(one, elastic, meter, 2250.0)
    assert len(one.there()) >= there_before
    scaled(one, elastic, meter, 3000.0)
    assert waits(one) < 20
