"""Rules that keep every key on one partition: ranges of equal weight in a sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bsjoin.index import GREATEST
from bsjoin.partitioning.rule import Rule
from bsjoin.partitioning.sample import Sample


def algorithm_2(sample: Sample, partitions: int, version: int = 0) -> Rule:
    """Algorithm 2 of the BS-Join paper, line by line: close a partition when it reaches the mean.

    The excess of a partition above the mean is not carried over. So after a key with k times the
    mean weight, k - 1 partitions are empty; :func:`whole_keys` uses the remaining weight instead.

    Args:
        sample: m codes and their weights.
        partitions: n, 1 or more.
        version: of the rule.

    Complexity: O(m + n log m).

    Example:
        >>> algorithm_2(Sample.of(np.repeat(np.arange(1, 7), [9, 1, 1, 1, 1, 1])), 3).boundaries
        (1, 6)
    """
    codes, sums = sample.codes, np.cumsum(sample.weights)
    if not len(codes):
        return Rule.even(partitions, version)
    mean, closed = float(sums[-1]) / partitions, 0.0
    ends: list[int] = []
    while len(ends) < partitions - 1:
        at = int(np.searchsorted(sums, closed + mean))
        if at == len(codes):
            break
        ends.append(int(codes[at]))
        closed = float(sums[at])
    ends += [GREATEST] * (partitions - 1 - len(ends))
    return Rule(version, partitions, tuple(ends))


def whole_keys(sample: Sample, partitions: int, version: int = 0) -> Rule:
    """The most even ranges under which no key is on two partitions, computed greedily.

    Each partition takes its share of the remaining weight, up to the key whose end is nearest to
    that share, and at least one key. A key heavier than the mean gets its own partition, and the
    others share the rest.

    Args:
        sample: m codes and their weights.
        partitions: n, 1 or more.
        version: of the rule.

    Complexity: O(m + n log m).

    Example:
        >>> whole_keys(Sample.of(np.repeat(np.arange(1, 7), [9, 1, 1, 1, 1, 1])), 3).boundaries
        (1, 4)
    """
    codes, sums = sample.codes, np.cumsum(sample.weights)
    if not len(codes):
        return Rule.even(partitions, version)
    ends, taken = [], 0
    for left in range(partitions, 1, -1):
        done = float(sums[taken - 1]) if taken else 0.0
        target = done + (float(sums[-1]) - done) / left
        at = min(int(np.searchsorted(sums, target)), len(codes) - 1)
        if at > taken and target - sums[at - 1] < sums[at] - target:
            at -= 1
        ends.append(int(codes[at]) if taken < len(codes) else GREATEST)
        taken = at + 1
    return Rule(version, partitions, tuple(ends))


def near_quantiles(sample: Sample, shares: NDArray[np.float64]) -> tuple[int, ...]:
    """The weighted quantiles: for each share of the total weight the code whose end is nearest.

    That of the last share is left out. Unlike in :func:`whole_keys`, an error at one boundary does
    not affect the next one.

    Complexity: O(m + n log m).

    Example:
        >>> near_quantiles(Sample.of(np.arange(6)), np.full(3, 1 / 3))
        (1, 3)
    """
    sums = np.cumsum(sample.weights)
    targets = np.cumsum(shares[:-1]) * sums[-1]
    after = np.minimum(np.searchsorted(sums, targets), len(sums) - 1)
    before = np.maximum(after - 1, 0)
    nearer = targets - sums[before] < sums[after] - targets
    return tuple(sample.codes[np.where(nearer, before, after)].tolist())
