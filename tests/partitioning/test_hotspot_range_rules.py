"""Rules that keep keys whole: the paper's pseudocode, and ranges that reckon with what is left."""

from __future__ import annotations

import numpy as np
from hotspot_strategies import samples
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import GREATEST
from bsjoin.partitioning import Rule, Sample, algorithm_2, skew, whole_keys
from bsjoin.partitioning.range_rules import near_quantiles


def pseudocode(sample: Sample, partitions: int) -> list[int]:
    """Lines 9 to 18 of Algorithm 2, as they stand there."""
    reservoir = list(zip(sample.codes.tolist(), sample.weights.tolist(), strict=True))
    mean = sum(n for _, n in reservoir) / partitions
    quantiles: list[int] = []
    count = 0.0
    for k, n in reservoir:
        count += n
        if count >= mean:
            quantiles.append(k)
            count = 0.0
    return quantiles


@given(samples(), st.integers(1, 20))
def test_algorithm_2_is_the_papers(sample: Sample, partitions: int) -> None:
    rule = algorithm_2(sample, partitions, 4)
    rule._check()
    if len(sample.codes) == 0:
        assert rule == Rule.even(partitions, 4)
        return
    expected = pseudocode(sample, partitions)[: partitions - 1]
    assert list(rule.boundaries) == expected + [GREATEST] * (partitions - 1 - len(expected))


@settings(deadline=None)
@given(samples(), st.integers(1, 20))
def test_whole_keys_leaves_no_partition_as_full_as_two_of_the_keys_and_the_mean(
    sample: Sample, partitions: int
) -> None:
    rule = whole_keys(sample, partitions)
    rule._check()
    assert rule.hot == ()
    if len(sample.codes):
        loads = rule.loads(sample.codes, sample.weights)
        mean, heaviest = loads.mean(), sample.weights.max()
        # A partition that takes its part of what is left overshoots by half a key at most, and
        # what is left for each one is never more than the mean and what others fell short.
        assert loads.max() <= max(heaviest, mean) + heaviest


def test_a_key_of_many_means_starves_partitions_of_the_papers_rule_only() -> None:
    sample = Sample.of(np.concatenate([np.zeros(1000, np.int64), np.arange(1, 1001)]))
    paper = algorithm_2(sample, 20).loads(sample.codes, sample.weights)
    ours = whole_keys(sample, 20).loads(sample.codes, sample.weights)
    assert (paper == 0).sum() == 9
    assert ours.min() > 50
    assert skew(ours) < skew(paper)
    assert ours.max() == paper.max() == 1000


@given(samples(), st.integers(1, 20))
def test_each_boundary_is_as_near_to_its_quantile_as_keys_allow(
    sample: Sample, partitions: int
) -> None:
    if not len(sample.codes):
        return
    ends = near_quantiles(sample, np.full(partitions, 1 / partitions))
    assert list(ends) == sorted(ends)
    sums = np.cumsum(sample.weights)
    for j, end in enumerate(ends, 1):
        target = sums[-1] * j / partitions
        reached = sums[np.searchsorted(sample.codes, end)]
        assert abs(reached - target) <= np.abs(sums - target).min() + 1e-6
