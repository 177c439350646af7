"""A lock on a folder, which the kernel releases when its holder ends."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FolderLock"]


class FolderLock:
    """A lock that several processes share, or one has alone; without effect where there is none.

    There is none on Windows, and on some network file systems. It is of the kernel: the same in
    all containers of a machine. On the folder itself, not on a file in it, it also keeps
    systemd-tmpfiles from removing what lies in the folder and has not been read for days.

    Args:
        folder: the folder; it exists.
    """

    _descriptor: int | None = None

    def __init__(self, folder: Path):
        if fcntl is not None:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(folder, flags)

    def __del__(self) -> None:
        # Only closed: a child that was forked shares the lock, and may end before its parent.
        if self._descriptor is not None:
            os.close(self._descriptor)

    def share(self) -> None:
        """Wait until no process has the lock alone."""
        if self._descriptor is not None:
            self._try(fcntl.LOCK_SH)

    def take(self) -> None:
        """Wait until this process has the lock alone."""
        if self._descriptor is not None:
            self._try(fcntl.LOCK_EX)

    def is_free(self) -> bool | None:
        """Whether no other process has it; None where there are no locks."""
        if self._descriptor is None:
            return None
        free = self._try(fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.release()
        return free

    def release(self) -> None:
        """Give the lock back, a child's share of it too."""
        if self._descriptor is not None:
            self._try(fcntl.LOCK_UN)

    def is_of(self, folder: Path) -> bool:
        """Whether the folder of that name is still the one that was locked."""
        try:
            there = os.stat(folder)
        except OSError:
            return False
        return self._descriptor is None or os.path.samestat(there, os.fstat(self._descriptor))

    def _try(self, operation: int) -> bool | None:
        assert self._descriptor is not None
        try:
            fcntl.flock(self._descriptor, operation)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True
