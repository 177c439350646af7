"""What others take of a worker is no room for this job: plans, checks, moves, cluster files."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, graphs, tasks

from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    POLICIES,
    Assignment,
    Exact,
    JobGraph,
    Plan,
    Policy,
    Reserved,
    Resources,
    Snapshot,
    StStream,
    Worker,
    errors,
    policy,
)
from scheduling.cluster_file import parse

WORKERS = tuple(Worker(f"w{i}", Resources(4, 8192), 4, delta=0.5) for i in range(2))


@st.composite
def shared(draw: st.DrawFn) -> Snapshot:
    """A cluster of which others take a part."""
    snapshot = draw(clusters(most=5))
    reserved = {
        worker.id: Reserved(
            draw(st.integers(0, 5)),
            Resources(draw(st.sampled_from([0, 0.5, 3])), draw(st.sampled_from([0, 1024, 1e6]))),
        )
        for worker in snapshot.workers
        if draw(st.booleans())
    }
    return dataclasses.replace(snapshot, reserved=reserved)


@pytest.mark.parametrize("one", [policy(name) for name in POLICIES if name != "exact"])
@settings(max_examples=25, deadline=None)
@given(graph=graphs(most=8), snapshot=shared())
def test_no_policy_takes_what_others_have(one: Policy, graph: JobGraph, snapshot: Snapshot) -> None:
    try:
        plan = one.plan(graph, snapshot)
    except errors.InfeasibleError:
        return
    assert_feasible(plan, graph, snapshot)


@settings(max_examples=25, deadline=None)
@given(graph=graphs(most=5), snapshot=shared())
def test_the_exact_optimum_keeps_off_it_too(graph: JobGraph, snapshot: Snapshot) -> None:
    try:
        plan = Exact().plan(graph, snapshot)
    except errors.InfeasibleError:
        return
    assert_feasible(plan, graph, snapshot)


def test_what_is_free_counts_what_others_take_towards_delta() -> None:
    reserved = {"w0": Reserved(3, Resources(1.5, 9999)), "gone": Reserved(1)}
    snapshot = Snapshot(0.0, WORKERS, reserved=reserved)
    assert snapshot.free["w0"] == Resources(0.5, 0.0)
    assert snapshot.free["w1"] == Resources(2.0, 4096.0)
    assert snapshot.free_slots == {"w0": 1, "w1": 4}
    assert Snapshot(0.0, WORKERS, reserved={"w0": Reserved(9)}).free_slots["w0"] == 0


def test_a_task_that_fits_only_without_the_others_has_no_room_now() -> None:
    graph = JobGraph(tasks(1, cpu_cores=2.0))
    reserved = {worker.id: Reserved(0, Resources(0.5, 0)) for worker in WORKERS}
    plan = policy("spread").plan(graph, Snapshot(0.0, WORKERS, reserved=reserved))
    assert [one.task for one in plan.unplaced] == ["map-0"]
    full = {worker.id: Reserved(3) for worker in WORKERS}
    plan = policy("spread").plan(JobGraph(tasks(3)), Snapshot(0.0, WORKERS, reserved=full))
    assert [one.reason for one in plan.unplaced] == ["all 8 slots are taken, 6 by others"]


@pytest.mark.parametrize(
    ("reserved", "said"),
    [
        (Reserved(4), "1 tasks in 0 slots"),
        (Reserved(0, Resources(1.8, 0)), "w0: .* is over Resources"),
    ],
)
def test_a_plan_that_takes_it_fails_its_check(reserved: Reserved, said: str) -> None:
    graph = JobGraph(tasks(1))
    plan = Plan((Assignment("map-0", "w0", "by hand"),))
    assert_feasible(plan, graph, Snapshot(0.0, WORKERS))
    with pytest.raises(AssertionError, match=said):
        assert_feasible(plan, graph, Snapshot(0.0, WORKERS, reserved={"w0": reserved}))


@pytest.mark.parametrize("reserved", [Reserved(4), Reserved(0, Resources(4, 8192))])
def test_the_rebalancer_moves_nothing_to_where_others_are(reserved: Reserved) -> None:
    workers = tuple(Worker(f"w{i}", Resources(4, 8192), 4, delta=1.0) for i in range(2))
    placement = {f"map-{i}": "w0" for i in range(4)}
    graph = JobGraph(tasks(4, cpu_cores=0.9))
    snapshot = Snapshot(0.0, workers, placement=placement)
    assert StStream().rebalance(graph, snapshot)
    taken = dataclasses.replace(snapshot, reserved={"w1": reserved})
    assert StStream().rebalance(graph, taken) == []


def test_a_cluster_file_says_what_others_take() -> None:
    worker = {"id": "a", "slots": 4, "cpu_cores": 4, "memory_mb": 8192}
    content = {
        "workers": [worker | {"reserved": {"slots": 1, "cpu_cores": 2.0, "memory_mb": 1024}}],
        "operators": [{"name": "map", "parallelism": 2, "cpu_cores": 1, "memory_mb": 64}],
    }
    found = parse(content)
    assert found.snapshot.reserved == {"a": Reserved(1, Resources(2, 1024))}
    plan = policy("cetsa").plan(found.graph, found.snapshot)
    assert len(plan.assignments) == 1
    content["workers"] = [worker | {"reserved": {"slot": 1}}]
    with pytest.raises(errors.ClusterFileError, match="Did you mean 'slots'"):
        parse(content)


def test_what_is_reserved_is_checked() -> None:
    with pytest.raises(errors.ArgumentError, match="slots=-1 reserved: give 0, 1, 2"):
        Reserved(-1)
    with pytest.raises(errors.ArgumentError, match="disk_mb=inf reserved"):
        Reserved(0, Resources(1, 1, float("inf")))
