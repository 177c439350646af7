"""Every policy keeps the contract, and off what others have; each does what its module says."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from scheduling_samples import clusters, graphs, table_3, table_4, tasks

from benchmarks.papers.scheduling.published import PRIORITY
from benchmarks.placement.feasible import assert_feasible
from scheduling import (
    CETSA,
    GSBFD,
    LBACE,
    POLICIES,
    CostModel,
    DataLocality,
    DataNode,
    Edge,
    Exact,
    FirstFit,
    JobGraph,
    LocalSearch,
    Policy,
    Reserved,
    ResourceAware,
    Resources,
    RoundRobin,
    Snapshot,
    Spread,
    Task,
    Worker,
    errors,
    policy,
)
from scheduling.cost import rent_per_s
from scheduling.load import cost_evaluation, deviation, planned_loads
from scheduling.policies.lba_ce import split_at_mean

EVERY = [
    *(policy(name) for name in POLICIES if name not in ("exact", "local-search")),
    CETSA(together=False, by_price=True),
    LBACE(spread="turns"),
    LBACE(spread="literal"),
    GSBFD(jobs="graph"),
    GSBFD(jobs="task", theta=0.0),
    LocalSearch(FirstFit(), CostModel(price_per_byte=0.01), tries=10),
]


def infeasible(graph: JobGraph, snapshot: Snapshot) -> bool:
    return bool(snapshot.workers) and any(
        not any(task.demand.within(worker.usable) for worker in snapshot.workers)
        for task in graph.tasks
    )


@pytest.mark.parametrize("one", EVERY, ids=repr)
@settings(max_examples=4, deadline=None)
@given(graph=graphs(), snapshot=clusters())
@example(graph=JobGraph(()), snapshot=Snapshot(0, ()))
@example(graph=JobGraph(tasks(2)), snapshot=Snapshot(0, ()))
def test_a_plan_keeps_capacity_delta_and_slots_and_forgets_no_task(
    one: Policy, graph: JobGraph, snapshot: Snapshot
) -> None:
    if infeasible(graph, snapshot):
        with pytest.raises(errors.InfeasibleError):
            one.plan(graph, snapshot)
        return
    plan = one.plan(graph, snapshot)
    assert_feasible(plan, graph, snapshot)
    assert plan.policy == one.name
    assert one.plan(graph, snapshot) == plan
    assert pickle.loads(pickle.dumps(one)) == one
    # A task without room now has no room in what is left, unless its whole job is left out.
    if isinstance(one, GSBFD):
        return
    for left in plan.unplaced:
        task = graph.by_id[left.task]
        for worker in snapshot.workers:
            there = plan.by_worker.get(worker.id, ())
            total = sum((graph.by_id[other].demand for other in there), task.demand)
            full = len(there) >= snapshot.free_slots[worker.id]
            assert full or not total.within(snapshot.free[worker.id] * (1 - 1e-8))


@pytest.mark.parametrize("name", POLICIES)
def test_tasks_without_room_are_listed_and_one_that_can_never_fit_is_an_error(name: str) -> None:
    one = LocalSearch(tries=5) if name == "local-search" else policy(name)
    few = Snapshot(0, table_4(("m2", "m3")))
    assert isinstance(one, Policy)
    plan = one.plan(JobGraph(tasks(11, cpu_cores=0.1)), few)
    if name == "gs-bfd":
        assert len(plan.unplaced) == 11
        assert "3 of the 11 tasks of its job have no room: all or nothing" in str(plan.unplaced)
    else:
        assert [left.reason for left in plan.unplaced] == ["all 8 slots are taken"] * 3
    others = dataclasses.replace(few, reserved={worker.id: Reserved(3) for worker in few.workers})
    (*_, last) = one.plan(JobGraph(tasks(3, cpu_cores=0.1)), others).unplaced
    assert name == "gs-bfd" or last.reason == "all 8 slots are taken, 6 by others"
    job = JobGraph((*tasks(2), Task("big", "join", 0, Resources(9.7, 100))))
    with pytest.raises(errors.InfeasibleError) as caught:
        one.plan(job, table_3())
    assert "'big' needs 9.7 cores, 100 MB" in str(caught.value)
    assert "'xl1', has 12 cores, 16384 MB, of which 80% (delta)" in str(caught.value)


def test_an_unknown_policy_or_option_is_refused() -> None:
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: policy("cesta"), r"no policy 'cesta'\. Did you mean 'cetsa'"),
        (lambda: policy("random", seeds=3), "seeds"),
        (lambda: GSBFD(theta=2), "theta=2"),
        (lambda: GSBFD(jobs="all"), "jobs='all'"),  # type: ignore[arg-type]
        (lambda: GSBFD(jobs=["task"]), "jobs="),  # type: ignore[arg-type]
        (lambda: LBACE(spread="even"), "spread='even'"),  # type: ignore[arg-type]
        (lambda: LBACE(epsilon=0), "epsilon=0"),
        (lambda: LocalSearch(tries=-1), "tries=-1"),
        (lambda: Exact(max_nodes=0), "max_nodes=0"),
        (lambda: Exact(cost=None), "cost=None"),  # type: ignore[arg-type]
        (lambda: CETSA(together="no"), "together='no'"),  # type: ignore[arg-type]
        (lambda: DataLocality("ab"), "ab"),  # type: ignore[arg-type]
    ]
    for make, message in wrong:
        with pytest.raises(errors.ArgumentError, match=message):
            make()


@pytest.mark.parametrize("one", [CETSA(), LBACE()], ids=repr)
def test_without_runtime_information_it_is_round_robin(one: Policy) -> None:
    job = JobGraph(tasks(20))
    for missing in ("tuples", "cost"):
        seen = dataclasses.replace(table_3(), **{missing: {}})
        plan = one.plan(job, seen)
        assert plan.placement == RoundRobin().plan(job, seen).placement
        assert plan.fallback.startswith("round-robin: no worker has ")


def test_cetsa_puts_tasks_that_talk_onto_one_worker() -> None:
    # Two groups of four that talk among themselves, submitted in turns.
    edges = tuple(Edge(f"map-{i}", f"map-{i + 2}", 1e6) for i in range(6))
    job = JobGraph(tasks(8), edges)
    workers = dataclasses.replace(table_3(), workers=table_4(("m2", "m3")))
    cost = CostModel(price_per_byte=1)
    assert cost.network_per_s(CETSA().plan(job, workers), job, workers) == 0
    assert cost.network_per_s(CETSA(together=False).plan(job, workers), job, workers) > 0


def with_fitness(busy: dict[str, float]) -> Snapshot:
    return dataclasses.replace(table_3(), cost=dict.fromkeys(table_3().cost, 1.0), busyness=busy)


def test_lba_ce_splits_the_workers_at_the_mean_fitness() -> None:
    """And spreads tasks over the high list; the fittest of the low one come when that is full."""
    busy = {worker.id: 0.1 if worker.tier == "Large" else 0.9 for worker in table_4()}
    high, low, _ = split_at_mean(with_fitness(busy))
    assert set(high) == {"xl1", "xl2", "xl3", "xl4"}
    assert len(high) + len(low) == 11
    few = {worker.id: 0.9 for worker in table_4()} | {"xl1": 0.1, "l3": 0.5}
    for spread in ("least-loaded", "turns", "literal"):
        one = policy("lba-ce", spread=spread)
        plan = one.plan(JobGraph(tasks(8)), with_fitness(busy))
        each = [len(there) for there in plan.by_worker.values()]
        assert each == ([4, 4] if spread == "literal" else [2] * 4)
        assert set(plan.by_worker) <= set(high)
        plan = one.plan(JobGraph(tasks(7)), with_fitness(few))
        assert {at: len(there) for at, there in plan.by_worker.items()} == {"xl1": 4, "l3": 3}


def test_lba_ce_is_more_even_than_its_letter() -> None:
    names = [worker.id for worker in table_4()]

    def uneven(one: Policy) -> float:
        found = []
        for seed in range(40):
            draw = random.Random(seed)
            snapshot = with_fitness({name: draw.uniform(0.05, 1) for name in names})
            job = JobGraph(tasks(draw.randint(4, 30)))
            placement = one.plan(job, snapshot).placement
            found.append(deviation(planned_loads(placement, job, snapshot).values()))
        return statistics.fmean(found)

    least_loaded, turns = uneven(LBACE()), uneven(LBACE(spread="turns"))
    literal = uneven(LBACE(spread="literal"))
    assert least_loaded <= turns < literal


def test_data_locality_counts_latency_bandwidth_and_size() -> None:
    workers = (
        Worker("near", Resources(8, 8192), 1, host="data"),
        Worker("fast", Resources(8, 8192), 1, bandwidth_bytes_per_s=1e9, latency_s=0.5),
        Worker("slow", Resources(8, 8192), 9, bandwidth_bytes_per_s=1e6, latency_s=0.001),
    )
    snapshot = Snapshot(0, workers)
    here = Task("t0", "scan", 0, Resources(1, 1), preferred=("data",), input_bytes=1e8)
    one = DataLocality()
    assert one.transfer_s(snapshot)(here)[0] == 0
    # The data's host has 125 MB/s and 1 ms.
    assert one.transfer_s(snapshot)(here)[1] == pytest.approx(0.501 + 0.8)
    assert one.transfer_s(snapshot)(here)[2] == pytest.approx(0.002 + 100)
    small = dataclasses.replace(here, id="t1", input_bytes=1e3)
    _, fast, slow = one.transfer_s(snapshot)(small)
    assert slow < fast
    other = dataclasses.replace(here, preferred=("store",))
    store = DataLocality([DataNode("store", 1e8, 0.25)])
    assert store.transfer_s(snapshot)(other)[1] == pytest.approx(0.75 + 1)

    big = tuple(dataclasses.replace(here, id=f"big{i}", index=i) for i in range(3))
    plan = one.plan(JobGraph(big), snapshot)
    assert plan.placement == {"big0": "near", "big1": "fast", "big2": "slow"}
    assert "2 nearer ones have no room" in plan.assignments[2].reason


def test_baselines_do_what_they_say() -> None:
    job = JobGraph((*tasks(2, "a"), *tasks(2, "b")))
    workers = Snapshot(0, table_4(("m2", "m3", "m4")))
    # Round robin goes on where the last operator ended, unless it restarts.
    assert list(RoundRobin().plan(job, workers).placement.values()) == ["m2", "m3", "m4", "m2"]
    restarted = RoundRobin(restart=True).plan(job, workers)
    assert list(restarted.placement.values()) == ["m2", "m3", "m2", "m3"]
    # Neighbours stay on the worker before; larger workers get more.
    assert len(ResourceAware().plan(JobGraph(tasks(4)), workers).by_worker) == 1
    sizes = Snapshot(0, (Worker("s", Resources(2, 2048), 9), Worker("l", Resources(8, 8192), 9)))
    plan = Spread().plan(JobGraph(tasks(5, memory_mb=512)), sizes)
    assert {worker: len(there) for worker, there in plan.by_worker.items()} == {"s": 1, "l": 4}


def test_gs_bfd_fills_the_worker_with_the_least_free_with_the_largest_job_first() -> None:
    workers = (
        Worker("large", Resources(10, 10 * 1024), 9, delta=1.0),
        Worker("small", Resources(4, 4 * 1024), 9, delta=1.0),
    )
    light = tasks(2, "light", cpu_cores=1, memory_mb=1024)
    heavy = tasks(3, "heavy", cpu_cores=2, memory_mb=1024)
    plan = GSBFD().plan(JobGraph((*light, *heavy)), Snapshot(0, workers))
    # heavy: 1.75 each, two fill small's cores; light: small has no core left.
    assert plan.placement == {
        "heavy-0": "small",
        "heavy-1": "small",
        "heavy-2": "large",
        "light-0": "large",
        "light-1": "large",
    }
    assert [one.task for one in plan.assignments][:3] == ["heavy-0", "heavy-1", "heavy-2"]
    # Workers are sorted anew for every job: a fits w1 alone, which then has less free than w0.
    workers = (
        Worker("w0", Resources(2, 4 * 1024), 9, delta=1.0),
        Worker("w1", Resources(6, 6 * 1024), 9, delta=1.0),
    )
    a = tasks(1, "a", cpu_cores=5, memory_mb=4 * 1024)
    b = tasks(1, "b", cpu_cores=1, memory_mb=1024)
    plan = GSBFD().plan(JobGraph((*b, *a)), Snapshot(0, workers))
    assert plan.placement == {"a-0": "w1", "b-0": "w1"}


def test_gs_bfd_rolls_a_job_back_and_places_the_next() -> None:
    workers = (Worker("w", Resources(4, 4 * 1024), 9, delta=1.0),)
    big = tasks(3, "big", cpu_cores=2, memory_mb=512)
    small = tasks(4, "small", cpu_cores=1, memory_mb=512)
    plan = GSBFD().plan(JobGraph((*big, *small)), Snapshot(0, workers))
    assert sorted(plan.placement) == ["small-0", "small-1", "small-2", "small-3"]
    assert {one.task for one in plan.unplaced} == {"big-0", "big-1", "big-2"}


RANKING = [
    CETSA(),
    CETSA(together=False),
    *(LBACE(spread=how) for how in ("least-loaded", "turns", "literal")),
]
ODD = [math.nan, math.inf, -1.0, None, "9", "missing"]


@pytest.mark.parametrize("one", RANKING, ids=repr)
def test_a_worker_whose_figures_cannot_be_is_never_the_best(one: Policy) -> None:
    kinds = ("tuples", "cost", "busyness") if isinstance(one, LBACE) else ("tuples", "cost")
    for tier, kind, odd in itertools.product(("", "a"), kinds, ODD):
        workers = tuple(
            Worker(f"w{i}", Resources(8, 8192), 4, host="h", tier=tier) for i in range(3)
        )
        figures: dict[str, dict[str, Any]] = {  # w0 would be the best by far
            "tuples": {"w0": 9.0, "w1": 1.0, "w2": 1.0},
            "cost": {"w0": 0.1, "w1": 1.0, "w2": 1.0},
            "busyness": {"w0": 0.0, "w1": 0.5, "w2": 0.5},
        }
        figures[kind]["w0"] = odd
        if odd == "missing":
            del figures[kind]["w0"]
        snapshot = Snapshot(0, workers, **figures)
        assert one.plan(JobGraph(tasks(1)), snapshot).placement["map-0"] != "w0", (kind, odd)
        # It is still used where there is no other, and the reason tells why it comes so late.
        plan = one.plan(JobGraph(tasks(12, cpu_cores=0.1, memory_mb=1)), snapshot)
        assert not plan.unplaced
        late = [said.reason for said in plan.assignments if said.worker == "w0"]
        unknown = "its cost is missing|it has processed nothing|busyness is missing"
        why = snapshot.ignored.get("w0", unknown).split("|")
        assert late
        assert all(any(part in reason for part in why) for reason in late), (kind, odd)


# The figures of the papers' tables, from the placements and the cost model alone

JOB = JobGraph(tasks(20))


def test_the_ranks_of_table_3_are_those_of_the_costs_per_tuple() -> None:
    cost = cost_evaluation(table_3())
    assert tuple(sorted(cost, key=lambda name: cost[name])) == PRIORITY


@pytest.mark.parametrize("spread", [True, False])
def test_cetsa_uses_the_five_cheapest_nodes_of_table_3(spread: bool) -> None:
    plan = CETSA(together=spread).plan(JOB, table_3())
    assert_feasible(plan, JOB, table_3())
    assert {worker: len(placed) for worker, placed in plan.by_worker.items()} == dict.fromkeys(
        ("m3", "m2", "m4", "l1", "l3"), 4
    )
    assert plan.score == pytest.approx(0.016973, abs=1e-9)


def test_no_policy_is_cheaper_on_table_3_than_cetsa() -> None:
    snapshot = table_3()
    rents = {name: rent_per_s(policy(name).plan(JOB, snapshot), snapshot) for name in POLICIES}
    assert min(rents.values()) == rents["exact"] == rents["cetsa"] == rents["local-search"]
