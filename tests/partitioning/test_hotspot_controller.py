"""The controller: when it changes the rule, to what, and when it leaves it alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hotspot_strategies import contents

from bsjoin.errors import ArgumentError
from bsjoin.partitioning import (
    Collector,
    Controller,
    CycleStatistics,
    HotSpot,
    Router,
    Rule,
    added,
    skew,
)

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
        found: Codes = np.where(random.random(rows) < 0.5, heavy, drawn)
        return found

    return cycle


def run(controller: Controller, cycles: list[Codes], **options: int) -> list[float]:
    """Let cycles pass, each under the rule of the moment; their skews."""
    found = []
    for index, codes in enumerate(cycles):
        seen = statistics(controller.rule, codes, seed=index, **options)
        controller.observe(seen)
        found.append(seen.skew)
    return found


def test_one_cycle_is_enough_and_then_the_rule_stays() -> None:
    controller = Controller(HotSpot(partitions=8))
    cycle = stream(hot=1)
    skews = run(controller, [cycle(i) for i in range(6)])
    assert skews[0] > 0.3
    assert max(skews[1:]) < 0.06
    assert controller.rule.version == 1


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
    codes = np.full(10_000, 5)
    for index in range(10):
        seen = statistics(controller.rule, codes, seed=index)
        stuck = np.array([0, 0, len(codes), 0])
        controller.observe(CycleStatistics(seen.version, stuck, seen.cells, seen.sample))
    assert controller.rule.version == 1


def test_changes_keep_their_distance() -> None:
    for least in (1, 3, 5):
        controller = Controller(HotSpot(partitions=8, min_cycles=least))
        changed = []
        for index in range(16):
            seen = statistics(controller.rule, stream(hot=index)(index), seed=index)
            if controller.observe(seen) is not None:
                changed.append(index)
        assert changed[0] == 0
        assert np.diff(changed).min() == np.diff(changed).max() == least


def test_small_cycles_are_put_together() -> None:
    """200 rows say little of 16 partitions; many times 200 do."""
    controller = Controller(HotSpot(partitions=16, sample=5_000))
    cycle = stream(hot=1, rows=200)
    run(controller, [cycle(index) for index in range(60)])
    assert 1 <= controller.rule.version <= 4
    large = statistics(controller.rule, stream(hot=1, rows=100_000)(99))
    assert large.skew < 0.15
    assert skew(loads_of(Rule.even(16), stream(1, 100_000)(99))) > 0.5


def test_statistics_of_an_earlier_rule_decide_nothing() -> None:
    controller = Controller(HotSpot(partitions=8, min_cycles=1))
    cycle = stream(hot=1)
    before = controller.rule
    assert controller.observe(statistics(before, cycle(0))) is not None
    for index in range(1, 4):  # cycles that had begun under it
        assert controller.observe(statistics(before, cycle(index))) is None
    assert controller.observe(statistics(controller.rule, cycle(4))) is None
    assert controller.rule.version == 1


def test_the_next_cycle_samples_as_much_however_many_tasks_it_has() -> None:
    controller = Controller(HotSpot(partitions=8, sample=1_000))
    assert controller.capacity == 1_000
    parts = [statistics(controller.rule, stream(1)(i)) for i in range(3)]
    controller.observe(added(parts))
    assert controller.capacity == 167  # three times two tasks


def test_a_rule_alone_is_enough_to_go_on() -> None:
    cycle = stream(hot=1)
    one = Controller(HotSpot(partitions=8))
    one.observe(statistics(one.rule, cycle(0)))
    other = Controller(HotSpot(), rule=one.rule)
    assert run(other, [cycle(1), cycle(2)]) < [0.06, 0.06]
    moved = run(other, [stream(hot=2)(3), stream(hot=2)(4)])
    assert moved[1] < 0.06 < moved[0]
    assert other.rule.version == 2


def test_the_number_of_partitions_can_change() -> None:
    cycle = stream(hot=1)
    controller = Controller(HotSpot(partitions=8))
    assert controller.resize(4) == Rule.even(4, 1)  # nothing is known yet
    run(controller, [cycle(0), cycle(1)])
    for partitions in (16, 1, 3):
        before = controller.rule.version
        rule = controller.resize(partitions)
        assert (rule.partitions, rule.version) == (partitions, before + 1)
        assert statistics(rule, cycle(9)).skew < 0.08
    # Statistics over another number of partitions come late and are no more than a sample.
    assert controller.observe(statistics(Rule.even(16, 3), cycle(5))) is None
    with pytest.raises(ValueError, match="partitions=0"):
        controller.resize(0)


def test_a_controller_must_know_how_many_partitions_there_are() -> None:
    with pytest.raises(ArgumentError, match="partitions=None"):
        Controller(HotSpot())
    with pytest.raises(ArgumentError, match="the active rule has 8"):
        Controller(HotSpot(partitions=4), rule=Rule.even(8))
    assert Controller(HotSpot(partitions=4), partitions=6).rule.partitions == 6
