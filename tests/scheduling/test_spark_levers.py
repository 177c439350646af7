"""Pins and tiers, with a fake session: what is requested, and what is warned about once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from spark_fakes import Cluster, Conf, ConnectSession, Live, Rows, Session, executor, plan

from scheduling import Actuator, Resources, Snapshot
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.spark import (
    Executor,
    LeverWarning,
    Loop,
    Pinned,
    Tier,
    Tiers,
    internals,
    pins,
)
from scheduling.spark.seen import TaskSeen

WAIT = "spark.locality.wait"
PROCESS = "spark.locality.wait.process"


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


# Pins

ONE, TWO = (Executor("h", name, 2, 0.0, 0, 0.0) for name in "12")


def test_partitions_are_pinned_where_the_plan_has_their_tasks(
    monkeypatch: pytest.MonkeyPatch, waits: Any
) -> None:
    live = Live(monkeypatch, "h/1", None, "h/2", None, None, locality_wait_s=7.0)
    assert live.loop.capabilities() == {"place", "move"}
    with live.loop.cycle() as cycle:
        assert cycle.observed() == {}
        cycle.place(Rows(5))  # type: ignore[arg-type]
        until(lambda: len(waits) > 2)  # again and again: stages come one after another
    assert set(waits) == {(1, 7.0)}
    # Of tasks that are left out Spark may choose.
    assert live.pinned == [[ONE, None, TWO, None, None]]
    assert ONE.location == "executor_h_1"
    assert live.session.settings.known == {}
    assert live.loop.last is not None
    assert live.loop.last.requested == {"join-0": "h/1", "join-2": "h/2"}
    with live.loop.cycle():
        pass
    assert live.loop.last.requested == {}  # nothing was placed


def test_an_executor_that_is_missed_once_is_still_requested(
    monkeypatch: pytest.MonkeyPatch, waits: Any
) -> None:
    live = Live(monkeypatch, "h/1", "h/2")
    every = live.found
    for seen in (every, every[:1], every[:1], every):
        live.found = seen
        live.cycle(2)
    assert live.pinned == [[ONE, TWO], [ONE, TWO], [ONE, None], [ONE, TWO]]


def test_spark_s_own_wait_is_long_enough_to_find_a_stage_and_restored(
    monkeypatch: pytest.MonkeyPatch, waits: Any
) -> None:
    for before, during in (
        ({WAIT: "1s"}, {WAIT: "1s", PROCESS: "3000ms"}),
        ({PROCESS: "0"}, {PROCESS: "3000ms"}),
        ({WAIT: "0", PROCESS: "9s"}, {WAIT: "0", PROCESS: "9s"}),
        ({}, {}),
    ):
        session: Any = Session(conf=Conf(**before))
        one, other = (Live(monkeypatch, "h/1", session=session) for _ in range(2))
        with pytest.raises(KeyError, match="the sink"):
            overlapping(one, other, during)
        assert session.settings.known == before


def overlapping(one: Live, other: Live, during: dict[str, str]) -> None:
    """Two cycles that wait at the same time; the sink of one fails."""
    rows: Any = Rows(1)
    with other.loop.cycle() as around:
        with one.loop.cycle() as inside:
            inside.place(rows)
            around.place(rows)
            assert one.session.settings.known == during
        assert one.session.settings.known == during  # the other one's cycle goes on
        raise KeyError("the sink")


def test_a_wait_that_cannot_be_set_is_said_once_and_the_tasks_are_pinned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[int] = [0, 1, 0]  # at first, and later

    def wait(*_: Any) -> int:
        if not answers.pop(0):
            raise ActuatorError("no such member")
        return 1

    monkeypatch.setattr(pins, "_EVERY_S", 0.005)
    monkeypatch.setattr(internals, "wait_for_executors", wait)
    live = Live(monkeypatch, "h/1")
    with pytest.warns(LeverWarning, match=r"as spark\.locality\.wait says: no such"):
        live.cycle(1)
    with live.loop.cycle() as cycle, caplog.at_level(logging.WARNING, "scheduling"):
        cycle.place(Rows(1))  # type: ignore[arg-type]
        until(lambda: "tasks may leave their executors" in caplog.text)
    assert live.pinned == [[ONE]] * 2


def test_a_local_master_warns_once_and_requests_nothing(
    monkeypatch: pytest.MonkeyPatch, waits: Any
) -> None:
    for more in ({}, {"dry_run": True}):  # no plan was taken up: nobody wanted it
        live = Live(monkeypatch, *["h/1", None] * bool(more), session=Session("local[2]"), **more)
        live.cycle(2)
        assert live.pinned == [[None, None]]
    live = Live(monkeypatch, "h/1", None, session=Session("local[2]"))
    assert live.loop.capabilities() == set()
    with pytest.warns(LeverWarning, match=r"placed by Spark: the master is local\[2\]"):
        live.cycle(2)
    live.cycle(2)
    assert live.pinned == [[None, None]] * 2
    live = Live(monkeypatch)  # nor does anything wait where nothing is requested
    live.cycle(2)
    assert (live.pinned, waits) == ([[None, None]], [])


def test_connect_is_refused_and_other_versions_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connect: Any = ConnectSession()
    with pytest.raises(ArgumentError, match="Spark Connect shows neither"):
        Loop(connect, None)

    def fails(*_: Any) -> Pinned:
        raise ActuatorError("a member is missing")

    live = Live(monkeypatch, "h/1")
    monkeypatch.setattr(pins, "pin", fails)
    with pytest.warns(LeverWarning, match="placed by Spark: a member is missing"):
        assert isinstance(live.cycle(1), Rows)
    assert isinstance(live.cycle(1), Rows)


# Tiers

KINDS = [Tier(name, f"kind_{name}", 1, 512, slots=2) for name in ("m", "l")]


@pytest.mark.parametrize("session", [Session, ConnectSession])
def test_a_cycle_goes_to_one_tier(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(Tier, "profile", lambda tier: made.append(tier.name) or tier.name)
    lever = Tiers(session(conf=Conf(spark_dynamicAllocation_enabled="true")), KINDS)
    assert lever.capabilities() == {"place"}
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


def test_all_tasks_land_on_the_cheapest_tier_of_the_plan_that_has_room() -> None:
    lever = Tiers(Session(), [DEAR, CHEAP, SMALL])  # type: ignore[arg-type]
    assert isinstance(lever, Actuator)
    seen = Snapshot(0.0, (DEAR.worker, CHEAP.worker, SMALL.worker))
    lands: list[tuple[list[str], str]] = [
        (["dear", "cheap", "small", "dear"], "cheap"),  # small has no room
        (["dear", "small"], "small"),
        (["dear", "dear"], "dear"),  # the plan's own tier, as the policy wants it
        (["small"] * 3, "cheap"),  # of the plan's none has room
        (["small"] * 9, "cheap"),  # none has room: the most slots, the cheaper one
        ([], ""),
    ]
    for placement, tier in lands:
        wanted = {f"join-{i}": at for i, at in enumerate(placement)}
        landed = lever.lands(wanted, seen)
        assert landed == dict.fromkeys(wanted, tier)
        assert lever.lands(landed, seen) == landed  # so nothing flips
        assert lever.apply(plan(*placement)).landed == landed
    usage = {f"join-{i}": Resources(0.9, 10.0) for i in range(2)}  # over 0.8 of 2 cores
    used = Snapshot(0.0, (CHEAP.worker, SMALL.worker), usage=usage)
    assert set(lever.lands(dict.fromkeys(usage, "small"), used).values()) == {"cheap"}


def test_a_tier_that_cannot_be_chosen_warns_once() -> None:
    every: list[tuple[Any, str]] = [
        (Session("local"), "the master is local: there is one executor, the driver"),
        (Session(), "dynamicAllocation.enabled is not set"),
        (ConnectSession(), "dynamicAllocation.enabled is not set"),
    ]
    for session, why in every:
        lever, rows = Tiers(session, KINDS), Rows(2)
        assert lever.capabilities() == frozenset()
        lever.apply(plan("m"))
        with pytest.warns(LeverWarning, match=why):
            assert lever.prepare(rows) is rows  # type: ignore[comparison-overlap,arg-type]
        assert lever.prepare(rows) is rows  # type: ignore[comparison-overlap,arg-type]


def test_a_tier_has_the_history_of_its_executors() -> None:
    lever = Tiers(Session(), [DEAR, CHEAP])  # type: ignore[arg-type]
    there = Cluster(*(executor(name, host) for name, host in (("1", "a"), ("2", "b"), ("3", "c"))))
    tier_of: dict[str | None, str] = {"1": "dear", "2": "dear"}
    assert not lever.view(there.monitor.snapshot(), tier_of).has_history
    there.now = 2.0
    there.executors = [one | {"totalDuration": 1000} for one in there.executors]
    there.monitor.record(2.0, [TaskSeen(i, str(i + 1), 0.5, 10) for i in range(3)])
    seen = lever.view(there.monitor.snapshot(), tier_of)
    assert seen.workers == (DEAR.worker, CHEAP.worker)
    assert seen.tuples == {"dear": 20}
    assert seen.cost == {"dear": 6.0}
    assert seen.placement == {"join-0": "dear", "join-1": "dear"}
    assert set(seen.usage) == {"join-0", "join-1", "join-2"}
    assert seen.utilisation["dear"].cpu == 0.25
    assert set(seen.utilisation) == {"dear"}
