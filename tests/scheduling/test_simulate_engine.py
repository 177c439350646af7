"""The simulator: events, processor sharing by hand, work that is conserved, executors that go."""

from __future__ import annotations

import doctest
import math
import types
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.scheduling import operators
from benchmarks.papers.scheduling.operators import Operator, demands
from benchmarks.papers.scheduling.steering import ElasticSimulation, SimCluster
from scheduling import JobGraph, Resources, Worker, simulate
from scheduling.errors import ArgumentError
from scheduling.simulate import Arrivals, Simulation

ONCE = [(0.0, 8.0), (1.0, 8.0), (1.0, 0.0)]  # eight rows, there at second 1


def workers(count: int, cores: float = 1.0, slots: int = 1) -> list[Worker]:
    return [Worker(f"e{at}", Resources(cores, 1024.0), slots) for at in range(count)]


def idle(tasks: int) -> JobGraph:
    """Tasks whose rows are no work."""
    return demands([Operator("a", tasks, 0.0)])


def once(
    operators: Sequence[Operator], there: Sequence[Worker], until_s: float = 60.0, **options: object
) -> Simulation:
    """One micro-batch of eight rows, which begins at second 1."""
    query = Simulation(demands(operators), there, Arrivals(ONCE), overhead_s=0.0, **options)  # type: ignore[arg-type]
    query.run(until_s)
    assert len(query.batches) == 1
    assert query.batches[0].rows == 8
    return query


@pytest.mark.parametrize(
    ("cores", "slots", "width", "ends"),
    [
        (2.0, 4, 1.0, 2.0),  # four core seconds on two cores
        (2.0, 2, 1.0, 2.0),  # two turns of two
        (2.0, 1, 1.0, 4.0),  # one at a time, one core each
        (2.0, 1, 2.0, 2.0),
        (8.0, 4, 1.0, 1.0),
        (0.5, 4, 1.0, 8.0),  # a quota
    ],
)
def test_equal_tasks_share_the_cores(cores: float, slots: int, width: float, ends: float) -> None:
    query = once([Operator("a", 4, 0.0)], workers(1, cores, slots), width=width, fixed_s=1.0)
    assert query.batches[0].end == pytest.approx(1.0 + ends)
    assert query.executors["e0"].busy_s == pytest.approx(4.0)


def test_unequal_tasks_share_a_core_until_the_shorter_ends() -> None:
    # 1 and 3 core seconds on one core: the first ends at 2, then the other is alone until 4.
    query = once([Operator("a", 2, 0.5, shares=(0.25, 0.75))], workers(1, 1.0, 2))
    assert query.batches[0].end == pytest.approx(5.0)
    assert query.executors["e0"].run_s == pytest.approx(2.0 + 4.0)


def test_stages_follow_one_another_and_pipelined_ones_do_not() -> None:
    job = [Operator("a", 1, 0.125), Operator("b", 1, 0.125, inputs=("a",))]
    there = workers(2)
    assert once(job, there).batches[0].end == pytest.approx(3.0)
    assert once(job, there, pipelined=True).batches[0].end == pytest.approx(2.0)


def test_rows_and_bytes_follow_the_streams() -> None:
    job = [
        Operator("a", 2, 0.0, out_bytes=30.0),
        Operator("b", 2, 0.1, inputs=("a",), part=3.0, shares=(0.25, 0.75)),
    ]
    at = {"a-0": "e0", "a-1": "e0", "b-0": "e0", "b-1": "e1"}
    query = once(job, workers(2, 4.0, 4), placement=at, fixed_s=1e-3)
    (batch,) = query.batches
    assert batch.at == at
    # 24 rows, 6 and 18: those of b-1 come from another host.
    assert batch.work_s["b-0"] == pytest.approx(0.6, abs=2e-3)
    assert batch.work_s["b-1"] == pytest.approx(1.8, abs=2e-3)
    assert SimCluster(query).snapshot().tuples["e1"] == pytest.approx(18.0)
    far = [one for one in demands(job, 8.0).edges if at[one.source] != at[one.target]]
    assert sum(one.bytes_per_s for one in far) == pytest.approx(180.0)


def test_a_saturated_query_grows_by_lambda_over_mu_and_a_calm_one_converges() -> None:
    job = demands([Operator("a", 2, 0.001)])
    hot = Simulation(job, workers(2), Arrivals(3000), trigger_s=0.1)
    hot.run(200.0)
    lengths = [one.end - one.start for one in hot.batches[-2:]]
    assert lengths[1] / lengths[0] == pytest.approx(1.5, abs=0.01)
    calm = Simulation(job, workers(2), Arrivals(1000), trigger_s=0.01)
    calm.run(60.0)
    assert calm.batches[-1].end - calm.batches[-1].start == pytest.approx(0.1 / (1 - 0.5))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(0.25, 4.0),
    st.floats(0.0, 0.5),
    st.integers(0, 99),
    st.booleans(),
)
def test_work_is_conserved_and_events_are_in_order(
    tasks: int, count: int, slots: int, cores: float, noise: float, seed: int, pipelined: bool
) -> None:
    job = demands([Operator("a", tasks, 1e-3), Operator("b", 2, 1e-3, inputs=("a",), part=0.5)])
    arrived = Arrivals(100.0, noise=noise, seed=seed, horizon_s=100)

    def run() -> Simulation:
        query = Simulation(
            job, workers(count, cores, slots), arrived,
            noise=noise, seed=seed, pipelined=pipelined, fixed_s=0.01,
        )  # fmt: skip
        query.run(20.0)
        return query

    query = run()
    assert query.batches
    assert query.batches == run().batches, "the same seed is the same run"
    finished = sum(sum(one.work_s.values()) for one in query.batches)
    worked = sum(one.busy_s for one in query.executors.values())
    assert finished <= worked + 1e-6
    before = 0.0
    for one in query.batches:
        assert before <= one.start < one.end <= query.now
        # No faster than all cores, nor than the longest task of a stage on one core.
        assert one.end - one.start >= sum(one.work_s.values()) / (count * cores) - 1e-9
        assert one.end - one.start >= max(one.work_s.values()) - 1e-9
        assert all(0 <= share <= 1 for share in one.busy.values())
        before = one.end
    offsets = [one.offset + one.rows for one in query.batches]
    assert [one.offset for one in query.batches[1:]] == pytest.approx(offsets[:-1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 3)), max_size=4), st.booleans())
def test_tasks_of_an_executor_that_dies_run_again(
    deaths: list[tuple[float, int]], pinned: bool
) -> None:
    job = demands([Operator("a", 6, 0.0), Operator("b", 3, 0.0, inputs=("a",))])
    at = {f"a-{i}": f"e{i % 4}" for i in range(6)} if pinned else {}
    query = ElasticSimulation(job, workers(5, 2.0, 2), Arrivals(100), placement=at, fixed_s=0.6)
    for time_s, name in deaths:
        query.at(time_s, lambda name=name: query.kill(f"e{name}"))  # type: ignore[misc]
    query.run(40.0)
    dead = {f"e{name}" for _, name in deaths}
    assert query.batches[-1].end > 30
    for one in query.batches:
        assert one.at.keys() == {f"a-{i}" for i in range(6)} | {f"b-{i}" for i in range(3)}
    assert not dead & set(query.batches[-1].at.values())
    running = sum(
        query._work[task] - left
        for one in query.executors.values()
        for task, (left, _) in one._running.items()
    )
    done = sum(sum(one.work_s.values()) for one in query.batches)
    worked = sum(one.busy_s for one in query.executors.values())
    # Worked: finished micro-batches, what died, and the micro-batch that has begun.
    assert 0 <= worked - done - query.wasted_s - running <= 9 * 0.6 + 1e-6


def test_executors_come_late_leave_when_done_and_are_replaced() -> None:
    query = ElasticSimulation(idle(8), workers(2), Arrivals(10), start_s=7.0, most=4, fixed_s=1.0)
    query.resize(6)
    query.run(6.9)
    assert len(query.there()) == 2
    query.run(7.1)
    assert [one.worker.id for one in query.there()] == ["e0", "e1", "e2", "e3"]
    query.most = math.inf
    query.resize(6)
    query.run(30.0)
    assert len(query.there()) == 6
    rent = query.rent
    query.run(31.0)
    assert query.rent == pytest.approx(rent + 6)
    query.kill("e3")
    query.run(38.2)
    assert len(query.there()) == 6, "what was requested stands"
    began = len(query.batches)
    query.resize(1)
    assert [one.worker.id for one in query.there()] == ["e0"]
    query.run(90.0)
    assert query.wasted_s <= 1.0, "only what the dead one had begun; who leaves finishes first"
    rent = query.rent
    query.run(91.0)
    assert query.rent == pytest.approx(rent + 1)
    assert set(query.batches[-1].at.values()) == {"e0"}
    assert len(query.batches) > began


def test_a_pin_to_an_executor_that_is_gone_runs_anywhere() -> None:
    query = ElasticSimulation(idle(2), workers(2), Arrivals(10), fixed_s=0.5)
    query.placement = {"a-0": "mars", "a-1": "e1"}
    query.at(5.0, lambda: query.kill("e1"))
    query.run(20.0)
    assert query.batches[0].at["a-1"] == "e1"
    assert set(query.batches[-1].at.values()) == {"e0"}


@pytest.mark.parametrize("module", [simulate, operators])
def test_the_examples_run(module: types.ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_a_curve_is_linear_between_jumps_where_two_points_meet_and_ends_flat() -> None:
    rows = Arrivals([(0, 0.0), (10, 10.0), (20, 10.0), (20, 50.0)], horizon_s=30)
    assert [rows(at) for at in (-5, 0, 10, 20, 21, 30, 40)] == pytest.approx(
        [0, 0, 50, 150, 200, 650, 1150]
    )
    assert [rows.second(n) for n in (50, 150, 200, 650, 1150)] == pytest.approx(
        [10, 20, 21, 30, 40]
    )


@given(st.floats(1.0, 1e4), st.floats(0, 1), st.integers(0, 99), st.floats(0, 120))
def test_noise_keeps_the_mean_and_the_seed_the_draw(
    rate: float, noise: float, seed: int, time_s: float
) -> None:
    one, same = (Arrivals(rate, noise=noise, seed=seed, horizon_s=100) for _ in range(2))
    assert one(time_s) == same(time_s)
    assert rate * time_s * (1 - noise) - 1e-6 <= one(time_s) <= rate * time_s * (1 + noise) + 1e-6
    if noise < 1:
        assert one.second(one(time_s)) == pytest.approx(time_s, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Arrivals(-1), "rates of at least 0"),
        (lambda: Arrivals([(5, 1), (1, 1)]), "ascending"),
        (lambda: Arrivals(1, noise=2), "share of the rate"),
        (lambda: Operator("a", 0, 1.0), "give a task or more"),
        (lambda: Operator("a", 1, math.nan), "finite numbers"),
        (lambda: Operator("a", 2, 1.0, shares=(0.5, 0.4)), "sum 1"),
        (lambda: demands([Operator("b", 1, 1, inputs=("a",))]), "order"),
        (lambda: Simulation(JobGraph(()), workers(1), Arrivals(1)), "give a task or more"),
        (lambda: Simulation(idle(1), [], Arrivals(1)), "a worker or more"),
        (lambda: Simulation(idle(1), workers(1), Arrivals(1), trigger_s=0), "above 0"),
        (lambda: Simulation(idle(1), workers(1), Arrivals(1), fixed_s=-1), "at least 0"),
        (lambda: Simulation(idle(1), workers(1), Arrivals(1), noise=1), "noise in"),
    ],
)
def test_what_cannot_be_run_is_refused(make: object, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        make()  # type: ignore[operator]
