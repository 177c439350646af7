"""The kernels: all give the right answers, are timed, and stand beside a plain way."""

from __future__ import annotations

import json
from typing import Any

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


def kernel(name: str, least: float, reference: str | None = None) -> dict[str, Any]:
    times = {"min": least, "q1": 2 * least, "median": 3 * least, "q3": 5 * least, "max": 9 * least}
    return {
        "group": "index",
        "name": name,
        "unit": "key",
        "reference": reference,
        "rounds": 7,
    } | times


def test_a_kernel_is_held_against_its_reference_key_by_key() -> None:
    found = outcome(
        [kernel("np searchsorted", 2_000.0), kernel("as of, nearest", 500.0, "np searchsorted")]
    )
    (figure,) = found.figures
    assert figure.name == "index: as of, nearest / np searchsorted"
    assert figure.value == pytest.approx(0.25)
    assert figure.spread == pytest.approx((0.05, 1.25))
    assert figure.at_most
    assert figure.reached
    rows = {row[1]: row for row in found.tables[0].rows}
    assert rows["np searchsorted"][3:7] == (2_000, 4_000, 6_000, 10_000)
    assert rows["np searchsorted"][-1] is None
    json.dumps(found.measured)


def test_a_kernel_whose_reference_was_not_run_has_no_ratio() -> None:
    found = outcome([kernel("band", 1_000.0, "np searchsorted")])
    assert found.figures == []
    assert len(found.tables[0].rows) == 1
