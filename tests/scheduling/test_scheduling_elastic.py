"""Static, median, OERA and DS2 on windows whose answers are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import (
    DS2,
    OERA,
    LiteralOERA,
    Median,
    Resources,
    Scaler,
    Static,
    Task,
    Window,
    Worker,
    errors,
)
from scheduling.elastic.oera import needed
from scheduling.elastic.sizing import workers_needed


def window(rate: float, parallelism: int, buffered: float = 0.0, **more: float) -> Window:
    """A window of 600 s whose instances do 100 tuples a second each."""
    return Window(600, rate * 600, 0, 0.01, parallelism, buffered, **more)


@pytest.mark.parametrize(
    "scaler", [Static(), Median(), OERA(), LiteralOERA(), DS2()], ids=lambda one: one.name
)
def test_every_scaler_is_one_and_answers_one_or_more(scaler: Scaler) -> None:
    assert isinstance(scaler, Scaler)
    for rate in (0, 50, 1e6):
        assert scaler.parallelism("op", window(rate, 3)) >= 1


def test_static_keeps_what_there_is_or_was_given() -> None:
    assert Static().parallelism("op", window(1e6, 3)) == 3
    assert Static({"op": 7}).parallelism("op", window(0, 3)) == 7
    with pytest.raises(errors.ArgumentError, match="instances=0 of 'op'"):
        Static({"op": 0})


def test_the_occupancy_of_the_buffer_is_equation_1() -> None:
    oera = OERA(buffer=10_000)
    # 310 a second come in, 300 go out: 6,000 more than the 1,000 there were.
    assert oera.occupancy(window(310, 3, 1000)) == pytest.approx(0.7)
    assert oera.occupancy(window(0, 3, 1000)) == 0
    assert oera.occupancy(window(400, 3)) == 1
    per_thread = OERA(buffer=10_000, per_thread=True)
    assert per_thread.occupancy(window(310, 3, 1000)) == pytest.approx(7 / 30)


def test_the_size_is_equation_2_rounded_up() -> None:
    # R(n) = 0.9; 9,000 wait, 7,000 may be left: 310 x 600 + 2,000 tuples in 600 s.
    oera = OERA(buffer=10_000)
    assert needed(oera, window(310, 3, 3000)) == math.ceil(188_000 / 60_000)
    # Literally with R(n - 1), which is 0.85.
    literal = LiteralOERA(buffer=10_000).parallelism("op", window(310, 3, 8500))
    assert literal == math.ceil((186_000 + 8500 - 7000) / 60_000)
    assert LiteralOERA(buffer=10_000).parallelism("op", window(0, 3)) == 1


def test_between_the_thresholds_nothing_changes() -> None:
    oera = OERA(buffer=10_000)
    for buffered in (2000, 5000, 8000):
        assert oera.parallelism("op", window(300, 3, buffered)) == 3


def test_the_letter_shrinks_below_what_comes_in() -> None:
    # 301 a second need four instances; a buffer that may fill up lets three do, for a while.
    empty = window(301, 4)
    assert LiteralOERA(buffer=10_000).parallelism("op", empty) == 3
    assert OERA(buffer=10_000).parallelism("op", empty) == 4


def run(
    oera: OERA, rates: list[float], parallelism: int, scaler: Scaler | None = None
) -> tuple[int, float]:
    """How often it changed over windows of these rates, and the share that was left at the end.

    A change of the last window has not shown yet: its share is the predicted one.
    """
    changes, buffered, left_share = 0, 0.0, 0.0
    for rate in rates:
        size = oera.capacity(parallelism)
        left = rate * 600 + buffered - parallelism * 60_000
        now = window(rate, parallelism, buffered, lost=max(0.0, left - size))
        wanted = (scaler or oera).parallelism("op", now)
        buffered = min(max(left, 0.0), size)
        left_share = oera.predicted(now, wanted) if wanted != parallelism else buffered / size
        changes += wanted != parallelism
        parallelism = wanted
        buffered = min(buffered, oera.capacity(parallelism))
    return changes, left_share


@settings(deadline=None)
@given(
    st.floats(0, 5000),
    st.integers(1, 40),
    st.floats(10, 1e7),
    st.booleans(),
    st.sampled_from([0.0, 120.0]),
)
def test_constant_input_leads_to_one_change_at_most(
    rate: float, parallelism: int, buffer: float, per_thread: bool, downtime_s: float
) -> None:
    oera = OERA(buffer=buffer, per_thread=per_thread, downtime_s=downtime_s)
    changes, left = run(oera, [rate] * 12, parallelism)
    assert changes <= 1
    assert left <= 0.8 + 1e-9


def test_the_letter_never_rests_on_constant_input() -> None:
    changes, _ = run(OERA(buffer=10_000), [310.0] * 24, 4, LiteralOERA(buffer=10_000))
    assert changes > 3


@settings(deadline=None)
@given(
    st.floats(0, 5000),
    st.integers(1, 40),
    st.floats(0, 1),
    st.floats(10, 1e7),
    st.booleans(),
    st.sampled_from([0.0, 120.0]),
)
def test_after_a_resize_the_next_window_leaves_no_more_than_upsilon(
    rate: float,
    parallelism: int,
    taken: float,
    buffer: float,
    per_thread: bool,
    downtime_s: float,
) -> None:
    oera = OERA(buffer=buffer, per_thread=per_thread, downtime_s=downtime_s)
    now = window(rate, parallelism, taken * oera.capacity(parallelism))
    wanted = oera.parallelism("op", now)
    if wanted != parallelism:
        assert oera.predicted(now, wanted) <= 0.7 + 1e-6


def test_a_change_is_followed_by_a_cooldown_unless_tuples_are_lost() -> None:
    oera = OERA(buffer=100_000, cooldown=2)
    assert oera.parallelism("op", window(450, 3)) > 3
    # R = 0.9, below 1: it waits for two windows.
    busy = window(550, 5, 60_000)
    assert oera.parallelism("op", busy) == 5
    assert oera.parallelism("op", busy) == 5
    assert oera.parallelism("op", busy) > 5
    assert oera.parallelism("op", window(900, 5, 0, lost=1)) > 5


def test_a_fall_of_the_input_is_followed() -> None:
    oera = OERA(buffer=10_000)
    assert oera.parallelism("op", window(900, 3)) == 9 + 1
    assert oera.parallelism("op", window(300, 10)) == 10  # cooldown
    assert oera.parallelism("op", window(300, 10)) == 3
    assert oera.parallelism("other", window(900, 3)) == 10


def test_the_median_holds_for_ten_windows() -> None:
    median = Median(OERA(buffer=10_000))
    rates = [100, 200, 900, 900, 900, 500, 600, 700, 800, 400]
    for rate in rates[:-1]:
        assert median.parallelism("op", window(rate, 4)) == 4
    needs = sorted(needed(OERA(buffer=10_000), window(rate, 4)) for rate in rates)
    assert median.parallelism("op", window(rates[-1], 4)) == round((needs[4] + needs[5]) / 2)
    assert median.parallelism("op", window(100, 6)) == 6


def test_ds2_takes_one_step_from_the_true_rates() -> None:
    # 400 of 600 s at work for 50,000 tuples: 125 a second; 1,000 a second come in.
    busy = Window(600, 600_000, 50_000, 0.01, 2, busy_s=400)
    assert DS2(target=1.0).parallelism("op", busy) == 8
    assert DS2(target=0.8).parallelism("op", busy) == 10
    after = Window(600, 600_000, 600_000, 0.01, 10, busy_s=4800)
    assert DS2(target=0.8).parallelism("op", after) == 10
    # Nothing was processed: the latency stands in.
    assert DS2(target=1.0).parallelism("op", window(250, 1)) == 3


def test_ds2_rests_within_its_band_and_may_catch_up() -> None:
    assert DS2(target=0.8, band=0.2).parallelism("op", window(340, 4)) == 4
    assert DS2(target=0.8, band=0.0).parallelism("op", window(340, 4)) == 5
    waiting = window(340, 4, 60_000)
    assert DS2(target=0.8, catch_up_s=600).parallelism("op", waiting) == 6


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: OERA(alpha=0.5), "upsilon=0.7, alpha=0.5"),
        (lambda: OERA(buffer=0), "buffer=0"),
        (lambda: OERA(cooldown=-1), "cooldown=-1"),
        (lambda: Median(windows=0), "windows=0"),
        (lambda: DS2(target=0), "target=0"),
        (lambda: DS2(band=-1), "band=-1"),
        (lambda: DS2(catch_up_s=0), "catch_up_s=0"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(wrong: object, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        wrong()  # type: ignore[operator]


def test_ds2_adds_capacity_to_catch_up_by_default() -> None:
    done = Window(60, 6000, 6000, 0.01, 2, busy_s=60)
    behind = Window(60, 6000, 6000, 0.01, 2, busy_s=60, buffered=360_000)
    assert DS2().parallelism("op", done) == 2
    assert DS2().parallelism("op", behind) == 4  # 100 a second, and 200 to catch up in 30 minutes


def test_all_workers_that_are_needed_are_known_at_once() -> None:
    worker = Worker("w", Resources(4, 8192), 8)
    heavy = [Task(f"t{i}", "t", i, Resources(1.0, 100)) for i in range(10)]
    assert workers_needed(heavy, worker) == 4  # three of 1 core below 80 % of four
    assert workers_needed([], worker) == 0
    assert workers_needed([Task("t", "t", 0, Resources(0, 0))], worker) == 1
    large = [Task(f"t{i}", "t", i, Resources(0.1, 4000)) for i in range(5)]
    assert workers_needed(large, worker) == 5
    assert workers_needed(heavy, worker, most=2) == 2
