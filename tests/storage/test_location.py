"""The home of a table: one contract for a local folder and for any fsspec URL."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import io
import os
import pickle
import uuid
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from stored_tables import numbered, store

from bsjoin.errors import DamagedTableError, StoreAccessError, StoreFullError
from bsjoin.storage import StorageLocation, builds, versions
from bsjoin.storage.checksums import checksum
from bsjoin.storage.open_table import OpenTable


@pytest.fixture(params=["local", "memory", "local URL"])
def location(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StorageLocation]:
    """An empty home; the copies of a remote one go to a folder of the test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # memory:// has no folders, as object stores have none; local:// has, as SFTP or HDFS.
    urls = {
        "local": str(tmp_path / "a table"),
        "memory": f"memory://bucket-{uuid.uuid4().hex}/table/",
        "local URL": f"local://{tmp_path}/table",
    }
    yield StorageLocation.of(urls[request.param])
    fsspec.filesystem("memory").store.clear()


def mapped(location: StorageLocation, content: bytes) -> bytes:
    found = location.map("data/x/rows", len(content), checksum(io.BytesIO(content)))
    return bytes(found.read())


def copies_in(folder: Path) -> list[Path]:
    return list(folder.glob("bsjoin-*/copies-*/copy-*"))


def test_a_location_is_a_folder_of_files(location: StorageLocation, tmp_path: Path) -> None:
    assert location.names("versions") == []
    assert location.size("versions/1") is None
    with pytest.raises(FileNotFoundError):
        location.read("versions/1")
    for name in ("versions/1", "versions"):
        location.remove(name)
    # A file is created whole and once.
    assert location.create("versions/1", b"first")
    assert not location.create("versions/1", b"second")
    assert (location.read("versions/1"), location.size("versions/1")) == (b"first", 5)
    # Another process is the same place, and sees and adds files.
    other = pickle.loads(pickle.dumps(location))
    assert other == location
    assert (hash(other), str(other)) == (hash(location), location.url)
    assert location.names("versions") == other.names("versions") == ["1"]
    other.create("versions/2", b"")
    assert location.names("versions") == ["1", "2"]
    # A large file is written locally and mapped as a local file.
    with location.writing("data/x/rows") as path:
        path.write_bytes(b"abc")
    for _ in range(2):
        assert mapped(location, b"abc") == b"abc"
    assert (location.size("data/x/rows"), location.sizes("data/x")) == (3, {"rows": 3})
    assert location.is_local or len(copies_in(tmp_path)) == 1
    # What is removed takes the copies of this host along.
    location.remove("data/x")
    assert (location.size("data/x/rows"), location.names("data/x")) == (None, [])
    assert location.sizes("data/x") == {}
    assert copies_in(tmp_path) == []


def test_a_location_does_not_pickle_the_credentials_it_was_opened_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "memory", {"token": "s3cr3t"})
    location = StorageLocation.of(f"memory://{uuid.uuid4().hex}")
    location.create("versions/1", b"")
    assert b"s3cr3t" not in pickle.dumps(location)


def test_a_link_whose_answer_was_lost_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of NFS asks again, and finds its own link."""
    location, link = StorageLocation.of(tmp_path), os.link

    def twice(source: Path, target: Path) -> None:
        with contextlib.suppress(FileExistsError):
            link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert location.create("versions/1", b"one")
    assert not location.create("versions/1", b"other")
    assert location.read("versions/1") == b"one"
    assert location.names("versions") == ["1"]


def test_only_one_of_many_threads_creates_a_local_file(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)
    contents = [bytes([i]) * 10_000 for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda content: location.create("versions/1", content), contents))
    assert won.count(True) == 1
    assert location.read("versions/1") == contents[won.index(True)]
    assert location.names("versions") == ["1"]


@pytest.mark.usefixtures("soon_active")
def test_a_whole_table_lives_in_any_place(location: StorageLocation, tmp_path: Path) -> None:
    location.make()
    rows = pa.table({"k0": ["a", "b", "b", "c"], "v": pa.array([1, 2, 3, 4], pa.int64())})
    draft = store(location, [-5, 7, 7, 9], rows, compared=1, cuts=[1, 3])
    assert versions.publish(location, draft).version == 1
    first = versions.latest(location)
    versions.verify(location, first)

    opened = OpenTable(pickle.loads(pickle.dumps(location)), first)
    found = opened.find(pa.array([9, 7, 7, -5]), [pa.array(["c", "b", "x", "a"])])
    assert found.tolist() == [3, 1, -1, 0]
    assert opened.run_lengths(found).tolist() == [1, 2, 0, 1]
    assert opened.gather(("v",), found)[0].to_pylist() == [4, 2, None, 1]

    second = versions.publish(location, numbered(location, 2))
    assert location.is_local or copies_in(tmp_path) != []
    assert versions.vacuum(location, 1 << 62, keep=1) == [1]
    assert {location.size(name) for name, _, _ in first.files} == {None}
    assert copies_in(tmp_path) == []
    versions.verify(location, second)
    location.remove(second.segments[0].name.rsplit("/", 1)[0])
    with pytest.raises(DamagedTableError, match="is missing"):
        versions.verify(location, second)


def test_a_version_behind_a_url_waits_for_hosts_that_list_it_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here nothing makes it active sooner, and only the sleeping takes no time."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    slept: list[float] = []
    monkeypatch.setattr(versions, "time", SimpleNamespace(sleep=slept.append))
    assert versions._ACTIVATION.remote_us >= 1_000_000
    location = StorageLocation.of(f"memory://{uuid.uuid4().hex}")
    for number in (1, 2):
        found = versions.publish(location, numbered(location, number))
    assert found.activates_at_us - found.created_at_us >= versions._ACTIVATION.remote_us
    assert slept[-1] > 0


class Exclusive(MemoryFileSystem):
    """A memory file system that sees the files of others only when it writes them itself."""

    protocol = "exclusive"
    looks = False

    def exists(self, path: str, **named: Any) -> bool:
        return self.looks and super().exists(path)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        if mode == "create" and super().exists(path):
            raise FileExistsError(path)
        super().pipe_file(path, value, **named)

    def cat_file(self, path: str, *given: Any, **named: Any) -> bytes:
        if not self.size(path):
            raise OSError(errno.EINVAL, "InvalidRange")  # as S3 does
        return bytes(super().cat_file(path, *given, **named))


class Older(Exclusive):
    """The same, of the time before fsspec could write exclusively."""

    protocol = "older"

    def pipe_file(self, path: str, value: bytes, **named: Any) -> None:
        assert not named
        super().pipe_file(path, value)


class Refusing(Exclusive):
    """The same on a store that does not know how."""

    protocol = "refusing"
    asked = 0

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        if mode == "create":
            Refusing.asked += 1
            raise ValueError("Unknown parameter in input: IfNoneMatch")
        super().pipe_file(path, value)


class Repeating(Exclusive):
    """The same, where the answer to the first request is lost, and the client asks again."""

    protocol = "repeating"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        with contextlib.suppress(FileExistsError):
            super().pipe_file(path, value, mode)
        super().pipe_file(path, value, mode)


class Failing(Exclusive):
    """The same, where the answer is lost for good."""

    protocol = "failing"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        super().pipe_file(path, value, mode)
        Failing.looks = True
        raise OSError("the answer is lost")


class Busy(Exclusive):
    """The same, where the store asks to be asked again, as S3 does where a removal is under way."""

    protocol = "busy"

    asked = 0

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        Busy.asked += 1
        if Busy.asked % 2:
            raise OSError(errno.EBUSY, "ConditionalRequestConflict")
        super().pipe_file(path, value, mode)


@pytest.mark.parametrize("kind", [Exclusive, Older, Refusing, Repeating, Failing, Busy])
def test_of_two_that_create_a_file_at_once_one_does(kind: type[Exclusive]) -> None:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    location = StorageLocation.of(f"{kind.protocol}://{uuid.uuid4().hex}")
    exclusive, Refusing.asked = kind not in (Older, Refusing), 0
    assert location.create("versions/1", b"one")
    assert location.create("versions/1", b"other") is not exclusive
    assert location.read("versions/1") == (b"one" if exclusive else b"other")
    assert location.create("marks/1", b"")
    assert location.size("marks/1") == 0
    assert kind is not Refusing or Refusing.asked == 5  # thrice for the first one, to be sure


class Listing(MemoryFileSystem):
    """A memory file system that answers from its last listings, as those of object stores do."""

    protocol = "listing"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("listing://", "memory://")))

    def ls(self, path: str, detail: bool = True, **named: Any) -> Any:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True)
        found = self.dircache[path]
        return found if detail else [one["name"] for one in found]

    def info(self, path: str, **named: Any) -> Any:
        path = self._strip_protocol(path)
        parent = self._parent(path)
        if parent not in self.dircache:
            return super().info(path)
        for one in self.dircache[parent]:
            if one["name"] == path:
                return one
        raise FileNotFoundError(path)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        for name in self.ls(path, detail=False):
            self.store.pop(name)

    def invalidate_cache(self, path: str | None = None) -> None:
        if path is not None:
            self.dircache.pop(self._strip_protocol(path), None)
            raise KeyError(path)  # as where another thread does so between a look and its removal

    def exists(self, path: str, **named: Any) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return bool(self.info(path))
        return False

    def size(self, path: str) -> int:
        return int(self.info(path)["size"])


def test_what_other_processes_have_done_is_seen_behind_a_listing() -> None:
    fsspec.register_implementation("listing", Listing, clobber=True)
    location = StorageLocation.of(f"listing://{uuid.uuid4().hex}")
    others = StorageLocation.of(f"memory://{location.url.partition('://')[2]}")
    for name in ("builds/1", "versions/1", "data/x/1"):
        others.create(name, b"one")
    for folder in ("builds", "versions", "data/x"):
        assert location.names(folder) == ["1"]
    others.remove("builds/1")
    assert location.size("builds/1") is None
    others.create("versions/2", b"two")
    assert (location.size("versions/2"), location.read("versions/2")) == (3, b"two")
    others.remove("versions/2")
    assert location.create("versions/2", b"ours")
    others.create("data/x/2", b"of a task")
    location.remove("data/x")
    assert others.names("data/x") == []


def test_a_url_is_asked_no_more_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    location, asked = StorageLocation.of(f"memory://{uuid.uuid4().hex}"), list[tuple[str, str]]()
    for name in ("ls", "size", "cat_file"):

        def counted(fs: MemoryFileSystem, path: str, *given: Any, called: Any, **named: Any) -> Any:
            asked.append((called.__name__, path.rpartition("/")[2]))
            return called(fs, path, *given, **named)

        called = getattr(MemoryFileSystem, name)
        monkeypatch.setattr(MemoryFileSystem, name, partialmethod(counted, called=called))
    build = builds.begin(location)
    assert ("ls", "") not in asked
    asked.clear()
    build.check()
    location.create("versions/1", b"one")
    assert (location.read("versions/1", 9), location.read("versions/1", 1)) == (b"one", b"on")
    assert asked == [("size", build.mark.partition("/")[2]), *[("cat_file", "1")] * 2]
    build.abandon()


def test_what_killed_processes_have_left_of_a_look_at_a_place_goes_with_a_vacuum(
    location: StorageLocation,
) -> None:
    location.create(".writable-0123", b"")
    location.create("rules/x", b"")
    builds.vacuum(location, 1, 1)
    assert location.names("") == ["rules"]


def test_verify_notices_damage_of_a_remote_file_that_this_host_has_a_copy_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    location = StorageLocation.of(f"memory://{uuid.uuid4().hex}")
    manifest = versions.publish(location, numbered(location, 1))
    versions.verify(location, manifest)
    name, size, _ = manifest.files[0]
    fsspec.filesystem("memory").pipe_file(
        f"{location.url.removeprefix('memory:/')}/{name}", b"x" * size
    )
    assert location.read(name) == b"x" * size
    with pytest.raises(DamagedTableError, match="checksum"):
        versions.verify(location, manifest)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As FAT, and many that mount a bucket."""

    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    location = StorageLocation.of(tmp_path / "table")
    with pytest.raises(StoreAccessError, match="by hard links, and its file system has none"):
        builds.begin(location)
    assert not (tmp_path / "table").exists()


def test_a_full_disk_of_a_host_is_told_from_that_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    location = StorageLocation.of(f"memory://{uuid.uuid4().hex}")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(MemoryFileSystem, "get_file", full)
    with pytest.raises(StoreFullError, match=r"fetch 'data/x/rows'.*host's copies.*TMPDIR"):
        mapped(location, b"rows")


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("ENOSPC", StoreFullError, "no space left"),
        ("EDQUOT", StoreFullError, "no space left"),
        ("EACCES", StoreAccessError, "permission to read and write"),
        ("EROFS", StoreAccessError, "permission to read and write"),
        ("EIO", StoreAccessError, "Look after the device or service"),
        ("ECONNREFUSED", StoreAccessError, "refused. Look after the device or service"),
        ("EINTR", StoreAccessError, "nterrupted"),
    ],
)
def test_an_error_of_the_system_is_named(
    tmp_path: Path, code: str, kind: type[Exception], says: str
) -> None:
    number = getattr(errno, code)
    with pytest.raises(kind, match=says) as caught:  # noqa: SIM117
        with StorageLocation.of(tmp_path).writing("data/x"):
            raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)
