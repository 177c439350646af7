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
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from stored_tables import numbered, store

from bsjoin.errors import DamagedTableError, StoreAccessError, StoreError, StoreFullError
from bsjoin.runtimes.python.worker.open_table import OpenTable
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.checksums import checksum


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


def test_which_homes_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StorageLocation.of("table").url == str(tmp_path / "table")
    assert StorageLocation.of(Path("table")) == StorageLocation.of("table")
    assert StorageLocation.of("~/table").url == str(Path.home() / "table")
    assert StorageLocation.of(f"file://{tmp_path}/table").url == str(tmp_path / "table")
    assert StorageLocation.of("file:///x").is_local
    assert not StorageLocation.of("s3://bucket/table").is_local
    assert StorageLocation.of("s3://bucket/table/") == StorageLocation.of("s3://bucket/table")


def test_a_file_is_created_whole_and_once(location: StorageLocation) -> None:
    assert location.create("versions/1.json", b"first")
    assert not location.create("versions/1.json", b"second")
    assert location.read("versions/1.json") == b"first"
    assert location.size("versions/1.json") == 5
    assert location.names("versions") == ["1.json"]


def test_what_is_missing_has_no_names_no_size_and_no_content(location: StorageLocation) -> None:
    assert location.names("versions") == []
    assert location.size("versions/1.json") is None
    with pytest.raises(FileNotFoundError):
        location.read("versions/1.json")
    location.remove("versions/1.json")
    location.remove("versions")


def test_names_see_what_another_process_has_added_since(location: StorageLocation) -> None:
    location.create("versions/1", b"")
    other = pickle.loads(pickle.dumps(location))
    assert location.names("versions") == other.names("versions") == ["1"]
    other.create("versions/2", b"")
    assert location.names("versions") == ["1", "2"]


def test_a_large_file_is_written_locally_and_mapped_as_a_local_file(
    location: StorageLocation,
) -> None:
    with location.writing("data/x/rows") as path:
        path.write_bytes(b"abc")
    assert mapped(location, b"abc") == b"abc"
    assert mapped(location, b"abc") == b"abc"
    assert location.size("data/x/rows") == 3


def test_removing_a_folder_removes_this_hosts_copies_too(
    location: StorageLocation, tmp_path: Path
) -> None:
    with location.writing("data/x/rows") as path:
        path.write_bytes(b"abc")
    assert mapped(location, b"abc") == b"abc"
    assert location.is_local or len(copies_in(tmp_path)) == 1
    location.remove("data/x")
    assert location.size("data/x/rows") is None
    assert copies_in(tmp_path) == []
    assert location.names("data/x") == []


def test_a_location_is_pickled_and_compared_by_its_url(location: StorageLocation) -> None:
    location.create("versions/1", b"")  # opens what it needs to
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert hash(again) == hash(location)
    assert str(again) == location.url
    assert again.names("versions") == ["1"]


def test_a_location_does_not_pickle_the_credentials_it_was_opened_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "memory", {"token": "s3cr3t"})
    location = StorageLocation.of(f"memory://{uuid.uuid4().hex}")
    location.create("versions/1", b"")
    assert b"s3cr3t" not in pickle.dumps(location)


def test_only_one_of_many_threads_creates_a_local_file(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path)
    contents = [bytes([i]) * 10_000 for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda content: location.create("versions/1", content), contents))
    assert won.count(True) == 1
    assert location.read("versions/1") == contents[won.index(True)]
    assert location.names("versions") == ["1"]


def test_a_whole_table_lives_in_any_home(location: StorageLocation) -> None:
    location.make()
    rows = pa.table({"k0": ["a", "b", "b", "c"], "v": pa.array([1, 2, 3, 4], pa.int64())})
    draft = store(location, [-5, 7, 7, 9], rows, compared=1, cuts=[1, 3])
    assert versions.publish(location, draft).version == 1
    manifest = versions.latest(location)
    versions.verify(location, manifest)

    opened = OpenTable(pickle.loads(pickle.dumps(location)), manifest)
    found = opened.find(pa.array([9, 7, 7, -5]), [pa.array(["c", "b", "x", "a"])])
    assert found.tolist() == [3, 1, -1, 0]
    assert opened.run_lengths(found).tolist() == [1, 2, 0, 1]
    assert opened.gather(("v",), found)[0].to_pylist() == [4, 2, None, 1]

    location.remove(manifest.segments[1].name.rsplit("/", 1)[0])
    with pytest.raises(DamagedTableError, match="is missing"):
        versions.verify(location, manifest)


def test_a_second_version_of_a_remote_table_activates_later_and_can_be_vacuumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    location = StorageLocation.of(f"memory://{uuid.uuid4().hex}")
    first = versions.publish(location, numbered(location, 1))
    second = versions.publish(location, numbered(location, 2))
    # Other hosts list an object store later than this one writes to it.
    assert second.activates_at_us - second.created_at_us >= 1_000_000
    OpenTable(location, first)
    assert copies_in(tmp_path) != []
    assert versions.vacuum(location, 1 << 62, keep=1) == [1]
    assert {location.size(name) for name, _, _ in first.files} == {None}
    assert copies_in(tmp_path) == []
    versions.verify(location, second)


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


class Older(Exclusive):
    """The same, of the time before fsspec could write exclusively."""

    protocol = "older"

    def pipe_file(self, path: str, value: bytes, **named: Any) -> None:
        assert not named
        super().pipe_file(path, value)


class Refusing(Exclusive):
    """The same on a store that does not know how."""

    protocol = "refusing"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        if mode == "create":
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


@pytest.mark.parametrize("kind", [Exclusive, Older, Refusing, Repeating, Failing])
def test_of_two_that_create_a_file_at_once_one_does(kind: type[Exclusive]) -> None:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    location = StorageLocation.of(f"{kind.protocol}://{uuid.uuid4().hex}")
    exclusive = kind not in (Older, Refusing)
    assert location.create("versions/1", b"one")
    assert location.create("versions/1", b"other") is not exclusive
    assert location.read("versions/1") == (b"one" if exclusive else b"other")


def test_what_keeps_a_file_from_being_written_is_an_error() -> None:
    class ReadOnly(Exclusive):
        protocol = "readonly"

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
            raise PermissionError(path)

    fsspec.register_implementation("readonly", ReadOnly, clobber=True)
    location = StorageLocation.of(f"readonly://{uuid.uuid4().hex}")
    with pytest.raises(StoreAccessError):
        location.create("versions/1", b"one")


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


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA123:s3cr3t@bucket/table",
        "sftp://user:s3cr3t@host/table",
        "simplecache::ftp://user:s3cr3t@host/table",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(StoreError, match="environment") as caught:
        StorageLocation.of(url)
    assert "s3cr3t" not in str(caught.value)
    assert "AKIA123" not in str(caught.value)


def test_a_container_of_azure_is_no_credential() -> None:
    url = "abfss://container@account.dfs.core.windows.net/table"
    assert StorageLocation.of(url).url == url


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_is_named(tmp_path: Path, code: str) -> None:
    location = StorageLocation.of(tmp_path)
    number = getattr(errno, code)
    with pytest.raises(StoreFullError, match="no space left") as caught, location.writing("data/x"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("code", ["EACCES", "EPERM", "EROFS"])
def test_a_denied_path_is_named(tmp_path: Path, code: str) -> None:
    location = StorageLocation.of(tmp_path)
    number = getattr(errno, code)
    with pytest.raises(StoreAccessError, match="permission to read and write") as caught:  # noqa: SIM117
        with location.writing("data/x"):
            raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(InterruptedError), StorageLocation.of(tmp_path).writing("data/x"):
        raise InterruptedError(errno.EINTR, "interrupted")
