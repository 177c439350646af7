"""The folder of a table: a local path, or an fsspec URL with local copies of the files in use.

All access to a file system goes through :class:`StorageLocation`; the rest of the store uses names
relative to the table and local files. The content of the folder is not trusted: no name in it can
refer to a file outside of the folder (:mod:`bsjoin.storage.names`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from bsjoin._secrets import hidden
from bsjoin.errors import DamagedTableError, StoreAccessError, StoreError, StoreFullError
from bsjoin.host import is_of_one_machine, temporary_folder
from bsjoin.storage.addresses import address_of
from bsjoin.storage.checksums import Readable
from bsjoin.storage.copies import HostCopies
from bsjoin.storage.names import check_inside, is_plain
from bsjoin.storage.remote import RemoteFiles

_log = logging.getLogger("bsjoin")

T = TypeVar("T")

Stamp = tuple[object, ...]
"""What tells a file from a later one of its name."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOTSUP,
}  # fmt: skip
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
_LARGEST = 1 << 30
_FLUSHED_AT_ONCE = 8
_PROBE = ".writable-"
# What file systems of fsspec call the tag and the times of a file.
_TELLING = (
    "ETag", "etag", "generation", "LastModified", "last_modified", "updated", "mtime",
    "modificationTime", "modify", "created",
)  # fmt: skip


@dataclass(frozen=True)
class StorageLocation:
    """The location of a table; small, picklable, the same on the driver and on every worker.

    ``str`` and ``repr`` hide the secrets in the URL; the pickled form contains them, for the
    workers.

    Args:
        url: a local path or an fsspec URL (``s3://bucket/table``). Put credentials into the
            environment or fsspec's configuration, never into the URL.
        is_shared: whether other machines have the folder, even if it is on a disk of this one.
            Default False: whether they can is seen by its file system.

    Example:
        >>> location = StorageLocation.of("/data/customers")
        >>> location.is_local, str(location)
        (True, '/data/customers')
    """

    url: str
    is_shared: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> StorageLocation:
        """The location of a user's path or URL; local paths become absolute.

        Raises:
            StoreError: the path or URL is invalid, or the URL contains credentials.
        """
        url = address_of(path)
        if "://" not in url:
            return cls(url)
        if any(":" in _user_info(part) for part in url.split("::") if "://" in part):
            raise StoreError(
                "a store's URL must not carry credentials: give them to fsspec through the "
                "environment or its configuration file"
            )
        return cls(url)

    def __reduce__(self) -> tuple[type[StorageLocation], tuple[str, bool]]:
        # Without the open file system of fsspec, which may hold credentials.
        return StorageLocation, (self.url, self.is_shared)

    def __str__(self) -> str:
        return hidden(self.url)

    def __repr__(self) -> str:
        return f"StorageLocation({str(self)!r})"

    def check_shared(self) -> None:
        """Refuse a location that only this process sees.

        Raises:
            StoreError: it is in the memory of a process.
        """
        if any(part.startswith("memory:") for part in self.url.split("::")):
            raise StoreError(
                f"{str(self)!r} is in the memory of one process, and Spark's workers are others: "
                "give a local folder, or a URL that all of them reach"
            )

    @property
    def is_local(self) -> bool:
        """Whether the files are local and can be memory-mapped directly."""
        return "://" not in self.url

    @property
    def is_of_one_machine(self) -> bool:
        """Whether no other machine can have the files: all who read them have one clock."""
        return self.is_local and not self.is_shared and is_of_one_machine(self.url)

    @cached_property
    def _remote(self) -> RemoteFiles:
        return RemoteFiles(self.url)

    def _path(self, name: str) -> Path:
        self._check_plain(name)
        if name:
            check_inside(self.url, name)
        return Path(self.url, name)

    def _entry(self, name: str) -> Path:
        """The path of a file to remove: it may be a link to any place."""
        self._check_plain(name)
        folder, slash, last = name.rpartition("/")
        return self._path(folder) / last if slash else Path(self.url, name)

    def _url_of(self, name: str) -> str:
        """The path of a remote file or folder in its file system."""
        self._check_plain(name)
        return f"{self._remote.root}/{name}"

    def _check_plain(self, name: str) -> None:
        if name and not is_plain(name):
            raise StoreError(
                f"{name!r} is not the name of a file below {str(self)!r}: such names are made of "
                "letters, digits, dots, hyphens, underscores and slashes, and stay in the folder"
            )

    def names(self, folder: str) -> list[str]:
        """The plain names in a folder, sorted; none if the folder is missing."""
        return [*self.listed(folder)]

    def listed(self, folder: str) -> dict[str, Stamp | None]:
        """The plain names in a folder, sorted, with the stamps of remote files.

        None for a local file, see :meth:`stamp`, and where the store tells nothing of a file but
        its size.
        """
        found: dict[str, Stamp | None] = {}
        with self._errors(f"list {folder!r}"), contextlib.suppress(FileNotFoundError):
            if self.is_local:
                found = dict.fromkeys(os.listdir(self._path(folder)))
            else:
                found.update((name, stamp_of(one)) for name, one in self._entries(folder))
        return {name: found[name] for name in sorted(found) if is_plain(name)}

    def _entries(self, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The plain names in a remote folder, and what its file system tells of each."""
        for one in self._remote.ls(self._url_of(folder), detail=True):
            yield one["name"].rstrip("/").rsplit("/", 1)[-1], one

    def read(self, name: str, at_most: int = _LARGEST) -> bytes:
        """The content of the small file ``name``; of a larger file the first ``at_most + 1`` bytes.

        Some stores have no range of an empty file: use :meth:`size` of one that may be.

        Raises:
            FileNotFoundError: the file is missing.
        """
        with self._errors(f"read {name!r}"):
            if self.is_local:
                with self._path(name).open("rb") as file:
                    return file.read(at_most + 1)
            return bytes(self._remote.cat_file(self._url_of(name), start=0, end=at_most + 1))

    def create(self, name: str, content: bytes, in_time: Callable[[], bool] = lambda: True) -> bool:
        """Write ``content`` atomically to the small file ``name``, unless it exists.

        Of two processes that do so at the same moment one succeeds; where a store cannot write so
        (fsspec: exclusive write), both may, and the later content stays.

        Args:
            name: the file.
            content: its content.
            in_time: asked just before the file appears, which may be long after the call; the
                default is always in time.

        Returns:
            Whether it was written; False if the name exists, or if it was too late.

        Raises:
            StoreAccessError: the local file system has no hard links.
        """
        with self._errors(f"write {name!r}", writes=True):
            if not self.is_local:
                if self._remote.exists(self._url_of(name)):
                    return False
                self._make_parents(name)
                if not in_time():
                    return False
                return self._remote.create(self._url_of(name), content)
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            try:
                with hidden.open("wb") as file:
                    file.write(content)
                    file.flush()
                    if content:  # an empty one is there or not
                        os.fsync(file.fileno())
                if not in_time():
                    return False
                os.link(hidden, path)
            except FileExistsError:
                # By NFS a request whose answer was lost is sent again, and finds its own link.
                return hidden.stat().st_nlink > 1
            except OSError as error:
                if error.errno not in _NO_LINKS or not hidden.exists():
                    raise
                raise StoreAccessError(
                    f"cannot write {name!r} in {str(self)!r}: {error.strerror}. Such files appear "
                    "by hard links, and its file system has none: give a folder on another one, or "
                    "a URL of the same place, such as s3://bucket/folder"
                ) from error
            finally:
                hidden.unlink(missing_ok=True)
            return True

    def sync(self, folder: str, *, files: bool = True) -> None:
        """Flush a local folder to the device, if it is there: what it contains, and its files.

        Args:
            folder: its name.
            files: whether the files, and the folder above, are flushed, too. Default True.
        """
        if not self.is_local:
            return
        path = self._path(folder)
        with self._errors(f"write {folder!r}", writes=True), contextlib.suppress(FileNotFoundError):
            beside = [*(path / name for name in os.listdir(path)), path.parent] if files else []
            if beside:  # together, which takes the device about as long as one of them
                with ThreadPoolExecutor(_FLUSHED_AT_ONCE) as pool:
                    list(pool.map(_flush, beside))
            _flush(path)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A local path to write a large file to; stored at the location when the block ends."""
        with self._errors(f"write {name!r}", writes=True), self._writing(name) as path:
            yield path

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[Path]:
        if self.is_local:
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            yield path
            return
        with temporary_folder("upload") as folder:
            path = folder / "file"
            yield path
            self._make_parents(name)
            self._remote.put_file(str(path), self._url_of(name))

    def _make_parents(self, name: str) -> None:
        """Create the parent folders of a remote file; object stores need none."""
        self._remote.makedirs(self._url_of(name).rsplit("/", 1)[0], exist_ok=True)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[Readable]:
        """A file of the location itself, not a copy, open for reading."""
        with self._errors(f"read {name!r}"):
            local = self._path(name).open("rb") if self.is_local else None
            with contextlib.closing(local or self._remote.open(self._url_of(name))) as file:
                yield file

    def map(self, name: str, size: int, expected: str) -> pa.MemoryMappedFile:
        """Map a file: a local file itself, or this host's copy of a remote file.

        Args:
            name: the file.
            size: its size in bytes; verified, like the checksum, when a copy is downloaded.
            expected: its checksum.

        Raises:
            FileNotFoundError: the file is missing.
            DamagedTableError: the file was downloaded twice and did not match size and checksum.
        """
        if self.is_local:
            with self._errors(f"read {name!r}"):
                return self._map(name)
        with self._errors(f"fetch {name!r}"):
            copy = self._copies.map(name, size, expected, self._download_of(name))
        return self._undamaged(name, copy)

    def _map(self, name: str) -> pa.MemoryMappedFile:
        path = str(self._path(name))
        try:
            return pa.memory_map(path)
        except OSError:
            if os.path.isdir(path):  # Arrow's error has no number
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
            raise

    def part(self, name: str, begin: int, end: int) -> pa.Buffer:
        """The bytes of a file from ``begin`` to before ``end``; fewer if the file is shorter.

        They are mapped where the file is local, and fetched where it is not.

        Raises:
            FileNotFoundError: the file is missing.
        """
        with self._errors(f"read {name!r}"):
            if self.is_local:
                file = self._map(name)
                file.seek(min(begin, file.size()))
                return file.read_buffer(end - begin)
            found = self._remote.cat_file(self._url_of(name), start=begin, end=end)
            return pa.py_buffer(bytes(found))

    def link(self, name: str, size: int, expected: str, link: Path) -> None:
        """Make a hard link to this host's copy of a remote file.

        The ``link`` is a path in the temporary folder of this host; all else is as in :meth:`map`.
        """
        with self._errors(f"fetch {name!r}"):
            linked = self._copies.link(name, size, expected, self._download_of(name), link)
        self._undamaged(name, linked)

    def _download_of(self, name: str) -> Callable[[str], object]:
        """Return a function that writes a remote file to a path."""
        self._check_plain(name)
        return lambda path: self._remote.get_file(self._url_of(name), path)

    def _undamaged(self, name: str, copy: T | None) -> T:
        """The copy of a file, unless no download matched."""
        if copy is None:
            raise DamagedTableError(
                f"the file {name!r} of the table in {str(self)!r} was downloaded twice, and its "
                "size or checksum differs from what was written. Build the table again: "
                "BatchTable.build(..., path=...)"
            )
        return copy

    def keep_copies(self, names: Collection[str]) -> None:
        """Remove this host's copies of all files of a remote table except these."""
        self._copies.keep(names)

    @property
    def _copies(self) -> HostCopies:
        return HostCopies(self.url)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it is missing."""
        with self._errors(f"look at {name!r}"):
            try:
                if self.is_local:
                    return self._path(name).stat().st_size
                return int(self._remote.size(self._url_of(name)))
            except FileNotFoundError:
                return None

    def sizes(self, folder: str) -> dict[str, int]:
        """The sizes in bytes of what is in a folder, by name; none if the folder is missing."""
        found: dict[str, int] = {}
        with self._errors(f"list {folder!r}"), contextlib.suppress(FileNotFoundError):
            if not self.is_local:
                return {name: one["size"] for name, one in self._entries(folder)}
            with os.scandir(self._path(folder)) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # it goes at this moment
                        found[entry.name] = entry.stat().st_size
        return found

    def stamp(self, name: str) -> Stamp | None:
        """What tells a local file from a later one of its name; None if unknown, or missing.

        That of a remote file is in the listing of its folder: :meth:`listed`.
        """
        if not self.is_local:
            return None
        with contextlib.suppress(FileNotFoundError), self._errors(f"look at {name!r}"):
            found = self._path(name).stat()
            return found.st_ino, found.st_mtime_ns, found.st_size
        return None

    def age_s(self, name: str) -> float | None:
        """Seconds since a local file or folder was last modified; None if unknown."""
        if not self.is_local:
            return None
        with contextlib.suppress(FileNotFoundError):
            return time.time() - self._entry(name).lstat().st_mtime
        return None

    def remove(self, name: str) -> None:
        """Remove a file or folder, and this host's copies of it; no error if it is missing."""
        with self._errors(f"remove {name!r}"):
            if self.is_local:
                path = self._entry(name)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)  # others may do so, too
                    if path.exists():
                        said = "bsjoin: files of no version stay in %r: %r cannot be removed"
                        _log.warning(said, str(self), name)
                else:
                    path.unlink(missing_ok=True)
                return
            self._check_plain(name)
            self._copies.remove(name)
            with contextlib.suppress(FileNotFoundError):
                self._remote.rm(self._url_of(name), recursive=True)

    def make(self) -> None:
        """Create the folder and check that it is writable."""
        probe = f"{_PROBE}{uuid.uuid4().hex}"
        with self._errors("create the folder", writes=True), self._writing(probe) as path:
            path.write_bytes(b"")
        self.remove(probe)

    def remove_probes(self) -> None:
        """Remove what processes that were killed in :meth:`make` have left."""
        for left in self.names(""):
            if left.startswith(_PROBE):
                with contextlib.suppress(OSError, StoreError):  # it is another user's
                    self.remove(left)

    def missing_folders(self, names: Iterable[str]) -> list[Path]:
        """The local folders that files below some folders would bring, innermost first.

        Args:
            names: folders of the location.
        """
        if not self.is_local:
            return []
        folders = [*(Path(self.url, name) for name in names), Path(self.url)]
        folders += Path(self.url).parents
        return [folder for folder in folders if not folder.exists()]

    def remove_empty(self, folders: Iterable[Path]) -> None:
        """Remove local folders that are empty; the others stay."""
        for folder in folders if self.is_local else ():
            with contextlib.suppress(OSError):
                folder.rmdir()

    @contextlib.contextmanager
    def _errors(self, doing: str, *, writes: bool = False) -> Iterator[None]:
        """Translate errors of the operating system, except a missing file, and those of Arrow.

        For a write, a missing file means that a parent folder cannot be created. Arrow's have no
        number.
        """
        try:
            yield
        except OSError as error:
            _hide_paths(error)
            if error.errno in _FULL:
                if writes:
                    todo = "The unfinished table is not published; free space or choose another "
                    todo += "store path"
                elif self.is_local:
                    todo = "Free space there"
                else:
                    todo = "Free space for this host's copies in the folder for temporary files "
                    todo += "(TMPDIR)"
                raise StoreFullError(
                    f"cannot {doing} in {str(self)!r}: no space left on the device. {todo}"
                ) from error
            if error.errno is None or (error.errno == errno.ENOENT and not writes):
                raise
            rule = "Look after the device or service that has it, and try again"
            if error.errno in _DENIED or error.errno == errno.ENOENT:
                rule = (
                    "It must be a folder (or not exist yet), and the process needs permission "
                    "to read and write in it"
                )
            raise StoreAccessError(
                f"cannot {doing} in {str(self)!r}: {error.strerror}. {rule}"
            ) from error


def stamp_of(entry: dict[str, Any]) -> Stamp | None:
    """The stamp of a file in a listing of fsspec; None if that tells nothing but its size."""
    told = [str(entry.get(name) or "") for name in _TELLING]
    return (*told, entry.get("size")) if any(told) else None


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hide_paths(error: OSError) -> None:
    """Hide the secrets in the paths of an error and its causes: tracebacks show all of them."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and isinstance(link.filename, str):
            link.filename = hidden(link.filename)
        link = link.__context__


def _user_info(url: str) -> str:
    """The user info of a URL: the part before the @."""
    authority = url.split("://", 1)[1].split("/", 1)[0]
    return authority.rpartition("@")[0]
