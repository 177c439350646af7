"""Folders that only this user can write to."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from bsjoin.errors import StoreAccessError, StoreFullError

_ADVICE = (
    "Have bsjoin keep its files elsewhere (TMPDIR; Incremental(folder=...) for a cache), or "
    "check who created this one and remove it"
)


def private_folder(path: Path) -> Path:
    """Create a folder of mode 0700 and its missing parents; check an existing one.

    Existing parents are not checked: ``/tmp`` is writable for all, and its sticky bit prevents
    other users from replacing its entries.

    Raises:
        StoreAccessError: the folder belongs to another user, is writable for others, or is a link
            or a file; or it cannot be created.
        StoreFullError: no space is left to create it.
    """
    try:
        _make(path)
        _check(path)
    except OSError as error:
        kind = StoreFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreAccessError
        raise kind(
            f"cannot create the folder {str(path)!r} for bsjoin's temporary files: "
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
    with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
        os.chmod(path, 0o700)  # independent of the umask


def _check(path: Path) -> None:
    there = path.lstat()
    wrong = None
    if stat.S_ISLNK(there.st_mode):
        wrong = f"is a link to {os.readlink(path)!r}; it must be a folder"
    elif not stat.S_ISDIR(there.st_mode):
        wrong = "is not a folder"
    elif not hasattr(os, "geteuid"):  # Windows, where the temporary folder is the user's own
        return
    elif there.st_uid != os.geteuid():
        wrong = (
            f"belongs to user {there.st_uid}, and this process runs as user {os.geteuid()}: the "
            "folder must belong to the process's user"
        )
    elif there.st_mode & 0o022:
        wrong = (
            f"has mode {stat.S_IMODE(there.st_mode):04o}: other users can write to it, and its "
            "content is trusted"
        )
    if wrong is not None:
        raise StoreAccessError(f"the folder {str(path)!r} {wrong}. {_ADVICE}")
