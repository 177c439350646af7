"""The folder a table lives in: a local path, or any fsspec URL with a local copy of what is used.

Everything that touches a file system goes through :class:`Home`, so the rest of the store
thinks in names relative to the table and in plain local files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import fsspec
import fsspec.core

from bsjoin.errors import StoreAccessError, StoreError, StoreFullError

__all__ = ["Home"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


@dataclass(frozen=True)
class Home:
    """The home of a table; small, picklable, the same on the driver and on every worker.

    Args:
        url: a local path or an fsspec URL (``s3://bucket/table``). Credentials belong into
            the environment or fsspec's configuration, never into the URL.
    """

    url: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Home:
        """Take a path or URL as a user gives it; local paths become absolute."""
        text = os.fspath(path)
        if text.startswith("file:/") and not text.startswith("file://"):
            text = "file://" + text.removeprefix("file:")
        if "://" not in text:
            if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text):
                raise StoreError(
                    f"{text!r} is neither a local path nor a URL: a URL begins with scheme://"
                )
            return cls(str(Path(text).expanduser().absolute()))
        if text.startswith("file://"):
            return cls(text.removeprefix("file://"))
        if ":" in _user_info(text):
            raise StoreError(
                "a store's URL must not carry credentials: give them to fsspec through the "
                "environment or its configuration file"
            )
        return cls(text.rstrip("/"))

    def __reduce__(self) -> tuple[type[Home], tuple[str]]:
        # Not what fsspec has opened: that may carry credentials.
        return Home, (self.url,)

    def __str__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        """Whether the files can be memory-mapped where they lie."""
        return "://" not in self.url

    @cached_property
    def _remote(self) -> tuple[Any, str]:
        fs, root = fsspec.core.url_to_fs(self.url)
        return fs, root

    def _path(self, name: str) -> Path:
        return Path(self.url, name)

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none where the folder is missing."""
        with self._errors(f"list {folder!r}"):
            if self.is_local:
                try:
                    return sorted(os.listdir(self._path(folder)))
                except FileNotFoundError:
                    return []
            fs, root = self._remote
            fs.invalidate_cache(f"{root}/{folder}")
            try:
                found = fs.ls(f"{root}/{folder}", detail=False)
            except FileNotFoundError:
                return []
            return sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in found)

    def read(self, name: str) -> bytes:
        """The bytes of a small file. Raises FileNotFoundError where it is missing."""
        with self._errors(f"read {name!r}"):
            if self.is_local:
                return self._path(name).read_bytes()
            fs, root = self._remote
            return bytes(fs.cat_file(f"{root}/{name}"))

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file under its final name at once and whole, unless it exists.

        Returns:
            False where the name was taken: nothing is written then.
        """
        with self._errors(f"write {name!r}"):
            if not self.is_local:
                fs, root = self._remote
                if fs.exists(f"{root}/{name}"):
                    return False
                self._make_parents(name)
                fs.pipe_file(f"{root}/{name}", content)
                return True
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            try:
                with hidden.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(hidden, path)
            except FileExistsError:
                return False
            finally:
                hidden.unlink(missing_ok=True)
            return True

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A local path to write a large file to; it reaches the home when the block ends."""
        with self._errors(f"write {name!r}"):
            if self.is_local:
                path = self._path(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                yield path
                return
            with tempfile.TemporaryDirectory(prefix="bsjoin-upload-") as folder:
                path = Path(folder, "file")
                yield path
                fs, root = self._remote
                self._make_parents(name)
                fs.put_file(str(path), f"{root}/{name}")

    def _make_parents(self, name: str) -> None:
        """Make the folders above a remote file; object stores need none and make none."""
        fs, root = self._remote
        fs.makedirs(f"{root}/{name}".rsplit("/", 1)[0], exist_ok=True)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        """A file of the home itself, never a copy, open for reading."""
        with self._errors(f"read {name!r}"):
            if self.is_local:
                with self._path(name).open("rb") as file:
                    yield file
                return
            fs, root = self._remote
            with fs.open(f"{root}/{name}", "rb") as file:
                yield file

    def fetch(self, name: str) -> Path:
        """A local file with the content: the file itself, or this host's copy of it.

        Copies are shared by all processes of the host; they lie in the temporary folder under
        a name made of the URL, and are complete as soon as they are visible.
        """
        if self.is_local:
            return self._path(name)
        copy = self.host_copies / name
        if not copy.exists():
            with self._errors(f"fetch {name!r}"):
                copy.parent.mkdir(parents=True, exist_ok=True)
                partial = copy.with_name(f".{copy.name}.{uuid.uuid4().hex}")
                fs, root = self._remote
                try:
                    fs.get_file(f"{root}/{name}", str(partial))
                    partial.replace(copy)
                finally:
                    partial.unlink(missing_ok=True)
        return copy

    @property
    def host_copies(self) -> Path:
        """Where this host keeps its copies of a remote table's files."""
        name = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        user = os.getuid() if hasattr(os, "getuid") else "user"
        return Path(tempfile.gettempdir(), f"bsjoin-copies-{user}", name)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None where it is missing."""
        with self._errors(f"look at {name!r}"):
            try:
                if self.is_local:
                    return self._path(name).stat().st_size
                fs, root = self._remote
                return int(fs.size(f"{root}/{name}"))
            except FileNotFoundError:
                return None

    def age_s(self, name: str) -> float | None:
        """Seconds since a local file or folder was last changed; None where unknown."""
        if not self.is_local:
            return None
        with contextlib.suppress(FileNotFoundError):
            return time.time() - self._path(name).stat().st_mtime
        return None

    def remove(self, name: str) -> None:
        """Remove a file or folder, and this host's copies of it; fine where it is missing."""
        with self._errors(f"remove {name!r}"):
            if self.is_local:
                path = self._path(name)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
                return
            copy = self.host_copies / name
            if copy.is_file():
                copy.unlink(missing_ok=True)
            shutil.rmtree(copy, ignore_errors=True)
            fs, root = self._remote
            with contextlib.suppress(FileNotFoundError):
                fs.rm(f"{root}/{name}", recursive=True)

    def make(self) -> None:
        """Create the folder, and find out now whether it can be written to."""
        probe = f".writable-{uuid.uuid4().hex}"
        with self._errors("create the folder"), self.writing(probe) as path:
            path.write_bytes(b"")
        self.remove(probe)

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn the operating system's errors into ours; a missing file stays what it is."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFullError(
                    f"cannot {doing} in {self.url!r}: no space left on the device. "
                    "Nothing half-built is visible; free space or choose another store path"
                ) from error
            if error.errno in _DENIED:
                raise StoreAccessError(
                    f"cannot {doing} in {self.url!r}: {error.strerror}. "
                    "It must be a folder (or not be there yet), and the process needs the right "
                    "to read and write in it"
                ) from error
            raise


def _user_info(url: str) -> str:
    """What stands before the @ in the first part of a URL."""
    authority = url.split("://", 1)[1].split("/", 1)[0]
    return authority.rpartition("@")[0]
