"""The kernels: all give the right answers, are timed, and stand beside a plain way."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from benchmarks.kernels.hot_functions import outcome
from benchmarks.kernels.timing import KERNELS, Sizes, timed

SMALL = Sizes(rows=2_000, probes=1_000, rounds=3, seconds=0.0)


@pytest.mark.parametrize("key", sorted(KERNELS), ids=": ".join)
def test_a_kernel_is_checked_and_timed_beside_its_reference(key: tuple[str, str]) -> None:
    prepare, unit, over = KERNELS[key]
    assert over is None or (key[0], over) in KERNELS
    assert unit in ("key", "row", "probe", "task")
    found = timed(prepare(SMALL), SMALL)
    assert found["rounds"] == 3
    assert 0 < found["min"] <= found["q1"] <= found["median"] <= found["q3"] <= found["max"]


def test_a_kernel_that_changes_its_arguments_gets_fresh_ones_each_round() -> None:
    numbers, got = count(), list[int]()
    timed((got.append, 10, lambda: (next(numbers),)), SMALL)
    assert got == [0, 1, 2, 3, 4]  # two of them warm up


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
