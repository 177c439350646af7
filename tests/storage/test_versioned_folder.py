"""Numbered files: the contract that versions of tables, rules and invalidations build on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bsjoin.storage import StorageLocation
from bsjoin.storage.versioned_folder import (
    Activation,
    Parent,
    Publication,
    VersionedFolder,
    active_at,
)

DELAY = Activation(local_us=100_000, remote_us=10_000_000, tries=4)


def folder_at(path: Path | str, name: str = "") -> VersionedFolder:
    return VersionedFolder(StorageLocation.of(path), name, ".entry", max_bytes=1000)


def hidden(folder: VersionedFolder) -> list[str]:
    return [name for name in folder.location.names(folder.folder) if name.startswith(".")]


@pytest.fixture
def folder(tmp_path: Path) -> VersionedFolder:
    return folder_at(tmp_path, "entries")


def described(slot: Publication) -> bytes:
    return repr(tuple(slot)).encode()


def clock_of(*times: int) -> Callable[[], int]:
    return itertools.chain(times, itertools.repeat(times[-1])).__next__


# Numbers and files


def test_entries_are_numbered_files_from_one_on(folder: VersionedFolder) -> None:
    assert [folder.append(content) for content in (b"one", b"", b"three")] == [1, 2, 3]
    assert folder.numbers() == [1, 2, 3]
    assert folder.last() == 3
    assert [folder.read(number) for number in (1, 2, 3)] == [b"one", b"", b"three"]
    assert folder.name(3).removeprefix("entries/") == "00000003.entry"
    assert folder.location.size(folder.name(3)) == 5
    # Numbers of more digits stay in order.
    for number in (99_999_999, 100_000_000):
        folder.location.create(folder.name(number), b"")
    assert folder.append(b"x") == 100_000_001
    assert folder.numbers()[2:] == [3, 99_999_999, 100_000_000, 100_000_001]
    # Two kinds of entries in one folder do not mix.
    other = VersionedFolder(folder.location, "entries", ".other", 10)
    assert (other.append(b"a"), other.numbers()) == (1, [1])


# What others put there


def test_other_names_are_passed_over(tmp_path: Path) -> None:
    for name in (
        "1.entry", "0000001.entry", "²0000001.entry", "-0000001.entry", "0000000a.entry",
        "00000001", "00000001.entry.tmp", ".00000001.entry.0f", f"{'9' * 50}.entry",
        "00000001.ENTRY", "00000001.entry\n", " 0000001.entry", "1e000001.entry", "entry",
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"hostile")
    folder = folder_at(tmp_path)
    assert folder.numbers() == []
    assert folder.append(b"mine") == 1
    assert folder.read(1) == b"mine"


# Activation


def test_an_entry_activates_after_the_delay(folder: VersionedFolder) -> None:
    # At a whole millisecond, as micro-batches begin.
    assert folder.publish(described, DELAY, clock=lambda: 7_001) == (1, 7_001, 108_000)
    assert folder.read(1) == b"(1, 7001, 108000)"
    # Without an order of activation a clock that was set back has its way.
    assert folder.publish(described, DELAY, clock=lambda: 3_000) == (2, 3_000, 103_000)
    elsewhere = folder_at("memory://versioned-folder/delay")
    for number in (1, 2):
        found = elsewhere.publish(described, DELAY, clock=lambda: 7_000)
        assert found == (number, 7_000, 10_007_000)
    elsewhere.sweep(elsewhere.numbers())
    assert elsewhere.numbers() == []


def test_in_order_each_activates_after_the_one_before(folder: VersionedFolder) -> None:
    activations: dict[int, int] = {}
    for time_us in (1_000_000, 2_000_000, 1_500_000, 1_500_000):  # the clock is set back
        published = folder.publish(
            described, DELAY, after=activations.__getitem__, clock=clock_of(time_us)
        )
        activations[published.number] = published.activates_at_us
    # The first is active for all earlier times, too: it need not wait.
    assert activations == {1: 1_000_000, 2: 2_100_000, 3: 2_101_000, 4: 2_102_000}


def in_ms(*times: int) -> Callable[[], int]:
    return clock_of(*(1000 * time for time in times))


def test_a_late_publication_is_withdrawn_and_its_number_is_not_used_again(
    folder: VersionedFolder,
) -> None:
    folder.append(b"before")
    written: list[Publication] = []

    def content(slot: Publication) -> bytes:
        written.append(slot)
        return described(slot)

    # Until a file is there it takes 100, then 400, then 1599 ms: the delays are 100, 400 and 1600,
    # and half of each has gone when a file is made.
    clock = in_ms(0, 49, 100, 1000, 1199, 1400, 2000, 2799, 3599)
    assert folder.publish(content, DELAY, clock=clock) == (4, 2_000_000, 3_600_000)
    assert [tuple(slot)[:2] for slot in written] == [(2, 0), (3, 1_000_000), (4, 2_000_000)]
    assert folder.numbers() == [1, 4]


def test_what_is_late_before_it_can_be_seen_keeps_its_number(
    folder: VersionedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = replace(folder, marked=True)
    folder.append(b"before")
    # Writing takes half of the delays, of 100, 400 and 1600 ms.
    clock = in_ms(0, 50, 50, 1000, 1200, 1200, 2000, 2001, 2002)
    with monkeypatch.context() as patched:
        patched.setattr(VersionedFolder, "sweep", lambda *_: pytest.fail("it was to be seen"))
        assert folder.publish(described, DELAY, clock=clock) == (2, 2_000_000, 3_600_000)
    assert folder.numbers() == [1, 2]
    assert not hidden(folder)


def test_what_was_there_in_time_stays_however_long_looking_for_others_takes(
    folder: VersionedFolder,
) -> None:
    now = [0]

    def is_there() -> bool:
        now[0] += 40_000  # the first time before the entry's own times are taken
        return True

    found = folder.publish(
        described, replace(DELAY, local_us=40_000), clock=lambda: now[0], parent=Parent(0, is_there)
    )
    assert found == (1, 40_000, 80_000)
    assert (now, folder.numbers()) == ([80_000], [1])


def test_an_entry_that_is_withdrawn_while_the_next_is_made_is_not_its_predecessor(
    folder: VersionedFolder,
) -> None:
    folder.append(b"500000")
    folder.append(b"withdrawn at the next moment")

    def after(number: int) -> int:
        folder.sweep([2])
        return int(folder.read(number))

    assert folder.publish(described, DELAY, after=after, clock=lambda: 0) == (2, 0, 501_000)


def test_a_number_that_another_publisher_takes_first_is_left_to_it(folder: VersionedFolder) -> None:
    rivals = iter([b"rival", b"rival"])

    def content(slot: Publication) -> bytes:
        if rival := next(rivals, None):
            folder.append(rival)
        return described(slot)

    assert folder.publish(content, DELAY, clock=lambda: 0) == (3, 0, 100_000)
    found = [folder.read(number) for number in folder.numbers()]
    assert found == [b"rival", b"rival", b"(3, 0, 100000)"]


# Several processes


def test_an_entry_that_gets_a_withdrawn_number_below_a_newer_entry_is_published_again(
    tmp_path: Path,
) -> None:
    folder, soon = folder_at(tmp_path), Activation(10**9, 10**9, tries=3)
    folder.publish(lambda slot: b"%d" % slot.activates_at_us, soon)

    def activation_of(number: int) -> int:
        return int(folder.read(number))

    def content(slot: Publication) -> bytes:
        if slot.number == 2:  # another process withdraws number 2 and publishes 3, before us
            assert folder.location.create(folder.name(3), b"%d" % (slot.activates_at_us - 1))
        return b"%d" % slot.activates_at_us

    slot = folder.publish(content, soon, after=activation_of)
    assert (folder.numbers(), slot.number) == ([1, 3, 4], 4)
    assert activation_of(3) < activation_of(4) == slot.activates_at_us


def test_a_publisher_says_what_it_may_withdraw_only_where_that_is_read(
    folder: VersionedFolder,
) -> None:
    found: dict[bool, int | None] = {}

    def content(slot: Publication, marked: bool) -> bytes:
        assert len(hidden(folder)) == marked
        found[marked] = folder.first_undecided()
        return described(slot)

    for marked in (False, True):
        replace(folder, marked=marked).publish(lambda slot, m=marked: content(slot, m), DELAY)
    assert (found, folder.numbers()) == ({False: None, True: 2}, [1, 2])
    assert not hidden(folder)


def test_no_entry_gets_a_number_below_that_from_which_on_it_may_be_withdrawn(
    folder: VersionedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another publisher withdraws the newest entry as it is marked."""
    folder = replace(folder, marked=True)
    mark = VersionedFolder._undecided

    def undecided(self: VersionedFolder, number: int) -> Any:
        self.sweep([gone])
        return mark(self, number)

    def content(slot: Publication) -> bytes:
        assert (folder.first_undecided() or 0) <= slot.number
        return described(slot)

    folder.append(b"500000")
    folder.append(b"500001")
    monkeypatch.setattr(VersionedFolder, "_undecided", undecided)
    gone = 2
    for after in (None, lambda number: 500_000):
        found = folder.publish(content, DELAY, after=after, clock=lambda: 0)
        assert found.number == gone + 1
        gone += 1
    assert folder.numbers() == [1, 4]
    # The first of all is never withdrawn for being late: times before it need that number.
    folder.sweep([1])
    gone = 4
    found = folder.publish(described, DELAY, after=lambda number: 0, clock=lambda: 0)
    assert found.number == 1


# Choosing


def test_a_time_has_the_last_entry_that_is_active() -> None:
    # The third was published after the clock was set back: it replaces the second.
    entries = [Publication(n, 0, time) for n, time in ((1, 10), (2, 25), (3, 20), (4, 30))]
    for time_us, expected in ((9, None), (10, 1), (19, 1), (20, 3), (25, 3), (30, 4), (99, 4)):
        found = active_at(time_us, entries)
        assert (found and found.number) == expected
        assert active_at(time_us, []) is None
