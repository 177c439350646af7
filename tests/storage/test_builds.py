"""Builds under way: what they leave, and who removes it."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from stored_tables import numbered, put

from bsjoin import BatchTable, Full
from bsjoin._clock import now_us
from bsjoin.errors import ArgumentError, StoreError
from bsjoin.host.processes import ProcessId
from bsjoin.storage import StorageLocation, builds, versions
from bsjoin.storage.layers.entries import Applied, Layer

DAY_US = 24 * 3_600_000_000
FOREVER = 1 << 62


@pytest.fixture(params=["local", "local URL", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageLocation]:
    if request.param == "memory":  # without folders, as object stores
        yield StorageLocation.of(f"memory://{uuid.uuid4().hex}/table")
        fsspec.filesystem("memory").store.clear()
    else:
        scheme = "" if request.param == "local" else "local://"
        yield StorageLocation.of(f"{scheme}{tmp_path}/a/b/table")


def write(build: builds.Build) -> str:
    name = f"{build.folder}/0000.run"
    with build.location.writing(name) as path:
        path.write_bytes(b"rows")
    return name


def test_an_abandoned_build_leaves_nothing(location: StorageLocation, tmp_path: Path) -> None:
    build = builds.begin(location)
    with build.writing():
        write(build)

    def end_and_write() -> None:
        build.abandon()
        write(build)

    # A task that writes after the end removes it again.
    with pytest.raises(StoreError, match="has ended"), build.writing():
        end_and_write()
    with pytest.raises(StoreError, match="has ended"), build.writing():
        raise AssertionError("it begins all the same")
    left = [*tmp_path.rglob("*")]
    assert not [path for path in left if path.is_file()]
    assert not location.is_local or left == []


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.usefixtures("soon_active")
def test_a_build_that_others_take_for_ended_publishes_nothing_whose_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Another process removes its mark at any step of its publication, and its files later."""
    build: builds.Build
    known: set[str] = set()
    step, now_and_then = -1, (-1, -1)

    def other() -> None:
        nonlocal step
        place, step = step, -1  # what it does is no step
        if place == now_and_then[0]:
            build.location.remove(build.mark)
            known.clear()
            known.update(versions.data_folders(build.location))
        if place == now_and_then[1] and build.folder not in known:
            build.location.remove(build.folder)
        step = place + 1

    for name in ("listed", "read", "create", "remove", "size"):

        def counted(self: StorageLocation, *given: Any, called: Any) -> Any:
            if step >= 0:
                other()
            return called(self, *given)

        called = getattr(StorageLocation, name)
        monkeypatch.setattr(StorageLocation, name, functools.partialmethod(counted, called=called))

    def published(*when: int) -> int:
        """How many steps it took; 0 if nothing was published."""
        nonlocal build, step, now_and_then
        location, now_and_then = StorageLocation.of(tmp_path / str(when)), when
        before = None if first else put(location, numbered(location, 1), 1, 1)
        draft = numbered(location, 2)
        _, name, _ = draft.segments[0].name.split("/")
        build = builds.Build(location, name, f"builds/{name}-1-0", ())
        location.create(build.mark, b"")
        step = 0
        try:
            versions.publish(location, draft, parent=before, first=first, check=build.check)
            steps, step = step, -1
        except StoreError:
            steps, step = 0, -1
            build.abandon()
            assert len(location.names("data")) == (not first)
        for one in versions.there(location):
            versions.verify(location, one)
        assert len(versions.there(location)) == (not first) + (steps > 0)
        return steps

    every = range(published(99, 99))
    found = [published(one, two) > 0 for one in every for two in every[one:]]
    assert 0 < sum(found) < len(found)


def test_files_stay_where_it_is_not_known_whose_they_are(
    location: StorageLocation, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = put(location, numbered(location, 1), 1, 1)
    (folder,) = versions.data_folders(location)
    builds.Build(location, folder.removeprefix("data/"), f"builds/{'0' * 32}-1-x", ()).abandon()
    versions.verify(location, manifest)
    build = builds.begin(location)
    name = write(build)
    location.remove("versions/00000001.json")
    location.create("versions/00000001.json", b"{")
    build.abandon()
    assert location.size(name) == 4
    assert "files of no version stay" in caplog.text


def test_the_next_build_removes_what_ended_processes_have_left(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        dead = ProcessId.of(ended.pid)
    elsewhere, this = ProcessId(1, "1", "1", "another"), ProcessId.of(os.getpid())
    alive = this._replace(pid=os.getppid(), begun=ProcessId.of(os.getppid()).begun)
    marks = {
        "a" * 32: (now_us(), dead, False),
        "b" * 32: (now_us(), alive, True),
        "c" * 32: (now_us(), elsewhere, True),
        "d" * 32: (now_us() - 2 * DAY_US, elsewhere, False),
        "e" * 32: (now_us(), this, False),  # this process has no such build any more
        "f" * 32: (now_us(), this._replace(pid=10**30), False),  # of no process
    }
    for name, (began, process, _) in marks.items():
        mark = f"builds/{name}-{began}-{process}"
        location.create(mark, b"")
        write(builds.Build(location, name, mark, ()))
    location.create("builds/not-a-mark", b"")
    # One that was killed when it had published loses no version.
    manifest = put(location, numbered(location, 1), 1, 1)
    published = manifest.segments[0].name.split("/")[1]
    location.create(f"builds/{published}-{now_us()}-{dead}", b"")
    # One that was killed before it was certain that its version stays holds up nobody.
    location.create(f"versions/.00000002.json.{'0' * 32}-{now_us()}-{dead}", b"")
    ours = builds.begin(location)
    write(ours)
    builds.sweep(location)
    assert location.names("versions") == ["00000001.json"]
    kept = [name for name, (_, _, stays) in marks.items() if stays]
    assert location.names("data") == sorted([*kept, published, ours.name])
    assert len(location.names("builds")) == len(kept) + 2
    versions.verify(location, manifest)
    # Where no start of a process is known, as elsewhere than on Linux, it counts for a day.
    monkeypatch.setattr("bsjoin.host.processes._begun", lambda _: "0")
    for age_us, stays in ((0, True), (DAY_US + 1, False)):
        location.remove("builds")
        owner = ProcessId.of(os.getppid())
        location.create(f"builds/{'a' * 32}-{now_us() - age_us}-{owner}", b"")
        builds.sweep(location)
        assert bool(location.names("builds")) == stays


class Killed(BaseException):
    """As by a signal: nobody cleans up."""


def test_what_cannot_be_removed_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Others have written it, or a server of NFS keeps what somebody has open."""
    location = StorageLocation.of(tmp_path)
    manifests = [put(location, numbered(location, n), n, n) for n in (1, 2)]
    folder = manifests[0].segments[0].name.rpartition("/")[0]
    with monkeypatch.context() as patched:
        patched.setattr("os.rmdir", lambda *_, **__: fail())
        assert builds.vacuum(location, 1, FOREVER) == [1]
    assert location.size(folder) is not None
    (record,) = caplog.records
    assert record.getMessage() == (
        f"bsjoin: files of no version stay in {str(tmp_path)!r}: {folder!r} cannot be removed"
    )


def fail() -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("keep", [0, 1.5, True, "2"])
def test_so_many_versions_stay_is_a_whole_number(location: StorageLocation, keep: Any) -> None:
    with pytest.raises(ArgumentError, match=f"keep={keep!r}: the newest version always stays"):
        builds.vacuum(location, keep, 1)


@pytest.mark.parametrize("how", ["vacuum", "abandon"])
def test_folders_of_no_version_and_no_build_go_a_day_after_they_are_found(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Who removes versions, or a build, is killed when the manifest or the mark is gone."""
    manifests = [put(location, numbered(location, n), n, n) for n in (1, 2, 3)]
    running = builds.begin(location)
    write(running)
    location.create("data/of-a-user/notes", b"")
    other = builds.begin(location)
    write(other)
    remove = StorageLocation.remove

    def killed(self: StorageLocation, name: str) -> None:
        if name.startswith("data/"):
            raise Killed
        remove(self, name)

    def vacuum() -> None:
        builds.vacuum(location, 1, FOREVER)

    dies, lives = (vacuum, other.abandon) if how == "vacuum" else (other.abandon, vacuum)
    with monkeypatch.context() as patched:
        patched.setattr(StorageLocation, "remove", killed)
        with pytest.raises(Killed):
            dies()
    lives()
    assert versions.numbers(location) == [3]
    newest, ours = manifests[2].segments[0].name.split("/")[1], running.name
    stays = sorted([newest, ours, "of-a-user"])
    left = {*location.names("data")} - {*stays}
    assert len(left) == (2 if how == "vacuum" else 1)
    for _ in range(2):  # young ones stay
        builds.vacuum(location, 1, FOREVER)
        assert {*location.names("data")} == {*stays} | left
    assert len(location.names("builds")) == 1 + len(left)
    # It is found by mistake that a version's folder is left: versions are looked at once more.
    location.create(f"builds/{newest}-1-0", b"")
    monkeypatch.setattr(builds, "now_us", lambda: now_us() + DAY_US + 1_000_000)
    elsewhere = f"{'c' * 32}-{builds.now_us()}-{ProcessId(1, '1', '1', 'another')}"
    location.create(f"builds/{elsewhere}", b"")
    write(builds.Build(location, "c" * 32, f"builds/{elsewhere}", ()))
    builds.vacuum(location, 1, FOREVER)
    assert location.names("data") == sorted([*stays, "c" * 32])
    assert location.names("builds") == sorted([elsewhere, running.mark.partition("/")[2]])
    assert all(location.size(name) == size for name, size, _ in manifests[2].files)
    running.abandon()


def test_old_versions_of_a_followed_table_go_whatever_is_published_between_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction follows each step, so that no step has an even number."""
    location, removed = StorageLocation.of(tmp_path), list[Any]()
    table = BatchTable(location, may_change=True, options=Full(store=tmp_path))
    monkeypatch.setattr(BatchTable, "_remove_older", lambda _, retain: removed.append(retain))
    base = numbered(location)
    step = replace(base, layers=(Layer(base.segments[0], None),))
    for count in range(1, 129):
        table._tidied(replace(step, version=2 * count + 1, changes=Applied(count, None)))
    assert removed == ["7 days"] * 2


def test_temporary_names_of_killed_processes_go_after_an_hour(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)
    put(location, numbered(location, 1), 1, 1)
    left = [tmp_path / "versions" / ".00000002.json.1"]
    left += [tmp_path / folder / ".a-1-0.1" for folder in ("builds", "marks", "fresh", "readers")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    builds.sweep(location)
    assert all(path.exists() for path in left)
    for path in left:
        os.utime(path, (1, 1))
    builds.sweep(location)
    assert not any(path.exists() for path in left)
