"""The reservoir: every row has the same chance, however the stream is cut into batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.partitioning import Reservoir


@given(
    st.integers(1, 40),
    st.lists(st.integers(0, 60), max_size=20),
    st.one_of(st.integers(0, 9), st.tuples(st.integers(0, 9), st.integers(0, 9))),
)
def test_a_sample_is_of_different_rows_and_as_large_as_it_can_be(
    capacity: int, sizes: list[int], seed: int | tuple[int, int]
) -> None:
    rows = np.arange(sum(sizes))
    reservoir, again = Reservoir(capacity, seed), Reservoir(capacity, seed)
    for part in np.split(rows, np.cumsum(sizes)):
        reservoir.add(part)
        again.add(part)
    drawn = reservoir.codes.tolist()
    assert len(drawn) == len(set(drawn)) == min(capacity, len(rows))
    assert set(drawn) <= set(rows.tolist())
    assert reservoir.rows == len(rows)
    assert again.codes.tolist() == drawn


@pytest.mark.parametrize(
    ("capacity", "sizes"),
    [(1, [30]), (7, [3, 4, 2, 6, 15, 20]), (7, [1] * 30), (45, [50]), (20, [19, 31])],
)
def test_every_row_has_the_same_chance(capacity: int, sizes: list[int]) -> None:
    rows, runs = sum(sizes), 2_000
    seen = np.zeros(rows)
    for seed in range(runs):
        reservoir = Reservoir(capacity, seed)
        for part in np.split(np.arange(rows), np.cumsum(sizes)):
            reservoir.add(part)
        seen[reservoir.codes] += 1
    share = capacity / rows
    # Drawn without replacement, so that this is chi-square with rows - 1 degrees of freedom.
    square = ((seen - runs * share) ** 2).sum() / (runs * share * (1 - share)) * (rows - 1) / rows
    assert square < rows - 1 + 4 * np.sqrt(2 * (rows - 1))
