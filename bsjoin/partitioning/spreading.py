"""The rule that splits heavy keys: ranges for most keys, heavy keys fill the remaining capacity.

Every partition has a range of codes, and a target: the mean load, unless some are to have more
than others. The heaviest keys are removed from the ranges until no partition is above its target
without them. Then they fill the gaps up to the targets, one key after another (the wrap-around rule
of R. McNaughton, "Scheduling with Deadlines and Loss Functions", 1959): a key may end inside a gap,
and the next one continues there. So n partitions and k such keys need at most n + k - 1 pieces.

The ranges of the previous rule are kept if possible. When only the hot keys change, all other
keys stay on their partitions, and caches stay warm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bsjoin.index import Float64s
from bsjoin.partitioning.range_rules import near_quantiles
from bsjoin.partitioning.rule import HotKey, Rule
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.targets import Targets

_HEAVY = (0.8, 0.4, 0.2, 0.1, 0.05)  # of the mean: thresholds of a heavy key, tried in this order
MOST_KEYS = 4, 64  # per partition, and at least in total: bounds the size of the rule
DRAWN = 4  # times: a key that was drawn less often may be in the sample by chance
_EVEN = 0.01  # the skew in the sample that is good enough
SLIVER = 0.01  # of the mean: a smaller piece of a key does not justify another partition


def spread_keys(
    sample: Sample,
    partitions: int,
    version: int = 0,
    keep: tuple[int, ...] | None = None,
    targets: Targets | None = None,
) -> Rule:
    """A rule that balances the weight of a sample.

    Args:
        sample: m codes and their weights. Only a code that was drawn several times can be a heavy
            key.
        partitions: n, 1 or more.
        version: of the rule.
        keep: n - 1 boundaries to keep if they allow an even rule; None (default) for none.
        targets: the share of the weight for each partition; None (default): equal shares.

    Returns:
        The rule with the fewest split keys that is even; if none is even, the most even one. A rule
        is even for all weights if the keys below 5 % of the mean fit the ranges.

    Complexity: O(m + n log m) for each of up to 10 attempts.

    Example:
        >>> rule = spread_keys(Sample.of(np.repeat(np.arange(1, 7), [9, 1, 1, 1, 1, 1])), 2)
        >>> rule.boundaries, rule.hot
        ((4,), (HotKey(code=1, first=0, shares=(0.4444444444444444, 0.5555555555555556)),))
    """
    if partitions == 1 or not len(sample.codes):
        return Rule(version, partitions, keep or Rule.even(partitions).boundaries)
    targets = targets or Targets.equal(partitions)
    best, least = None, np.inf
    for kept in (keep, None) if keep is not None else (None,):
        for heavy in _HEAVY:
            hot = sample.weights >= heavy * sample.weight / partitions
            hot &= sample.counts >= DRAWN
            if hot.sum() > max(MOST_KEYS[0] * partitions, MOST_KEYS[1]):
                break
            rule = _spread(sample.where(hot), sample.where(~hot), targets, version, kept)
            uneven = targets.skew(rule.loads(sample.codes, sample.weights))
            if uneven <= _EVEN:
                return rule
            if uneven < least:
                best, least = rule, uneven
    assert best is not None
    return best


def _spread(
    hot: Sample, cold: Sample, targets: Targets, version: int, boundaries: tuple[int, ...] | None
) -> Rule:
    """The rule that splits these keys, over these ranges or new ones."""
    partitions = len(targets.shares)
    if boundaries is None:
        boundaries = (
            near_quantiles(cold, targets.shares)
            if len(cold.codes)
            else Rule.even(partitions).boundaries
        )
    rule = Rule(version, partitions, boundaries)
    if not len(hot.codes):
        return rule
    total = hot.weight + cold.weight
    gaps = np.maximum(total * targets.shares - rule.loads(cold.codes, cold.weights), 0.0)
    return replace(rule, hot=_poured(hot, gaps, SLIVER * total / partitions))


def _poured(hot: Sample, gaps: Float64s, sliver: float) -> tuple[HotKey, ...]:
    """Fill the gaps, from the first partition on, with the keys in the order of their codes."""
    ends = np.cumsum(hot.weights)
    begins = np.append(0.0, ends[:-1])
    # If the gaps exceed the weight, because another partition is too full, all are scaled down.
    edges = np.cumsum(gaps)[:-1] * (ends[-1] / gaps.sum())
    inside = np.minimum(np.searchsorted(ends, edges), len(ends) - 1)
    edges = np.where(edges - begins[inside] < sliver, begins[inside], edges)
    edges = np.where(ends[inside] - edges < sliver, ends[inside], edges)
    edges = np.concatenate([[0.0], edges, ends[-1:]])
    firsts = np.searchsorted(edges, begins, "right") - 1
    lasts = np.searchsorted(edges, ends, "left") - 1
    keys = []
    for key, code in enumerate(hot.codes.tolist()):
        span = slice(firsts[key], lasts[key] + 2)
        pieces = np.diff(np.clip(edges[span], begins[key], ends[key]))
        keys.append(HotKey(code, int(firsts[key]), tuple((pieces / pieces.sum()).tolist())))
    return tuple(keys)
