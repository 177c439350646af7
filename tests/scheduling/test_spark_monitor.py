"""Executors as workers, and what cycles say of them: no Spark is needed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_fakes import DRIVER, Cluster, cycle, executor, workers_of

from scheduling import Monitor, Price, Resources, errors
from scheduling.load import cost_evaluation
from scheduling.spark.probe import Reading
from scheduling.spark.seen import TaskSeen


def test_executors_that_run_tasks_are_workers() -> None:
    found = [
        executor("10", "b"),
        executor("9", "a", cores=4),
        executor("3", isActive=False),
        executor("11", hostPort=":0"),  # it has just come
        executor("x", "2001:db8::1"),
    ]
    workers = workers_of(found, 1, delta=0.5)
    assert [worker.id for worker in workers] == ["2001:db8::1/x", "a/9", "b/10"]
    nine = workers[1]
    assert (nine.host, nine.executor_id, nine.delta) == ("a", "9", 0.5)
    assert nine.capacity == Resources(4, 1000.0)
    assert workers_of([], 3) == ()
    sizes = [executor("0", cores=1), executor("1", cores=3)]
    for tasks, slots in ((0, [1, 3]), (4, [1, 3]), (5, [4, 12]), (9, [6, 18])):
        assert [worker.slots for worker in workers_of(sizes, tasks)] == slots  # in some turn
    cluster = Cluster(*sizes, expected=4)
    assert len(cluster.monitor.snapshot().workers) == 2
    assert [one.slots for one in cluster.monitor.workers({"1"})] == [8]  # the one that stays
    for damage in ({"totalCores": None}, {"totalCores": -2}, {"id": None}, {"isExcluded": True}):
        cluster = Cluster(executor("0"), executor("1") | damage)
        assert [worker.id for worker in cluster.monitor.snapshot().workers] == ["h/0"]
        (why,) = cluster.monitor.ignored.values()
        assert why.endswith("it is no worker")


def test_a_price_table_matches_hosts_and_ids_and_goes_before_slots() -> None:
    found = [executor("0", "m1"), executor("1", "l1"), executor("2", "l1")]
    table = [Price("*/2", 5.0), Price("m*", 1.0, slots=7, tier="m"), Price("l*", 2.0)]
    workers = workers_of(found, 1, prices=table)
    assert [(w.price_per_s, w.slots, w.tier) for w in workers] == [
        (1.0, 7, "m"),
        (2.0, 2, ""),
        (5.0, 2, ""),
    ]
    with pytest.raises(errors.ArgumentError, match="'h/9'"):
        workers_of([executor("9")], 1, prices=table)
    cluster = Cluster(prices=[Price("*", 1.0, capacity=Resources(0.5, 100.0))])
    assert steps(cluster, 0, 250) == [None, 0.5]  # 0.25 s of half a core


def test_utilisation_is_what_tasks_took_since_the_last_look() -> None:
    cluster = Cluster(executor("0", totalDuration=1000))
    assert isinstance(cluster.monitor, Monitor)
    assert cluster.monitor.snapshot().utilisation == {}  # nothing to compare with
    cluster.now = 2.0
    cluster.executors = [executor("0", totalDuration=2000, memoryUsed=250)]
    seen = cluster.monitor.snapshot().utilisation["h/0"]
    assert (seen.cpu, seen.memory) == (0.25, 0.25)  # 1 s of 2 s on 2 cores
    cluster.now = 3.0
    cluster.executors = [executor("0", totalDuration=99_000, maxMemory=0, memoryUsed=3)]
    seen = cluster.monitor.snapshot().utilisation["h/0"]
    assert (seen.cpu, seen.memory) == (1.0, 1.0)
    assert cluster.monitor.seen.utilisation["h/0"] == seen
    for there in (executor("2"), executor("0")):  # one that goes is forgotten
        cluster.executors, cluster.now = [there], cluster.now + 1.0
        assert "h/0" not in cluster.monitor.snapshot().utilisation


def test_a_reading_of_the_processes_goes_before_spark_s_figures() -> None:
    cluster = Cluster(executor("0"), executor("1"), probe=True)
    cluster.readings = [Reading("0", 100.0, 7.0, 500.0), Reading(None, 1.0, 1.0, 1.0)]
    assert cluster.monitor.snapshot().utilisation == {}
    cluster.now = 10.0
    # The same reading again says nothing new; the executor without one has Spark's figures.
    cluster.executors = [executor("0"), executor("1", totalDuration=10_000)]
    assert {k: u.cpu for k, u in cluster.monitor.snapshot().utilisation.items()} == {"h/1": 0.5}
    assert cluster.monitor.ignored == {}
    cluster.now = 20.0
    cluster.readings = [Reading("0", 104.0, 9.0, 2000.0)]
    seen = cluster.monitor.snapshot().utilisation["h/0"]
    assert (seen.cpu, seen.memory) == (0.25, 1.0)  # 2 s of 4 s on 2 cores
    for cluster.now in range(21, 26):  # as long as it is the same reading, the last value is kept
        busy = 10_000 + 1000 * (cluster.now - 20)
        cluster.executors = [executor("0"), executor("1", totalDuration=busy)]
        assert cluster.monitor.snapshot().utilisation["h/0"] == seen
        assert cluster.monitor.ignored == {}
    # The clock of the probe and that of the driver are not mixed up: the last value is kept.
    cluster.readings = []
    cluster.now = 30.0
    assert cluster.monitor.snapshot().utilisation["h/0"] == seen
    assert cluster.monitor.ignored == {}


def steps(cluster: Cluster, *totals: Any, name: str = "totalDuration") -> list[float | None]:
    """The CPU use of h/0 after each look, 1 s apart; h/1 is busy for half of the time."""
    found: list[float | None] = []
    for value in totals:
        cluster.now += 1.0
        busy = 1000 * cluster.now
        one = executor("0", totalDuration=busy, memoryUsed=100) | {name: value}
        cluster.executors = [one, executor("1", totalDuration=busy)]
        seen = cluster.monitor.snapshot().utilisation
        found.append(seen["h/0"].cpu if "h/0" in seen else None)
    return found


def test_an_odd_metric_keeps_the_last_value_then_none_and_is_told() -> None:
    for odd in (float("nan"), -1.0, float("inf"), None, "5"):
        cluster = Cluster()
        assert steps(cluster, 0, 500) == [None, 0.25]
        assert cluster.monitor.ignored == {}
        assert steps(cluster, odd, odd, odd) == [0.25] * 3
        assert set(cluster.monitor.ignored) == {"h/0"}
        assert steps(cluster, odd) == [None]
        assert steps(cluster, 1000, 2000)[-1] == 0.5
        assert cluster.monitor.ignored == {}
        steps(cluster, 100, odd, name="memoryUsed")
        assert set(cluster.monitor.ignored) == {"h/0"}


def test_a_metric_that_goes_back_or_stands_still_while_others_move_is_not_believed() -> None:
    cluster = Cluster()
    assert steps(cluster, 0, 500) == [None, 0.25]
    assert steps(cluster, 100) == [0.25]  # less than before
    assert "s of CPU time" in cluster.monitor.ignored["h/0"]
    assert steps(cluster, 600, 600) == [0.25, 0.0]  # it was idle
    cluster.monitor.record(*cycle(1.0))
    assert steps(cluster, 600) == [0.0]  # it ran tasks, and others' numbers changed
    assert cluster.monitor.ignored["h/0"] == "nothing changed, and others' metrics did"
    cluster.now -= 5.0  # the clock itself
    assert steps(cluster, 700) == [0.0]
    assert set(cluster.monitor.ignored) == {"h/0", "h/1"}


_metric = st.one_of(st.floats(), st.none(), st.text(max_size=2), st.integers(-5, 10**6))


@given(
    st.lists(
        st.fixed_dictionaries(
            dict.fromkeys(
                ("totalDuration", "memoryUsed", "maxMemory", "totalCores", "activeTasks"), _metric
            )
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.tuples(_metric, _metric), max_size=4),
    st.floats(-2, 5),
)
def test_no_metric_raises_or_makes_a_value_that_cannot_be(
    entries: list[dict[str, Any]], tasks: list[tuple[Any, Any]], step_s: float
) -> None:
    cluster = Cluster(executor("9"))
    for entry in entries:
        cluster.now += step_s
        cluster.executors = [executor("9"), executor("0") | entry]
        seen = tuple(TaskSeen(i, "0", *one) for i, one in enumerate(tasks))
        cluster.monitor.record(1.0, seen)
        snapshot = cluster.monitor.snapshot()
        assert snapshot.ignored == {}  # nothing odd reaches it
        assert all(0 <= one.demand.cpu_cores <= 4 for one in cluster.monitor.tasks(3))


def test_a_task_demands_its_share_of_the_last_cycle() -> None:
    cluster = Cluster(executor("0"), delta=1.0)
    assert cluster.cores(2) == [0.0, 0.0]
    assert cluster.cores(2, cycle(0.2, 0.6)) == [0.2, 0.6]
    assert cluster.cores(2, cycle(0.4, 0.2)) == [0.4, 0.2]
    assert cluster.cores(2, cycle()) == [0.4, 0.2]  # nothing was seen
    # Another number: the same work, evenly; then what was seen of it.
    assert cluster.cores(4) == pytest.approx([0.15] * 4)
    assert cluster.cores(4, cycle(0.1, 0.1, 0.1, 0.5)) == [0.1, 0.1, 0.1, 0.5]
    # One that is late demands no more than there can be.
    for cores, most in ((1, 0.8), (4, 1.0)):
        late = Cluster(executor("0", cores=cores), delta=0.8)
        assert late.cores(1, cycle(5.0)) == [most]


@given(
    st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=12),
    st.lists(st.integers(1, 100), min_size=4, max_size=4),
    st.integers(1, 3),
)
def test_a_worker_that_a_policy_left_keeps_what_a_row_cost_there(
    used: list[set[int]], rows: list[int], every: int
) -> None:
    """Whichever workers a policy chooses in a cycle, and however seldom one looks."""
    found = [executor(str(i)) for i in range(4)]
    cluster = Cluster(*found, prices=[Price(f"*/{i}", 1.0 + i) for i in range(4)])
    tried = set[int]()
    for number, some in enumerate(used):
        tasks = (TaskSeen(k, str(i), 0.1, rows[i]) for k, i in enumerate(sorted(some)))
        cluster.monitor.record(2.0, tuple(tasks))
        tried |= some
        cluster.now += 2.0
        if number % every == 0:
            seen = cluster.monitor.snapshot()
            assert set(seen.tuples) == set(seen.cost) == {f"h/{i}" for i in tried}
            costs = cost_evaluation(seen)
            for i in tried:
                assert costs[f"h/{i}"] == pytest.approx((1.0 + i) * 2.0 / rows[i])
    assert cluster.monitor.snapshot().placement.keys() == {f"join-{k}" for k in range(len(some))}
    # It follows what a row costs now, and one look that misses a worker does not make it unknown.
    cluster = Cluster(executor("0"))
    for count, times in ((10, 1), (1000, 30)):
        for _ in range(times):
            cluster.monitor.record(*cycle(0.1, rows=count))
    assert cost_evaluation(cluster.monitor.snapshot())["h/0"] == pytest.approx(1e-3, rel=0.02)
    there, cluster.executors = cluster.executors, [DRIVER]
    assert cluster.monitor.snapshot().tuples == {}
    cluster.executors = there
    assert any(cluster.monitor.snapshot().tuples.values())
