"""Plain Spark joins with stored tables, held against the same joins without their indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from bsjoin import BatchTable
from bsjoin.runtimes.jvm.attach import attached
from tests.oracle import together
from tests.sessions import configured

__all__ = [
    "CODE",
    "KINDS",
    "LOOKUP",
    "PLANNER",
    "Query",
    "check_same",
    "lookups",
    "plain",
    "plan_of",
    "stored",
]

PLANNER = "spark.bsjoin.planner"
LOOKUP = "BsjoinLookup"
"""The operator that answers a join by an index, as plans name it."""
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

Query = Callable[[], DataFrame]


def stored(
    spark: SparkSession, df: DataFrame, on: str | list[str], path: Path, **options: object
) -> DataFrame:
    """The rows of a table built of these, as Spark reads it."""
    BatchTable.build(df, on=on, path=str(path), **options)  # type: ignore[arg-type]
    return plain(spark, path)


def plain(spark: SparkSession, path: Path | str) -> DataFrame:
    """A stored table as Spark reads it."""
    if (reason := attached(spark)) is not None:
        pytest.fail(reason)
    return spark.read.format("bsjoin").load(str(path))


def plan_of(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def lookups(df: DataFrame) -> int:
    """How many joins of a query the index answers.

    The plan with which an adaptive one began stands below it, a subquery's below the subquery.
    """
    count, initial = 0, None
    for line in plan_of(df).splitlines():
        column = len(line) - len(line.lstrip(" :+-"))
        if initial is None or column < initial:
            initial = column if line.endswith("== Initial Plan ==") else None
            count += initial is None and line.count(LOOKUP)
    return count


def check_same(
    spark: SparkSession,
    *queries: Query,
    found: int | Sequence[int] | None = 1,
    codes: Iterable[str] = ("stage",),
    right: Sequence[Query] = (),
) -> None:
    """Check that queries have the same rows with the index as without; several are one action.

    Args:
        spark: the session.
        queries: make them.
        found: how many joins of each the index answers; None for any number.
        codes: how the rows are computed, one after the other: names of `CODE`.
        right: the same without stored tables, for the right rows. A stored table's columns may be
            null, since a later version may have nulls; so names and types only are compared then.
    """
    # Spark's own join is interpreted: that compiles nothing, and has the same rows.
    with configured(spark, {**CODE["stage"], **CODE["interpreted"], PLANNER: "off"}):
        schemas, expected = _united(right or queries)
        assert LOOKUP not in plan_of(expected)
        wanted = _rows(expected)
    assert len(queries) == 1 or wanted
    for code in codes:
        with configured(spark, {**CODE[code], PLANNER: "on"}):
            own, df = _united(queries)
            plan = f"{code}:\n{plan_of(df)}"
            if found is not None:
                asked = [found] * len(queries) if isinstance(found, int) else list(found)
                if lookups(df) != sum(asked):  # alone each tells which one it is
                    assert [lookups(query()) for query in queries] == asked, plan
                assert lookups(df) == sum(asked), plan
            rows = _rows(df)
            assert rows == wanted, f"too many {rows - wanted}, lacking {wanted - rows}\n{plan}"
        assert list(map(_types, own)) == list(map(_types, schemas)), code
        assert right or own == schemas, code


def _united(queries: Sequence[Query]) -> tuple[list[StructType], DataFrame]:
    """The schemas of queries, and all their rows: those of several as JSON, with a number."""
    made = [query() for query in queries]
    schemas = [df.schema for df in made]
    if len(made) == 1:
        return schemas, made[0]
    named = [df.toDF(*(f"c{i}" for i in range(len(df.columns)))) for df in made]
    return schemas, together(dict(enumerate(df.select(F.to_json(F.struct("*"))) for df in named)))


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def _rows(df: DataFrame) -> Counter[str]:
    """The rows as texts: NaN is not equal to itself."""
    return Counter(repr(tuple(row)) for row in df.collect())
