"""The scheduling papers: their own numbers, and the one table of statements."""

from __future__ import annotations

import json
import math
import statistics

import pytest

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.records import plain
from benchmarks.papers.scheduling import flink, published
from benchmarks.papers.scheduling.published import Row, held
from benchmarks.papers.scheduling.steering import Buffered, Operator, demands, progress
from scheduling import Resources, Worker
from scheduling.simulate import Arrivals


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("papers")
    return flink.paper_scheduling(Context(True, folder, say=lambda _: None))


def test_the_averages_of_tables_5_and_6_are_those_of_the_text() -> None:
    averaged = [one for one in published.claims() if one.measure == "time"]
    assert len(averaged) == 6
    for one in averaged:
        times = published.EXECUTION_S[one.job]
        ratios = [a / b for a, b in zip(times[one.way], times[one.than], strict=True)]
        assert 100 * (statistics.fmean(ratios) - 1) == pytest.approx(one.percent, abs=0.3)


def test_a_full_buffer_drops_what_comes_beyond_and_a_pause_keeps_it_still() -> None:
    job = demands([Operator("a", 1, 0.01)])
    workers = [Worker("e0", Resources(1, 1024), 1)]
    query = Buffered(job, workers, Arrivals(200), buffer=150)
    query.run(100.0)
    assert query.lost > 0
    assert query.offset == pytest.approx(sum(one.rows for one in query.batches) + query.lost)
    assert query.arrived(query.batches[-1].start) <= query.offset + 150 + 200
    told = progress(query)[-1]
    assert 0 < told["numInputRows"] <= 150
    assert told["sources"][0]["latestOffset"]["n"] >= told["sources"][0]["endOffset"]["n"]
    query.pause(7.0)
    query.run(130.0)
    assert not any(100 < one.start < 107 for one in query.batches)
    assert any(one.start < 109 for one in query.batches if one.start > 100)


@pytest.mark.long
def test_what_does_not_hold_says_why_and_no_row_is_there_twice(ran: Outcome) -> None:
    made: list[Row] = ran.measured
    for one in made:
        assert one.holds == "yes" or one.says is None or one.why, one
        assert (one.how == "not reproduced") == (one.ours is None), one
        assert one.ours is not None or one.why, one
    named = [(one.paper, one.place, one.what) for one in made]
    assert len(set(named)) == len(named)
    within, direction, every = held(made)
    assert 0 < within < within + direction < every, "who agrees with all of it is not believed"


@pytest.mark.long
def test_the_promised_figures_are_reached_and_a_record_holds_the_rest(ran: Outcome) -> None:
    assert [one.name for one in ran.figures if not one.reached] == []
    assert all(one.simulated for one in ran.figures)
    for table in ran.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    json.dumps(plain(ran.figures))
    json.dumps(plain(ran.measured))


@pytest.mark.parametrize(
    ("says", "ours", "holds"),
    [
        (-20.0, -25.0, "yes"),
        (-20.0, -15.0, "yes"),
        (-20.0, -25.1, "direction"),
        (-20.0, -6.0, "direction"),
        (-20.0, -4.0, "no"),
        (-20.0, 20.0, "no"),
        (0.0, 0.25, "yes"),
        (0.0, -0.3, "no"),
        (None, 1.0, ""),
        (1.0, None, ""),
        (1.0, math.nan, ""),
    ],
)
def test_a_row_holds_within_a_quarter(says: float | None, ours: float | None, holds: str) -> None:
    assert Row("X", "Fig. 1", "cost, %", says, ours).holds == holds
