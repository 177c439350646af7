"""Pins and tiers, with a fake session: what is requested, and what is warned about once."""

from __future__ import annotations

import logging
import time
import warnings
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
    tiers,
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


def test_levers_are_actuators(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session()
    assert isinstance(Live(monkeypatch).loop, Actuator)
    assert isinstance(Tiers(session, ()), Actuator)


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


def test_nothing_waits_without_a_request(monkeypatch: pytest.MonkeyPatch, waits: Any) -> None:
    live = Live(monkeypatch)
    live.cycle(2)
    assert live.pinned == [[None, None]]
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
    monkeypatch: pytest.MonkeyPatch, waits: Any, before: dict[str, str], during: dict[str, str]
) -> None:
    session: Any = Session(conf=Conf(**before))
    one, other = (Live(monkeypatch, "h/1", session=session) for _ in range(2))
    rows: Any = Rows(1)

    def cycle() -> None:
        with other.loop.cycle() as around:
            with one.loop.cycle() as inside:
                inside.place(rows)
                around.place(rows)
                inside.place(rows)
                assert session.settings.known == during
            assert session.settings.known == during  # the other one's cycle goes on
            raise KeyError("the sink")

    with pytest.raises(KeyError, match="the sink"):
        cycle()
    assert session.settings.known == before


def test_a_wait_that_cannot_be_set_warns_once_and_the_tasks_are_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait(*_: Any) -> int:
        raise ActuatorError("no such member")

    monkeypatch.setattr(internals, "wait_for_executors", wait)
    live = Live(monkeypatch, "h/1")
    with pytest.warns(LeverWarning, match=r"as spark\.locality\.wait says: no such"):
        live.cycle(1)
    live.cycle(1)
    assert live.pinned == [[ONE]] * 2


def test_a_wait_that_fails_later_is_said_and_the_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[int] = [1, 0]

    def wait(*_: Any) -> int:
        return 1 // answers.pop(0)

    monkeypatch.setattr(pins, "_EVERY_S", 0.005)
    monkeypatch.setattr(internals, "wait_for_executors", wait)
    live = Live(monkeypatch, "h/1")
    with live.loop.cycle() as cycle, caplog.at_level(logging.WARNING, "scheduling"):
        cycle.place(Rows(1))  # type: ignore[arg-type]
        until(lambda: "tasks may leave their executors" in caplog.text)


@pytest.mark.parametrize("workers", [(None, None), ("h/1", None)])
def test_a_local_master_warns_once_and_requests_nothing(
    monkeypatch: pytest.MonkeyPatch, workers: tuple[str | None, ...]
) -> None:
    for more in ({}, {"dry_run": True}):  # no plan was taken up: nobody wanted it
        live = Live(monkeypatch, *workers if more else (), session=Session("local[2]"), **more)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            live.cycle(2)
        assert live.pinned == [[None, None]]
    live = Live(monkeypatch, *workers, session=Session("local[2]"))
    assert live.loop.capabilities() == set()
    with pytest.warns(LeverWarning, match=r"placed by Spark: the master is local\[2\]"):
        live.cycle(2)
    live.cycle(2)
    assert live.pinned == [[None, None]] * 2


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


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (Session("local"), "the master is local: there is one executor, the driver"),
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
