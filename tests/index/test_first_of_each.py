"""Of the rows of each probe one is kept, however they come in pieces."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import first_of_each

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40, unique=True)


@given(pairs, st.lists(st.integers(0, 3), min_size=10, max_size=10), st.integers(1, 9))
def test_the_first_row_of_each_probe_is_kept(
    found: list[tuple[int, int]], weights: list[int], size: int
) -> None:
    found = sorted(found, key=lambda pair: pair[0])
    pieces = [found[at : at + size] for at in range(0, len(found), size)]
    arrays = [tuple(np.array(piece, np.int64).T) for piece in pieces]
    first = first_of_each(arrays, lambda rows: (np.array(weights).take(rows), rows))  # type: ignore[arg-type]
    kept = [pair for part in first for pair in zip(*(a.tolist() for a in part), strict=True)]
    positions = sorted({position for position, _ in found})
    assert kept == [
        (at, min((row for place, row in found if place == at), key=lambda row: (weights[row], row)))
        for at in positions
    ]
