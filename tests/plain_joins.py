"""Plain Spark joins with stored tables, held against the same joins without their indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from sessions import configured

from bsjoin import BatchTable
from bsjoin._spark.jvm.attach import attached

__all__ = [
    "CODE",
    "KINDS",
    "PLANNER",
    "check_same",
    "executed_plan",
    "plain",
    "stored",
]

PLANNER = "spark.bsjoin.planner"
KINDS = ("inner", "left", "semi", "anti")
CODE: Mapping[str, Mapping[str, str]] = {
    "stage": {"spark.sql.adaptive.enabled": "false"},
    "adaptive": {"spark.sql.adaptive.forceApply": "true"},
    "projections": {"spark.sql.codegen.wholeStage": "false"},
    "interpreted": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
}
"""How the rows are computed: the settings of each way."""


def stored(
    spark: SparkSession, df: DataFrame, on: str | list[str], path: Path, **options: object
) -> DataFrame:
    """The rows of a table built of these, as Spark reads it."""
    BatchTable.build(df, on=on, path=str(path), **options)  # type: ignore[arg-type]
    return plain(spark, path)


def plain(spark: SparkSession, path: Path) -> DataFrame:
    """A stored table as Spark reads it."""
    if (reason := attached(spark)) is not None:
        pytest.fail(reason)
    return spark.read.format("bsjoin").load(str(path))


def executed_plan(df: DataFrame) -> str:
    """The physical plan, of an adaptive one the initial one."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def check_same(
    spark: SparkSession,
    query: Callable[[], DataFrame],
    lookups: int | None = 1,
    codes: Iterable[str] = ("stage",),
) -> list[str]:
    """Check that a query has the same rows with the index as without.

    Args:
        spark: the session.
        query: makes it.
        lookups: how many joins the index answers; None for any number.
        codes: how its rows are computed, one after the other: names of `CODE`.

    Returns:
        The rows as texts.
    """
    # Spark's own join is interpreted: that compiles nothing, and has the same rows.
    with configured(spark, {**CODE["stage"], **CODE["interpreted"], PLANNER: "off"}):
        expected = query()
        assert "BsjoinLookup" not in executed_plan(expected)
        wanted = _rows(expected)
    for code in codes:
        with configured(spark, {**CODE[code], PLANNER: "on"}):
            df = query()
            plan = f"{code}:\n{executed_plan(df)}"
            if lookups is not None:
                assert plan.count("BsjoinLookup") == lookups, plan
            assert _rows(df) == wanted, plan
        assert df.schema == expected.schema, code
    return wanted


def _rows(df: DataFrame) -> list[str]:
    """The rows as sorted texts: NaN has no order, and is not equal to itself."""
    return sorted(repr(tuple(row)) for row in df.collect())
