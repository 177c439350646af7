"""Workers, tasks, graphs, snapshots, plans, receipts."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from functools import partial
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


@settings(max_examples=12, deadline=None)
@given(graphs(), clusters())
def test_graphs_and_snapshots_can_be_pickled(graph: JobGraph, snapshot: Snapshot) -> None:
    assert pickle.loads(pickle.dumps((graph, snapshot))) == (graph, snapshot)


def test_a_plan_above_slots_or_delta_is_found() -> None:
    """And one that forgets a task or doubles it: by what holds the plans of all policies."""
    graph = JobGraph(tasks(2, cpu_cores=1))

    def check(*names: str, worker: str = "w", reason: str = "why", **known: Any) -> None:
        assignments = tuple(Assignment(name, worker, reason) for name in names)
        assert_feasible(
            Plan(assignments), graph, Snapshot(0, (dataclasses.replace(WORKER, **known),))
        )

    check("map-0", "map-1")
    two = ("map-0", "map-1")
    wrong: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        (two, {"slots": 1}, "2 tasks in 1 slots"),
        (two, {"delta": 0.4}, "is over"),
        (("map-0",), {}, "missing"),
        (("map-0", "map-0"), {}, "twice"),
        ((*two, "map-2"), {}, "none of the graph"),
        (two, {"worker": "x"}, "no worker x"),
        (two, {"reason": ""}, "no reason"),
    ]
    for names, known, message in wrong:
        with pytest.raises(AssertionError, match=message):
            check(*names, **known)


def test_what_cannot_be_is_refused_with_its_value() -> None:
    one = Resources(1, 1)
    wrong: list[tuple[Callable[..., object], dict[str, Any], str]] = [
        (Worker, {"id": "", "capacity": one, "slots": 1}, "id is empty"),
        *(
            (partial(dataclasses.replace, WORKER), {field: value}, f"{field}={value}")
            for field, value in (
                ("slots", -1), ("slots", 1.5), ("price_per_s", -1), ("price_per_s", math.nan),
                ("delta", 0), ("delta", 1.2), ("bandwidth_bytes_per_s", 0),
            )
        ),
        (Resources, {"cpu_cores": -1, "memory_mb": 0}, "cpu_cores=-1"),
        (Resources, {"cpu_cores": 1, "memory_mb": math.inf}, "memory_mb=inf"),
        (partial(Task, "t", "o", 0, one), {"rate_in_per_s": -2}, "rate_in_per_s=-2 of task 't'"),
        (partial(Task, "t", "o", 0, one), {"preferred": (None,)}, "preferred"),
        (partial(Task, "t", "o", 0, one), {"preferred": "host"}, "preferred"),
        (partial(Task, "t", "o", 0, one), {"cached": {"h": math.nan}}, "cached"),
        (Edge, {"source": "a", "target": "b", "bytes_per_s": -1}, "bytes_per_s=-1 from 'a' to 'b'"),
        (Utilisation, {"cpu": 1.2}, "cpu=1.2"),
        (Reserved, {"slots": -1}, "slots=-1 reserved: give 0, 1, 2"),
        (JobGraph, {"tasks": tasks(1) + tasks(1)}, "'map-0' is there twice"),
        (JobGraph, {"tasks": tasks(1), "edges": (Edge("map-0", "x", 1),)}, "no task 'x'"),
        (JobGraph, {"tasks": None}, "tasks"),
        (JobGraph, {"tasks": [None]}, "tasks"),
        (partial(Snapshot, 0), {"workers": (WORKER, WORKER)}, "'w' is there twice"),
        (partial(Snapshot, 0), {"workers": ("w",)}, "workers"),
        (partial(Snapshot, 0, ()), {"tuples": None}, "tuples"),
        (partial(Snapshot, 0, ()), {"reserved": {"w": 3}}, "reserved"),
        (Plan, {"assignments": ("t",)}, "assignments"),
        (Assignment, {"task": None, "worker": "w", "reason": ""}, "task"),
        (Unplaced, {"task": None, "reason": ""}, "task"),
        (Receipt, {"requested": None, "landed": {}}, "requested"),
    ]  # fmt: skip
    for make, arguments, message in wrong:
        with pytest.raises(errors.ArgumentError) as caught:
            make(**arguments)
        assert message in str(caught.value)


ONE_OF_EACH: list[Any] = [  # of every class that is made of what a file or a caller says
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


@pytest.mark.parametrize("one", ONE_OF_EACH, ids=lambda one: type(one).__name__)
def test_what_json_and_yaml_bring_by_mistake_is_refused_and_numpy_s_numbers_are_numbers(
    one: Any,
) -> None:
    for field in dataclasses.fields(one):
        kind, default = str(field.type), getattr(one, field.name)
        number = isinstance(default, int | float) and not isinstance(default, bool)
        odd: list[Any] = [{1}, object()]
        odd += [] if isinstance(default, tuple) else [[]]  # there may be no names
        odd += [] if "Mapping" in kind else [{}]
        odd += [] if "None" in kind or "Optional" in kind else [None]
        odd += ["1", "", "nan"] if number or isinstance(default, bool) else [3, 1.5]
        odd += [True, math.nan, -math.inf, np.nan, np.bool_(True)] if number else []
        odd += [math.inf] if number and field.name != "disk_mb" else []
        odd += [False] if isinstance(default, str) else []
        for value in odd:
            with pytest.raises(errors.ArgumentError):
                print(dataclasses.replace(one, **{field.name: value}), "is taken")
        scalars: list[Any] = [np.int64(1), np.uint8(1)] if number else []
        scalars += [np.float64(0.5), np.float16(0.5)] if number and "int" not in kind else []
        for scalar in scalars:
            if field.name == "theta" and scalar == 1:
                continue  # below 1
            made = dataclasses.replace(one, **{field.name: scalar})
            plain = dataclasses.replace(one, **{field.name: scalar.item()})
            assert (made, hash(made)) == (plain, hash(plain))
            if not hasattr(one, "name"):
                assert type(getattr(made, field.name)) in (int, float)


def test_a_measurement_that_cannot_be_is_left_out_and_named() -> None:
    for name in ("utilisation", "tuples", "cost", "busyness", "placement", "usage"):
        for odd in (math.nan, -1, math.inf, None, "3", True, [], np.float32("nan")):
            if (name, odd) == ("placement", "3"):
                continue
            known: dict[str, Any] = {name: {"w": odd}, "ignored": {"v": "stale"}}
            seen = Snapshot(0, (WORKER,), **known)
            assert getattr(seen, name) == {}
            assert seen.ignored["v"] == "stale"
            assert seen.ignored["w"].startswith(f"{name} {odd!r} is no")
            assert dataclasses.replace(seen).ignored == seen.ignored
    both = Snapshot(0, (WORKER,), cost={"w": math.nan}, tuples={"w": -1})
    assert both.ignored["w"].count(" is no ") == 2
