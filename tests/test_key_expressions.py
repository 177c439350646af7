"""Keys that are expressions of the stream: as by Spark's own join, without a new column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import assert_same_rows, right_rows, rows_of_all
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, rows
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import AsOf, BatchTable, Full, HotSpot, Incremental, sources
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError, SourceError
from bsjoin.planner.arguments import JoinCall

pytestmark = pytest.mark.usefixtures("without_code")

TEXTS = [None, "", "a", "A", "ä", "Ä", "ǆ", "a ", "É"]


def people(spark: SparkSession) -> DataFrame:
    found = [(text, number) for number, text in enumerate([*TEXTS, "a"])]
    return spark.createDataFrame(found, "name string, v int")


def streamed(spark: SparkSession) -> DataFrame:
    draws = [(n, t, None if n % 7 == 6 else n / 2) for n, t in enumerate(TEXTS * 2)]
    return spark.createDataFrame(draws, "id int, name string, x double")


@pytest.mark.in_turns("runtime", others="long")
@pytest.mark.usefixtures("runtime")
def test_rows_are_those_of_sparks_own_join(spark: SparkSession, tmp_path: Path) -> None:
    stream, table = streamed(spark), people(spark)
    numbers = table.selectExpr("CAST(v AS short) AS n", "name AS shown", "v")
    lower, whole = F.lower("name"), F.ceil(F.col("x") / 2)
    folder = tmp_path / "t"
    built = BatchTable.build(numbers, on=["n", "shown"], path=folder)
    by_name = BatchTable.build(table, on="name")
    ours, own = {}, {}
    how: Any
    for how in ("inner", "anti"):
        ours[f"text {how}"] = by_name.join(stream, [(lower, "name")], how)
        own[f"text {how}"] = by_spark(stream, table, F.lower(stream["name"]) == table["name"], how)
    # A name beside an expression, and the keys in another order than the table's.
    ours["two"] = built.join(stream, [("name", "shown"), (whole, "n")], "left")
    equal = (stream["name"] == numbers["shown"]) & (F.ceil(stream["x"] / 2) == numbers["n"])
    own["two"] = by_spark(stream, numbers, equal, "left")
    alike = [(F.col("name").alias("key"), "shown"), (whole.alias("KEY"), "n")]
    ours["alike"], own["alike"] = built.join(stream, alike, "left"), own["two"]
    hot = by_name.join(stream, [(lower, "name")], partition=HotSpot(partitions=2, sample=100))
    ours["routed"], own["routed"] = hot, own["text inner"]
    for name, df in ours.items():
        assert df.columns == own[name].columns, name
        assert df.columns in (["id", "name", "x"], ["id", "name", "x", "v"]), name
    expected = right_rows(own)
    for name, found in rows_of_all(ours).items():
        assert_same_rows(found, expected[name], name)


def by_spark(stream: DataFrame, table: DataFrame, equal: Column, how: str) -> DataFrame:
    joined = stream.join(table, equal, {"semi": "left_semi", "anti": "left_anti"}.get(how, how))
    brought = [] if how in ("semi", "anti") else [table["v"]]
    return joined.select(*(stream[name] for name in stream.columns), *brought)


@pytest.mark.long
def test_sources_ranges_and_references(spark: SparkSession, tmp_path: Path) -> None:
    stream, lower = streamed(spark), F.lower("name")
    url = in_sqlite(tmp_path / "db", "CREATE TABLE p (name text, v int)", [("a", 1), ("é", 2)])
    source = sources.sql(url, table="p")
    for cache in (Incremental(max_rows=10), Full()):
        joined = bsjoin.join(stream.alias("s"), source, [(lower, "name")], cache=cache)
        found = set(rows(joined.select(stream["id"], "s.name", "v")))
        small = {(2, "a", 1), (11, "a", 1), (3, "A", 1), (12, "A", 1)}
        assert found == small | {(8, "É", 2), (17, "É", 2)}
    # In a condition the table's key is the table's.
    where = "v > id AND name_batch < 'b' AND name = 'A'"
    joined = bsjoin.join(stream, people(spark), [(lower, "name")], where=where)
    assert joined.columns == ["id", "name", "x", "v"]
    assert set(rows(joined.select("id", "v"))) == {(3, 9)}
    when = AsOf("x", "v")
    table = people(spark).selectExpr("name", "double(v) AS v")
    joined = bsjoin.join(stream, table, [(lower, "name")], when=when)
    found = set(rows(joined.select("id", "v")))
    assert found == {(10, 1), (11, 2), (12, 2), (14, 4), (15, 6), (16, 7)}


@pytest.mark.usefixtures("runtime")
@pytest.mark.in_turns("runtime")
def test_streams_and_cycles(spark: SparkSession, feed: Feed) -> None:
    table = spark.range(4).selectExpr("id AS k", "id * 10 AS v")
    half, kept = [(F.expr("k DIV 2"), "k")], []
    query = feed.start(bsjoin.join(feed.stream, table, half, cache=Full(fingerprint="1")))
    for keys in ((0, 3, 99, None), (5,)):
        feed.turn(query, *keys)
    assert [feed.results[n] for n in (0, 1)] == [[(0, 0), (3, 10)], [(5, 20)]]
    steered = bsjoin.cycles(table, half, sink=lambda rows_, _: kept.append(rows(rows_)))
    steered(spark.createDataFrame([(5,), (7,)], "k long"), 0)
    assert kept == [[(5, 20), (7, 30)]]


def test_what_is_no_key_is_refused_at_the_call(spark: SparkSession) -> None:
    stream, table = streamed(spark), people(spark)
    one, same = ([(F.lower("name"), "name")] for _ in "12")
    assert JoinCall(on=one) == JoinCall(on=same)
    with pytest.raises(ColumnError, match=r"neither side has a column 'lower\(name\)_'"):
        bsjoin.join(stream, table, one, where="`lower(name)_` > ''")
    for on, error, text in (
        ([(F.lower("nobody"), "name")], ArgumentError, "nobody"),
        ([(F.explode(F.split("name", "")), "name")], ArgumentError, "of one row each"),
        ([(F.max("name"), "name")], ArgumentError, "of one row each"),
        ([F.lower("name")], ArgumentError, "neither a column's name nor a pair"),
        ((F.lower("name"), "name"), ArgumentError, "neither a column's name nor a pair"),
        ([(F.length("name"), "name")], KeyTypeError, r"'length\(name\)_' \(int\)"),
    ):
        with pytest.raises(error, match=text):
            bsjoin.join(stream, table, on)


def test_a_source_is_asked_for_its_columns_again(spark: SparkSession, tmp_path: Path) -> None:
    asked: list[int] = []

    class Away(Model):
        @property
        def schema(self) -> pa.Schema:
            asked.append(1)
            if len(asked) == 1:
                lost = SourceError("the connection was lost")
                lost.is_transient = True
                raise lost
            return super().schema

    source = Away(tmp_path / "model", pa.table({"name": ["a"], "v": [1]}))
    cache = Incremental(max_rows=10, backoff="1 ms")
    on = [(F.lower("name"), "name")]
    assert bsjoin.join(streamed(spark), source, on, cache=cache).columns[3:] == ["v"]
