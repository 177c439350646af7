"""Rules and options: what is refused, the way through JSON, and rows against a loop over ranges."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hotspot_strategies import codes, contents, naive, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.errors import ArgumentError
from bsjoin.index import GREATEST
from bsjoin.partitioning import Hash, HotKey, HotSpot, Router, Rule
from bsjoin.partitioning.packing import pack, unpack


def test_options_have_ranges() -> None:
    refused: dict[str, list[Any]] = {
        "partitions": [0, -1, 10_001, 2.0, "8", True],
        "threshold": [0, -0.1, math.nan, math.inf, "0.1", None, True],
        "sample": [0, 99, 1_000_001, 1000.0, None, True],
        "smoothing": [-0.1, 1, 1.5, math.nan, None, False],
        "min_cycles": [0, -1, 1.5, None],
        "seed": [-1, 0.5, None],
        "split_hot_keys": [1, 0, "yes"],
        "rule": ["Algorithm 2", None, 2],
    }
    for name, values in refused.items():
        for value in values:
            with pytest.raises(ArgumentError) as caught:
                HotSpot(**{name: value})
            assert f"{name}={value!r}" in str(caught.value)
    for number in (*refused["partitions"], None):
        with pytest.raises(ArgumentError, match="partitions="):
            Hash(number)
    HotSpot(partitions=1, sample=100, smoothing=0, min_cycles=1, threshold=5)
    HotSpot(partitions=10_000, sample=1_000_000, smoothing=0.99)
    assert Hash(1).partitions == 1
    assert not HotSpot(rule="algorithm_2").splits
    assert not HotSpot(split_hot_keys=False).splits
    with pytest.raises(ArgumentError, match="split_hot_keys=True: Algorithm 2"):
        HotSpot(rule="algorithm_2", split_hot_keys=True)


def test_a_damaged_array_is_refused() -> None:
    for text in ("", "%", "AAAA", pack(np.arange(3))[:-6]):
        with pytest.raises(ValueError, match=r".+"):
            unpack(text)


@settings(max_examples=12)
@given(rules())
def test_a_rule_comes_out_of_json_as_it_went_in(rule: Rule) -> None:
    assert rule._wrong() is None
    read = Rule.from_json(rule.to_json())
    assert (read.version, read.partitions) == (rule.version, rule.partitions)
    assert read.boundaries == rule.boundaries
    for key, before in zip(read.hot, rule.hot, strict=True):
        assert (key.code, key.first) == (before.code, before.first)
        assert key.shares == pytest.approx(before.shares, abs=1e-6)
    assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize("partitions", [2_210, 9_500])
def test_a_key_on_thousands_of_partitions_has_shares_of_few_digits(partitions: int) -> None:
    even = Rule.even(partitions)
    rule = replace(even, hot=(HotKey(7, 0, (1 / partitions,) * partitions),))
    read = Rule.from_json(rule.to_json())
    found = Router(read).route(np.full(10**6, 7), contents(10**6))
    assert len(np.unique(found)) == partitions


GOOD = json.loads(Rule(3, 3, (5, 9), (HotKey(7, 1, (0.5, 0.5)),)).to_json())
WRONG: list[dict[str, object]] = [
    {"partitions": 4},
    {"partitions": 0},
    {"version": -1},
    {"version": None},
    {"version": math.inf},
    {"boundaries": "AAAA"},
    {"boundaries": None},
    {"hot": [[7, 2, [0.5, 0.5]]]},
    {"hot": [[7, -1, [0.5, 0.5]]]},
    {"hot": [[7, 0.0, [0.5, 0.5]]]},
    {"hot": [["7", 0, [0.5, 0.5]]]},
    {"hot": [[7, 0, ["0.5", 0.5]]]},
    {"hot": [[7, 0, [math.nan, 1.0]]]},
    {"hot": [[7, 0, []]]},
    {"hot": [[7, 0, [0.5, 0.4]]]},
    {"hot": [[7, 0, [1.5, -0.5]]]},
    {"hot": [[7, 0, [1.0]], [7, 0, [1.0]]]},
    {"hot": [[GREATEST + 1, 0, [1.0]]]},
    {"hot": [[7, 0]]},
    {"hot": 7},
]


def test_a_damaged_rule_is_refused_and_shown_in_short() -> None:
    texts = [json.dumps({**GOOD, **change}) for change in WRONG]
    for text in (*texts, "", "{", "[]", "null", "{}", "[" * 10**6, '"' + "x" * 100 + '"'):
        with pytest.raises(ValueError, match="is not a rule") as caught:
            Rule.from_json(text)
        assert len(str(caught.value)) < 300


@settings(max_examples=12)
@given(rules(), st.dictionaries(st.integers(-30, 30), st.integers(0, 9)))
def test_loads_are_those_of_a_loop(rule: Rule, table: dict[int, int]) -> None:
    expected = np.zeros(rule.partitions)
    hot = {key.code: key for key in rule.hot}
    for key, weight in table.items():
        if key in hot:
            for partition, share in enumerate(hot[key].shares, hot[key].first):
                expected[partition] += weight * share
        else:
            expected[naive(rule, key)] += weight
    weights = np.array(list(table.values()), np.float64)
    assert rule.loads(np.array(list(table), np.int64), weights) == pytest.approx(expected)


@settings(max_examples=12)
@given(rules(), codes, st.integers(0, 9))
def test_a_key_goes_where_its_range_or_one_of_its_shares_is(
    rule: Rule, probes: list[int], seed: int
) -> None:
    router = Router(rule)
    batch = np.array([*probes, *rule.boundaries, *(key.code for key in rule.hot)], np.int64)
    rows = contents(len(batch), seed)
    found, cells = router.route(batch, rows), router.locate(batch)
    assert found.dtype == np.int32
    assert (cells == np.searchsorted(router.lasts, batch)).all()
    hot = {key.code: key for key in rule.hot}
    lasts = router.lasts[cells].tolist()
    for probe, partition, last in zip(batch.tolist(), found.tolist(), lasts, strict=True):
        # A cell is a part of a range, or a single hot key.
        if probe in hot:
            assert dict(enumerate(hot[probe].shares, hot[probe].first))[partition] > 0
            assert last == probe
        else:
            assert partition == naive(rule, probe) == naive(rule, last)
            assert last not in hot
    order = np.random.default_rng(seed).permutation(len(batch))
    assert (Router(rule).route(batch[order], rows[order]) == found[order]).all()


@settings(max_examples=12)
@given(rules(), st.integers(0, 9))
def test_rows_of_a_hot_key_are_spread_in_proportion_to_the_shares(rule: Rule, seed: int) -> None:
    rows = contents(20_000, seed)
    for key in rule.hot:
        found = Router(rule).route(np.full(len(rows), key.code), rows)
        shares = np.zeros(rule.partitions)
        shares[key.first : key.first + len(key.shares)] = key.shares
        seen = np.bincount(found, minlength=rule.partitions) / len(rows)
        assert seen == pytest.approx(shares, abs=0.02)
        same = Router(rule).route(np.full(9, key.code), np.full(9, rows[0]))
        assert set(same.tolist()) == {int(found[0])}
