"""What the long runs are made of, and short ones: ``tests.chaos`` and ``tests.endurance``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.schedule import FAULTS, schedule
from tests.chaos.verify import wrong_files, wrong_rows
from tests.endurance import LIMITS, Endurance, Series

STREAM = [(0, 1, 0), (1, 2, 0), (2, 9, 1)]
COPIES = {1: 1, 2: 2}
FILES = [(0, 1, 0, 3, 0), (1, 2, 0, 3, 0), (1, 2, 0, 3, 1), (2, 9, 1, None, None)]
ROWS = [(0, 1, 0, "one"), (1, 2, 0, None), (2, 9, 1, "nine")]
NAMES = {1: "one", 9: "nine"}


def test_a_seed_draws_one_schedule_of_all_faults() -> None:
    events = schedule(5, 3600)
    assert events == schedule(5, 3600) != schedule(6, 3600)
    assert {event.what for event in events} == set(FAULTS)
    assert [e.at_s for e in events] == sorted(e.at_s for e in events)
    assert events[-1].at_s < 3240


def test_a_wrong_row_of_a_sink_is_told() -> None:
    assert wrong_rows(STREAM, ROWS, NAMES) == wrong_files(STREAM, FILES, COPIES, {1, 3}) == []
    for rows, told in (
        (ROWS[1:], "1 rows lost"),
        ([*ROWS, ROWS[0]], "1 rows doubled"),
        ([(0, 1, 0, "two"), *ROWS[1:]], "1 rows lost"),
    ):
        assert wrong_rows(STREAM, rows, NAMES)[0].startswith(told)
    for files, versions, told in (
        (FILES[:-1], {3}, "1 rows lost"),
        ([*FILES, FILES[1]], {3}, "1 rows doubled"),
        (FILES, {1, 2}, "micro-batch 0 has rows of the versions [3]"),
        ([(0, 1, 0, 2, 0), *FILES[1:]], {2, 3}, "micro-batch 0 has rows of the versions [2, 3]"),
        ([(0, 1, 0, None, 0), *FILES[1:]], {3}, "key 1 has the version None"),
    ):
        assert wrong_files(STREAM, files, COPIES, versions)[0].startswith(told)
    back = wrong_files([(0, 1, 0), (1, 1, 1)], [(0, 1, 0, 2, 0), (1, 1, 1, 1, 0)], {1: 1}, {1, 2})
    assert back == ["micro-batch 1 goes back from version 2 to 1"]


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_counts_stay_flat_over_micro_batches_refreshes_and_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of memory a short run says nothing."""
    run = Endurance(spark, tmp_path, print)
    for series in (
        run.micro_batches(30, 3, samples=6),
        run.changes(256, samples=4),
        run.queries(4, samples=4),
    ):
        for name, slope in series.slopes().items():
            assert slope.is_flat or "memory" in name or "MiB" in name, (name, series.figures[name])


def test_a_figure_that_grows_is_told_from_one_that_grew_at_first() -> None:
    name = "open files"
    growing, flat, at_first = Series(), Series(), Series()
    for step in range(0, 1000, 10):
        growing.add(step, {name: 100 + step / 20})
        flat.add(step, {name: 100 + step % 30 / 10})
        at_first.add(step, {name: min(step, 300)})
    assert growing.slopes()[name].per_1000 == pytest.approx(50)
    assert [s.slopes()[name].is_flat for s in (growing, flat, at_first)] == [False, True, True]
    assert name in LIMITS
