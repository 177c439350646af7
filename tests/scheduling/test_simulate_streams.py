"""Streams and keys: how much comes in, and which task gets how much of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.errors import ArgumentError
from scheduling.simulate.skew import key_shares, zipf
from scheduling.simulate.streams import Bursts, Steps, constant


@given(st.integers(1, 2000), st.floats(0, 3))
def test_the_shares_of_keys_sum_to_one_and_fall_with_the_rank(keys: int, exponent: float) -> None:
    shares = zipf(keys, exponent)
    assert shares.sum() == pytest.approx(1)
    assert (np.diff(shares) <= 0).all()


@given(st.integers(1, 40), st.integers(1, 3000), st.floats(0, 2), st.integers(0, 99))
def test_tasks_get_all_of_the_records_and_the_same_again_for_a_seed(
    tasks: int, keys: int, exponent: float, seed: int
) -> None:
    shares = key_shares(tasks, keys=keys, exponent=exponent, seed=seed)
    assert shares.shape == (tasks,)
    assert shares.sum() == pytest.approx(1)
    again = key_shares(tasks, keys=keys, exponent=exponent, seed=seed)
    assert np.array_equal(shares, again)


def test_skewed_keys_load_tasks_more_unevenly_than_uniform_ones() -> None:
    uniform, skewed = (
        key_shares(8, keys=10_000, exponent=exponent, seed=1) for exponent in (0.0, 1.1)
    )
    assert uniform.max() == pytest.approx(1 / 8)
    assert skewed.max() > 1.5 / 8


def test_a_share_is_read_only_because_it_is_remembered() -> None:
    with pytest.raises(ValueError, match="read-only"):
        key_shares(2, keys=10, exponent=1.0)[0] = 1.0


@pytest.mark.parametrize(("keys", "exponent"), [(0, 1.0), (3, -1.0), (3, float("nan"))])
def test_keys_that_make_no_sense_are_refused(keys: int, exponent: float) -> None:
    with pytest.raises(ArgumentError, match=r"give (1|0 \(uniform\)) or more"):
        zipf(keys, exponent)


def test_bursts_come_again_and_again_and_not_at_the_start() -> None:
    rate = Bursts(10.0, factor=5, every_s=100, lasts_s=20)
    assert [rate(at) for at in (0, 19, 99, 100, 119, 120, 210, 230)] == [
        *(10, 10, 10, 50, 50, 10, 50, 10)
    ]
    with pytest.raises(ArgumentError, match="a burst is longer than 0 s"):
        Bursts(10.0, factor=5, every_s=10, lasts_s=10)


def test_a_trace_is_constant_within_a_window_and_nothing_outside() -> None:
    rate = Steps([1.0, 2.0], window_s=10)
    assert [rate(at) for at in (-1, 0, 9.99, 10, 19.99, 20)] == [0, 1, 1, 2, 2, 0]
    assert constant(7.0)(1e9) == 7.0
