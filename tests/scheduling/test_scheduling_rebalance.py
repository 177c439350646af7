"""St-Stream: thresholds, moves, the skewed cluster of the paper; and splits of partitions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_samples import tasks
from simulated_cluster import SimulatedCluster, executors

from scheduling import (
    Decision,
    JobGraph,
    Move,
    Reserved,
    Resources,
    RoundRobin,
    Snapshot,
    StStream,
    Task,
    Worker,
    errors,
)
from scheduling.rebalance import Balance, sizes

# Fig. 12 gives S1, S2 and S7; the others are chosen.
PAPER = {"S1": 11.25, "S2": 21.2, "S3": 45.0, "S4": 50.0, "S5": 52.0, "S6": 68.0, "S7": 88.5}
EQUAL = dict.fromkeys(PAPER, 1.0)


def units(loads: dict[str, float], tasks_each: int = 8) -> dict[str, dict[str, float]]:
    """Each node's load in tasks that are alike."""
    return {
        node: {f"{node}-{i}": percent / 100 / tasks_each for i in range(tasks_each)}
        for node, percent in loads.items()
    }


def node_loads(
    units: Mapping[str, Mapping[str, float]], size: Mapping[str, float]
) -> dict[str, float]:
    """The load of each node as a share of its size: W of Eq. 3."""
    return {node: math.fsum(tasks.values()) / size[node] for node, tasks in units.items()}


def clock(
    stream: StStream, units: Mapping[str, Mapping[str, float]], size: Mapping[str, float]
) -> list[Move]:
    """The moves of one clock for given loads, without limits, each node on its own host."""
    workers = tuple(
        Worker(node, Resources(size[node], size[node]), 99, delta=1.0) for node in units
    )
    # A part of a task that was split is a task of its own.
    used = {(task, node): each for node, tasks in units.items() for task, each in tasks.items()}
    names = {f"{task} on {node}": (task, node) for task, node in used}
    job = JobGraph(tuple(Task(name, "t", 0, Resources(0, 0)) for name in names))
    usage = {name: Resources(used[one], used[one]) for name, one in names.items()}
    placement = {name: node for name, (_, node) in names.items()}
    moves = stream.rebalance(job, Snapshot(0, workers, placement=placement, usage=usage))
    return [dataclasses.replace(one, task=names[one.task][0]) for one in moves]


def thresholds(
    stream: StStream, units: Mapping[str, Mapping[str, float]], size: Mapping[str, float]
) -> Balance:
    total = math.fsum(math.fsum(tasks.values()) for tasks in units.values())
    return stream.thresholds(total / math.fsum(size.values()))


def moved(
    units: Mapping[str, Mapping[str, float]], moves: Collection[Move], size: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """The loads after moves; what was there altogether is there still. O(tasks + moves)."""
    after = {node: dict(tasks) for node, tasks in units.items()}
    for move in moves:
        amount = move.load * size[move.target]
        left = after[move.source].pop(move.task) - amount
        if left > 1e-9:
            after[move.source][move.task] = left
        else:
            amount += left
        after[move.target][move.task] = after[move.target].get(move.task, 0.0) + amount
    return after


@pytest.mark.parametrize("split", [True, False])
def test_the_skewed_cluster_of_the_paper_is_even_after_two_clocks(split: bool) -> None:
    stream = StStream(split=split)
    now = units(PAPER)
    for _ in range(2):
        moves = clock(stream, now, EQUAL)
        assert all(move.gain > 0 for move in moves)
        now = moved(now, moves, EQUAL)
    loads = node_loads(now, EQUAL)
    high = thresholds(stream, now, EQUAL).high
    assert min(loads.values()) >= 0.30
    assert max(loads.values()) <= high
    assert max(loads.values()) - min(loads.values()) <= 0.214
    assert math.fsum(loads.values()) == pytest.approx(sum(PAPER.values()) / 100)
    assert clock(stream, now, EQUAL) == []


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=9),
    st.integers(1, 6),
    st.sampled_from([0.1, 0.2, 0.3, 0.5]),
)
def test_with_splits_every_node_is_within_the_thresholds_after_two_clocks(
    percents: list[float], tasks_each: int, theta: float
) -> None:
    loads = {f"n{i}": percent for i, percent in enumerate(percents)}
    size = dict.fromkeys(loads, 1.0)
    stream = StStream(theta=theta)
    now = units(loads, tasks_each)
    total = math.fsum(node_loads(now, size).values())
    for _ in range(2):
        now = moved(now, clock(stream, now, size), size)
    after = node_loads(now, size)
    aim = thresholds(stream, now, size)
    assert all(aim.low - 1e-6 <= load <= aim.high + 1e-6 for load in after.values())
    assert math.fsum(after.values()) == pytest.approx(total)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(0.001, 0.5), max_size=5), min_size=1, max_size=6),
    st.data(),
    st.booleans(),
)
def test_every_move_shrinks_the_gap_and_keeps_giver_and_taker_within_bounds(
    rows: list[list[float]], data: st.DataObject, split: bool
) -> None:
    now = {f"n{i}": {f"t{i}.{k}": load for k, load in enumerate(row)} for i, row in enumerate(rows)}
    size = {node: data.draw(st.sampled_from([0.5, 1.0, 2.0]), node) for node in now}
    stream = StStream(split=split)
    aim = thresholds(stream, now, size)
    for move in clock(stream, now, size):
        before = node_loads(now, size)
        now = moved(now, [move], size)
        after = node_loads(now, size)
        gap = before[move.source] - before[move.target]
        assert gap > 0
        assert abs(after[move.source] - after[move.target]) < gap
        assert move.gain == pytest.approx(gap - abs(after[move.source] - after[move.target]))
        assert after[move.source] >= aim.low - 1e-6
        assert after[move.target] <= aim.high + 1e-6
        assert 0 < move.part <= 1


def test_the_thresholds_are_equations_8_and_9() -> None:
    aim = StStream(theta=0.5, least=None).thresholds(0.4)
    assert (aim.low, aim.mean, aim.high) == pytest.approx((0.2, 0.4, 0.6))
    assert StStream(theta=0.5).thresholds(0.4).low == 0.3
    assert StStream(theta=0.5).thresholds(0.04).low == pytest.approx(0.04)


def test_what_moves_of_a_split_task_is_the_excess() -> None:
    # The mean is 0.5, L_max 0.6: 0.3 of a moves, of a task of 0.9.
    loads, size = {"a": {"t": 0.9}, "b": {"u": 0.1}}, {"a": 1, "b": 1}
    moves = clock(StStream(), loads, size)
    assert len(moves) == 1
    assert (moves[0].task, moves[0].part) == ("t", pytest.approx(0.3 / 0.9))
    assert moves[0].load == pytest.approx(0.3)
    assert clock(StStream(split=False), loads, size) == []


def test_what_is_much_of_a_small_worker_is_less_of_a_large_one() -> None:
    workers = (
        Worker("small", Resources(2, 2048), 4),
        Worker("large", Resources(6, 6144), 4),
    )
    assert sizes(workers) == {"small": 0.5, "large": 1.5}
    nothing = Worker("nothing", Resources(0, 0), 4)
    at = dict.fromkeys(("map-0", "map-1"), "large")
    seen = Snapshot(0, (workers[1], nothing), placement=at)
    assert StStream().rebalance(JobGraph(tasks(2, cpu_cores=2)), seen) == []
    job = JobGraph(tasks(3, cpu_cores=0.5, memory_mb=512))
    snapshot = Snapshot(0, workers, placement=dict.fromkeys(job.by_id, "small"))
    moves = StStream().rebalance(job, snapshot)
    # 75 % of small are 19 % of both: the mean.
    assert {(move.source, move.target) for move in moves} == {("small", "large")}
    assert moves[0].load == pytest.approx(0.25 / 3)


def test_a_host_is_evened_out_before_tasks_leave_it() -> None:
    capacity = Resources(4, 4096)
    workers = (
        Worker("a1", capacity, 8, host="a"),
        Worker("a2", capacity, 8, host="a"),
        Worker("b1", capacity, 8, host="b"),
        Worker("b2", capacity, 8, host="b"),
    )
    job = JobGraph(tasks(8, cpu_cores=0.8, memory_mb=400))
    at = [*["a1"] * 4, *["b1"] * 4]
    snapshot = Snapshot(0, workers, placement=dict(zip(job.by_id, at, strict=True)))
    moves = StStream().rebalance(job, snapshot)
    assert moves
    assert all(move.source[0] == move.target[0] for move in moves)


def test_measured_usage_goes_before_demand_and_state_is_carried() -> None:
    workers = tuple(Worker(name, Resources(4, 4096), 4) for name in ("a", "b"))
    job = JobGraph(
        tuple(type(t)(t.id, t.operator, t.index, t.demand, state_bytes=1000) for t in tasks(2))
    )
    placement = {"map-0": "a", "map-1": "b"}
    assert StStream().rebalance(job, Snapshot(0, workers, placement=placement)) == []
    busy = Snapshot(0, workers, placement=placement, usage={"map-0": Resources(3.2, 512)})
    moves = StStream().rebalance(job, busy)
    assert moves[0].task == "map-0"
    assert moves[0].state_bytes == pytest.approx(1000 * moves[0].part)


def test_a_worker_without_a_free_slot_or_above_delta_takes_nothing() -> None:
    """Also where others have its slots or its cores."""
    job = JobGraph((*tasks(4, "a", cpu_cores=0.7), *tasks(1, "b", cpu_cores=0.1)))
    placement = {**{f"a-{i}": "full" for i in range(4)}, "b-0": "free"}
    for taker in (
        Worker("free", Resources(4, 4096), 1),
        Worker("free", Resources(4, 4096), 9, delta=0.02),
    ):
        workers = (Worker("full", Resources(4, 4096), 4), taker)
        assert StStream().rebalance(job, Snapshot(0, workers, placement=placement)) == []
    workers = tuple(Worker(name, Resources(4, 4096), 5) for name in ("full", "free"))
    alone = Snapshot(0, workers, placement=placement)
    assert StStream().rebalance(job, alone)
    for reserved in (Reserved(5), Reserved(0, Resources(4, 4096))):
        taken = dataclasses.replace(alone, reserved={"free": reserved})
        assert StStream().rebalance(job, taken) == []
    assert StStream().rebalance(JobGraph(()), Snapshot(0, ())) == []
    wrong = {"theta": 0, "least": 2, "cpu_weight": -1}
    for option, value in wrong.items():
        with pytest.raises(errors.ArgumentError, match=f"{option}={value}"):
            StStream(**{option: value})


# On a cluster whose actuator can split partitions, or not

HEAVY = [4.0, *[0.3] * 11]  # one partition is more than what an executor should have


def balanced(
    loads: Sequence[float], *can: str, seed: int = 1, **known: float
) -> tuple[SimulatedCluster, list[Decision]]:
    cluster = SimulatedCluster(executors(4), loads, can=("place", "move", *can), seed=seed, **known)
    return cluster, cluster.run(cluster.controller(RoundRobin(), rebalancer=StStream()), 40)


@pytest.mark.parametrize("seed", range(2))
def test_a_heavy_partition_is_spread_and_then_nothing_moves(seed: int) -> None:
    cluster, decisions = balanced(HEAVY, "spread", seed=seed)
    assert cluster.skew() < 1.25  # StStream's thresholds are 0.2 from the mean
    assert 1 <= cluster.splits <= 3
    assert math.fsum(cluster.loads) == pytest.approx(math.fsum(HEAVY))
    assert {one.action for one in decisions[20:]} == {"none"}
    (first, *_) = [one for one in decisions if one.plan and any(m.part < 1 for m in one.plan.moves)]
    assert first.action == "move"
    assert ", splits join-0" in first.reason
    assert not any(one.dropped for one in decisions)
    dear, _ = balanced(HEAVY, "spread", seed=seed, state_bytes=1e15)
    assert dear.splits == 0  # it would not pay


def test_parts_are_moved_or_told_where_every_answer_is_requested() -> None:
    for can in ((), ("spread",)):
        cluster = SimulatedCluster(executors(4), HEAVY, can=("place", "move", *can))
        controller = cluster.controller(RoundRobin(), rebalancer=StStream(), hysteresis=0)
        decisions = cluster.run(controller, 20)
        dropped = {move.task for one in decisions for move in one.dropped}
        assert (cluster.splits > 0, "join-0" in dropped) == (bool(can), not can)
    assert cluster.skew() < 1.25
    assert {one.action for one in decisions[10:]} == {"none"}
