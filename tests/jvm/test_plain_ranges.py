"""Range conditions of plain Spark joins: the range index gives what Spark's own join does.

Random conditions with fixed seeds, each answered twice over the same rows, by the index of a stored
table and by Spark's own join.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from plain_joins import CODE
from plain_ranges import KINDS, Ranges, answers
from pyspark.sql import SparkSession
from sessions import configured

from bsjoin import Band, BatchTable, Overlaps, Within
from bsjoin.runtimes.jvm.attach import attached

CLOSED = ("left", "right", "both", "neither")
QUERIES = 3
MODES = ("stage", "projections", "interpreted")
WRAPS = {"spark__sql__ansi__enabled": "false"}
"""Sums that overflow: integers wrap around."""


@pytest.fixture(autouse=True)
def _jar(spark: SparkSession) -> None:
    assert attached(spark) is None


@pytest.mark.parametrize("kind", KINDS)
def test_random_conditions(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """All types of the stream with points and intervals; two by two of keys, ends and code."""
    place = list(KINDS).index(kind)
    for interval in (False, True):
        ranges, numbers = Ranges(kind, place + interval), itertools.count()
        source = ranges.table(spark)
        source.createOrReplaceTempView("source")
        closed: Any = CLOSED[(place + 2 * interval + place // 4) % 4]
        when = Overlaps(("a", "b"), ("p", "q"), closed=closed) if interval else Band("a", "p", 0, 0)
        tables = {
            keyed: BatchTable.build(
                source, on=["k"] * keyed, when=when, path=tmp_path / f"{interval} {keyed}"
            )
            for keyed in (True, False)
        }
        stored, plain = [], []
        for given in range(len(ranges.kind.given)):
            keyed = (given + place + interval) % 2 == 0
            ranges.stream(spark, given).createOrReplaceTempView(f"s{given}")
            chosen = list(itertools.islice(numbers, QUERIES))
            query = ranges.queries(chosen, f"s{given}", "{t}", keyed=keyed, interval=interval)
            stored.append(query.replace("{t}", f"bsjoin.`{tables[keyed].path}`"))
            plain.append(query.replace("{t}", "source"))
        query, own = ("\nUNION ALL\n".join(parts) for parts in (stored, plain))
        with configured(spark, CODE[MODES[(place + interval) % 3]]):
            assert answers(spark, query, own, **WRAPS) > next(numbers) // 5


def test_both_bounds_of_starts_that_are_not_even(spark: SparkSession, tmp_path: Path) -> None:
    """Many intervals of a key, so that its directory is used, from any place of it."""
    conditions = (
        "t.p >= s.a AND t.p <= s.b AND t.q > s.a",
        "t.p >= s.a AND t.p < s.b AND (t.q IS NULL OR t.q >= s.b)",
        "t.p = s.a AND t.q > s.b",
    )
    given = "SELECT id % 2 AS k, id * 97 AS a, id * 97 + id % 5 * 400 AS b FROM range(110)"
    spark.sql(given).createOrReplaceTempView("s")
    parts = []
    for starts in ("id * id", "10000 - (100 - id) * (100 - id)"):
        for end in ("NULL", "p + 5000", "p + id % 7"):
            source = spark.sql(
                f"SELECT k, p, CAST({end} AS BIGINT) AS q FROM "
                f"(SELECT id, id % 2 AS k, {starts} AS p FROM range(100))"
            )
            when, path = Overlaps(("a", "b"), ("p", "q")), tmp_path / str(len(parts))
            BatchTable.build(source, on="k", when=when, path=path)
            parts += [
                f"SELECT {len(parts) + number}, s.*, t.* "
                f"FROM s JOIN bsjoin.`{path}` t ON s.k = t.k AND {condition}"
                for number, condition in enumerate(conditions)
            ]
    assert answers(spark, "\nUNION ALL\n".join(parts)) == len(parts)


def test_sums_of_a_start_whose_end_has_another_type(spark: SparkSession, tmp_path: Path) -> None:
    """The index has ranks of both; the sums wrap around where the start is the greatest."""
    stored, plain = [], []
    for number, (start, one, end) in enumerate(
        (("TINYINT", "1Y", "DECIMAL(20,0)"), ("BIGINT", "1L", "DECIMAL(20,2)"))
    ):
        greatest = "127" if start == "TINYINT" else f"bigint('{2**63 - 1}')"
        source = spark.sql(
            f"SELECT id AS n, CAST(IF(id = 0, {greatest}, id - 60) AS {start}) AS p, "
            f"CAST(id + 0.25 AS {end}) AS q FROM range(120)"
        )
        source.createOrReplaceTempView(f"source{number}")
        BatchTable.build(source, on=[], when=Within("a", "p", "q"), path=tmp_path / str(number))
        given = f"(SELECT CAST(id - 70 AS {start}) AS a FROM range(140))"
        for place, sign in enumerate(("<=", ">=")):
            query = f"SELECT {2 * number + place}, s.a, t.n FROM {given} s JOIN {{}} t ON "
            query += f"t.p + {one} {sign} s.a AND t.p <= s.a AND t.q > s.a"
            stored.append(query.format(f"bsjoin.`{tmp_path / str(number)}`"))
            plain.append(query.format(f"source{number}"))
    query, own = ("\nUNION ALL\n".join(queries) for queries in (stored, plain))
    assert answers(spark, query, own, **WRAPS) == len(stored)
