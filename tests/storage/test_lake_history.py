"""How far a history of Iceberg is followed; test_lakes_followed.py has what it tells."""

from __future__ import annotations

from bsjoin.storage.lake_history import Snapshot, why_not_appended


def test_a_history_is_followed_as_far_as_its_caller_says() -> None:
    """Also where it leads round in a circle."""
    made = {n: Snapshot(n - 1 or None, "append", n) for n in range(1, 20_001)}
    assert why_not_appended(made.get, "1", "20000", len(made) + 1) is None
    assert why_not_appended(made.get, "19990", "20000", 10) is None
    circle = {**made, 1: made[1]._replace(parent=20_000)}
    for there, since, most in ((made, 19_990, 1), (made, 19_990, 9), (circle, 20_001, 20_001)):
        why = why_not_appended(there.get, str(since), "20000", most)
        assert why == f"there are more than {most:,} snapshots since {since}"
