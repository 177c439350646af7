"""Range joins with a source: the rows of a key are asked for, ordered and cached as one entry."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import rows_of_all
from pyspark.sql import SparkSession
from range_oracle import matching
from spark_samples import write_parquet
from test_incremental_oracle import frame
from test_oracle_ranges import VALUES, WIDTHS, is_right, sample, two_of_four

import bsjoin
from bsjoin import AsOf, Band, Incremental, Overlaps, Within
from bsjoin.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("interpreted")

_numbers = itertools.count()

ROOMY = Incremental(max_rows=100_000)
TYPES = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,2)": pa.decimal128(38, 2),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
}
TEXTS = ["", "a", "ab", "abcdefgh", "abcdefghi", "b", "ü", "z"]


def values_of(kind: str) -> list[Any]:
    return TEXTS if kind == "string" else VALUES[kind.replace("38", "10")]


def rows_of(kind: str, seed: str, many: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    if kind != "string":
        return sample(kind.replace("38", "10"), chance, many)
    some = [None, *TEXTS, *TEXTS]
    return [
        {"k": chance.choice([None, 1, 2, 3]), "a": chance.choice(some), "b": chance.choice(some)}
        for _ in range(many)
    ]


def table_of(rows: list[dict[str, Any]], names: str, kind: str) -> pa.Table:
    one, two = names.split()
    dtype = TYPES[kind]
    return pa.table(
        {
            "n": pa.array(range(len(rows)), pa.int32()),
            "k": pa.array([row["k"] for row in rows], pa.int32()),
            one: pa.array([row["a"] for row in rows], dtype),
            two: pa.array([row["b"] for row in rows], dtype),
        }
    )


def held_against_a_loop(
    spark: SparkSession, folder: Path, kind: str, *whens: Any, cache: Incremental = ROOMY
) -> None:
    """Hold joins with a source of its own for each condition against a nested loop."""
    stream_rows, table_rows = rows_of(kind, f"s {whens}", 40), rows_of(kind, f"t {whens}", 60)
    stream = frame(spark, table_of(stream_rows, "p x", kind)).withColumnRenamed("n", "s")
    table = table_of(table_rows, "q y", kind)
    left = [{"k": r["k"], "p": r["a"], "x": r["b"]} for r in stream_rows]
    right = [{"k": r["k"], "q": r["a"], "y": r["b"]} for r in table_rows]
    sources = [Model(folder / str(next(_numbers)), table, max_keys=2) for _ in whens]
    results = {
        (number, how): bsjoin.join(
            stream, sources[number], "k", when=when, how=how, cache=cache
        ).select("s", *(["n"] if how in ("inner", "left") else []))
        for number, when in enumerate(whens)
        for how in two_of_four(kind, number)
    }
    found = rows_of_all(results)
    for number, when in enumerate(whens):
        by_how = {how: found[number, how] for how in two_of_four(kind, number)}
        is_right(by_how, matching(left, right, ["k"], when), when)


def conditions(kind: str) -> list[Any]:
    found: list[Any] = [
        Within("p", "q", "y"),
        Overlaps(("p", "x"), ("q", "y"), closed="both"),
        AsOf("p", "q", exact=False),
        AsOf("p", "q", "forward"),
    ]
    if kind != "string":
        before, after = WIDTHS[kind.replace("38", "10")]
        found += [Band("p", "q", before, after)]
        if kind not in ("double", "float"):
            found += [AsOf("p", "q", "nearest", tolerance=before)]
    return found


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_and_condition(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    chosen = conditions(kind)
    if kind in ("double", "float"):
        chosen = chosen[:1] + chosen[4:]  # the loop does not order NaN for as-of
    if kind not in ("bigint", "string", "decimal(38,2)"):
        chosen = chosen[::2]
    held_against_a_loop(spark, tmp_path, kind, *chosen)


@pytest.mark.parametrize(
    "cache",
    [Incremental(max_rows=1), Incremental(max_bytes="4 KiB"), Incremental(max_rows=50)],
    ids=["one row", "4 KiB", "one group"],
)
def test_a_cache_that_holds_less_than_it_should(
    spark: SparkSession, tmp_path: Path, cache: Incremental
) -> None:
    whens = Band("p", "q", 3, 3), Within("p", "q", "y"), AsOf("p", "q")
    held_against_a_loop(spark, tmp_path, "int", *whens, cache=cache)


def test_a_stream_queries_each_group_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "k": pa.array([1] * 50 + [2] * 3, pa.int64()),
            "q": pa.array([*range(49, -1, -1), 7, 7, None], pa.int64()),
            "v": pa.array([f"v{n}" for n in range(53)]),
        }
    )
    source = Model(tmp_path / "source", rows)
    arriving = tmp_path / "in"
    arriving.mkdir()
    stream = spark.readStream.schema("k bigint, p bigint").parquet(str(arriving))
    when = Band("p", "q", 1, 0)
    joined = bsjoin.join(stream, source, "k", when=when, how="left", select=["v"], cache=ROOMY)
    query = joined.writeStream.format("memory").queryName("groups").start()
    try:
        for batch in ([(1, 10), (2, 7), (3, 1)], [(1, 0), (1, 99), (2, 8), (3, 2), (None, 1)]):
            keys, points = zip(*batch, strict=True)
            columns = {"k": pa.array(keys, pa.int64()), "p": pa.array(points, pa.int64())}
            write_parquet(arriving / f"{len(batch)}.parquet", **columns)
            query.processAllAvailable()
        found = [tuple(row) for row in spark.table("groups").collect()]
        told = bsjoin.progress(query)
    finally:
        query.stop()
    assert Counter(found) == Counter(
        [
            (1, 10, "v39"), (1, 10, "v40"), (2, 7, "v50"), (2, 7, "v51"), (3, 1, None),
            (1, 0, "v49"), (1, 99, None), (2, 8, "v50"), (2, 8, "v51"), (3, 2, None),
            (None, 1, None),
        ]
    )  # fmt: skip
    assert source.times == {1: 1, 2: 1, 3: 1}
    first, second = (cycle for cycle in told if cycle.rows_in)
    assert (first.mode, first.table_version) == ("incremental", None)
    assert (first.rows_in, first.rows_out, first.hits, first.matches) == (3, 5, 2, 4)
    assert (second.rows_in, second.rows_out, second.hits, second.matches) == (5, 6, 2, 3)
    assert first.cache is not None
    assert (first.cache.misses, first.cache.keys_queried) == (3, 3)
    assert second.cache is not None
    assert (second.cache.hits, second.cache.negative_hits, second.cache.misses) == (3, 1, 0)
    assert second.cache.rows == 50 + 2 + 1  # the row without a point is not kept


def test_of_equal_rows_the_same_one_is_taken_whenever_they_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = spark.sql("SELECT 1L AS k, 5L AS p")
    taken = set()
    for turn, order in enumerate(itertools.permutations(["a", "b", None])):
        rows = {"k": [1, 1, 1], "q": [5, 5, 5], "v": list(order), "w": [[v] for v in order]}
        source = Model(tmp_path / str(turn), pa.table(rows))
        joined = bsjoin.join(stream, source, "k", when=AsOf("p", "q"), cache=ROOMY)
        taken |= {str(row) for row in joined.collect()}
    assert len(taken) == 1


def test_a_pure_range_join_needs_the_table_whole(spark: SparkSession, tmp_path: Path) -> None:
    source = Model(tmp_path / "source", pa.table({"q": [1]}))
    with pytest.raises(ArgumentError, match=r"alone has none.*bsjoin.Full"):
        bsjoin.join(spark.range(1), source, [], when=AsOf("id", "q"), cache=ROOMY)
