"""The rule that spreads heavy keys: ranges for the many, gaps filled with the few.

Every partition has a range of codes. The heaviest keys are taken out of the ranges, until the
partitions are no fuller than the mean without them; then they are poured into the gaps, one
after another. A key ends where its rows end, in the middle of a gap, and the next one goes on
there: so n partitions and k such keys need at most n + k - 1 pieces.

The ranges of the rule before are kept where that is possible. While the hot keys change, all
others then stay where they are, and caches stay warm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bsjoin.hotspot.range_rules import near_quantiles
from bsjoin.hotspot.rule import HotKey, Rule
from bsjoin.hotspot.sample import Sample
from bsjoin.hotspot.skew import skew

__all__ = ["spread_keys"]

Float64s = NDArray[np.float64]

_HEAVY = (0.8, 0.4, 0.2, 0.1, 0.05)  # of the mean: what makes a key heavy, tried in turn
_MOST_KEYS = 4, 64  # a partition, and at least: more make a rule that is slow to send
_DRAWN = 4  # times: a key that was drawn less often may be there by chance
_EVEN = 0.01  # the skew in the sample that is good enough
_SLIVER = 0.01  # of the mean: a smaller piece of a key is not worth another partition


def spread_keys(
    sample: Sample,
    partitions: int,
    version: int = 0,
    keep: tuple[int, ...] | None = None,
) -> Rule:
    """A rule under which a sample weighs alike everywhere.

    Args:
        sample: m codes and their weights. Only a code that was drawn some times can be a
            heavy key.
        partitions: n, 1 or more.
        version: of the rule.
        keep: boundaries to keep where that gives an even rule; n - 1 of them.

    Returns:
        The rule with as few spread keys as an even load needs; where none is even, the most even
        one. It is even with any weights whose keys below 5 % of the mean fit the ranges.

    Complexity: O(m + n log m) for each of up to 10 attempts.

    Example:
        >>> rule = spread_keys(Sample.of(np.repeat(np.arange(1, 7), [9, 1, 1, 1, 1, 1])), 2)
        >>> rule.boundaries, rule.hot
        ((4,), (HotKey(code=1, first=0, shares=(0.4444444444444444, 0.5555555555555556)),))
    """
    if partitions == 1 or not len(sample.codes):
        return Rule(version, partitions, keep or Rule.even(partitions).boundaries)
    best, least = None, np.inf
    for kept in (keep, None) if keep is not None else (None,):
        for heavy in _HEAVY:
            hot = sample.weights >= heavy * sample.weight / partitions
            hot &= sample.counts >= _DRAWN
            if hot.sum() > max(_MOST_KEYS[0] * partitions, _MOST_KEYS[1]):
                break
            rule = _spread(sample.where(hot), sample.where(~hot), partitions, version, kept)
            uneven = skew(rule.loads(sample.codes, sample.weights))
            if uneven <= _EVEN:
                return rule
            if uneven < least:
                best, least = rule, uneven
    assert best is not None
    return best


def _spread(
    hot: Sample, cold: Sample, partitions: int, version: int, boundaries: tuple[int, ...] | None
) -> Rule:
    """The rule that spreads these keys, over these ranges or new ones."""
    if boundaries is None:
        boundaries = (
            near_quantiles(cold, partitions)
            if len(cold.codes)
            else Rule.even(partitions).boundaries
        )
    rule = Rule(version, partitions, boundaries)
    if not len(hot.codes):
        return rule
    mean = (hot.weight + cold.weight) / partitions
    gaps = np.maximum(mean - rule.loads(cold.codes, cold.weights), 0.0)
    return replace(rule, hot=_poured(hot, gaps, _SLIVER * mean))


def _poured(hot: Sample, gaps: Float64s, sliver: float) -> tuple[HotKey, ...]:
    """Fill the gaps, from the first partition on, with the keys in the order of their codes."""
    ends = np.cumsum(hot.weights)
    begins = np.append(0.0, ends[:-1])
    # Where the gaps hold more than there is, because another partition is too full, all get less.
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
