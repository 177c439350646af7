"""Runs a plan: over plain rows, and over the stored tables with the planner on and off."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.fuzz.plans.queries import Queries
from tests.fuzz.plans.tables import names_of, stored
from tests.oracle import collected, counted
from tests.plain_joins import PLANNER, lookups, plan_of
from tests.sessions import CODE, configured

_INTERPRETED = CODE["python"]
_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"spark.sql.codegen.wholeStage": "false"},
    _INTERPRETED,
    {"spark.sql.adaptive.enabled": "false"},
    {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.sql.planChangeValidation": "true"},
    {"spark.sql.codegen.maxFields": "6"},
    {"spark.sql.parquet.enableVectorizedReader": "false"},
    {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.joinReorder.enabled": "true"},
)


@dataclass(frozen=True)
class Plan:
    """A query and how it is run.

    Args:
        seed: draws it again.
        text: the query, with its tables in braces.
        naming: of the stored tables; see :func:`tests.fuzz.plans.tables.names_of`.
        settings: of the session.
        features: words for what it has.
    """

    seed: int
    text: str
    naming: str
    settings: Mapping[str, str]
    features: frozenset[str]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan."""

    lookups: int = 0
    rows: int = 0
    refused: str | None = None
    wrong: str | None = None


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    draw = random.Random(seed)
    queries = Queries(draw)
    text = queries.whole()
    naming = draw.choice(["catalog", "path"])
    settings = draw.choice(_SETTINGS) | draw.choice(_SETTINGS)
    return Plan(seed, text, naming, settings, frozenset(queries.features))


class Runner:
    """Runs plans in a session whose tables are there."""

    def __init__(self, spark: SparkSession, paths: Mapping[str, str]):
        self.spark = spark
        self.paths = paths

    def sql(self, plan: Plan, naming: str) -> str:
        """The text of a plan with names of tables."""
        return plan.text.format_map(names_of(naming, self.paths))

    def outcome(self, plan: Plan) -> Outcome:
        """Run a plan in all ways, and compare the rows.

        To compile what Spark generates takes most of the time: it is done where the index answers,
        and in every fourth plan for the scan.
        """
        with configured(self.spark, plan.settings):
            try:
                with configured(self.spark, _INTERPRETED):
                    wanted, types, _ = self._run(self.sql(plan, "plain"))
            except PySparkException as error:
                return Outcome(refused=error.getCondition() or str(error)[:80])
            count = {"on": 0, "off": 0}
            for planner in count:
                more = _INTERPRETED if planner == "off" and plan.seed % 4 else {}
                with configured(self.spark, {PLANNER: planner, **more}):
                    try:
                        found, own_types, df = self._run(self.sql(plan, plan.naming))
                    except Exception as error:  # whatever it is, it is the fault looked for
                        return Outcome(wrong=f"planner {planner}: {str(error)[:4000]}")
                count[planner] = lookups(df)
                if own_types != types or found != wanted or count["off"]:
                    lacking, many = wanted - found, found - wanted
                    text = f"planner {planner}: {own_types}, expected {types}; too many: {many}; "
                    return Outcome(wrong=f"{text}lacking: {lacking}\n{plan_of(df)}")
        return Outcome(count["on"], wanted.total())

    def _run(self, sql: str) -> tuple[Counter[tuple[Any, ...]], list[str], DataFrame]:
        df: DataFrame = self.spark.sql(sql)
        rows = counted(collected(df))
        return rows, [field.dataType.simpleString() for field in df.schema.fields], df


@contextmanager
def running(spark: SparkSession, folder: Path) -> Iterator[Runner]:
    """A runner, for a while."""
    with stored(spark, folder) as paths:
        yield Runner(spark, paths)
