"""Road traffic: tables that fit together, and events that find their rows in each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.data.traffic import KINDS, SLICES, STREAMS, WEEKDAYS, Network
from benchmarks.traffic.job import JOB


@pytest.fixture(scope="module")
def city() -> Network:
    return Network(side=4, seed=3)


def _keys(table: pa.Table, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@settings(max_examples=8, deadline=None)
@given(side=st.integers(2, 5), seed=st.integers(0, 5))
def test_keys_are_unique_and_the_tables_are_those_of_the_job(side: int, seed: int) -> None:
    tables = Network(side, seed).tables()
    assert list(tables) == [step.table for step in JOB.steps]
    roads = 4 * side * (side - 1)
    assert tables["roads"].num_rows == roads
    assert tables["road_times"].num_rows == roads * WEEKDAYS * SLICES
    assert tables["signals"].num_rows == side * side * len(KINDS) * SLICES
    for step in JOB.steps:
        table = tables[step.table]
        assert set(step.columns) == set(table.column_names)
        assert len(set(_keys(table, step.on))) == table.num_rows


def test_every_turn_leads_from_a_road_into_another_of_its_crossing(city: Network) -> None:
    turns = city.tables()["turns"]
    roads, crossings = turns.column("road").to_numpy(), turns.column("crossing").to_numpy()
    assert np.array_equal(city.end[roads], crossings)
    # At an inner crossing of a road one may go straight on, left or right; in a corner one way.
    per_road = np.bincount(roads, minlength=len(city.end))
    assert per_road.min() == 1
    assert per_road.max() == 3


@pytest.mark.parametrize("kind", STREAMS)
def test_each_event_finds_one_row_in_each_table(city: Network, kind: str) -> None:
    tables = city.tables()
    rows = city.events(500, cycle=110, kind=kind)  # past midnight
    for step in JOB.steps:
        table = tables[step.table]
        joined = rows.join(table.select(step.columns), list(step.on), join_type="inner")
        assert joined.num_rows == 500
        rows = joined.combine_chunks()
    assert set(rows.column("weekday").to_pylist()) == {1}
    assert set(rows.column("slice").to_pylist()) == {(42 + 110) % SLICES}


def test_events_are_drawn_by_seed_and_cycle(city: Network) -> None:
    assert city.events(100, 3).equals(Network(4, 3).events(100, 3))
    assert not city.events(100, 3).equals(city.events(100, 4))
    assert not city.events(100, 3).equals(Network(4, 4).events(100, 3))
    first, second = (city.events(100, cycle).column("event").to_pylist() for cycle in (0, 1))
    assert not set(first) & set(second)


def test_traffic_is_denser_in_the_centre_unless_it_is_uniform() -> None:
    network = Network(side=12)
    counts = {
        kind: np.bincount(network.events(50_000, 0, kind).column("turn").to_numpy())
        for kind in STREAMS
    }
    assert counts["centre"].max() > 1.5 * counts["uniform"].max()


def test_rush_hours_are_slow_and_red_signals_make_queues(city: Network) -> None:
    times = city.tables()["road_times"]
    parts, usual = (times.column(name).to_numpy() for name in ("slice", "usual_ms"))
    assert usual[parts == 48].mean() > 1.2 * usual[parts == 12].mean()  # 8:00 against 2:00
    events = city.events(2_000, 6)
    stopped, queue = (events.column(name).to_numpy() for name in ("stopped_ms", "queue_m"))
    assert (queue[stopped == 0] == 0).all()
    assert queue[stopped > 30_000].mean() > 10


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(ValueError, match="side=1: there must be 2 crossings a side or more"):
        Network(1)
    with pytest.raises(ValueError, match="kind='night': give one of uniform, centre"):
        Network(2).events(1, 0, "night")
