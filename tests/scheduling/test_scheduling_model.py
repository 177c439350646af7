"""Workers, tasks, graphs, snapshots, plans, receipts."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
from hypothesis import given, settings
from scheduling_samples import clusters, graphs, tasks

from scheduling import (
    Assignment,
    Edge,
    JobGraph,
    Plan,
    Receipt,
    Resources,
    Snapshot,
    Task,
    Unplaced,
    Utilisation,
    Window,
    Worker,
    errors,
)

WORKER = Worker("w", Resources(4, 4096), 2, price_per_s=0.5)
GRAPH = JobGraph(tasks(2, cpu_cores=1))
HERE = Snapshot(0.0, (WORKER,))


def placed(*names: str, worker: str = "w", reason: str = "why") -> tuple[Assignment, ...]:
    return tuple(Assignment(name, worker, reason) for name in names)


def test_a_worker_has_its_own_host_by_default() -> None:
    assert WORKER.host == "w"
    assert dataclasses.replace(WORKER, host="h").host == "h"
    assert WORKER.usable == Resources(3.2, 3276.8)


def test_a_demand_is_the_rate_times_what_a_record_takes() -> None:
    assert Task.demanding(1000, 0.002, 0.5) == Resources(2.0, 500.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Worker("", Resources(1, 1), 1), "id is empty"),
        (lambda: dataclasses.replace(WORKER, slots=-1), "slots=-1 of worker 'w'"),
        (lambda: dataclasses.replace(WORKER, slots=1.5), "slots=1.5"),
        (lambda: dataclasses.replace(WORKER, price_per_s=-1), "price_per_s of worker 'w'=-1"),
        (lambda: dataclasses.replace(WORKER, price_per_s=math.nan), "price_per_s"),
        (lambda: dataclasses.replace(WORKER, delta=0), "delta=0"),
        (lambda: dataclasses.replace(WORKER, delta=1.2), "delta=1.2"),
        (lambda: dataclasses.replace(WORKER, bandwidth_bytes_per_s=0), "greater than 0"),
        (lambda: Resources(-1, 0), "cpu_cores=-1"),
        (lambda: Resources(1, math.inf), "memory_mb=inf"),
        (lambda: Resources(1, 1, math.nan), "disk_mb=nan"),
        (lambda: Task("", "o", 0, Resources(1, 1)), "id is empty"),
        (lambda: Task("t", "o", 0, Resources(1, 1), rate_in_per_s=-2), "rate_in_per_s of task"),
        (lambda: Edge("a", "b", -1), "bytes_per_s from 'a' to 'b'"),
        (lambda: Utilisation(1.2), "cpu=1.2"),
        (lambda: Window(0, 1, 1, 1, 1), "length_s=0"),
        (lambda: Window(1, 1, 1, 1, 0), "parallelism=0"),
        (lambda: JobGraph(tasks(1) + tasks(1)), "'map-0' is there twice"),
        (lambda: JobGraph(tasks(1), (Edge("map-0", "x", 1),)), "no task 'x'"),
        (lambda: Snapshot(0, (WORKER, WORKER)), "'w' is there twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_value(wrong: object, message: str) -> None:
    with pytest.raises(errors.ArgumentError) as caught:
        wrong()  # type: ignore[operator]
    assert message in str(caught.value)


def test_a_disk_may_be_without_bound() -> None:
    assert Resources(1, 1, 1e12).within(Resources(2, 2, math.inf) * 0.8)


def test_neighbours_count_bytes_both_ways_and_leave_out_oneself() -> None:
    edges = (Edge("map-0", "map-1", 2), Edge("map-1", "map-0", 3), Edge("map-0", "map-0", 9))
    graph = JobGraph(tasks(2), edges)
    assert graph.neighbours == {"map-0": (("map-1", 5.0),), "map-1": (("map-0", 5.0),)}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(placed("map-0")), "missing"),
        (Plan(placed("map-0", "map-0")), "twice"),
        (Plan(placed("map-0", "map-1"), (Unplaced("map-1", "no"),)), "twice"),
        (Plan(placed("map-0", "map-1", "map-2")), "none of the graph"),
        (Plan(placed("map-0", "map-1", worker="x")), "no worker x"),
        (Plan(placed("map-0", "map-1", reason="")), "no reason"),
    ],
)
def test_a_plan_that_forgets_or_doubles_is_found(plan: Plan, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        plan._check(GRAPH, HERE)


def test_a_plan_above_slots_or_delta_is_found() -> None:
    plan = Plan(placed("map-0", "map-1"))
    plan._check(GRAPH, HERE)
    with pytest.raises(AssertionError, match="2 tasks in 1 slots"):
        plan._check(GRAPH, Snapshot(0, (dataclasses.replace(WORKER, slots=1),)))
    with pytest.raises(AssertionError, match="is over"):
        plan._check(GRAPH, Snapshot(0, (dataclasses.replace(WORKER, delta=0.4),)))


def test_a_receipt_says_what_missed() -> None:
    receipt = Receipt({"a": "w", "b": "w", "c": "v"}, {"a": "w", "b": "v"})
    assert receipt.missed == {"b": "w", "c": "v"}
    assert receipt.landing_share == pytest.approx(1 / 3)
    assert Receipt({}, {}).landing_share == 1


@settings(deadline=None)
@given(graphs(), clusters())
def test_graphs_and_snapshots_can_be_pickled(graph: JobGraph, snapshot: Snapshot) -> None:
    assert pickle.loads(pickle.dumps((graph, snapshot))) == (graph, snapshot)


def test_a_snapshot_knows_whether_anything_was_processed() -> None:
    assert not HERE.has_history
    assert not dataclasses.replace(HERE, tuples={"w": 0}).has_history
    assert dataclasses.replace(HERE, tuples={"w": 1}).has_history
