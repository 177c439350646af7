"""Folders shared by processes of a host, and the removal of unused ones.

A lock decides first whether a folder is in use: every process that uses it holds a shared
``flock`` on it, which the kernel releases when the process ends. Unlike a process number, the lock
has the same meaning in all containers of a machine. The folder also contains the identities of the
processes for which it is kept while no process uses it: Spark's workers are short-lived, and the
next one reuses the cache of the last (docs/decisions/0011-host-folders.md).
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

# In a folder's "owners": the process that created it for itself, and the parents of its workers.
_OWNERS, _ITSELF, _PARENT = "owners", "process-", "parent-"
# How long a folder is kept after its last use for processes whose liveness is not visible.
_OTHER_CONTAINER_S, _OTHER_MACHINE_S = 3600.0, 7 * 86_400.0


class HostFolder:
    """A folder in use by this process during the object's lifetime; created by :class:`HostRoot`.

    As a context manager it returns the path, and removes the folder at the end.

    Args:
        path: the folder.
        keeper: the process for which it is kept while no process uses it.
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
        """Whether the folder still exists."""
        return self._lock.is_of(self.path)

    def remove(self) -> None:
        """Remove the folder, unless this process is a forked child of the one that created it."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            atexit.unregister(self.remove)


class HostRoot:
    """This user's folders below ``bsjoin-<uid>`` in a parent folder of this host.

    Args:
        parent: the parent folder, for example ``/tmp``.
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
        """The folder of a name, the same for all processes; created if it is missing.

        Removes unused folders before it creates one.

        Args:
            name: the name of the folder.
            keeper: the process for which it is kept while no process uses it. None (default):
                the application's process on this host.
            place: returns the root under which the folder is created; called by the first
                process only, the others find the folder by a link here. None (default): this
                root.

        Raises:
            StoreAccessError: the existing folder cannot be trusted; see :func:`private_folder`.
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
        """Remove a folder under any root, even if it is in use; no error if it is missing."""
        if not os.path.lexists(self.path):
            return
        with _locked(self.path):
            entry = self.path / name
            if entry.is_symlink():
                shutil.rmtree(os.readlink(entry), ignore_errors=True)
                entry.unlink()
            shutil.rmtree(entry, ignore_errors=True)

    def _found(self, name: str) -> HostRoot | None:
        """The root that contains a folder; None if there is no such folder."""
        entry = self.path / name
        if not entry.is_symlink():
            return self if entry.is_dir() else None
        target = Path(os.readlink(entry))
        if target.is_dir():
            return HostRoot(target.parent.parent)
        entry.unlink()  # the target was removed
        return None

    def _use(self, name: str, keeper: int) -> HostFolder:
        path = self.path / name
        if not os.path.lexists(path) or not _is_needed(private_folder(path)):
            self._sweep()
        return HostFolder(private_folder(path), keeper)

    def _sweep(self) -> None:
        """Remove the folders of processes that were killed; under the lock."""
        for entry in self.path.iterdir():
            with contextlib.suppress(OSError):
                if entry.is_symlink():
                    if not entry.exists():
                        entry.unlink()
                elif entry.is_dir() and not _is_needed(entry):
                    shutil.rmtree(entry, ignore_errors=True)


def temporary_folder(kind: str) -> HostFolder:
    """A new folder of this process for temporary files, removed when the process ends."""
    root = HostRoot(Path(tempfile.gettempdir()))
    folder = root.use(f"{kind}-{uuid.uuid4().hex}", keeper=os.getpid())
    atexit.register(folder.remove)
    return folder


def _is_needed(folder: Path) -> bool:
    """Whether a process uses a folder, or may use it again; under the root's lock."""
    free = FolderLock(folder).is_free()
    if free is False:
        return True
    owners = list((folder / _OWNERS).glob("*-*"))
    if free is None and not owners:
        return True  # without locks, it may be being created
    return any(_may_come_back(owner, has_locks=free is not None) for owner in owners)


def _may_come_back(owner: Path, *, has_locks: bool) -> bool:
    """Whether a process may use a folder again that no process uses now."""
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
        most = _OTHER_MACHINE_S  # a restarted machine, or another one, which shares no locks
    elif kind + "-" == _PARENT:
        most = _OTHER_CONTAINER_S
    else:
        return False  # a living one would hold the lock
    return time.time() - owner.stat().st_mtime < most


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Exclusive access to the folders under a root."""
    lock = FolderLock(private_folder(root))
    lock.take()
    try:
        yield
    finally:
        lock.release()
