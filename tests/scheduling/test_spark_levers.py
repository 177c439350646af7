"""Pins and tiers, with a fake session: what is requested, and what is warned about once."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from spark_fakes import Conf, ConnectSession, Session, executor

from scheduling import Actuator, Assignment, Plan, Resources, Snapshot, Unplaced, Worker
from scheduling.errors import ActuatorError
from scheduling.spark import (
    Executor,
    LeverWarning,
    Pinned,
    Tier,
    Tiers,
    internals,
    pins,
    tiers,
)
from scheduling.spark.demand import CycleSeen, TaskSeen
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.pins import Pins

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


def test_levers_are_actuators() -> None:
    session: Any = Session()
    assert isinstance(Pins(session, "join"), Actuator)
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


def test_an_executor_that_is_missed_once_is_still_requested(pinned: Any, waits: Any) -> None:
    lever = Pins(Session(), "join")  # type: ignore[arg-type]
    lever.apply(plan("h/1", "h/2"))
    every = snapshot(worker(1), worker(2))
    for seen in (every, snapshot(worker(1)), snapshot(worker(1)), every):
        with lever.cycle():
            lever.prepare(Rows(2), seen)  # type: ignore[arg-type]
    one, two = Executor("h", "1"), Executor("h", "2")
    assert pinned == [[one, two], [one, two], [one, None], [one, two]]


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


# Tiers

KINDS = [Tier(name, f"kind_{name}", 1, 512, slots=2) for name in ("m", "l")]


@pytest.mark.parametrize("session", [Session, ConnectSession])
def test_a_cycle_goes_to_one_tier(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(Tier, "profile", lambda tier: made.append(tier.name) or tier.name)
    lever = Tiers(session(conf=Conf(spark_dynamicAllocation_enabled="true")), KINDS)
    assert lever.capabilities() == {"place", "tiers"}
    rows: Any = Rows(3)
    assert lever.prepare(rows) is rows
    assert lever.apply(plan("l", "l")).requested == {"join-0": "l", "join-1": "l"}
    assert lever.prepare(rows) == (rows, "the schema", "l")
    # What it requests is what lands: there is nothing to be missed.
    receipt = lever.apply(plan("l", "m"))
    assert receipt.requested == receipt.landed == dict.fromkeys(["join-0", "join-1"], "l")
    lever.apply(plan("m"))
    assert lever.prepare(rows) == (rows, "the schema", "m")
    lever.apply(plan("l"))
    lever.prepare(rows)
    assert made == ["l", "m"]  # Spark keeps every profile
    lever.apply(plan(None))
    assert lever.prepare(rows) is rows


DEAR = Tier("dear", "x", 8, 1024, slots=8, price_per_s=3.0)
CHEAP = Tier("cheap", "y", 8, 1024, slots=8, price_per_s=1.0)
SMALL = Tier("small", "z", 2, 4096, slots=2, price_per_s=0.1)


@pytest.mark.parametrize(
    ("placement", "lands"),
    [
        (["dear", "cheap", "small", "dear"], "cheap"),  # small has no room
        (["dear", "small"], "small"),
        (["dear", "dear"], "dear"),  # the plan's own tier, as the policy wants it
        (["small"] * 3, "cheap"),  # of the plan's none has room
        (["small"] * 9, "cheap"),  # none has room: the most slots, the cheaper one
        ([], None),
    ],
)
def test_all_tasks_land_on_the_cheapest_tier_of_the_plan_that_has_room(
    placement: list[str], lands: str | None
) -> None:
    lever = Tiers(Session(), [DEAR, CHEAP, SMALL])  # type: ignore[arg-type]
    wanted = {f"join-{i}": at for i, at in enumerate(placement)}
    seen = Snapshot(0.0, (DEAR.worker, CHEAP.worker, SMALL.worker))
    assert lever.lands(wanted, seen) == ({} if lands is None else dict.fromkeys(wanted, lands))
    landed = lever.lands(wanted, seen)
    assert lever.lands(landed, seen) == landed  # so nothing flips
    assert lever.apply(plan(*placement)).landed == landed


def test_what_tasks_use_counts_as_room() -> None:
    lever = Tiers(Session(), [CHEAP, SMALL])  # type: ignore[arg-type]
    usage = {f"join-{i}": Resources(0.9, 10.0) for i in range(2)}  # over 0.8 of 2 cores
    seen = Snapshot(0.0, (CHEAP.worker, SMALL.worker), usage=usage)
    assert set(lever.lands(dict.fromkeys(usage, "small"), seen).values()) == {"cheap"}


def test_a_tier_has_the_history_of_its_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    lever = Tiers(Session(), [DEAR, CHEAP])  # type: ignore[arg-type]
    now = [0.0]
    found = [executor("1", "a"), executor("2", "b"), executor("3", "c")]
    monitor = SparkMonitor(lambda: found, 1000.0, "join", clock=lambda: now[0])
    tier_of = {"1": "dear", "2": "dear"}
    assert not lever.view(monitor.snapshot(), tier_of).has_history
    now[0] = 2.0
    found = [one | {"totalDuration": 1000} for one in found]
    monitor.record(CycleSeen(2.0, tuple(TaskSeen(i, str(i + 1), 0.5, 10) for i in range(3))))
    seen = lever.view(monitor.snapshot(), tier_of)
    assert seen.workers == (DEAR.worker, CHEAP.worker)
    assert seen.tuples == {"dear": 20}
    assert seen.cost == {"dear": 6.0}
    assert seen.placement == {"join-0": "dear", "join-1": "dear"}
    assert set(seen.usage) == {"join-0", "join-1", "join-2"}
    assert seen.utilisation["dear"].cpu == 0.25
    assert set(seen.utilisation) == {"dear"}


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
    one, task = made
    assert one["kind_m"].amount == 1
    assert (one["cores"].amount, one["memory"].amount) == (1, 512)
    assert 0 < task["kind_m"].amount < 0.01
