"""Conditions over a table to which changes were applied: the rows that a build of its rows has."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from plain_joins import lookups
from pyspark.sql import DataFrame, SparkSession
from sessions import CODE, configured
from spark_samples import values_of

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.conditions import Condition
from bsjoin.runtimes.jvm.attach import attached
from bsjoin.storage import versions

SCHEMA = "k long, p long, e long, n long, v string"
INTERVALS = ("p", "e")
BUILT: dict[str, Condition] = {
    "points": AsOf("x", "p", order_by="n DESC"),
    "placed": Within("x", *INTERVALS, take="first", order_by="n DESC"),
    "intervals": Overlaps(("x", "y"), INTERVALS),
}
"""What tables are built for."""

ASKED: dict[str, list[Condition]] = {
    "points": [
        AsOf("x", "p", order_by="n DESC"),
        AsOf("x", "p", "nearest", n=3, order_by="n DESC"),
        AsOf("x", "p", "forward", exact=False, tolerance=4, n=2, order_by="n DESC"),
        AsOf("x", "p", "nearest", n=4, order_by="n DESC", collect="near"),
        Band("x", "p", 2, 1),
    ],
    "placed": [
        *(
            Within("x", *INTERVALS, take=take, order_by="n DESC")  # type: ignore[arg-type]
            for take in ("latest_start", "earliest_end", "shortest", "first")
        ),
        Within("x", *INTERVALS),
    ],
    "intervals": [
        Overlaps(("x", "y"), INTERVALS),
        Overlaps(("x", "y"), INTERVALS, relation="within", at_least=2),
    ],
}
PLAIN = {
    "points": [
        "bsjoin.as_of(s.x, t.p)",
        "bsjoin.as_of(s.x, t.p, 'nearest', 3, true, 2)",
        "t.p BETWEEN s.x - 2 AND s.x + 1",
    ],
    "placed": ["t.p <= s.x AND (t.e IS NULL OR s.x < t.e)"],
    "intervals": ["t.p < s.y AND s.x < t.e"],
}


class Tables(NamedTuple):
    """A table with layers, and one that was built of the same rows."""

    layered: BatchTable
    built: BatchTable


def row(draw: random.Random, number: int) -> tuple[Any, ...]:
    """Points and intervals that are equal, nested, empty, without an end, or not there."""
    start = draw.choice([None, -(2**63), *range(14)])
    length = draw.choice([None, -2, 0, 1, 5, 5, 9])
    end = None if start is None or length is None else start + max(0, length)
    key = draw.choice([None, *range(6)])
    return key, start, end, number, draw.choice([None, "", "a", "b"])


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Tables]:
    """A table for each kind of index; each step of changes touches keys of the steps before."""
    with configured(spark, CODE["python"]):  # nothing is compiled
        return made(spark, tmp_path_factory.mktemp("layers"))


def made(spark: SparkSession, folder: Path) -> dict[str, Tables]:
    found = {}
    for seed, (name, when) in enumerate(BUILT.items()):
        draw = random.Random(seed)
        there = {number: row(draw, number) for number in range(120)}

        def frame(rows: Any) -> DataFrame:
            return spark.createDataFrame([*rows], SCHEMA).coalesce(1)

        layered = BatchTable.build(frame(there.values()), on="k", when=when, path=folder / name)
        for step in range(3):
            gone = set(draw.sample(sorted(there), 8))
            put = {draw.randrange(140) for _ in range(15)} - gone
            new = {number: row(draw, number) for number in put}
            changes = frame([*new.values(), *(there[number] for number in gone)])
            op = f"IF(n IN ({', '.join(map(str, gone))}), 'delete', 'upsert') AS op"
            layered.apply(changes.selectExpr("*", op), key="n")
            there = {n: one for n, one in (there | new).items() if n not in gone}
            if step == 0:
                layered.compact()
        assert len(versions.latest(layered._location).layers) >= 1
        rows = frame(there.values())
        built = BatchTable.build(rows, on="k", when=when, path=folder / f"{name} built")
        found[name] = Tables(layered, built)
    return found


def stream(spark: SparkSession) -> DataFrame:
    return spark.range(7 * 17).selectExpr(
        "id", "IF(id % 7 = 6, NULL, id % 7) AS k", "id DIV 7 - 1 AS x", "id DIV 7 + id % 4 AS y"
    )


def compared(layered: dict[Any, DataFrame], built: dict[Any, list[str]], code: str) -> None:
    """Hold results of the tables with layers against those of the others."""
    with configured(next(iter(layered.values())).sparkSession, CODE[code]):
        for name, rows in values_of(layered).items():
            assert rows == built[name] != [], name


@pytest.mark.parametrize(
    "step", [3, pytest.param(1, marks=pytest.mark.long)], ids=["some of each", "all"]
)
def test_what_is_found_is_what_a_build_of_the_rows_finds(
    spark: SparkSession, tables: Mapping[str, Tables], step: int
) -> None:
    probes = stream(spark)

    def joined(which: str, runtime: str) -> dict[Any, DataFrame]:
        results = {}
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            for name, conditions in ASKED.items():
                table = getattr(tables[name], which)
                for place, when in enumerate(conditions[::-step]):
                    how = ("left", "inner")[place % 2]
                    found = table.join(probes, how=how, when=when, select=["p", "n", "v"])
                    results[name, str(when)] = found
        return results

    with configured(spark, CODE["python"]):
        built = values_of(joined("built", "jvm"))
    for runtime in ("jvm", "python"):
        compared(joined("layered", runtime), built, runtime)


def test_plain_sql_finds_the_same(spark: SparkSession, tables: Mapping[str, Tables]) -> None:
    assert attached(spark) is None
    stream(spark).createOrReplaceTempView("s")
    results: dict[str, dict[Any, DataFrame]] = {"layered": {}, "built": {}}
    for name, conditions in PLAIN.items():
        for place, condition in enumerate(conditions):
            how = ("LEFT", "INNER")[place % 2]
            for which, found in results.items():
                found[condition] = spark.sql(
                    f"SELECT s.id, t.n, t.v FROM s {how} JOIN "
                    f"bsjoin.`{getattr(tables[name], which).path}` t ON s.k = t.k AND {condition}"
                )
                assert lookups(found[condition]) == 1
    with configured(spark, CODE["python"]):
        built = values_of(results["built"])
    compared(results["layered"], built, "jvm")
