"""The controller: when it changes the rule, to what shares, and when it leaves it alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hotspot_strategies import code, contents, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.errors import ArgumentError
from bsjoin.partitioning import (
    Collector,
    Controller,
    CycleStatistics,
    HotSpot,
    Router,
    Rule,
    Sample,
    added,
)
from bsjoin.partitioning.relieving import after_splits, relieved
from bsjoin.partitioning.targets import Targets

Codes = np.ndarray
ANY = (-(2**63), 2**63 - 1)


def statistics(rule: Rule, codes: Codes, capacity: int = 2_000, seed: int = 0) -> CycleStatistics:
    """A cycle as two tasks see it."""
    parts, random = [], np.random.default_rng((seed, 1))
    for number, part in enumerate(np.array_split(codes, 2)):
        collector = Collector(Router(rule), capacity // 2, (seed, number))
        for batch in np.array_split(part, 4):
            collector.route(batch, random.integers(*ANY, len(batch)))
        parts.append(CycleStatistics.from_json(collector.statistics().to_json()))
    return added(parts)


def loads_of(rule: Rule, codes: Codes) -> np.ndarray:
    """The rows of each partition."""
    found = Router(rule).route(codes, contents(len(codes)))
    return np.bincount(found, minlength=rule.partitions)


def stream(hot: int, rows: int = 20_000, keys: int = 5_000) -> Callable[[int], Codes]:
    """Half of the rows have one of ten keys, which depend on ``hot``; the others any key."""
    codes = np.random.default_rng(99).integers(*ANY, keys)

    def cycle(index: int) -> Codes:
        random = np.random.default_rng((hot, index))
        drawn = random.choice(codes, rows)
        heavy = codes[(hot * 10 + random.integers(0, 10, rows)) % keys]
        return np.where(random.random(rows) < 0.5, heavy, drawn)

    return cycle


def run(controller: Controller, cycles: list[Codes], **options: int) -> list[float]:
    """Let cycles pass, each under the rule of the moment; their skews."""
    found = []
    for index, codes in enumerate(cycles):
        seen = statistics(controller.rule, codes, seed=index, **options)
        controller.observe(seen)
        found.append(seen.skew)
    return found


def test_a_user_can_choose_the_papers_algorithm_2() -> None:
    controller = Controller(HotSpot(partitions=8, rule="algorithm_2"))
    random = np.random.default_rng(4)
    # All codes lie in one of the even ranges, and a key has half of the rows.
    cycles = [
        np.where(random.random(20_000) < 0.5, 7, random.integers(0, 1_000, 20_000))
        for _ in range(3)
    ]
    run(controller, cycles)
    rule = controller.rule
    assert rule.version == 1
    assert rule.hot == ()
    loads = loads_of(rule, cycles[0])
    assert loads.max() >= 10_000
    assert (loads == 0).sum() == 3  # the key is as heavy as four means


def test_rows_that_are_not_dealt_out_as_the_rule_says_do_not_make_it_flap() -> None:
    """Somebody sends a hot key's rows to one partition whatever the rule says."""
    controller = Controller(HotSpot(partitions=4))
    for index in range(10):
        seen = statistics(controller.rule, np.full(10_000, 5), seed=index)
        stuck = np.array([0, 0, seen.rows, 0])
        controller.observe(CycleStatistics(seen.version, stuck, seen.cells, seen.sample))
    assert controller.rule.version == 1
    assert controller.spread({2: {1: 0.5}}) is None  # nor is what cannot follow spread


def test_a_threshold_that_no_skew_reaches_keeps_the_rule() -> None:
    controller, cycle = Controller(HotSpot(partitions=9, threshold=1e200)), stream(1)
    assert controller.observe(statistics(controller.rule, cycle(0))) is None
    assert controller.spread({0: {1: 0.1}}) is not None  # which has a reason of its own


def test_changes_keep_their_distance() -> None:
    for least in (1, 3):
        controller = Controller(HotSpot(partitions=8, min_cycles=least))
        changed = []
        for index in range(16):
            seen = statistics(controller.rule, stream(hot=index)(index), seed=index)
            if controller.observe(seen) is not None:
                changed.append(index)
        assert changed[0] == 0
        assert np.diff(changed).min() == np.diff(changed).max() == least
    # Statistics of cycles that had begun under an earlier rule decide nothing.
    controller = Controller(HotSpot(partitions=8, min_cycles=1))
    cycle, before = stream(hot=1), controller.rule
    assert controller.observe(statistics(before, cycle(0))) is not None
    for index in range(1, 4):
        assert controller.observe(statistics(before, cycle(index))) is None
    assert controller.observe(statistics(controller.rule, cycle(4))) is None
    assert controller.rule.version == 1


def test_the_number_of_partitions_can_change() -> None:
    cycle = stream(hot=1)
    controller = Controller(HotSpot(partitions=8))
    assert controller.resize(4) == Rule.even(4, 1)  # nothing is known yet
    run(controller, [cycle(i) for i in range(4)])
    assert controller.spread({0: {1: 0.5}}) is not None  # another number has equal shares again
    for partitions in (16, 1, 3):
        before = controller.rule.version
        rule = controller.resize(partitions)
        assert (rule.partitions, rule.version) == (partitions, before + 1)
        assert statistics(rule, cycle(9)).skew < 0.08
    # Statistics over another number of partitions come late and are no more than a sample.
    assert controller.observe(statistics(Rule.even(16, 3), cycle(5))) is None
    with pytest.raises(ValueError, match="partitions=0"):
        controller.resize(0)


# Shares of partitions that are not equal


def even_stream(index: int) -> np.ndarray:
    """20,000 rows; one key has a twentieth of them."""
    random = np.random.default_rng((7, index))
    codes = random.integers(-(2**63), 2**63 - 1, 20_000)
    codes[:1_000] = 12345
    return codes


def test_a_part_leaves_a_partition_and_stays_away() -> None:
    controller = Controller(HotSpot(partitions=8))
    assert controller.spread({0: {1: 0.5}}) is None  # nothing is known of the keys
    run(controller, [even_stream(i) for i in range(4)])
    source = int(controller.rule.partition_of(np.array([12345]))[0])
    to = [i for i in range(8) if i != source][:2]
    first, splits = controller.rule, {source: {to[0]: 0.3, to[1]: 0.2}}
    before = loads_of(first, even_stream(4))
    rule = controller.spread(splits)
    assert controller.rule == rule is not None
    after = loads_of(rule, even_stream(5))
    assert after[source] == pytest.approx(0.5 * before[source], rel=0.1)
    assert after[to[0]] == pytest.approx(before[to[0]] + 0.3 * before[source], rel=0.1)
    assert after[to[1]] == pytest.approx(before[to[1]] + 0.2 * before[source], rel=0.1)
    others = [i for i in range(8) if i not in (source, *to)]
    assert after[others] == pytest.approx(before[others], rel=0.1)
    # The heavy key gives the same share as all others: it may be what makes the partition heavy.
    loads = [r.loads(np.array([12345]), np.array([1.0])) for r in (first, rule)]
    assert loads[1] == pytest.approx(after_splits(loads[0], splits), abs=0.03)
    # Nothing is spread by old measurements: no cycle has run by the new rule, or one of two.
    assert controller.spread(splits) is None
    run(controller, [even_stream(6)])
    assert controller.spread(splits) is None
    # Ten more cycles: the rows are as they are to be, so the rule stays.
    run(controller, [even_stream(i) for i in range(7, 16)])
    assert controller.rule == rule
    assert controller.spread(splits) is not None
    assert Targets.of(np.array([0.0, 16.0, 14.0, 10.0])).shares[0] > 0.02  # it keeps a little
    assert Targets.equal(1).effective_rows(5) == 5


@settings(max_examples=12)
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
    assert found._wrong() is None
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


def test_what_cannot_be_controlled_or_spread_is_an_error() -> None:
    wrong: list[tuple[HotSpot, dict[int, dict[int, float]], str]] = [
        (HotSpot(partitions=4, split_hot_keys=False), {0: {1: 0.5}}, "split_hot_keys=True"),
        (HotSpot(partitions=4, rule="algorithm_2"), {0: {1: 0.5}}, "rule='balanced'"),
        (HotSpot(partitions=4), {0: {7: 0.5}}, r"there are 4 partitions, and none is \[7\]"),
        (HotSpot(partitions=4), {-1: {0: 0.5}}, r"none is \[-1\]"),
    ]
    for options, splits, message in wrong:
        with pytest.raises(ArgumentError, match=message):
            Controller(options).spread(splits)
    with pytest.raises(ArgumentError, match="partitions=None"):
        Controller(HotSpot())
    with pytest.raises(ArgumentError, match="the active rule has 8"):
        Controller(HotSpot(partitions=4), rule=Rule.even(8))
    assert Controller(HotSpot(partitions=4), partitions=6).rule.partitions == 6
