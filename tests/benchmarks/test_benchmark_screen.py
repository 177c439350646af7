"""What the command line prints, and ratios of rounds."""

from __future__ import annotations

import pytest

from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.screen import duration, lines_of, printed, verdict
from benchmarks.harness.turns import over, paired


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (125, "2 min 5 s")]
)
def test_durations_are_told_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_figures_stand_below_each_other_with_what_they_are_to_be() -> None:
    lines = printed(
        [
            Figure("a long name / b", 1.5, 1.0, spread=(1.4, 1.6)),
            Figure("a / c", 2.5, 2.0, at_most=True),
            Figure("a / d", 3.0, simulated=True),
            Figure("e", 90.0, 100.0, at_most=True, unit="ms"),
        ]
    ).splitlines()
    assert lines == [
        "figure                 is     to be",
        "a long name / b       1.5 >=      1   (1.4 to 1.6)",
        "a / c                 2.5 <=      2   MISSED",
        "a / d                   3             simulated",
        "e                      90 <=    100 ms",
    ]


def test_tables_have_numbers_to_the_right() -> None:
    table = Table("Ways", ("way", "ms", "rows"), (("ours", 1.23456, 7), ("theirs", None, 12_345)))
    assert lines_of(table) == [
        "Ways",
        "  way        ms    rows",
        "  ours    1.235       7",
        "  theirs      -  12,345",
    ]


def test_a_verdict_tells_what_is_missed_or_why_it_failed() -> None:
    good, bad, free = (Figure("a", 2.0, 1.0), Figure("b", 0.5, 1.0), Figure("c", 1.0))

    def of(*figures: Figure, error: str | None = None) -> str:
        return verdict({"error": error, "figures": [figure.to_json() for figure in figures]})

    assert of(good) == "1 figure, all reached"
    assert of(good, bad, free) == "3 figures, 1 MISSED"
    assert of(free) == "1 figure, none to reach"
    assert of(error="Traceback\nValueError: no\n") == "FAILED: ValueError: no"


def test_ratios_are_taken_round_by_round() -> None:
    assert paired("a / b", [2.0, 6.0, 4.0], [1.0, 2.0, 4.0], 1.5) == Figure(
        "a / b", 2.0, 1.5, spread=(1.0, 3.0)
    )
    assert paired("a / b", [2.0], [1.0], None).spread is None
    # A rival that takes long runs less often: of the medians, and the rounds that both have.
    assert over("b / a", [8.0, 9.0], [1.0, 3.0, 2.0], 1.0) == Figure(
        "b / a", 4.25, 1.0, spread=(3.0, 8.0)
    )
