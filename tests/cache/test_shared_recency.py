"""The order of eviction is that of the last uses, whenever a use is recorded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.cache.generation import ENTRY
from bsjoin.cache.recency import Recency


def entries(*used: int) -> np.ndarray:
    """One live entry of one row for each use."""
    found = np.zeros(len(used), ENTRY)
    found["count"], found["used"] = 1, used
    return found


def evicted(recency: Recency, held: np.ndarray, rows: int) -> list[int]:
    """The entries that are evicted to free some rows."""
    found: list[int] = []
    while len(found) < rows:
        ids = recency.take(held, rows - len(found), 0)
        held["dead"][ids] = 1
        found += ids.tolist()
    return found


def test_a_use_that_is_recorded_late_has_its_place_in_the_order() -> None:
    recency, held = Recency(), entries(10, 20, 30, 40)
    assert evicted(recency, held, 1) == [0]
    # A process that had missed entry 1 at 25 waited for it, and records its use now.
    held["used"][1] = 25
    assert evicted(recency, held, 1) == [1]
    assert evicted(recency, held, 2) == [2, 3]


@given(st.data())
def test_the_least_recently_used_go_first(data: st.DataObject) -> None:
    recency, held = Recency(), entries(*range(0, 200, 10))
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(held) - 1))
            later = int(held["used"][place]) + data.draw(st.integers(1, 150))
            if later not in held["used"]:
                held["used"][place] = later
        alive = np.flatnonzero(held["dead"] == 0)
        rows = data.draw(st.integers(0, len(alive)))
        expected = alive[np.argsort(held["used"][alive])][:rows].tolist()
        assert evicted(recency, held, rows) == expected
