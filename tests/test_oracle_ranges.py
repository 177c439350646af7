"""Range joins against a nested loop: every condition, every type, with keys and without."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS, rows_of_all, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from range_oracle import matching

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within

pytestmark = pytest.mark.usefixtures("runtime")

NAN, INF = float("nan"), float("inf")
DAY = datetime(2026, 3, 29, tzinfo=UTC)

# Few values, so that they meet: equal ends, duplicates, neighbours.
VALUES: dict[str, list[Any]] = {
    "tinyint": [*range(-3, 12), -128, 127],
    "int": [*range(0, 15)],
    "bigint": [*range(0, 12), -(2**63), 2**63 - 1, 2**63 - 2],
    "double": [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.25, INF, -INF, NAN],
    "float": [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.25, INF, NAN],
    "decimal(10,2)": [Decimal(n).scaleb(-2) for n in (*range(0, 300, 25), 99_999_999)],
    "date": [date(2026, 3, 25) + timedelta(days=n) for n in range(12)],
    "timestamp": [DAY + timedelta(minutes=20 * n) for n in range(15)],
    "timestamp_ntz": [(DAY + timedelta(minutes=20 * n)).replace(tzinfo=None) for n in range(15)],
}
WIDTHS: dict[str, tuple[Any, Any]] = {
    "tinyint": (2, 3),
    "int": (2, 1.5),
    "bigint": (3, 2),
    "double": (0.5, 1.0),
    "float": (0.5, 1.0),
    "decimal(10,2)": (0.5, 0.26),
    "date": ("1 day", timedelta(days=2)),
    "timestamp": ("40 minutes", 1200),
    "timestamp_ntz": (timedelta(hours=1), "20 minutes"),
}


def some(values: list[Any], chance: random.Random) -> Any:
    return chance.choice([None, *values, *values])


def sample(kind: str, chance: random.Random, many: int) -> list[dict[str, Any]]:
    values = VALUES[kind]
    return [
        {"k": chance.choice([None, 1, 2, 3]), "a": some(values, chance), "b": some(values, chance)}
        for _ in range(many)
    ]


def frame(spark: SparkSession, rows: list[dict[str, Any]], names: str, kind: str) -> DataFrame:
    one, two = names.split()
    listed = [(n, row["k"], row["a"], row["b"]) for n, row in enumerate(rows)]
    schema = f"n int, k int, {one} {kind}, {two} {kind}"
    return spark.createDataFrame(listed, schema).coalesce(1)


def held_against_a_loop(spark: SparkSession, kind: str, *cases: tuple[Any, list[str]]) -> None:
    """Hold joins of two samples, each with its condition and its keys, against a nested loop."""
    chance = random.Random(f"{kind} {cases}")
    stream_rows, table_rows = sample(kind, chance, 40), sample(kind, chance, 60)
    stream = frame(spark, stream_rows, "p x", kind).withColumnRenamed("n", "s")
    table = frame(spark, table_rows, "q y", kind)
    left = [{"k": r["k"], "p": r["a"], "x": r["b"]} for r in stream_rows]
    right = [{"k": r["k"], "q": r["a"], "y": r["b"]} for r in table_rows]
    results = {}
    for number, (when, on) in enumerate(cases):
        built = BatchTable.build(table, on=on, when=when)
        for how in two_of_four(kind, number):
            joined = built.join(stream, on, when=when, how=how)
            brought = ["n"] if how in ("inner", "left") else []
            results[number, how] = joined.select("s", *brought)
    found = rows_of_all(results)
    for number, (when, on) in enumerate(cases):
        by_how = {how: found[number, how] for how in two_of_four(kind, number)}
        is_right(by_how, matching(left, right, on, when), when)


def two_of_four(kind: str, number: int) -> tuple[Any, Any]:
    """Left shows all pairs of rows; the others meet every condition, if not with every type."""
    return "left", ("inner", "semi", "anti")[(len(kind) + number) % 3]


def is_right(found: dict[str, pa.Table], expected: list[list[int]], when: Any) -> None:
    """Hold the rows of some join types, left among them, against those that match."""
    if isinstance(when, AsOf):  # of rows with the same value one is chosen, always the same
        pairs = [(s, n) for s, n in pairs_of(found["left"]) if n is not None]
        chosen = dict(pairs)
        assert len(chosen) == len(pairs)
        for number, numbers in enumerate(expected):
            assert (number in chosen) == bool(numbers)
            assert not numbers or chosen[number] in numbers
        expected = [[chosen[n]] if numbers else [] for n, numbers in enumerate(expected)]
    inner = [(s, n) for s, numbers in enumerate(expected) for n in numbers]
    lonely = [s for s, numbers in enumerate(expected) if not numbers]
    assert Counter(pairs_of(found["left"])) == Counter([*inner, *((s, None) for s in lonely)])
    if "inner" in found:
        assert Counter(pairs_of(found["inner"])) == Counter(inner)
    if "anti" in found:
        assert sorted(found["anti"].column(0).to_pylist()) == lonely
    if "semi" in found:
        assert sorted(found["semi"].column(0).to_pylist()) == sorted({s for s, _ in inner})


def pairs_of(rows: pa.Table) -> list[tuple[int, int | None]]:
    return list(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))


WITH_AND_WITHOUT_KEY = (["k"], [])


@pytest.mark.parametrize("kind", VALUES)
def test_bands(spark: SparkSession, kind: str) -> None:
    before, after = WIDTHS[kind]
    cases = []
    for on in WITH_AND_WITHOUT_KEY:
        closed = ("both", "left", "right", "neither")[(list(VALUES).index(kind) + len(on)) % 4]
        if kind == "bigint":
            # Python's integers do not end where Spark's do: no value lies beyond, either way.
            closed = "both"
        cases.append((Band("p", "q", before, after, closed=closed), on))  # type: ignore[arg-type]
    held_against_a_loop(spark, kind, *cases)


@pytest.mark.parametrize("kind", ["int", "bigint", "double", "decimal(10,2)", "date", "timestamp"])
def test_points_in_intervals(spark: SparkSession, kind: str) -> None:
    within = [Within("p", "q", "y", closed=closed) for closed in ("left", "both")]  # type: ignore[arg-type]
    held_against_a_loop(spark, kind, *itertools.product(within, WITH_AND_WITHOUT_KEY))


@pytest.mark.parametrize("kind", ["double", "timestamp_ntz"])
def test_overlapping_intervals(spark: SparkSession, kind: str) -> None:
    ends: Any = ("left", "right", "both", "neither")
    overlaps = [Overlaps(("p", "x"), ("q", "y"), closed=closed) for closed in ends]
    held_against_a_loop(spark, kind, *((when, ["k"]) for when in overlaps))


@pytest.mark.parametrize("kind", ["int", "bigint", "decimal(10,2)", "date", "timestamp"])
def test_as_of(spark: SparkSession, kind: str) -> None:
    nearest = AsOf("p", "q", direction="nearest", tolerance=WIDTHS[kind][0])
    forward = AsOf("p", "q", direction="forward", exact=False)
    held_against_a_loop(spark, kind, (AsOf("p", "q"), []), (forward, ["k"]), (nearest, ["k"]))


@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_the_size_of_a_batch_makes_no_difference(spark: SparkSession, size: int) -> None:
    with settings(spark, spark__sql__execution__arrow__maxRecordsPerBatch=str(size)):
        cases = (Band("p", "q", 4, 4), ["k"]), (Within("p", "q", "y"), [])
        held_against_a_loop(spark, "int", *cases)


@pytest.mark.parametrize("how", HOWS)
def test_empty_sides(spark: SparkSession, how: Any) -> None:
    full = spark.range(5).select("id", F.col("id").alias("t"))
    empty = full.where("id < 0")
    when = Band("t", "t", 1, 1)
    without = BatchTable.build(empty, on="id", when=when)
    kept = 5 if how in ("left", "anti") else 0
    assert without.join(full, when=when, how=how).count() == kept
    assert BatchTable.build(full, on="id", when=when).join(empty, when=when, how=how).count() == 0


def test_a_large_fan_out_comes_in_pieces(spark: SparkSession) -> None:
    table = spark.range(3_000).select(F.lit(1).alias("k"), "id")
    stream = spark.range(200).select(F.lit(1).alias("k"), (F.col("id") * 10).alias("p"))
    when = Band("p", "id", 5_000, 5_000)
    joined = BatchTable.build(table, on="k", when=when).join(stream, when=when)
    assert joined.count() == 600_000


def test_very_many_intervals_that_match_come_in_pieces(spark: SparkSession) -> None:
    """Some pieces of the rows match entirely, some in a few rows, some not at all."""
    late = "id BETWEEN 9000 AND 19000 OR id % 5000 < 3"
    table = spark.range(30_000).selectExpr("id AS n", "id AS q", f"IF({late}, 40000, id) AS y")
    stream = spark.createDataFrame([(p,) for p in (0, 4_097, 29_999, 39_999, 40_000)], "p long")
    when = Within("p", "q", "y")
    joined = BatchTable.build(table, on=[], when=when).join(stream, [], when=when, how="left")
    expected = stream.join(table, F.expr("q <= p AND p < y"), "left")
    sums = [F.count(F.lit(1)), F.count_distinct("n"), F.sum("n")]
    found, wanted = (sorted(df.groupBy("p").agg(*sums).collect()) for df in (joined, expected))
    assert found == wanted
    assert max(row[1] for row in found) > 10_000
