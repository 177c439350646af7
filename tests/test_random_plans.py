"""Random SQL around stored tables (`tests.fuzz.plans`): some plans, and how plans are drawn.

Plans of each kind are in `jvm/test_plain_*.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from real_time_queries import planned_in_real_time

from tests.fuzz.plans.run import Runner, draw_plan, running
from tests.fuzz.plans.tables import TABLES


def answered(runner: Runner, seeds: Sequence[int]) -> int:
    """How many plans the index answers; all have the rows that Spark has."""
    found = 0
    for seed in seeds:
        plan = draw_plan(seed)
        outcome = runner.outcome(plan)
        text = f"seed {seed}: {runner.sql(plan, plan.naming)}"
        assert outcome.wrong is None, f"{text}\n{outcome.wrong}"
        found += outcome.lookups > 0
    return found


@pytest.mark.long
def test_plans_answer_what_spark_answers(
    spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Some are planned as those of a query in real-time mode; a few are others in each run."""
    first = random.Random(f"{pytestconfig.option.hypothesis_seed} plans").randrange(1 << 32)
    seeds = [*range(1, 31), *range(first, first + 5)]
    in_real_time = [*range(101, 113), *range(first + 5, first + 8)]
    with running(spark, tmp_path) as runner:
        found = answered(runner, seeds)
        with planned_in_real_time(spark, tmp_path / "idle"):
            found_there = answered(runner, in_real_time)
    assert found > len(seeds) / 10
    assert found_there > len(in_real_time) / 10


def test_everything_is_drawn_and_always_the_same() -> None:
    plans = [draw_plan(seed) for seed in range(600)]
    assert plans[:50] == [draw_plan(seed) for seed in range(50)]
    features = Counter(feature for plan in plans for feature in plan.features)
    assert min(features.values()) >= 5
    assert {"window", "union all", "not in", "exists", "range", "nondeterministic"} <= set(features)
    for name in TABLES:
        assert sum(f"{{{name}}}" in plan.text for plan in plans) > 10, name
