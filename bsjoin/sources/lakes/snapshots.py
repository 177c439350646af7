"""Snapshots of Iceberg, and whether nothing but rows were added between two of them."""

from __future__ import annotations

from typing import Any

from bsjoin.errors import SourceError

NO_SNAPSHOT = "none"
"""The version of a table that nothing was committed to."""

# A rewrite of data files changes no rows.
_APPENDS = ("append", "replace")
_EXPIRED = (
    "the table does not have its history since snapshot {} any more: snapshot {} has expired, or "
    "the table was made anew"
)


def why_not_appended(metadata: Any, since: str, until: str) -> str | None:
    """Why one snapshot is not an earlier one and what was appended since; None if it is.

    pyiceberg's scan of what was appended is silent about all other changes.

    Raises:
        SourceError: the snapshots between the two are not there any more.
    """
    if since == NO_SNAPSHOT:
        return "the table had no snapshot"
    if until == NO_SNAPSHOT:
        return f"snapshot {since} is gone"
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    number: int | None = int(until)
    snapshot: Any = None
    for _ in range(len(snapshots) + 1):
        if (snapshot := snapshots.get(number)) is None:
            break
        done = None if snapshot.summary is None else snapshot.summary.operation.value
        if done not in _APPENDS:
            return f"snapshot {number} is no append, but {done or 'not known'}"
        number = snapshot.parent_snapshot_id
        if str(number) == since:
            return None
        if number is None:
            break
    if not _led_to(metadata, until, since):  # else the table was rolled back
        if snapshot is None:
            raise SourceError(_EXPIRED.format(since, number))
        # pyiceberg leaves a snapshot without a parent when that expires: it is not the first one.
        if since not in map(str, snapshots) or (snapshot.sequence_number or 0) > 1:
            raise SourceError(_EXPIRED.format(since, f"before {snapshot.snapshot_id}"))
    return f"snapshot {since} is none of those that led to {until}"


def _led_to(metadata: Any, first: str, last: str) -> bool:
    """Whether one snapshot is an earlier one of those that led to another one."""
    parents = {str(one.snapshot_id): str(one.parent_snapshot_id) for one in metadata.snapshots}
    number = last
    return any((number := parents.get(number, "")) == first for _ in parents)


def appended_bytes(metadata: Any, since: str, until: str) -> int | None:
    """How large the files are that were added between two snapshots; None if one does not tell.

    The second one must be what was appended to the first: see :func:`why_not_appended`.
    """
    snapshots = {str(snapshot.snapshot_id): snapshot for snapshot in metadata.snapshots}
    number, size = until, 0
    while number != since:
        told = snapshots[number].summary.get("added-files-size")
        if told is None or not told.isdecimal():
            return None
        size, number = size + int(told), str(snapshots[number].parent_snapshot_id)
    return size
