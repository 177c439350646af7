"""The state machine of scaling, against a cluster that is late, refuses, loses and forgets."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scheduling_samples import Wants

from benchmarks.papers.scheduling.scaling_days import LOADS, day, literal_day, measured
from scheduling import errors
from scheduling.elastic import Bounds, Elastic
from scheduling.scalers import DS2, OERA, Load, Scaler

HOUR_S = 3600
SCALERS = {"oera": OERA, "ds2": DS2}


def some(there: int, waiting: float = 0.0) -> Load:
    return Load(10, 1000, 500, 0.7, waiting, there)


class Cluster(RuleBasedStateMachine):
    """A cluster that fulfils requests when it likes, and a model of what may be asked of it."""

    @initialize(
        tasks=st.none() | st.integers(1, 16),
        each=st.integers(1, 3),
        least=st.integers(1, 3),
        most=st.integers(3, 12),
        there=st.integers(0, 14),
    )
    def begin(self, tasks: int | None, each: int, least: int, most: int, there: int) -> None:
        self.scaler = Wants(2.0)
        self.bounds = Bounds(least=least, most=most)
        self.elastic = Elastic(self.scaler, tasks=tasks, each=each, bounds=self.bounds)
        self.now, self.there, self.declared, self.room = 0.0, there, None, 14
        self.fails = False
        self.requests: list[tuple[float, int, int]] = []  # when, what was there, what for

    def step(self, load: Load | None) -> None:
        before = self.elastic.state
        step = self.elastic.step(self.now, self.there, load)
        assert step.there == self.there  # only what is observed is believed
        if step.target is not None:
            assert before != "changing"  # one request at a time
            assert self.bounds.least <= step.target <= self.bounds.most
            if step.target == self.declared:  # what was in vain, after the first wait
                assert self.now - self.requests[-1][0] > 10 * self.bounds.patience_s
            if self.fails:
                self.elastic.failed()
                self.fails = False
            else:
                self.declared = step.target
                self.requests.append((self.now, self.there, step.target))
        if self.declared is not None:
            assert self.elastic.requested == self.declared  # it stands

    @rule(seconds=st.sampled_from([1.0, 5.0, 30.0, 400.0]), waiting=st.sampled_from([0, 1e6]))
    def measured(self, seconds: float, waiting: float) -> None:
        self.now += seconds
        self.step(some(self.there, waiting) if self.there else None)

    @rule(seconds=st.sampled_from([1.0, 61.0]))
    def nothing_measured(self, seconds: float) -> None:
        self.now += seconds
        self.step(None)

    @rule(cores=st.floats(0, 40))
    def load_changes(self, cores: float) -> None:
        self.scaler.answer = cores

    @rule(room=st.integers(0, 14))
    def room_changes(self, room: int) -> None:
        self.room = room

    @precondition(lambda self: self.declared is not None)
    @rule()
    def one_comes_or_goes(self) -> None:
        if self.there < min(self.declared, self.room):
            self.there += 1
        elif self.there > self.declared:
            self.there -= 1

    @precondition(lambda self: self.there > 0)
    @rule()
    def one_is_lost(self) -> None:
        self.there -= 1

    @rule()
    def the_next_request_fails(self) -> None:
        self.fails = True

    @rule()
    def it_comes_to_rest(self) -> None:
        """Whatever was before: with a constant load and a willing cluster it gets what it wants."""
        if not self.there:
            return
        self.room = 14
        for _ in range(3000):
            self.now += 30.0
            if self.declared is not None:
                self.there += (self.declared > self.there) - (self.declared < self.there)
            self.step(some(self.there))
        wanted = self.elastic.steps[-1].wanted
        assert self.elastic.state == "steady"
        assert self.there == self.elastic.requested
        # Fewer by no more than the band are not worth a change.
        assert wanted <= self.there
        assert wanted >= self.there * (1 - self.bounds.band)

    @rule()
    def requests_in_vain_become_rare(self) -> None:
        """While nothing comes or goes, the pause between two requests doubles."""
        if not self.there:
            return
        before = len(self.requests)
        began_s = self.now
        for k in range(500):
            self.now += 10.0
            self.scaler.answer = 3.0 + 30 * (k % 7 == 0) + k % 3
            self.step(some(self.there, 1e6))
        patience_s = self.bounds.patience_s
        most = 2 * math.log2((self.now - began_s) / (10 * patience_s)) + 5
        assert len(self.requests) - before <= most

    @invariant()
    def says_why(self) -> None:
        if hasattr(self, "elastic") and self.elastic.steps:
            assert self.elastic.steps[-1].reason


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=5, stateful_step_count=30, deadline=None)


def test_rows_that_wait_too_long_need_no_confirmation() -> None:
    elastic = Elastic(Wants(4))
    assert elastic.step(0, 2, some(2, waiting=20_000)).target == 4


def test_more_than_the_most_leave_also_if_they_are_few() -> None:
    elastic = Elastic(Wants(20), bounds=Bounds(most=10, shrink_after_s=30))
    assert [elastic.step(now, 11, some(11)).target for now in (0, 30)] == [None, 10]
    # What was wanted before one look that misses an executor is more than the most by then.
    elastic = Elastic(Wants(20), bounds=Bounds(most=10, shrink_after_s=30))
    elastic.step(0, 10, some(10))
    elastic.bounds = Bounds(most=9, shrink_after_s=30)
    assert elastic.step(30, 10, some(10)).target is None


def test_larger_executors_than_the_least_are_no_reason_for_more() -> None:
    """Of 1, 2 and 3 cores: what is there is enough, and what lacks is counted in the smallest."""
    elastic = Elastic(Wants(6.0))
    assert {elastic.step(now, 3, some(6)).target for now in range(0, 60, 5)} == {None}
    elastic.scaler.answer = 8.0
    assert [elastic.step(now, 3, some(6)).target for now in (60, 65, 70)] == [None, None, 5]


def test_arguments_are_checked() -> None:
    for make in (
        lambda: Bounds(least=3, most=2),
        lambda: Bounds(least=0),
        lambda: Bounds(confirm=0),
        lambda: Bounds(settle_s=math.nan),
        lambda: Bounds(band=1),
        lambda: Elastic(OERA(), tasks=0),
        lambda: Elastic(OERA(), each=0),
        lambda: Elastic(OERA),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.ArgumentError):
            make()


@pytest.mark.parametrize(("name", "seed"), [("oera", 0), ("ds2", 3)])
def test_hours_of_constant_load_with_noise_have_two_changes_at_most(name: str, seed: int) -> None:
    rate = 400.0 + 700 * seed
    start = math.ceil(rate / 500 * (1 + seed / 3))
    _, elastic = day(SCALERS[name](), [(0, rate)], seconds=HOUR_S, start=start, seed=seed)
    assert elastic.requests <= 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "load"),
    [("ds2", "day curve"), ("oera", "steps")],
)
def test_a_load_that_rises_and_falls_has_twenty_changes_at_most(name: str, load: str) -> None:
    seconds = 6 * HOUR_S
    query, elastic = day(SCALERS[name](), LOADS[load](seconds), seconds=seconds, seed=5)
    assert elastic.requests <= 20
    found = measured(query)
    assert found["mean wait, s"] < 7
    assert found["mean cores"] < 8


@pytest.mark.parametrize(("name", "start_s"), [("oera", 60.0), ("ds2", 0.0)])
def test_a_rise_to_four_times_is_followed_within_three_decisions(name: str, start_s: float) -> None:
    curve = [(0, 700.0), (600, 700.0), (600, 2800.0)]
    query, elastic = day(SCALERS[name](), curve, seconds=2400, start=2, start_s=start_s, seed=3)
    assert sum((step.target or 0) > step.there for step in elastic.steps) <= 3
    assert len(query.there()) * 500 > 2800
    late = [one for one in query.batches if one.start > 1800]
    waits = [one.end - query.arrived.second(one.offset + one.rows / 2) for one in late]
    assert max(waits) < 10  # drained, and it stays so


@pytest.mark.long
def test_the_letter_makes_thousands_of_changes_and_loses_rows() -> None:
    query, changes = literal_day(LOADS["constant"](HOUR_S), seconds=HOUR_S)
    assert 24 * changes > 2000
    assert query.lost > 0.05 * query.arrived(query.now)


def test_where_arrival_is_hidden_probing_leads_to_enough_and_back() -> None:
    def run(scaler: Scaler, rates: list[float], there: int) -> list[int]:
        elastic = Elastic(scaler, bounds=Bounds(most=32))
        waits, path = 0.0, []
        for k, rate in enumerate(rates):
            done = min(there * 5000.0, waits + rate * 10)
            waits += rate * 10 - done
            busy = done / (there * 5000.0)
            full = waits > 0 or busy > 0.98  # as a limited source shows it
            load = Load(10, None if full else rate, 500, busy, None if full else waits, there)
            elastic.step(k * 10.0, there, load)
            there = elastic.requested or there
            path.append(there)
        return path

    path = run(DS2(), [700.0] * 20 + [4000.0] * 200 + [700.0] * 200, 2)
    assert path[19] == 2
    assert path[219] >= 9
    assert path[-1] <= 3
    assert sum(a != b for a, b in pairwise(path)) <= 12
