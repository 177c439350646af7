"""How rules are made: Algorithm 2 of the paper, ranges of whole keys, and keys that are spread."""

from __future__ import annotations

import numpy as np
import pytest
from hotspot_strategies import samples
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST
from bsjoin.partitioning import Rule, Sample, algorithm_2, skew, spread_keys, whole_keys
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
    assert rule._wrong() is None
    if len(sample.codes) == 0:
        assert rule == Rule.even(partitions, 4)
        return
    expected = pseudocode(sample, partitions)[: partitions - 1]
    assert list(rule.boundaries) == expected + [GREATEST] * (partitions - 1 - len(expected))


@settings(deadline=None)
@given(samples(), st.integers(1, 20))
def test_rules_for_any_sample_are_sound_and_even_as_far_as_keys_allow(
    sample: Sample, partitions: int
) -> None:
    whole = whole_keys(sample, partitions)
    spread = spread_keys(sample, partitions, 3, keep=Rule.even(partitions).boundaries)
    for rule in (whole, spread):
        assert rule._wrong() is None
        assert len(Rule.from_json(rule.to_json()).hot) == len(rule.hot)
    assert (whole.hot, spread.version) == ((), 3)
    if not len(sample.codes):
        return
    loads = whole.loads(sample.codes, sample.weights)
    mean, heaviest = loads.mean(), sample.weights.max()
    # A partition that takes its part of what is left overshoots by half a key at most, and
    # what is left for each one is never more than the mean and what others fell short.
    assert loads.max() <= max(heaviest, mean) + heaviest
    if sample.counts.min() >= 4:  # every key may be spread
        paper = algorithm_2(sample, partitions).loads(sample.codes, sample.weights)
        found = skew(spread.loads(sample.codes, sample.weights))
        assert found <= max(min(skew(paper), skew(loads)), 0.06)
    ends = near_quantiles(sample, np.full(partitions, 1 / partitions))
    assert list(ends) == sorted(ends)
    sums = np.cumsum(sample.weights)
    for j, end in enumerate(ends, 1):
        target = sums[-1] * j / partitions
        reached = sums[np.searchsorted(sample.codes, end)]
        assert abs(reached - target) <= np.abs(sums - target).min() + 1e-6


def hashes(count: int, seed: int = 0) -> np.ndarray:
    return np.unique(np.random.default_rng(seed).integers(LEAST, 2**63 - 1, count))


def zipf(z: float, keys: int, rows: int, seed: int = 0) -> Sample:
    """Keys with the codes of hashes, and the counts that they are expected to have."""
    codes = hashes(keys, seed)
    weights = np.arange(1, len(codes) + 1) ** -z
    counts = np.maximum(np.round(rows * weights / weights.sum()), 1).astype(np.int64)
    np.random.default_rng(seed).shuffle(counts)
    return Sample(codes, counts, counts * 1.0)


@pytest.mark.parametrize("partitions", [2, 6, 16, 128])
@pytest.mark.parametrize("z", [0.5, 1.16, 2.0])
def test_loads_are_even_whatever_the_exponent_and_few_keys_are_spread(
    z: float, partitions: int
) -> None:
    keep = Rule.even(partitions).boundaries
    for seed in range(2):
        sample = zipf(z, 20_000, 500_000, seed)
        rule = spread_keys(sample, partitions, 1, keep if z == 1.16 else None)
        assert rule._wrong() is None
        assert skew(rule.loads(sample.codes, sample.weights)) <= 0.011
        assert len(rule.hot) <= max(4 * partitions, 64)
        # Each piece ends with a key or with a partition, and none is a sliver.
        assert sum(len(key.shares) for key in rule.hot) <= len(rule.hot) + partitions
        weight = dict(zip(sample.codes.tolist(), sample.weights.tolist(), strict=True))
        for key in rule.hot:
            pieces = np.array(key.shares) * weight[key.code]
            assert pieces[[0, -1]].min() >= 0.0099 * sample.weight / partitions
        assert z != 1.16 or rule.boundaries == keep  # ranges stay while hot keys change
