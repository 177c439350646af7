"""Where the caches of this host lie, and the removal of those that nobody needs any more."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

__all__ = ["cache_folder", "remove_at_exit"]

_PREFIX = "bsjoin-cache-"
_ROOM_BYTES = 1 << 30
_FOREIGN_S = 7 * 86_400


def cache_folder(token: str, base: str | None) -> Path:
    """The folder of a cache on this host; made when it is missing.

    Memory files are best, so it lies in ``/dev/shm`` unless that is missing or small (in a
    container it often is), else in the folder for temporary files.

    Args:
        token: the cache's name, the same in every process.
        base: a folder to use instead.
    """
    parent = _parent() if base is None else Path(base)
    folder = parent / f"{_PREFIX}{token}"
    if not folder.is_dir():
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    owners = folder / "owners"
    owners.mkdir(mode=0o700, exist_ok=True)
    (owners / _identity(os.getppid())).touch()
    return folder


def _parent() -> Path:
    memory = Path("/dev/shm")
    with contextlib.suppress(OSError):
        if os.access(memory, os.W_OK):
            there = os.statvfs(memory)
            if there.f_frsize * there.f_bavail >= _ROOM_BYTES:
                return memory
    return Path(tempfile.gettempdir())


def remove_at_exit(token: str, base: str | None) -> None:
    """Remove a cache's folder on this host when this process, the driver, ends."""
    owner = os.getpid()
    parents = [Path(base)] if base is not None else [Path("/dev/shm"), Path(tempfile.gettempdir())]

    def remove() -> None:
        if os.getpid() == owner:  # and not in a child that was forked from it
            for parent in parents:
                shutil.rmtree(parent / f"{_PREFIX}{token}", ignore_errors=True)

    atexit.register(remove)


def sweep(parent: Path) -> None:
    """Remove caches whose applications were killed.

    A cache belongs to the parents of the processes that use it, for these come and go: Spark's
    Python daemon, or the executor itself.
    """
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid() and not _is_owned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_owned(folder: Path) -> bool:
    owners = list((folder / "owners").iterdir()) if (folder / "owners").is_dir() else []
    space = _process_space()
    for owner in owners:
        pid, _, its_space = owner.name.split(".")
        if its_space != space:
            # Another container's: its processes cannot be seen from here.
            if time.time() - owner.stat().st_mtime < _FOREIGN_S:
                return True
        elif _identity(int(pid)) == owner.name:
            return True
    # A folder that is just being made has no owner yet.
    return not owners and time.time() - folder.stat().st_mtime < 60


def _identity(pid: int) -> str:
    """A process, told apart from others that get its number later or in other containers."""
    begun = "0"
    with contextlib.suppress(OSError, IndexError):
        begun = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    if begun == "0":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            begun = "gone"
        except PermissionError:
            pass
    return f"{pid}.{begun}.{_process_space()}"


def _process_space() -> str:
    try:
        return "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid"))) or "0"
    except OSError:
        return "0"
