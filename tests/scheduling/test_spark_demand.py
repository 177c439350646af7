"""What partitions need and hosts have cached for them, by metrics and probe: without Spark."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from spark_fakes import Cluster, executor

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
