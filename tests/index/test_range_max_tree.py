"""The tree of maxima against a loop over all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index.range_max_tree import RangeMaxTree

LOW, HIGH = -(2**63), 2**63 - 1
value = st.one_of(st.integers(0, 9), st.sampled_from([LOW, LOW + 1, HIGH]))


@settings(deadline=None)
@given(
    st.lists(value, max_size=200),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), value), max_size=30),
    st.integers(1, 100),
)
def test_ranges_find_the_rows_that_reach_their_threshold(
    stored: list[int], probes: list[tuple[int, int, int]], max_pairs: int
) -> None:
    tree = RangeMaxTree.build(np.array(stored, np.int64))
    tree.validate()
    probes = [(min(a, len(stored)), min(b, len(stored)), least) for a, b, least in probes]
    asked = tuple(np.array([probe[i] for probe in probes], np.int64) for i in range(3))
    expected = [
        (position, row)
        for position, (first, stop, least) in enumerate(probes)
        for row in range(first, stop)
        if stored[row] >= least
    ]
    found = list(tree.pairs(*asked, max_pairs))
    assert [pair for part in found for pair in zip(*part, strict=True)] == expected
    assert all(0 < len(part[0]) <= max_pairs for part in found)
    matched = {position for position, _ in expected}
    assert tree.any(*asked).tolist() == [position in matched for position in range(len(probes))]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4096, 4097])
def test_every_range_of_full_and_broken_levels(size: int) -> None:
    stored = np.random.default_rng(size).permutation(size)
    tree = RangeMaxTree.build(stored)
    tree.validate()
    random = np.random.default_rng(size + 1)
    ends = np.sort(random.integers(0, size + 1, (200, 2)), axis=1)
    ends[:3] = [[0, size], [0, 0], [size, size]]
    firsts, stops = ends.T.copy()
    best = np.array([stored[a:b].max(initial=-1) for a, b in ends])
    for beyond in (0, 1):
        expected = (firsts < stops) & (beyond == 0)
        assert (tree.any(firsts, stops, best + beyond) == expected).all()
        pairs = sum(len(rows) for _, rows in tree.pairs(firsts, stops, best + beyond, 1000))
        assert pairs == expected.sum()
