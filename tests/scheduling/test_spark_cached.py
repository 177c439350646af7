"""What hosts have cached for partitions, and what a move costs by it: no Spark is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from spark_fakes import Cluster, executor

from scheduling import JobGraph, Objective, Snapshot
from scheduling.objective import Pricing
from scheduling.spark import CachesSeen
from scheduling.spark.seen import TaskSeen

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


def test_nothing_is_cached_before_a_job_says_so() -> None:
    assert Hosts("a", "b").of(2) == [{}, {}]


def test_a_table_is_loaded_once_by_a_host_whichever_partitions_it_runs() -> None:
    found = Hosts("a", "b", "c")
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


def test_entries_that_were_there_before_are_anybodys() -> None:
    found = Hosts("a")
    found.record(2, {0: "a", 1: "a"}, CachesSeen(entries=dict.fromkeys((0, 1), (8, 0))))
    assert found.of(2) == [{"a": 4.0}] * 2


def test_what_a_lost_host_had_is_gone() -> None:
    found = Hosts("a", "b")
    entries = {0: (90.0, 20), 2: (50.0, 5)}
    found.record(4, TWO, CachesSeen(100.0, entries))
    found.keep("b")
    assert found.of(4)[0] == {"b": 25.0}
    assert found.of(4)[2] == {"b": 75.0}


def test_a_move_pays_for_what_the_host_lacks() -> None:
    there = (executor(name, host) for name, host in (("0", "a"), ("1", "a"), ("2", "b")))
    monitor = Cluster(*there).monitor
    snapshot = monitor.snapshot()
    monitor.caches(1, ran({0: "0"}), CachesSeen(entries={0: (5e9, 10)}))
    graph = JobGraph(monitor.tasks(1))
    assert graph.tasks[0].cached == {"a": 5e9}

    def movement(to: str) -> float:
        return _movement(graph, snapshot, to)

    assert movement("a/1") == pytest.approx(1.0)  # the same host: move_s alone
    bandwidth = snapshot.workers[2].bandwidth_bytes_per_s
    assert movement("b/2") == pytest.approx(1.0 + 5e9 / bandwidth)
    monitor.caches(1, ran({0: "gone"}), CachesSeen(table_bytes=7.0))  # an executor nobody knows
    assert monitor.tasks(1)[0].cached == {"a": 5e9}


def _movement(graph: JobGraph, snapshot: Snapshot, to: str) -> Any:
    return Pricing(Objective(), graph, snapshot, {"join-0": "a/0"}).cost({"join-0": to}).movement
