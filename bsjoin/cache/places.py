"""The folders of the caches of this host."""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from pathlib import Path

from bsjoin.errors import StoreError
from bsjoin.host import HostFolder, HostRoot
from bsjoin.host.processes import ProcessId

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 1 << 30


def cache_folder(token: str, base: str | None) -> HostFolder:
    """The folder of a cache on this host; created if it is missing.

    It is in ``/dev/shm``, that is in memory, unless that is missing or has little space when the
    first process of the host creates the folder, as is common in containers: then it is in that
    process's folder for temporary files. Other processes find it through ``/dev/shm`` in both
    cases, independent of the space by then and of their own folders for temporary files.

    The token is the same in every process; ``base`` is a folder to use instead.
    """
    place = _with_room if base is None else None
    return _root(base).use(_name(token), place=place)


def remove_at_exit(token: str, base: str | None) -> None:
    """Remove a cache's folder on this host when this process, the driver, ends."""
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            with contextlib.suppress(OSError, StoreError):
                _root(base).remove(_name(token))

    atexit.register(remove)


def _name(token: str) -> str:
    # Its times are by a clock that begins with the machine, and a disk may outlive that.
    return f"cache-{token}-{ProcessId.of(os.getpid()).machine}"


def _root(base: str | None) -> HostRoot:
    """The root under which caches are found; independent of the free space."""
    if base is not None:
        return HostRoot(Path(base))
    return HostRoot(_MEMORY if _has_memory() else Path(tempfile.gettempdir()))


def _with_room() -> HostRoot:
    """The root under which a new cache is created."""
    if _has_memory():
        there = os.statvfs(_MEMORY)
        if there.f_frsize * there.f_bavail >= _ROOM_BYTES:
            return HostRoot(_MEMORY)
    return HostRoot(Path(tempfile.gettempdir()))


def _has_memory() -> bool:
    return _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK | os.X_OK)
