"""The measure of skew against the paper's formulas, and against what chance makes of even rules."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.partitioning import chance, rarely_by_chance, skew


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=50).filter(any))
def test_skew_is_the_deviation_over_the_mean(loads: list[int]) -> None:
    expected = statistics.stdev(loads) / statistics.mean(loads)
    assert skew(np.array(loads)) == pytest.approx(expected)
    assert skew(np.array(loads) * 2.5) == pytest.approx(expected)


@pytest.mark.parametrize("loads", [[], [7], [0], [0, 0, 0], [5, 5, 5, 5]])
def test_one_partition_and_an_empty_cycle_have_no_skew(loads: list[int]) -> None:
    assert skew(np.array(loads, np.int64)) == 0.0


@pytest.mark.parametrize(("partitions", "rows"), [(2, 1_000), (6, 10_000), (128, 10_000)])
def test_an_even_rule_shows_the_skew_of_chance_and_seldom_more(partitions: int, rows: int) -> None:
    random = np.random.default_rng(partitions + rows)
    drawn = random.multinomial(rows, [1 / partitions] * partitions, size=3_000)
    found = [skew(loads) for loads in drawn]
    assert statistics.mean(ds**2 for ds in found) == pytest.approx(
        chance(partitions, rows) ** 2, rel=0.1
    )
    assert max(found) ** 2 < rarely_by_chance(partitions, rows)
    assert max(found) ** 2 > 0.5 * rarely_by_chance(partitions, rows)
