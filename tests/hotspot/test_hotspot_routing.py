"""Routing against a loop, and the rows of hot keys against their shares."""

from __future__ import annotations

import numpy as np
import pytest
from hotspot_strategies import code, codes, naive, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.hotspot import HotKey, Router, Rule
from bsjoin.index import GREATEST, LEAST


@given(rules(), codes, st.integers(0, 2**70))
def test_a_key_that_is_not_hot_goes_where_its_range_is(
    rule: Rule, probes: list[int], turn: int
) -> None:
    router = Router(rule)
    router._check()
    batch = np.array([*probes, *rule.boundaries, *(key.code for key in rule.hot)], np.int64)
    found = router.route(batch, turn)
    assert found.dtype == np.int32
    hot = {key.code: key for key in rule.hot}
    for probe, partition in zip(batch.tolist(), found.tolist(), strict=True):
        if probe in hot:
            assert dict(hot[probe].spans)[partition] > 0
        else:
            assert partition == naive(rule, probe)
    assert (Router(rule).route(batch, turn) == found).all()


@given(rules(), st.lists(st.integers(0, 4), max_size=200), st.integers(0, 2**70))
def test_hot_rows_are_dealt_out_in_proportion_to_one_row(
    rule: Rule, picks: list[int], turn: int
) -> None:
    if not rule.hot:
        return
    batch = np.array([rule.hot[pick % len(rule.hot)].code for pick in picks], np.int64)
    found = Router(rule).route(batch, turn)
    for key in rule.hot:
        mine = found[batch == key.code]
        for partition, share in key.spans:
            assert abs((mine == partition).sum() - len(mine) * share) < 1 + 1e-9


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
    assert (router.route(probes) == rule.partition_of(probes)).all()


@settings(max_examples=25)
@given(st.integers(0, 2**40), st.integers(1, 9), code)
def test_small_batches_together_keep_the_shares(turn: int, size: int, key: int) -> None:
    router = Router(Rule(1, 4, (-9, 0, 9), (HotKey(key, 0, (0.1, 0.2, 0.3, 0.4)),)))
    batch = np.full(size, key)
    found = np.concatenate([router.route(batch, turn + i) for i in range(400)])
    shares = np.bincount(found, minlength=4) / len(found)
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.02)


def test_batches_of_one_row_do_not_all_begin_with_one_partition() -> None:
    hot = tuple(HotKey(key, 0, (1 / 8,) * 8) for key in range(40))
    router = Router(Rule(1, 8, (100,) * 7, hot))
    same_turn = router.route(np.arange(40), 5)
    same_key = [int(router.route(np.array([3]), turn)[0]) for turn in range(40)]
    for found in (same_turn.tolist(), same_key):
        assert set(found) == set(range(8))
        assert max(np.bincount(found)) <= 9


def test_many_hot_keys_and_a_partition_without_a_range() -> None:
    hot = tuple(HotKey(key * 7, key % 3, (1.0,)) for key in range(1000))
    router = Router(Rule(1, 3, (3500, 3500), hot))
    router._check()
    batch = np.arange(7000)
    expected = np.where(batch % 7 == 0, batch // 7 % 3, np.where(batch <= 3500, 0, 2))
    assert (router.route(batch) == expected).all()


def test_an_empty_batch_and_one_partition() -> None:
    nothing = np.empty(0, np.int64)
    assert Router(Rule.even(5)).route(nothing).tolist() == []
    assert Router(Rule.even(1)).route(np.array([LEAST, 0, GREATEST])).tolist() == [0, 0, 0]
    single = Rule(1, 1, (), (HotKey(0, 0, (1.0,)),))
    assert Router(single).route(np.array([LEAST, 0, 0, GREATEST])).tolist() == [0, 0, 0, 0]


def test_the_input_is_left_as_it_is() -> None:
    batch = np.arange(100)
    batch.flags.writeable = False
    Router(Rule(1, 2, (50,), (HotKey(7, 0, (0.5, 0.5)),))).route(batch)
