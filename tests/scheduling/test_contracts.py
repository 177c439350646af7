"""What holds for every scaler. That of placement policies is in test_scheduling_policies.py."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import DS2, OERA, Load, Probe, Scaler, Static

SCALERS: list[Scaler] = [
    DS2(),
    DS2(target=0.5, catch_up_s=math.inf),
    OERA(),
    OERA(literal=True, buffer=9),
    Probe(),
    Static(),
    Static(6),
]
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
# What these want does not depend on the load, or on a buffer of a few rows.
WILFUL = [Static(6), OERA(literal=True, buffer=9)]
EVERY = pytest.mark.parametrize("scaler", SCALERS, ids=repr)


@EVERY
def test_a_scaler_is_one_has_a_name_and_can_be_pickled(scaler: Scaler) -> None:
    assert isinstance(scaler, Scaler)
    assert scaler.name
    assert pickle.loads(pickle.dumps(scaler)).name == scaler.name


@EVERY
@settings(max_examples=60, deadline=None)
@given(load=LOADS)
def test_an_answer_is_a_number_of_cores_and_the_same_for_the_same_load(
    scaler: Scaler, load: Load
) -> None:
    one, other = copy.deepcopy(scaler), copy.deepcopy(scaler)
    cores = one.cores(load)
    assert 0 <= cores < math.inf
    assert other.cores(load) == cores


@pytest.mark.parametrize("scaler", [one for one in SCALERS if one not in WILFUL], ids=repr)
def test_a_load_that_the_cores_just_carry_is_left_alone(scaler: Scaler) -> None:
    target = getattr(scaler, "target", 0.7)
    carried = Load(600, 8 * 100 * target, 100, target, 0.0, 8)
    assert copy.deepcopy(scaler).cores(carried) == pytest.approx(8, rel=0.25)
