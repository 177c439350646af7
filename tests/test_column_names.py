"""Every column name that Spark takes works wherever a name travels.

All names are columns of one wide table, since every build costs a Spark job.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import assert_same_rows, check, collected, expected, rows_of_all, together
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles

import bsjoin
from bsjoin import AsOf, Band, BatchTable, HotSpot, Incremental, Overlaps, Within
from bsjoin.errors import DuplicateKeyError

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

PUNCTUATED = [
    "", " ", "*", ".", "a.b", "a..b", "`", "a`b", "`a`", "``", "a,b", "a b", "a:b", "[]", '["a"]',
    "'", '"', "a\nb", "\\", "$a", "{x}", "%s", "#1", "a;b", "a=b", "a->b", "😀", "é", "(",
    "a#1L", "\u017f", "${env:HOME}", "`${user}` ${x", "$", "${}",
]  # fmt: skip
INTERNAL = [
    *(f"{letter}0" for letter in "skctrpd"), "s1", "k1", "c1", "h", "r1", "p1",
    "count", "first", "rows", "notes", "note", "answer", "column", "none", "partition", "col",
    "rows_in", "rows_out", "hits", "matches", "name", "pieces", "value", "key", "id", "_",
    *(f"__bsjoin_{name}" for name in ("answer", "note", "both", "piece", "none", "c0", "c1", "h")),
    *(f"__bsjoin_{name}" for name in ("route", "partition", "route_note", "ANSWER2")),
    *(f"bsjoin_{name}_" for name in ("answer", "note", "both", "piece", "row", "route", "found")),
    "bsjoin_clock__",
    "bsjoin_partition_", "c0_bsjoin_row_", "c0_bsjoin_row__", "bsjoin_answer___", "BSJOIN_NOTE__",
]  # fmt: skip
NAMES = [*PUNCTUATED, *INTERNAL]
SOME = ["count", "a.b", "a`b", "${env:HOME}", "", "😀", "__bsjoin_answer", "a\nb"]


def wide(df: DataFrame, names: list[str], *values: str) -> DataFrame:
    """The columns of ``values``, then one of each name: the value of ``n``, a little different."""
    columns = [(F.col("n") + i).alias(name) for i, name in enumerate(names)]
    return df.select(*values, *columns)


@pytest.fixture(scope="module")
def numbers(spark: SparkSession) -> DataFrame:
    """Keys 0 to 5 and null; key 1 twice, key 2 seventy times."""
    return spark.sql(
        "SELECT k, bigint(n) AS n FROM VALUES (0), (1), (2), (3), (4), (5), (null) AS t(k) "
        "LATERAL VIEW explode(sequence(1, CASE k WHEN 1 THEN 2 WHEN 2 THEN 70 ELSE 1 END)) AS n"
    ).coalesce(1)


@pytest.fixture(scope="module")
def probes(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT k, bigint(k) AS n FROM VALUES (1), (2), (3), (9), (null) AS t(k)")


@pytest.mark.parametrize("most", [1, pytest.param(70, marks=pytest.mark.long)])
def test_a_column_that_is_brought(numbers: DataFrame, probes: DataFrame, most: int) -> None:
    """Both sides have every name; keys with one row and with many are answered differently."""
    batch = wide(numbers.where(f"n <= {most}"), NAMES, "k")
    check(wide(probes, NAMES, "k"), batch, "k", hows=["left" if most == 1 else "inner"])


def test_a_key_of_another_name(numbers: DataFrame, probes: DataFrame) -> None:
    """Of half of the names; the others are keys of an incremental cache."""
    names = NAMES[1::2]
    on = dict(zip(names, reversed(names), strict=True))
    batch = wide(numbers.where("n <= 3"), names, "k").toDF("k", *reversed(names))
    check(wide(probes, names, "n"), batch, on, hows=["left"])


def test_a_duplicate_key_is_named(spark: SparkSession) -> None:
    for name, value in ((SOME[3], "1"), (SOME[4], "1"), ("k", "nan")):
        df = spark.sql(f"SELECT double('{value}') AS k FROM range(3)").toDF(name)
        with pytest.raises(DuplicateKeyError) as error:
            BatchTable.build(df, on=name, unique=True)
        assert f"occurs in 3 rows: {name}={float(value)}." in str(error.value)


def test_a_range_column(spark: SparkSession) -> None:
    key, p, x, q, y, n = "a.b", "a`b", "${env:HOME}", "__bsjoin_note", "k0", "r0"
    stream = spark.range(4).select(
        *(F.col("id").alias(name) for name in (key, p)), (F.col("id") + 2).alias(x)
    )
    table = spark.range(6).select(
        *(F.col("id").alias(name) for name in (n, q)), (F.col("id") + 2).alias(y)
    )
    intervals = BatchTable.build(table, on=[], when=Within(p, q, y))
    points = BatchTable.build(table, on=[], when=AsOf(p, q))
    results = {
        "within": intervals.join(stream, [], when=Within(p, q, y)),
        "overlaps": intervals.join(stream, [], when=Overlaps((p, x), (q, y)), how="left"),
        "band": points.join(stream, [], when=Band(p, q, 0, 1)),
        "asof": points.join(stream, [], when=AsOf(p, q, exact=False), how="left"),
        "semi": points.join(stream, [], when=Band(p, q, 0, 1), how="semi"),
    }
    assert results["band"].columns == [key, p, x, n, q, y]
    found = rows_of_all(results)
    wanted = {
        "within": [(s, t) for s in range(4) for t in range(6) if t <= s < t + 2],
        "overlaps": [(s, t) for s in range(4) for t in range(6) if s < t + 2 and t < s + 2],
        "band": [(s, t) for s in range(4) for t in (s, s + 1)],
        "asof": [(s, s - 1 if s else None) for s in range(4)],
        "semi": [(s, s) for s in range(4)],
    }
    for label, pairs in wanted.items():
        table_side = 3 if label != "semi" else 1
        columns = [found[label].column(i).to_pylist() for i in (0, table_side)]
        got = sorted(zip(*columns, strict=True), key=str)
        assert got == sorted(pairs, key=str), label


@pytest.mark.long
def test_an_incremental_cache(spark: SparkSession, tmp_path: Path) -> None:
    keys, brought = NAMES[::2], NAMES[1::2]
    columns = {name: pa.array([i, i + 1, i + 1], pa.int64()) for i, name in enumerate(keys)}
    columns |= {name: pa.array([f"v{i}", None, "w"]) for i, name in enumerate(brought)}
    stored = pa.table(columns)
    source = Model(tmp_path / "model", stored)
    stream = spark.range(4).select(
        *((F.col("id") + i).alias(name) for i, name in enumerate(keys)),
        *(F.lit(1).alias(name) for name in brought),
    )
    batch = spark.createDataFrame(stored.rename_columns([f"x{i}" for i in range(len(NAMES))]))
    batch = batch.toDF(*stored.column_names)
    cache = Incremental(max_rows=100)
    joined = bsjoin.join(stream, source, keys, how="left", cache=cache)
    assert_same_rows(collected(joined), collected(expected(stream, batch, keys, "left")))
    when = AsOf(brought[0], keys[-1])
    asof = bsjoin.join(stream, source, keys[:-1], when=when, cache=cache, select=[keys[-1]])
    assert asof.count() == 0


@pytest.mark.long
def test_figures_name_the_keys(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """A stream that is sent to partitions and joined in three ways, each with its own plan."""
    keys = pa.table({name: pa.array([i + 1], pa.int64()) for i, name in enumerate(SOME)})
    source = Model(tmp_path / "model", keys.append_column("v", pa.array(["x"])))
    table = spark.range(1, 2).select(
        *((F.col("id") + i).alias(name) for i, name in enumerate(SOME)),
        F.lit("x").alias("v"),
    )
    built = BatchTable.build(table, on=SOME)
    ranged = BatchTable.build(table, on=SOME[1:], when=AsOf(SOME[0], SOME[0]))
    joins = {
        "full": lambda df: built.join(df, partition=HotSpot(partitions=2)),
        "range": lambda df: ranged.join(df, when=AsOf(SOME[0], SOME[0]), select=["v"]),
        "incremental": lambda df: bsjoin.join(
            df, source, SOME, cache=Incremental(max_rows=9), select=["v"]
        ),
    }

    def all_joins(df: DataFrame) -> DataFrame:
        stream = wide(df, SOME)
        return together({how: join(stream) for how, join in joins.items()})

    feed.add(1, 2, None, 7)
    results = all_joins(feed.stream.withColumn("n", F.col("k")))
    # A metric of the user's that begins like ours is none of them.
    query = feed.run(results.observe("bsjoin:mine", F.count(F.lit(1)).alias("n")))
    full, by_range, incremental = cycles(query)
    assert len(feed.results[0]) == 3
    assert [c.on for c in (full, incremental)] == [tuple(SOME)] * 2
    assert by_range.on == (*SOME[1:], SOME[0])
    assert [c.hits for c in (full, by_range, incremental)] == [1, 1, 1]
    assert [c.rows_in for c in (full, by_range, incremental)] == [4, 4, 4]
    assert sum(full.partition.rows) == 4
    assert {row[0] for row in feed.results[0]} == set(range(len(joins)))
