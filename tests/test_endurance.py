"""Nothing grows while a stream runs: a short run of ``python -m tests.endurance``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.endurance import LIMITS, Endurance, Series

_NAME = "open files"


@pytest.mark.slow
def test_counts_stay_flat_over_micro_batches_refreshes_and_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of memory a short run says nothing."""
    run = Endurance(spark, tmp_path, print)
    found = [run.micro_batches(40, 4, samples=8), run.queries(6, samples=6)]
    for series in found:
        for name in (
            "Python processes below the JVM",
            "open files",
            "mapped files",
            "threads",
            "files on disk",
        ):
            slope = series.slopes()[name]
            assert slope.is_flat, (name, series.figures[name])
    run.interrupted = True  # ends with what there is
    assert run.queries(1000).steps == [1]


def test_a_figure_that_grows_is_no_flat_one() -> None:
    growing, flat = Series(), Series()
    for step in range(0, 1000, 10):
        growing.add(step, {_NAME: 100 + step / 20})
        flat.add(step, {_NAME: 100 + step % 30 / 10})
    slope = growing.slopes()[_NAME]
    assert not slope.is_flat
    assert slope.per_1000 == pytest.approx(50)
    assert flat.slopes()[_NAME].is_flat


def test_what_grows_at_first_only_is_flat() -> None:
    series = Series()
    for step in range(100):
        series.add(step, {_NAME: min(step, 30)})
    assert series.slopes()[_NAME].is_flat
    assert set(series.figures) <= set(LIMITS)
