"""The simulator: events, processor sharing by hand, work that is conserved, executors that go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.scheduling.steering import Operator, demands
from scheduling import JobGraph, Resources, Worker
from scheduling.errors import ArgumentError
from scheduling.simulate import Arrivals, Simulation

ONCE = [(0.0, 8.0), (1.0, 8.0), (1.0, 0.0)]  # eight rows, there at second 1


def workers(count: int, cores: float = 1.0, slots: int = 1) -> list[Worker]:
    return [Worker(f"e{at}", Resources(cores, 1024.0), slots) for at in range(count)]


def once(
    operators: Sequence[Operator], there: Sequence[Worker], until_s: float = 60.0, **options: object
) -> Simulation:
    """One micro-batch of eight rows, which begins at second 1."""
    query = Simulation(demands(operators), there, Arrivals(ONCE), overhead_s=0.0, **options)  # type: ignore[arg-type]
    query.run(until_s)
    assert len(query.batches) == 1
    assert query.batches[0].rows == 8
    return query


def test_tasks_share_the_cores() -> None:
    for cores, slots, width, ends in (
        (2.0, 4, 1.0, 2.0),  # four core seconds on two cores
        (2.0, 2, 1.0, 2.0),  # two turns of two
        (2.0, 1, 1.0, 4.0),  # one at a time, one core each
        (2.0, 1, 2.0, 2.0),
        (8.0, 4, 1.0, 1.0),
        (0.5, 4, 1.0, 8.0),  # a quota
    ):
        query = once([Operator("a", 4, 0.0)], workers(1, cores, slots), width=width, fixed_s=1.0)
        assert query.batches[0].end == pytest.approx(1.0 + ends)
        assert query.executors["e0"].busy_s == pytest.approx(4.0)
    # 1 and 3 core seconds on one core: the first ends at 2, then the other is alone until 4.
    query = once([Operator("a", 2, 0.5, shares=(0.25, 0.75))], workers(1, 1.0, 2))
    assert query.batches[0].end == pytest.approx(5.0)
    assert query.executors["e0"].run_s == pytest.approx(2.0 + 4.0)


@settings(max_examples=20, deadline=None)
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


def test_a_curve_is_linear_between_jumps_where_two_points_meet_and_ends_flat() -> None:
    rows = Arrivals([(0, 0.0), (10, 10.0), (20, 10.0), (20, 50.0)], horizon_s=30)
    assert [rows(at) for at in (-5, 0, 10, 20, 21, 30, 40)] == pytest.approx(
        [0, 0, 50, 150, 200, 650, 1150]
    )
    assert [rows.second(n) for n in (50, 150, 200, 650, 1150)] == pytest.approx(
        [10, 20, 21, 30, 40]
    )


def test_what_cannot_be_run_is_refused() -> None:
    job, there, rows = demands([Operator("a", 1, 0.0)]), workers(1), Arrivals(1)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Arrivals(-1), "rates of at least 0"),
        (lambda: Arrivals([(5, 1), (1, 1)]), "ascending"),
        (lambda: Arrivals(1, noise=2), "share of the rate"),
        (lambda: Simulation(JobGraph(()), there, rows), "give a task or more"),
        (lambda: Simulation(job, [], rows), "a worker or more"),
        (lambda: Simulation(job, workers(2, slots=0), rows), "with slots and cores"),
        (lambda: Simulation(job, workers(2, 0.0), rows), "with slots and cores"),
        (lambda: Simulation(job, there, rows, trigger_s=0), "above 0"),
        (lambda: Simulation(job, there, rows, fixed_s=-1), "at least 0"),
        (lambda: Simulation(job, there, rows, noise=1), "noise in"),
    ]
    for make, told in wrong:
        with pytest.raises(ArgumentError, match=told):
            make()
