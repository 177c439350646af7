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
from bsjoin.host import processes
from bsjoin.host.processes import ProcessId
from bsjoin.storage import StorageLocation, builds, versions


@pytest.fixture(params=["local", "local URL"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StorageLocation:
    scheme = "" if request.param == "local" else "local://"
    return StorageLocation.of(f"{scheme}{tmp_path}/a/b/table")


def write(build: builds.Build) -> str:
    name = f"{build.folder}/0000.run"
    with build.location.writing(name) as path:
        path.write_bytes(b"rows")
    return name


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_an_abandoned_build_leaves_nothing(location: StorageLocation, tmp_path: Path) -> None:
    build = builds.begin(location)
    with build.writing():
        write(build)
    build.abandon()
    if location.is_local:
        assert everything(tmp_path) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    with pytest.raises(StoreError, match="has ended"), build.writing():
        raise AssertionError("it begins all the same")


def test_a_task_that_writes_after_the_end_removes_it_again(
    location: StorageLocation, tmp_path: Path
) -> None:
    build = builds.begin(location)

    def end_and_write() -> None:
        build.abandon()
        write(build)

    with pytest.raises(StoreError, match="has ended"), build.writing():
        end_and_write()
    with pytest.raises(StoreError, match="has ended"), build.writing():
        raise OSError("it fails as late")
    if location.is_local:
        assert everything(tmp_path) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_a_version_has_stays(location: StorageLocation) -> None:
    manifest = put(location, numbered(location, 1), 1, 1)
    (folder,) = versions.data_folders(location)
    mark = f"builds/{'0' * 32}-1-x"
    build = builds.Build(location, folder.removeprefix("data/"), mark, ())
    build.abandon()
    versions.verify(location, manifest)


def test_files_stay_where_it_is_not_known_whose_they_are(
    location: StorageLocation, caplog: pytest.LogCaptureFixture
) -> None:
    put(location, numbered(location, 1), 1, 1)
    build = builds.begin(location)
    name = write(build)
    location.remove("versions/00000001.json")
    location.create("versions/00000001.json", b"{")
    build.abandon()
    assert location.size(name) == 4
    assert "files of no version stay" in caplog.text


def _process_that_has_ended() -> ProcessId:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        found = ProcessId.of(ended.pid)
    return found


def test_the_next_build_removes_what_ended_processes_have_left(location: StorageLocation) -> None:
    day_us = 24 * 3_600_000_000
    dead, elsewhere = _process_that_has_ended(), ProcessId(1, "1", "1", "another")
    this = ProcessId.of(os.getpid())
    alive = this._replace(pid=os.getppid(), begun=ProcessId.of(os.getppid()).begun)
    marks = {
        "a" * 32: (now_us(), dead, False),
        "b" * 32: (now_us(), alive, True),
        "c" * 32: (now_us(), elsewhere, True),
        "d" * 32: (now_us() - 2 * day_us, elsewhere, False),
        "e" * 32: (now_us(), this, False),  # this process has no such build any more
        "f" * 32: (now_us(), this._replace(pid=10**30), False),  # of no process
    }
    for name, (began, process, _) in marks.items():
        mark = f"builds/{name}-{began}-{process}"
        location.create(mark, b"")
        write(builds.Build(location, name, mark, ()))
    location.create("builds/not-a-mark", b"")
    ours = builds.begin(location)
    write(ours)
    builds.sweep(location)
    kept = [name for name, (_, _, stays) in marks.items() if stays]
    assert location.names("data") == sorted([*kept, ours.name])
    assert len(location.names("builds")) == len(kept) + 2


@pytest.mark.parametrize(("age_us", "stays"), [(0, True), (25 * 3_600_000_000, False)])
def test_where_no_start_is_known_a_process_counts_for_a_day(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch, age_us: int, stays: bool
) -> None:
    monkeypatch.setattr("bsjoin.host.processes._begun", lambda _: "0")  # not Linux
    name, owner = "a" * 32, ProcessId.of(os.getppid())
    location.create(f"builds/{name}-{now_us() - age_us}-{owner}", b"")
    builds.sweep(location)
    assert bool(location.names("builds")) == stays


def test_machines_without_a_boot_id_are_told_apart_by_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    found = []
    for name in ("one", "other"):
        monkeypatch.setattr("platform.node", lambda name=name: name)
        found.append(processes._machine.__wrapped__())
    assert found[0] != found[1]
    assert all(one.isalnum() for one in found)  # as part of a file's name


def test_a_killed_process_that_had_published_loses_no_version(location: StorageLocation) -> None:
    manifest = put(location, numbered(location, 1), 1, 1)
    (folder,) = versions.data_folders(location)
    name = folder.removeprefix("data/")
    # Only names of 32 digits are builds: the tests' folders have those of a uuid.
    location.create(f"builds/{name}-{now_us()}-{_process_that_has_ended()}", b"")
    builds.sweep(location)
    assert location.names("builds") == []
    versions.verify(location, manifest)


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
