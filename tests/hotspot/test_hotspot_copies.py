"""Equal rows are numbered from 0 on, however they are mixed with others and cut into batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.hotspot import Collector, HotKey, Router, Rule
from bsjoin.hotspot.copies import Copies


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=40), max_size=8),
    st.integers(1, 22),
    st.integers(0, 2**32),
)
def test_numbers_are_those_of_a_dictionary(batches: list[list[int]], bits: int, seed: int) -> None:
    contents = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 41)
    contents[:3] = [0, -(2**63), 2**63 - 1]
    copies, seen = Copies(bits), Counter[int]()
    for batch in batches:
        found = copies.numbers(contents[np.array(batch, np.int64)]).tolist()
        expected = []
        for content in batch:
            expected.append((content, seen[content]))
            seen[content] += 1
        assert sorted(zip(batch, found, strict=True)) == sorted(expected)


def test_more_contents_than_places_are_told_apart() -> None:
    random = np.random.default_rng(1)
    contents = random.permutation(np.repeat(random.integers(-(2**63), 2**63 - 1, 3_000), 3))
    copies = Copies(10)
    found = np.concatenate([copies.numbers(part) for part in np.array_split(contents, 20)])
    for number in range(3):
        assert len(np.unique(contents[found == number])) == 3_000


def task(contents: np.ndarray, batch: int) -> np.ndarray:
    """Where the rows of one hot key go."""
    rule = Rule(1, 8, (0,) * 7, (HotKey(5, 1, (0.1, 0.2, 0.3, 0.4)),))
    collector = Collector(Router(rule), 10)
    codes = np.full(len(contents), 5)
    parts = [
        collector.route(codes[i : i + batch], contents[i : i + batch])
        for i in range(0, len(contents), batch)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("different", [1, 7, 400, 20_000])
def test_rows_in_another_order_go_where_they_went_before(different: int) -> None:
    random = np.random.default_rng(different)
    pool = random.integers(-(2**63), 2**63 - 1, different)
    contents = random.choice(pool, 20_000)
    first = Counter(zip(contents.tolist(), task(contents, 1_000).tolist(), strict=True))
    mixed = random.permutation(contents)
    second = Counter(zip(mixed.tolist(), task(mixed, 777).tolist(), strict=True))
    assert first == second


@pytest.mark.parametrize("different", [1, 7, 400, 20_000])
def test_rows_of_a_hot_key_are_spread_even_if_all_are_equal(different: int) -> None:
    random = np.random.default_rng(different)
    contents = random.choice(random.integers(-(2**63), 2**63 - 1, different), 20_000)
    shares = np.bincount(task(contents, 1_000), minlength=8) / 20_000
    assert shares == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0, 0, 0], abs=0.015)
