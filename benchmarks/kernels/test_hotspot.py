"""Routing: rows to partitions, counted and sampled on the way."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from benchmarks.kernels.conftest import Ints, Sizes, Timed
from bsjoin.partitioning import Collector, HotKey, Reservoir, Router, Rule

_PARTITIONS = 16
_CAPACITY = 10_000
_RULE = Rule(1, _PARTITIONS, Rule.even(_PARTITIONS).boundaries, (HotKey(5, 3, (0.25,) * 4),))


@pytest.fixture(scope="module")
def drawn(sizes: Sizes) -> tuple[Ints, Ints]:
    """The codes of the keys, a tenth of them the same, and hashes of the whole rows."""
    random, many = sizes.random(), 10 * sizes.probes
    codes, rows = random.integers(-(1 << 63), 1 << 63, (2, many), np.int64)
    codes[random.random(many) < 0.1] = 5
    return codes, rows


def test_np_searchsorted(timed: Timed, drawn: tuple[Ints, Ints]) -> None:
    boundaries, (codes, _) = np.array(_RULE.boundaries), drawn
    assert (np.searchsorted(boundaries, codes) == _RULE.partition_of(codes)).all()
    timed(lambda: np.searchsorted(boundaries, codes), len(codes), unit="row")


def test_np_choice(timed: Timed, drawn: tuple[Ints, Ints], sizes: Sizes) -> None:
    random, (codes, _) = sizes.random(), drawn
    many = min(_CAPACITY, len(codes))
    assert np.isin(random.choice(codes, many, replace=False), codes).all()
    timed(lambda: random.choice(codes, many, replace=False), len(codes), unit="row")


def test_routed(timed: Timed, drawn: tuple[Ints, Ints]) -> None:
    router, (codes, rows) = Router(_RULE), drawn
    found, hot = router.route(codes, rows), codes == 5
    assert (found[~hot] == _RULE.partition_of(codes[~hot])).all()
    shares = np.bincount(found[hot] - 3, minlength=4) / hot.sum()
    assert np.abs(shares - 0.25).max() < 0.05
    timed(lambda: router.route(codes, rows), len(codes), "np searchsorted", "row")


def test_routed_counted_and_sampled(timed: Timed, drawn: tuple[Ints, Ints]) -> None:
    collector, (codes, rows) = Collector(Router(_RULE), _CAPACITY, 1), drawn
    found = collector.route(codes, rows)
    counted = collector.statistics().partitions
    assert (counted == np.bincount(found, minlength=_PARTITIONS)).all()
    timed(
        lambda same: same.route(codes, rows), len(codes), "np searchsorted", "row",
        fresh=lambda: (copy.deepcopy(collector),),
    )  # fmt: skip


def test_reservoir(timed: Timed, drawn: tuple[Ints, Ints]) -> None:
    filled, (codes, _) = Reservoir(_CAPACITY, 1), drawn
    for _ in range(10):  # the more it has seen, the less it takes in
        filled.add(codes)
    assert np.isin(filled.codes, codes).all()
    assert abs((filled.codes == 5).mean() - (codes == 5).mean()) < 0.03
    timed(
        lambda same: same.add(codes), len(codes), "np choice", "row",
        fresh=lambda: (copy.deepcopy(filled),),
    )  # fmt: skip
