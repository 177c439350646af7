"""Plain Spark joins with stored tables, held against the same joins without their indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bsjoin import BatchTable
from bsjoin.runtimes.jvm.attach import attached
from tests.oracle import united
from tests.sessions import configured

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


def lookup_lines(plan: str) -> list[str]:
    """The lines of a plan's text with the joins that the index answers.

    The plan with which an adaptive one began stands below it, a subquery's below the subquery.
    """
    found, initial = list[str](), None
    for line in plan.splitlines():
        column = len(line) - len(line.lstrip(" :+-"))
        if initial is None or column < initial:
            initial = column if line.endswith("== Initial Plan ==") else None
            found += [line] * (0 if initial is not None else line.count(LOOKUP))
    return found


def lookups(df: DataFrame) -> int:
    """How many joins of a query the index answers."""
    return len(lookup_lines(plan_of(df)))


def check_same(
    spark: SparkSession,
    *queries: Query,
    found: int | Sequence[int] | None = 1,
    codes: Iterable[str] = ("stage",),
    right: Sequence[Query] = (),
) -> DataFrame:
    """Check that queries have the same rows with the index as without; several are one action.

    Args:
        spark: the session.
        queries: make them.
        found: how many joins of each the index answers; None for any number. A query with none
            has Spark's own plan, and is run only where `right` is given.
        codes: how the rows are computed, one after the other: names of `CODE`.
        right: the same without stored tables, for the right rows. A stored table's columns may be
            null, since a later version may have nulls; so names and types only are compared then.

    Returns:
        what has been run in the last of the ways.
    """
    made = [query() for query in queries]
    asked = list(found) if isinstance(found, Sequence) else [found] * len(made)
    if right:
        others = [query() for query in right]
        assert [_types(df.schema) for df in made] == [_types(df.schema) for df in others]
    elif own := [df for df, count in zip(made, asked, strict=True) if count == 0]:
        assert lookups(_united(own)) == 0
        made = [df for df, count in zip(made, asked, strict=True) if count != 0]
        asked = [count for count in asked if count != 0]
        if not made:
            return own[0]
    whole = _united(made)
    theirs = _united(others) if right else whole
    # Spark's own join is interpreted: that compiles nothing, and has the same rows.
    with configured(spark, {**CODE["stage"], **CODE["interpreted"], PLANNER: "off"}):
        expected = anew(theirs)
        assert LOOKUP not in plan_of(expected)
        wanted = _rows(expected)
    assert len(made) == 1 or wanted
    df = whole
    for code in codes:
        with configured(spark, {**CODE[code], PLANNER: "on"}):
            df = anew(whole)
            plan = plan_of(df)
            if None not in asked and len(lookup_lines(plan)) != sum(filter(None, asked)):
                # Alone each tells which one it is.
                assert [lookups(anew(one)) for one in made] == asked, f"{code}:\n{plan}"
                raise AssertionError(f"together not {asked}, {code}:\n{plan}")
            rows = _rows(df)
            lacking = wanted - rows
            assert rows == wanted, f"too many {rows - wanted}, lacking {lacking}, {code}:\n{plan}"
    return df


def anew(df: DataFrame) -> DataFrame:
    """The same, to be planned by the settings of now: what is analysed stays so."""
    return df.select("*")


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows: those of several as JSON, with a number.

    The number is a text, which stands beside the code that is generated: what is alike but for it
    is compiled once.
    """
    if len(frames) == 1:
        return frames[0]
    row = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
    return united([df.selectExpr(f"'{n}' AS number", row) for n, df in enumerate(frames)])


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def _rows(df: DataFrame) -> Counter[str]:
    """The rows as texts: NaN is not equal to itself."""
    return Counter(repr(tuple(row)) for row in df.collect())
