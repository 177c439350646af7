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
from tests.sessions import configured

__all__ = ["LOOKUP", "Outcome", "Plan", "Runner", "draw_plan", "running"]

LOOKUP = "BsjoinLookup"
"""The operator that answers a join by an index, as executed plans name it."""

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
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
    """What came of a plan.

    Args:
        lookups: joins that the index answered.
        rows: of the answer.
        refused: Spark refuses the query over plain rows: why.
        wrong: what differs, or None.
    """

    lookups: int = 0
    rows: int = 0
    refused: str | None = None
    wrong: str | None = None


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    draw = random.Random(seed)
    queries = Queries(draw)
    text = queries.whole()
    naming = draw.choice(["catalog", "catalog", "path", "view"])
    settings = draw.choice(_SETTINGS) | draw.choice(_SETTINGS)
    return Plan(seed, text, naming, settings, frozenset(queries.features))


class Runner:
    """Runs plans in a session whose tables are there.

    Args:
        spark: the session.
        paths: of the stored tables.
    """

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
            lookups = 0
            for planner in ("on", "off"):
                more = _INTERPRETED if planner == "off" and plan.seed % 4 else {}
                with configured(self.spark, {"spark.bsjoin.planner": planner, **more}):
                    try:
                        found, own_types, executed = self._run(self.sql(plan, plan.naming))
                    except Exception as error:  # whatever it is, it is the fault looked for
                        return Outcome(lookups, wrong=f"planner {planner}: {_shown(error)}")
                if own_types != types:
                    return Outcome(lookups, wrong=f"planner {planner}: {own_types}, not {types}")
                if found != wanted:
                    lacking, many = (wanted - found).most_common(3), (found - wanted).most_common(3)
                    text = f"planner {planner}: {found.total()} rows, expected {wanted.total()}; "
                    text += f"too many: {many}; lacking: {lacking}\n{executed}"
                    return Outcome(lookups, wrong=text)
                count = executed.partition("== Initial Plan ==")[0].count(LOOKUP)
                if planner == "on":
                    lookups = count
                elif count:
                    return Outcome(lookups, wrong="planner off: the index answered")
        return Outcome(lookups, wanted.total())

    def _run(self, sql: str) -> tuple[Counter[tuple[Any, ...]], list[str], str]:
        df: DataFrame = self.spark.sql(sql)
        rows = counted(collected(df))
        types = [field.dataType.simpleString() for field in df.schema.fields]
        return rows, types, df._jdf.queryExecution().executedPlan().toString()


def _shown(error: Exception) -> str:
    """An error and its causes, without the places in the code."""
    lines = str(error).splitlines()
    causes = [line.strip()[:400] for line in lines if line.startswith("Caused by")]
    return "\n".join([f"{type(error).__name__}: {' '.join(lines[:2])[:400]}", *causes[-3:]])


@contextmanager
def running(spark: SparkSession, folder: Path) -> Iterator[Runner]:
    """A runner, for a while."""
    with stored(spark, folder) as paths:
        yield Runner(spark, paths)
