"""Range conditions of plain Spark joins: the range index gives what Spark's own join does.

Random conditions with fixed seeds, each answered twice over the same stored table, by the index and
by Spark's own join.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_ranges import KINDS, Ranges, answers
from pyspark.sql import SparkSession

from bsjoin import Band, BatchTable, Overlaps
from bsjoin.runtimes.jvm.attach import attached
from tests import sessions

CLOSED = ("left", "right", "both", "neither")
QUERIES = 8
MODES: dict[str, dict[str, str]] = {
    "generated": {},
    "without whole stages": {"spark.sql.codegen.wholeStage": "false"},
    "interpreted": sessions.CODE["python"],
}
WRAPS = {"spark__sql__ansi__enabled": "false"}
"""Sums that overflow: integers wrap around."""


@pytest.fixture(autouse=True)
def _views(spark: SparkSession) -> Iterator[None]:
    assert attached(spark) is None
    yield
    spark.catalog.dropTempView("s")
    spark.catalog.dropTempView("source")


def _checked(
    spark: SparkSession, path: Path, kind: str, when: Any, given: int, *, keyed: bool, seed: int
) -> None:
    ranges = Ranges(kind, seed)
    source = ranges.table(spark)
    on = ["k"] if keyed else []
    table = BatchTable.build(source, on=on, when=when, path=path / "t")
    source.createOrReplaceTempView("source")
    ranges.stream(spark, given).createOrReplaceTempView("s")
    interval = isinstance(when, Overlaps)
    query = ranges.queries(QUERIES, "s", "{t}", keyed=keyed, interval=interval)
    modes = list(MODES)
    with sessions.configured(spark, MODES[modes[seed % len(modes)]]):
        stored = query.replace("{t}", f"bsjoin.`{table.path}`")
        found = answers(spark, stored, query.replace("{t}", "source"), **WRAPS)
    values = KINDS[kind]
    if values.given[given % len(values.given)][0] == values.stored[0]:
        assert found > QUERIES // 4, found


@pytest.mark.parametrize("kind", KINDS)
def test_points(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """All types of the stream; with a key and without one where both sides have the same."""
    when = Band("a", "p", 0, 0)
    for given in range(len(KINDS[kind].given)):
        for keyed in (True, False) if given == 0 else (given % 2 == 1,):
            path = tmp_path / f"{given}{keyed}"
            _checked(spark, path, kind, when, given, keyed=keyed, seed=2 * given + keyed)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """All types of the stream, and all ends; two by two all of kinds, ends, keys and code."""
    first, types = list(KINDS).index(kind), len(KINDS[kind].given)
    for given in range(max(types, len(CLOSED))):
        closed: Any = CLOSED[(first + given) % len(CLOSED)]
        when = Overlaps(("a", "b"), ("p", "q"), closed=closed)
        path, keyed = tmp_path / str(given), (first + given // 2) % 2 == 0
        _checked(spark, path, kind, when, given % types, keyed=keyed, seed=first + given)


@pytest.mark.parametrize("starts", ["id * id", "10000 - (100 - id) * (100 - id)"])
@pytest.mark.parametrize("end", ["NULL", "p + 5000", "p + id % 7"])
def test_both_bounds_of_starts_that_are_not_even(
    spark: SparkSession, tmp_path: Path, starts: str, end: str
) -> None:
    """Many intervals of a key, so that its directory is used, from any place of it."""
    source = spark.sql(f"SELECT k, p, CAST({end} AS BIGINT) AS q FROM "
                       f"(SELECT id, id % 2 AS k, {starts} AS p FROM range(100))")  # fmt: skip
    table = BatchTable.build(
        source, on="k", when=Overlaps(("a", "b"), ("p", "q")), path=tmp_path / "t"
    )
    source.createOrReplaceTempView("source")
    given = "SELECT id % 2 AS k, id * 97 AS a, id * 97 + id % 5 * 400 AS b FROM range(110)"
    spark.sql(given).createOrReplaceTempView("s")
    conditions = (
        "t.p >= s.a AND t.p <= s.b AND t.q > s.a",
        "t.p >= s.a AND t.p < s.b AND (t.q IS NULL OR t.q >= s.b)",
        "t.p = s.a AND t.q > s.b",
    )
    query = "\nUNION ALL\n".join(
        f"SELECT {number}, s.*, t.* FROM s JOIN {{t}} t ON s.k = t.k AND {condition}"
        for number, condition in enumerate(conditions)
    )
    stored = query.replace("{t}", f"bsjoin.`{table.path}`")
    assert answers(spark, stored, query.replace("{t}", "source")) == len(conditions)
