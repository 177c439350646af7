"""The home of a table: one contract for a local folder and for any fsspec URL."""

from __future__ import annotations

import concurrent.futures
import errno
import io
import os
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from stored_tables import numbered, store

from bsjoin.cache.table import OpenTable
from bsjoin.errors import DamagedTableError, StoreAccessError, StoreError, StoreFullError
from bsjoin.store import Home, versions
from bsjoin.store.checksums import checksum


@pytest.fixture(params=["local", "file URL", "memory", "local URL"])
def home(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Home]:
    """An empty home; the copies of a remote one go to a folder of the test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # memory:// has no folders, as object stores have none; local:// has, as SFTP or HDFS.
    urls = {
        "local": str(tmp_path / "a table"),
        "file URL": f"file://{tmp_path}/table",
        "memory": f"memory://bucket-{uuid.uuid4().hex}/table/",
        "local URL": f"local://{tmp_path}/table",
    }
    yield Home.of(urls[request.param])
    fsspec.filesystem("memory").store.clear()


def mapped(home: Home, content: bytes) -> bytes:
    found = home.map("data/x/rows", len(content), checksum(io.BytesIO(content)))
    return bytes(found.read())


def copies_in(folder: Path) -> list[Path]:
    return list(folder.glob("bsjoin-*/copies-*/copy-*"))


def test_which_homes_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home.of("table").url == str(tmp_path / "table")
    assert Home.of(Path("table")) == Home.of("table")
    assert Home.of("~/table").url == str(Path.home() / "table")
    assert Home.of(f"file://{tmp_path}/table").url == str(tmp_path / "table")
    assert Home.of("file:///x").is_local
    assert not Home.of("s3://bucket/table").is_local
    assert Home.of("s3://bucket/table/") == Home.of("s3://bucket/table")


def test_a_file_is_created_whole_and_once(home: Home) -> None:
    assert home.create("versions/1.json", b"first")
    assert not home.create("versions/1.json", b"second")
    assert home.read("versions/1.json") == b"first"
    assert home.size("versions/1.json") == 5
    assert home.names("versions") == ["1.json"]


def test_what_is_missing_has_no_names_no_size_and_no_content(home: Home) -> None:
    assert home.names("versions") == []
    assert home.size("versions/1.json") is None
    with pytest.raises(FileNotFoundError):
        home.read("versions/1.json")
    home.remove("versions/1.json")
    home.remove("versions")


def test_names_are_sorted_and_stay_in_their_folder(home: Home) -> None:
    for name in ("data/b/y", "data/b/x", "data/a/z", "versions/2", "versions/1"):
        assert home.create(name, b"")
    assert home.names("versions") == ["1", "2"]
    assert home.names("data") == ["a", "b"]
    assert home.names("data/b") == ["x", "y"]


def test_names_see_what_another_process_has_added_since(home: Home) -> None:
    home.create("versions/1", b"")
    other = pickle.loads(pickle.dumps(home))
    assert home.names("versions") == other.names("versions") == ["1"]
    other.create("versions/2", b"")
    assert home.names("versions") == ["1", "2"]


def test_a_large_file_is_written_locally_and_mapped_as_a_local_file(home: Home) -> None:
    with home.writing("data/x/rows") as path:
        path.write_bytes(b"abc")
    assert mapped(home, b"abc") == b"abc"
    assert mapped(home, b"abc") == b"abc"
    assert home.size("data/x/rows") == 3


def test_fetching_what_is_missing_does_not_leave_a_file(home: Home, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        mapped(home, b"abc")
    assert copies_in(tmp_path) == []


def test_removing_a_folder_removes_this_hosts_copies_too(home: Home, tmp_path: Path) -> None:
    with home.writing("data/x/rows") as path:
        path.write_bytes(b"abc")
    assert mapped(home, b"abc") == b"abc"
    assert home.is_local or len(copies_in(tmp_path)) == 1
    home.remove("data/x")
    assert home.size("data/x/rows") is None
    assert copies_in(tmp_path) == []
    assert home.names("data/x") == []


def test_removing_a_file_removes_this_hosts_copy_of_it(home: Home, tmp_path: Path) -> None:
    with home.writing("data/x/rows") as path:
        path.write_bytes(b"abc")
    assert mapped(home, b"abc") == b"abc"
    home.remove("data/x/rows")
    assert home.size("data/x/rows") is None
    assert copies_in(tmp_path) == []


def test_making_a_home_leaves_nothing_in_it(home: Home) -> None:
    home.make()
    home.make()
    assert home.names("") == []


def test_a_home_travels_and_compares_by_its_url(home: Home) -> None:
    home.create("versions/1", b"")  # opens what it needs to
    again = pickle.loads(pickle.dumps(home))
    assert again == home
    assert hash(again) == hash(home)
    assert str(again) == home.url
    assert again.names("versions") == ["1"]


def test_a_home_does_not_carry_the_credentials_it_was_opened_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "memory", {"token": "s3cr3t"})
    home = Home.of(f"memory://{uuid.uuid4().hex}")
    home.create("versions/1", b"")
    assert b"s3cr3t" not in pickle.dumps(home)


def test_only_one_of_many_threads_creates_a_local_file(tmp_path: Path) -> None:
    home = Home.of(tmp_path)
    contents = [bytes([i]) * 10_000 for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda content: home.create("versions/1", content), contents))
    assert won.count(True) == 1
    assert home.read("versions/1") == contents[won.index(True)]
    assert home.names("versions") == ["1"]


def test_a_whole_table_lives_in_any_home(home: Home) -> None:
    home.make()
    rows = pa.table({"k0": ["a", "b", "b", "c"], "v": pa.array([1, 2, 3, 4], pa.int64())})
    draft = store(home, [-5, 7, 7, 9], rows, compared=1, cuts=[1, 3])
    assert versions.publish(home, draft).version == 1
    manifest = versions.latest(home)
    versions.verify(home, manifest)

    opened = OpenTable(pickle.loads(pickle.dumps(home)), manifest)
    found = opened.find(pa.array([9, 7, 7, -5]), [pa.array(["c", "b", "x", "a"])])
    assert found.tolist() == [3, 1, -1, 0]
    assert opened.run_lengths(found).tolist() == [1, 2, 0, 1]
    assert opened.gather(("v",), found)[0].to_pylist() == [4, 2, None, 1]

    home.remove(manifest.segments[1].name.rsplit("/", 1)[0])
    with pytest.raises(DamagedTableError, match="is missing"):
        versions.verify(home, manifest)


def test_a_second_version_of_a_remote_table_activates_later_and_can_be_vacuumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    home = Home.of(f"memory://{uuid.uuid4().hex}")
    first = versions.publish(home, numbered(home, 1))
    second = versions.publish(home, numbered(home, 2))
    # Other hosts list an object store later than this one writes to it.
    assert second.activates_at_us - second.created_at_us >= 1_000_000
    OpenTable(home, first)
    assert copies_in(tmp_path) != []
    assert versions.vacuum(home, 1 << 62, keep=1) == [1]
    assert {home.size(name) for name, _, _ in first.files} == {None}
    assert copies_in(tmp_path) == []
    versions.verify(home, second)


def test_verify_notices_damage_of_a_remote_file_that_this_host_has_a_copy_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = Home.of(f"memory://{uuid.uuid4().hex}")
    manifest = versions.publish(home, numbered(home, 1))
    versions.verify(home, manifest)
    name, size, _ = manifest.files[0]
    fsspec.filesystem("memory").pipe_file(
        f"{home.url.removeprefix('memory:/')}/{name}", b"x" * size
    )
    assert home.read(name) == b"x" * size
    with pytest.raises(DamagedTableError, match="checksum"):
        versions.verify(home, manifest)


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
        Home.of(url)
    assert "s3cr3t" not in str(caught.value)
    assert "AKIA123" not in str(caught.value)


def test_a_container_of_azure_is_no_credential() -> None:
    url = "abfss://container@account.dfs.core.windows.net/table"
    assert Home.of(url).url == url


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_is_named(tmp_path: Path, code: str) -> None:
    home = Home.of(tmp_path)
    number = getattr(errno, code)
    with pytest.raises(StoreFullError, match="no space left") as caught, home.writing("data/x"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("code", ["EACCES", "EPERM", "EROFS"])
def test_a_denied_path_is_named(tmp_path: Path, code: str) -> None:
    home = Home.of(tmp_path)
    number = getattr(errno, code)
    with pytest.raises(StoreAccessError, match="right to read and write") as caught:  # noqa: SIM117
        with home.writing("data/x"):
            raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(InterruptedError), Home.of(tmp_path).writing("data/x"):
        raise InterruptedError(errno.EINTR, "interrupted")


def test_an_array_fetched_from_a_remote_home_is_memory_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = Home.of(f"memory://{uuid.uuid4().hex}")
    manifest = numbered(home, 3, rows=100_000)
    before = pa.total_allocated_bytes()
    opened = OpenTable(home, manifest)
    assert pa.total_allocated_bytes() - before < 100_000
    assert opened.gather(("v",), np.array([99_999]))[0].to_pylist() == [3]
