"""Paths and URLs of users: a local path, or a URL that fsspec opens.

Spark finds its files by Hadoop's file systems, which live in the JVM. The Python workers, and the
processes that copy files for the JVM, reach no JVM: they use fsspec. So a URL of Hadoop's is
translated where fsspec has the same place under another name; otherwise it is an error that says
what to install or to write. It never becomes a local folder of that name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import fsspec.core

from bsjoin._secrets import hidden
from bsjoin.errors import StoreError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_DRIVE = re.compile(r"[A-Za-z]:([\\/]|$)|\\\\")
_USERINFO = re.compile(r"^([A-Za-z][\w+.-]*:/*[^/\s:@]*):\S*@")
_DBFS = Path("/dbfs")
_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs",
    "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
    "oci": "ocifs", "oss": "ossfs", "tos": "tosfs", "hf": "huggingface_hub",
    "sftp": "paramiko", "ssh": "paramiko", "smb": "smbprotocol", "webdav": "webdav4",
    "webhdfs": "requests", "http": "aiohttp requests", "https": "aiohttp requests",
    "lakefs": "lakefs-spec", "box": "boxfs", "wandb": "wandbfs",
}  # fmt: skip
_NO_DBFS = (
    "DBFS is not mounted here at /dbfs, the only way to it for Python: give a volume of Unity "
    "Catalog (/Volumes/catalog/schema/volume/folder), a cloud URL such as s3://bucket/folder or "
    "abfss://container@account.dfs.core.windows.net/folder, or a local folder"
)
_LIBHDFS = (
    "hdfs:// needs Hadoop's libhdfs in every process: set JAVA_HOME, HADOOP_HOME and CLASSPATH "
    "(the output of `hadoop classpath --glob`) for the driver and all executors, or give "
    "webhdfs://namenode:9870/folder, which needs only `pip install requests`"
)
_ELSEWHERE = {
    "s3n": "write s3://bucket/folder",
    "wasb": "write abfs://container@account.dfs.core.windows.net/folder (pip install adlfs)",
    "wasbs": "write abfss://container@account.dfs.core.windows.net/folder (pip install adlfs)",
    "viewfs": "write where the mount point leads, such as hdfs://namenode:8020/folder or "
    "webhdfs://namenode:9870/folder",
    "swebhdfs": "write webhdfs://namenode:9871/folder, and set use_https in fsspec's configuration",
    "cosn": "write s3://bucket/folder with COS's endpoint_url in fsspec's configuration "
    "(pip install s3fs)",
    "obs": "write s3://bucket/folder with OBS's endpoint_url in fsspec's configuration "
    "(pip install s3fs)",
}
_HADOOP = {*_ELSEWHERE, "hdfs", "dbfs", "file", "ofs", "o3fs", "har", "adl", "gs", "s3", "s3a"}


def address_of(path: str | os.PathLike[str]) -> str:
    """A local path made absolute, or a URL with its scheme in lower case.

    ``file:`` in all of its forms is a local path, as is ``dbfs:/`` where Databricks mounts it.

    Raises:
        StoreError: it is neither, or leads to a place that is not there.

    Example:
        >>> address_of("file:///data/customers"), address_of("S3://bucket/customers/")
        ('/data/customers', 's3://bucket/customers')
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise StoreError(f"{text!r} is a path in bytes: give a text")
    if "\0" in text:
        raise StoreError(f"{_shown(text)!r}: a path must not contain the character NUL")
    if not text:
        raise StoreError("'' is no path: give a folder or a URL; the current folder is '.'")
    if os.name != "nt" and _DRIVE.match(text):
        raise StoreError(
            f"{text!r} is a path of Windows, and this is another system: give a path of this "
            "system, or a URL such as s3://bucket/folder"
        )
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest = text[found.end() :] if found else text
    if scheme == "file":
        return _file(text, rest)
    if scheme == "dbfs":
        return _dbfs(text, rest)
    if rest.startswith("//") and found and rest.strip("/"):
        return f"{scheme}:{rest}".rstrip("/")
    if text.startswith("://") or (rest.startswith("//") and found):
        raise StoreError(
            f"{_shown(text)!r} is a URL without {'a folder' if found else 'a scheme'}: give one "
            "such as s3://bucket/folder"
        )
    if rest.startswith(":") and "://" in rest.rstrip("/"):  # of fsspec's: simplecache::s3://bucket
        return text.rstrip("/")
    if found and (rest.startswith("/") or scheme in _HADOOP or scheme in _PACKAGES):
        raise StoreError(
            f"{_shown(text)!r} is neither a local path nor a URL: a URL begins with "
            f"{scheme}://. For a local folder of that name write ./{_shown(text)}"
        )
    return _local(text)


def _file(text: str, rest: str) -> str:
    """The path of a ``file:`` URL; as Hadoop does, nothing in it is decoded."""
    host, slash, path = rest.removeprefix("//").partition("/") if rest[:2] == "//" else ("", "", "")
    if rest.startswith("//") and (host not in ("", "localhost") or not slash):
        raise StoreError(
            f"{_shown(text)!r} names a host: a file URL has none, or localhost: write file:///folder"
        )
    if not rest.startswith("/"):
        raise StoreError(f"{_shown(text)!r} has no absolute path: write file:///folder")
    return _local(f"/{path}" if rest.startswith("//") else rest)


def _dbfs(text: str, rest: str) -> str:
    path = _DBFS / rest.lstrip("/")
    if not rest.startswith("/") or (rest.startswith("//") and not rest.startswith("///")):
        raise StoreError(f"{_shown(text)!r} has no absolute path: write dbfs:/folder")
    return _local(str(path))


def _local(text: str) -> str:
    try:
        os.fsencode(text)
        path = Path(text).expanduser().absolute()
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(f"{text!r} cannot be the path of a folder: {error}") from None
    if path.is_relative_to(_DBFS) and not _DBFS.exists():
        raise StoreError(f"{_shown(str(path))!r}: {_NO_DBFS}")
    return str(path)


def _shown(text: str) -> str:
    """Return a text that is no URL as errors show it: what looks like a password is starred out."""
    return _USERINFO.sub(r"\1:***@", hidden(text))


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path of its folder in it.

    Raises:
        StoreError: fsspec does not know the scheme, or its package is missing; the error says
            which.
    """
    for part in url.split("::"):
        if "://" in part:
            _check_known(url, part.partition("://")[0])
    try:
        fs, root = fsspec.core.url_to_fs(url)
    except OSError as error:
        if url.startswith("hdfs:") and re.search("libhdfs|libjvm", str(error)):
            raise StoreError(f"{hidden(url)!r}: {_LIBHDFS}") from None
        raise
    return fs, str(root)


def _check_known(url: str, scheme: str) -> None:
    if scheme == "dbfs":  # fsspec's needs an access token, and only URLs could carry it
        raise StoreError(f"{hidden(url)!r}: {_NO_DBFS}")
    try:
        fsspec.get_filesystem_class(scheme)
        return
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())
    where = f"{hidden(url)!r} cannot be used"
    if scheme in _ELSEWHERE:
        raise StoreError(f"{where}: fsspec knows no {scheme}://: {_ELSEWHERE[scheme]}")
    if scheme in _PACKAGES:
        raise StoreError(
            f"{where}: pip install {_PACKAGES[scheme]} for the driver and, in the same version, "
            f"for the Python of all executors ({reason})"
        )
    if scheme == "hdfs":
        raise StoreError(f"{where}: {_LIBHDFS} ({reason})")
    raise StoreError(
        f"{where}: fsspec, by which the driver and the workers reach their files, has no "
        f"{scheme}://: install the package that adds it for the driver and all executors, or "
        f"give another URL of the place, or a folder that all of them mount ({reason})"
    )
