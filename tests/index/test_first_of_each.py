"""The rows of each probe are put in order, or one is kept, however they come in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import each_in_order, first_of_each

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40, unique=True)


@given(pairs, st.lists(st.integers(0, 3), min_size=10, max_size=10), st.integers(1, 9))
def test_rows_are_in_order_and_the_first_of_each_probe_is_kept(
    found: list[tuple[int, int]], weights: list[int], size: int
) -> None:
    found = sorted(found, key=lambda pair: pair[0])
    pieces = [found[at : at + size] for at in range(0, len(found), size)]
    arrays: list[Any] = [tuple(np.array(piece, np.int64).T) for piece in pieces]

    def order(rows: Any) -> Any:
        return np.array(weights).take(rows), rows

    parts = [*each_in_order(arrays, order, size)]
    assert all(0 < len(positions) <= size for positions, _ in parts)
    ordered = sorted(found, key=lambda pair: (pair[0], weights[pair[1]], pair[1]))
    assert listed(parts) == ordered
    firsts = dict(reversed(ordered))
    assert listed(first_of_each(arrays, order)) == sorted(firsts.items())


def listed(parts: Iterable[tuple[Any, Any]]) -> list[tuple[int, int]]:
    return [pair for part in parts for pair in zip(*(a.tolist() for a in part), strict=True)]
