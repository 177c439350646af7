"""What partitions need and hosts have cached for them, by metrics and probe: without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from spark_fakes import Cluster, executor, workers_of

from scheduling import JobGraph, Objective
from scheduling.objective import Pricing
from scheduling.spark import CachesSeen
from scheduling.spark.probe import Reading
from scheduling.spark.seen import TaskSeen


class Probed(Cluster):
    """Two executors of many cores, whose processes took some CPU time until each look."""

    def __init__(self, **options: Any) -> None:
        found = (executor(name, cores=100) for name in ("0", "1"))
        super().__init__(*found, probe=True, delta=1.0, **options)
        self.told: dict[str, Reading] = {}

    def cycle(
        self, *tasks: TaskSeen, length_s: float = 10.0, total_s: float = 0.0, **cpu_s: float
    ) -> None:
        """A cycle, after which executor k took ``ek`` more seconds of CPU time; then a look."""
        self.monitor.record(length_s, tasks)
        self.now += length_s
        for name, seconds in ((name[1:], seconds) for name, seconds in cpu_s.items()):
            before = self.told[name].cpu_s if name in self.told else 0.0
            self.told[name] = Reading(name, self.now, before + seconds, 1.0)
        self.readings = list(self.told.values())
        for one in self.executors:
            one["totalDuration"] += 1000 * total_s
        self.monitor.snapshot()

    def begin(self, *names: str) -> None:
        """The first readings, which the next ones are compared with."""
        self.cycle(**dict.fromkeys(names, 0.0))

    @property
    def needs(self) -> list[float]:
        return [one.demand.cpu_cores for one in self.monitor.tasks(len(self.monitor._last))]


def test_waiting_for_shuffle_data_is_no_demand() -> None:
    one = Probed()
    one.cycle(TaskSeen(0, "1", 8.0, 5, wait_s=6.0, cpu_s=1.0))
    assert one.needs == [0.2]


def test_the_probe_says_which_share_of_the_useful_time_is_cpu_time() -> None:
    one = Probed()
    tasks = tuple(TaskSeen(i, str(i), 8.0, 5, cpu_s=1.0) for i in range(2))
    one.begin("e0", "e1")
    for _ in range(6):
        # The JVM and its Python workers; less than the JVM's own threads: never below those.
        one.cycle(*tasks, e0=4.0, e1=0.4)
    assert one.needs == pytest.approx([0.4, 0.1], abs=0.03)
    one.cycle(e0=5.0)  # no task ran since: nothing is learnt
    one.cycle(*tasks, e0=4.0, e1=0.4)
    assert one.needs == pytest.approx([0.4, 0.1], abs=0.03)


@pytest.mark.parametrize("cycles", [1, 3])
def test_what_was_guessed_before_the_first_reading_is_corrected_by_it(cycles: int) -> None:
    """A task on a throttled executor runs for ten times its CPU time."""
    one = Probed()
    tasks = tuple(TaskSeen(i, str(i), 10.0, 5, cpu_s=1.0) for i in range(2))
    one.begin("e0")
    for _ in range(cycles):
        one.cycle(*tasks)
        assert one.needs == [1.0, 1.0]  # an upper bound
    one.cycle(*tasks, e0=(cycles + 1) * 1.5)
    assert one.needs == pytest.approx([0.15, 1.0])
    one.begin("e1")
    one.cycle(*tasks, e0=1.5, e1=cycles + 2.0)
    assert one.needs == pytest.approx([0.15, 0.1])
    one.cycle(tasks[0], dataclasses.replace(tasks[1], executor="new"), e0=1.5)
    assert one.needs == pytest.approx([0.15, 0.1])  # what is known counts more than a guess


def test_the_cpu_time_of_other_operators_is_not_this_ones() -> None:
    one = Probed()
    one.begin("e0")
    for _ in range(6):  # of 8 s that were no waiting, 3 s are ours
        one.cycle(TaskSeen(0, "0", 4.0, 5, wait_s=1.0), e0=2.0, total_s=9.0)
    assert one.needs == pytest.approx([0.075])


def test_memory_is_needed_while_a_task_runs() -> None:
    one = Cluster(executor("0", cores=8), task_cpus=2)
    tasks = tuple(TaskSeen(i, "1", 0.1, 5, memory_mb=100) for i in range(8))
    assert {need.memory_mb for need in one.demands(8, (1.0, tasks))} == {50.0}  # in two turns
    assert {need.memory_mb for need in one.demands(4)} == {100.0}
    one = Cluster(executor("1"))
    cycles = [(1.0, (TaskSeen(0, "1", 0.1, 5, memory_mb=mb),)) for mb in (100.0, 0.0, 0.0, 0.0)]
    assert one.demands(1, *cycles)[0].memory_mb == 100.0  # not told is unknown, and not none


def test_a_task_with_a_metric_that_cannot_be_keeps_what_it_needed() -> None:
    for field in ("run_s", "rows", "cpu_s", "wait_s", "memory_mb"):
        for odd in (float("nan"), -1.0, float("inf"), None):
            good = tuple(TaskSeen(i, "1", 0.2 + i / 10, 5) for i in range(3))
            bad = dataclasses.replace(good[1], **{field: odd})
            assert bad.odd.startswith(f"{field}=")
            odd_cycle = (1.0, (good[0], bad, good[2]))
            one = Cluster(executor("1"))
            assert one.cores(3, (1.0, good), odd_cycle) == pytest.approx([0.2, 0.3, 0.4])
            # Without a value before, it is as the others are.
            assert Cluster(executor("1")).cores(3, odd_cycle) == pytest.approx([0.2, 0.3, 0.4])


def test_tasks_have_their_data() -> None:
    one = Cluster(executor("1", "a"))
    tasks = tuple(TaskSeen(i, "1", 0.1, 5, shuffle_bytes=100.0) for i in range(2))
    one.demands(2, (2.0, tasks))
    hosts = [("a",), ("a", "b")]
    zero, other = one.monitor.tasks(2, hosts)
    assert (zero.input_bytes_per_s, zero.preferred) == (50.0, ("a",))
    assert (other.id, other.preferred) == ("join-1", ("a", "b"))
    # The hosts of other numbers of partitions are not theirs.
    assert one.monitor.tasks(3, hosts)[0].preferred == ()


def test_a_task_of_two_cores_takes_two() -> None:
    found = [executor("0", cores=5), executor("1", cores=4)]
    assert [one.slots for one in workers_of(found, 4, task_cpus=2)] == [2, 2]
    one = Cluster(*found, task_cpus=2)
    assert one.cores(1, (1.0, (TaskSeen(0, "1", 1.0, 5, cpu_s=1.7),))) == [1.7]


# What hosts have cached

TWO = {0: "a", 1: "a", 2: "b", 3: "b"}


def ran(at: Mapping[int, str]) -> list[TaskSeen]:
    """Tasks that ran on these executors."""
    return [TaskSeen(index, executor, 0.1, 5) for index, executor in at.items()]


class Hosts(Cluster):
    """An executor of its name on each host."""

    def __init__(self, *hosts: str) -> None:
        super().__init__()
        self.keep(*hosts)

    def keep(self, *hosts: str) -> None:
        self.executors = [executor(name, name) for name in hosts]
        self.monitor.snapshot()

    def record(self, count: int, at: Mapping[int, str], seen: CachesSeen) -> None:
        self.monitor.caches(count, ran(at), seen)

    def of(self, count: int) -> list[Mapping[str, float]]:
        return [task.cached for task in self.monitor.tasks(count)]


def test_a_table_is_loaded_once_by_a_host_whichever_partitions_it_runs() -> None:
    found = Hosts("a", "b", "c")
    assert found.of(2) == [{}, {}]  # nothing before a job says so
    found.record(4, TWO, CachesSeen(table_bytes=400.0))
    # 4 partitions on 3 hosts: an even share of them loads the table once.
    assert found.of(4) == [{"a": 300.0, "b": 300.0}] * 4
    assert found.of(2) == [{"a": 400.0, "b": 400.0}] * 2  # never more than the table


def test_entries_are_those_of_the_partitions_that_loaded_them() -> None:
    found = Hosts("a", "b")
    seen = {0: (90.0, 20), 1: (100.0, 60), 2: (50.0, 5)}
    found.record(4, TWO, CachesSeen(entries=seen))
    assert found.of(4) == [{"a": 25.0}, {"a": 75.0}, {"b": 50.0}, {}]
    assert found.of(8) == [{}] * 8  # other partitions, with other keys
    # A cycle without misses tells nothing new; partition 1 has moved to b, and loads there.
    quiet = {0: (100.0, 0), 1: (200.0, 5), 2: (200.0, 0)}
    found.record(4, {**TWO, 1: "b"}, CachesSeen(entries=quiet))
    assert found.of(4) == [{"a": 25.0}, {"a": 75.0, "b": 100.0}, {"b": 100.0}, {}]
    found.keep("b")  # what a lost host had is gone
    assert found.of(4) == [{}, {"b": 100.0}, {"b": 100.0}, {}]
    # Entries that were there before are anybody's.
    found = Hosts("a")
    found.record(2, {0: "a", 1: "a"}, CachesSeen(entries=dict.fromkeys((0, 1), (8, 0))))
    assert found.of(2) == [{"a": 4.0}] * 2


def test_a_move_pays_for_what_the_host_lacks() -> None:
    there = (executor(name, host) for name, host in (("0", "a"), ("1", "a"), ("2", "b")))
    monitor = Cluster(*there).monitor
    snapshot = monitor.snapshot()
    monitor.caches(1, ran({0: "0"}), CachesSeen(entries={0: (5e9, 10)}))
    graph = JobGraph(monitor.tasks(1))
    assert graph.tasks[0].cached == {"a": 5e9}

    def movement(to: str) -> Any:
        return (
            Pricing(Objective(), graph, snapshot, {"join-0": "a/0"}).cost({"join-0": to}).movement
        )

    assert movement("a/1") == pytest.approx(1.0)  # the same host: move_s alone
    bandwidth = snapshot.workers[2].bandwidth_bytes_per_s
    assert movement("b/2") == pytest.approx(1.0 + 5e9 / bandwidth)
    monitor.caches(1, ran({0: "gone"}), CachesSeen(table_bytes=7.0))  # an executor nobody knows
    assert monitor.tasks(1)[0].cached == {"a": 5e9}
