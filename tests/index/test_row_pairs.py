"""Ranges of rows become pairs, in slices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import pairs

ranges = st.lists(st.tuples(st.integers(0, 100), st.integers(-3, 12)), max_size=60)


@given(ranges, st.integers(1, 30))
def test_the_slices_hold_every_pair_once_and_in_order(
    probes: list[tuple[int, int]], max_pairs: int
) -> None:
    firsts = np.array([first for first, _ in probes], np.int64)
    stops = firsts + np.array([count for _, count in probes], np.int64)
    slices = list(pairs(firsts, stops, max_pairs))
    expected = [(p, row) for p, (first, n) in enumerate(probes) for row in range(first, first + n)]
    assert [pair for part in slices for pair in zip(*part, strict=True)] == expected
    assert all(len(part[0]) == max_pairs for part in slices[:-1])
    assert all(part[0].dtype == part[1].dtype == np.int64 for part in slices)
    assert all(len(part[0]) for part in slices)


def test_one_probe_with_more_answers_than_memory() -> None:
    slices = pairs(np.array([5]), np.array([5 + 10**12]), 1000)
    probes, rows = next(slices)
    assert (probes == 0).all()
    assert (rows == np.arange(5, 1005)).all()
    _, rows = next(slices)
    assert rows[0] == 1005
