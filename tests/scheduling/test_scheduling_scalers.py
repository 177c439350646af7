"""Scalers: what holds for every one, and loads whose answers are known.

The contract of placement policies is in test_scheduling_policies.py.
"""

from __future__ import annotations

import copy
import math
import pickle
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.scheduling.scaling_days import Median
from scheduling import DS2, OERA, Load, Probe, Scaler, Static, errors
from scheduling.elastic import no_idle, useful

SCALERS: list[Scaler] = [
    DS2(),
    DS2(target=0.5, catch_up_s=math.inf),
    OERA(),
    OERA(literal=True, buffer=9),
    Probe(),
    Static(),
    Static(6),
    Median(),
]
NAME = attrgetter("name")  # the same in each process of pytest-xdist, as Median's repr is not
RATES = st.floats(0, 1e6)
LOADS = st.builds(
    Load,
    seconds=st.floats(1, 1e4),
    arrival=st.none() | RATES,
    per_core=st.floats(1e-3, 1e5),
    busy=st.floats(0, 1),
    waiting=st.none() | RATES,
    cores=st.integers(1, 200),
    newest=st.none() | RATES,
)


@pytest.mark.parametrize("scaler", SCALERS, ids=NAME)
@settings(max_examples=20, deadline=None)
@given(load=LOADS)
def test_every_scaler_answers_a_finite_number(scaler: Scaler, load: Load) -> None:
    assert isinstance(scaler, Scaler)
    assert scaler.name
    one, other = copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))
    cores = one.cores(load)
    assert 0 <= cores < math.inf
    assert other.cores(load) == cores


# Each by itself


def load(arrival: float | None, cores: int, waiting: float | None = 0.0, **more: Any) -> Load:
    """A window of 600 s, of cores that do 100 rows a second each."""
    known = {"seconds": 600, "per_core": 100, "busy": 0.7}
    return Load(arrival=arrival, waiting=waiting, cores=cores, **{**known, **more})


def test_a_load_refuses_what_is_no_measurement() -> None:
    given: dict[str, Any] = dict.fromkeys(("seconds", "per_core", "cores", "busy"), 1)
    hidden: dict[str, Any] = {"arrival": 1, "waiting": 1}
    for name in given:
        for value in (None, "7", True, math.nan, math.inf, -1):
            with pytest.raises(errors.ArgumentError, match=name):
                Load(**{**given, **hidden, name: value})
        assert Load(**{**given, **hidden, name: np.float64(1)}) == Load(**given, **hidden)


def test_arguments_out_of_range_are_refused() -> None:
    for make in (
        lambda: OERA(alpha=0.5),
        lambda: OERA(literal=True),
        lambda: OERA(downtime_s=60),
        lambda: OERA(rho=0),
        lambda: DS2(target=0),
        lambda: DS2(band=-1),
        lambda: DS2(catch_up_s=math.nan),
        lambda: Probe(growth=1),
        lambda: Probe(low=0.8),
        lambda: Static(0),
        lambda: Median(windows=0),
    ):
        with pytest.raises(errors.ArgumentError):
            make()
    assert DS2(catch_up_s=math.inf).cores(load(150, 2, 1e9)) == 2


def test_the_letter_is_algorithm_1() -> None:
    # Eq. 1: R(1) = (310 - 300) x 600 / 10,000 = 0.6, inside the thresholds; R(2) = 1.2.
    oera = OERA(literal=True, buffer=10_000)
    assert oera.cores(load(310, 3)) == 3
    # Eq. 2 with R(1), not R(2): (310 x 600 + 10,000 x (0.6 - 0.7)) / 60,000.
    assert oera.cores(load(310, 3)) == pytest.approx(185_000 / 60_000)
    # What overflowed is lost: R(2) = 1.
    assert oera.cores(load(300, 3)) == pytest.approx(183_000 / 60_000)
    assert OERA(literal=True, buffer=10_000).cores(load(0, 3)) == 1
    assert OERA(buffer=100, per_thread=True).size(load(0, 3)) == 300


def test_the_letter_shrinks_below_what_comes_in() -> None:
    # 301 a second need four cores; a buffer that may fill up lets three do, for a while.
    assert OERA(literal=True, buffer=10_000).cores(load(301, 4)) < 3
    assert OERA().cores(load(301, 4)) == 4


@given(st.floats(1, 5000), st.integers(1, 60), st.floats(0, 1e5))
def test_oera_mended_never_goes_below_the_need(rate: float, cores: int, waiting: float) -> None:
    found = OERA().cores(load(rate, cores, waiting))
    assert found == cores or found >= rate / 100 / 0.75 - 1e-9
    after = max(1, math.ceil(OERA().cores(load(rate, cores)) - 1e-9))
    # Without a backlog what it leads to has the same answer: it rests.
    assert max(1, math.ceil(OERA().cores(load(rate, after)) - 1e-9)) == after


@given(st.floats(1, 5000), st.integers(1, 60))
def test_ds2_needs_one_step(rate: float, cores: int) -> None:
    after = max(1, math.ceil(DS2().cores(load(rate, cores)) - 1e-9))
    assert rate / 100 <= 0.84 * after + 1e-9
    if after > 3:  # below, the next whole number may be outside of the band
        assert math.ceil(DS2().cores(load(rate, after)) - 1e-9) == after


def test_ds2_catches_up_with_the_backlog() -> None:
    # 2 s of arrival wait always; the others are done in 60 s.
    assert DS2().cores(load(300, 4, 600 + 6000)) == pytest.approx(400 / 70)
    assert DS2().cores(load(300, 4, None)) == DS2().cores(load(300, 4, 0)) == pytest.approx(4)


def test_growth_is_seen_in_the_newest_rate_and_a_fall_in_the_smoothed_one() -> None:
    for scaler in (OERA(), DS2()):
        assert scaler.cores(load(200, 4, newest=1600)) > 20
        assert scaler.cores(load(280, 4, newest=10)) == scaler.cores(load(280, 4))
    assert DS2().cores(load(200, 4, newest=300)) == pytest.approx(2 / 0.7)


@given(st.integers(1, 40), st.integers(1, 8), st.floats(0.1, 60))
def test_useful_numbers_are_the_least_that_help(tasks: int, each: int, cores: float) -> None:
    def turns(count: int) -> int:
        return -(-tasks // (count * each))

    count = useful(cores, tasks, each)
    assert tasks / turns(count) >= min(cores, tasks) - 1e-6 or turns(count) == 1
    if count > 1:
        assert tasks / turns(count - 1) < cores
        assert turns(count - 1) > turns(count)  # one less would take longer
    for more in range(1, 2 * tasks):
        assert turns(no_idle(more, tasks, each)) == max(1, turns(more))
        assert no_idle(more, tasks, each) <= more
