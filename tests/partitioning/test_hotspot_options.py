"""Options are checked when they are made."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bsjoin.errors import ArgumentError
from bsjoin.partitioning import Hash, HotSpot


@pytest.mark.parametrize("bad", [0, -1, 10_001, 2.0, "8", True, None])
def test_a_number_of_partitions_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="partitions="):
        Hash(bad)
    if bad is not None:
        with pytest.raises(ArgumentError, match="partitions="):
            HotSpot(partitions=bad)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("threshold", [0, -0.1, math.nan, math.inf, "0.1", None, True]),
        ("sample", [0, 99, 1_000_001, 1000.0, None, True]),
        ("smoothing", [-0.1, 1, 1.5, math.nan, None, False]),
        ("min_cycles", [0, -1, 1.5, None]),
        ("seed", [-1, 0.5, None]),
        ("split_hot_keys", [1, 0, "yes"]),
        ("rule", ["Algorithm 2", None, 2]),
    ],
)
def test_a_value_out_of_its_range_is_refused_and_named(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ArgumentError) as caught:
            HotSpot(**{name: value})
        assert f"{name}={value!r}" in str(caught.value)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    HotSpot(partitions=1, sample=100, smoothing=0, min_cycles=1, threshold=5)
    HotSpot(partitions=10_000, sample=1_000_000, smoothing=0.99)
    assert Hash(1).partitions == 1


def test_algorithm_2_splits_no_key() -> None:
    assert not HotSpot(rule="algorithm_2").splits
    assert not HotSpot(split_hot_keys=False).splits
    with pytest.raises(ArgumentError, match="split_hot_keys=True: Algorithm 2"):
        HotSpot(rule="algorithm_2", split_hot_keys=True)
