"""The kernels: all give the right answers, are timed, and stand beside a plain way."""

from __future__ import annotations

import pytest

from benchmarks.kernels.hot_functions import measured, outcome

SMALL = ("--rows=2000", "--probes=1000", "--benchmark-max-time=0", "--benchmark-min-rounds=3")


def test_all_kernels_are_checked_and_timed_beside_their_references() -> None:
    found = measured(SMALL)
    names = {(one["group"], one["name"]) for one in found}
    assert {group for group, _ in names} == {"cache", "hotspot", "index", "planner"}
    assert len(names) == len(found) > 40
    for one in found:
        assert one["unit"] in ("key", "row", "probe", "task")
        assert one["reference"] is None or (one["group"], one["reference"]) in names
        assert one["rounds"] >= 3
        assert 0 < one["min"] <= one["q1"] <= one["median"] <= one["q3"] <= one["max"]
    compared = sum(one["reference"] is not None for one in found)
    assert len(outcome(found).figures) == compared > 30


def test_a_kernel_that_fails_fails_the_benchmark() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)pytest ended with 4:.*invalid int value"):
        measured(["--rows=many"])
