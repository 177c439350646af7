"""The rule under which partitions give parts of their load to others, whatever makes it heavy.

The load of a partition is known, and not which of its keys cause it: rows with many matches cost
more than others. So the same share of each heavy key leaves, by a hash of its rows, and the same
share of the other keys, by new boundaries. Keys of other partitions stay, except near boundaries.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bsjoin.index import Float64s
from bsjoin.partitioning.range_rules import near_quantiles
from bsjoin.partitioning.rule import HotKey, Rule
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.spreading import DRAWN, MOST_KEYS, SLIVER

Splits = Mapping[int, Mapping[int, float]]
"""By partition, the share of its load for each other partition."""

_HEAVY = 0.05  # of the mean load of a partition: a key below it stays whole


def after_splits(loads: Float64s, splits: Splits) -> Float64s:
    """The loads after parts have moved; shares count from the loads before.

    >>> after_splits(np.array([4.0, 1.0, 1.0]), {0: {1: 0.25, 2: 0.5}}).tolist()
    [1.0, 2.0, 3.0]
    """
    after = loads.copy()
    for partition, parts in splits.items():
        for receiver, share in parts.items():
            after[partition] -= loads[partition] * share
            after[receiver] += loads[partition] * share
    return np.maximum(after, 0.0)


def relieved(rule: Rule, sample: Sample, splits: Splits) -> Rule:
    """The rule after a rule, under which parts of partitions are on others.

    Complexity: O(m log n + keys x n) for m sampled codes and the heavy keys among them.

    Example:
        >>> sample = Sample.of(np.repeat([1, 6], [8, 8]))
        >>> relieved(Rule(1, 3, (3, 9)), sample, {0: {2: 0.25}}).hot
        (HotKey(code=1, first=0, shares=(0.75, 0.0, 0.25)),)
    """
    n, mean = rule.partitions, sample.weight / rule.partitions
    shares = {key.code: _dense(key, n) for key in rule.hot}
    owners = rule.partition_of(sample.codes)
    heavy = (sample.weights >= _HEAVY * mean) & (sample.counts >= DRAWN)
    heavy &= np.isin(owners, list(splits))
    candidates = np.flatnonzero(heavy & ~np.isin(sample.codes, list(shares)))
    candidates = candidates[np.argsort(-sample.weights[candidates], kind="stable")]
    most = max(MOST_KEYS[0] * n, MOST_KEYS[1]) - len(shares)
    for at in candidates[: max(most, 0)].tolist():
        shares[int(sample.codes[at])] = np.eye(n)[owners[at]]
    weights = dict(zip(sample.codes.tolist(), sample.weights.tolist(), strict=True))
    hot = [
        _key(code, after_splits(shares[code], splits), SLIVER * mean / weights.get(code, mean))
        for code in sorted(shares)
    ]
    cold = sample.where(~np.isin(sample.codes, list(shares)))
    boundaries = rule.boundaries
    if len(cold.codes):
        loads = np.bincount(rule.partition_of(cold.codes), weights=cold.weights, minlength=n)
        after = after_splits(loads.astype(np.float64), splits)
        if not np.allclose(after, loads):
            boundaries = near_quantiles(cold, after / after.sum())
    return Rule(rule.version + 1, n, boundaries, tuple(hot))


def _dense(key: HotKey, partitions: int) -> Float64s:
    """The share of a key on every partition."""
    found = np.zeros(partitions)
    found[key.first : key.first + len(key.shares)] = key.shares
    return found


def _key(code: int, shares: Float64s, sliver: float) -> HotKey:
    """A key with these shares, without those that are too small."""
    shares = np.where(shares < min(sliver, float(shares.max())), 0.0, shares)
    there = np.flatnonzero(shares)
    span = shares[there[0] : there[-1] + 1]
    return HotKey(code, int(there[0]), tuple((span / span.sum()).tolist()))
