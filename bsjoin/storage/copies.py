"""This host's local copies of a remote table's files, shared by all processes of the host.

The checksum of a copy is verified before the copy gets its final name, and not again when another
process uses it. This is sufficient because only this user can write to it: the folder has mode
0700 and is refused if it does not belong to this user (:func:`bsjoin.host.private_folder`). The
folder is removed with the last process that uses it, so no copy survives a restart of the machine.
If another program of this user changes a copy, its size or its modification time differ; the
latter is set to a number derived from the checksum. Reading every byte again would cost each
worker a few tenths of a second per GB.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pyarrow as pa

from bsjoin.host import HostFolder, HostRoot, private_folder, temporary_folder
from bsjoin.storage.checksums import checksum

T = TypeVar("T")

_COPY = "copy-"
_TRIES = 2


class HostCopies:
    """The local copies of one table."""

    def __init__(self, url: str):
        self._name = f"copies-{hashlib.sha256(url.encode()).hexdigest()[:16]}"

    @property
    def folder(self) -> Path:
        """The folder of the copies; created if it is missing.

        Raises:
            StoreAccessError: the existing folder cannot be trusted.
        """
        place = tempfile.gettempdir()
        folder = _used(place, self._name)
        if not folder.is_there():
            _used.cache_clear()
            folder = _used(place, self._name)
        private_folder(folder.path.parent)
        return private_folder(folder.path)

    def map(
        self, name: str, size: int, expected: str, download: Callable[[str], object]
    ) -> pa.MemoryMappedFile | None:
        """Map the copy of a file; download it first if it is missing or was changed.

        A mapped copy stays readable even if another process removes the file. ``download`` writes
        the file to a path; None if that does not match its size and ``expected`` checksum.
        """
        return self._use(name, size, expected, download, lambda copy: pa.memory_map(str(copy)))

    def link(
        self, name: str, size: int, expected: str, download: Callable[[str], object], link: Path
    ) -> Path | None:
        """Link to the copy of a file, for a process that maps it itself; otherwise as :meth:`map`.

        The link, a hard one, is in the temporary folder of this host.
        """

        def linked(copy: Path) -> Path:
            os.link(copy, link)
            return link

        return self._use(name, size, expected, download, linked)

    def _use(
        self,
        name: str,
        size: int,
        expected: str,
        download: Callable[[str], object],
        use: Callable[[Path], T],
    ) -> T | None:
        """Open the copy of a file in some way, downloaded first if need be."""
        copy = self.folder / _copy_of(name)
        changed_s = zlib.crc32(expected.encode()) >> 4
        if _is_kept(copy, size, changed_s):
            with contextlib.suppress(FileNotFoundError):  # removed at this moment
                return use(copy)
        for _ in range(_TRIES):
            with temporary_folder("download") as folder:
                fetched = folder / "file"
                download(str(fetched))
                with fetched.open("rb") as file:
                    if fetched.stat().st_size != size or checksum(file) != expected:
                        continue
                os.utime(fetched, (time.time(), changed_s))
                used = use(fetched)
                fetched.replace(copy)
                return used
        return None

    def remove(self, name: str) -> None:
        """Remove the copy of a file, or of all files of a folder; no error if there is none."""
        names = _copy_of(name), _copy_of(f"{name}/")
        self._remove_if(lambda copy: copy == names[0] or copy.startswith(names[1]))

    def keep(self, names: Collection[str]) -> None:
        """Remove all copies except those of the given files."""
        kept = {_copy_of(name) for name in names}
        self._remove_if(lambda copy: copy not in kept)

    def _remove_if(self, is_meant: Callable[[str], bool]) -> None:
        folder = self.folder
        for copy in os.listdir(folder):
            if copy.startswith(_COPY) and is_meant(copy):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(folder / copy)


# Kept for the lifetime of the process, or until 64 other tables are used.
@lru_cache(maxsize=64)
def _used(place: str, name: str) -> HostFolder:
    return HostRoot(Path(place)).use(name)


def _copy_of(name: str) -> str:
    """The name of a copy, without a part that leads to another folder."""
    return _COPY + quote(name, safe="")


def _is_kept(copy: Path, size: int, changed_s: int) -> bool:
    try:
        there = copy.lstat()
    except OSError:
        return False
    is_file = stat.S_ISREG(there.st_mode)
    return is_file and there.st_size == size and int(there.st_mtime) == changed_s
