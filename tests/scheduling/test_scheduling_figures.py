"""The figures that the papers' tables give, from the placements and the cost model alone."""

from __future__ import annotations

import statistics

import pytest
from scheduling_samples import RANKS, table_3, tasks

import scheduling
from benchmarks.placement.feasible import assert_feasible
from scheduling import CETSA, CostModel, Exact, JobGraph, Random, RoundRobin
from scheduling.cost import rent_per_s
from scheduling.load import cost_evaluation

JOB = JobGraph(tasks(20))
# Table 5, ten million records: seconds.
TABLE_5 = {"cetsa": 205, "round-robin": 189, "random": 215}


def test_the_ranks_of_table_3_are_those_of_the_costs_per_tuple() -> None:
    cost = cost_evaluation(table_3())
    assert tuple(sorted(cost, key=lambda name: cost[name])) == RANKS


@pytest.mark.parametrize("spread", [True, False])
def test_cetsa_uses_the_five_cheapest_nodes_of_table_3(spread: bool) -> None:
    plan = CETSA(together=spread).plan(JOB, table_3())
    assert_feasible(plan, JOB, table_3())
    assert {worker: len(placed) for worker, placed in plan.by_worker.items()} == dict.fromkeys(
        ("m3", "m2", "m4", "l1", "l3"), 4
    )
    assert plan.score == pytest.approx(0.016973, abs=1e-9)


def test_what_cetsa_finds_is_the_optimum() -> None:
    plan = Exact().plan(JOB, table_3())
    assert_feasible(plan, JOB, table_3())
    assert plan.score == pytest.approx(0.016973, abs=1e-9)


def test_round_robin_uses_all_eleven_nodes() -> None:
    plan = RoundRobin().plan(JOB, table_3())
    assert len(plan.by_worker) == 11
    assert plan.score == pytest.approx(0.057807, abs=1e-9)


def test_random_expects_its_share_of_the_nodes() -> None:
    # A node of 4 slots stays empty with the chance of C(40, 20) / C(44, 20).
    empty = 24 * 23 * 22 * 21 / (44 * 43 * 42 * 41)
    expected = 0.057807 * (1 - empty)
    assert expected == pytest.approx(0.05328, abs=5e-6)
    scores = [Random(seed).plan(JOB, table_3()).score for seed in range(1000)]
    error = statistics.stdev(scores) / len(scores) ** 0.5
    assert statistics.fmean(scores) == pytest.approx(expected, abs=4 * error)


def test_ten_million_records_cost_what_the_paper_says() -> None:
    snapshot = table_3()
    cost = CostModel()
    for policy, expected in ((CETSA(), 3.479), (RoundRobin(), 10.926)):
        plan = policy.plan(JOB, snapshot)
        costs = cost.costs(plan, JOB, snapshot, TABLE_5[policy.name])
        assert costs.rc == pytest.approx(expected, abs=6e-4)
    assert 0.05328 * TABLE_5["random"] == pytest.approx(11.456, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in scheduling.POLICIES if name != "exact"])
def test_no_node_of_table_4_is_filled_above_delta(name: str) -> None:
    # Memory for three tasks of a small node below 80 %.
    job = JobGraph(tasks(20, memory_mb=2000))
    plan = scheduling.policy(name).plan(job, table_3())
    assert_feasible(plan, job, table_3())
    assert (
        max(
            len(placed)
            for worker, placed in plan.by_worker.items()
            if worker[1:] and worker.startswith("m")
        )
        <= 3
    )
    assert not plan.unplaced


def test_the_cheapest_placement_costs_less_than_every_other() -> None:
    costs = {
        name: rent_per_s(scheduling.policy(name).plan(JOB, table_3()), table_3())
        for name in scheduling.POLICIES
    }
    assert min(costs.values()) == costs["exact"] == costs["cetsa"] == costs["local-search"]
