"""Copies of a remote table: private, compared with their checksums, and no more than are needed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from host_samples import environment
from stored_tables import numbered, put

from bsjoin.errors import DamagedTableError, StoreAccessError
from bsjoin.plan import JoinPlan, StoredTable
from bsjoin.runtimes.python.worker import full_cache
from bsjoin.storage import Manifest, StorageLocation, versions
from bsjoin.storage.checksums import checksum
from bsjoin.storage.copies import HostCopies
from bsjoin.storage.open_table import OpenTable


class Unreliable(MemoryFileSystem):
    """A memory file system that damages the next files that are fetched from it."""

    protocol = "unreliable"
    damages: list[str] = []  # noqa: RUF012
    fetched: list[str] = []  # noqa: RUF012

    def get_file(self, rpath: str, lpath: str, **named: Any) -> None:
        super().get_file(rpath, lpath, **named)
        Unreliable.fetched.append(rpath)
        if Unreliable.damages:
            damage(Path(lpath), Unreliable.damages.pop())


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "flip":
        path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    elif how == "cut":
        path.write_bytes(content[:-1])
    elif how == "link":
        elsewhere = path.parent.parent / "elsewhere"
        elsewhere.write_bytes(content)
        path.unlink()
        path.symlink_to(elsewhere)


fsspec.register_implementation("unreliable", Unreliable)


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageLocation]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Unreliable, "damages", [])
    monkeypatch.setattr(Unreliable, "fetched", [])
    yield StorageLocation.of(f"unreliable://bucket-{uuid.uuid4().hex}/table")
    Unreliable.store.clear()


def copies(folder: Path) -> list[Path]:
    return sorted(folder.glob("bsjoin-*/copies-*/copy-*"))


def value(location: StorageLocation, manifest: Manifest) -> int:
    """What the table's column says, as a worker would read it that has just begun."""
    opened = OpenTable(location, manifest)
    (found,) = opened.gather(("v",), np.array([0]))
    return int(found[0].as_py())


def test_copies_are_private_whatever_the_umask(location: StorageLocation, tmp_path: Path) -> None:
    manifest, before = put(location, numbered(location, 7), 1, 1), os.umask(0)
    try:
        assert value(location, manifest) == 7
    finally:
        os.umask(before)
    (folder,) = {copy.parent for copy in copies(tmp_path)}
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(StoreAccessError, match="mode 0777") as caught:
        value(location, manifest)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("how", ["flip", "cut"])
def test_a_file_that_is_damaged_on_its_way_is_fetched_again_once(
    location: StorageLocation, tmp_path: Path, how: str
) -> None:
    manifest = put(location, numbered(location, 7), 1, 1)
    Unreliable.damages[:] = [how] * 2
    with pytest.raises(DamagedTableError, match="downloaded twice") as caught:
        value(location, manifest)
    assert manifest.segments[0].files[0] in str(caught.value)
    assert location.url in str(caught.value)
    assert copies(tmp_path) == []
    Unreliable.fetched.clear()
    Unreliable.damages[:] = [how]
    assert value(location, manifest) == 7
    assert len(Unreliable.fetched) == 3
    assert len(set(Unreliable.fetched)) == 2


@pytest.mark.parametrize("how", ["flip", "cut", "link"])
def test_a_copy_that_was_changed_is_fetched_again(
    location: StorageLocation, tmp_path: Path, how: str
) -> None:
    manifest = put(location, numbered(location, 7), 1, 1)
    assert value(location, manifest) == 7
    for copy in copies(tmp_path):
        damage(copy, how)
    Unreliable.fetched.clear()
    for _ in range(2):
        assert value(location, manifest) == 7
        assert len(Unreliable.fetched) == 2
    assert not any(copy.is_symlink() for copy in copies(tmp_path))


def test_no_name_of_a_file_leads_out_of_the_folder_of_copies(
    location: StorageLocation, tmp_path: Path
) -> None:
    def download(path: str) -> None:
        Path(path).write_bytes(b"abc")

    for name in ("../x", "a/../../x", "/x", "..", "owners") * 2:
        mapped = HostCopies(location.url).map(name, 3, checksum(io.BytesIO(b"abc")), download)
        assert mapped.read() == b"abc"
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert copies(tmp_path) == sorted(path for path in found if path.parent.name != "owners")
    assert len(copies(tmp_path)) == 5


def plan_of(location: StorageLocation, version: int | None, epoch: int) -> JoinPlan:
    row_type = pa.struct([pa.field("c0", pa.int64())])
    return JoinPlan(
        label="1:k",
        how="left",
        table=StoredTable(
            location=location,
            epoch=epoch,
            version=version,
            keys=versions.latest(location).keys,
        ),
        predicate=None,
        columns=("v",),
        shape="row",
        row_type=row_type,
        reports=False,
    )


def answered(plan: JoinPlan, time_us: int) -> int:
    times = pa.array([time_us], pa.timestamp("us", "UTC"))
    (row,) = full_cache.answer(plan, pa.array([0], pa.int64()), times, []).to_pylist()
    return int(row["c0"])


def test_a_host_keeps_copies_of_the_newest_versions_and_of_those_in_use(
    location: StorageLocation, tmp_path: Path
) -> None:
    for number in range(1, 7):
        put(location, numbered(location, number), number, number * 100)
        # As in foreachBatch: a plan of its own for each micro-batch.
        stream = plan_of(location, None, epoch=number * 100)
        assert answered(stream, number * 100 + 50) == number
        assert len(copies(tmp_path)) == 2 * min(number, 2)
    # A plan that was made earlier is served all the same.
    assert answered(plan_of(location, 2, epoch=200), 0) == 2
    assert len(copies(tmp_path)) == 2 * 3
    put(location, numbered(location, 7), 7, 700)
    assert answered(stream, 750) == 7
    assert len(copies(tmp_path)) == 2 * 2


WORK = """
import sys, test_copies as t
t.work(t.StorageLocation.of(sys.argv[1]), int(sys.argv[2]))
"""


def work(location: StorageLocation, rounds: int) -> None:
    """Open versions in turn, each as a process that has just begun."""
    for turn in range(rounds):
        full_cache._tables.clear()
        version = 1 + turn % 4
        assert answered(plan_of(location, version, epoch=version * 100), 0) == version


@pytest.mark.long
def test_workers_that_remove_each_others_copies_still_answer(tmp_path: Path) -> None:
    location = StorageLocation.of(f"local://{tmp_path}/table")
    for number in range(1, 7):
        put(location, numbered(location, number), number, number * 100)
    code = [sys.executable, "-c", WORK, location.url, "5"]
    for process in [subprocess.Popen(code, env=environment(tmp_path)) for _ in range(2)]:
        assert process.wait(120) == 0
    # Of the two newest nobody had one; the last process had one more open.
    assert len(copies(tmp_path)) <= 2 * 3


def test_copies_of_vacuumed_versions_go_from_hosts_that_did_not_vacuum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = StorageLocation.of(f"local://{tmp_path}/table")
    for number in (1, 2, 3):
        put(location, numbered(location, number), number, number * 100)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    assert [value(location, versions.load(location, number)) for number in (1, 2, 3)] == [1, 2, 3]
    assert len(copies(elsewhere)) == 6
    monkeypatch.setattr("tempfile.tempdir", str(here))
    versions.vacuum(location, 1 << 62, keep=1)
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    put(location, numbered(location, 4), 4, 400)
    assert answered(plan_of(location, None, epoch=400), 450) == 4
    assert len(copies(elsewhere)) == 4
