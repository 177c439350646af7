"""Versions: numbered, activated in order, chosen by time, vacuumed, verified."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cachetools import LRUCache
from stored_tables import numbered, put

from bsjoin._clock import now_us
from bsjoin.build.publishing import repeated
from bsjoin.errors import (
    DamagedTableError,
    StoreError,
    TableNotFoundError,
    VersionNotFoundError,
)
from bsjoin.host.processes import ProcessId
from bsjoin.storage import Manifest, StorageLocation, builds, versions
from bsjoin.storage.versioned_folder import Superseded

FOREVER = 1 << 62


def ticking(start: int, step: int) -> Callable[[], int]:
    """A clock that moves on by ``step`` microseconds whenever it is read."""

    def ticks() -> Iterator[int]:
        now = start
        while True:
            yield now
            now += step

    return ticks().__next__


def test_versions_are_numbered_from_one(location: StorageLocation) -> None:
    """Each activates after it is published and before ``publish`` returns."""
    assert versions.numbers(location) == []
    for number in (1, 2, 3):
        begun = now_us()
        manifest = versions.publish(location, numbered(location, number))
        assert manifest.version == number
        assert versions.numbers(location) == list(range(1, number + 1))
        assert versions.latest(location) == versions.load(location, number) == manifest
        assert begun <= manifest.created_at_us <= manifest.activates_at_us <= now_us()
        assert (manifest.created_at_us < manifest.activates_at_us) == (number > 1)


def test_a_fingerprint_that_cannot_be_noted_is_a_warning(
    location: StorageLocation, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = put(location, numbered(location, 1), 1, 1)
    (Path(location.url) / "marks").write_bytes(b"in the way")
    versions.mark(location, manifest, "fingerprint")
    assert "is not noted" in caplog.text
    assert versions.latest(location) == manifest


def test_a_version_that_is_removed_while_others_are_read_is_left_out(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        put(location, numbered(location, number), number, number)
    before = versions.numbers(location)
    versions.vacuum(location, FOREVER, keep=2)
    monkeypatch.setattr(versions, "numbers", lambda _: [*before, 4])
    assert [manifest.version for manifest in versions.there(location)] == [2, 3]
    assert versions.latest(location).version == 3
    assert versions.vacuum(location, FOREVER, keep=1) == [2]


def test_publishing_gives_up_when_writing_never_gets_fast_enough(location: StorageLocation) -> None:
    versions.publish(location, numbered(location, 1))
    with pytest.raises(StoreError, match="after 10 tries"):
        versions.publish(location, numbered(location, 2), clock=ticking(now_us(), 10**12))
    assert versions.numbers(location) == [1]


def three(location: StorageLocation) -> list[Manifest]:
    """Versions that activate at 100, 200 and 300 microseconds."""
    return [put(location, numbered(location, n), n, n * 100) for n in (1, 2, 3)]


def test_a_time_has_the_newest_version_that_is_active(location: StorageLocation) -> None:
    three(location)

    def check() -> None:
        for time_us, expected in (
            (0, 1), (99, 1), (100, 1), (199, 1), (200, 2), (201, 2), (299, 2), (300, 3), (9_999, 3)
        ):  # fmt: skip
            found = versions.since(location, time_us)
            assert [one.version for one in found] == [*range(expected, 1 + last)]

    last = 3
    check()
    # A replay asks for the same time when later versions are there, and gets the same answer.
    put(location, numbered(location, 4), 4, 10_000)
    last = 4
    check()
    versions.vacuum(location, keep_from_us=FOREVER, keep=2)
    assert versions.numbers(location) == [3, 4]
    for time_us in (0, 199, 200, 299):
        with pytest.raises(VersionNotFoundError, match=r"vacuumed.*new checkpoint"):
            versions.since(location, time_us)
    assert versions.since(location, 300)[0].version == 3
    location.remove("versions")
    with pytest.raises(VersionNotFoundError, match="was removed after"):
        versions.since(location, 300)


def test_what_is_older_than_the_version_in_use_is_not_read(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {manifest.version: manifest for manifest in three(location)}
    settled: versions.Settled = {}
    versions.since(location, 350, settled)
    read = []
    original = versions._read
    monkeypatch.setattr(versions, "_read", lambda at, n: read.append(n) or original(at, n))
    assert [one.version for one in versions.since(location, 250)] == [2, 3]
    assert read == [3, 2]
    assert versions.since(location, 350, settled) == [known[3]]
    assert read == [3, 2]


def test_a_number_that_was_withdrawn_may_be_another_versions(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a process that has read the first one, however long ago, by whatever clocks."""
    before = three(location)
    mark = f"versions/.00000004.json.{'7' * 32}-1-{ProcessId.of(os.getppid())}"
    for behind_us in (1, 10**12):  # the clock of the publisher
        settled: versions.Settled = {}
        if behind_us > 1:
            location.create(mark, b"")  # it may withdraw it
        first = put(location, numbered(location, 4), 4, now_us() - behind_us)
        assert versions.since(location, now_us(), settled) == [first]
        assert len(versions.data_folders(location)) == 4
        assert not settled
        location.remove("versions/00000004.json")
        location.remove(mark)
        second = put(location, numbered(location, 5), 4, first.activates_at_us)
        monkeypatch.setattr(versions, "now_us", lambda: now_us() + 120_000_000)
        assert versions.since(location, now_us(), settled) == [second] != [first]
        assert [*settled.values()] == [second]
        folders = {file.rpartition("/")[0] for one in (*before, second) for file, *_ in one.files}
        assert versions.data_folders(location) == folders
        monkeypatch.undo()
        location.remove("versions/00000004.json")
        versions._held.clear()


def test_what_is_not_there_is_an_error_that_says_so(location: StorageLocation) -> None:
    with pytest.raises(TableNotFoundError, match=r"BatchTable\.build"):
        versions.latest(location)
    for name in ("notes.json", ".00000001.json.abc"):
        location.create(f"versions/{name}", b"{}")
    with pytest.raises(TableNotFoundError):
        versions.latest(location)
    three(location)
    location.remove("versions/00000001.json")
    with pytest.raises(VersionNotFoundError, match=r"version 1 .*there are \[2, 3\]"):
        versions.load(location, 1)


@pytest.mark.parametrize(
    ("keep_from_us", "keep", "gone"),
    [
        (FOREVER, 0, [1, 2]),
        (FOREVER, 2, [1]),
        (FOREVER, 9, []),
        (300, 1, [1, 2]),
        (299, 1, [1]),  # at 299 version 2 was still in use
        (200, 1, [1]),
        (199, 1, []),
    ],
)
def test_vacuum_keeps_the_newest_and_what_was_in_use(
    location: StorageLocation, keep_from_us: int, keep: int, gone: list[int]
) -> None:
    manifests = three(location)
    assert versions.vacuum(location, keep_from_us, keep) == gone
    assert versions.numbers(location) == [n for n in (1, 2, 3) if n not in gone]
    for manifest in manifests:
        sizes = {location.size(name) is not None for name, _, _ in manifest.files}
        assert sizes == {manifest.version not in gone}


def test_vacuum_spares_what_was_there_before_a_version_that_may_be_withdrawn(
    location: StorageLocation,
) -> None:
    """Its publisher is stopped for a second between two operations; the version is active then."""
    first = versions.publish(location, numbered(location, 1))
    asked: list[int] = []

    def clock() -> int:
        if 2 in versions.numbers(location):  # it is withdrawn, as it may have come too late
            asked.extend(versions.numbers(location))
            assert versions.vacuum(location, FOREVER, keep=1) == []
            return now_us() + 1_000_000
        return now_us()

    published = versions.publish(location, numbered(location, 2), clock, parent=first)
    assert asked == [1, 2]
    assert versions.numbers(location) == [1, published.version] == [1, 3]
    for manifest in (first, published):
        versions.verify(location, manifest)
    # One that is seen to live may, by whatever clock: a machine sleeps, or its clock is set.
    hours_us, other = 7_200_000_000, ProcessId.of(os.getppid())
    for began_us in (now_us() - hours_us, now_us() + hours_us):
        mark = f"versions/.00000002.json.{'7' * 32}-{began_us}-{other}"
        location.create(mark, b"")
        builds.sweep(location)
        assert versions.vacuum(location, FOREVER, keep=1) == []
        location.remove(mark)
    # One that was killed, or has been at it for two hours on another machine, withdraws nothing,
    # and so does one of this process that is over.
    this = ProcessId.of(os.getpid())
    for who in (
        f"{now_us()}-{this._replace(begun='5')}",
        f"{now_us() - hours_us}-1.1.elsewhere.far",
        f"{now_us()}-{this}",
    ):
        location.create(f"versions/.00000002.json.{'7' * 32}-{who}", b"")
    assert versions.vacuum(location, FOREVER, keep=1) == [1]
    assert not [name for name in location.names("versions") if name.startswith(".")]


def test_vacuum_spares_the_marks_of_a_version_that_is_about_to_be_there(
    location: StorageLocation,
) -> None:
    three(location)
    for folder, names in {
        "marks": ("1-1-a", "3-1-a", "4-1-a"),
        "fresh": ("1-5-5", "4-5-5"),
    }.items():
        for name in names:
            location.create(f"{folder}/{int(name[0]):08d}{name[1:]}", b"")
    versions.vacuum(location, FOREVER, keep=1)
    assert sorted(name[7:] for name in location.names("marks")) == ["3-1-a", "4-1-a"]
    assert [name[7:] for name in location.names("fresh")] == ["4-5-5"]
    # Also where it is not yet linked to its name.
    hidden = [f"marks/.{number:08d}-1-a.{'7' * 32}" for number in (2, 4)]
    for name in hidden:
        location.create(name, b"")
    versions.vacuum(location, FOREVER, keep=1)
    assert [location.size(name) for name in hidden] == [None, 0]


def test_versions_stay_in_order_when_a_clock_is_set_back(
    location: StorageLocation, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one in use stays until the next one is, and who publishes is told that it waits."""
    monkeypatch.setattr(versions, "_LONGEST_WAIT_S", 0.0)
    true_us, day_us = now_us(), 86_400_000_000
    versions.publish(location, numbered(location, 1), lambda: true_us - day_us)
    ahead = versions.publish(location, numbered(location, 2), lambda: true_us + day_us)
    back = versions.publish(location, numbered(location, 3), lambda: true_us)
    assert "only in 86400 s" in caplog.text
    assert back.created_at_us < ahead.created_at_us < ahead.activates_at_us < back.activates_at_us
    for time_us, number in ((true_us, 1), (back.activates_at_us - 1, 2), (FOREVER, 3)):
        assert versions.since(location, time_us)[0].version == number
    for keep_from_us, gone in ((true_us, []), (ahead.activates_at_us, [1]), (FOREVER, [2])):
        assert versions.vacuum(location, keep_from_us, keep=1) == gone


def test_what_is_vacuumed_while_it_is_verified_is_no_damage(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions.publish(location, numbered(location, 1))
    reading, looked = StorageLocation.reading, list[str]()

    def late(self: StorageLocation, name: str) -> Any:
        looked.append(name)
        if len(looked) == 1:  # its size has just been looked at
            put(location, numbered(location, 2), 2, 2)
            assert versions.vacuum(location, FOREVER, 1) == [1]
        return reading(self, name)

    monkeypatch.setattr(StorageLocation, "reading", late)
    newest = versions.latest_verified(location)
    assert newest.version == 2
    assert len(looked) > 1

    def newer(self: StorageLocation, name: str) -> Any:
        put(location, newest, versions.numbers(location)[-1] + 1, 3)
        return reading(self, name)

    # A version that is there is damaged, however many others are published meanwhile.
    location.remove(newest.files[-1].name)
    monkeypatch.setattr(StorageLocation, "reading", newer)
    with pytest.raises(DamagedTableError, match=r"version 2 .* is missing"):
        versions.latest_verified(location)
    with pytest.raises(DamagedTableError, match=r"version \d+ .* is missing"):
        repeated(location, partial(versions.verify, location), "changed")


def test_what_versions_share_is_compared_with_its_checksums_once(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that changes has many versions of few new files."""
    draft = numbered(location, 1)
    for number in (1, 2, 3):
        put(location, draft, number, number)
    reading, read = StorageLocation.reading, list[str]()
    monkeypatch.setattr(
        StorageLocation, "reading", lambda self, name: read.append(name) or reading(self, name)
    )
    assert [number for number, _ in versions.checked(location)] == [1, 2, 3]
    assert sorted(read) == sorted(name for name, *_ in draft.files)
    location.remove(read[0])
    assert all(isinstance(one, DamagedTableError) for _, one in versions.checked(location))


def test_a_version_follows_the_one_that_it_is_made_from(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = versions.publish(location, numbered(location, 1), first=True)
    assert versions.publish(location, numbered(location, 2), parent=first).version == 2
    for options in ({"parent": first}, {"first": True}):
        with pytest.raises(Superseded):
            versions.publish(location, numbered(location, 3), **options)  # type: ignore[arg-type]
    assert versions.numbers(location) == [1, 2]
    # Another one that got a number below, since it was free again, is seen after the creation.
    location.remove("versions/00000002.json")
    create = StorageLocation.create

    def beside(self: StorageLocation, name: str, content: bytes, *rest: Any) -> bool:
        monkeypatch.undo()
        put(location, numbered(location, 4), 3, first.activates_at_us + 9)
        return create(self, name, content, *rest)

    monkeypatch.setattr(StorageLocation, "create", beside)
    with pytest.raises(Superseded):
        versions.publish(location, numbered(location, 5), parent=first)
    assert versions.numbers(location) == [1, 3]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("again", [False, True])
def test_a_version_does_not_follow_one_that_was_withdrawn(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch, when: str, again: bool
) -> None:
    """Its number is free again, and may be that of a version with other rows."""
    first = versions.publish(location, numbered(location, 1))
    withdrawn = versions.publish(location, numbered(location, 2), parent=first)
    create = StorageLocation.create

    def withdraw() -> None:
        location.remove("versions/00000002.json")
        if again:
            put(location, numbered(location, 3), 2, withdrawn.activates_at_us)

    def beside(self: StorageLocation, name: str, content: bytes, *rest: Any) -> bool:
        monkeypatch.undo()
        withdraw()
        return create(self, name, content, *rest)

    if when == "before":
        withdraw()
    else:
        monkeypatch.setattr(StorageLocation, "create", beside)
    with pytest.raises(Superseded):
        versions.publish(location, numbered(location, 4), parent=withdrawn)
    assert versions.numbers(location) == ([1, 2] if again else [1])


def test_what_is_remembered_of_versions_is_not_that_of_another_table(
    location: StorageLocation,
) -> None:
    three(location)
    assert versions.has_older(location, 150) is False
    assert versions.has_older(location, 200) is True
    before = versions.data_folders(location)
    assert versions.data_folders(location) == before
    location.remove("versions")
    location.remove("data")
    three(location)  # built again: other folders under the same numbers
    again = versions.data_folders(location)
    assert len(again) == 3
    assert not again & before
    assert versions.vacuum(location, FOREVER, 1) == [1, 2]
    assert len(versions.data_folders(location)) == len(location.names("data")) == 1


def test_what_is_remembered_of_versions_is_so_in_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more tables than are remembered."""
    monkeypatch.setattr(versions, "_held", LRUCache(maxsize=1))
    tables = [StorageLocation.of(tmp_path / f"{number}") for number in range(3)]
    for table in tables:
        put(table, numbered(table, 1), 1, 1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(versions.data_folders, tables * 300))
    finally:
        sys.setswitchinterval(interval)
    assert {len(folders) for folders in found} == {1}
