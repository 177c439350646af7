"""Folders that nobody but this user can write to."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from bsjoin.errors import StoreAccessError, StoreFullError

__all__ = ["private_folder"]

_ADVICE = (
    "Have bsjoin keep its files elsewhere (TMPDIR; Incremental(folder=...) for a cache), or "
    "remove this one after you have looked at who made it"
)


def private_folder(path: Path) -> Path:
    """Make a folder of mode 0700, its missing parents too; check it where it exists.

    Parents that exist are not checked: ``/tmp`` is open to all, and its sticky bit keeps others
    from replacing what lies in it.

    Raises:
        StoreAccessError: the folder belongs to somebody else, others may write to it, or it is a
            link or a file; or it cannot be made.
        StoreFullError: no space is left to make it.
    """
    try:
        _make(path)
        _check(path)
    except OSError as error:
        kind = StoreFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreAccessError
        raise kind(
            f"cannot make the folder {str(path)!r} for bsjoin's temporary files: "
            f"{error.strerror}. {_ADVICE}"
        ) from error
    return path


def _make(path: Path) -> None:
    if not path.parent.exists():
        _make(path.parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    with contextlib.suppress(FileNotFoundError):  # another process has removed it since
        os.chmod(path, 0o700)  # whatever the umask


def _check(path: Path) -> None:
    there = path.lstat()
    wrong = None
    if stat.S_ISLNK(there.st_mode):
        wrong = f"is a link to {os.readlink(path)!r}, and only a folder itself is used"
    elif not stat.S_ISDIR(there.st_mode):
        wrong = "is not a folder"
    elif not hasattr(os, "geteuid"):  # Windows, where the temporary folder is the user's own
        return
    elif there.st_uid != os.geteuid():
        wrong = (
            f"belongs to user {there.st_uid}, and this process runs as user {os.geteuid()}: only "
            "a folder of one's own is used"
        )
    elif there.st_mode & 0o022:
        wrong = (
            f"has mode {stat.S_IMODE(there.st_mode):04o}: others may write to it, and what lies "
            "in it is used without asking further"
        )
    if wrong is not None:
        raise StoreAccessError(f"the folder {str(path)!r} {wrong}. {_ADVICE}")
