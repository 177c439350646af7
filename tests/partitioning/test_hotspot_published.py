"""Rules in a folder: in force from a moment on, the same for every task of a micro-batch.

What fails on the driver's side of them never stops a stream.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bsjoin._clock import now_us
from bsjoin.errors import StoreError
from bsjoin.metrics.observing import LINES, route_of
from bsjoin.partitioning import Collector, CycleStatistics, HotKey, HotSpot, Router, Rule, added
from bsjoin.partitioning.published import PublishedRule, Rules
from bsjoin.partitioning.worker import Note
from bsjoin.runtimes.steering import Steering, _Listener
from bsjoin.storage import StorageLocation


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StorageLocation:
    # Where tests run in a container its file system may be one that machines could share.
    monkeypatch.setattr("bsjoin.storage.location.is_of_one_machine", lambda path: True)
    return StorageLocation.of(tmp_path / "rules")


def test_a_micro_batch_has_the_rule_of_its_time(location: StorageLocation) -> None:
    location.make()
    rules = Rules(location)
    assert rules.at(now_us()) is None
    assert rules.last() is None
    rules.publish(Rule(1, 2, (5,)), 100, clock=lambda: 1_000_000)
    rules.publish(Rule(2, 2, (9,)), 50, clock=lambda: 2_000_000)
    for reader in (Rules(location), Rules(location)):
        found = [reader.at(time) for time in (900_000, 1_019_999, 1_020_000, 2_020_000, 1_500_000)]
        versions = [None if one is None else one.rule.version for one in found]
        assert versions == [None, None, 1, 2, 1]
    last = rules.last()
    assert (last.rule.boundaries, last.capacity) == ((9,), 50)


def test_a_rule_that_was_written_too_late_is_put_off(location: StorageLocation) -> None:
    location.make()
    # The first writing takes 30 ms, the second none; it could be seen for a moment.
    times = itertools.chain([0, 9_000, 30_000, 40_000], itertools.repeat(40_001))
    in_force = Rules(location).publish(Rule(1, 2, (5,)), 100, clock=lambda: next(times))
    last = Rules(location).last()
    assert last.activates_at_us == 40_000 + 80_000
    # A worker may have read the first one: its number is not used again.
    assert in_force == last.rule == Rule(2, 2, (5,))


def test_a_folder_that_writes_too_slowly_gets_no_rule(location: StorageLocation) -> None:
    location.make()
    clock = itertools.count(step=10**9)
    assert Rules(location).publish(Rule(1, 2, (5,)), 100, clock=lambda: next(clock)) is None
    assert Rules(location).last() is None


def test_a_number_that_a_worker_may_have_read_is_not_used_again(location: StorageLocation) -> None:
    location.make()
    rules, reader = Rules(location), Rules(location)
    calls, late = itertools.count(1), 10**12

    def clock() -> int:
        """Each rule is written in time, and seen for a moment; nobody knows that until too late."""
        call = next(calls)
        if call == 3:
            assert reader.at(10**9).rule.boundaries == (5,)
        return call * late if call % 3 == 0 else 0

    assert rules.publish(Rule(1, 2, (5,)), 100, clock) is None
    assert rules.publish(Rule(1, 2, (9,)), 100, itertools.repeat(0).__next__) is not None
    for one in (reader, Rules(location)):
        assert one.at(10**10).rule.boundaries == (9,)


def test_two_drivers_do_not_overwrite_each_other(location: StorageLocation) -> None:
    location.make()
    first, second = Rules(location), Rules(location)
    clock = itertools.repeat(0).__next__  # writing takes no time, however busy the machine is
    assert first.publish(Rule(1, 2, (5,)), 100, clock) == Rule(1, 2, (5,))
    assert second.publish(Rule(1, 2, (9,)), 100, clock) == Rule(2, 2, (9,))
    assert list(location.names("")) == ["00000001.rule", "00000002.rule"]


def test_a_folder_that_cannot_be_read_is_an_error(
    location: StorageLocation, tmp_path: Path
) -> None:
    location.make()
    Rules(location).publish(Rule(1, 2, (5,)), 100, itertools.repeat(0).__next__)
    file = tmp_path / "rules" / "00000001.rule"
    file.unlink()
    file.mkdir()  # reading a folder fails as a broken disk does
    with pytest.raises(Exception, match=r"(?i)directory"):
        Rules(location).at(now_us())
    # A machine that has no such folder would send rows by another rule than those that have it.
    with pytest.raises(StoreError, match=r"no such folder: give HotSpot\(store=\.\.\.\)"):
        Rules(StorageLocation.of(tmp_path / "elsewhere")).at(now_us())


def test_damaged_rules_are_passed_over_and_old_ones_removed(
    location: StorageLocation, tmp_path: Path
) -> None:
    location.make()
    rules = Rules(location)
    for version in range(1, 60):
        rules.publish(Rule(version, 2, (version,)), 1)
    assert len(location.names("")) == 50
    # Versions may be skipped when the machine is slow, so rules are told by their boundaries.
    max((tmp_path / "rules").iterdir()).write_bytes(b"\x00")
    last = Rules(location).last()
    assert last.rule.boundaries == (58,)
    found = Rules(location).at(now_us() + 10**9)
    assert found.rule.boundaries == (58,)


def document(**changes: object) -> bytes:
    """The file of a rule with other values, those of the rule itself among them."""
    read = json.loads(PublishedRule(Rule(1, 2, (5,), (HotKey(7, 0, (0.5, 0.5)),)), 9, 1).to_bytes())
    rule = json.loads(read["rule"])
    for name, value in changes.items():
        (rule if name in rule else read)[name] = value
    return json.dumps({**read, "rule": json.dumps(rule)}).encode()


# A text of 90 kB that takes 90 MB to read.
BOMB = base64.b64encode(zlib.compress(bytes(90 << 20))).decode()
DAMAGED = [
    b"",
    b"null",
    b"[" * 10**6,
    b'{"rule": 5, "activates_at_us": 0, "capacity": 1}',
    document(activates_at_us="0"),
    document(activates_at_us=-1),
    document(capacity=10**12),
    document(capacity=True),
    document(version=2),
    document(partitions=10**12),
    document(boundaries=BOMB),
]


def test_a_rule_that_others_wrote_is_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, content in enumerate([document(), *DAMAGED]):
        location = StorageLocation.of(tmp_path / str(number))
        location.create("00000001.rule", content)
        found = Rules(location).at(now_us())
        assert (found is None) == bool(number), content[:80]
        assert ("no rule 1 in" in caplog.text) == bool(number)


OPTIONS = HotSpot(partitions=2, min_cycles=1, smoothing=0.0)


def cycle(steering: Steering, code: int, rows: int = 1_000) -> CycleStatistics:
    """A cycle that is all one key."""
    collector = Collector(Router(steering.rule), 100)
    collector.route(np.full(rows, code), np.random.default_rng(1).integers(1 << 62, size=rows))
    return collector.statistics()


def test_a_rule_is_published_and_gone_on_with(location: StorageLocation, tmp_path: Path) -> None:
    steering = Steering(OPTIONS, 1, location)
    steering.observe(cycle(steering, 7))
    published = Rules(location).last()
    assert published.rule == steering.rule
    assert steering.rule.version >= 1  # a slow machine may skip a number
    again = Steering(HotSpot(partitions=2, store=tmp_path / "rules"), 1)
    assert again.rule == steering.rule


@pytest.mark.parametrize("how", ["late", "gives up"])
def test_the_first_rule_has_the_version_that_workers_hear(
    location: StorageLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Else no cycle would count as one of it, and no other rule would ever come."""
    location.make()
    Rules(location).publish(Rule.even(3, 1), 100)
    publish = Rules.publish

    def late(rules: Rules, rule: Rule, *more: Any) -> Rule | None:
        return publish(rules, Rule.even(2, rule.version + 5), *more) if how == "late" else None

    with monkeypatch.context() as patch:
        patch.setattr(Rules, "publish", late)
        steering = Steering(HotSpot(partitions=2, store=tmp_path / "rules", min_cycles=1), 1)
    last = Rules(location).last()
    heard = last.rule if how == "late" else Rule.even(2)
    assert steering.rule == heard
    steering.observe(cycle(steering, 7))
    assert steering.rule.hot


def test_cycles_of_more_tasks_each_time_keep_no_rule_from_changing(
    location: StorageLocation,
) -> None:
    """The rule is published again for each, and is in force only when the next one has begun."""
    steering = Steering(HotSpot(partitions=2, sample=1_000, min_cycles=1), 2, location)
    versions = [0, 0]
    for number in range(6):
        even = Collector(Router(steering.rule), 100)
        codes = np.random.default_rng(number).integers(-(2**63), 2**63 - 1, 1_000)
        even.route(codes, codes)
        told = even.statistics() if number < 4 else cycle(steering, 7)
        steering.observe(replace(told, version=versions[-2], tasks=10 * 3**number))
        versions.append(steering.rule.version)
    assert versions[5] >= 3
    assert steering.rule.hot


def test_a_join_that_is_heard_of_is_not_forgotten(location: StorageLocation) -> None:
    listener, heard = _Listener(None), list[str]()
    steering = Steering(OPTIONS, 1, location)
    note = Note(cycle(steering, 7), {}).to_json()

    def steer(label: str) -> None:
        listener.steer(label, SimpleNamespace(observe=lambda _: heard.append(label)))  # type: ignore[arg-type]

    steer("first")
    progress = SimpleNamespace(observedMetrics={route_of("first"): {LINES: note}})
    for number in range(300):
        steer(f"never runs {number}")
        listener.onQueryProgress(SimpleNamespace(progress=progress))
    assert heard == ["first"] * 300


@pytest.mark.parametrize("how", ["raises", "gives up"])
def test_a_rule_that_could_not_be_published_is_made_again(
    location: StorageLocation,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    steering = Steering(OPTIONS, 1, location)

    def publish(*_: object) -> None:
        if how == "raises":
            raise OSError("no space left")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "bsjoin"):
        patch.setattr(Rules, "publish", publish)
        steering.observe(cycle(steering, 7))
    assert steering.rule.version == 0  # as the workers have it
    assert ("no space left" in caplog.text) == (how == "raises")
    steering.observe(cycle(steering, 7))
    assert steering.rule.version >= 1
    published = Rules(location).last()
    assert published.rule == steering.rule


def test_workers_hear_how_many_keys_to_sample(location: StorageLocation) -> None:
    steering = Steering(HotSpot(partitions=2, sample=1_000), 2, location)
    assert steering.capacity == 500
    even = np.random.default_rng(2).integers(-(2**62), 2**62, size=10_000)
    parts = []
    for task in range(10):  # five times as many tasks as there are cores
        collector = Collector(Router(steering.rule), 500, seed=task)
        collector.route(even[task::10], even[task::10])
        parts.append(collector.statistics())
    steering.observe(added(parts))
    published = Rules(location).last()
    assert (published.capacity, steering.capacity) == (100, 100)
    assert published.rule.version >= 1
    assert published.rule == steering.rule
    steering.observe(parts[0])  # a micro-batch with rows in one task: the next may have all again
    assert steering.capacity == 100
