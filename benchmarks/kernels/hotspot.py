"""Routing: rows to partitions, counted and sampled on the way."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np

from benchmarks.kernels.timing import Ints, Prepared, Sizes, kernel
from bsjoin.hotspot import Collector, HotKey, Reservoir, Router, Rule

_PARTITIONS = 16
_CAPACITY = 10_000
_RULE = Rule(1, _PARTITIONS, Rule.even(_PARTITIONS).boundaries, (HotKey(5, 3, (0.25,) * 4),))

_kernel = partial(kernel, "hotspot")


def _codes(sizes: Sizes) -> tuple[Ints, Ints]:
    """The codes of the keys, a tenth of them the same, and hashes of the whole rows."""
    random, many = sizes.random(), 10 * sizes.probes
    codes, rows = random.integers(-(1 << 63), 1 << 63, (2, many), np.int64)
    codes[random.random(many) < 0.1] = 5
    return codes, rows


@_kernel(unit="row")
def np_searchsorted(sizes: Sizes) -> Prepared:
    boundaries, (codes, _) = np.array(_RULE.boundaries), _codes(sizes)
    assert (np.searchsorted(boundaries, codes) == _RULE.partition_of(codes)).all()
    return lambda: np.searchsorted(boundaries, codes), len(codes)


@_kernel(unit="row")
def np_choice(sizes: Sizes) -> Prepared:
    random, (codes, _) = sizes.random(), _codes(sizes)
    many = min(_CAPACITY, len(codes))
    assert np.isin(random.choice(codes, many, replace=False), codes).all()
    return lambda: random.choice(codes, many, replace=False), len(codes)


@_kernel("np searchsorted", "row")
def routed(sizes: Sizes) -> Prepared:
    router, (codes, rows) = Router(_RULE), _codes(sizes)
    found, hot = router.route(codes, rows), codes == 5
    assert (found[~hot] == _RULE.partition_of(codes[~hot])).all()
    shares = np.bincount(found[hot] - 3, minlength=4) / hot.sum()
    assert np.abs(shares - 0.25).max() < 0.05
    return lambda: router.route(codes, rows), len(codes)


@_kernel("np searchsorted", "row")
def routed_counted_and_sampled(sizes: Sizes) -> Prepared:
    collector, (codes, rows) = Collector(Router(_RULE), _CAPACITY, 1), _codes(sizes)
    found = collector.route(codes, rows)
    counted = collector.statistics().partitions
    assert (counted == np.bincount(found, minlength=_PARTITIONS)).all()
    fresh = partial(copy.deepcopy, collector)
    return lambda same: same.route(codes, rows), len(codes), lambda: (fresh(),)


@_kernel("np choice", "row")
def reservoir(sizes: Sizes) -> Prepared:
    filled, (codes, _) = Reservoir(_CAPACITY, 1), _codes(sizes)
    for _ in range(10):  # the more it has seen, the less it takes in
        filled.add(codes)
    assert np.isin(filled.codes, codes).all()
    assert abs((filled.codes == 5).mean() - (codes == 5).mean()) < 0.03
    return lambda same: same.add(codes), len(codes), lambda: (copy.deepcopy(filled),)
