"""Which ratios count as worse than those of a baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.baseline import NOISE, Comparison, compare
from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record

RECORD = Record(
    "one", "engine", "A title", "", True, 1, "c", 1.0,
    machine={"cores": 2}, versions={"pyspark": "4.3.0"},
)  # fmt: skip


def record(name: str, *figures: Figure, **changes: Any) -> Record:
    return replace(RECORD, name=name, figures=list(figures), **changes)


def held(old: Figure, new: Figure) -> Comparison:
    return compare([record("one", old)], [record("one", new)])


def figure(value: float, at_most: bool = False, **more: Any) -> Figure:
    return Figure("a / b", value, None, at_most, **more)


def counts(found: Comparison) -> tuple[int, int, int]:
    return len(found.worse), len(found.better), found.same


WORSE, BETTER, ALIKE = (1, 0, 0), (0, 1, 0), (0, 0, 1)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Without a spread: 15 % to either side of each.
        (figure(1.0), figure(0.8), ALIKE),
        (figure(1.0), figure(0.7), WORSE),
        (figure(1.0), figure(1.4), BETTER),
        (figure(1.0, True), figure(1.4, True), WORSE),
        (figure(1.0, True), figure(0.7, True), BETTER),
        # With spreads: they must not touch.
        (figure(1.0, spread=(0.9, 1.1)), figure(0.8, spread=(0.7, 0.9)), ALIKE),
        (figure(1.0, spread=(0.9, 1.1)), figure(0.8, spread=(0.7, 0.89)), WORSE),
        (figure(1.0, spread=(0.9, 1.1)), figure(0.6), WORSE),
        # Few rounds are alike by chance: 5 % is never worse.
        (figure(1.0, spread=(1.0, 1.0)), figure(0.96, spread=(0.96, 0.96)), ALIKE),
        (figure(1.0, spread=(1.0, 1.0)), figure(0.94, spread=(0.94, 0.94)), WORSE),
        # A variance of nothing.
        (figure(0.0, True), figure(0.0, True), ALIKE),
        (figure(0.0, True), figure(0.1, True), WORSE),
        # The median of all may lie outside of the rounds' ratios.
        (figure(1.0, spread=(1.1, 1.2)), figure(0.9, spread=(0.8, 1.0)), ALIKE),
    ],
)
def test_a_figure_is_worse_beyond_the_spread_of_both(
    old: Figure, new: Figure, expected: tuple[int, int, int]
) -> None:
    assert counts(held(old, new)) == expected


values = st.floats(0.01, 100)
spreads = st.none() | st.tuples(values, values).map(lambda pair: (min(pair), max(pair)))


@given(values, spreads, values, spreads, st.booleans())
def test_more_of_the_same_noise_never_makes_it_worse(
    old: float,
    old_spread: tuple[float, float] | None,
    new: float,
    new_spread: tuple[float, float] | None,
    at_most: bool,
) -> None:
    before, after = figure(old, at_most, spread=old_spread), figure(new, at_most, spread=new_spread)
    found = held(before, after)
    assert sum(counts(found)) == 1
    assert counts(held(before, before)) == ALIKE
    if found.worse:
        assert new > old if at_most else new < old
        assert abs(new - old) > NOISE * old
    if found.better:
        assert new < old if at_most else new > old
    wide = figure(old, at_most, spread=(0.0, 1_000.0))
    assert counts(held(wide, after)) == ALIKE


def test_what_is_missing_on_one_side_is_told_and_no_error() -> None:
    old = [record("gone", figure(1.0)), record("one", figure(1.0), Figure("old / b", 1.0))]
    new = [record("one", figure(1.0), Figure("new / b", 1.0)), record("fresh", figure(1.0))]
    found = compare(old, new)
    assert counts(found) == ALIKE
    assert found.notes == [
        "gone: only the baseline has it",
        "one: old / b: only the baseline has this figure",
        "one: new / b: the baseline does not have this figure",
        "fresh: the baseline does not have it",
    ]


def test_one_that_fails_now_got_worse() -> None:
    failed = record("one", error="Traceback\nAssertionError: answers differ\n")
    assert compare([record("one", figure(1.0))], [failed]).worse == [
        "one: it fails now (AssertionError: answers differ)"
    ]
    found = compare([failed], [record("one", figure(1.0))])
    assert not found.worse
    assert found.notes == ["one: it failed in the baseline, nothing to compare with"]
