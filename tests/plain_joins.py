"""Plain Spark joins with stored tables, held against the same joins without their indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from oracle import together
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sessions import configured

from bsjoin import BatchTable
from bsjoin.runtimes.jvm.attach import attached

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
    *queries: Callable[[], DataFrame],
    lookups: int | None = 1,
    codes: Iterable[str] = ("stage",),
) -> None:
    """Check that queries have the same rows with the index as without.

    Several are one action: their columns begin with the same types.

    Args:
        spark: the session.
        queries: make them.
        lookups: how many joins of each the index answers; None for any number.
        codes: how the rows are computed, one after the other: names of `CODE`.
    """
    # Spark's own join is interpreted: that compiles nothing, and has the same rows.
    with configured(spark, {**CODE["stage"], **CODE["interpreted"], PLANNER: "off"}):
        schemas, expected = _united(queries)
        assert "BsjoinLookup" not in executed_plan(expected)
        wanted = _rows(expected)
    assert len(queries) == 1 or wanted
    for code in codes:
        with configured(spark, {**CODE[code], PLANNER: "on"}):
            own, df = _united(queries)
            plan = f"{code}:\n{executed_plan(df)}"
            if lookups is not None:
                assert plan.count("BsjoinLookup") == lookups * len(queries), plan
            found = _rows(df)
            assert found == wanted, f"too many {found - wanted}, lacking {wanted - found}\n{plan}"
        assert own == schemas, code


def _united(queries: Sequence[Callable[[], DataFrame]]) -> tuple[list[StructType], DataFrame]:
    """The schemas of queries, and all their rows: those of several under their numbers."""
    made = [query() for query in queries]
    united = made[0] if len(made) == 1 else together(dict(enumerate(made)))
    return [df.schema for df in made], united


def _rows(df: DataFrame) -> Counter[str]:
    """The rows as texts: NaN is not equal to itself."""
    return Counter(repr(tuple(row)) for row in df.collect())
