"""The simulator's monitor and actuator, as a controller uses them."""

from __future__ import annotations

import pytest

from scheduling.errors import ActuatorError
from scheduling.model import Assignment, Move, Plan, Unplaced
from scheduling.policies import policy
from scheduling.protocols import Actuator, Monitor
from scheduling.simulate import Failure, SimActuator, SimMonitor, Simulation, constant, table_4
from scheduling.simulate.disturbed_runs import run as disturbed
from scheduling.simulate.jobs import demands
from scheduling.simulate.workloads import wordcount


@pytest.fixture
def simulation() -> Simulation:
    workers = table_4()
    tasks = demands(wordcount(), 1.0).tasks
    placement = {task.id: workers[at % 11].id for at, task in enumerate(tasks)}
    failures = [Failure("xl1", 40, 50)]
    return Simulation(wordcount(), workers, constant(20_000.0), placement, failures=failures)


def plan(placement: dict[str, str], **options: object) -> Plan:
    assignments = tuple(Assignment(task, at, "requested") for task, at in placement.items())
    return Plan(assignments, **options)  # type: ignore[arg-type]


def test_they_are_what_a_controller_requires(simulation: Simulation) -> None:
    assert isinstance(SimMonitor(simulation), Monitor)
    assert isinstance(SimActuator(simulation), Actuator)


def test_a_snapshot_has_the_metrics_since_the_last(simulation: Simulation) -> None:
    monitor = SimMonitor(simulation)
    assert not monitor.snapshot().has_history
    simulation.run(10)
    first = monitor.snapshot()
    simulation.run(30)
    second = monitor.snapshot()
    # Read, split, count and write: 3.3 tuples are processed for a record.
    assert sum(first.tuples.values()) < sum(second.tuples.values())
    assert sum(second.tuples.values()) == pytest.approx(20_000 * 20 * 3.3, rel=0.05)
    assert second.cost["xl1"] == pytest.approx(7.778e-3 * 20)
    assert all(0 <= used.cpu <= 1 for used in second.utilisation.values())
    assert second.busyness["m2"] > second.busyness["xl4"]
    assert second.placement == simulation.placement


def test_a_worker_that_is_gone_is_not_in_the_snapshot(simulation: Simulation) -> None:
    monitor = SimMonitor(simulation)
    simulation.run(45)
    assert "xl1" not in monitor.snapshot().by_id
    assert "xl1" not in monitor.snapshot().placement.values()
    simulation.run(60)
    assert "xl1" in monitor.snapshot().by_id


def test_windows_tell_what_each_operator_did(simulation: Simulation) -> None:
    monitor = SimMonitor(simulation)
    assert monitor.windows() == {}
    simulation.run(30)
    window = monitor.windows()["count"]
    assert window.parallelism == 8
    assert window.tuples_done == pytest.approx(20_000 * 30, rel=0.1)
    assert window.busy_s / window.tuples_done == pytest.approx(2 * window.latency_s, rel=0.1)
    simulation.run(50)  # the failure takes counters back
    assert all(one.tuples_done >= 0 for one in monitor.windows().values())


def test_a_plan_lands_and_its_number_of_tasks_is_the_parallelism(simulation: Simulation) -> None:
    simulation.run(5)
    actuator = SimActuator(simulation, still_s=2)
    graph = demands(wordcount().resized({"count": 5, "split": 9}), 20_000)
    requested = policy("round-robin").plan(graph, SimMonitor(simulation).snapshot())
    receipt = actuator.apply(requested)
    assert receipt.landing_share == 1
    assert simulation.parallelism == {"read": 4, "split": 9, "count": 5, "write": 2}
    simulation.run(30)
    simulation._check()
    assert simulation.trace.throughput()[-1] == pytest.approx(20_000, rel=0.01)


def test_a_plan_that_is_not_whole_is_refused(simulation: Simulation) -> None:
    actuator = SimActuator(simulation)
    whole = simulation.placement
    with pytest.raises(ActuatorError, match="no room for read-0"):
        actuator.apply(plan(whole, unplaced=(Unplaced("read-0", "full"),)))
    with pytest.raises(ActuatorError, match="'mars-0' is none of the job's"):
        actuator.apply(plan({"mars-0": "m2"}))
    with pytest.raises(ActuatorError, match="no task of"):
        actuator.apply(plan({"read-0": "m2"}))


def test_a_part_of_a_task_becomes_a_task_of_its_own(simulation: Simulation) -> None:
    simulation.run(5)
    source = simulation.placement["count-0"]
    share = simulation.shares["count"][0]
    whole = Move("count-1", simulation.placement["count-1"], "xl2", 0.1, 0.0)
    part = Move("count-0", source, "xl4", 0.1, 0.0, part=0.25)
    receipt = SimActuator(simulation).move([part, whole])
    assert receipt.landed == {"count-8": "xl4", "count-1": "xl2"}
    assert simulation.shares["count"][[0, 8]] == pytest.approx([0.75 * share, 0.25 * share])
    simulation.run(20)
    simulation._check()


def test_a_plan_with_moves_makes_the_moves(simulation: Simulation) -> None:
    whole = Move("count-1", simulation.placement["count-1"], "xl2", 0.1, 0.0)
    receipt = SimActuator(simulation).apply(plan({"count-1": "xl2"}, moves=(whole,)))
    assert receipt.landing_share == 1
    assert simulation.placement["count-1"] == "xl2"


def test_a_move_from_where_the_task_is_not_is_refused(simulation: Simulation) -> None:
    with pytest.raises(ActuatorError, match="plan the moves again"):
        SimActuator(simulation).move([Move("count-1", "mars", "xl2", 0.1, 0.0)])


def test_new_instances_go_to_workers_that_are_up(simulation: Simulation) -> None:
    simulation.run(45)
    receipt = SimActuator(simulation).resize("count", 30)
    assert len(receipt.landed) == 22
    assert "xl1" not in receipt.landed.values()
    assert simulation.parallelism["count"] == 30


def test_a_controller_repairs_a_simulated_failure() -> None:
    found = disturbed("lba-ce", steered=True, until_s=360)
    assert "repair" in [one.action for one in found.decisions]
    assert found.restarts == 1
    assert found.trace.backlog[-1] < 20_000
