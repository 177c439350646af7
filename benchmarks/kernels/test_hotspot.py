"""Routing: rows to partitions, counted and sampled on the way."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from benchmarks.kernels.conftest import Ints, Sizes, Timed
from bsjoin.hotspot import Rule
from bsjoin.hotspot.cycle import Collector
from bsjoin.hotspot.reservoir import Reservoir
from bsjoin.hotspot.routing import Router
from bsjoin.hotspot.rule import HotKey

_PARTITIONS = 16
_CAPACITY = 10_000


@pytest.fixture
def codes(random: np.random.Generator, sizes: Sizes) -> Ints:
    drawn = random.integers(-(1 << 63), 1 << 63, 10 * sizes.probes, np.int64)
    drawn[random.random(len(drawn)) < 0.1] = 5
    return drawn


@pytest.fixture
def rows(random: np.random.Generator, codes: Ints) -> Ints:
    """Hashes of the whole rows."""
    return random.integers(-(1 << 63), 1 << 63, len(codes), np.int64)


@pytest.fixture
def rule() -> Rule:
    even = Rule.even(_PARTITIONS)
    return Rule(1, _PARTITIONS, even.boundaries, (HotKey(5, 3, (0.25,) * 4),))


def test_np_searchsorted(timed: Timed, codes: Ints, rule: Rule) -> None:
    boundaries = np.array(rule.boundaries)
    locations = timed(lambda: np.searchsorted(boundaries, codes), len(codes), unit="row")
    assert (locations == rule.partition_of(codes)).all()


def test_np_choice(timed: Timed, codes: Ints, random: np.random.Generator) -> None:
    drawn = timed(
        lambda: random.choice(codes, min(_CAPACITY, len(codes)), replace=False),
        len(codes),
        unit="row",
    )
    assert np.isin(drawn, codes).all()


def test_routed(timed: Timed, codes: Ints, rows: Ints, rule: Rule) -> None:
    router = Router(rule)
    found, hot = router.route(codes, rows), codes == 5
    assert (found[~hot] == rule.partition_of(codes[~hot])).all()
    shares = np.bincount(found[hot] - 3, minlength=4) / hot.sum()
    assert np.abs(shares - 0.25).max() < 0.05
    timed(lambda: router.route(codes, rows), len(codes), "test_np_searchsorted", unit="row")


def test_routed_counted_and_sampled(timed: Timed, codes: Ints, rows: Ints, rule: Rule) -> None:
    collector = Collector(Router(rule), _CAPACITY, 1)
    found = collector.route(codes, rows)
    statistics = collector.statistics()
    assert (statistics.partitions == np.bincount(found, minlength=_PARTITIONS)).all()
    timed(
        lambda same: same.route(codes, rows),
        len(codes),
        "test_np_searchsorted",
        unit="row",
        fresh=lambda: (copy.deepcopy(collector),),
    )


def test_reservoir(timed: Timed, codes: Ints) -> None:
    reservoir = Reservoir(_CAPACITY, 1)
    for _ in range(10):
        reservoir.add(codes)
    assert np.isin(reservoir.codes, codes).all()
    assert abs((reservoir.codes == 5).mean() - (codes == 5).mean()) < 0.03
    # The longer it has been at it, the less it takes in.
    timed(
        lambda same: same.add(codes),
        len(codes),
        "test_np_choice",
        unit="row",
        fresh=lambda: (copy.deepcopy(reservoir),),
    )
