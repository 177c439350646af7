"""What the command line prints, alternation, and ratios of rounds."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record
from benchmarks.harness.text import figure_lines, table_lines, verdict
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
