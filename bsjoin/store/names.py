"""Names in a folder that others may write to: only plain relative ones are taken from it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from bsjoin._secrets import hidden
from bsjoin.errors import StoreError

__all__ = ["check_inside", "is_plain", "numbers_in"]

_PART = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9]{8,18}")


def is_plain(name: str) -> bool:
    """Whether a name leads to a place below the folder that it is relative to, on every system.

    Its parts are made of letters, digits, dots, hyphens and underscores: no URL, drive, home
    folder or escape is written with these alone.

    >>> is_plain("data/3f/0000.index.arrow"), is_plain("../other"), is_plain("/etc/passwd")
    (True, False, False)
    """
    return all(_PART.fullmatch(p) and p not in (".", "..") for p in name.split("/"))


def numbers_in(names: Iterable[str], ending: str) -> list[int]:
    """The numbers of numbered files, ascending; other files are passed over.

    >>> numbers_in(["00000002.json", "00000001.json", "notes.json", "3.json"], ".json")
    [1, 2]
    """
    stems = (name.removesuffix(ending) for name in names if name.endswith(ending))
    return sorted(int(stem) for stem in stems if _NUMBER.fullmatch(stem))


def check_inside(root: str, name: str) -> None:
    """Refuse what is no file or folder of its own below a local folder.

    A link is followed where it leads to another place below the folder. The folder itself, and
    what lies above it, may be a link to anywhere.

    Raises:
        StoreError: the name is, or leads through, a link out of the folder; or it is a pipe, a
            socket or a device.

    Complexity: a system call for each part of the name.
    """
    at = root
    for part in name.split("/"):
        at = f"{at}/{part}"
        try:
            mode = os.lstat(at).st_mode
            if stat.S_ISLNK(mode):
                target = os.path.realpath(at)
                if os.path.commonpath([target, os.path.realpath(root)]) != os.path.realpath(root):
                    raise StoreError(
                        f"{hidden(at)!r} is a link to {target!r}, which lies outside of "
                        f"{hidden(root)!r}. What is in the folder of a table is not trusted to "
                        "lead to other files: remove the link, or move the whole folder and link "
                        "that"
                    )
                mode = os.stat(at).st_mode
        except OSError:
            return  # it is not there, or cannot be read: whoever opens it is told
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StoreError(f"{hidden(at)!r} is neither a file nor a folder: remove it")
