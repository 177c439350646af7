"""A placement comes to rest, and a disturbance moves only what it must: on a simulated cluster."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

import pytest
from scheduling.search import PlacementState
from simulated_cluster import SimulatedCluster, executors

from scheduling import CETSA, LBACE, POLICIES, Controller, RoundRobin, StStream, policy

REST = 5  # cycles after which nothing moves


def rows_by_key(count: int, seed: int = 0) -> list[float]:
    """Loads of partitions of a skewed stream: a few are some times the others."""
    draw = random.Random(seed)
    return [0.1 * draw.paretovariate(2.5) for _ in range(count)]


@pytest.mark.parametrize("rebalancer", [None, StStream()])
@pytest.mark.parametrize("name", POLICIES)
def test_nothing_moves_under_constant_load(name: str, rebalancer: StStream | None) -> None:
    for seed, loads in enumerate(([0.3] * 16, rows_by_key(24))):
        cluster = SimulatedCluster(executors(8), loads, seed=seed)
        decisions = cluster.run(cluster.controller(policy(name), rebalancer=rebalancer), 25)
        late = [one for one in decisions[REST:] if one.action != "none"]
        assert late == []
        assert cluster.skew() < 1.15


@pytest.mark.parametrize("rebalancer", [None, StStream()])
@pytest.mark.parametrize("release", [False, True])
def test_nothing_moves_with_prices(release: bool, rebalancer: StStream | None) -> None:
    can = ("place", "move", "executors") if release else ("place", "move")
    workers = executors(8, prices=(1.0, 1.0, 2.5, 4.0))
    for seed in range(3):
        cluster = SimulatedCluster(workers, rows_by_key(40, seed), can=can, seed=seed)
        decisions = cluster.run(cluster.controller(LBACE(), rebalancer=rebalancer), 25)
        assert {one.action for one in decisions[REST:]} == {"none"}


@pytest.mark.parametrize("release", [False, True])
def test_a_large_job_searches_from_its_starts_in_turns_and_comes_to_rest(
    release: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[set[str]] = []
    start = PlacementState.start

    def noted(state: PlacementState, placement: Mapping[str, str]) -> None:
        began.append(set(placement.values()))
        start(state, placement)

    monkeypatch.setattr(PlacementState, "start", noted)
    can = ("place", "move", "executors") if release else ("place", "move")
    cluster = SimulatedCluster(executors(100), rows_by_key(600), can=can)
    controller = cluster.controller(LBACE(), rebalancer=StStream())
    searches = []
    for _ in range(2 * REST):
        before = len(began)
        cluster.run(controller, 1)
        searches.append(len(began) - before)
    assert max(searches) == 1
    assert sum(searches[REST:]) <= 2  # the noise may have become less
    assert {one.action for one in controller.decisions[REST:]} == {"none"}
    assert sum(searches) >= (3 if release else 2)  # where all are paid for, the policy has no say


@pytest.mark.parametrize("seed", range(20))
def test_a_skewed_load_is_balanced_without_a_rebalancer(seed: int) -> None:
    loads = rows_by_key(48, seed)
    cluster = SimulatedCluster(executors(8), loads, seed=seed)
    decisions = cluster.run(cluster.controller(RoundRobin()), 30)
    heaviest = max(loads) * 8 / sum(loads)
    assert cluster.skew() < max(1.05, heaviest + 0.01)
    assert {one.action for one in decisions[REST:]} == {"none"}


def disturbed(cluster: SimulatedCluster, controller: Controller, change: Callable[[], None]) -> int:
    """How many tasks move in the ten cycles after a change of the cluster at rest."""
    cluster.run(controller, 20)
    before = cluster.moves
    change()
    decisions = cluster.run(controller, 10 + REST)
    assert {one.action for one in decisions[10:]} == {"none"}
    return cluster.moves - before


@pytest.mark.parametrize("name", POLICIES)
def test_a_lost_executor_moves_its_own_tasks_only(name: str) -> None:
    cluster = SimulatedCluster(executors(8), [0.3] * 40)
    controller = cluster.controller(policy(name), rebalancer=StStream())
    cluster.run(controller, 10)
    kept = {task: at for task, at in cluster.at.items() if at != "h1/3"}
    assert len(kept) == 35
    del cluster.workers[3]
    assert cluster.run(controller, 1)[0].reason == "gone: h1/3"
    assert {task: cluster.at[task] for task in kept} == kept
    assert len(cluster.at) == 40
    assert {one.action for one in cluster.run(controller, 10)} == {"none"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_new_executor_gets_its_share_and_nothing_else_moves(name: str) -> None:
    cluster = SimulatedCluster(executors(7), [0.3] * 42)
    controller = cluster.controller(policy(name), rebalancer=StStream())
    moved = disturbed(cluster, controller, lambda: cluster.workers.append(executors(8)[7]))
    assert moved == sum(at == "h3/7" for at in cluster.at.values()) == 5


def test_a_new_executor_is_not_worth_moving_large_states() -> None:
    cluster = SimulatedCluster(executors(7), [0.3] * 42, state_bytes=10e12)
    moved = disturbed(
        cluster, cluster.controller(LBACE()), lambda: cluster.workers.append(executors(8)[7])
    )
    assert moved == 0
    cheap = SimulatedCluster(executors(7), [0.3] * 42, state_bytes=10e6)
    assert disturbed(
        cheap, cheap.controller(LBACE()), lambda: cheap.workers.append(executors(8)[7])
    )


def test_partitions_that_come_and_go_keep_their_executors() -> None:
    cluster = SimulatedCluster(executors(4), rows_by_key(24))
    controller = cluster.controller(LBACE(), rebalancer=StStream())
    draw = random.Random(5)
    homes: dict[str, str] = {}

    def resize(cycle: int) -> None:
        """As AQE does: the number of partitions is known only when the rows are."""
        if cycle:
            controller.adopt({"join": draw.choice([12, 16, 20, 24])})
        if cycle == 2 * REST:
            homes.update(cluster.at)
        if cycle > 2 * REST:
            assert all(homes.setdefault(task, at) == at for task, at in cluster.at.items())

    decisions = cluster.run(controller, 40, resize)
    assert {one.action for one in decisions[2 * REST :]} == {"none"}


def test_a_number_of_partitions_that_changes_does_not_keep_the_load_skewed() -> None:
    cluster = SimulatedCluster(executors(4), [0.1] * 24)
    controller = cluster.controller(RoundRobin(), cooldown_s=50)

    def resize(cycle: int) -> None:
        if cycle:
            controller.adopt({"join": 24 - cycle % 2})
        if cycle == 10:  # the partitions of one executor become hot
            for task, at in cluster.at.items():
                if at == "h0/0":
                    cluster.loads[int(task.rpartition("-")[2])] = 0.6

    cluster.run(controller, 20, resize)
    assert cluster.skew() < 1.2


def test_idle_executors_are_used_where_they_are_paid_for_anyway() -> None:
    cluster = SimulatedCluster(executors(8), [0.3] * 24)
    decision = cluster.run(cluster.controller(CETSA(by_price=True)), 10)[-1]
    assert len(set(cluster.at.values())) == 8
    assert decision.idle == {}
    few = SimulatedCluster(executors(4), [0.3] * 3)
    idle = few.run(few.controller(LBACE()), 10)[-1].idle
    assert list(idle.values()) == ["kept, there are fewer tasks than workers"]


def test_idle_executors_are_given_back_where_they_can_be() -> None:
    cluster = SimulatedCluster(
        executors(8), [0.3] * 24, can=("place", "move", "executors"), noise=0.03
    )
    controller = cluster.controller(RoundRobin())
    decisions = cluster.run(controller, 10)
    idle = decisions[-1].idle
    used = set(cluster.at.values())
    assert set(idle.values()) == {"released"}
    assert used | set(idle) == {worker.id for worker in cluster.workers}
    assert len(used) < 8
    cluster.workers = [worker for worker in cluster.workers if worker.id in used]
    assert {one.action for one in cluster.run(controller, 10)} == {"none"}


def test_unplaced_tasks_count_in_the_landing_share() -> None:
    cluster = SimulatedCluster(
        [dataclasses.replace(one, slots=3) for one in executors(2)], [0.3] * 8
    )
    decision = cluster.run(cluster.controller(LBACE()), 1)[0]
    assert decision.receipt is not None
    assert decision.plan is not None
    assert len(decision.plan.unplaced) == 2
    assert decision.receipt.landing_share == 0.75
    assert decision.cost is not None
    assert decision.cost.unplaced == 2
