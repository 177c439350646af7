"""Spread keys: even loads in the sample, ranges that stay, and few keys that need it."""

from __future__ import annotations

import numpy as np
import pytest
from hotspot_strategies import samples
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import LEAST
from bsjoin.partitioning import Rule, Sample, algorithm_2, skew, spread_keys, whole_keys


def hashes(count: int, seed: int = 0) -> np.ndarray:
    return np.unique(np.random.default_rng(seed).integers(LEAST, 2**63 - 1, count))


def zipf(z: float, keys: int, rows: int, seed: int = 0) -> Sample:
    """Keys with the codes of hashes, and the counts that they are expected to have."""
    codes = hashes(keys, seed)
    weights = np.arange(1, len(codes) + 1) ** -z
    counts = np.maximum(np.round(rows * weights / weights.sum()), 1).astype(np.int64)
    np.random.default_rng(seed).shuffle(counts)
    return Sample(codes, counts, counts * 1.0)


@settings(deadline=None)
@given(samples(), st.integers(1, 20))
def test_a_rule_for_any_sample_is_sound_and_no_worse_than_the_papers(
    sample: Sample, partitions: int
) -> None:
    rule = spread_keys(sample, partitions, 3, keep=Rule.even(partitions).boundaries)
    rule._check()
    assert rule.version == 3
    again = Rule.from_json(rule.to_json())
    assert len(again.hot) == len(rule.hot)
    found = skew(rule.loads(sample.codes, sample.weights))
    if sample.counts.min(initial=9) >= 4:  # every key may be spread
        for other in (algorithm_2, whole_keys):
            unsplit = skew(other(sample, partitions).loads(sample.codes, sample.weights))
            assert found <= max(unsplit, 0.06)


@pytest.mark.parametrize("partitions", [2, 6, 16, 128])
@pytest.mark.parametrize("z", [0.5, 0.98, 1.16, 2.0])
def test_loads_are_even_whatever_the_exponent(z: float, partitions: int) -> None:
    sample = zipf(z, 20_000, 500_000)
    rule = spread_keys(sample, partitions)
    rule._check()
    assert skew(rule.loads(sample.codes, sample.weights)) <= 0.011
    assert len(rule.hot) <= max(4 * partitions, 64)
    # Each piece ends with a key or with a partition.
    assert sum(len(key.shares) for key in rule.hot) <= len(rule.hot) + partitions


@pytest.mark.parametrize("partitions", [6, 128])
def test_ranges_stay_while_hot_keys_change(partitions: int) -> None:
    keep = Rule.even(partitions).boundaries
    for seed in range(3):
        sample = zipf(1.16, 20_000, 500_000, seed)
        rule = spread_keys(sample, partitions, 1, keep)
        assert rule.boundaries == keep
        assert skew(rule.loads(sample.codes, sample.weights)) <= 0.01


def test_a_key_that_was_drawn_by_chance_is_not_spread() -> None:
    codes = hashes(300)
    counts = np.ones(300, np.int64)
    weights = np.ones(300)
    weights[7], counts[7] = 90.0, 2
    assert all(key.code != codes[7] for key in spread_keys(Sample(codes, counts, weights), 4).hot)
    counts[7] = 90
    assert codes[7] in {key.code for key in spread_keys(Sample(codes, counts, weights), 4).hot}


def test_no_partition_gets_a_sliver_of_a_key() -> None:
    for seed in range(5):
        sample = zipf(1.3, 5_000, 100_000, seed)
        rule = spread_keys(sample, 16)
        mean = sample.weight / 16
        weight = dict(zip(sample.codes.tolist(), sample.weights.tolist(), strict=True))
        for key in rule.hot:
            pieces = np.array(key.shares) * weight[key.code]
            assert pieces[[0, -1]].min() >= 0.0099 * mean
