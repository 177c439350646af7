"""The age of a version's rows: when its source was last read and found to be the same.

A published version has the rows of the time when its build began to read. A later refresh that
finds the same rows publishes nothing: it leaves a mark in ``fresh``, an empty file whose name has
the version, the time when it began to read, and the time of the mark.

Whether a micro-batch may use a version is a function of the micro-batch's timestamp, the versions
and the marks alone, and once it may, it always may. So a replay gets the same rows. One that may
not fails. As it has had no rows, it may use the next version that is fresh enough, even if that was
published after it began: it runs again once a refresh has succeeded.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bsjoin._clock import now_us
from bsjoin.errors import StaleTableError, StoreError
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.manifest import Manifest
from bsjoin.storage.names import FRESH

_log = logging.getLogger("bsjoin")

_NAME = re.compile(r"([0-9]{8,9})-([0-9]{1,18})-([0-9]{1,18})")
_KEPT = 2  # of a version: a listing beside a renewal may miss the newest one


class Mark(NamedTuple):
    """A note that a version still held the rows of its source.

    Args:
        version: its number.
        read_us: when the reading of the source began, microseconds since the epoch.
        noted_us: when the mark was made.
    """

    version: int
    read_us: int
    noted_us: int


def confirm(location: StorageLocation, manifest: Manifest, read_us: int) -> None:
    """Note that a version has the rows of its source, whose reading began at ``read_us``.

    A failure is logged: who only reads may not be able to write.
    """
    try:
        location.create(f"{FRESH}/{manifest.version:08d}-{read_us}-{now_us()}", b"")
        same = [mark for mark in marks_in(mark_names(location)) if mark.version == manifest.version]
        for mark in sorted(same, key=lambda mark: mark.read_us)[:-_KEPT]:
            _remove(location, mark)
    except (OSError, StoreError) as error:
        _log.info("bsjoin: a refresh of %r is not noted: %s", str(location), error)


def last_read_us(location: StorageLocation, newest: Manifest) -> int:
    """Since when the rows of the newest version may be out of date; see :func:`read_us`."""
    return read_us(newest, None, marks_in(mark_names(location)))


def mark_names(location: StorageLocation) -> list[str]:
    """The names of the marks of a table."""
    return location.names(FRESH)


def marks_in(names: Iterable[str]) -> list[Mark]:
    """The marks of these names; other files are passed over."""
    found = map(_NAME.fullmatch, names)
    return [Mark(int(one[1]), int(one[2]), int(one[3])) for one in found if one is not None]


def remove_marks(location: StorageLocation, before: int) -> None:
    """Remove the marks of all versions before one."""
    for mark in marks_in(mark_names(location)):
        if mark.version < before:
            _remove(location, mark)


def _remove(location: StorageLocation, mark: Mark) -> None:
    with contextlib.suppress(FileNotFoundError):
        location.remove(f"{FRESH}/{mark.version:08d}-{mark.read_us}-{mark.noted_us}")


def read_us(manifest: Manifest, successor: Manifest | None, marks: Iterable[Mark]) -> int:
    """Since when the rows of a version may be out of date, microseconds since the epoch.

    Marks that were made before it, of one that was withdrawn and had its number, or after its
    successor was published, say nothing.
    """
    built = manifest.created_at_us - round(manifest.build_s * 1e6)
    confirmed = [
        mark.read_us
        for mark in marks
        if mark.version == manifest.version
        and mark.noted_us >= manifest.created_at_us
        and (successor is None or mark.noted_us < successor.created_at_us)
    ]
    return max(built, *confirmed) if confirmed else built


def fresh_version(
    location: StorageLocation,
    chosen: Manifest,
    entries: Sequence[Manifest],
    marks: Sequence[Mark],
    time_us: int,
    max_staleness_us: int,
) -> Manifest:
    """The version that a micro-batch uses, if rows must not be older than so much.

    ``chosen`` is active at its timestamp; all versions are ascending.

    Raises:
        StaleTableError: there is none yet.
    """
    later = [entry for entry in entries if entry.version >= chosen.version]
    for manifest, successor in zip(later, [*later[1:], None], strict=True):
        if read_us(manifest, successor, marks) >= time_us - max_staleness_us:
            return manifest
    last = read_us(later[-1], None, marks)
    raise StaleTableError(
        f"version {later[-1].version} of the table in {str(location)!r} has the rows of "
        f"{_shown(last)}, {(time_us - last) / 1e6:.1f} s before the micro-batch of "
        f"{_shown(time_us)}, and max_staleness is {max_staleness_us / 1e6:g} s: refreshes have "
        "failed since, or none was made (see the log, and refresh in bsjoin.progress). Let one "
        "succeed, then start the query again: it continues from its checkpoint"
    )


def _shown(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
