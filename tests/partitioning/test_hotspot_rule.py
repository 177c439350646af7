"""Rules: ranges, spread keys, and the way through JSON."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hotspot_strategies import naive, rules
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST
from bsjoin.partitioning import HotKey, Rule


@given(rules())
def test_a_rule_comes_out_of_json_as_it_went_in(rule: Rule) -> None:
    rule._check()
    read = Rule.from_json(rule.to_json())
    assert (read.version, read.partitions) == (rule.version, rule.partitions)
    assert read.boundaries == rule.boundaries
    assert [(key.code, key.first) for key in read.hot] == [
        (key.code, key.first) for key in rule.hot
    ]
    for key, before in zip(read.hot, rule.hot, strict=True):
        assert key.shares == pytest.approx(before.shares, abs=1e-6)
    assert pickle.loads(pickle.dumps(rule)) == rule


@given(rules(), st.dictionaries(st.integers(-30, 30), st.integers(0, 9)))
def test_loads_are_those_of_a_loop(rule: Rule, table: dict[int, int]) -> None:
    expected = np.zeros(rule.partitions)
    hot = {key.code: key for key in rule.hot}
    for key, weight in table.items():
        if key in hot:
            for partition, share in hot[key].spans:
                expected[partition] += weight * share
        else:
            expected[naive(rule, key)] += weight
    codes = np.array(list(table), np.int64)
    weights = np.array(list(table.values()), np.float64)
    assert rule.loads(codes, weights) == pytest.approx(expected)


@pytest.mark.parametrize("partitions", [1, 2, 3, 128, 1000])
def test_even_ranges_are_equally_wide_and_cover_all_codes(partitions: int) -> None:
    rule = Rule.even(partitions)
    rule._check()
    ends = [LEAST - 1, *rule.boundaries, GREATEST]
    widths = {b - a for a, b in pairwise(ends)}
    assert max(widths) - min(widths) <= 1
    assert (rule.version, rule.hot) == (0, ())


GOOD = json.loads(Rule(3, 3, (5, 9), (HotKey(7, 1, (0.5, 0.5)),)).to_json())


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 4},
        {"partitions": 0},
        {"version": -1},
        {"version": None},
        {"boundaries": "AAAA"},
        {"boundaries": None},
        {"hot": [[7, 2, [0.5, 0.5]]]},
        {"hot": [[7, -1, [0.5, 0.5]]]},
        {"hot": [[7, 0, []]]},
        {"hot": [[7, 0, [0.5, 0.4]]]},
        {"hot": [[7, 0, [1.5, -0.5]]]},
        {"hot": [[7, 0, [1.0]], [7, 0, [1.0]]]},
        {"hot": [[GREATEST + 1, 0, [1.0]]]},
        {"hot": [[7, 0]]},
        {"hot": 7},
    ],
    ids=str,
)
def test_a_damaged_rule_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is not a rule"):
        Rule.from_json(json.dumps({**GOOD, **change}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '"' + "x" * 100 + '"'])
def test_what_is_no_rule_is_refused_and_shown_in_short(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rule") as caught:
        Rule.from_json(text)
    assert len(str(caught.value)) < 200
