"""Snapshots of Iceberg, and whether nothing but rows were added between two of them."""

from __future__ import annotations

from typing import Any

__all__ = ["NO_SNAPSHOT", "why_not_appended"]

NO_SNAPSHOT = "none"
"""The version of a table that nothing was committed to."""

# A rewrite of data files changes no rows.
_APPENDS = ("append", "replace")


def why_not_appended(metadata: Any, since: str, until: str) -> str | None:
    """Why one snapshot is not an earlier one and what was appended since; None if it is.

    pyiceberg's scan of what was appended is silent about all other changes.
    """
    # Those that expired are no parents any more: the first that is left may not be the first.
    if since == NO_SNAPSHOT:
        return "the table had no snapshot"
    if until == NO_SNAPSHOT:
        return f"snapshot {since} is gone"
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    number: int | None = int(until)
    for _ in range(len(snapshots) + 1):
        if (snapshot := snapshots.get(number)) is None:
            return "a snapshot between the two has expired"
        done = None if snapshot.summary is None else snapshot.summary.operation.value
        if done not in _APPENDS:
            return f"snapshot {number} is no append, but {done or 'not known'}"
        number = snapshot.parent_snapshot_id
        if str(number) == since:
            return None
        if number is None:
            break
    return f"snapshot {since} is none of those that led to {until}"
