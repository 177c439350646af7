"""Folders that processes of a host use together, and the removal of those that nobody needs.

Whether a folder is needed is decided by a lock first: every process that uses it holds a shared
``flock`` on it, which the kernel releases when the process ends, and which means the same in all
containers of a machine; a process number does not. In it lie the identities of the processes that
it is kept for while no process uses it: Spark's workers come and go, and the next one is to find
the cache of the last (docs/decisions/0011-host-folders.md).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from bsjoin.host.locks import FolderLock
from bsjoin.host.private import private_folder
from bsjoin.host.processes import ProcessId, application

__all__ = ["HostFolder", "HostRoot", "temporary_folder"]

# In a folder's "owners": the process that made it for itself, and those that workers used it for.
_OWNERS, _ITSELF, _PARENT = "owners", "process-", "parent-"
# So long is a folder kept for processes that cannot be seen, after it was opened last.
_OTHER_CONTAINER_S, _OTHER_MACHINE_S = 3600.0, 7 * 86_400.0


class HostFolder:
    """A folder that this process uses, for as long as the object lives. :class:`HostRoot` makes it.

    As a context manager it gives the path, and is removed at the end.

    Args:
        path: the folder.
        keeper: the process that it is kept for while no process uses it.
    """

    def __init__(self, path: Path, keeper: int):
        self.path = path
        self._process = os.getpid()
        kind = _ITSELF if keeper == self._process else _PARENT
        (private_folder(path / _OWNERS) / f"{kind}{ProcessId.of(keeper)}").touch(mode=0o600)
        self._lock = FolderLock(path)
        self._lock.share()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def is_there(self) -> bool:
        """Whether nobody has removed the folder."""
        return self._lock.is_of(self.path)

    def remove(self) -> None:
        """Remove the folder, unless this is a child that was forked from the one that made it."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            atexit.unregister(self.remove)


class HostRoot:
    """This user's folders of one place of this host, below ``bsjoin-<uid>``.

    Args:
        parent: the place, as ``/tmp``.
    """

    def __init__(self, parent: Path):
        user = os.geteuid() if hasattr(os, "geteuid") else "user"
        self.path = parent / f"bsjoin-{user}"

    def use(
        self,
        name: str,
        *,
        keeper: int | None = None,
        place: Callable[[], HostRoot] | None = None,
    ) -> HostFolder:
        """The folder of that name, the same for all processes; made when it is missing.

        Removes what nobody needs any more before it makes one.

        Args:
            name: its name.
            keeper: the process that it is kept for while no process uses it; by default the
                application's process on this host.
            place: says under which root it is to lie. Only the first process is asked; the
                others find the answer here, whatever theirs would be.

        Raises:
            StoreAccessError: what lies there cannot be trusted; see :func:`private_folder`.
        """
        keeper = application() if keeper is None else keeper
        with _locked(self.path):
            root = self if place is None else self._found(name) or place()
            if root.path == self.path:
                return self._use(name, keeper)
            with _locked(root.path):
                folder = root._use(name, keeper)
            link = self.path / name
            if not link.is_symlink():
                link.symlink_to(folder.path, target_is_directory=True)
            return folder

    def remove(self, name: str) -> None:
        """Remove a folder, wherever it lies and whoever uses it; fine where it is missing."""
        if not os.path.lexists(self.path):
            return
        with _locked(self.path):
            entry = self.path / name
            if entry.is_symlink():
                shutil.rmtree(os.readlink(entry), ignore_errors=True)
                entry.unlink()
            shutil.rmtree(entry, ignore_errors=True)

    def _found(self, name: str) -> HostRoot | None:
        """The root that a folder lies under; None where there is no such folder."""
        entry = self.path / name
        if not entry.is_symlink():
            return self if entry.is_dir() else None
        target = Path(os.readlink(entry))
        if target.is_dir():
            return HostRoot(target.parent.parent)
        entry.unlink()  # it was removed with the place where it lay
        return None

    def _use(self, name: str, keeper: int) -> HostFolder:
        path = self.path / name
        if not os.path.lexists(path) or not _is_needed(private_folder(path)):
            self._sweep()
        return HostFolder(private_folder(path), keeper)

    def _sweep(self) -> None:
        """Remove what belonged to processes that were killed; under the lock."""
        for entry in self.path.iterdir():
            with contextlib.suppress(OSError):
                if entry.is_symlink():
                    if not entry.exists():
                        entry.unlink()
                elif entry.is_dir() and not _is_needed(entry):
                    shutil.rmtree(entry, ignore_errors=True)


def temporary_folder(kind: str) -> HostFolder:
    """A new folder of this process, where temporary files lie; it goes when the process ends.

    Args:
        kind: what its name begins with.
    """
    root = HostRoot(Path(tempfile.gettempdir()))
    folder = root.use(f"{kind}-{uuid.uuid4().hex}", keeper=os.getpid())
    atexit.register(folder.remove)
    return folder


def _is_needed(folder: Path) -> bool:
    """Whether a process uses a folder, or may come back to it; under the root's lock."""
    free = FolderLock(folder).is_free()
    if free is False:
        return True
    owners = list((folder / _OWNERS).glob("*-*"))
    if free is None and not owners:
        return True  # where there are no locks, it may be just being made
    return any(_may_come_back(owner, has_locks=free is not None) for owner in owners)


def _may_come_back(owner: Path, *, has_locks: bool) -> bool:
    """Whether a process may come back to a folder that no process uses."""
    kind, _, identity = owner.name.partition("-")
    try:
        keeper = ProcessId.parse(identity)
    except ValueError:
        return False
    alive = keeper.is_alive()
    if alive is not None:
        return alive
    if not has_locks:
        return True
    if not keeper.is_of_this_machine():
        most = _OTHER_MACHINE_S  # it has restarted; or is another one, which locks do not reach
    elif kind + "-" == _PARENT:
        most = _OTHER_CONTAINER_S
    else:
        return False  # it would hold the lock
    return time.time() - owner.stat().st_mtime < most


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Alone among the processes that look for folders under a root."""
    lock = FolderLock(private_folder(root))
    lock.take()
    try:
        yield
    finally:
        lock.release()
