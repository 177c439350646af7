"""Shares of partitions that are not equal: what a rule then aims at, and when they change."""

from __future__ import annotations

import numpy as np
import pytest
from hotspot_strategies import code, rules
from hypothesis import given
from hypothesis import strategies as st
from test_hotspot_controller import loads_of, run, statistics, stream

from bsjoin.errors import ArgumentError
from bsjoin.partitioning import Controller, HotSpot, Rule, Sample, spread_keys
from bsjoin.partitioning.relieving import after_splits, relieved
from bsjoin.partitioning.targets import Targets

OPTIONS = HotSpot(partitions=8)


def even_stream(index: int) -> np.ndarray:
    """20,000 rows; one key has a twentieth of them."""
    random = np.random.default_rng((7, index))
    codes = random.integers(-(2**63), 2**63 - 1, 20_000)
    codes[:1_000] = 12345
    return codes


def test_a_rule_follows_the_shares() -> None:
    random = np.random.default_rng(3)
    sample = Sample.of(np.repeat(random.integers(-(2**62), 2**62, 3_000), 1))
    for _ in range(20):
        targets = Targets(random.dirichlet(np.full(8, 2.0)) * 0.9 + 0.1 / 8)
        rule = spread_keys(sample, 8, targets=targets)
        rule._check()
        loads = rule.loads(sample.codes, sample.weights)
        assert targets.skew(loads) < 0.02
        assert loads / loads.sum() == pytest.approx(targets.shares, abs=0.002)


def test_a_part_leaves_a_partition_and_stays_away() -> None:
    controller = Controller(OPTIONS)
    run(controller, [even_stream(i) for i in range(4)])
    source = int(controller.rule.partition_of(np.array([12345]))[0])
    to = [i for i in range(8) if i != source][:2]
    first, splits = controller.rule, {source: {to[0]: 0.3, to[1]: 0.2}}
    before = loads_of(first, even_stream(4))
    rule = controller.spread(splits)
    assert rule is not None
    assert controller.rule == rule
    after = loads_of(rule, even_stream(5))
    assert after[source] == pytest.approx(0.5 * before[source], rel=0.1)
    assert after[to[0]] == pytest.approx(before[to[0]] + 0.3 * before[source], rel=0.1)
    assert after[to[1]] == pytest.approx(before[to[1]] + 0.2 * before[source], rel=0.1)
    others = [i for i in range(8) if i not in (source, *to)]
    assert after[others] == pytest.approx(before[others], rel=0.1)
    # The heavy key gives the same share as all others: it may be what makes the partition heavy.
    loads = [r.loads(np.array([12345]), np.array([1.0])) for r in (first, rule)]
    assert loads[1] == pytest.approx(after_splits(loads[0], splits), abs=0.03)
    # Ten more cycles: the rows are as they are to be, so the rule stays.
    run(controller, [even_stream(i) for i in range(6, 16)])
    assert controller.rule == rule


def test_keys_that_change_are_followed_under_unequal_shares() -> None:
    controller = Controller(OPTIONS)
    run(controller, [stream(hot=0)(i) for i in range(4)])
    assert controller.spread({3: {4: 0.5}}) is not None
    version, shares = controller.rule.version, controller._targets.shares
    run(controller, [stream(hot=5)(i) for i in range(4, 10)])
    assert controller.rule.version > version
    assert controller._targets.skew(loads_of(controller.rule, stream(hot=5)(10))) < 0.15
    assert (controller._targets.shares == shares).all()


def test_nothing_is_spread_by_old_measurements() -> None:
    controller = Controller(OPTIONS)
    assert controller.spread({0: {1: 0.5}}) is None  # nothing is known of the keys
    run(controller, [even_stream(i) for i in range(3)])
    rule = controller.spread({0: {1: 0.5}})
    assert rule is not None
    assert controller.spread({0: {1: 0.5}}) is None  # no cycle has run by the new rule
    controller.observe(statistics(controller.rule, even_stream(4)))
    assert controller.spread({0: {1: 0.5}}) is None  # one of two
    controller.observe(statistics(controller.rule, even_stream(5)))
    assert controller.spread({0: {1: 0.5}}) is not None


def test_rows_that_cannot_follow_are_not_spread_again() -> None:
    controller = Controller(HotSpot(partitions=4, min_cycles=1))
    same = np.full(10_000, 77)

    def cycle() -> None:
        """All rows are equal throughout, so they stay on one partition."""
        seen = statistics(controller.rule, same)
        stuck = np.bincount([0], weights=[float(seen.rows)], minlength=4).astype(np.int64)
        object.__setattr__(seen, "partitions", stuck)
        controller.observe(seen)

    for _ in range(4):
        cycle()
    assert controller.spread({0: {1: 0.5}}) is None


def test_another_number_of_partitions_has_equal_shares() -> None:
    controller = Controller(OPTIONS)
    run(controller, [even_stream(i) for i in range(3)])
    assert controller.spread({0: {1: 0.5}}) is not None
    controller.resize(5)
    assert controller._targets.shares == pytest.approx(np.full(5, 0.2))
    loads = loads_of(controller.rule, even_stream(4))
    assert loads.max() < 1.1 * loads.mean()


def test_a_partition_keeps_a_tenth_of_an_equal_share() -> None:
    targets = Targets.of(np.array([0.0, 16.0, 14.0, 10.0]))
    assert targets.shares[0] == pytest.approx(0.025, rel=0.05)
    assert targets.shares.sum() == pytest.approx(1.0)
    assert Targets.equal(1).effective_rows(5) == 5


def test_random_variation_of_unequal_shares_is_none_of_the_skew() -> None:
    shares = np.array([0.05, 0.05, 0.2, 0.3, 0.4])
    targets, random = Targets(shares), np.random.default_rng(1)
    drawn = [targets.skew(random.multinomial(5_000, shares)) ** 2 for _ in range(400)]
    assert np.mean(drawn) == pytest.approx(5 / targets.effective_rows(5_000), rel=0.15)


@given(rules(), st.data())
def test_each_part_of_a_partition_leaves_alike(rule: Rule, data: st.DataObject) -> None:
    n = rule.partitions
    drawn = data.draw(st.lists(code, min_size=1, max_size=60))
    times = data.draw(st.lists(st.integers(1, 40), min_size=len(drawn), max_size=len(drawn)))
    sample = Sample.of(np.repeat(np.array(drawn, np.int64), times))
    splits = {}
    for source in data.draw(st.sets(st.integers(0, n - 1), max_size=2)):
        others = st.sampled_from([i for i in range(n) if i != source] or [0])
        to = data.draw(st.sets(others, max_size=3)) if n > 1 else set()
        splits[source] = {i: data.draw(st.floats(0.05, 0.3)) for i in sorted(to)}
    found = relieved(rule, sample, splits)
    found._check()
    assert found.version == rule.version + 1
    # What is spread is spread as the splits say, up to slivers; nothing is lost.
    before, after = (r.loads(sample.codes, sample.weights) for r in (rule, found))
    assert after.sum() == pytest.approx(before.sum())
    whole = ~np.isin(sample.codes, [key.code for key in found.hot])
    light = sample.weights[whole].max(initial=0.0)
    wanted = after_splits(before, splits)
    assert np.abs(after - wanted).max() <= 2 * light + 0.05 * sample.weight / n * (
        1 + len(found.hot)
    )


@pytest.mark.parametrize(
    ("options", "splits", "message"),
    [
        (HotSpot(partitions=4, split_hot_keys=False), {0: {1: 0.5}}, "split_hot_keys=True"),
        (HotSpot(partitions=4, rule="algorithm_2"), {0: {1: 0.5}}, "rule='balanced'"),
        (HotSpot(partitions=4), {0: {7: 0.5}}, r"there are 4 partitions, and none is \[7\]"),
        (HotSpot(partitions=4), {-1: {0: 0.5}}, r"none is \[-1\]"),
    ],
)
def test_what_cannot_be_spread_is_an_error(
    options: HotSpot, splits: dict[int, dict[int, float]], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        Controller(options).spread(splits)
