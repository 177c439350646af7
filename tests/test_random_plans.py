"""Random SQL around stored tables (`tests.fuzz.plans`): a few plans, and how plans are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.plans.counts import Counts
from tests.fuzz.plans.run import Outcome, Runner, draw_plan, running
from tests.fuzz.plans.tables import TABLES

SEEDS = range(1, 41)


@pytest.fixture(scope="module")
def runner(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with running(spark, tmp_path_factory.mktemp("plans")) as made:
        yield made


def test_plans_answer_what_spark_answers(runner: Runner) -> None:
    counts = Counts()
    for seed in SEEDS:
        plan = draw_plan(seed)
        outcome = runner.outcome(plan)
        counts.add(plan, outcome)
        assert outcome.wrong is None, (
            f"seed {seed}: {runner.sql(plan, plan.naming)}\n{outcome.wrong}"
        )
    assert counts.by_index > len(SEEDS) / 3
    assert not counts.failed


def test_a_seed_always_draws_the_same_plan() -> None:
    assert [draw_plan(seed) for seed in range(50)] == [draw_plan(seed) for seed in range(50)]


def test_everything_is_drawn() -> None:
    plans = [draw_plan(seed) for seed in range(600)]
    features = Counter(feature for plan in plans for feature in plan.features)
    assert min(features.values()) >= 5
    assert {"window", "union all", "not in", "exists", "range", "nondeterministic"} <= set(features)
    for name in TABLES:
        assert sum(f"{{{name}}}" in plan.text for plan in plans) > 10, name


def test_what_is_run_is_counted_by_feature() -> None:
    counts, plan = Counts(), draw_plan(7)
    counts.add(plan, Outcome(lookups=2, rows=3))
    counts.add(plan, Outcome(refused="AMBIGUOUS"))
    counts.add(plan, Outcome(wrong="rows"))
    shown = counts.shown()
    assert (shown["plans"], shown["answered by the index"], shown["failed"]) == (3, 1, [7])
    assert all(found == [3, 1] for found in shown["features"].values())
    assert shown["refused by Spark"] == {"AMBIGUOUS": 1}
