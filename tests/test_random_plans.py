"""Random SQL around stored tables (`tests.fuzz.plans`): a few plans, and how plans are drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.fuzz.plans.run import draw_plan, running
from tests.fuzz.plans.tables import TABLES

SEEDS = range(1, 31)


def test_plans_answer_what_spark_answers(spark: SparkSession, tmp_path: Path) -> None:
    by_index = 0
    with running(spark, tmp_path) as runner:
        for seed in SEEDS:
            plan = draw_plan(seed)
            outcome = runner.outcome(plan)
            by_index += outcome.lookups > 0
            text = f"seed {seed}: {runner.sql(plan, plan.naming)}"
            assert outcome.wrong is None, f"{text}\n{outcome.wrong}"
    assert by_index > len(SEEDS) / 3


def test_everything_is_drawn_and_always_the_same() -> None:
    plans = [draw_plan(seed) for seed in range(600)]
    assert plans[:50] == [draw_plan(seed) for seed in range(50)]
    features = Counter(feature for plan in plans for feature in plan.features)
    assert min(features.values()) >= 5
    assert {"window", "union all", "not in", "exists", "range", "nondeterministic"} <= set(features)
    for name in TABLES:
        assert sum(f"{{{name}}}" in plan.text for plan in plans) > 10, name
