"""Hot keys dealt out in turns: exact shares, and all others where production has them."""

from __future__ import annotations

import numpy as np
import pytest
from hotspot_strategies import codes, rules
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import TurnRouter

from bsjoin.partitioning import HotKey, Router, Rule


@given(rules(), st.lists(st.integers(0, 4), max_size=200), st.integers(0, 2**70), codes)
def test_hot_rows_are_dealt_out_in_proportion_to_one_row(
    rule: Rule, picks: list[int], seed: int, others: list[int]
) -> None:
    hot = [rule.hot[pick % len(rule.hot)].code for pick in picks] if rule.hot else []
    batch = np.array([*hot, *others], np.int64)
    found, right = TurnRouter(rule, seed).route(batch, batch), Router(rule).route(batch, batch)
    cold = ~np.isin(batch, [key.code for key in rule.hot])
    assert (found[cold] == right[cold]).all()
    for key in rule.hot:
        mine = found[batch == key.code]
        for partition, share in key.spans:
            assert abs((mine == partition).sum() - len(mine) * share) < 1 + 1e-9


@settings(max_examples=25)
@given(st.integers(0, 2**40), st.integers(1, 9))
def test_small_batches_together_keep_the_shares(seed: int, size: int) -> None:
    router = TurnRouter(Rule(1, 4, (-9, 0, 9), (HotKey(5, 0, (0.1, 0.2, 0.3, 0.4)),)), seed)
    batch = np.full(size, 5)
    found = np.concatenate([router.route(batch, batch) for _ in range(400)])
    shares = np.bincount(found, minlength=4) / len(found)
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.02)


def test_batches_of_one_row_do_not_all_begin_with_one_partition() -> None:
    hot = tuple(HotKey(key, 0, (1 / 8,) * 8) for key in range(40))
    router = TurnRouter(Rule(1, 8, (100,) * 7, hot))
    one_batch = router.route(np.arange(40), np.arange(40)).tolist()
    one_key = [int(router.route(np.array([3]), np.array([3]))[0]) for _ in range(40)]
    for found in (one_batch, one_key):
        assert set(found) == set(range(8))
        assert max(np.bincount(found)) <= 9
