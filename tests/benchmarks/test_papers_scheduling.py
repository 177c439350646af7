"""The scheduling papers: their own numbers, and the one table of statements."""

from __future__ import annotations

import json
import math
import statistics

import pytest

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.records import plain
from benchmarks.papers.scheduling import oera, paper_scheduling, published, st_stream
from benchmarks.papers.scheduling.operators import Operator, demands
from benchmarks.papers.scheduling.published import Row, held
from benchmarks.papers.scheduling.steering import Buffered, progress
from scheduling import Resources, Worker
from scheduling.simulate import Arrivals


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("papers")
    return paper_scheduling.run(Context(True, folder, folder, say=lambda _: None))


def test_the_averages_of_tables_5_and_6_are_those_of_the_text() -> None:
    averaged = [one for one in published.claims() if one.measure == "time"]
    assert len(averaged) == 6
    for one in averaged:
        times = published.EXECUTION_S[one.job]
        ratios = [a / b for a, b in zip(times[one.way], times[one.than], strict=True)]
        assert 100 * (statistics.fmean(ratios) - 1) == pytest.approx(one.percent, abs=0.3)


def test_st_stream_keeps_the_work_and_rests_after_one_clock() -> None:
    found = st_stream.run(st_stream.StStream(theta=0.2, cpu_weight=1.0), clocks=4)
    assert found.use[0] == pytest.approx(st_stream.BEFORE, abs=0.2)
    assert found.work_s == pytest.approx([found.work_s[0]] * 4, rel=1e-6)
    assert found.even_after <= 2
    assert found.moves[0]
    assert all(one.gain > 0 for one in found.moves[0])
    assert not any(found.moves[1:])


def test_a_full_buffer_drops_what_comes_beyond_and_a_limit_leaves_rows_waiting() -> None:
    job = demands([Operator("a", 1, 0.01)])
    workers = [Worker("e0", Resources(1, 1024), 1)]
    query = Buffered(job, workers, Arrivals(200), buffer=150, limit=50)
    query.run(100.0)
    assert query.lost > 0
    assert query.offset == pytest.approx(sum(one.rows for one in query.batches) + query.lost)
    assert query.arrived(query.batches[-1].start) <= query.offset + 150 + 200
    told = progress(query)[-1]
    assert told["numInputRows"] == 50
    assert told["sources"][0]["latestOffset"]["n"] > told["sources"][0]["endOffset"]["n"]
    query.pause(7.0)
    query.run(130.0)
    assert not any(100 < one.start < 107 for one in query.batches)
    assert any(one.start < 109 for one in query.batches if one.start > 100)


def test_a_buffer_that_is_large_enough_loses_nothing() -> None:
    calm = oera.run(oera.Static, [50.0] * 4)
    assert calm["lost, Count"] == calm["changes"] == 0
    assert calm["done, Count"] == pytest.approx(10 * calm["done, Split"], rel=0.01)
    full = oera.run(oera.Static, [300.0] * 6)
    # 12 threads take 1,200 words of 3,000 a second; the buffer has room for 400,000.
    assert full["lost, Count"] == pytest.approx(1800 * 3600 - 400_000, rel=0.02)


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
    assert {one.paper for one in made} >= {"CETSA, LBA-CE", "St-Stream", "OERA mended"}


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
