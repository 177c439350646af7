"""This host's copies of a remote table's files, for all processes of the host to map.

What a copy holds is compared with its checksum before it gets its name, and not again when
another process finds it. That is enough, because only this user can have written to it since:
the folder has mode 0700 and is refused if it is not this user's own
(:func:`bsjoin.host.private_folder`), and it goes with the last process that it is kept for, so
that nothing is taken over from an earlier start of the machine. What a program of this user does to
a copy all the same shows in its size, or in the time of its last change, which is set to a number
made of the checksum. Reading every byte again would cost each worker a few tenths of a second a GB.
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
from urllib.parse import quote

import pyarrow as pa

from bsjoin.host import HostFolder, HostRoot, private_folder, temporary_folder
from bsjoin.store.checksums import checksum

__all__ = ["HostCopies"]

_COPY = "copy-"
_TRIES = 2


class HostCopies:
    """The copies of one table.

    Args:
        url: where the table lives.
    """

    def __init__(self, url: str):
        self._name = f"copies-{hashlib.sha256(url.encode()).hexdigest()[:16]}"

    @property
    def folder(self) -> Path:
        """Where they lie; made when it is missing.

        Raises:
            StoreAccessError: what lies there in its place cannot be trusted.
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
        """Map the copy of a file, fetched first where it is missing or was changed.

        Mapped, it stays readable whatever other processes remove.

        Args:
            name: the file's name in the table.
            size: its size in bytes.
            expected: its checksum.
            download: writes the file to a path.

        Returns:
            The copy; None where the file itself is not what was written.
        """
        copy = self.folder / _copy_of(name)
        changed_s = zlib.crc32(expected.encode()) >> 4
        if _is_kept(copy, size, changed_s):
            with contextlib.suppress(FileNotFoundError):  # removed at this moment
                return pa.memory_map(str(copy))
        for _ in range(_TRIES):
            with temporary_folder("download") as folder:
                fetched = folder / "file"
                download(str(fetched))
                with fetched.open("rb") as file:
                    if fetched.stat().st_size != size or checksum(file) != expected:
                        continue
                os.utime(fetched, (time.time(), changed_s))
                mapped = pa.memory_map(str(fetched))
                fetched.replace(copy)
                return mapped
        return None

    def remove(self, name: str) -> None:
        """Remove the copy of a file, or of all files of a folder; fine where there is none."""
        names = _copy_of(name), _copy_of(f"{name}/")
        self._remove_if(lambda copy: copy == names[0] or copy.startswith(names[1]))

    def keep(self, names: Collection[str]) -> None:
        """Remove all copies but those of some files."""
        kept = {_copy_of(name) for name in names}
        self._remove_if(lambda copy: copy not in kept)

    def _remove_if(self, is_meant: Callable[[str], bool]) -> None:
        folder = self.folder
        for copy in os.listdir(folder):
            if copy.startswith(_COPY) and is_meant(copy):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(folder / copy)


# For as long as the process lives, or the copies of other tables are used.
@lru_cache(maxsize=64)
def _used(place: str, name: str) -> HostFolder:
    return HostRoot(Path(place)).use(name)


def _copy_of(name: str) -> str:
    """The name of a copy: no part of it leads to another folder."""
    return _COPY + quote(name, safe="")


def _is_kept(copy: Path, size: int, changed_s: int) -> bool:
    try:
        there = copy.lstat()
    except OSError:
        return False
    is_file = stat.S_ISREG(there.st_mode)
    return is_file and there.st_size == size and int(there.st_mtime) == changed_s
