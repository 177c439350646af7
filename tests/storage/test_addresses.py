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
    assert SECRET not in str(caught.value)
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


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_scheme_whose_package_is_missing_is_an_error_that_says_what_to_do(step: int) -> None:
    remedies = ("pip install", "install the package", "write ", "not mounted", "libhdfs")
    for scheme in [*filter(_is_missing, SCHEMES)][::step]:
        package = addresses._PACKAGES.get(scheme, "")
        url, cached = f"{scheme}://bucket/table?token={SECRET}", f"simplecache::{scheme}://b/t"
        for call in (
            lambda url=cached: StorageLocation.of(url).make(),
            lambda url=url: BatchTable.open(url),
            lambda url=url: sources.parquet(url).schema,
        ):
            message = refused(call)
            assert any(remedy in message for remedy in remedies), url
            assert f"pip install {package}" in message or not package, url
    assert os.listdir() == []


def test_what_looks_like_another_place_is_an_error() -> None:
    for text, reason in (
        ("s3:bucket/table", "begins with s3://"),
        ("viewfs:/table", "begins with viewfs://"),
        (f"gs:/me:{SECRET}@bucket/table", "begins with gs://"),
        ("file:table", "file:///folder"),
        (f"file://me:{SECRET}@host/table", "file:///folder"),
        ("dbfs:table", "write dbfs:/folder"),
        ("dbfs:/table", "not mounted"),
        (r"C:\data\table", "path of Windows"),
        ("c:/data/table", "path of Windows"),
        (r"\\server\share", "path of Windows"),
        ("", "folder or a URL"),
        ("s3://", "is a URL without a folder"),
        ("hdfs:///", "is a URL without a folder"),
        ("://bucket/table", "is a URL without a scheme"),
    ):
        assert reason in refused(lambda text=text: StorageLocation.of(text))
        with pytest.raises(ArgumentError):
            sources.parquet(text)
        assert reason in refused(lambda text=text: sources.parquet(text))
    for url in ("memory://t", "simplecache::memory://t"):
        assert "memory of one process" in refused(lambda url=url: BatchTable.open(url))
    assert os.listdir() == []


def test_credentials_are_refused_and_not_repeated() -> None:
    for url in (
        f"s3://AKIA123:{SECRET}@bucket/table",
        f"sftp://user:{SECRET}@host/table",
        f"simplecache::ftp://user:{SECRET}@host/table",
    ):
        message = refused(lambda url=url: StorageLocation.of(url))
        assert "environment" in message
        assert "AKIA123" not in message
    # A container of Azure is none.
    url = "abfss://container@account.dfs.core.windows.net/table"
    assert StorageLocation.of(url).url == url


def test_which_places_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert StorageLocation.of("table").url == str(tmp_path / "table")
    assert StorageLocation.of(Path("table")) == StorageLocation.of("table")
    assert StorageLocation.of("~/table").url == str(Path.home() / "table")
    for text in ("file:/a b/t", "file:///a b/t", "FILE:///a b/t", "file://localhost/a b/t"):
        assert StorageLocation.of(text).url == "/a b/t"
    assert StorageLocation.of("file:///a%20b").url == "/a%20b"  # as Spark reads it
    for text in ("run:1", "a/s3://b", "./s3:t", "2024-01-01T10:00:00"):
        assert StorageLocation.of(text).url == str(Path(text).absolute())
    assert StorageLocation.of("file:///x").is_local
    assert not StorageLocation.of("s3://bucket/table").is_local
    assert StorageLocation.of("s3://bucket/table/") == StorageLocation.of("s3://bucket/table")
    # DBFS is the folder where it is mounted.
    monkeypatch.setattr(addresses, "_DBFS", tmp_path / "dbfs")
    texts = "dbfs:/a/t", "dbfs:///a/t", "DBFS:/a/t", str(tmp_path / "dbfs/a/t")
    for text in texts:
        assert "not mounted" in refused(lambda text=text: StorageLocation.of(text))
    (tmp_path / "dbfs").mkdir()
    for text in texts:
        assert StorageLocation.of(text).url == str(tmp_path / "dbfs/a/t")


def test_hdfs_without_its_library_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(url: str) -> None:
        raise OSError("Unable to load libhdfs: no such file")

    monkeypatch.setattr(addresses.fsspec.core, "url_to_fs", no_library)
    message = refused(lambda: StorageLocation.of("hdfs://namenode/t").names(""))
    assert "CLASSPATH" in message
    assert "webhdfs://" in message
