"""Locks between the processes of a host, which the kernel releases when the holder dies."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows; only the incremental cache needs it
    fcntl = None  # type: ignore[assignment]

_WAIT_S = 0.005


class HostLock:
    """A readers-writer lock between processes, by a file, and an exclusive one between threads."""

    def __init__(self, path: Path):
        if fcntl is None:
            raise OSError("bsjoin's incremental cache needs flock, which Windows lacks; use Full")
        self._descriptor = _opened(path)
        self._thread = threading.Lock()

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._descriptor)

    def shared(self) -> AbstractContextManager[None]:
        """Hold the lock together with other readers."""
        return self._held(fcntl.LOCK_SH)

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the lock exclusively."""
        return self._held(fcntl.LOCK_EX)

    @contextlib.contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        with self._thread:
            fcntl.flock(self._descriptor, kind)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class Membership:
    """Liveness of numbered processes.

    A member holds a lock on its own file during its lifetime. Unlike a process id, a lock has the
    same meaning in every container that shares the folder. A new member removes the files of those
    that have ended: a killed process leaves its own. The number was never used before, and no other
    process becomes a member at the same time.
    """

    def __init__(self, folder: Path, number: int):
        self.number = number
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = _opened(folder / str(number))
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if name.isdigit():
                    self.is_alive(int(name))

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._descriptor)

    def is_alive(self, number: int) -> bool:
        """Whether the member with that number is alive; the file of one that is not is removed."""
        if number == self.number:
            return True
        try:
            descriptor = os.open(self._folder / str(number), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        (self._folder / str(number)).unlink(missing_ok=True)
        return False


class ConnectionSemaphore:
    """A counting semaphore for all processes of a host; a permit ends with its process."""

    def __init__(self, folder: Path, count: int):
        folder.mkdir(mode=0o700, exist_ok=True)
        self._paths = [folder / str(number) for number in range(count)]
        self._wanted = _opened(folder / "wanted")
        self._held: int | None = None

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.release()
            os.close(self._wanted)

    @property
    def is_held(self) -> bool:
        """Whether this process has a permit."""
        return self._held is not None

    def acquire(self) -> None:
        """Acquire a permit, and wait for one if necessary. No effect if it is already held."""
        if self._held is not None or self._try():
            return
        fcntl.flock(self._wanted, fcntl.LOCK_SH)
        try:
            while not self._try():
                time.sleep(_WAIT_S)
        finally:
            fcntl.flock(self._wanted, fcntl.LOCK_UN)

    def _try(self) -> bool:
        for path in self._paths:
            descriptor = _opened(path)
            if _locked(descriptor):
                self._held = descriptor
                return True
            os.close(descriptor)
        return False

    def release(self) -> None:
        """Release the permit."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def is_wanted(self) -> bool:
        """Whether another process waits for a permit."""
        if not _locked(self._wanted):
            return True
        fcntl.flock(self._wanted, fcntl.LOCK_UN)
        return False


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Yield whether this process is the only one in the block."""
    descriptor = _opened(path)
    try:
        yield _locked(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _locked(descriptor: int) -> bool:
    """Lock a file, unless another process has locked it; whether it succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
