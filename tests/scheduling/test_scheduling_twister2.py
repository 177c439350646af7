"""Twister2's schedulers: the examples of their text."""

from __future__ import annotations

from scheduling_samples import tasks

from scheduling import FirstFit, JobGraph, Resources, RoundRobin, Snapshot, Worker

ROOMY = Resources(100, 100_000, 100_000)
INSTANCE = Resources(cpu_cores=2.0, memory_mb=512.0, disk_mb=500.0)  # where nothing is said


def instances(parallelism: int, operator: str) -> tuple:  # type: ignore[type-arg]
    return tuple(
        type(task)(task.id, task.operator, task.index, INSTANCE)
        for task in tasks(parallelism, operator)
    )


JOB = JobGraph((*instances(2, "t1"), *instances(2, "t2")))


def test_the_example_of_round_robin() -> None:
    # Instance 0 of both tasks in the first container, instance 1 of both in the second.
    two = Snapshot(0, tuple(Worker(f"c{i}", ROOMY, 50) for i in range(2)))
    expected = {"c0": ("t1-0", "t2-0"), "c1": ("t1-1", "t2-1")}
    assert RoundRobin(restart=True).plan(JOB, two).by_worker == expected
    # Also where there are as many containers as instances: the original places nothing then.
    four = Snapshot(0, tuple(Worker(f"c{i}", ROOMY, 50) for i in range(4)))
    assert not RoundRobin(restart=True).plan(JOB, four).unplaced


def test_the_example_of_first_fit() -> None:
    # Three instances fit the first container, the fourth goes to the second.
    fitting = Resources(7.5, 2000, 2000)
    workers = Snapshot(0, tuple(Worker(f"c{i}", fitting, 9) for i in range(2)))
    expected = {"c0": ("t1-0", "t1-1", "t2-0"), "c1": ("t2-1",)}
    assert FirstFit().plan(JOB, workers).by_worker == expected
    # The most memory comes first.
    job = JobGraph((*tasks(1, "small", memory_mb=100), *tasks(1, "large", memory_mb=900)))
    workers = Snapshot(0, tuple(Worker(f"c{i}", Resources(4, 1200), 9) for i in range(2)))
    assert FirstFit().plan(job, workers).placement == {"large-0": "c0", "small-0": "c1"}
    # Two default instances to a default container; the original has room for one.
    container = Resources(cpu_cores=4, memory_mb=1034, disk_mb=1010)
    default = Snapshot(0, tuple(Worker(f"c{i}", container, 50, delta=1.0) for i in range(4)))
    assert [len(there) for there in FirstFit().plan(JOB, default).by_worker.values()] == [2, 2]
