"""File systems that one machine has to itself."""

from __future__ import annotations

import os
import re

_MOUNTS = "/proc/self/mountinfo"
_OF_ONE = frozenset(
    ("btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "ramfs", "tmpfs", "xfs", "zfs")
)
_OCTAL = re.compile(rb"\\([0-7]{3})")


def is_of_one_machine(path: str) -> bool:
    """Whether a folder is on a disk of this machine, or in its memory.

    Then a file is there for all of its processes at the moment in which it is made, and they have
    one clock. That the machine serves the folder to others is not seen.

    Args:
        path: of the folder; it may not be there yet.

    Returns:
        False where that is not known: shared file systems, and all but Linux.

    Example:
        >>> is_of_one_machine("/proc")
        False
    """
    try:
        with open(_MOUNTS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    real = os.fsencode(os.path.realpath(path)).rstrip(b"/")
    longest, kind, device = -1, b"", b""
    for line in lines:
        mount, _, rest = line.partition(b" - ")
        parts = mount.split(b" ")
        if len(parts) < 5 or not rest:
            continue
        place = _OCTAL.sub(lambda found: bytes([int(found[1], 8) & 255]), parts[4]).rstrip(b"/")
        # Of several at one place the last one is seen.
        if len(place) >= longest and (real == place or real.startswith(place + b"/")):
            longest, kind, device = len(place), rest.split(b" ")[0], parts[2]
    # Another device: what was found is hidden by a later mount above it.
    return kind.decode("ascii", "replace") in _OF_ONE and device == _device_of(real)


def _device_of(path: bytes) -> bytes | None:
    """The device of a folder, or of the nearest one above it that is there."""
    while True:
        try:
            found = os.stat(path or b"/").st_dev
        except FileNotFoundError:
            path = os.path.dirname(path)
        except OSError:
            return None
        else:
            return b"%d:%d" % (os.major(found), os.minor(found))
