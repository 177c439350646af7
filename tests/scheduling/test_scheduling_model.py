"""Workers, tasks, graphs, snapshots, plans, receipts."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scheduling_samples import clusters, graphs, tasks

from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    Assignment,
    DataNode,
    Edge,
    JobGraph,
    Move,
    Plan,
    Price,
    Receipt,
    Reserved,
    Resources,
    Snapshot,
    StStream,
    Task,
    Unplaced,
    Utilisation,
    Worker,
    errors,
    policy,
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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Worker("", Resources(1, 1), 1), "id is empty"),
        (lambda: dataclasses.replace(WORKER, slots=-1), "slots=-1 of worker 'w'"),
        (lambda: dataclasses.replace(WORKER, slots=1.5), "slots=1.5"),
        (lambda: dataclasses.replace(WORKER, price_per_s=-1), "price_per_s=-1 of worker 'w'"),
        (lambda: dataclasses.replace(WORKER, price_per_s=math.nan), "price_per_s"),
        (lambda: dataclasses.replace(WORKER, delta=0), "delta=0"),
        (lambda: dataclasses.replace(WORKER, delta=1.2), "delta=1.2"),
        (lambda: dataclasses.replace(WORKER, bandwidth_bytes_per_s=0), "greater than 0"),
        (lambda: Resources(-1, 0), "cpu_cores=-1"),
        (lambda: Resources(1, math.inf), "memory_mb=inf"),
        (lambda: Resources(1, 1, math.nan), "disk_mb=nan"),
        (lambda: Task("", "o", 0, Resources(1, 1)), "id is empty"),
        (
            lambda: Task("t", "o", 0, Resources(1, 1), rate_in_per_s=-2),
            "rate_in_per_s=-2 of task 't'",
        ),
        (lambda: Edge("a", "b", -1), "bytes_per_s=-1 from 'a' to 'b'"),
        (lambda: Utilisation(1.2), "cpu=1.2"),
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
        assert_feasible(plan, GRAPH, HERE)


def test_a_plan_above_slots_or_delta_is_found() -> None:
    plan = Plan(placed("map-0", "map-1"))
    assert_feasible(plan, GRAPH, HERE)
    with pytest.raises(AssertionError, match="2 tasks in 1 slots"):
        assert_feasible(plan, GRAPH, Snapshot(0, (dataclasses.replace(WORKER, slots=1),)))
    with pytest.raises(AssertionError, match="is over"):
        assert_feasible(plan, GRAPH, Snapshot(0, (dataclasses.replace(WORKER, delta=0.4),)))


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


def one_of_each() -> list[Any]:
    """An object of every class that is made of what a file or a caller says."""
    return [
        Resources(1.0, 2.0, 3.0),
        WORKER,
        DataNode("h"),
        Task("t", "o", 1, Resources(1.0, 1.0), 1.0, 1.0, ("h",), 1.0, 1.0),
        Edge("a", "b", 1.0),
        Utilisation(1.0, 1.0),
        Reserved(1),
        Move("t", "a", "b", 1.0, 1.0, 1.0, 1.0),
        Price("*", 1.0, 1, "m"),
        StStream(),
        *(policy(name) for name in ("cetsa", "lba-ce", "gs-bfd", "resource-aware", "random")),
        *(policy(name) for name in ("spread", "exact", "round-robin", "first-fit")),
    ]


FIELDS = [
    pytest.param(one, field, id=f"{type(one).__name__}.{field.name}")
    for one in one_of_each()
    for field in dataclasses.fields(one)
]


@pytest.mark.parametrize(("one", "field"), FIELDS)
def test_what_json_and_yaml_bring_by_mistake_is_refused(
    one: Any, field: dataclasses.Field[Any]
) -> None:
    kind, default = str(field.type), getattr(one, field.name)
    number = isinstance(default, int | float) and not isinstance(default, bool)
    odd: list[Any] = [[], {1}, object()]
    odd += [] if "Mapping" in kind else [{}]
    odd += [] if "None" in kind or "Optional" in kind else [None]
    odd += ["1", "", "nan"] if number or isinstance(default, bool) else [3, 1.5]
    odd += [True, math.nan, -math.inf, np.nan, np.bool_(True)] if number else []
    odd += [math.inf] if number and field.name != "disk_mb" else []
    odd += [False] if isinstance(default, str) else []
    for value in odd:
        if isinstance(default, tuple) and value == []:
            continue  # there may be no names
        with pytest.raises(errors.ArgumentError):
            print(dataclasses.replace(one, **{field.name: value}), "is taken")


@pytest.mark.parametrize(("one", "field"), FIELDS)
def test_the_scalars_of_numpy_are_the_numbers_that_they_are(
    one: Any, field: dataclasses.Field[Any]
) -> None:
    default = getattr(one, field.name)
    if isinstance(default, bool) or not isinstance(default, int | float):
        return
    scalars: list[Any] = [np.int64(1), np.int32(1), np.uint8(1)]
    if "int" not in str(field.type):
        scalars += [np.float64(0.5), np.float32(0.5), np.float16(0.5)]
    for scalar in scalars:
        if field.name == "theta" and scalar == 1:
            continue  # below 1
        made = dataclasses.replace(one, **{field.name: scalar})
        plain = dataclasses.replace(one, **{field.name: scalar.item()})
        assert made == plain
        assert hash(made) == hash(plain)
        if not hasattr(one, "name"):
            assert type(getattr(made, field.name)) in (int, float)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Task("t", "o", 0, Resources(1, 1), preferred=(None,)),
        lambda: Task("t", "o", 0, Resources(1, 1), preferred="host"),
        lambda: Task("t", "o", 0, Resources(1, 1), cached={"h": math.nan}),
        lambda: JobGraph(None),
        lambda: JobGraph([None]),
        lambda: JobGraph(tasks(1), "ab"),
        lambda: Snapshot(math.nan, ()),
        lambda: Snapshot(None, ()),
        lambda: Snapshot(0, None),
        lambda: Snapshot(0, ("w",)),
        lambda: Snapshot(0, (), tuples=None),
        lambda: Snapshot(0, (), reserved={"w": 3}),
        lambda: Plan(None),
        lambda: Plan(("t",)),
        lambda: Assignment(None, "w", ""),
        lambda: Assignment("t", 3, ""),
        lambda: Unplaced(None, ""),
        lambda: Receipt(None, {}),
    ],
)
def test_what_is_made_of_other_things_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.ArgumentError):
        wrong()


@pytest.mark.parametrize("odd", [math.nan, -1, math.inf, None, "3", True, [], np.float32("nan")])
@pytest.mark.parametrize(
    "name", ["utilisation", "tuples", "cost", "busyness", "placement", "usage"]
)
def test_a_measurement_that_cannot_be_is_left_out_and_named(name: str, odd: Any) -> None:
    if name == "placement" and odd == "3":
        return
    seen = Snapshot(0, (WORKER,), ignored={"v": "stale"}, **{name: {"w": odd}})  # type: ignore[arg-type]
    assert getattr(seen, name) == {}
    assert seen.ignored["v"] == "stale"
    assert seen.ignored["w"].startswith(f"{name} {odd!r} is no")
    assert dataclasses.replace(seen).ignored == seen.ignored
    both = Snapshot(0, (WORKER,), cost={"w": odd}, tuples={"w": odd})
    assert both.ignored["w"].count(" is no ") == 2


def test_the_summary_of_a_plan_has_the_tasks_without_room_first() -> None:
    plan = Plan(
        placed("map-0", "map-1"),
        (Unplaced("map-2", "full"), Unplaced("map-3", "full"), Unplaced("map-4", "large")),
        0.5,
        policy="cetsa",
        fallback="round-robin: no worker has processed a tuple",
    )
    assert plan.summary.splitlines() == [
        "3 of 5 tasks have no room now:",
        "  map-2, map-3: full",
        "  map-4: large",
        "cetsa: 2 tasks on 1 worker, 0.5 $/s; fell back to round-robin: no worker has processed a "
        "tuple",
        "  w: map-0, map-1",
    ]
