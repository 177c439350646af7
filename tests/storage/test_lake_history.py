"""What led from one snapshot of Iceberg to another one."""

from __future__ import annotations

import pytest

from bsjoin.errors import SourceError
from bsjoin.storage.lake_history import Snapshot, why_not_appended


def appended(many: int) -> dict[int, Snapshot]:
    """The snapshots 1, 2, … of a table that was appended to."""
    return {n: Snapshot(n - 1 or None, "append", n) for n in range(1, many + 1)}


def test_a_history_is_followed_as_far_as_its_caller_says() -> None:
    made = appended(20_000)
    assert why_not_appended(made.get, "1", "20000", len(made) + 1) is None
    assert why_not_appended(made.get, "19990", "20000", 10) is None
    for most in (1, 9):
        why = why_not_appended(made.get, "19990", "20000", most)
        assert why == f"there are more than {most} snapshots since 19990"


def test_a_history_that_is_all_looked_at_says_what_is_wrong() -> None:
    made = appended(6)
    most = len(made) + 1
    later = {**made, 4: made[4]._replace(operation="delete")}
    assert why_not_appended(later.get, "2", "6", most) == "snapshot 4 is no append, but delete"
    other = {**made, 7: Snapshot(3, "append", 7)}  # rolled back to 3
    why = why_not_appended(other.get, "6", "7", len(other) + 1)
    assert why == "snapshot 6 is none of those that led to 7"
    left = {number: made[number] for number in (4, 5, 6)}
    with pytest.raises(SourceError, match="snapshot 3, or what was before it, has expired"):
        why_not_appended(left.get, "2", "6", len(left) + 1)
    circle = {**made, 1: made[1]._replace(parent=6)}
    assert (
        why_not_appended(circle.get, "9", "6", most)
        == f"there are more than {most} snapshots since 9"
    )
