"""Aggregates of a band: what Spark has of the same rows after the join, and one row per row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sessions
from cache_samples import Model
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, rows
from test_asof_ties import CACHED

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Hash
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError
from bsjoin.runtimes.python.worker import aggregating

NUMBERS = {
    "b": "tinyint",
    "h": "smallint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "c": "decimal(7,2)",
    "e": "decimal(18,4)",
    "o": "decimal(18,18)",
}
TIMES = {
    "dt": "date",
    "ts": "timestamp",
    "nt": "timestamp_ntz",
    "iv": "interval day to second",
}
AGG = {
    "n": "count(*)",
    **{
        f"{function}_{name}": f"{function}({name})"
        for name in NUMBERS
        for function in ("count", "sum", "min", "max", "avg")
    },
    **{
        f"{function}_{name}": f"{function}({name})" for name in TIMES for function in ("min", "max")
    },
    "min_w": "MIN( w )",
    "max_w": "max(W)",
    "avg_w": "avg(`w`)",
    "count_t": "count(t)",
    "sum_l2": "sum(l)",
    "min_q": "min(q)",
}
"""Every function over every type, in several spellings; of ``w`` a sum has no room."""
FEW = ("n", "sum_b", "sum_d", "avg_e", "min_f", "max_ts", "count_t", "avg_i")
MANY = 3_000


def table_of(spark: SparkSession) -> DataFrame:
    """A key with most of the rows, some with few, one with nulls alone; duplicate points."""
    u = "pmod(xxhash64(id, {}), {})".format
    columns = {
        "k": f"CASE WHEN id < 2300 THEN 1 WHEN id < 2900 THEN {u(0, 9)} WHEN id < 2995 THEN 77 END",
        "q": f"IF({u(1, 50)} = 0, NULL, {u(2, 3000)})",
        "b": u(3, 256) + " - 128",
        "h": u(4, 65536) + " - 32768",
        "i": "int(xxhash64(id, 5) % 2147483648)",
        "l": "xxhash64(id, 6) DIV 8192",
        "w": "element_at(array(9223372036854775807L, -9223372036854775808L, 0L, id), "
        f"1 + int({u(7, 4)}))",
        "f": f"IF({u(8, 900)} = 0, float('NaN'), float({u(9, 1000)} / 8 - 60))",
        "d": f"CASE {u(10, 700)} WHEN 0 THEN double('NaN') WHEN 1 THEN double('-Infinity') "
        f"WHEN 2 THEN -0.0D ELSE {u(11, 100000)} / 7 - 5000 END",
        "c": f"decimal({u(12, 19_999_999)} / 100 - 99999.99)",
        "e": "xxhash64(id, 13) % 999999999999999999 / 10000bd",
        "o": "xxhash64(id, 14) % 999999999999999999 / 1000000000000000000bd",
        "dt": f"date_add(date'1970-01-01', int({u(15, 40000)} - 20000))",
        "ts": "timestamp_micros(xxhash64(id, 16) DIV 1000)",
        "nt": "timestamp_ntz'1900-01-01 00:00:00' + "
        f"make_dt_interval({u(17, 90000)}, 0, 0, 0.000001)",
        "iv": f"make_dt_interval({u(18, 2000)} - 1000, 0, 0, 0.5)",
        "t": f"repeat('x', int({u(19, 500)}))",
    }
    types = {"k": "bigint", "q": "bigint", "w": "bigint", "t": "string", **NUMBERS, **TIMES}
    made = spark.range(MANY, numPartitions=3)
    never_null = ("k", "q", "l", "e", "dt")
    nulls = {
        name: text if name in never_null else f"IF(k = 77 OR {u(name_number, 5)} = 0, NULL, {text})"
        for name_number, (name, text) in enumerate(columns.items(), 100)
    }
    rows = made.selectExpr("id", f"bigint({columns['k']}) AS k")
    rows = rows.selectExpr(
        "*",
        *(
            f"CAST({text} AS {types[name]}) AS {name}"
            for name, text in nulls.items()
            if name != "k"
        ),
    )
    return rows.drop("id")


def stream_of(spark: SparkSession) -> DataFrame:
    """Points before, among and behind the table's; null keys and points, keys without rows."""
    return spark.sql(
        "SELECT id AS s, CASE id % 5 WHEN 0 THEN id DIV 5 % 12 WHEN 1 THEN 77 WHEN 2 THEN NULL "
        "ELSE 1 END AS k, IF(id % 11 = 0, NULL, id * 23 - 60) AS p FROM range(140)"
    )


def expected(stream: DataFrame, table: DataFrame, holds: str, agg: Mapping[str, str]) -> DataFrame:
    """Spark's own: the join, and the aggregates of its pairs."""
    pairs = stream.alias("s").join(
        table.withColumn("one", F.lit(1)).alias("t"), F.expr(holds), "left"
    )
    # Spark adds up integers in double for their average, and loses digits that bsjoin has.
    exact = "double(sum(CAST(w AS decimal(20,0)))) / count(w)"
    spelt = {"count(*)": "count(one)", "avg(`w`)": exact, "avg(w)": exact}
    calls = [F.expr(spelt.get(text, text)).alias(name) for name, text in agg.items()]
    return pairs.groupBy("s.s").agg(*calls)


def rows_of(results: dict[str, DataFrame]) -> dict[str, dict[int, dict[str, Any]]]:
    """The rows of results with the same columns, by the row of the stream, which each has once."""
    (first, *others) = (rows.withColumn("of", F.lit(name)) for name, rows in results.items())
    whole = first
    for one in others:
        whole = whole.unionByName(one)
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in results}
    for row in whole.toArrow().to_pylist():
        of, s = row.pop("of"), row.pop("s")
        assert s not in found[of], (of, s)
        found[of][s] = row
    return found


def check(got: dict[int, dict[str, Any]], wanted: dict[int, dict[str, Any]], how: str) -> None:
    """Equal; sums of doubles up to the order of the terms."""
    there = {s: row for s, row in wanted.items() if how == "left" or row["n"]}
    assert got.keys() == there.keys()
    for s, row in there.items():
        for name, value in row.items():
            mine = got[s][name]
            if isinstance(value, float) and not math.isnan(value):
                assert mine == pytest.approx(value, rel=1e-12, abs=1e-9), (s, name)
            elif isinstance(value, float):
                assert math.isnan(mine), (s, name)
            else:
                assert (mine, type(mine)) == (value, type(value)), (s, name)


def columns(stream: DataFrame, joined: DataFrame) -> DataFrame:
    assert joined.columns[: len(stream.columns)] == stream.columns
    return joined.drop("k", "p")


def test_the_aggregates_are_those_that_spark_has_of_the_joined_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one segment and of several, of a table without keys, and of a cache."""
    table, stream = table_of(spark).localCheckpoint(), stream_of(spark).localCheckpoint()
    every = Band("p", "q", 700, 60, agg=AGG)
    some = partial(Band, "p", "q", agg={name: AGG[name] for name in FEW})
    keyed = partial(bsjoin.join, stream, on="k")
    ways = [
        ("s.k = t.k AND q > p - 2 AND q < p + 150", some(2, 150, "neither")),
        ("s.k = t.k AND q <= p + 5", some(math.inf, 5)),
        ("q >= p - 90 AND q < p - 3", some(90, -3, "left")),
    ]
    right = {
        f"{number}": expected(stream, table, holds, dict(when.agg))
        for number, (holds, when) in enumerate(ways)
    }
    of_every = expected(stream, table, "s.k = t.k AND q BETWEEN p - 700 AND p + 60", AGG)
    wanted = {**rows_of(right), **rows_of({"every": of_every})}
    assert all(any(row["n"] > 64 for row in rows.values()) for rows in wanted.values())
    with sessions.configured(spark, sessions.CODE["python"]):
        monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
        several = BatchTable.build(table, on="k", when=every, segment_bytes=1 << 18)
        assert several.stats().segments > 1
        alone = BatchTable.build(table, on=[], when=AsOf("p", "q"))
        model = Model(tmp_path / "model", table.toArrow())
    for runtime in ("jvm", "python"):
        own = {"spark.bsjoin.runtime": runtime, **sessions.CODE[runtime]}
        with sessions.configured(spark, own):
            whole = {"every left built": several.join(stream, how="left")}
            ours = {
                "1 inner built": several.join(stream, when=ways[1][1]),
                "2 left alone": alone.join(stream, how="left", when=ways[2][1]),
            }
            if runtime == "jvm":
                ours["0 inner of a DataFrame"] = keyed(table, when=ways[0][1])
            else:
                whole["every left source"] = keyed(model, how="left", when=every, cache=CACHED)
                ours["0 left source"] = keyed(model, how="left", when=ways[0][1], cache=CACHED)
            one = columns(stream, whole["every left built"])
            assert [(f.name, f.dataType) for f in one.schema] == [
                (f.name, f.dataType) for f in of_every.schema
            ]
            for results in (whole, ours):
                found = rows_of({name: columns(stream, df) for name, df in results.items()})
                for name, rows in found.items():
                    number, how, _ = name.split(maxsplit=2)
                    check(rows, wanted[number], how)


def test_runs_of_many_blocks(spark: SparkSession) -> None:
    """Of so many rows that between the ends of a run there are nodes of the third level, too."""
    nullable = "IF(pmod(xxhash64(id), 9) = 0, NULL, {}) AS {}".format
    made = {
        "d": "pmod(xxhash64(id, 1), 1000000) / 8D - 60000",
        "l": "xxhash64(id, 2) DIV 1073741824",
        "i": "int(xxhash64(id, 3) % 1000000)",
    }
    texts = [nullable(text, name) for name, text in made.items()]
    table = spark.range(30_000).selectExpr("7 AS k", "id AS q", *texts).localCheckpoint()
    functions = ("count", "sum", "min", "max", "avg")
    agg = {"n": "count(*)"} | {f"{f}_{name}": f"{f}({name})" for name in made for f in functions}
    points = "4095, 4096, 4112, 8192, 8703, 8704, 12289, 16391, 29999, 65536"
    stream = spark.sql(f"SELECT s, 7 AS k, s AS p FROM (SELECT explode(array({points})) AS s)")
    ways = {
        "from the first row": (math.inf, 0, "q <= p"),
        "among others": (12_345, 3, "q BETWEEN p - 12345 AND p + 3"),
        "to the last row": (4_000, math.inf, "q >= p - 4000"),
    }
    wanted = {name: expected(stream, table, holds, agg) for name, (*_, holds) in ways.items()}
    right = rows_of(wanted)
    built = BatchTable.build(table, on="k", when=Band("p", "q", 1, 1))
    for runtime in ("jvm", "python"):
        with sessions.configured(spark, {"spark.bsjoin.runtime": runtime}):
            joined = {
                name: built.join(stream, "k", when=Band("p", "q", *width, agg=agg))
                for name, (*width, _) in ways.items()
            }
        found = rows_of({name: columns(stream, df) for name, df in joined.items()})
        for name in ways:
            check(found[name], right[name], "inner")


@pytest.mark.in_turns("runtime")
@pytest.mark.usefixtures("runtime")
@pytest.mark.long
def test_a_stream_has_them_and_a_later_join_takes_them(spark: SparkSession, tmp_path: Path) -> None:
    """A table that was built for aggregates, and is refreshed while the query runs."""
    when = Band("k", "q", 5, 0, agg={"n": "count(*)", "top": "max(v)", "mean": "avg(v)"})
    rows = spark.sql("SELECT id AS q, id * 2 AS v FROM range(20)")
    table = BatchTable.build(rows, on=[], when=when, path=tmp_path / "table")
    names = BatchTable.build(spark.sql("SELECT 20L AS top, 'ten' AS name"), on="top")
    feed = Feed(spark, tmp_path)
    joined = BatchTable.open(table.path).join(feed.stream, how="left")
    query = feed.start(names.join(joined, how="left"))
    try:
        feed.turn(query, 10, 3, 40, None)
        table.refresh(rows.where("q <> 9"))
        feed.turn(query, 10, 40)
        found = [(one.rows_in, one.hits, one.rows_out) for one in cycles(query) if one.on == ("k",)]
    finally:
        query.stop()
    second = feed.results[1]
    # The last micro-batch again, of a version that lacks a column; the next one has it.
    assert feed.forget_last_commit() == 1
    table.refresh(rows.withColumn("w", F.col("q") + 1))
    later = Band("k", "q", 5, 0, agg={"n": "count(*)", "some": "count(w)", "w": "sum(w)"})
    feed.run(BatchTable.open(table.path).join(feed.stream, how="left", when=later), 10)
    replayed = [feed.results.pop(1), feed.results.pop(2)]
    nothing = [(None, 0, None, None, None), (40, 0, None, None, None)]
    first = [(3, 4, 6, 3.0, None), (10, 6, 20, 15.0, "ten")]
    assert feed.results[0] == sorted(nothing + first, key=lambda row: (row[0] is not None, row))
    assert second == [(10, 5, 20, 14.4, "ten"), nothing[1]]
    assert replayed == [[(10, 5, 0, None), (40, 0, 0, None)], [(10, 6, 6, 51)]]
    assert found == [(4, 2, 4), (2, 1, 2)]


@pytest.mark.in_turns("runtime", others="long")
@pytest.mark.usefixtures("runtime")
def test_a_sum_beyond_64_bits_is_what_the_session_says(spark: SparkSession) -> None:
    table = spark.sql("SELECT id AS q, 9223372036854775807L - id AS v FROM range(3)").coalesce(1)
    when = Band("p", "q", 2, 0, agg={"one": "sum(v)", "n": "count(v)"})
    stream = spark.sql("SELECT id AS p FROM range(4)")
    with sessions.configured(spark, {"spark.sql.ansi.enabled": "true"}):
        fits = bsjoin.join(stream.where("p = 0"), table, on=[], when=when)
        assert fits.collect() == [(0, 2**63 - 1, 1)]
        with pytest.raises(Exception, match=r"ARITHMETIC_OVERFLOW.*ansi\.enabled to false"):
            bsjoin.join(stream, table, on=[], when=when).collect()
    with sessions.configured(spark, {"spark.sql.ansi.enabled": "false"}):
        wrapped = bsjoin.join(stream.where("p = 2"), table, on=[], when=when).collect()
        assert wrapped == [(2, table.agg(F.sum("v")).first()[0], 3)]  # type: ignore[index]


def test_what_has_no_aggregate_is_refused_at_the_call(spark: SparkSession) -> None:
    stream = spark.sql("SELECT 1L AS k, 2L AS p")
    table = spark.sql(
        "SELECT 1L AS k, 2L AS q, 'x' AS t, true AS b, 1.5bd AS d, "
        "cast(1 AS decimal(19,0)) AS wide, array(1) AS a, date'2026-01-01' AS day, X'01' AS x"
    )

    def join(how: Any = "inner", agg: Any = (), **arguments: Any) -> DataFrame:
        when = [Band("p", "q", 1, 1, agg=agg or {"n": "count(*)"}), *arguments.pop("more", ())]
        return bsjoin.join(stream, table, "k", how, when=when, **arguments)

    for function in ("sum", "avg", "min", "max"):
        for column in ("t", "b", "a", "x"):
            with pytest.raises(KeyTypeError, match=rf"{function}\({column}\).*of numbers.*Cast"):
                join(agg={"n": f"{function}({column})"})
        with pytest.raises(KeyTypeError, match="more than 18 digits"):
            join(agg={"n": f"{function}(wide)"})
    with pytest.raises(KeyTypeError, match=r"sum\(day\).*date"):
        join(agg={"n": "sum(day)"})
    with pytest.raises(ColumnError, match=r"no column 'price'"):
        join(agg={"n": "sum(price)"})
    for name in ("p", "K"):
        with pytest.raises(ColumnError, match=f"a column '{name}' already"):
            join(agg={name: "count(*)"})
    for arguments, rule in [
        ({"how": "semi"}, "no columns of the table"),
        ({"how": "anti"}, "no columns of the table"),
        ({"where": "q > 1"}, "nothing else can be checked"),
        ({"more": [Band("p", "q", 3, 3)]}, "nothing else can be checked"),
        ({"more": [AsOf("p", "q")]}, "nothing else can be checked"),
        ({"select": ["t"]}, "select=.* Leave select out"),
        ({"indicator": "found"}, r"indicator=.*count\(\*\) is above 0"),
    ]:
        with pytest.raises(ArgumentError, match=rule):
            join(**arguments)
    both = [Band("p", "q", 1, 1, agg={"n": "count(*)"}), Band("p", "q", 3, 3)]
    with pytest.raises(ArgumentError, match=r"with other range conditions: .*Leave agg out"):
        bsjoin.BatchTable.build(table, on="k", when=both)
    for agg, rule in [
        ("count(*)", "give the names"),
        ({"n": 1}, "give the names"),
        ({"n": "sum(*)"}, r"only count\(\*\)"),
        ({"n": "median(q)"}, "'median'"),
        ({"n": "sum(q + 1"}, "not a function of one column"),
        ({"n": "sum(q + 1)"}, "not a function of one column"),
        ({"n": "sum(1)"}, "not a function of one column"),
        ({"n": "count(DISTINCT q)"}, "not a function of one column"),
        ({"n": "q"}, "not a function of one column"),
        ([("n", "count(*)", "x")], "give the names"),
    ]:
        with pytest.raises(ArgumentError, match=rule):
            Band("p", "q", 1, 1, agg=agg)
    counted = join(agg={"a": "count(a)", "t": "count(t)"})
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in counted.schema[2:]] == [
        ("a", "bigint", False), ("t", "bigint", False),
    ]  # fmt: skip
    assert counted.collect() == [(1, 2, 1, 1)]
    assert Band("p", "q", 1, 1, agg={"n": "count( 1 )", "one": "MAX(`1`)"}).agg == (
        ("n", "count(*)"),
        ("one", "max(`1`)"),
    )
    for one, error, rule in [
        ("sum(price)", ColumnError, "no column 'price'"),
        ("sum(t)", KeyTypeError, "of numbers"),
    ]:
        with pytest.raises(error, match=rule):
            BatchTable.build(table, on="k", when=Band("p", "q", 1, 1, agg={"n": one}))
    boxes = [Band("p", "q", 1, 1, agg={"n": "count(*)"}), Band("r", "k", 1, 1)]
    with pytest.raises(ArgumentError, match="nothing else can be checked"):
        BatchTable.build(table, on=[], when=boxes)
    twice = [("n", "count(*)"), ("n", "count(t)")]
    with pytest.raises(ArgumentError, match="twice"):
        join(agg=twice)


@pytest.mark.in_turns("runtime")
@pytest.mark.usefixtures("runtime")
@pytest.mark.long
def test_every_way_to_a_table_that_was_built_with_them(spark: SparkSession, tmp_path: Path) -> None:
    agg = {"n": "count(1)", "total": "sum(v)", "least": "min(z)", "most": "max(z)"}
    when, path = Band("p", "q", 2, 0, agg=agg), tmp_path / "table"
    source = spark.sql("SELECT id % 2 AS k, id AS q, -0.0D AS z, double(id) AS v FROM range(8)")
    stream = spark.sql("SELECT id % 2 AS k, id AS p FROM range(3, 15, 3)")
    table = BatchTable.build(source, on="k", when=when, path=path)
    right = [
        (0, 6, 2, 10.0, 0.0, 0.0),
        (0, 12, 0, None, None, None),
        (1, 3, 2, 4.0, 0.0, 0.0),
        (1, 9, 1, 7.0, 0.0, 0.0),
    ]
    told: list[list[tuple[Any, ...]]] = []
    steered = bsjoin.cycles(
        table, "k", how="left", partition=Hash(2), sink=lambda df, _: told.append(rows(df))
    )
    steered(stream, 0)
    table.refresh(source.withColumn("new", F.lit(1)))
    steered(stream, 1)
    assert told == [right, right]
    # Of zeros that are equal it is the positive one.
    assert {math.copysign(1, row[-1]) for row in told[0] if row[-1] is not None} == {1.0}
    by_expression = table.join(stream, [(F.abs("k"), "k")], "left", partition=Hash(2))
    nothing = BatchTable.build(source.where("q < 0"), on="k", when=when).join(stream, how="left")
    assert rows(by_expression) == right
    assert {row[2:] for row in rows(nothing)} == {(0, None, None, None)}
    assert rows(table.join(stream, how="semi")) == [row[:2] for row in right if row[2]]
    assert rows(table.join(stream, how="anti")) == [(0, 12)]
    for given, rule in [
        ({"where": "v > 1"}, r"was built with agg=.*where=.*Give when=Band\(.*and aggregate"),
        ({"select": ["v"]}, r"was built with agg=.*select=.*or give when=Band\("),
        ({"indicator": "found"}, r"was built with agg=.*indicator=.*or give when=Band\("),
    ]:
        with pytest.raises(ArgumentError, match=rule):
            table.join(stream, **given)  # type: ignore[arg-type]
    # Aggregates are of a join, and its store has the rows for others.
    store = Full(store=tmp_path / "store")
    assert rows(bsjoin.join(stream, source, "k", "left", when=when, cache=store)) == right
    assert BatchTable.open(tmp_path / "store").join(stream).columns == ["k", "p", "q", "z", "v"]


@pytest.mark.in_turns("runtime", others="long")
@pytest.mark.usefixtures("runtime")
def test_of_a_table_that_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of a key are added, changed and removed; a key goes, and another one comes."""
    agg = {
        "n": "count(*)", "some": "count(v)", "total": "sum(v)", "least": "min(v)", "mean": "avg(v)",
    }  # fmt: skip
    text = "SELECT id, IF(id < 400, 1, id % 7) AS k, pmod(xxhash64(id, {0}), 90) AS q, {1} AS v"
    value = "IF(id % 5 = 0, NULL, xxhash64(id, {0}) DIV 4096)"

    def made(number: int, first: int, stop: int) -> DataFrame:
        given = text.format(number, value.format(number))
        return spark.sql(f"{given} FROM range({first}, {stop})")

    before = made(1, 0, 600)
    table = BatchTable.build(before, on="k", when=Band("p", "q", 3, 2, agg=agg), path=tmp_path)
    table.apply(before.where("k = 3").withColumn("op", F.lit("d")), key="id")
    table.apply(made(2, 390, 420).unionByName(before.where("id = 7").withColumn("k", F.lit(9))))
    after = before.where("k <> 3 AND id <> 7 AND (id < 390 OR id >= 420)")
    after = after.unionByName(made(2, 390, 420))
    after = after.unionByName(before.where("id = 7").withColumn("k", F.lit(9)))
    stream = spark.sql("SELECT id AS s, id % 10 AS k, id * 7 % 95 AS p FROM range(95)")
    wanted = expected(stream, after, "s.k = t.k AND q BETWEEN p - 3 AND p + 2", agg)
    whole = table.join(stream, how="left", when=Band("p", "q", math.inf, 100, agg=agg))
    all_of_key = expected(stream, after, "s.k = t.k AND q IS NOT NULL", agg)
    found = {"": columns(stream, table.join(stream, how="left")), "all": columns(stream, whole)}
    got, right = rows_of(found), rows_of({"": wanted, "all": all_of_key})
    for name in found:
        check(got[name], right[name], "left")


def test_a_cache_reads_what_the_bands_span_and_a_piece_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """100 keys of 1,000 rows each, of which the bands have a few at one end."""
    values, read = np.arange(100_000), list[int]()

    class Source:
        def gather(self, numbers: Any, columns: list[int]) -> list[pa.Array]:
            read.append(len(numbers))
            return [pa.array(values.take(numbers)) for _ in columns]

    random = np.random.default_rng(3)
    low = random.permutation(np.repeat(np.arange(100) * 1000, 5))
    firsts = low + 500 + random.integers(0, 10, 500)
    stops = firsts + random.integers(1, 20, 500)
    group: Any = SimpleNamespace(low=low, high=low + 1000, source=Source(), numbers=lambda n: n)
    monkeypatch.setattr(aggregating, "_GATHERED", 500)
    found = aggregating._cached_parts(group, 0, ["count", "low"], firsts, stops)
    assert found["count"].tolist() == (stops - firsts).tolist()
    assert found["low"].tolist() == [
        sum(range(first, stop)) for first, stop in zip(firsts, stops, strict=True)
    ]
    assert sum(read) <= 100 * 29
    assert len(read) > 1
    assert max(read) <= 500 + 29
