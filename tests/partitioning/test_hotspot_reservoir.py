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


def test_pairs_of_rows_have_the_same_chance() -> None:
    together, runs = np.zeros((8, 8)), 3_000
    for seed in range(runs):
        reservoir = Reservoir(3, seed)
        for begin in range(0, 8, 2):
            reservoir.add(np.arange(begin, begin + 2))
        together[np.ix_(reservoir.codes, reservoir.codes)] += 1
    pairs = together[np.triu_indices(8, 1)]
    expected = runs * (3 * 2) / (8 * 7)
    assert ((pairs - expected) ** 2 / expected).sum() < 27 + 4 * np.sqrt(2 * 27)


def test_a_long_stream_is_sampled_from_its_beginning_to_its_end() -> None:
    reservoir = Reservoir(2_000, seed=3)
    for begin in range(0, 3_000_000, 10_000):
        reservoir.add(np.arange(begin, begin + 10_000))
    tenths = np.bincount(reservoir.codes // 300_000, minlength=10)
    assert len(tenths) == 10
    assert np.abs(tenths - 200).max() < 70


def test_a_sample_needs_room() -> None:
    with pytest.raises(ValueError, match="capacity=0"):
        Reservoir(0)
