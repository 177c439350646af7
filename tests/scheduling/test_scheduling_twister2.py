"""Twister2's schedulers: what their text promises, and what their code does."""

from __future__ import annotations

import pytest
from scheduling_samples import tasks

from benchmarks.papers.scheduling import containers
from benchmarks.papers.scheduling.containers import (
    CONTAINER,
    INSTANCE,
    PADDING,
    container_sizes,
    distance,
)
from scheduling import (
    DataNode,
    FirstFit,
    JobGraph,
    Resources,
    RoundRobin,
    Snapshot,
    Worker,
    errors,
)

ROOMY = Resources(100, 100_000, 100_000)
TWO = Snapshot(0, tuple(Worker(f"c{i}", ROOMY, 50) for i in range(2)))


def instances(parallelism: int, operator: str) -> tuple:  # type: ignore[type-arg]
    return tuple(
        type(task)(task.id, task.operator, task.index, INSTANCE)
        for task in tasks(parallelism, operator)
    )


JOB = JobGraph((*instances(2, "t1"), *instances(2, "t2")))


def test_the_example_of_round_robin() -> None:
    # Instance 0 of both tasks in the first container, instance 1 of both in the second.
    expected = {"c0": ("t1-0", "t2-0"), "c1": ("t1-1", "t2-1")}
    assert RoundRobin(restart=True).plan(JOB, TWO).by_worker == expected
    assert containers.round_robin(JOB, TWO).by_worker == expected


def test_the_original_round_robin_places_nothing_where_containers_are_enough() -> None:
    four = Snapshot(0, tuple(Worker(f"c{i}", ROOMY, 50) for i in range(4)))
    plan = containers.round_robin(JOB, four)
    assert not plan.assignments
    assert plan.unplaced[0].reason == "4 containers are not fewer than 4 instances"
    assert not RoundRobin(restart=True).plan(JOB, four).unplaced


def test_a_container_is_as_large_as_its_worker_or_its_instances_and_padding() -> None:
    plan = RoundRobin(restart=True).plan(JOB, TWO)
    assert container_sizes(plan, JOB, TWO) == {"c0": ROOMY, "c1": ROOMY}
    unknown = Snapshot(0, tuple(Worker(f"c{i}", Resources(0, 0), 50) for i in range(2)))
    padded = Resources(2 * 2 + 1.0, 2 * 512 + 2.0, 2 * 500 + 12.0)
    assert container_sizes(plan, JOB, unknown)["c0"] == padded
    # The original adds the instances' disk to the CPU.
    original = container_sizes(plan, JOB, unknown, compat="twister2")["c1"]
    assert original == Resources(2 * 500 + 1.0, 2 * 512 + 2.0, 2 * 500 + 12.0)
    assert container_sizes(plan, JOB, unknown, padding=Resources(0, 0))["c0"].memory_mb == 1024
    assert Resources(1.0, 2.0, 12.0) == PADDING


def test_the_example_of_first_fit() -> None:
    # Three instances fit the first container, the fourth goes to the second.
    fitting = Resources(7.5, 2000, 2000)
    workers = Snapshot(0, tuple(Worker(f"c{i}", fitting, 9) for i in range(2)))
    assert FirstFit().plan(JOB, workers).by_worker == {
        "c0": ("t1-0", "t1-1", "t2-0"),
        "c1": ("t2-1",),
    }


def test_the_original_first_fit_puts_one_default_instance_into_a_container() -> None:
    two = INSTANCE * (2 * 1.01)
    whole = (round(size) for size in (two.cpu_cores, two.memory_mb, two.disk_mb))
    assert Resources(*whole) == CONTAINER
    four = Snapshot(0, tuple(Worker(f"c{i}", ROOMY, 50) for i in range(4)))
    plan = containers.first_fit(JOB, four)
    assert plan.by_worker == {"c0": ("t1-0",), "c1": ("t1-1",), "c2": ("t2-0",), "c3": ("t2-1",)}
    # What the text promises: two instances to a container.
    default = Snapshot(0, tuple(Worker(f"c{i}", CONTAINER, 50, delta=1.0) for i in range(4)))
    assert [len(there) for there in FirstFit().plan(JOB, default).by_worker.values()] == [2, 2]


def test_the_original_data_locality_hands_instances_out_in_turns() -> None:
    job = JobGraph((*instances(3, "t1"), *instances(2, "t2")))
    plan = containers.data_locality(job, TWO)
    assert list(plan.placement.values()) == ["c0", "c1", "c0", "c1", "c0"]
    few = Snapshot(0, (Worker("c0", ROOMY, 2), Worker("c1", ROOMY, 2)))
    with pytest.raises(errors.ArgumentError, match="5 instances are more than the 4"):
        containers.data_locality(job, few)


def test_the_original_distance_ignores_what_is_read() -> None:
    # Its defaults: workers 100 and 0.02, data nodes 200 and 0.01.
    worker = Worker("c", ROOMY, 1, bandwidth_bytes_per_s=100, latency_s=0.02)
    assert distance(worker, DataNode("d", 200, 0.01)) == 0
    assert distance(worker, DataNode("d", 512, 0.4)) == pytest.approx(405.6)
