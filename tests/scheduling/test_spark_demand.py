"""What partitions need, from what Spark's task metrics and the probe say: no Spark is needed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from spark_fakes import executor

from scheduling.spark.demand import CycleSeen, Demand, TaskSeen
from scheduling.spark.monitor import SparkMonitor, workers_of
from scheduling.spark.probe import Reading


def cores(demand: Demand, count: int) -> list[float]:
    return [one.cpu_cores for one in demand.resources(count)]


def test_waiting_for_shuffle_data_is_no_demand() -> None:
    demand = Demand()
    demand.record(CycleSeen(10.0, (TaskSeen(0, "1", 8.0, 5, wait_s=6.0, cpu_s=1.0),)))
    assert cores(demand, 1) == [0.2]


def test_the_probe_says_which_share_of_the_useful_time_is_cpu_time() -> None:
    demand = Demand()
    tasks = tuple(TaskSeen(i, str(i), 8.0, 5, cpu_s=1.0) for i in range(2))
    for _ in range(6):
        demand.record(CycleSeen(10.0, tasks))
        demand.read("0", 4.0)  # the JVM and its Python workers
        demand.read("1", 0.4)  # less than the JVM's own threads: never below those
    assert cores(demand, 2) == pytest.approx([0.4, 0.1], abs=0.03)
    demand.read("0", 5.0)  # no task ran since: nothing is learnt
    assert cores(demand, 2) == pytest.approx([0.4, 0.1], abs=0.03)


@pytest.mark.parametrize("cycles", [1, 3])
def test_what_was_guessed_before_the_first_reading_is_corrected_by_it(cycles: int) -> None:
    """A task on a throttled executor runs for ten times its CPU time."""
    demand = Demand()
    tasks = tuple(TaskSeen(i, str(i), 10.0, 5, cpu_s=1.0) for i in range(2))
    for _ in range(cycles):
        demand.record(CycleSeen(10.0, tasks))
    assert cores(demand, 2) == [1.0, 1.0]  # an upper bound
    demand.read("0", cycles * 1.5)
    assert cores(demand, 2) == pytest.approx([0.15, 1.0])
    demand.record(CycleSeen(10.0, tasks))
    assert cores(demand, 2) == pytest.approx([0.15, 1.0])
    demand.read("1", 1.0)
    assert cores(demand, 2) == pytest.approx([0.15, 0.1])
    moved = (tasks[0], dataclasses.replace(tasks[1], executor="new"))
    demand.record(CycleSeen(10.0, moved))  # what is known counts more than a guess
    assert cores(demand, 2) == pytest.approx([0.15, 0.1])


def test_the_cpu_time_of_other_operators_is_not_this_ones() -> None:
    demand = Demand()
    for _ in range(6):
        demand.record(CycleSeen(10.0, (TaskSeen(0, "0", 4.0, 5, wait_s=1.0),)))
        demand.read("0", 2.0, 9.0)  # of 8 s that were no waiting, 3 s are ours
    assert cores(demand, 1) == pytest.approx([0.075])


def test_numbers_of_partitions_have_demands_of_their_own() -> None:
    demand = Demand()
    for _ in range(3):
        demand.record(CycleSeen(1.0, tuple(TaskSeen(i, "1", 0.1 + i / 10, 5) for i in range(2))))
        demand.record(CycleSeen(1.0, tuple(TaskSeen(i, "1", 0.1, 5) for i in range(3))))
    assert cores(demand, 2) == pytest.approx([0.1, 0.2])
    assert cores(demand, 3) == pytest.approx([0.1, 0.1, 0.1])
    assert cores(demand, 6) == pytest.approx([0.05] * 6)


def test_memory_is_needed_while_a_task_runs() -> None:
    demand = Demand(task_cpus=2)
    demand.record(CycleSeen(1.0, tuple(TaskSeen(i, "1", 0.1, 5, memory_mb=100) for i in range(8))))
    workers = workers_of([executor("0", cores=8)], 1000.0, 8)
    assert {one.memory_mb for one in demand.resources(8, workers)} == {50.0}  # in two turns
    assert {one.memory_mb for one in demand.resources(4, workers)} == {100.0}


def test_memory_that_is_not_told_is_unknown_and_not_none() -> None:
    demand = Demand()
    for memory in (100.0, 0.0, 0.0, 0.0):
        demand.record(CycleSeen(1.0, (TaskSeen(0, "1", 0.1, 5, memory_mb=memory),)))
    assert demand.resources(1)[0].memory_mb == 100.0


ODD = [float("nan"), -1.0, float("inf"), None]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("field", ["run_s", "rows", "cpu_s", "wait_s", "memory_mb"])
def test_a_task_with_a_metric_that_cannot_be_keeps_what_it_needed(field: str, odd: Any) -> None:
    demand = Demand()
    good = tuple(TaskSeen(i, "1", 0.2 + i / 10, 5) for i in range(3))
    demand.record(CycleSeen(1.0, good))
    bad = dataclasses.replace(good[1], **{field: odd})
    assert bad.odd.startswith(f"{field}=")
    demand.record(CycleSeen(1.0, (good[0], bad, good[2])))
    assert cores(demand, 3) == pytest.approx([0.2, 0.3, 0.4])
    # Without a value before, it is as the others are.
    new = Demand()
    new.record(CycleSeen(1.0, (good[0], bad, good[2])))
    assert cores(new, 3) == pytest.approx([0.2, 0.3, 0.4])


def test_tasks_have_their_data() -> None:
    demand = Demand()
    demand.record(
        CycleSeen(2.0, tuple(TaskSeen(i, "1", 0.1, 5, shuffle_bytes=100.0) for i in range(2)))
    )
    demand.preferred = [("a",), ("a", "b")]
    zero, one = demand.tasks("join", demand.resources(2), [{"a": 5.0}, {}])
    assert (zero.cached, one.cached) == ({"a": 5.0}, {})
    assert (zero.input_bytes_per_s, zero.preferred) == (50.0, ("a",))
    assert (one.id, one.preferred) == ("join-1", ("a", "b"))
    # The hosts of other numbers of partitions are not theirs.
    assert demand.tasks("join", demand.resources(3), [{}] * 3)[0].preferred == ()


def test_a_monitor_reads_the_share_of_cpu_time_from_its_probe() -> None:
    now, readings = [0.0], [Reading("1", 0.0, 10.0, 100.0)]
    monitor = SparkMonitor(
        lambda: [executor("1", cores=4)],
        1000.0,
        "join",
        clock=lambda: now[0],
        probe=lambda bare: readings,
    )
    monitor.snapshot()
    for cycle in range(1, 7):
        now[0] = 10.0 * cycle
        monitor.record(CycleSeen(10.0, (TaskSeen(0, "1", 8.0, 5),)))
        readings[:] = [Reading("1", now[0], 10.0 + 2.0 * cycle, 100.0)]
        snapshot = monitor.snapshot()
    assert snapshot.usage["join-0"].cpu_cores == pytest.approx(0.2, abs=0.02)


def test_a_task_of_two_cores_takes_two() -> None:
    found = [executor("0", cores=5), executor("1", cores=4)]
    assert [one.slots for one in workers_of(found, 1.0, 4, task_cpus=2)] == [2, 2]
    demand = Demand(task_cpus=2)
    demand.record(CycleSeen(1.0, (TaskSeen(0, "1", 1.0, 5, cpu_s=1.7),)))
    assert cores(demand, 1) == [1.7]
