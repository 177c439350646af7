"""The simulator: no record is made or forgotten, whatever is moved, resized or fails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scheduling.errors import ArgumentError
from scheduling.model import Resources, Worker
from scheduling.simulate import Failure, Job, Operator, Physics, Simulation, constant, table_4
from scheduling.simulate.jobs import demands, task_id
from scheduling.simulate.workloads import fixwindow, join_job, wordcount

ROUNDED = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def in_turns(job: Job, names: list[str]) -> dict[str, str]:
    ids = [task_id(one.name, at) for one in job.operators for at in range(one.parallelism)]
    return {task: names[at % len(names)] for at, task in enumerate(ids)}


def one_after_the_other(*, buffer: float = 1000, cpu_s: float = 1e-3) -> Job:
    return Job(
        "two",
        (
            Operator(name="read", parallelism=2, cpu_s=1e-4),
            Operator(name="work", inputs=("read",), parallelism=2, cpu_s=cpu_s, buffer=buffer),
        ),
    )


def simulation(job: Job, rate: float, **options: object) -> Simulation:
    workers = table_4()
    names = [worker.id for worker in workers]
    return Simulation(job, workers, constant(rate), in_turns(job, names), **options)  # type: ignore[arg-type]


@ROUNDED
# Fewer instances have smaller buffers than what waits for them.
@example(wordcount(), 20_234.0, False, [0] * 8 + [2, 2, 1], [(0, 1, "r"), (12, 2, "r")])
@given(
    st.sampled_from([wordcount(), fixwindow(), join_job()]),
    st.floats(0, 150_000),
    st.booleans(),
    st.lists(st.integers(0, 10), min_size=1, max_size=11),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.sampled_from("rsf")), max_size=4),
)
def test_no_record_is_made_or_forgotten_whatever_happens(
    job: Job, rate: float, drops: bool, used: list[int], events: list[tuple[int, int, str]]
) -> None:
    workers = table_4()
    names = [workers[at].id for at in used]
    failures = [
        Failure(names[number % len(names)], at, at + 10)
        for at, number, kind in events
        if kind == "f"
    ]
    run = Simulation(
        job,
        workers,
        constant(rate),
        in_turns(job, names),
        physics=Physics(drops=drops, checkpoint_s=3, restart_s=2),
        failures=failures,
    )
    for at, number, kind in sorted(events):
        run.run(max(run.time_s, at))
        if kind == "r":
            resized = job.resized({job.operators[-2].name: number})
            name = job.operators[-2].name
            shares = {name: resized.by_name[name].shares(number, job.seed)}
            placed = {**run.placement, **in_turns(resized, names)}
            run.change(placed, shares=shares, still_s=1)
        elif kind == "s":
            turned = names[number % len(names) :] + names[: number % len(names)]
            placed = in_turns(job.resized(run.parallelism), turned)
            run.change(placed, still_s=1)
        run._check()
    run.run(run.time_s + 15)
    run._check()
    assert run.offered == pytest.approx(rate * run.time_s)
    if not drops:
        assert run.lost == 0


def test_the_same_simulation_runs_the_same_twice() -> None:
    first, second = (simulation(wordcount(), 60_000).run(30) for _ in range(2))
    for name in ("done", "backlog", "delay_s", "network_bytes", "cpu", "buffers"):
        assert np.array_equal(first.rows(name), second.rows(name))


def test_what_comes_in_goes_out_where_there_is_room() -> None:
    trace = simulation(wordcount(), 20_000).run(60)
    assert trace.throughput()[-1] == pytest.approx(20_000)
    assert trace.backlog[-1] < 20_000
    assert trace.late_share(5.0) == 0


def test_a_slow_operator_holds_up_its_senders_and_the_source_waits() -> None:
    # 2 instances of 1 core each, 1 ms a record: 2,000 records/s.
    run = simulation(one_after_the_other(), 3000)
    trace = run.run(100)
    assert trace.throughput()[-1] == pytest.approx(2000, rel=0.02)
    assert run.backlog == pytest.approx(1000 * 100, rel=0.05)
    assert max(row[1] for row in trace.buffers) <= 1 + 1e-9
    assert run.lost == 0


def test_full_buffers_drop_what_comes_where_nothing_holds_it_up() -> None:
    run = simulation(one_after_the_other(), 3000, physics=Physics(drops=True))
    run.run(100)
    assert run.backlog == 0
    assert run.lost == pytest.approx(1000 * 100, rel=0.05)


def test_a_host_gives_no_more_cpu_than_it_has_and_less_above_delta() -> None:
    job = one_after_the_other(cpu_s=1e-3)
    worker = Worker("w", Resources(1, 4096), 4)
    alone = dict.fromkeys(in_turns(job, ["w"]), "w")
    physics = Physics(base_cpu_cores=0.0, contention=0.2)
    trace = Simulation(job, [worker], constant(5000.0), alone, physics=physics).run(60)
    # 1.1 ms of CPU a record; a fifth of the host is lost at 100 %.
    assert trace.throughput()[-1] == pytest.approx(0.8 / 1.1e-3, rel=0.03)
    assert max(row[0] for row in trace.cpu) <= 1


def test_tasks_on_one_host_talk_without_the_network() -> None:
    job = wordcount()
    workers = [Worker(name, Resources(40, 99_999), 40, host=host) for name, host in ("aA", "bA")]
    together = Simulation(job, workers, constant(9e3), in_turns(job, ["a", "b"])).run(20)
    apart = simulation(job, 9e3).run(20)
    assert max(together.network_bytes) == 0
    assert apart.network_bytes[-1] > 1e6 * 0.5


def test_a_narrow_network_is_what_limits_a_job() -> None:
    job = one_after_the_other(cpu_s=1e-5)
    workers = [
        Worker(name, Resources(8, 9999), 4, bandwidth_bytes_per_s=50_000) for name in ("a", "b")
    ]
    placement = {"read-0": "a", "read-1": "a", "work-0": "b", "work-1": "b"}
    trace = Simulation(job, workers, constant(2000.0), placement).run(60)
    assert trace.throughput()[-1] == pytest.approx(500, rel=0.05)  # of 100 bytes each


def test_a_failure_stops_the_job_and_throws_it_back_to_the_checkpoint() -> None:
    job = wordcount()
    run = simulation(job, 20_000, failures=[Failure("m2", 31, 60)])
    trace = run.run(120)
    run._check()
    assert run.restarts == 1
    down = trace.between(35, 60)
    assert set(np.diff(trace.rows("done"))[down]) == {0.0}
    assert (trace.rows("cpu")[down, 0] == 0).all()
    assert min(np.diff(trace.rows("done"))) < 0  # what came after the checkpoint is read again
    assert run.done == pytest.approx(run.offered, rel=0.03)


def test_the_failure_of_an_idle_worker_does_not_matter() -> None:
    job = one_after_the_other()
    used = dict.fromkeys(in_turns(job, ["m2"]), "l1")
    run = Simulation(job, table_4(), constant(100.0), used, failures=[Failure("xl4", 5)])
    run.run(30)
    assert run.restarts == 0
    assert run.down == {"xl4"}


def test_a_change_that_changes_nothing_costs_nothing() -> None:
    run = simulation(wordcount(), 20_000)
    run.run(10)
    assert not run.change(run.placement, still_s=60)
    assert run.running
    assert run.reconfigurations == 0


def test_a_change_costs_its_pause_and_the_time_to_carry_state() -> None:
    run = simulation(fixwindow(), 20_000)
    run.run(10)
    turned = {task: "xl1" if at == "m2" else at for task, at in run.placement.items()}
    assert run.change(turned, still_s=5)
    before = run.done
    run.run(15)
    assert run.done == before
    run.run(60)
    assert run.done == pytest.approx(run.offered, rel=0.05)


def test_a_job_that_is_not_whole_or_lies_is_refused() -> None:
    job, workers = one_after_the_other(), table_4()
    whole = in_turns(job, ["m2"])
    with pytest.raises(ArgumentError, match="'work-1' has no worker"):
        Simulation(job, workers, constant(1.0), {t: "m2" for t in whole if t != "work-1"})
    with pytest.raises(ArgumentError, match="no worker 'mars'"):
        Simulation(job, workers, constant(1.0), in_turns(job, ["mars"]))
    run = Simulation(job, workers, constant(1.0), whole)
    with pytest.raises(ArgumentError, match="must sum to 1"):
        run.change(whole, shares={"work": np.array([0.5, 0.4])})
    with pytest.raises(ArgumentError, match="no operator 'mars'"):
        run.change(whole, shares={"mars": np.array([1.0])})
    with pytest.raises(ArgumentError, match="does not stand before it"):
        Job("x", tuple(reversed(job.operators)))
    with pytest.raises(ArgumentError, match="sources sum to"):
        Job("x", (Operator(name="a", parallelism=1, cpu_s=1, share=0.5),))


@given(st.floats(1, 1e6))
def test_demands_are_the_rate_times_what_a_record_takes_but_no_more_than_can_be_used(
    rate: float,
) -> None:
    job = wordcount()
    graph = demands(job, rate)
    assert sum(task.rate_in_per_s for task in graph.operators["count"]) == pytest.approx(rate)
    for task in graph.tasks:
        one = job.by_name[task.operator]
        expected = min(task.rate_in_per_s * one.cpu_s, one.max_cores)
        assert task.demand.cpu_cores == pytest.approx(expected)
    sent = sum(edge.bytes_per_s for edge in graph.edges if edge.target.startswith("count"))
    assert sent == pytest.approx(rate * 120)


def test_the_time_that_the_job_stands_still_is_recorded() -> None:
    job = wordcount()
    run = simulation(
        job,
        10_000.0,
        physics=Physics(deploy_s=7.0, restart_s=10.0),
        failures=(Failure("m2", 40.0, 45.0),),
    )
    run.run(30)
    assert sum(run.trace.still_s) == pytest.approx(7.0)
    run.change(in_turns(job, ["xl1", "m2"]), still_s=3.0)
    run.run(35)
    changed = sum(run.trace.still_s)
    assert 10.0 <= changed < 13.0, "the requested time, plus the transfer of state"
    run.run(60)
    # Gone for 5 s, and the restart takes 10 s from the failure on.
    assert sum(run.trace.still_s) - changed == pytest.approx(10.0, abs=0.5)
