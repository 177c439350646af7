"""The nested loop over ranges, and when it is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index.range_max_tree import RangeMaxTree
from bsjoin.index.scan import is_dense, scanned


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 10)), max_size=20),
    st.integers(1, 30),
)
def test_it_finds_what_the_tree_finds(
    stored: list[int], probes: list[tuple[int, int, int]], max_pairs: int
) -> None:
    values = np.array(stored, np.int64)
    probes = [(min(a, len(stored)), min(b, len(stored)), least) for a, b, least in probes]
    asked = tuple(np.array([probe[i] for probe in probes], np.int64) for i in range(3))
    is_dense(values, *asked)
    found = list(scanned(values, *asked, max_pairs))
    assert all(0 < len(part[0]) <= max_pairs for part in found)
    by_tree = RangeMaxTree.build(values).pairs(*asked, 10**6)
    pairs = [pair for part in by_tree for pair in zip(*part, strict=True)]
    assert [pair for part in found for pair in zip(*part, strict=True)] == pairs


@pytest.mark.parametrize(
    ("share", "dense"), [(0.0, False), (0.02, False), (0.5, True), (1.0, True)]
)
def test_long_ranges_that_match_often_are_dense(share: float, dense: bool) -> None:
    values = (np.random.default_rng(1).random(5000) < share).astype(np.int64)
    firsts, ones = np.zeros(9, np.int64), np.ones(9, np.int64)
    assert is_dense(values, firsts, np.full(9, 5000), ones) == dense
    assert not is_dense(values, firsts, np.full(9, 100), ones)
    assert not is_dense(values, firsts, firsts, ones)
