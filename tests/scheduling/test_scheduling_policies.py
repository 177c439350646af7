"""Every policy keeps the contract; each does what its module says."""

from __future__ import annotations

import dataclasses
import math
import pickle
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scheduling_samples import clusters, graphs, table_3, table_4, tasks

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
    Random,
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
from scheduling.load import deviation, planned_loads
from scheduling.policies.lba_ce import split_at_mean
from scheduling.protocols import weights_of

EVERY = [
    *(policy(name) for name in POLICIES if name != "exact"),
    CETSA(together=False, by_price=True),
    LBACE(spread="turns"),
    LBACE(spread="literal"),
    GSBFD(jobs="graph"),
    GSBFD(jobs="task", theta=0.0),
    LocalSearch(FirstFit(), CostModel(price_per_byte=0.01), tries=20),
]


def infeasible(graph: JobGraph, snapshot: Snapshot) -> bool:
    return bool(snapshot.workers) and any(
        not any(task.demand.within(worker.usable) for worker in snapshot.workers)
        for task in graph.tasks
    )


@pytest.mark.parametrize("one", EVERY, ids=repr)
@settings(max_examples=30, deadline=None)
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
    # A task without room now has no room in what is left, unless its whole job is left out.
    if isinstance(one, GSBFD):
        return
    for left in plan.unplaced:
        task = graph.by_id[left.task]
        for worker in snapshot.workers:
            there = plan.by_worker.get(worker.id, ())
            total = task.demand
            for other in there:
                total += graph.by_id[other].demand
            assert len(there) == worker.slots or not total.within(worker.usable * (1 - 1e-8))


@pytest.mark.parametrize("one", [*EVERY, Exact()], ids=repr)
def test_a_policy_can_be_pickled_and_is_one(one: Policy) -> None:
    assert isinstance(one, Policy)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize("name", POLICIES)
def test_a_task_that_can_never_fit_is_an_error_that_names_it(name: str) -> None:
    job = JobGraph((*tasks(2), Task("big", "join", 0, Resources(9.7, 100))))
    with pytest.raises(errors.InfeasibleError) as caught:
        policy(name).plan(job, table_3())
    message = str(caught.value)
    assert "'big' needs 9.7 cores, 100 MB" in message
    assert "'xl1', has 12 cores, 16384 MB, of which 80% (delta)" in message


@pytest.mark.parametrize("name", POLICIES)
def test_a_task_without_room_now_is_listed_and_is_no_error(name: str) -> None:
    few = Snapshot(0, table_4(("m2", "m3")))
    plan = policy(name).plan(JobGraph(tasks(11, cpu_cores=0.1)), few)
    assert_feasible(plan, JobGraph(tasks(11, cpu_cores=0.1)), few)
    if name == "gs-bfd":
        assert len(plan.unplaced) == 11
        assert "3 of the 11 tasks of its job have no room: all or nothing" in str(plan.unplaced)
    else:
        assert len(plan.unplaced) == 3
        assert plan.unplaced[0].reason == "all 8 slots are taken"


def test_an_unknown_policy_or_option_is_refused() -> None:
    with pytest.raises(errors.ArgumentError, match=r"no policy 'cesta'\. Did you mean 'cetsa'"):
        policy("cesta")
    with pytest.raises(errors.ArgumentError, match="seeds"):
        policy("random", seeds=3)


def test_random_draws_by_seed() -> None:
    plans = {
        tuple(Random(seed).plan(JobGraph(tasks(5)), table_3()).placement.items())
        for seed in range(9)
    }
    assert len(plans) == 9


@pytest.mark.parametrize("one", [CETSA(), LBACE()], ids=repr)
def test_without_runtime_information_it_is_round_robin(one: Policy) -> None:
    nothing = dataclasses.replace(table_3(), tuples={})
    job = JobGraph(tasks(20))
    assert one.plan(job, nothing).placement == RoundRobin().plan(job, nothing).placement


def test_round_robin_goes_on_where_the_last_operator_ended_unless_it_restarts() -> None:
    job = JobGraph((*tasks(2, "a"), *tasks(2, "b")))
    workers = Snapshot(0, table_4(("m2", "m3", "m4")))
    assert list(RoundRobin().plan(job, workers).placement.values()) == ["m2", "m3", "m4", "m2"]
    restarted = RoundRobin(restart=True).plan(job, workers)
    assert list(restarted.placement.values()) == ["m2", "m3", "m2", "m3"]


def test_cetsa_puts_tasks_that_talk_onto_one_worker() -> None:
    # Two groups of four that talk among themselves, submitted in turns.
    edges = tuple(Edge(f"map-{i}", f"map-{i + 2}", 1e6) for i in range(6))
    job = JobGraph(tasks(8), edges)
    workers = dataclasses.replace(table_3(), workers=table_4(("m2", "m3")))
    cost = CostModel(price_per_byte=1)
    assert cost.network_per_s(CETSA().plan(job, workers), job, workers) == 0
    assert cost.network_per_s(CETSA(together=False).plan(job, workers), job, workers) > 0


def test_cetsa_takes_the_next_worker_when_resources_run_out_before_slots() -> None:
    job = JobGraph(tasks(6, cpu_cores=1.5))
    plan = CETSA().plan(job, table_3())
    assert {worker: len(there) for worker, there in plan.by_worker.items()} == {
        "m3": 2,
        "m2": 2,
        "m4": 2,
    }


def with_fitness(busy: dict[str, float]) -> Snapshot:
    return dataclasses.replace(table_3(), cost=dict.fromkeys(table_3().cost, 1.0), busyness=busy)


def test_lba_ce_splits_the_workers_at_the_mean_fitness() -> None:
    busy = {worker.id: 0.1 if worker.tier == "xl" else 0.9 for worker in table_4()}
    high, low, _ = split_at_mean(with_fitness(busy))
    assert set(high) == {"xl1", "xl2", "xl3", "xl4"}
    assert len(high) + len(low) == 11


@pytest.mark.parametrize("spread", ["least-loaded", "turns"])
def test_lba_ce_spreads_tasks_over_the_high_list_only(spread: str) -> None:
    busy = {worker.id: 0.1 if worker.tier == "xl" else 0.9 for worker in table_4()}
    plan = policy("lba-ce", spread=spread).plan(JobGraph(tasks(8)), with_fitness(busy))
    assert {worker: len(there) for worker, there in plan.by_worker.items()} == dict.fromkeys(
        ("xl1", "xl2", "xl3", "xl4"), 2
    )


def test_lba_ce_to_the_letter_fills_the_fittest_first() -> None:
    busy = {worker.id: 0.1 if worker.tier == "xl" else 0.9 for worker in table_4()}
    plan = LBACE(spread="literal").plan(JobGraph(tasks(8)), with_fitness(busy))
    assert [len(there) for there in plan.by_worker.values()] == [4, 4]


@pytest.mark.parametrize("spread", ["least-loaded", "turns", "literal"])
def test_lba_ce_adds_the_fittest_of_the_low_list_when_the_high_one_is_full(spread: str) -> None:
    busy = {worker.id: 0.9 for worker in table_4()} | {"xl1": 0.1, "l3": 0.5}
    plan = policy("lba-ce", spread=spread).plan(JobGraph(tasks(7)), with_fitness(busy))
    assert {worker: len(there) for worker, there in plan.by_worker.items()} == {"xl1": 4, "l3": 3}


def test_lba_ce_is_more_even_than_its_letter() -> None:
    names = [worker.id for worker in table_4()]

    def uneven(one: Policy) -> float:
        found = []
        for seed in range(100):
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


def test_resource_aware_keeps_neighbours_on_the_worker_before() -> None:
    plan = ResourceAware().plan(JobGraph(tasks(4)), Snapshot(0, table_4(("m2", "m3", "m4"))))
    assert len(plan.by_worker) == 1


def test_spread_gives_more_to_larger_workers() -> None:
    snapshot = Snapshot(0, (Worker("s", Resources(2, 2048), 9), Worker("l", Resources(8, 8192), 9)))
    plan = Spread().plan(JobGraph(tasks(5, memory_mb=512)), snapshot)
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


def test_gs_bfd_sorts_the_workers_anew_for_every_job() -> None:
    # After a, w1 has less free than w0 and is filled first by b.
    workers = (
        Worker("w0", Resources(6, 8 * 1024), 9, delta=1.0),
        Worker("w1", Resources(5, 9 * 1024), 9, delta=1.0),
    )
    a = tasks(1, "a", cpu_cores=3, memory_mb=4 * 1024)
    b = tasks(1, "b", cpu_cores=1, memory_mb=1024)
    plan = GSBFD().plan(JobGraph((*b, *a)), Snapshot(0, workers))
    # Free before: 6.5 and 6.0, so a goes to w1, which is then at 2.75.
    assert plan.placement == {"a-0": "w1", "b-0": "w1"}


def test_gs_bfd_rolls_a_job_back_and_places_the_next() -> None:
    workers = (Worker("w", Resources(4, 4 * 1024), 9, delta=1.0),)
    big = tasks(3, "big", cpu_cores=2, memory_mb=512)
    small = tasks(4, "small", cpu_cores=1, memory_mb=512)
    plan = GSBFD().plan(JobGraph((*big, *small)), Snapshot(0, workers))
    assert sorted(plan.placement) == ["small-0", "small-1", "small-2", "small-3"]
    assert {one.task for one in plan.unplaced} == {"big-0", "big-1", "big-2"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: GSBFD(theta=2), "theta=2"),
        (lambda: GSBFD(jobs="all"), "jobs='all'"),  # type: ignore[arg-type]
        (lambda: LBACE(spread="even"), "spread='even'"),  # type: ignore[arg-type]
        (lambda: LocalSearch(tries=-1), "tries=-1"),
        (lambda: Exact(max_nodes=0), "max_nodes=0"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(wrong: object, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        wrong()  # type: ignore[operator]


RANKING = [
    CETSA(),
    CETSA(together=False),
    *(LBACE(spread=how) for how in ("least-loaded", "turns", "literal")),
]


@pytest.mark.parametrize("one", RANKING, ids=repr)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_worker_whose_figures_cannot_be_is_never_the_best(
    one: Policy, data: st.DataObject
) -> None:
    workers = tuple(
        Worker(f"w{i}", Resources(8, 8192), 4, host="h", tier=data.draw(st.sampled_from(["", "a"])))
        for i in range(data.draw(st.integers(2, 5)))
    )
    names = [worker.id for worker in workers]
    figures: dict[str, dict[str, object]] = {
        name: {
            worker: data.draw(st.floats(0.1, 9) if name != "busyness" else st.floats(0, 1))
            for worker in names
        }
        for name in ("tuples", "cost", "busyness")
    }
    kinds = ["tuples", "cost", "busyness"] if isinstance(one, LBACE) else ["tuples", "cost"]
    kind, spoiled = data.draw(st.sampled_from(kinds)), data.draw(st.sampled_from(names))
    missing = data.draw(st.booleans())
    del figures[kind][spoiled]
    if not missing:
        odd = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -0.001, None, "9", True])
        figures[kind][spoiled] = data.draw(odd)
    snapshot = Snapshot(0, workers, **figures)  # type: ignore[arg-type]
    assert one.plan(JobGraph(tasks(1)), snapshot).placement["map-0"] != spoiled
    # It is still used where there is no other, and the reason tells why it comes so late.
    full = JobGraph(tasks(4 * len(names), cpu_cores=0.1, memory_mb=1))
    plan = one.plan(full, snapshot)
    assert not plan.unplaced
    late = [said.reason for said in plan.assignments if said.worker == spoiled]
    why = snapshot.ignored.get(
        spoiled, "its cost is missing|it has processed nothing|busyness is missing"
    )
    assert all(any(part in reason for part in why.split("|")) for reason in late)


def test_figures_without_any_cost_are_no_history() -> None:
    seen = dataclasses.replace(table_3(), cost={})
    for one in (CETSA(), LBACE()):
        plan = one.plan(JobGraph(tasks(20)), seen)
        assert plan.placement == RoundRobin().plan(JobGraph(tasks(20)), seen).placement
        assert plan.fallback == "round-robin: no worker has both tuples and their cost"


def test_a_policy_says_what_it_is_for() -> None:
    said = {name: weights_of(policy(name)) for name in POLICIES}
    assert said == {
        "cetsa": (1, 0, 1),
        "data-locality": (0, 1, 1),
        "exact": (1, 0, 1),
        "first-fit": (1, 0, 0),
        "gs-bfd": (1, 0, 0),
        "lba-ce": (1, 1, 1),
        "local-search": (1, 0, 1),
        "random": (0, 1, 0),
        "resource-aware": (1, 1, 1),
        "round-robin": (0, 1, 0),
        "spread": (0, 1, 0),
        "twister2-round-robin": (0, 1, 0),
    }
    for odd in ((1, 2, math.nan), (1, -1, 0)):
        one = Random()
        object.__setattr__(one, "weights", odd)
        with pytest.raises(errors.ArgumentError, match=r"a weight=.* of a policy"):
            weights_of(one)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: CETSA(together="no"),  # type: ignore[arg-type]
        lambda: RoundRobin(restart="false"),  # type: ignore[arg-type]
        lambda: DataLocality("ab"),  # type: ignore[arg-type]
        lambda: Exact(cost=None),  # type: ignore[arg-type]
        lambda: LBACE(epsilon=0),
        lambda: GSBFD(jobs=["task"]),  # type: ignore[arg-type]
    ],
)
def test_an_option_of_another_kind_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(errors.ArgumentError):
        wrong()
