"""A cycle's statistics: drawn by chance, counted exactly, sent as text, added up in any order."""

from __future__ import annotations

import json
import statistics

import numpy as np
import pytest
from hotspot_strategies import codes, contents, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.partitioning import (
    Collector,
    CycleStatistics,
    Reservoir,
    Router,
    Rule,
    Sample,
    added,
    skew,
)


@pytest.mark.parametrize(("capacity", "sizes"), [(7, [3, 4, 2, 6, 15, 20]), (20, [19, 31])])
def test_every_row_has_the_same_chance_however_the_stream_is_cut(
    capacity: int, sizes: list[int]
) -> None:
    rows, runs = sum(sizes), 1_000
    seen = np.zeros(rows)
    for seed in range(runs):
        reservoir = Reservoir(capacity, seed)
        for part in np.split(np.arange(rows), np.cumsum(sizes)):
            reservoir.add(part)
        drawn = reservoir.codes
        assert len(set(drawn.tolist())) == len(drawn) == min(capacity, rows)
        seen[drawn] += 1
    assert reservoir.rows == rows
    share = capacity / rows
    # Drawn without replacement, so that this is chi-square with rows - 1 degrees of freedom.
    square = ((seen - runs * share) ** 2).sum() / (runs * share * (1 - share)) * (rows - 1) / rows
    assert square < rows - 1 + 4 * np.sqrt(2 * (rows - 1))


@settings(max_examples=12)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=50).filter(any))
def test_skew_is_the_deviation_over_the_mean(loads: list[int]) -> None:
    expected = statistics.stdev(loads) / statistics.mean(loads)
    assert skew(np.array(loads)) == pytest.approx(expected)
    assert skew(np.array(loads) * 2.5) == pytest.approx(expected)
    for even in ([], [7], [0], [0, 0, 0], [5, 5, 5, 5]):
        assert skew(np.array(even, np.int64)) == 0.0


def collected(rule: Rule, batches: list[np.ndarray], capacity: int, seed: int) -> CycleStatistics:
    collector = Collector(Router(rule), capacity, seed)
    for batch in batches:
        collector.route(batch, contents(len(batch), seed))
    return collector.statistics()


def alike(one: CycleStatistics, other: CycleStatistics) -> bool:
    return (
        (one.version, one.tasks, one.rows) == (other.version, other.tasks, other.rows)
        and (one.partitions == other.partitions).all()
        and (one.cells is None) == (other.cells is None)
        and (one.cells is None or bool((one.cells == other.cells).all()))
        and one.sample.codes.tolist() == other.sample.codes.tolist()
        and one.sample.counts.tolist() == other.sample.counts.tolist()
        and one.sample.weights.tolist() == pytest.approx(other.sample.weights.tolist())
    )


@given(rules(), st.lists(codes, min_size=1, max_size=4), st.integers(1, 50), st.integers(0, 9))
def test_a_collector_counts_what_it_routes(
    rule: Rule, lists: list[list[int]], capacity: int, seed: int
) -> None:
    batches = [np.array(one, np.int64) for one in lists]
    router = Router(rule)
    collector, again = Collector(router, capacity, seed), Collector(router, capacity, seed)
    routed, repeated = (
        np.concatenate([to.route(one, contents(len(one))) for one in batches])
        for to in (collector, again)
    )
    assert (routed == repeated).all()
    found = collector.statistics()
    assert alike(again.statistics(), found)
    assert found.partitions.tolist() == np.bincount(routed, minlength=rule.partitions).tolist()
    cells = router.locate(np.concatenate(batches))
    assert found.cells.tolist() == np.bincount(cells, minlength=router.cells).tolist()
    assert found.rows == len(routed)
    assert found.skew == skew(found.partitions)
    assert found.sample.drawn == min(capacity, len(routed))
    assert found.sample.weight == pytest.approx(len(routed))
    assert alike(CycleStatistics.from_json(found.to_json()), found)
    # Calibrated, the sample weighs in each cell what was counted there.
    sample = found.calibrated(router)
    weighed = np.bincount(router.locate(sample.codes), sample.weights, router.cells)
    assert weighed == pytest.approx(found.cells)
    assert (sample.codes[1:] > sample.codes[:-1]).all()


@settings(max_examples=12)
@given(rules(), st.lists(codes, min_size=1, max_size=5))
def test_tasks_add_up_in_any_order_and_grouping(rule: Rule, lists: list[list[int]]) -> None:
    parts = [collected(rule, [np.array(one, np.int64)], 30, seed) for seed, one in enumerate(lists)]
    whole = added(parts)
    assert whole.tasks == len(parts)
    assert whole.rows == sum(map(len, lists))
    assert whole.sample.weight == pytest.approx(whole.rows)
    assert alike(added(reversed(parts)), whole)
    for cut in range(1, len(parts)):
        assert alike(added([added(parts[:cut]), added(parts[cut:])]), whole)


def test_what_is_no_statistics_or_does_not_add_up_is_refused() -> None:
    for text in ("", "[]", "{}", '{"v":1}', '{"v":1,"p":"","c":null,"s":[],"t":1}'):
        with pytest.raises(ValueError, match="not the statistics of a cycle"):
            CycleStatistics.from_json(text)
    parts = [collected(Rule.even(n), [np.arange(9)], 5, 0) for n in (2, 3)]
    note = json.loads(parts[0].to_json())
    note["s"][1] = Sample.of(np.arange(3)).to_list()[1]
    with pytest.raises(ValueError, match="different lengths"):
        CycleStatistics.from_json(json.dumps(note))
    with pytest.raises(ValueError, match=r"over \[2, 3\] partitions"):
        added(parts)
    with pytest.raises(ValueError, match="no statistics to add"):
        added([])
