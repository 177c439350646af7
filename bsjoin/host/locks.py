"""A lock on a folder, which the kernel releases when the holder ends."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """A shared or exclusive ``flock`` on a folder; without effect if the system has no locks.

    Windows and some network file systems have no such locks. The kernel manages the lock, so it is
    the same in all containers of a machine. A lock on the folder itself, not on a file in it, also
    prevents systemd-tmpfiles from removing files in the folder that have not been read for days.

    Args:
        folder: an existing folder.
    """

    _descriptor: int | None = None

    def __init__(self, folder: Path):
        if fcntl is not None:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(folder, flags)

    def __del__(self) -> None:
        # Only closed, not unlocked: a forked child shares the lock, and may end before its parent.
        if self._descriptor is not None:
            os.close(self._descriptor)

    def share(self) -> None:
        """Acquire the lock shared; waits while another process holds it exclusively."""
        if self._descriptor is not None:
            self._try(fcntl.LOCK_SH)

    def take(self) -> None:
        """Acquire the lock exclusively; waits for all other holders."""
        if self._descriptor is not None:
            self._try(fcntl.LOCK_EX)

    def is_free(self) -> bool | None:
        """Whether no other process holds it; None if the system has no locks."""
        if self._descriptor is None:
            return None
        free = self._try(fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.release()
        return free

    def release(self) -> None:
        """Release the lock, including the share of forked children."""
        if self._descriptor is not None:
            self._try(fcntl.LOCK_UN)

    def is_of(self, folder: Path) -> bool:
        """Whether the folder at that path is still the one that was locked."""
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
