"""Routing against a loop, and the rows of hot keys against their shares."""

from __future__ import annotations

import numpy as np
import pytest
from hotspot_strategies import codes, contents, naive, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST
from bsjoin.partitioning import Router, Rule


@given(rules(), codes, st.integers(0, 9))
def test_a_key_that_is_not_hot_goes_where_its_range_is(
    rule: Rule, probes: list[int], seed: int
) -> None:
    router = Router(rule)
    router._check()
    batch = np.array([*probes, *rule.boundaries, *(key.code for key in rule.hot)], np.int64)
    rows = contents(len(batch), seed)
    found = router.route(batch, rows)
    assert found.dtype == np.int32
    hot = {key.code: key for key in rule.hot}
    for probe, partition in zip(batch.tolist(), found.tolist(), strict=True):
        if probe in hot:
            assert dict(hot[probe].spans)[partition] > 0
        else:
            assert partition == naive(rule, probe)
    order = np.random.default_rng(seed).permutation(len(batch))
    assert (Router(rule).route(batch[order], rows[order]) == found[order]).all()


@settings(max_examples=25)
@given(rules(), st.integers(0, 9))
def test_rows_of_a_hot_key_are_spread_in_proportion_to_the_shares(rule: Rule, seed: int) -> None:
    rows = contents(20_000, seed)
    for key in rule.hot:
        found = Router(rule).route(np.full(len(rows), key.code), rows)
        seen = np.bincount(found, minlength=rule.partitions) / len(rows)
        shares = np.zeros(rule.partitions)
        for partition, share in key.spans:
            shares[partition] = share
        assert seen == pytest.approx(shares, abs=0.02)
        same = Router(rule).route(np.full(9, key.code), np.full(9, rows[0]))
        assert set(same.tolist()) == {int(found[0])}


@given(rules(), codes)
def test_cells_are_parts_of_ranges_or_single_hot_keys(rule: Rule, probes: list[int]) -> None:
    router = Router(rule)
    batch = np.array(probes, np.int64)
    cells = router.locate(batch)
    assert (cells == np.searchsorted(router.lasts, batch)).all()
    hot = {key.code for key in rule.hot}
    for probe, last in zip(probes, router.lasts[cells].tolist(), strict=True):
        if last in hot:
            assert probe == last
        else:
            assert naive(rule, probe) == naive(rule, last)


@pytest.mark.parametrize("spread", [1, 1000, 2**50])
@pytest.mark.parametrize("partitions", [2, 128, 1000])
def test_crowded_boundaries_are_found_all_the_same(spread: int, partitions: int) -> None:
    random = np.random.default_rng(partitions)
    far = [LEAST + 5, GREATEST - 5]
    near = random.integers(0, spread * 2, partitions - 3).tolist() if partitions > 2 else []
    boundaries = tuple(sorted([*far, *near])[: partitions - 1])
    rule = Rule(1, partitions, boundaries)
    router = Router(rule)
    router._check()
    probes = np.concatenate(
        [random.integers(-spread, 3 * spread, 5_000), random.integers(LEAST, GREATEST, 5_000)]
    )
    assert (router.route(probes, contents(len(probes))) == rule.partition_of(probes)).all()
