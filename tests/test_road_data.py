"""The made-up city of the road example: no Spark in here."""

from __future__ import annotations

import numpy as np
import pytest

from examples.road_data import City


def test_the_same_seed_makes_the_same_city_and_another_one_another() -> None:
    first, again, other = City(4, 2, seed=7), City(4, 2, seed=7), City(4, 2, seed=8)
    assert first.tables() == again.tables()
    assert first.reports(500).equals(again.reports(500))
    assert not first.reports(500).equals(other.reports(500))


def test_a_turn_leads_over_its_crossing_into_another_road_and_not_back() -> None:
    city = City(5, 1)
    assert len(set(zip(city.start.tolist(), city.end.tolist(), strict=True))) == city.roads
    per_road = np.bincount(city.turn_road, minlength=city.roads)
    assert per_road.min() >= 1  # a corner has one way on
    assert per_road.max() == 3


def test_each_signal_has_one_programme_at_any_minute() -> None:
    signals = City(3, 1).tables()["signals"].to_pandas()
    assert (
        signals.groupby(["crossing", "kind"])
        .until_minute.apply(lambda m: m.isna().sum())
        .eq(1)
        .all()
    )
    until = signals.until_minute.fillna(24 * 60)
    for minute in (0, 359, 360, 720, 1139, 1140, 1439):
        runs = signals[(signals.from_minute <= minute) & (minute < until)]
        assert len(runs) == 9 * 3
        assert not runs.duplicated(["crossing", "kind"]).any()


def test_reports_come_in_order_from_turns_of_their_road_and_a_jam_slows_them() -> None:
    city = City(4, 1, jams=1)
    reports = city.reports(60_000).to_pandas()
    minutes = reports["at"].dt.hour * 60 + reports["at"].dt.minute
    assert reports["at"].is_monotonic_increasing
    assert minutes.between(7 * 60, 9 * 60 - 1).all()
    assert (city.turn_road[reports.turn] == reports.road).all()
    assert (reports.pass_ms >= reports.stopped_ms).all()
    there = reports[reports.road == city.turn_road[city.jam_turn[0]]]
    minute = there["at"].dt.hour * 60 + there["at"].dt.minute
    during = minute.between(city.jam_from[0], city.jam_until[0] - 1)
    usual = city.usual_road_ms(there.road.to_numpy(), minute.to_numpy() // 10)
    slower = there.travel_ms / usual
    assert slower[during].mean() > 1.8
    assert slower[~during].mean() == pytest.approx(1, abs=0.1)


def test_sizes_that_make_no_city_and_reports_that_leave_the_day_are_refused() -> None:
    for sizes in ({"side": 1}, {"side": 3, "days": 0}, {"jams": -1}, {"side": 2, "jams": 9}):
        with pytest.raises(ValueError, match=r"=-?\d"):
            City(**sizes)
    with pytest.raises(ValueError, match="one within a day"):
        City(2, jams=0).reports(10, begin=1400, minutes=60)
