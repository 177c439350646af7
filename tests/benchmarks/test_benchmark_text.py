"""What the command line prints, alternation, and ratios of rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.baseline import compare
from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record
from benchmarks.harness.text import (
    bound,
    duration,
    figure_lines,
    number,
    overview,
    table_lines,
    verdict,
)
from benchmarks.harness.timing import alternate, ratio


def test_figures_are_aligned_with_bounds_spreads_and_misses() -> None:
    figures = [
        Figure("a long name / b", 1.5, 1.0, spread=(1.4, 1.6)),
        Figure("a / c", 2.5, 2.0, at_most=True),
        Figure("a / d", 3.0, simulated=True),
        Figure("e", 90.0, 100.0, at_most=True, unit="ms"),
    ]
    assert figure_lines(figures) == [
        "  figure           value  bound",
        "  a long name / b  1.50   ≥ 1    (1.40 to 1.60)",
        "  a / c            2.50   ≤ 2    MISSED",
        "  a / d            3.00          simulated",
        "  e                90.0   ≤ 100  ms",
    ]


def test_tables_have_numbers_to_the_right() -> None:
    table = Table("Ways", ("way", "ms", "rows"), (("ours", 1.23456, 7), ("theirs", None, 12_345)))
    assert table_lines(table) == [
        "Ways",
        "  way       ms    rows",
        "  ours    1.23       7",
        "  theirs     -  12,345",
    ]


def test_a_verdict_tells_what_is_missed_or_why_it_failed() -> None:
    good, bad, free = (Figure("a", 2.0, 1.0), Figure("b", 0.5, 1.0), Figure("c", 1.0))

    def of(*figures: Figure, error: str | None = None) -> str:
        return verdict(Record("a", "b", "c", "", True, 1, None, 1.0, error, list(figures)))

    assert of(good) == "1 figure, all reached"
    assert of(good, bad, free) == "3 figures, 1 MISSED"
    assert of(free) == "1 figure, no bounds"
    assert of(error="Traceback\nValueError: no\n") == "FAILED: ValueError: no"


def test_ratios_are_of_medians_or_of_rounds() -> None:
    assert ratio("a / b", [2.0, 6.0, 4.0], [1.0, 2.0, 4.0], 1.5, by_round=True) == Figure(
        "a / b", 2.0, 1.5, spread=(1.0, 3.0)
    )
    assert ratio("a / b", [2.0], [1.0]).spread is None
    # A slow alternative runs less often: only the rounds that both have count.
    assert ratio("b / a", [8.0, 9.0], [1.0, 3.0, 2.0], 1.0) == Figure(
        "b / a", 4.25, 1.0, spread=(3.0, 8.0)
    )


def test_alternatives_run_in_each_round_slow_ones_twice() -> None:
    calls: list[str] = []

    def way(name: str, seconds: float) -> Callable[[], float]:
        return lambda: calls.append(name) or seconds  # type: ignore[func-returns-value]

    ways = {"slow": way("slow", 9.0), "fast": way("fast", 1.0)}
    found = alternate(ways, 3, warm=["slow"], slow_s=3.0)
    assert found == {"slow": [9.0, 9.0], "fast": [1.0, 1.0, 1.0]}
    assert calls == ["fast", "slow", "fast", "slow", "fast", "fast"]


any_float = st.floats() | st.sampled_from([1e-9, 9.96, 0.9999, 59.6, 3599.7, 1e15, -0.0])


@given(value=any_float | st.integers(), apart_from=any_float | st.none())
def test_a_number_of_any_size_is_short_right_and_apart(
    value: float, apart_from: float | None
) -> None:
    text = number(value, apart_from)
    if isinstance(value, float) and not math.isfinite(value):
        assert text == {math.inf: "∞", -math.inf: "-∞"}.get(value, "-")
        return
    read = Decimal(text.replace(",", ""))  # rounded up, it may be beyond the floats
    if isinstance(value, int) and abs(value) < 10**15:
        assert read == value
        return
    if value != apart_from and isinstance(value, float):
        assert float(read) != apart_from
    assert abs(read - Decimal(value)) <= Decimal("0.05") * abs(Decimal(value))
    assert len(number(value)) <= 20


@given(value=any_float | st.integers(-(10**18), 10**18), at_most=st.booleans())
def test_a_bound_has_all_its_digits(value: float, at_most: bool) -> None:
    sign, text = bound(Figure("a", 1.0, value, at_most)).split(" ")
    assert sign == ("≤" if at_most else "≥")
    if math.isfinite(value):
        assert float(text.replace(",", "")) == float(value)
        assert len(text) <= 25
    assert bound(Figure("a", 1.0)) == ""


UNITS = {"h": 3600, "min": 60, "s": 1}


@given(seconds=any_float | st.floats(-1e6, 1e6))
def test_a_duration_of_any_length_has_its_units(seconds: float) -> None:
    text = duration(seconds)
    if not math.isfinite(seconds):
        assert text == number(seconds)
        return
    words = text.replace(",", "").removeprefix("-").split(" ")
    read = sum(Decimal(n) * UNITS[u] for n, u in zip(words[::2], words[1::2], strict=True))
    exact = abs(Decimal(seconds))
    assert abs(read - exact) <= max(Decimal("0.051") * exact, Decimal("0.0501"))
    assert text.startswith("-") == (round(seconds, 1) < 0)
    assert len(text) <= 40
    small = [float(n) for n, u in zip(words[::2], words[1::2], strict=True) if u != "h"]
    assert all(n < 60 for n in small)


anything = st.none() | st.booleans() | st.text() | any_float | st.integers()


@given(
    values=st.lists(any_float, min_size=1, max_size=3),
    limit=any_float | st.none(),
    cells=st.lists(anything | st.decimals() | st.dates(), max_size=4),
    error=st.none() | st.sampled_from(["", "\n", "a\nb"]),
)
def test_what_was_measured_can_always_be_shown(
    values: list[float], limit: float | None, cells: list[Any], error: str | None
) -> None:
    figures = [ratio("a / b", values, values[::-1], limit, at_most=True, unit="ms")]
    record = Record("a", "b", "c", "", True, 1, None, 1.0, error, figures)
    assert verdict(record) in overview([record])
    assert all(isinstance(figure.margin, float) for figure in figures)
    lines = table_lines(Table("t", ("x",), tuple((one,) for one in cells)))
    assert len(lines) == 2 + len(cells)
    assert compare([record], [record]).lines()
