"""What the command line prints, alternation, and ratios of rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.outcome import Figure
from benchmarks.harness.text import (
    figure_lines,
    number,
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
