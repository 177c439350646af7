"""Arrival and backlog from progress, against a source whose truth is known."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.flow import Meter, flow, offsets

Progress = dict[str, Any]
FILES = 0.0  # a limit of another kind than rows


def when(second: float) -> str:
    moment = datetime.datetime.fromtimestamp(1.7e9 + second, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Source:
    """Rows that arrive at a rate, taken up to a limit; offsets in some form."""

    def __init__(
        self, rate: float, limit: float = math.inf, offset: Callable[[int], Any] | None = int
    ) -> None:
        self.rate, self.limit, self.offset = rate, limit, offset
        self.end = 0

    def arrived(self, second: float) -> int:
        return int(self.rate * second)

    def take(self, second: float) -> Progress:
        latest, start = self.arrived(second), self.end
        self.end = int(min(latest, start + self.limit))
        shown = self.offset or (lambda rows: {"logOffset": rows // 7})
        return {
            "startOffset": shown(start),
            "endOffset": shown(self.end),
            "latestOffset": None if self.offset is None else shown(latest),
            "numInputRows": self.end - start,
        }


def kafka(rows: int) -> dict[str, dict[str, int]]:
    return {"topic": {"0": rows // 3, "1": rows - rows // 3}}


class Query:
    """Micro-batches over sources, each as long as its rows take."""

    def __init__(self, *sources: Source, per_s: float = 1000.0, every_s: float = 2.0) -> None:
        self.sources, self.per_s, self.every_s = sources, per_s, every_s
        self.second, self.number, self.run = 1.0, 0, "run"
        self.progress: list[Progress] = []

    def batch(self) -> Progress:
        found = [source.take(self.second) for source in self.sources]
        rows = sum(one["numInputRows"] for one in found)
        took = rows / self.per_s + 0.1
        self.progress.append({
            "runId": self.run, "batchId": self.number, "timestamp": when(self.second),
            "numInputRows": rows, "sources": found, "inputRowsPerSecond": 1e9,
            "durationMs": {"triggerExecution": int(took * 1000)},
        })  # fmt: skip
        self.number += 1
        self.ended = self.second + took
        self.second = max(self.ended, self.second + self.every_s)
        return self.progress[-1]

    def waiting(self) -> float:
        """The truth, when the last micro-batch ended."""
        return float(sum(one.arrived(self.ended) - one.end for one in self.sources))

    def run_for(self, batches: int) -> None:
        for _ in range(batches):
            self.batch()


RATES = st.floats(1, 5000)
COUNTING: list[Any] = [int, str, kafka, lambda rows: {"n": rows}]
OFFSETS: list[Any] = [*COUNTING, None, lambda rows: rows // 100]
LIMITS = st.sampled_from([math.inf, 1200]) | st.integers(10, 5000)


@given(RATES, LIMITS, st.sampled_from(OFFSETS), st.booleans(), st.integers(2, 12))
def test_arrival_and_backlog_are_told_or_unknown_and_never_said_to_be_nothing(
    rate: float, limit: float, offset: Any, files: bool, batches: int
) -> None:
    query = Query(Source(rate, limit, offset))
    query.run_for(batches)
    told = None if limit == math.inf else FILES if files else limit
    found = flow(query.progress[0], query.progress[1:], [told])
    if found is None:
        assert not any(one["numInputRows"] for one in query.progress[1:])
        return
    assert found.done == sum(one["numInputRows"] for one in query.progress[1:])
    rows = [one["numInputRows"] for one in query.progress]
    full = max(rows[0], next(filter(None, reversed(rows)))) >= 0.98 * limit
    if offset in COUNTING or told is None or not (files or full):
        assert found.arrived == pytest.approx(rate * found.seconds, abs=2)
        assert found.waiting == pytest.approx(query.waiting(), rel=0.01, abs=3)
    else:
        assert (found.arrived, found.waiting) == (None, None)


def test_a_new_partition_is_no_burst_and_a_topic_that_begins_again_is_no_arrival() -> None:
    query = Query(Source(1000, 600, kafka))
    query.run_for(4)
    query.progress[-1]["sources"][0]["latestOffset"]["topic"]["2"] = 10**9
    found = flow(query.progress[0], query.progress[1:], [600])
    assert found.arrived == pytest.approx(1000 * found.seconds, abs=2)
    query.progress[-1]["sources"][0]["latestOffset"] = kafka(3)
    found = flow(query.progress[0], query.progress[1:], [600])
    assert (found.arrived, found.waiting) == (None, None)
    # Markers of transactions are offsets without a row: the unit is the offset then.
    query = Query(Source(1000, 600, kafka))
    query.run_for(5)
    for one in query.progress:
        one["sources"][0]["numInputRows"] //= 2
    found = flow(query.progress[0], query.progress[1:], [600])
    assert found.arrived == pytest.approx(1000 * found.seconds, abs=2)
    assert found.done == 2400


def test_odd_progress_is_no_error() -> None:
    assert offsets('{"topic": {"0": 5, "1": 7}}') == {"/topic/0": 5.0, "/topic/1": 7.0}
    odd = [
        None,
        True,
        "no JSON",
        {"version": "x"},
        {"a": True},
        {"a": None},
        [1],
        {"a": {"b": [1]}},
    ]
    assert {offsets(one) for one in odd} == {None}
    query = Query(Source(100, offset=kafka), Source(100, offset=kafka))
    query.run_for(3)
    before: Mapping[str, Any] = {**query.progress[0], "sources": query.progress[0]["sources"][:1]}
    found = flow(before, query.progress[1:])
    assert found.arrived is None
    assert flow(before, []) is None


def drive(query: Query, meter: Meter, batches: int, cores: int = 2) -> Any:
    found = None
    for _ in range(batches):
        took = query.batch()["durationMs"]["triggerExecution"] / 1e3
        found = meter.load(query.ended, query.progress[-40:], 0.9 * cores * took, cores)
    return found


def test_the_meter_gives_smoothed_rates_true_rates_and_the_use() -> None:
    query, meter = Query(Source(800, offset=kafka)), Meter(20)
    assert drive(query, meter, 1) is None  # the first has no beginning
    query.run_for(3)  # several at once
    load = drive(query, meter, 14)
    assert load.arrival == pytest.approx(800, rel=0.05)
    assert load.newest == pytest.approx(800, rel=0.05)
    assert load.per_core == pytest.approx(1600 / (0.9 * 2 * 1.7), rel=0.05)
    assert load.busy == pytest.approx(0.9 * 1.7 / 2, rel=0.05)
    assert load.waiting == pytest.approx(query.waiting(), rel=0.05)
    query.sources[0].rate, query.sources[0].end = 2400, 2400 * int(query.second)
    load = drive(query, meter, 2)
    assert load.newest > load.arrival > 800


def test_more_micro_batches_than_are_told_are_no_fewer_rows() -> None:
    query, meter, load = Query(Source(800, offset=None), every_s=0.2), Meter(20), None
    for _ in range(12):
        query.run_for(20)
        took_s = sum(one["durationMs"]["triggerExecution"] for one in query.progress[-20:]) / 1e3
        load = meter.load(query.ended, query.progress[-5:], took_s, 2)
    rows = sum(one["numInputRows"] for one in query.progress[-20:])
    assert load.arrival == pytest.approx(800, rel=0.05)
    assert load.per_core == pytest.approx(rows / took_s, rel=0.1)


def test_the_meter_begins_again_with_a_restart() -> None:
    query, meter = Query(Source(800, offset=kafka)), Meter(20)
    drive(query, meter, 8)
    for run, number in (("again", 3), ("again", 0), ("third", 50)):
        query.run, query.number, query.progress = run, number, []
        assert drive(query, meter, 1) is None
        load = drive(query, meter, 3)
        assert load.arrival == pytest.approx(800, rel=0.2)
    query.batch()  # nothing is measured while no executor is there
    assert meter.load(query.ended, query.progress, 1.0, cores=0) is None
    query.second -= 500  # a clock that goes back gives no load
    query.sources[0].end = query.sources[0].arrived(query.second - 2)
    query.batch()
    assert meter.load(query.ended + 500, query.progress, 1.0, 2) is None
    query.batch()
    load = meter.load(query.ended + 500, query.progress, 1.0, 2)
    assert load.arrival == pytest.approx(800, rel=0.2)


def test_a_silent_source_is_told_from_a_long_micro_batch() -> None:
    query, meter = Query(Source(800, offset=kafka)), Meter(20)
    drive(query, meter, 8)
    now, waits = query.ended, {"isDataAvailable": True, "isTriggerActive": False}
    assert meter.load(now + 5, query.progress, 0, 2) is None
    for status in (None, waits):  # between the triggers of a long interval nothing is known
        assert meter.load(now + 500, query.progress, 0, 2, status) is None
    long = meter.load(now + 90, query.progress, 0, 2, {**waits, "isTriggerActive": True})
    assert long.waiting == pytest.approx(800 * 90, rel=0.1)
    for second in (100, 500):
        none = {**waits, "isDataAvailable": False}
        silent = meter.load(now + second, query.progress, 0, 2, none)
        assert (silent.arrival, silent.waiting, silent.busy) == (0, 0, 0)
    # The first micro-batch after the silence has not run since then.
    begun = {**waits, "isTriggerActive": True}
    assert meter.load(now + 510, query.progress, 0, 2, begun) is None
    assert meter.load(now + 600, query.progress, 0, 2, begun) is not None
