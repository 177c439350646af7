"""The levers, with a fake session: what is requested from Spark, and what is warned about once."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from spark_fakes import Conf, ConnectSession, Session

from scheduling import Actuator, Assignment, Plan, Receipt, Resources, Snapshot, Unplaced, Worker
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.spark import (
    DryRun,
    Executor,
    Fleet,
    LeverWarning,
    Partitions,
    Pinned,
    Pins,
    Tier,
    Tiers,
    internals,
    pins,
    tiers,
)
from scheduling.spark.levers import together

WAIT = "spark.locality.wait"
PROCESS = "spark.locality.wait.process"


def worker(number: int, price: float = 1.0) -> Worker:
    return Worker(f"h/{number}", Resources(4, 1), 4, price, host="h", executor_id=str(number))


def snapshot(*workers: Worker) -> Snapshot:
    return Snapshot(0.0, workers)


def plan(*workers: str | None) -> Plan:
    """Task i on the i-th worker; None leaves it out."""
    return Plan(
        tuple(Assignment(f"join-{i}", at, "test") for i, at in enumerate(workers) if at),
        tuple(Unplaced(f"join-{i}", "no room") for i, at in enumerate(workers) if not at),
        policy="test",
    )


class Rows:
    """A DataFrame of which only the number of partitions counts."""

    def __init__(self, count: int) -> None:
        self.count = count

    def repartition(self, count: int) -> Rows:
        return Rows(count)

    @property
    def schema(self) -> str:
        return "the schema"

    def mapInArrow(self, function: Any, schema: str, profile: Any) -> tuple[Any, ...]:  # noqa: N802
        assert list(function(iter([1, 2]))) == [1, 2]
        return self, schema, profile


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> list[list[Executor | None]]:
    """What was pinned; nothing is."""
    requested: list[list[Executor | None]] = []

    def pin(df: Any, executors: list[Executor | None]) -> Pinned:
        requested.append(executors)
        return Pinned(df, 1, tuple(executors), None)

    monkeypatch.setattr(pins, "partitions", lambda df: df.count)
    monkeypatch.setattr(pins, "pin", pin)
    return requested


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """The RDDs whose stages wait, and how long."""
    found: list[tuple[int, float]] = []

    def wait(_: Any, rdd: int, seconds: float) -> int:
        found.append((rdd, seconds))
        return 1

    monkeypatch.setattr(pins, "_EVERY_S", 0.005)
    monkeypatch.setattr(internals, "wait_for_executors", wait)
    return found


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    assert holds()


def test_levers_are_actuators(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session()
    for lever in (Pins(session, "join"), Partitions("join"), DryRun(), Fleet(session, 1, 2)):
        assert isinstance(lever, Actuator)
    assert isinstance(Tiers(session, ()), Actuator)


# Pins


def test_partitions_are_pinned_where_the_plan_has_their_tasks(pinned: Any, waits: Any) -> None:
    session: Any = Session()
    lever = Pins(session, "join", 7.0)
    assert lever.capabilities() == {"place", "move"}
    assert lever.apply(plan("h/1", None, "h/2", "gone")).requested["join-2"] == "h/2"
    with lever.cycle():
        lever.prepare(Rows(5), snapshot(worker(1), worker(2), Worker("gone", Resources(1, 1), 1)))
        assert lever.pinned is not None
        until(lambda: len(waits) > 2)  # again and again: stages come one after another
    assert set(waits) == {(1, 7.0)}
    one, two = Executor("h", "1"), Executor("h", "2")
    # Left out, without an executor, of no task at all: Spark may choose.
    assert pinned == [[one, None, two, None, None]]
    assert one.location == "executor_h_1"
    assert session.settings.known == {}
    with lever.cycle():
        assert lever.pinned is None


def test_nothing_waits_without_a_request(pinned: Any, waits: Any) -> None:
    session: Any = Session()
    lever = Pins(session, "join")
    with lever.cycle():
        lever.prepare(Rows(2), snapshot(worker(1)))
    assert pinned == [[None, None]]
    assert waits == []


@pytest.mark.parametrize(
    ("before", "during"),
    [
        ({WAIT: "1s"}, {WAIT: "1s", PROCESS: "3000ms"}),
        ({PROCESS: "0"}, {PROCESS: "3000ms"}),
        ({WAIT: "0", PROCESS: "9s"}, {WAIT: "0", PROCESS: "9s"}),
        ({WAIT: "3s"}, {WAIT: "3s"}),
        ({}, {}),
    ],
)
def test_spark_s_own_wait_is_long_enough_to_find_a_stage_and_restored(
    pinned: Any, waits: Any, before: dict[str, str], during: dict[str, str]
) -> None:
    session: Any = Session(conf=Conf(**before))
    lever, other = Pins(session, "join"), Pins(session, "join")
    for one in (lever, other):
        one.apply(plan("h/1"))

    def cycle() -> None:
        with other.cycle():
            with lever.cycle():
                lever.prepare(Rows(1), snapshot(worker(1)))
                other.prepare(Rows(1), snapshot(worker(1)))
                lever.prepare(Rows(1), snapshot(worker(1)))
                assert session.settings.known == during
            assert session.settings.known == during  # the other one's cycle goes on
            raise KeyError("the sink")

    with pytest.raises(KeyError, match="the sink"):
        cycle()
    assert session.settings.known == before


def test_a_wait_that_cannot_be_set_warns_once_and_the_tasks_are_pinned(
    pinned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: Any) -> int:
        raise ActuatorError("no such member")

    monkeypatch.setattr(internals, "wait_for_executors", wait)
    lever = Pins(Session(), "join")  # type: ignore[arg-type]
    lever.apply(plan("h/1"))
    with lever.cycle(), pytest.warns(LeverWarning, match=r"as spark\.locality\.wait says: no such"):
        lever.prepare(Rows(1), snapshot(worker(1)))
    with lever.cycle():
        lever.prepare(Rows(1), snapshot(worker(1)))
    assert pinned == [[Executor("h", "1")]] * 2


def test_a_wait_that_fails_later_is_said_and_the_job_goes_on(
    pinned: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[int] = [1, 0]

    def wait(*_: Any) -> int:
        return 1 // answers.pop(0)

    monkeypatch.setattr(pins, "_EVERY_S", 0.005)
    monkeypatch.setattr(internals, "wait_for_executors", wait)
    lever = Pins(Session(), "join")  # type: ignore[arg-type]
    lever.apply(plan("h/1"))
    with lever.cycle(), caplog.at_level(logging.WARNING, "scheduling"):
        lever.prepare(Rows(1), snapshot(worker(1)))
        until(lambda: "tasks may leave their executors" in caplog.text)


def test_a_local_master_warns_once_and_requests_nothing(pinned: Any) -> None:
    session: Any = Session("local[2]")
    lever = Pins(session, "join")
    assert lever.capabilities() == frozenset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lever.prepare(Rows(1), snapshot())  # no plan was taken up: nobody wanted it
    lever.apply(plan(None, None))  # no executor, so no task is placed
    with pytest.warns(LeverWarning, match=r"placed by Spark: the master is local\[2\]"):
        lever.prepare(Rows(2), snapshot())
    lever.apply(plan("h/1", None))
    lever.prepare(Rows(2), snapshot(worker(1)))
    assert pinned == [[None], [None, None], [None, None]]


def test_connect_and_unknown_versions_warn_once(
    pinned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect: Any = ConnectSession()
    old: Any = Session()
    old._jsparkSession = object()
    for session, why in ((connect, "no access to the physical plan"), (old, "internalCreateDa")):
        lever, rows = Pins(session, "join"), Rows(1)
        assert lever.capabilities() == frozenset()
        with pytest.warns(LeverWarning, match=why):
            assert lever.prepare(rows, snapshot()) is rows  # type: ignore[comparison-overlap]
        assert lever.prepare(rows, snapshot()) is rows  # type: ignore[comparison-overlap]
    assert pinned == []

    def fails(*_: Any) -> Pinned:
        raise ActuatorError("a member is missing")

    monkeypatch.setattr(pins, "pin", fails)
    lever = Pins(Session(), "join")  # type: ignore[arg-type]
    with pytest.warns(LeverWarning, match="a member is missing"):
        assert lever.prepare(rows, snapshot()) is rows  # type: ignore[comparison-overlap]


# Partitions, DryRun, together


def test_rows_are_dealt_out_to_as_many_partitions_as_the_plan_has_tasks(pinned: Any) -> None:
    lever = Partitions("join")
    rows: Any = Rows(4)
    assert lever.capabilities() == {"resize"}
    assert lever.prepare(rows) is rows  # no plan yet
    others = Plan((Assignment("sort-merge-0", "h/1", "test"), Assignment("join-0", "h/1", "test")))
    lever.apply(others)
    assert lever.prepare(rows).count == 1
    lever.apply(plan("h/1", None, None))
    assert lever.prepare(rows).count == 3  # with those that have no room
    lever.apply(plan(None, None, None, "h/1"))
    assert lever.prepare(rows) is rows
    lever.apply(plan())
    assert lever.prepare(rows) is rows


def test_a_dry_run_logs_and_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    lever = DryRun()
    wanted = plan("h/1", "h/1", None)
    with caplog.at_level(logging.INFO, "scheduling"):
        assert lever.apply(wanted) == Receipt({}, {})
    assert "h/1 would have join-0, join-1" in caplog.text
    assert "join-2 unplaced, no room" in caplog.text
    assert lever.plans == [wanted]
    assert "place" in lever.capabilities()


def test_the_receipts_of_several_levers_are_merged() -> None:
    session: Any = Session()
    levers = [Pins(session, "join"), Partitions("join"), Fleet(session, 1, 2)]
    receipt = together(levers, plan("h/1", "h/2"))
    assert receipt.requested == receipt.landed == {"join-0": "h/1", "join-1": "h/2"}


# Fleet

ONE, TWO, DEAR = worker(1), worker(2), worker(3, price=9.0)


def test_the_dearest_idle_executors_are_given_back_after_a_while() -> None:
    session: Any = Session()
    fleet = Fleet(session, 1, 4, idle_cycles=2)
    assert fleet.capabilities() == {"executors"}
    every = snapshot(ONE, DEAR, TWO)
    assert fleet.settle(every) == (0, ())  # no plan yet
    fleet.apply(plan("h/1"))
    assert fleet.settle(every) == (0, ())
    assert fleet.settle(every) == (0, ("h/3", "h/2"))
    assert session.killed == ["3", "2"]
    assert session.wanted == [1]  # so that Spark does not start others


def test_an_executor_that_is_used_meanwhile_begins_anew() -> None:
    session: Any = Session()
    fleet = Fleet(session, 1, 4, idle_cycles=2)
    every = snapshot(ONE, TWO)
    for wanted in (plan("h/1"), plan("h/1", "h/2"), plan("h/1"), plan("h/1", None), plan("h/1")):
        fleet.apply(wanted)
        assert fleet.settle(every)[1] == ()
    assert session.killed == []
    assert fleet.settle(every)[1] == ("h/2",)


def test_the_fewest_stay_and_so_does_what_spark_does_not_give_back() -> None:
    session: Any = Session()
    fleet = Fleet(session, 2, 4, idle_cycles=1)
    fleet.apply(plan("h/1"))
    assert fleet.settle(snapshot(ONE, TWO, DEAR))[1] == ("h/3",)
    assert fleet.settle(snapshot(ONE, TWO)) == (0, ())
    session.clings = {"3"}
    session.wanted.clear()
    assert fleet.settle(snapshot(ONE, TWO, DEAR)) == (0, ())
    assert session.wanted == []
    # A plan that uses nobody says nothing about anybody.
    fleet.apply(plan())
    assert fleet.settle(snapshot(ONE, TWO, DEAR)) == (0, ())


def test_one_more_is_requested_and_not_again_before_it_has_started() -> None:
    session: Any = Session()
    fleet = Fleet(session, 1, 3)
    fleet.apply(plan("h/1", None))
    assert fleet.settle(snapshot(ONE)) == (1, ())
    assert fleet.settle(snapshot(ONE)) == (0, ())
    assert fleet.settle(snapshot(ONE, TWO)) == (1, ())
    assert fleet.settle(snapshot(ONE, TWO, DEAR)) == (0, ())  # the most there may be
    assert session.wanted == [2, 3]


def test_all_that_the_tasks_need_are_requested_at_once() -> None:
    session: Any = Session()
    fleet = Fleet(session, 1, 8)
    fleet.apply(plan("h/1", None, None))
    assert fleet.settle(snapshot(ONE), 6) == (5, ())
    assert fleet.settle(snapshot(ONE), 6) == (0, ())
    assert fleet.settle(snapshot(ONE), 20) == (2, ())
    assert session.wanted == [6, 8]


def test_executors_that_must_stay_are_not_counted_as_released() -> None:
    session: Any = Session()
    fleet = Fleet(session, 2, 4)
    fleet.apply(plan("h/1"))
    assert fleet.capabilities() == {"executors"}
    fleet.settle(snapshot(ONE, TWO))
    assert fleet.capabilities() == frozenset()
    fleet.settle(snapshot(ONE, TWO, DEAR))
    assert fleet.capabilities() == {"executors"}


def test_the_minimum_is_requested_immediately() -> None:
    session: Any = Session()
    fleet = Fleet(session, 3, 5)
    fleet.apply(plan("h/1"))
    assert fleet.settle(snapshot(ONE)) == (2, ())
    assert session.wanted == [3]


def test_after_a_release_more_can_be_requested_again() -> None:
    session: Any = Session()
    fleet = Fleet(session, 1, 4, idle_cycles=1)
    fleet.apply(plan("h/1", "h/2", None))
    assert fleet.settle(snapshot(ONE, TWO)) == (1, ())  # it never comes
    fleet.apply(plan("h/1"))
    assert fleet.settle(snapshot(ONE, TWO)) == (0, ("h/2",))
    fleet.apply(plan("h/1", None))
    assert fleet.settle(snapshot(ONE)) == (1, ())
    assert session.wanted == [3, 1, 2]


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (Session("local[3]"), r"the master is local\[3\]"),
        (ConnectSession(), "Spark Connect does not say"),
        (Session(conf=Conf(spark_dynamicAllocation_enabled="True")), "dynamic allocation"),
    ],
)
def test_a_number_that_cannot_be_changed_warns_once(session: Any, why: str) -> None:
    fleet = Fleet(session, 1, 2)
    assert fleet.capabilities() == frozenset()
    fleet.apply(plan("h/1", None))
    with pytest.warns(LeverWarning, match=why):
        assert fleet.settle(snapshot(ONE)) == (0, ())
    for _ in range(2):
        fleet.apply(plan("h/1", None))
        assert fleet.settle(snapshot(ONE)) == (0, ())


@pytest.mark.parametrize(
    ("bounds", "message"), [((0, 2, 1), "executors="), ((3, 2, 1), "e"), ((1, 2, 0), "idle_cycl")]
)
def test_bounds_of_a_fleet_that_cannot_be(bounds: tuple[int, int, int], message: str) -> None:
    session: Any = Session()
    with pytest.raises(ArgumentError, match=message):
        Fleet(session, *bounds[:2], idle_cycles=bounds[2])


# Tiers

KINDS = [Tier(name, f"kind_{name}", 1, 512, slots=2) for name in ("m", "l")]


@pytest.mark.parametrize("session", [Session, ConnectSession])
def test_a_cycle_goes_to_the_tier_with_most_tasks(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(Tier, "profile", lambda tier: made.append(tier.name) or tier.name)
    lever = Tiers(session(conf=Conf(spark_dynamicAllocation_enabled="true")), KINDS)
    assert lever.capabilities() == {"tiers"}
    rows: Any = Rows(3)
    assert lever.prepare(rows) is rows
    assert lever.apply(plan("l", "l")).requested == {"join-0": "l", "join-1": "l"}
    assert lever.prepare(rows) == (rows, "the schema", "l")
    with pytest.warns(LeverWarning, match=r"several tiers \(m: 2, l: 1\).*all tasks go to m"):
        receipt = lever.apply(plan("l", "m", "m"))
    assert receipt.requested == dict.fromkeys(["join-0", "join-1", "join-2"], "m")
    assert lever.prepare(rows) == (rows, "the schema", "m")
    lever.apply(plan("l"))
    lever.prepare(rows)
    assert made == ["l", "m"]  # Spark keeps every profile
    lever.apply(plan(None))
    assert lever.prepare(rows) is rows


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (Session("local"), "the master is local: there are no other workers"),
        (Session(), "dynamicAllocation.enabled is not set"),
        (ConnectSession(), "dynamicAllocation.enabled is not set"),
    ],
)
def test_a_tier_that_cannot_be_chosen_warns_once(session: Any, why: str) -> None:
    lever, rows = Tiers(session, KINDS), Rows(2)
    assert lever.capabilities() == frozenset()
    lever.apply(plan("m"))
    with pytest.warns(LeverWarning, match=why):
        assert lever.prepare(rows) is rows  # type: ignore[comparison-overlap]
    assert lever.prepare(rows) is rows  # type: ignore[comparison-overlap]


def test_a_profile_requires_what_only_the_tier_has(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Builder:
        build = "built"

        def require(self, requests: Any) -> Builder:
            made.append(requests.requests)
            return self

    monkeypatch.setattr(tiers, "ResourceProfileBuilder", Builder)
    assert KINDS[0].profile() == "built"
    executor, task = made
    assert executor["kind_m"].amount == 1
    assert (executor["cores"].amount, executor["memory"].amount) == (1, 512)
    assert 0 < task["kind_m"].amount < 0.01
