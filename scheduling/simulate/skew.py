"""Skewed keys: which share of an operator's records each of its tasks gets."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.errors import ArgumentError

__all__ = ["key_shares", "zipf"]

Float64s = NDArray[np.float64]


def zipf(keys: int, exponent: float) -> Float64s:
    """The share of records of each key, the most frequent first: rank^-exponent, sum 1.

    Args:
        keys: how many keys there are.
        exponent: 0 is uniform; 1 is the classic law.

    Raises:
        ArgumentError: no key, or a negative exponent.

    Complexity: O(keys).

    Example:
        >>> zipf(4, 1.0).round(2).tolist()
        [0.48, 0.24, 0.16, 0.12]
    """
    if keys < 1:
        raise ArgumentError(f"keys={keys!r}: give 1 or more")
    if not exponent >= 0:
        raise ArgumentError(f"exponent={exponent!r}: give 0 (uniform) or more")
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    shares: Float64s = weights / weights.sum()
    return shares


@lru_cache(maxsize=512)
def _shares(tasks: int, keys: int, exponent: float, seed: int) -> Float64s:
    task_of = np.random.default_rng([seed, keys]).permutation(keys) % tasks
    shares: Float64s = np.bincount(task_of, zipf(keys, exponent), tasks).astype(np.float64)
    shares.flags.writeable = False
    return shares


def key_shares(tasks: int, *, keys: int, exponent: float, seed: int = 0) -> Float64s:
    """Deal keys out to tasks as a hash would, and sum the shares of each task's keys.

    Args:
        tasks: instances of the operator.
        keys: how many keys there are.
        exponent: of :func:`zipf`.
        seed: of the hash. Each task gets the same number of keys, up to one: what differs is how
            frequent they are.

    Returns:
        float64[tasks], read-only, sum 1.

    Complexity: O(keys), remembered.

    Example:
        >>> key_shares(4, keys=1000, exponent=0.0).round(9).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if tasks < 1:
        raise ArgumentError(f"tasks={tasks!r}: give 1 or more")
    return _shares(tasks, keys, exponent, seed)
