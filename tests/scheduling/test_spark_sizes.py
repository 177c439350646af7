"""How many partitions and executors there are, with a fake session: by a scaler, or by plans."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scheduling_samples import Wants
from spark_fakes import Conf, Session, executor, plan, workers_of

from scheduling import Price, Snapshot
from scheduling.spark import LeverWarning, Placement, internals
from scheduling.spark.scaling import Sizes
from scheduling.spark.seen import Executor, TaskSeen, executors_of

PRICES = [Price("*/3", 9.0), Price("*", 1.0)]


class Job:
    """Cycles of a job on executors that a test sets."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        scaler: Any = None,
        session: Any = None,
        **options: Any,
    ) -> None:
        self.session: Any = session or Session()
        self.found = [executor("1"), executor("2"), executor("3")]
        self.now = 0.0
        patch.setattr(internals, "running_query", lambda _: None)
        patch.setattr(internals, "StatusStore", lambda _: self)
        options = {"cooldown_s": 0.0, "prices": PRICES} | options
        self.sizes = Sizes(self.session, Placement(**options), scaler, 2)

    def executors(self) -> list[dict[str, Any]]:
        return self.found

    @property
    def there(self) -> tuple[Executor, ...]:
        return executors_of(self.found)[0]

    @property
    def seen(self) -> Snapshot:
        leaving = getattr(self.sizes.executors, "leaving", ())
        stay = [one for one in self.found if one["id"] not in leaving]
        return Snapshot(self.now, workers_of(stay, 1, prices=PRICES))

    def cycle(self, before: int, rows: int = 100) -> int:
        """The number of partitions after a cycle of 10 s in which each task was busy for 5 s."""
        wanted = self.sizes.wanted(self.now, before, self.there)
        tasks = tuple(TaskSeen(i, "1", 5.0, rows) for i in range(wanted))
        self.sizes.record(self.now, 10.0, tasks)
        self.found = [one | {"totalDuration": one["totalDuration"] + 5_000} for one in self.found]
        self.now += 10.0
        return wanted

    def settle(self, *at: str | None, times: int = 1) -> None:
        """Cycles with task i on the i-th worker; None: it has no room."""
        for _ in range(times):
            self.sizes.settle(self.seen, plan(*at))


# A scaler


def test_what_waits_is_unknown_or_told_and_never_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told, scaler = [500.0], Wants(2.0)
    job = Job(monkeypatch, scaler, backlog=lambda: told[0])
    for _ in range(3):
        job.cycle(2)
    assert {load.waiting for load in scaler.loads} == {500.0}
    for unknown in (lambda: 1 / 0, *(lambda n=n: n for n in (math.nan, -1.0, math.inf))):
        scaler = Wants(2.0)
        job = Job(monkeypatch, scaler, backlog=unknown)
        for _ in range(4):
            job.cycle(2)
        assert {(load.waiting, load.arrival) for load in scaler.loads} == {(None, None)}


def test_partitions_follow_the_cores_that_are_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch, Wants(8.0), executors=(1, 4))
    count = 2
    for _ in range(3):
        count = job.cycle(count)
    assert count == 6  # three executors of two cores: a requested one does not count
    assert job.session.wanted == [4]
    for _ in range(3):
        count = job.cycle(count)
    assert job.session.wanted == [4]  # it stands
    job.found.append(executor("4"))
    assert job.cycle(count) == 8
    job.found = [executor("1")]  # lost: planned with what there is
    assert job.cycle(8) == 2
    there = job.there  # one that comes after the look counts from the next cycle
    job.found.append(executor("4"))
    assert job.sizes.wanted(job.now, 2, there) == 2
    assert job.sizes.wanted(job.now, 2, job.there) == 4
    fewer = Job(monkeypatch, Wants(2.0), executors=(1, 4), partitions=(1, 4))
    for _ in range(3):
        count = fewer.cycle(count)
    assert (fewer.session.killed[0], fewer.session.wanted, count) == ("3", [1], 4)  # the dearest
    # A task of two cores is as busy as one of one: three can run, not six.
    wants = Wants(3.0)
    large = Job(monkeypatch, wants, Session(conf=Conf(spark_task_cpus="2")), executors=(1, 4))
    for _ in range(4):
        count = large.cycle(count)
    assert (count, large.session.wanted) == (3, [])
    assert {(load.cores, load.busy) for load in wants.loads} == {(3, 0.5)}


# Without a scaler: what plans leave idle


def test_the_dearest_idle_executors_leave_after_three_cycles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(monkeypatch, executors=(2, 4))
    assert job.sizes.releases
    job.settle("h/1", times=2)
    assert job.session.killed == []
    job.settle("h/1")
    assert job.session.killed == ["3"]  # and not 2: two are the fewest
    assert job.session.wanted == [2]  # so that Spark does not start another
    # One that is leaving is none of the fewest.
    other = Job(monkeypatch, executors=(2, 4))
    other.settle("h/3", times=3)
    other.settle("h/2", times=4)
    assert (other.session.killed, other.session.wanted) == (["1"], [2])
    other.found = other.found[1:]
    other.settle("h/2", times=4)
    assert other.session.killed == ["1"]
    fewest = Job(monkeypatch, executors=(5, 6))
    fewest.settle("h/1", times=3)  # they are requested at once
    assert (fewest.session.wanted, fewest.session.killed) == ([5], [])
    most = Job(monkeypatch, executors=(1, 2))
    most.settle("h/1", "h/2", "h/3")
    assert (most.session.wanted, most.session.killed) == ([2], ["3"])
    # Before any has come, what Spark has requested at first stands.
    early = Job(monkeypatch, executors=(1, 4))
    early.found = []
    early.settle(None)
    assert early.session.wanted == []
    alone = Job(monkeypatch)
    assert alone.cycle(3) == 3
    assert (alone.sizes.reason, alone.sizes.releases, alone.sizes.explain()) == ("", False, "none")


@pytest.mark.parametrize("scaler", [None, Wants(9.0)])
@pytest.mark.parametrize(
    ("session", "why"),
    [
        (Session("local[3]"), r"the master is local\[3\]"),
        (Session(conf=Conf(spark_dynamicAllocation_enabled="True")), "dynamic allocation"),
    ],
)
def test_a_number_that_cannot_be_changed_warns_once(
    monkeypatch: pytest.MonkeyPatch, session: Any, why: str, scaler: Any
) -> None:
    job = Job(monkeypatch, scaler, session, executors=(1, 2))

    def act() -> None:
        job.settle("h/1", None)
        assert job.cycle(3) == 3

    with pytest.warns(LeverWarning, match=why):
        act()
    act()
    assert (session.wanted, session.killed) == ([], [])
