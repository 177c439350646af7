"""Pins and tiers, with a fake session: what is requested, and what is warned about once."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from spark_fakes import Conf, ConnectSession, Live, Rows, Session, plan

from scheduling import Actuator, Resources, Snapshot, Spread
from scheduling.errors import ActuatorError, ArgumentError
from scheduling.spark import (
    LeverWarning,
    Loop,
    Pinned,
    Tier,
    Tiers,
    internals,
    loop,
    pins,
)
from scheduling.spark.seen import TaskSeen

WAIT = "spark.locality.wait"
PROCESS = "spark.locality.wait.process"


# Pins


def test_spark_s_own_wait_is_long_enough_to_find_a_stage_and_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(internals, "wait_for_executors", lambda *_: 1)
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


def test_connect_is_refused_and_other_versions_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connect: Any = ConnectSession()
    with pytest.raises(ArgumentError, match="Spark Connect shows neither"):
        Loop(connect, None)

    def fails(*_: Any) -> Pinned:
        raise ActuatorError("a member is missing")

    live = Live(monkeypatch, "h/1")
    with pytest.raises(ArgumentError, match="partitions=0: give 1, 2"):
        Loop(live.session, None, partitions=0)
    monkeypatch.setattr(pins, "pin", fails)
    with pytest.warns(LeverWarning, match="placed by Spark: a member is missing"):
        assert isinstance(live.cycle(1), Rows)
    assert isinstance(live.cycle(1), Rows)


@pytest.mark.parametrize("what", ["monitor", "figures"])
def test_what_fails_is_logged_once_and_the_next_cycle_is_as_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    def fails(*_: Any) -> Any:
        raise OSError("nothing works")

    monkeypatch.setattr(internals, "wait_for_executors", lambda *_: 1)
    live = Live(monkeypatch, "h/1", "h/2")
    ran = TaskSeen(0, "1", 0.1, 5), TaskSeen(1, "2", 0.1, 5)
    monkeypatch.setattr(loop, "tasks_of", lambda *_: ran)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "scheduling"):
        if what == "monitor":
            patch.setattr(live.loop.monitor, "snapshot", fails)
        else:
            patch.setattr(loop, "tasks_of", fails)
        for _ in range(2):
            assert isinstance(live.cycle(2), Rows)
    failure = "no new plan" if what == "monitor" else "where tasks ran is not known"
    assert caplog.messages == [f"scheduling: {failure}: nothing works"]
    at = {"join-0": "h/1", "join-1": "h/2"}
    last = live.loop.last
    if what == "monitor":
        assert (last.decision, last.requested, last.landed) == (None, {}, at)
    else:
        assert (last.decision is None, last.requested, last.landed) == (False, at, {})
    live.cycle(2)
    last = live.loop.last
    assert last.requested == last.landed == at
    assert last.rent == 1200.0  # of two at 1 $/s in ten minutes, by a policy that is for no rent


def test_an_executor_that_is_leaving_gets_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals, "wait_for_executors", lambda *_: 1)
    live = Live(monkeypatch, "h/1", "h/1", executors=(1, 2))
    for _ in range(4):
        live.cycle(2)
    assert live.session.killed == ["2"]
    assert [one.id for one in live.loop.monitor.seen.workers] == ["h/1", "h/2"]  # it is there still
    assert [one.id for one in live.loop._seen.workers] == ["h/1"]


def test_workers_have_slots_for_the_tasks_that_plans_are_made_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(internals, "wait_for_executors", lambda *_: 1)
    for options in ({"cooldown_s": 0.0}, {"dry_run": True}):
        live = Live(monkeypatch, policy=Spread(), hysteresis=0.1, **options)
        for count in (3, 24, 24, 3, 3):
            live.cycle(count)
            assert live.loop.last.unplaced == {}
            assert "more out" not in live.loop.last.decision.reason


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
    whole = Tiers(Session(), [CHEAP, SMALL], 1.0)  # type: ignore[arg-type]
    seen = whole.view(Snapshot(0.0, (), usage=usage), {})
    assert set(whole.lands(dict.fromkeys(usage, "small"), seen).values()) == {"small"}


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
