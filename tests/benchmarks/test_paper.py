"""The papers' tables and figures: the cells as printed, and what is made of what was measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.paper import hotspot_claims, hotspots, scheduling, skiplists, zipf
from scheduling.policies import policy
from scheduling.rebalance import StStream
from scheduling.simulate.flink_claims import replay
from scheduling.simulate.report import Statement


def checked(outcome: Outcome) -> Outcome:
    """A row has a cell a column, and JSON holds the rest."""
    for table in outcome.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    json.dumps([figure.to_json() for figure in outcome.figures])
    json.dumps(outcome.measured)
    return outcome


def test_every_cell_of_table_5_is_within_two_hundredths_of_a_point() -> None:
    computed = zipf.shares()
    assert sum(map(len, zipf.TABLE_5.values())) == 24
    for z, cells in zipf.TABLE_5.items():
        assert computed[z] == pytest.approx(cells, abs=0.02)


@pytest.mark.parametrize("keys", [100, 5_000])
def test_shares_of_few_keys_are_those_of_the_weights_added_up(keys: int) -> None:
    for z, cells in zipf.shares(keys).items():
        weights = np.arange(1, keys + 1, dtype=np.float64) ** -z
        sums = 100 * np.cumsum(weights) / weights.sum()
        assert cells == pytest.approx([sums[keys * top // 100 - 1] for top in zipf.TOPS])


def test_table_5_is_told_cell_by_cell_and_drawn(tmp_path: Path) -> None:
    said: list[str] = []
    found = checked(zipf.run(Context(True, tmp_path, tmp_path, say=said.append)))
    assert all(figure.reached for figure in found.figures)
    assert len(found.tables[0].rows) == 24
    assert [path.parent for path in found.pictures] == [tmp_path]
    assert found.pictures[0].stat().st_size > 10_000
    assert said


@pytest.fixture(scope="module")
def routed() -> hotspots.Found:
    """Two exponents over few keys."""
    from benchmarks.data.shifting import Shifting

    found: hotspots.Found = {}
    for z in (0.98, 1.16):
        stream = Shifting(20_000, z, 60_000, seed=1)
        cycles = [stream.cycle(index) for index in range(3)]
        found[z] = {way: hotspots.route(way, cycles, 20_000, 6) for way in hotspots.WAYS}
    return found


def test_routing_loses_no_row_and_asks_for_a_key_once_by_hash(routed: hotspots.Found) -> None:
    from benchmarks.data.shifting import Shifting

    stream = Shifting(20_000, 1.16, 60_000, seed=1)
    distinct = len(np.unique(np.concatenate([stream.cycle(index) for index in range(3)])))
    for way, one in routed[1.16].items():
        assert [sum(loads) for loads in one.loads] == [60_000] * 3
        assert sum(map(sum, one.look_ups)) == one.cached[-1]
        assert one.cached[-1] >= distinct
        assert sum(one.shares) == pytest.approx(100)
        if way == hotspots.HASH:
            assert one.cached[-1] == distinct


def test_the_busiest_task_manager_gives_throughput_and_latency() -> None:
    one = hotspots.Routed(
        skew=[9.0, 0.5, 0.7, 0.6],
        loads=[[9, 9], [300, 100], [200, 200], [100, 300]],
        look_ups=[[9, 9], [0, 30], [0, 0], [0, 0]],
        cached=[18, 48, 48, 48],
    )
    assert one.settled == 0.6
    assert one.shares == pytest.approx((50, 50))
    cycles_us = [100 + 30 * hotspots.LOOK_UP_US, 200, 300]
    assert one.latency_ms == pytest.approx(sum(cycles_us) / 3e3)
    assert one.throughput == pytest.approx(3 * 400 / (sum(cycles_us) / 1e6))
    assert one.warm == pytest.approx(3 * 400 / (800 / 1e6))


def test_figures_11_and_12_are_simulated_and_their_statements_judged(
    routed: hotspots.Found, tmp_path: Path
) -> None:
    from benchmarks.paper.hotspot_picture import draw

    figures = hotspot_claims.figures(routed)
    assert all(figure.simulated and figure.paper for figure in figures)
    told = hotspot_claims.statements(routed)
    judged = {row[1]: row[-1] for row in told.rows}
    assert set(judged.values()) == {"yes", "no"}
    assert judged["DS by hash rises with Z"] == "yes"
    assert judged["DS far below hash (split hot keys)"] == "yes"
    assert judged["fewer cached rows than by hash (split hot keys / hash)"] == "no"
    assert {row[0] for row in told.rows} == {
        "Fig. 11a",
        "Fig. 11b",
        "Fig. 11c",
        "Fig. 11d",
        "Fig. 12",
    }
    assert all(path.stat().st_size > 10_000 for path in draw(routed, tmp_path))


def ways(sizes: tuple[int, ...], workers: tuple[int, ...]) -> skiplists.Measured:
    """Rates of 1, 4 and 8, latencies of 8, 4 and 2, times rows and workers."""
    found: skiplists.Measured = {}
    for factor, way in enumerate((skiplists.FLAT_MAP, skiplists.RANDOM, skiplists.SORTED)):
        rate, latency = (1e3, 4e3, 8e3)[factor], (8.0, 4.0, 2.0)[factor]
        found[way] = {
            size: {many: {"rate": rate * many, "latency_ms": latency * at} for many in workers}
            for at, size in enumerate(sizes, 1)
        }
    return found


def test_the_papers_tables_say_what_its_text_says() -> None:
    assert len(skiplists.CELLS) == 9
    over = skiplists.told("rate", skiplists.SORTED, skiplists.FLAT_MAP)
    assert min(over) >= 2
    assert round(max(over), 1) <= 6
    assert min(skiplists.told("rate", skiplists.SORTED, skiplists.RANDOM)) > 1
    # "by more than 45 %" holds for the sorted list in all cells, for the random one it does not.
    less = skiplists.told("latency_ms", skiplists.SORTED, skiplists.FLAT_MAP)
    assert max(less) < 0.55
    assert max(skiplists.told("latency_ms", skiplists.RANDOM, skiplists.FLAT_MAP)) > 0.55


def test_ratios_of_the_ways_stand_beside_the_papers() -> None:
    measured = ways((1 << 21, 1 << 22, 1 << 23), (1, 2, 4))
    figures = {figure.name: figure for figure in skiplists.figures(measured)}
    one = figures["rows/s, sorted skip list / FlatMap"]
    assert (one.value, one.bound, one.reached) == (8.0, 2.0, True)
    assert one.paper.endswith("2.62 to 6.01 (Tables 6 and 8)")
    assert figures["latency, sorted skip list / FlatMap"].value == 0.25
    table = skiplists.ratio_table(measured)
    assert len(table.rows) == 9
    assert [row[3] for row in table.rows] == [8.0] * 9
    assert [row[5] for row in table.rows] == [2.0] * 9


@pytest.mark.parametrize(
    ("sizes", "workers", "filled"),
    [
        ((1 << 18,), (1, 2), [0, 1]),
        ((1 << 18,), (2,), [0]),
        ((1 << 18, 1 << 19, 1 << 20), (1, 2, 4), list(range(9))),
    ],
)
def test_a_cell_that_was_not_measured_is_empty(
    sizes: tuple[int, ...], workers: tuple[int, ...], filled: list[int]
) -> None:
    measured = ways(sizes, workers)
    for table in (*skiplists.cell_tables(measured), skiplists.ratio_table(measured)):
        assert [at for at, row in enumerate(table.rows) if row[-1] is not None] == filled
        assert {len(row) for row in table.rows} == {len(table.columns)}
    first = skiplists.cell_tables(measured)[0].rows[0]
    assert first[:4] == ("2^21", 8, 16.32, 301.40)
    assert first[4:6] == (f"2^{sizes[0].bit_length() - 1}", workers[0])


def test_both_lists_are_built_and_searched_and_all_is_drawn(tmp_path: Path) -> None:
    from benchmarks.paper.skiplist_picture import draw
    from benchmarks.ranges.skiplists import FIXED
    from benchmarks.ranges.skiplists import RANDOM as THROWN

    seconds = skiplists.lists([1 << 8, 1 << 10], 100, 2, seed=1)
    for kinds in seconds.values():
        assert set(kinds) == {skiplists.RANDOM, skiplists.SORTED}
        assert all(len(times) == 2 for one in kinds.values() for times in one.values())
    reads = {
        size: {FIXED: {"mean": 9.0, "one": 0.0}, THROWN: {"mean": 12.0, "one": 20.0}}
        for size in seconds
    }
    table = skiplists.reads_table(reads)
    assert table.rows[0] == ("2^8", 12.0, 9.0, "about 25", 25.0, 20.0, 0.0, 0.0)
    drawn = draw(reads, seconds, ways((1 << 18,), (1, 2)), tmp_path / "lists.png")
    assert drawn.stat().st_size > 10_000


def statement(**options: Any) -> Statement:
    told: dict[str, Any] = {"system": "X: a job", "where": "Fig. 1", "what": "cost, %", "figure": 2}
    return Statement(**(told | {"paper": -20.0, "ours": -25.0} | options))


def test_a_statement_becomes_a_figure_with_its_bound() -> None:
    one = scheduling.figure(statement(most=-20.0))
    assert (one.name, one.value, one.bound, one.unit) == ("X: cost, %", -25.0, -20.0, "%")
    assert one.reached
    assert one.simulated
    assert one.paper == "-20 (Fig. 1)"
    assert not scheduling.figure(statement(least=4.0, paper=math.nan)).reached
    assert scheduling.figure(statement(least=4.0, paper=math.nan)).paper == "Fig. 1"


def test_a_statement_with_two_bounds_becomes_its_distance_from_the_papers() -> None:
    one = scheduling.figure(statement(paper=3.479, ours=3.480, most=3.481, least=3.477))
    assert (round(one.value, 6), one.bound, one.at_most) == (0.001, 0.002, True)


def test_what_does_not_hold_is_listed_the_farthest_first() -> None:
    near = statement(what="near", most=-26.0)
    far = statement(what="far", most=-90.0, figure=None)
    held = statement(what="held", most=0.0)
    listed = scheduling.unmet([near, held, far])
    assert [row[2] for row in listed.rows] == ["far", "near"]
    assert listed.rows[0][-1] == 65.0
    rows = scheduling.table("X: a job", [near, held, far]).rows
    assert [row[-1] for row in rows] == ["no", "yes", "no"]


def test_the_replayed_tables_become_figures_that_are_reached() -> None:
    promised = [one for one in replay(policy) if one.figure is not None]
    figures = [scheduling.optimum(), *map(scheduling.figure, promised)]
    assert len(figures) == 5
    assert all(figure.reached for figure in figures)
    assert scheduling.optimum().value == pytest.approx(1.0)


def test_st_stream_is_drawn_measure_by_measure(tmp_path: Path) -> None:
    from benchmarks.paper.scheduling_picture import draw_st_stream
    from scheduling.simulate import skewed_runs

    runs = {
        "Storm": skewed_runs.run(None, clocks=2),
        "St-Stream": skewed_runs.run(StStream(theta=0.2, cpu_weight=1.0), clocks=2),
    }
    drawn = draw_st_stream(runs, tmp_path / "st_stream.png")
    assert drawn.stat().st_size > 10_000
