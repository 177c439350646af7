"""Rules in a folder: in force from a moment on, the same for every task of a micro-batch."""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from pathlib import Path

import pytest

from bsjoin._clock import now_us
from bsjoin.partitioning import Rule
from bsjoin.partitioning.published import PublishedRule, Rules
from bsjoin.partitioning.rule import HotKey
from bsjoin.storage import StorageLocation


@pytest.fixture
def location(tmp_path: Path) -> StorageLocation:
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
    assert last is not None
    assert (last.rule.boundaries, last.capacity) == ((9,), 50)


def test_a_rule_that_was_written_too_late_is_put_off(location: StorageLocation) -> None:
    location.make()
    # The first writing takes 30 ms, the second none; it could be seen for a moment.
    times = itertools.chain([0, 19_000, 30_000, 40_000], itertools.repeat(40_001))
    in_force = Rules(location).publish(Rule(1, 2, (5,)), 100, clock=lambda: next(times))
    last = Rules(location).last()
    assert last is not None
    assert last.activates_at_us == 40_000 + 80_000
    # A worker may have read the first one: its number is not used again.
    assert in_force == last.rule == Rule(2, 2, (5,))


def test_a_folder_that_writes_too_slowly_gets_no_rule(location: StorageLocation) -> None:
    location.make()
    clock = itertools.count(step=10**9)
    assert Rules(location).publish(Rule(1, 2, (5,)), 100, clock=lambda: next(clock)) is None
    assert Rules(location).last() is None


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
    assert last is not None
    assert last.rule.boundaries == (58,)
    found = Rules(location).at(now_us() + 10**9)
    assert found is not None
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


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[" * 10**6,
        b'{"rule": 5, "activates_at_us": 0, "capacity": 1}',
        document(activates_at_us="0"),
        document(activates_at_us=-1),
        document(capacity=10**12),
        document(capacity=True),
        document(version=2),
        document(version=float("inf")),
        document(partitions=10**12),
        document(boundaries=BOMB),
        document(hot=[[7, 0, [float("nan"), 1.0]]]),
        document(hot=[[7, 0, []]]),
        document(hot=[[7, 0.0, [0.5, 0.5]]]),
        document(hot=[["7", 0, [0.5, 0.5]]]),
        document(hot=[[7, 0, ["0.5", 0.5]]]),
        document(hot=[[7, 1, [0.5, 0.5]]]),
    ],
    ids=lambda content: content[:20].decode() + str(len(content)),
)
def test_a_rule_that_others_wrote_is_checked(
    location: StorageLocation, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    location.create("00000001.rule", content)
    assert Rules(location).at(now_us()) is None
    assert "no rule 1 in" in caplog.text


def test_the_attack_on_rules_begins_with_one_that_works(location: StorageLocation) -> None:
    location.create("00000001.rule", document())
    assert Rules(location).at(now_us()) is not None
