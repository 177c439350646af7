"""The history of tables of Delta and Iceberg, whichever library reads it: words, and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bsjoin.errors import SourceError

CHANGE, COMMIT = "_change_type", "_commit_version"
"""The columns of changes beside those of the table, named as in the feeds of both formats."""

NO_SNAPSHOT = "none"
"""The version of a table of Iceberg that nothing was committed to."""

# A rewrite of data files changes no rows.
_APPENDS = ("append", "replace")


class Snapshot(NamedTuple):
    """A snapshot of Iceberg.

    Args:
        parent: the number of the one that it was made of; None for the first one.
        operation: what was done; None if it does not tell.
        sequence: the place among those of the table, from 1; 0 in tables of the first version.
    """

    parent: int | None
    operation: str | None
    sequence: int


Snapshots = Callable[[int], Snapshot | None]
"""A snapshot by its number; None if it is not there any more."""


def why_not_appended(snapshots: Snapshots, since: str, until: str, most: int) -> str | None:
    """Why one snapshot is not an earlier one and what was appended since; None if it is.

    Scans of what was appended are silent about all other changes.

    Args:
        snapshots: those of the table.
        since: the earlier one.
        until: the later one.
        most: so many are looked at, twice at the most.

    Raises:
        SourceError: the snapshots between the two are not there any more.
    """
    if since == NO_SNAPSHOT:
        return "the table had no snapshot"
    if until == NO_SNAPSHOT:
        return f"snapshot {since} is gone"
    number = int(until)
    for _ in range(most):
        if (snapshot := snapshots(number)) is None:
            break
        if snapshot.operation not in _APPENDS:
            return f"snapshot {number} is no append, but {snapshot.operation or 'not known'}"
        if snapshot.parent is None:
            break
        number = snapshot.parent
        if str(number) == since:
            return None
    else:
        return f"there are more than {most:,} snapshots since {since}"
    if not _led_to(snapshots, int(until), int(since), most):  # else the table was rolled back
        # Some writers leave a snapshot without a parent when that expires: it is not the first one.
        is_gone = snapshot is None or snapshots(int(since)) is None or snapshot.sequence > 1
        if is_gone:
            raise SourceError(
                f"the table does not have its history since snapshot {since} any more: snapshot "
                f"{number}, or what was before it, has expired, or the table was made anew"
            )
    return f"snapshot {since} is none of those that led to {until}"


def _led_to(snapshots: Snapshots, first: int, last: int, most: int) -> bool:
    """Whether one snapshot is an earlier one of those that led to another one."""
    number: int | None = last
    for _ in range(most):
        snapshot = None if number is None else snapshots(number)
        number = None if snapshot is None else snapshot.parent
        if number in (None, first):
            break
    return number == first
