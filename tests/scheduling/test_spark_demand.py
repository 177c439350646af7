"""What partitions need, from what Spark's task metrics and the probe say: no Spark is needed."""

from __future__ import annotations

import pytest
from spark_fakes import executor

from scheduling import (
    CETSA,
    LBACE,
    JobGraph,
    Policy,
    Resources,
    RoundRobin,
    Snapshot,
    Spread,
    Task,
    Worker,
)
from scheduling.spark.demand import CycleSeen, Demand, TaskSeen
from scheduling.spark.monitor import SparkMonitor, workers_of
from scheduling.spark.probe import Reading
from scheduling.spark.tier_monitor import CheapestTier, TierMonitor


def cores(demand: Demand, count: int) -> list[float]:
    return [one.cpu_cores for one in demand.resources(count, 0.0)]


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
    assert {one.memory_mb for one in demand.resources(8, 8.0)} == {50.0}  # in two turns
    assert {one.memory_mb for one in demand.resources(4, 8.0)} == {100.0}


def test_tasks_have_their_data() -> None:
    demand = Demand()
    demand.record(
        CycleSeen(2.0, tuple(TaskSeen(i, "1", 0.1, 5, shuffle_bytes=100.0) for i in range(2)))
    )
    demand.prefer([("a",), ("a", "b")])
    zero, one = demand.tasks("join", demand.resources(2, 0.0))
    assert (zero.input_bytes_per_s, zero.preferred) == (50.0, ("a",))
    assert (one.id, one.preferred) == ("join-1", ("a", "b"))
    # The hosts of other numbers of partitions are not theirs.
    assert demand.tasks("join", demand.resources(3, 0.0))[0].preferred == ()


def test_a_monitor_reads_the_share_of_cpu_time_from_its_probe() -> None:
    now, readings = [0.0], [Reading("1", "h", 0.0, 10.0, 100.0)]
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
        readings[:] = [Reading("1", "h", now[0], 10.0 + 2.0 * cycle, 100.0)]
        snapshot = monitor.snapshot()
    assert snapshot.usage["join-0"].cpu_cores == pytest.approx(0.2, abs=0.02)


def test_a_task_of_two_cores_takes_two() -> None:
    found = [executor("0", cores=5), executor("1", cores=4)]
    assert [one.slots for one in workers_of(found, 1.0, 4, task_cpus=2)] == [2, 2]
    demand = Demand(task_cpus=2)
    demand.record(CycleSeen(1.0, (TaskSeen(0, "1", 1.0, 5, cpu_s=1.7),)))
    assert cores(demand, 1) == [1.7]


TIERS = (
    Worker("dear", Resources(8, 8192), 8, price_per_s=3.0),
    Worker("cheap", Resources(8, 8192), 8, price_per_s=1.0),
    Worker("small", Resources(2, 8192), 2, price_per_s=0.1),
)


@pytest.mark.parametrize("policy", [CETSA(), LBACE(), RoundRobin(), Spread()])
def test_every_policy_takes_the_cheapest_tier_that_has_room(policy: Policy) -> None:
    graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(0.5, 64)) for i in range(4)))
    plan = CheapestTier(policy).plan(graph, Snapshot(0.0, TIERS))
    assert set(plan.placement.values()) == {"cheap"}
    assert plan.policy == policy.name


def test_a_tier_has_the_history_of_its_executors() -> None:
    now = [0.0]
    found = [executor("1", "a"), executor("2", "b"), executor("3", "c")]
    monitor = SparkMonitor(lambda: found, 1000.0, "join", clock=lambda: now[0])
    tiers = TierMonitor(monitor, TIERS[:2], lambda: {"1": "dear", "2": "dear"})
    assert not tiers.snapshot().has_history
    now[0] = 2.0
    monitor.record(CycleSeen(2.0, tuple(TaskSeen(i, str(i + 1), 0.5, 10) for i in range(3))))
    seen = tiers.snapshot()
    assert seen.workers == TIERS[:2]
    assert seen.tuples == {"dear": 20}
    assert seen.cost == {"dear": 6.0}
    assert seen.placement == {"join-0": "dear", "join-1": "dear"}
    assert set(seen.usage) == {"join-0", "join-1", "join-2"}
    assert set(seen.utilisation) == {"dear"}
    assert tiers.windows()["join"].tuples_in == 30
