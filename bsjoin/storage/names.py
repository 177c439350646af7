"""Names in a table's folder, which is not trusted: only plain relative names are accepted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from bsjoin._secrets import hidden
from bsjoin.errors import StoreError

# The folders of a table: see format.md.
VERSIONS = "versions"
DATA = "data"
BUILDS = "builds"
MARKS = "marks"
FRESH = "fresh"
READERS = "readers"

LARGEST_NUMBER = 999_999_999
"""The greatest number of a numbered file, which has eight digits or nine."""

_PART = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9]{8,9}")


def is_plain(name: str) -> bool:
    """Whether a name refers to a place below its folder, on every operating system.

    Its parts consist of letters, digits, dots, hyphens and underscores, which cannot express a
    URL, a drive, a home folder or an escape sequence.

    >>> is_plain("data/3f/0000.index.arrow"), is_plain("../other"), is_plain("/etc/passwd")
    (True, False, False)
    """
    return all(_PART.fullmatch(p) and p not in (".", "..") for p in name.split("/"))


def numbers_in(names: Iterable[str], ending: str) -> list[int]:
    """The numbers of numbered files, ascending; other files are ignored.

    >>> numbers_in(["00000002.json", "00000001.json", "notes.json", "3.json"], ".json")
    [1, 2]
    """
    stems = (name.removesuffix(ending) for name in names if name.endswith(ending))
    return sorted(int(stem) for stem in stems if _NUMBER.fullmatch(stem))


def check_inside(root: str, name: str) -> None:
    """Refuse a name that is not a file or folder below a local folder.

    A link is followed if its target is below the folder. The folder itself and its parents may be
    links to any place.

    Raises:
        StoreError: the name is, or contains, a link to a place outside of the folder; or it is a
            pipe, a socket or a device.

    Complexity: one system call per part of the name.
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
                        f"{hidden(at)!r} is a link to {target!r}, which is outside of "
                        f"{hidden(root)!r}. The content of a table's folder is not trusted to "
                        "refer to other files: remove the link, or move the whole folder and "
                        "link that"
                    )
                mode = os.stat(at).st_mode
        except OSError:
            return  # missing or not readable: opening it raises the error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StoreError(f"{hidden(at)!r} is neither a file nor a folder: remove it")
