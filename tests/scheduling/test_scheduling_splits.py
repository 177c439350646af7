"""Moves of parts of partitions: made where the actuator can, named where it cannot."""

from __future__ import annotations

import math

import pytest
from simulated_cluster import SimulatedCluster, executors

from scheduling import Move, RoundRobin, StStream
from scheduling.splits import dropped_shares, indices, spreadable

SPREAD = ("place", "move", "spread")
HEAVY = [4.0, *[0.3] * 11]  # one partition is more than what an executor should have


@pytest.mark.parametrize("seed", range(5))
def test_a_heavy_partition_is_spread_and_then_nothing_moves(seed: int) -> None:
    cluster = SimulatedCluster(executors(4), HEAVY, can=SPREAD, seed=seed)
    alone = SimulatedCluster(executors(4), HEAVY, seed=seed)
    total = math.fsum(HEAVY)
    controller = cluster.controller(RoundRobin(), rebalancer=StStream())
    decisions = cluster.run(controller, 40)
    alone.run(alone.controller(RoundRobin(), rebalancer=StStream()), 40)
    assert alone.skew() > 2
    assert cluster.skew() < 1.25  # StStream's thresholds are 0.2 from the mean
    assert 1 <= cluster.splits <= 3
    assert math.fsum(cluster.loads) == pytest.approx(total)
    assert {one.action for one in decisions[20:]} == {"none"}
    (first, *_) = [one for one in decisions if one.plan and any(m.part < 1 for m in one.plan.moves)]
    assert first.action == "move"
    assert ", splits join-0" in first.reason
    assert not any(one.dropped for one in decisions)


def test_a_split_that_cannot_be_made_is_named() -> None:
    cluster = SimulatedCluster(executors(4), HEAVY)
    decisions = cluster.run(cluster.controller(RoundRobin(), rebalancer=StStream()), 30)
    named = [one for one in decisions if one.dropped]
    assert named
    for dropped in named:
        assert dropped.action == "none"
        assert dropped.reason.startswith("kept: nothing to gain but by splitting join-0")
        assert 0.4 < dropped_shares(dropped.dropped)[0] < 0.9


def test_a_part_needs_a_partition_where_it_goes() -> None:
    # Two of four executors have no partition: the others cannot be relieved by spreading alone.
    cluster = SimulatedCluster(executors(4), [3.0, 3.0], can=SPREAD)
    decisions = cluster.run(cluster.controller(RoundRobin(), rebalancer=StStream()), 30)
    assert cluster.splits == 0
    named = [one for one in decisions if one.dropped]
    assert {move.task for one in named for move in one.dropped} == {"join-0", "join-1"}
    assert {one.action for one in decisions[5:]} == {"none"}


def test_without_a_rebalancer_nothing_is_split() -> None:
    cluster = SimulatedCluster(executors(4), HEAVY, can=SPREAD)
    decisions = cluster.run(cluster.controller(RoundRobin()), 20)
    assert cluster.splits == 0
    assert not any(one.dropped for one in decisions)


def test_moves_that_can_be_made() -> None:
    cluster = SimulatedCluster(executors(3), [1.0] * 3)
    graph = cluster.graph({"join": 3})
    at = {"join-0": "h0/0", "join-1": "h0/1"}
    part, nobody = (Move("join-0", "h0/0", to, 0.1, 0.0, 0.5) for to in ("h0/1", "h1/2"))
    whole = Move("join-0", "h0/0", "h0/1", 0.1, 0.0)
    moves = [part, nobody, whole]
    assert spreadable([part, nobody], at, graph) == [part]
    assert indices(moves, at, "join") == {0: {1: 0.5}}
    assert indices(moves, at, "other") == {}
    assert dropped_shares([part, nobody]) == {0: 0.75}
