"""Paths and URLs as users write them: a place, or an error; never a local folder of that name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin import BatchTable, sources
from bsjoin.errors import ArgumentError, BSJoinError, StoreError
from bsjoin.storage import StorageLocation, addresses

SCHEMES = (
    "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "adl", "wasb", "wasbs", "hdfs",
    "viewfs", "webhdfs", "swebhdfs", "dbfs", "ofs", "o3fs", "har", "oss", "cosn", "obs", "oci",
    "alluxio", "hf", "sftp", "smb", "nosuchscheme",
)  # fmt: skip
SECRET = "s3cr3t"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is where a local folder of a URL's name would come to be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(addresses, "_DBFS", tmp_path / "no dbfs")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(BSJoinError) as caught:
        call()
    return str(caught.value)


@given(
    scheme=st.sampled_from(SCHEMES),
    upper=st.booleans(),
    slashes=st.sampled_from(["/", "//", "///"]),
    rest=st.sampled_from(["bucket/table", "host:8020/a/b", "c@account.host/t", "t?token=s3cr3t"]),
)
def test_a_url_is_never_a_local_folder(scheme: str, upper: bool, slashes: str, rest: str) -> None:
    text = f"{scheme.upper() if upper else scheme}:{slashes}{rest}"
    refusal, location = "", None
    try:
        location = StorageLocation.of(text)
    except StoreError as error:
        refusal = str(error)
    assert SECRET not in refusal
    assert location is None or (not location.is_local and location.url.startswith(f"{scheme}://"))


def _is_missing(scheme: str) -> bool:
    packages = addresses._PACKAGES.get(scheme, "").split()
    return not packages or not all(importlib.util.find_spec(name) for name in packages)


@pytest.mark.parametrize("scheme", [*filter(_is_missing, SCHEMES)])
def test_a_scheme_whose_package_is_missing_is_an_error_that_says_what_to_do(scheme: str) -> None:
    package = addresses._PACKAGES.get(scheme, "")
    for url in (f"{scheme}://bucket/table?token={SECRET}", f"simplecache::{scheme}://b/t"):
        for call in (
            lambda url=url: StorageLocation.of(url).make(),
            lambda url=url: BatchTable.open(url),
            lambda url=url: sources.parquet(url).schema,
        ):
            message = refused(call)
            assert SECRET not in message
            remedies = ("pip install", "install the package", "write ", "not mounted", "libhdfs")
            assert any(remedy in message for remedy in remedies)
            assert f"pip install {package}" in message or not package
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s3:bucket/table", "begins with s3://"),
        ("hdfs:table", "begins with hdfs://"),
        ("viewfs:/table", "begins with viewfs://"),
        (f"gs:/me:{SECRET}@bucket/table", "begins with gs://"),
        ("file:table", "file:///folder"),
        ("file://table", "file:///folder"),
        (f"file://me:{SECRET}@host/table", "file:///folder"),
        ("dbfs:table", "write dbfs:/folder"),
        ("dbfs://table", "write dbfs:/folder"),
        ("dbfs:/table", "not mounted"),
        (r"C:\data\table", "path of Windows"),
        ("c:/data/table", "path of Windows"),
        (r"\\server\share", "path of Windows"),
        (f"s3://me:{SECRET}@bucket/table", "environment"),
    ],
)
def test_what_looks_like_another_place_is_an_error(text: str, reason: str) -> None:
    assert reason in refused(lambda: StorageLocation.of(text))
    assert SECRET not in refused(lambda: StorageLocation.of(text))
    if (
        SECRET not in text or "gs:" in text or "file:" in text
    ):  # a source's URL may have credentials
        with pytest.raises(ArgumentError) as caught:
            sources.parquet(text)
        assert reason in str(caught.value)
        assert SECRET not in str(caught.value)
    assert os.listdir() == []


def test_dbfs_is_the_folder_where_it_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_DBFS", tmp_path / "dbfs")
    for text in ("dbfs:/a/t", "dbfs:///a/t", "DBFS:/a/t", str(tmp_path / "dbfs/a/t")):
        assert "not mounted" in refused(lambda text=text: StorageLocation.of(text))
    (tmp_path / "dbfs").mkdir()
    for text in ("dbfs:/a/t", "dbfs:///a/t", "DBFS:/a/t", str(tmp_path / "dbfs/a/t")):
        assert StorageLocation.of(text).url == str(tmp_path / "dbfs/a/t")


def test_a_file_url_is_a_local_path_in_all_of_its_forms() -> None:
    for text in ("file:/a b/t", "file:///a b/t", "FILE:///a b/t", "file://localhost/a b/t"):
        assert StorageLocation.of(text).url == "/a b/t"
    assert StorageLocation.of("file:///a%20b").url == "/a%20b"  # as Spark reads it


def test_a_local_path_may_look_a_little_like_a_url() -> None:
    for text in ("run:1", "a/s3://b", "./s3:t", "2024-01-01T10:00:00"):
        assert StorageLocation.of(text).url == str(Path(text).absolute())


def test_the_memory_of_a_process_is_no_place_for_a_table() -> None:
    for url in ("memory://t", "simplecache::memory://t"):
        assert "memory of one process" in refused(lambda url=url: BatchTable.open(url))


def test_hdfs_without_its_library_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(url: str) -> None:
        raise OSError("Unable to load libhdfs: no such file")

    monkeypatch.setattr(addresses.fsspec.core, "url_to_fs", no_library)
    message = refused(lambda: StorageLocation.of("hdfs://namenode/t").names(""))
    assert "CLASSPATH" in message
    assert "webhdfs://" in message
