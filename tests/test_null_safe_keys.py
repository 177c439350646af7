"""``nulls_equal=``: keys in which null equals null, beside what the fuzz draws.

It holds every type of keys, every condition and both caches against Spark's ``eqNullSafe``.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import one_part, rows_of_all
from page_reader import PageReader
from plain_joins import lookups, plain, plan_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, rows, values_of
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import Band, BatchTable, Full, HotSpot, Incremental, sources
from bsjoin.errors import ArgumentError, ColumnError, TableMismatchError

pytestmark = pytest.mark.usefixtures("without_code")

ROOMY = Incremental(max_rows=100_000)


def _left_and_right(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    left = [
        {"n": n, "k": k, "s": s}
        for n, (k, s) in enumerate(itertools.product([None, 0, 1, 9], [None, "a"]))
    ]
    keys = [(None, None), (None, "a"), (0, None), (0, ""), (1, "a"), (1, None)]
    there = [{"k": k, "s": s, "v": v} for v, (k, s) in enumerate(keys)]
    return one_part(spark, pa.Table.from_pylist(left)), one_part(spark, pa.Table.from_pylist(there))


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["few", "every"]
)
def test_plain_joins_and_filters_of_a_stored_table(
    spark: SparkSession, tmp_path: Path, every: bool
) -> None:
    """The index answers ``<=>``, in SQL and in DataFrames, where it has the rows with null keys."""
    left, there = _left_and_right(spark)
    for name, safe in {"safe": ["k", "s"], "half": ["s"], "none": []}.items():
        BatchTable.build(there, on=["k", "s"], nulls_equal=safe, path=tmp_path / name)
        plain(spark, tmp_path / name).createOrReplaceTempView(f"t_{name}")
    left.createOrReplaceTempView("l")
    there.createOrReplaceTempView("own")
    queries = {
        "l {join} {t} r ON l.k <=> r.k AND l.s IS NOT DISTINCT FROM r.s": ("safe",),
        "l {join} {t} r ON l.k = r.k AND l.s <=> r.s": ("safe", "half"),
        "l {join} {t} r ON l.k = r.k AND l.s = r.s": ("safe", "half", "none"),
        "l {join} {t} r ON l.k = r.k AND (l.s = r.s OR (l.s IS NULL AND r.s IS NULL))": (
            "safe",
            "half",
        ),
        "l {join} {t} r ON l.k <=> r.k AND l.s <=> r.s AND r.s IS NOT NULL": ("safe",),
    }
    ours: dict[Any, DataFrame] = {}
    own: dict[Any, DataFrame] = {}
    try:
        kinds = ("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        for number, (text, found) in enumerate(queries.items()):
            # The first table meets two kinds of joins, each of the others one; or all meet one.
            few = ("safe", ("none", "half")[number % 2])
            for place, name in enumerate(("safe", "half", "safe", "none") if every else few):
                kind = kinds[(number + place // 2) % 4]
                brought = ", r.v" if kind in ("JOIN", "LEFT JOIN") else ""
                select = f"SELECT l.*{brought} FROM "
                if (text, kind) not in own:
                    own[text, kind] = spark.sql(select + text.format(join=kind, t="own"))
                query = spark.sql(select + text.format(join=kind, t=f"t_{name}"))
                assert (lookups(query) == 1) == (name in found), (text, name, plan_of(query))
                ours[text, kind, name] = query
        wheres = ("k = 0 AND s <=> 'a'", "k IS NULL AND s IS NULL", "k IN (0, NULL) AND s = ''",
                  "k <=> NULL", "(k, s) NOT IN (SELECT k, s FROM l WHERE n > 6)")  # fmt: skip
        for number, where in enumerate(wheres):
            own[where, ""] = spark.sql(f"SELECT k, s, v FROM own WHERE {where}")
            for name in ("safe", ("half", "none")[number % 2])[: 1 + every]:
                ours[where, "", name] = spark.sql(f"SELECT k, s, v FROM t_{name} WHERE {where}")
        in_list = "SELECT n, k, s FROM l WHERE k NOT IN (SELECT k FROM {} WHERE v > 1)"
        own["NOT IN", ""] = spark.sql(in_list.format("own"))
        ours["NOT IN", "", "safe"] = spark.sql(in_list.format("t_safe"))
        wanted = values_of(own)
        for (text, kind, name), told in values_of(ours).items():
            assert told == wanted[text, kind], (text, kind, name)
    finally:
        for name in ("l", "own", "t_safe", "t_half", "t_none"):
            spark.catalog.dropTempView(name)


@pytest.mark.in_turns("runtime")
@pytest.mark.long
def test_chains_routes_indicators_and_versions(
    spark: SparkSession, runtime: str, tmp_path: Path
) -> None:
    left, there = _left_and_right(spark)
    every = there.selectExpr("k", "s", "v", "v * 0.5D AS at")
    safe: Any = {"nulls_equal": True}
    table = BatchTable.build(every, on=["k", "s"], path=tmp_path / "t", unique=True, **safe)
    assert (table.stats().rows, table.stats().keys, table.stats().unindexed) == (6, 6, 0)
    # The key of the second join is a column of the first, and is null without a match there.
    chained = table.join(left, how="left", select=["v"], **safe)
    parts = every.selectExpr("nullif(v, 4) AS v", "at")
    chained = bsjoin.join(chained, parts, "v", "left", **safe)
    assert rows(chained.select("n", "v", "at")) == [
        (0, 0, 0.0), (1, 1, 0.5), (2, 2, 1.0), (3, None, 2.0), (4, 5, 2.5), (5, 4, None),
        (6, None, 2.0), (7, None, 2.0),
    ]  # fmt: skip
    # All keys may be null, and no column of the table tells a match from none.
    marked = table.join(left, how="left", select=[], indicator="found", **safe)
    assert rows(marked.where("found").select("n")) == [(0,), (1,), (2,), (4,), (5,)]
    checked = bsjoin.join(left, every, ["k", "s"], "left", select=[], where="at < 2",
                          indicator="found", **safe)  # fmt: skip
    assert rows(checked.where("found").select("n")) == [(0,), (1,), (2,)]
    hot = left.union(left.where("k IS NULL")).union(left.where("k IS NULL"))
    for how, wanted in (("inner", 3 * 2 + 3), ("anti", 3)):
        found = table.join(hot, how=how, partition=HotSpot(partitions=3, sample=100), **safe)
        assert found.count() == wanted, how
    # As it is refreshed, with a null key more, and opened again.
    more = every.union(spark.sql("SELECT 9L, cast(NULL AS string), 9L, 0D"))
    assert table.refresh(more) == 2
    opened = BatchTable.open(tmp_path / "t")
    reader = PageReader(tmp_path / "t")  # which was written from the specification alone
    for v, key in enumerate([(None, None), (None, b"a"), (0, None), (0, b""), (1, b"a")]):
        assert reader.find(list(key), [], "v") == [v]
    assert reader.find([1, b""], [], "v") == reader.find([None, b""], [], "v") == []
    assert rows(opened.join(left, select=["v"], **safe).where("k = 9").select("n", "v")) == [(6, 9)]
    assert opened.join(left).count() == 1
    change = spark.sql("SELECT cast(NULL AS long) k, cast(NULL AS string) s, 70L v, 3.5D at")
    with pytest.raises(ArgumentError, match="null in 'k', which tells rows apart"):
        opened.apply(change)


@pytest.mark.long
def test_hot_keys_are_named_with_their_nulls(spark: SparkSession, feed: Feed) -> None:
    feed.add(*[0, 1, 2] * 400)
    stream = feed.stream.selectExpr("IF(k = 1, 'a', NULL) AS k", "IF(k = 0, 'a', NULL) AS s")
    table = spark.sql("SELECT cast(NULL AS string) AS k, 'a' AS s, 1 AS v")
    options = HotSpot(partitions=2, sample=500)
    joined = bsjoin.join(stream, table, ["k", "s"], nulls_equal=True, partition=options)
    (cycle,) = cycles(feed.run(joined))
    assert {name for name, _ in cycle.partition.hottest} == {"null,a", "a,null", "null,null"}


@pytest.mark.parametrize(
    "names",
    [["table", "parquet"], pytest.param(["query", "function"], marks=pytest.mark.long)],
    ids=["two", "others"],
)
def test_databases_files_and_functions_find_null_keys(
    spark: SparkSession, tmp_path: Path, names: list[str]
) -> None:
    left, there = _left_and_right(spark)
    held = pa.table({"k": [None, None, 0, 0, 1, 1], "s": [None, "a", None, "", "a", None],
                     "v": pa.array(range(6))})  # fmt: skip
    values = zip(*(column.to_pylist() for column in held.columns), strict=True)
    url = in_sqlite(tmp_path / "db", "CREATE TABLE t (k bigint, s text, v bigint)", values)
    there.coalesce(1).write.parquet(str(tmp_path / "files"))
    kinds = {
        "table": sources.sql(url, table="t", unique=True),
        "query": sources.sql(url, query="SELECT * FROM t"),
        "parquet": sources.parquet(str(tmp_path / "files")),
        "function": sources.function(lambda keys: held, held.schema),
    }
    joined = {
        (kind, *safe): bsjoin.join(
            left, kinds[kind], ["k", "s"], "left", nulls_equal=list(safe), cache=ROOMY
        )
        for kind in names
        for safe in ("ks", "s")
    }
    both = [(0, 0), (1, 1), (2, 2), (3, None), (4, 5), (5, 4), (6, None), (7, None)]
    half = [(0, None), (1, None), *both[2:]]
    for name, found in rows_of_all({n: df.select("n", "v") for n, df in joined.items()}).items():
        pairs = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert pairs == (both if len(name) == 3 else half), name


@pytest.mark.long
def test_a_stream_over_versions_and_invalidated_keys(
    tmp_path: Path, spark: SparkSession, feed: Feed
) -> None:
    there = pa.table({"k": pa.array([None, 1], pa.int64()), "v": [1, 2]})
    changed = pa.table({"k": pa.array([None, 1], pa.int64()), "v": [5, 2]})
    table = BatchTable.build(spark.createDataFrame(there), on="k", nulls_equal=True)
    source = Model(tmp_path / "model", there)
    source.takes_null_keys = True
    joined = table.join(feed.stream, how="left", nulls_equal=["k"])
    joined = bsjoin.join(joined, source, "k", "left", nulls_equal=True, cache=ROOMY)
    query = feed.run(joined, None, 1, 7)
    source.put(changed)
    source.invalidate([None])
    table.refresh(spark.createDataFrame(changed))
    feed.turn(query, None, 7, None)
    assert feed.results[0] == [(None, 1, 1), (1, 2, 2), (7, None, None)]
    assert feed.results[1] == [(None, 5, 5), (None, 5, 5), (7, None, None)]
    # A key without rows is remembered, and a null key is asked for as any other.
    assert source.times == {"None": 2, 1: 1, 7: 1}


def test_what_is_wrong_is_said_at_the_call(spark: SparkSession, tmp_path: Path) -> None:
    left, there = _left_and_right(spark)
    built = BatchTable.build(there, on=["k", "s"], nulls_equal=["s"], path=tmp_path / "t")
    ours = there.withColumnRenamed("v", "bsjoin_null_keys")
    source = Model(tmp_path / "model", pa.table({"k": [1], "v": [1]}))
    reserved = there.withColumn("bsjoin_null_keys", F.lit(1))
    stored = Full(store=tmp_path / "t")
    for call, error, text in (
        (lambda: built.refresh(reserved), ColumnError, "Rename it"),
        (lambda: bsjoin.join(left, reserved, ["k", "s"], cache=stored), ColumnError, "Rename it"),
        (lambda: built.join(left, nulls_equal=True), TableMismatchError, r"for \['k'\]"),
        (lambda: built.join(left, nulls_equal=["x"]), ColumnError, "'x' is no key of this join"),
        (lambda: built.join(left, nulls_equal="k"), ArgumentError, "nulls_equal='k'"),
        (lambda: built.join(left, nulls_equal=1), ArgumentError, "nulls_equal=1"),
        (lambda: BatchTable.build(there, on="k", nulls_equal=["v"]), ColumnError, "is no key"),
        (lambda: bsjoin.join(left, ours, "k", nulls_equal=True), ColumnError, "Rename it"),
        (lambda: BatchTable.build(ours, on="k", nulls_equal=True), ColumnError, "Rename it"),
        (
            lambda: bsjoin.join(left, source, "k", nulls_equal=True, cache=ROOMY),
            ArgumentError,
            "takes_null_keys",
        ),
        (
            lambda: BatchTable.build(there, on=["k", "s"], path=tmp_path / "t"),
            TableMismatchError,
            r"built with nulls_equal=\['s'\], not \[\]",
        ),
        (
            lambda: bsjoin.join(left, there, ["k", "s"], cache=stored, nulls_equal=["k"]),
            TableMismatchError,
            "without nulls_equal",
        ),
        (
            lambda: bsjoin.join(left, there, [], when=Band("n", "v", before=1, after=1),
                                nulls_equal=True),
            ArgumentError,
            "there are no keys",
        ),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()
    kept = bsjoin.join(left, there, ["k", "s"], cache=stored)
    assert kept.count() == 1
