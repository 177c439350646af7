"""Builds under way: what they leave, and who removes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stored_tables import numbered, put

from bsjoin._clock import now_us
from bsjoin.errors import StoreError
from bsjoin.host.processes import ProcessId
from bsjoin.storage import StorageLocation, builds, versions

DAY_US = 24 * 3_600_000_000


@pytest.fixture(params=["local", "local URL"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StorageLocation:
    scheme = "" if request.param == "local" else "local://"
    return StorageLocation.of(f"{scheme}{tmp_path}/a/b/table")


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
    ours = builds.begin(location)
    write(ours)
    builds.sweep(location)
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


def test_temporary_names_of_killed_processes_go_after_an_hour(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)
    put(location, numbered(location, 1), 1, 1)
    left = [tmp_path / ".writable-1", tmp_path / "versions" / ".00000002.json.1"]
    for path in left:
        path.write_bytes(b"")
    builds.sweep(location)
    assert all(path.exists() for path in left)
    for path in left:
        os.utime(path, (1, 1))
    builds.sweep(location)
    assert not any(path.exists() for path in left)
