"""The measure of skew against the paper's formulas, and against what chance makes of even rules."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.partitioning import beyond_chance, chance, rarely_by_chance, skew


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=50).filter(any))
def test_skew_is_the_deviation_over_the_mean(loads: list[int]) -> None:
    expected = statistics.stdev(loads) / statistics.mean(loads)
    assert skew(np.array(loads)) == pytest.approx(expected)
    assert skew(np.array(loads) * 2.5) == pytest.approx(expected)


@pytest.mark.parametrize("loads", [[], [7], [0], [0, 0, 0], [5, 5, 5, 5]])
def test_one_partition_and_an_empty_cycle_have_no_skew(loads: list[int]) -> None:
    assert skew(np.array(loads, np.int64)) == 0.0


@pytest.mark.parametrize("partitions", [2, 6, 128])
def test_all_rows_on_one_partition_are_the_greatest_skew(partitions: int) -> None:
    loads = np.zeros(partitions)
    loads[1] = 1000
    assert skew(loads) == pytest.approx(math.sqrt(partitions))


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


def test_chance_is_no_reason_for_nothing() -> None:
    assert chance(1, 100) == chance(6, 0) == rarely_by_chance(1, 100) == 0.0
    assert rarely_by_chance(6, 100, cycles=1e12) == pytest.approx(chance(6, 100) ** 2, rel=1e-5)
    assert beyond_chance(0.0, 1, 10) == 0.0
    assert beyond_chance(0.3, 6, 10**9) == pytest.approx(0.09)
