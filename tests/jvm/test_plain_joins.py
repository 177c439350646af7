"""Plain joins answered by the index: kinds, key types, conditions, code; equal to Spark's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from plain_joins import CODE, KINDS, LOOKUP, Query, check_same, lookups, plan_of, stored
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

from bsjoin import Band, BatchTable

Tables = dict[str, DataFrame]
WITHOUT = ["interpreted"]

STREAM = """
SELECT id, CAST(CASE WHEN id % 7 = 0 THEN NULL ELSE id % 13 END AS INT) AS k,
       id * 3 % 11 AS x, concat('s', id) AS s
FROM range(0, 40, 1, 1)
"""
TABLE = """
SELECT CAST(id % 10 AS INT) AS k, id AS v, concat('t', id) AS name,
       CASE WHEN id % 3 = 0 THEN NULL ELSE id % 5 END AS tier
FROM range({rows})
"""


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A table whose keys have one row each, and one whose keys have three."""
    folder = tmp_path_factory.mktemp("tables")
    many = spark.sql(TABLE.format(rows=30))
    pair = many.selectExpr("k", "concat('p', tier) AS p", "v", "name").where("p IS NOT NULL")
    return {
        "one": stored(spark, spark.sql(TABLE.format(rows=10)), "k", folder / "one"),
        "many": stored(spark, many, "k", folder / "many"),
        "pair": stored(spark, pair, ["k", "p"], folder / "pair"),
    }


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return spark.sql(STREAM)


def of_kinds(
    stream: DataFrame, table: DataFrame, on: str | Column = "k", kinds: Iterable[str] = KINDS
) -> list[Query]:
    """The joins of these kinds."""
    return [partial(stream.join, table, on, how) for how in kinds]


def test_kinds(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    """Of tables with one row of a key, and with several; where the table's rows stay, by a scan."""
    one, many = tables["one"], tables["many"]
    joins = [*of_kinds(stream, many), *of_kinds(stream, one, kinds=("inner", "left"))]
    check_same(spark, *joins, partial(one.join, stream, "k", "right"), codes=["adaptive"])
    check_same(spark, partial(many.join, stream, "k"), codes=["projections"])
    kept = of_kinds(one, stream, kinds=("left", "semi", "anti", "full"))
    check_same(spark, *kept, *of_kinds(stream, many, kinds=("right", "full")), found=0)


CONDITIONS = {
    "of both sides": "s.x > t.tier",
    "of the table": "t.tier > 1",
    "of the stream": "s.x > 3",
    "several": "s.x > t.tier AND t.name LIKE 't1%' AND s.id + t.v < 40",
    "either": "s.x > t.tier OR t.tier IS NULL",
    "null": "CASE WHEN t.tier = 1 THEN NULL ELSE true END",
    "nested not null": "(t.tier + s.x) IS NOT NULL",
    "higher order": "exists(array(t.tier, t.v), e -> e = s.x)",
}


def test_conditions(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    """Each with a kind of join and a table; half of them without generated code."""
    joins: list[Query] = []
    for number, condition in enumerate(CONDITIONS.values()):
        s, t = stream.alias("s"), tables[("one", "many")[number % 2]].alias("t")
        on = F.expr(f"s.k = t.k AND ({condition})")
        joins.append(partial(s.join, t, on, KINDS[number // 2]))
    joins.append(partial(t.join, s, on, "right"))
    check_same(spark, *joins[::2])
    check_same(spark, *joins[1::2], codes=WITHOUT)


@pytest.mark.long
def test_keys_in_any_order_and_of_expressions(
    spark: SparkSession, tables: Tables, stream: DataFrame
) -> None:
    table, left = tables["pair"].alias("t"), stream.alias("s")
    texts = {
        "t.p = concat('p', s.x) AND s.k = t.k": 1,
        "s.k = t.k AND t.p = concat('p', s.x) AND s.id > t.v": 1,
        "concat('p', s.x) = t.p AND CAST(s.k AS BIGINT) = t.k": 1,
        "s.k + 1 = t.k AND t.p = upper(concat('P', s.x)) OR false": 1,
        # One key of two is not enough, nor another operator.
        "s.k = t.k": 0,
        "s.k = t.k AND t.p > concat('p', s.x)": 0,
    }
    joins = [partial(left.join, table, F.expr(text), KINDS[i % 4]) for i, text in enumerate(texts)]
    check_same(spark, *joins, found=[*texts.values()], codes=WITHOUT)


@pytest.mark.long
def test_null_keys(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    """Of tables with them, of one with nothing else, and of an empty one."""
    with_nulls = spark.sql("SELECT nullif(id, 3) AS k, id AS v FROM range(6)")
    nulls = stored(spark, with_nulls, "k", tmp_path / "nulls")
    nulls.createOrReplaceTempView("t")
    stream.createOrReplaceTempView("s")
    alone = spark.sql("SELECT cast(NULL AS bigint) AS k, 1 AS v")
    equal = stored(spark, alone, "k", tmp_path / "alone", nulls_equal=True)
    equal.createOrReplaceTempView("equal")
    empty = stored(spark, with_nulls.where("v < 0"), "k", tmp_path / "empty")
    empty.createOrReplaceTempView("empty")
    texts = {
        "SELECT * FROM s WHERE k NOT IN (SELECT k FROM t)": 0,
        "SELECT * FROM s WHERE k NOT IN (SELECT k FROM t WHERE k IS NOT NULL)": 1,
        # Of no row without a null in its key, and then a null of the stream's is not in it.
        "SELECT * FROM s WHERE k NOT IN (SELECT k FROM equal WHERE k IS NOT NULL)": 0,
        "SELECT * FROM s WHERE id NOT IN (SELECT k FROM equal WHERE k IS NOT NULL)": 1,
        "SELECT * FROM s WHERE k NOT IN (SELECT k FROM equal)": 0,
    }
    joins = [*of_kinds(stream, nulls), *(partial(spark.sql, text) for text in texts)]
    check_same(spark, *joins, found=[1] * 4 + [*texts.values()], codes=WITHOUT)
    query = partial(spark.sql, "SELECT * FROM s WHERE k NOT IN (SELECT k FROM empty)")
    of_empty = of_kinds(stream, empty, kinds=("left", "semi"))
    check_same(spark, query, *of_empty, found=None, codes=WITHOUT)
    assert query().count() == 40
    # A range's index has all rows of a key, null or not, where each row has a point.
    joins = []
    for name, point in {"points": "id", "a null point": "nullif(id, 4)"}.items():
        df = spark.sql(f"SELECT nullif(id, 3) AS k, {point} AS p, id AS v FROM range(6)")
        band = Band("p", "p", before=1, after=1)
        t = stored(spark, df, "k", tmp_path / name, nulls_equal=True, when=band)
        joins += of_kinds(stream, t, kinds=["left"])
    check_same(spark, *joins, found=[1, 0], codes=WITHOUT)


SUBQUERIES = {
    "SELECT * FROM s WHERE k IN (SELECT k FROM t)": 1,
    "SELECT * FROM s WHERE k IN (SELECT k FROM t WHERE tier > 1)": 1,
    "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND t.v > s.x)": 1,
    "SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k)": 1,
    "SELECT * FROM s WHERE k NOT IN (SELECT k FROM t)": 1,
    "SELECT * FROM (SELECT * FROM s WHERE k IS NOT NULL) WHERE k NOT IN (SELECT k FROM t)": 1,
    "SELECT * FROM s WHERE k NOT IN (SELECT k FROM t WHERE tier > 9)": 0,
    "SELECT * FROM s WHERE x > 5 OR k IN (SELECT k FROM t)": 1,
}
BY_ANY = (
    "SELECT * FROM s WHERE x > 5 OR k NOT IN (SELECT k FROM t)",
    "SELECT id, (SELECT max(v) FROM t WHERE t.k = s.k) AS m FROM s",
    "SELECT * FROM s JOIN t ON s.k = t.k AND t.v > (SELECT avg(x) FROM s)",
)


def test_subqueries(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    """Of either table in turns."""
    stream.createOrReplaceTempView("s")
    made: list[Query] = []
    for number, text in enumerate((*SUBQUERIES, *BY_ANY)):
        tables[("one", "many")[number // 2 % 2]].createOrReplaceTempView("t")
        df = spark.sql(text)
        made.append(lambda df=df: df)
    found = [*SUBQUERIES.values()]
    check_same(spark, *made[3:8:2], found=found[3::2])
    check_same(spark, *made[:3], *made[4:8:2], found=[*found[:3], *found[4::2]], codes=WITHOUT)
    check_same(spark, *made[8:], found=None, codes=WITHOUT)


def test_what_is_not_deterministic_is_left_to_spark(
    spark: SparkSession, tables: Tables, stream: DataFrame
) -> None:
    table = tables["one"]
    check_same(
        spark,
        lambda: stream.join(table.where("rand(3) < 0.5"), "k"),
        lambda: stream.join(table.selectExpr("k", "rand(3) > 0.5 AS r"), "k"),
        found=0,
    )


NUMBERS = ("TINYINT", "INT", "BIGINT", "DECIMAL(5,0)", "DECIMAL(12,2)", "DECIMAL(25,3)")
FLOATS = ("FLOAT", "DOUBLE")
EXACT = {
    "BOOLEAN": ("'true'", "'false'"),
    "BINARY": ("''", "'ä'"),
    "DATE": ("'0001-01-01'", "'1969-12-31'"),
    "TIMESTAMP": ("'1582-10-04 00:00:00'", "'1969-12-31 23:59:59.999999'"),
    "TIMESTAMP_NTZ": ("'1969-12-31 23:59:59.999999'", "'2024-02-29 12:00:00.000001'"),
    "DECIMAL(38,10)": ("'1234567890123456789012345678.0123456789'", "'-1'"),
}
"""Other types, each with two values."""


@pytest.mark.parametrize(
    ("numbers", "floats"),
    [
        (NUMBERS[::2], FLOATS[1:]),
        pytest.param(NUMBERS, FLOATS, marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_types_of_keys(
    spark: SparkSession, tmp_path: Path, numbers: tuple[str, ...], floats: tuple[str, ...]
) -> None:
    """Types of the stream with those of the table that they are compared with exactly.

    And keys of other types. Half of them with generated code.
    """
    values = dict.fromkeys(NUMBERS, "0, 1, 1.5, -0.0, 5.25, 100, 127, 12, NULL")
    keys = dict.fromkeys(NUMBERS, "id")
    for dtype in FLOATS:
        values[dtype] = f"{values['INT']}, double('-0.0'), double('NaN')"
        keys[dtype] = "CASE id WHEN 0 THEN double('-0.0') WHEN 11 THEN double('NaN') ELSE id END"
    tables = {
        dtype: stored(
            spark,
            spark.sql(f"SELECT CAST({keys[dtype]} AS {dtype}) AS k, id AS v FROM range(13)"),
            "k",
            tmp_path / str(number),
        )
        for number, dtype in enumerate(numbers + floats)
    }
    joins: list[Query] = []
    for i, given in enumerate(numbers + floats):
        left = spark.sql(
            f"SELECT id, CAST(v AS {given}) AS k "
            f"FROM (SELECT posexplode(array({values[given]})) AS (id, v))"
        )
        others = numbers if given in numbers else floats
        for j, dtype in enumerate(others):
            if (i + j) % 3 == 0 or given in FLOATS:
                how = ("left", "semi")[len(joins) % 2]
                joins.append(partial(left.join, tables[dtype], "k", how))
    # All others in one key: two values of each, in all combinations, and nulls.
    columns = [
        f"CAST(IF(id = {64 + n}, NULL, IF(shiftright(id, {n}) % 2 = 0, {one}, {other})) "
        f"AS {dtype}) AS k{n}"
        for n, (dtype, (one, other)) in enumerate(EXACT.items())
    ]
    stream = spark.range(70).selectExpr("id", *columns)
    names = stream.columns[1:]
    rows = stream.where("id % 3 = 0").withColumnRenamed("id", "v")
    table = stored(spark, rows, names, tmp_path / "exact")
    joins += [partial(stream.join, table, names, how) for how in ("left", "semi")]
    compiled = [place % 4 in (0, 3) for place in range(len(joins))]  # half of each kind of join
    check_same(spark, *itertools.compress(joins, compiled))
    check_same(spark, *itertools.compress(joins, [not one for one in compiled]), codes=WITHOUT)


OTHERS: tuple[tuple[str | list[str], str], ...] = (
    (["price", "n"], "CAST(s.x AS DECIMAL(12,3)) = t.price AND s.id = t.n"),
    ("day", "timestamp_seconds(1708905600 + s.id * 43200) = t.day"),
    ("day", "CAST(timestamp_seconds(1708905600 + s.id * 43200) AS DATE) = t.day"),
    ("padded", "rpad(concat('c', s.k), 4, ' ') = t.padded"),
    ("padded", "concat('c', s.k) = t.padded"),
    ("number", "s.id = t.number"),
)


@pytest.mark.long
def test_keys_that_are_compared_as_another_type(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    """The index has the keys as they are stored: other types' values may be none of them."""
    table = spark.sql(
        "SELECT id AS n, CAST(id % 5 AS DECIMAL(10,2)) AS price, CAST(concat('c', id) AS CHAR(4)) "
        "AS padded, date '2024-02-26' + int(id) AS day, concat('0', id) AS number FROM range(9)"
    )
    by_key = dict[str, DataFrame]()
    joins = []
    for number, (key, text) in enumerate(OTHERS):
        if str(key) not in by_key:
            by_key[str(key)] = stored(spark, table, key, tmp_path / str(number)).alias("t")
        joined = stream.alias("s").join(by_key[str(key)], F.expr(text), "left")
        joins.append(partial(joined.select, "id", "n"))
    check_same(spark, *joins, found=None, codes=WITHOUT)


def chain(stream: DataFrame, tables: Tables, how: str) -> DataFrame:
    one, many, pair = tables["one"], tables["many"], tables["pair"].alias("pair")
    first = stream.join(one.selectExpr("k", "tier AS t1", "v AS v1"), "k", how)
    second = first.join(many.selectExpr("k AS k2", "tier AS t2", "v AS v2"), F.expr("t1 = k2"), how)
    third = second.join(one.selectExpr("k AS k3", "name AS n3"), F.expr("t2 + x = k3"), how)
    return third.join(pair, F.expr("pair.k = v1 AND p = concat('p', t2)"), "left")


def test_joins_in_a_row(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    inner, left = (partial(chain, stream, tables, how) for how in ("inner", "left"))
    check_same(spark, left, found=4)
    check_same(spark, inner, found=4, codes=WITHOUT)
    with configured(spark, CODE["stage"]):
        plan = plan_of(left())
    found = [line for line in plan.splitlines() if LOOKUP in line]
    assert len({line.split("*(")[1].split(")")[0] for line in found}) == 1, plan  # one stage


@pytest.mark.long
def test_many_joins_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Past the 64 KB of a method, Spark falls back: the rows are the same."""
    wide = spark.range(20).selectExpr("id AS k", *(f"id + {i} AS c{i}" for i in range(40)))
    table = stored(spark, wide, "k", tmp_path / "table")

    def query() -> DataFrame:
        found = spark.range(0, 15, 1, 1).selectExpr("id AS x")
        for number in range(10):
            columns = [f"c{i} AS c{number}_{i}" for i in range(40)]
            side = table.selectExpr(f"k AS k{number}", *columns)
            found = found.join(side, F.expr(f"x + {number} = k{number}"), "left")
        return found

    check_same(spark, query, found=10)


@pytest.mark.long
def test_one_scan_used_twice(spark: SparkSession, tables: Tables) -> None:
    """Equal joins may be computed once; joins that differ in anything may not."""
    stream = spark.sql(STREAM.replace("range(0, 40, 1, 1)", "range(40)"))  # whose rows are sent

    def summed(condition: str, how: str) -> DataFrame:
        on = F.expr(f"s.k = t.k AND {condition}")
        joined = stream.alias("s").join(tables["one"].alias("t"), on, how)
        return joined.groupBy("s.x").agg(F.count("*").alias("n"), F.sum("v").alias("sum"))

    def query(*parts: tuple[str, str]) -> DataFrame:
        first, second = (summed(*part) for part in parts)
        return first.join(second, "x")

    same = ("t.tier > 1", "left")
    others = (("t.tier > 2", "left"), ("t.tier > 1", "inner"))
    queries = [partial(query, same, other) for other in (same, others[0])]
    check_same(spark, *queries, found=None, codes=["adaptive"])
    with configured(spark, CODE["stage"]):
        assert "ReusedExchange" in plan_of(query(same, same))
        for other in others:
            assert "ReusedExchange" not in plan_of(query(same, other))


def test_two_tables_with_the_same_rows_are_two(spark: SparkSession, tmp_path: Path) -> None:
    """A scan or a look-up of one is not used again for the other, nor one version for another."""
    one, other = (spark.range(9).selectExpr("id AS k", f"id + {n} AS v") for n in (0, 100))
    tables = [
        BatchTable.build(df, on="k", path=tmp_path / str(n)) for n, df in enumerate((one, other))
    ]
    stream = spark.range(12).selectExpr("id AS k", "id AS i")
    joined = [stream.join(table.to_df(spark), "k", "left") for table in tables]
    both = joined[0].join(joined[1].withColumnRenamed("v", "w"), ["k", "i"])
    assert {(row.v, row.w) for row in both.where("v IS NOT NULL").collect()} == {
        (n, n + 100) for n in range(9)
    }
    united = joined[0].union(joined[1]).union(joined[0])
    assert united.agg(F.sum("v")).first()[0] == 36 + 936 + 36


def test_python_functions(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    plus = F.udf(lambda value: None if value is None else value + 1, "int")
    table = tables["one"]
    on = (F.col("s.k") == F.col("t.k")) & (plus("s.x") > F.col("t.v"))
    check_same(
        spark,
        lambda: stream.withColumn("k", plus("k")).join(table, "k", "left"),
        lambda: stream.join(table.withColumn("w", plus("v")), "k", "left"),
        lambda: stream.alias("s").join(table.alias("t"), on),
        found=(1, 0, 1),
        codes=WITHOUT,
    )


def test_hints(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    table = tables["one"]
    by_spark = ("merge", "shuffle_hash", "shuffle_replicate_nl")
    joins: list[Query] = [lambda: stream.join(table.hint("broadcast"), "k", "left")]
    joins += [lambda hint=hint: stream.join(table.hint(hint), "k") for hint in by_spark]
    for hint in ("merge", "broadcast", "shuffle_replicate_nl"):
        joins.append(lambda hint=hint: stream.hint(hint).join(table, "k"))
    check_same(spark, *joins, found=(1, *[0] * 6), codes=WITHOUT)


def test_a_setting_is_on_or_off(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    joined = partial(stream.join, tables["one"], "k")
    for name in ("planner", "metrics"):
        setting = f"spark.bsjoin.{name}"
        with configured(spark, {setting: "ON"}):
            assert lookups(joined()) == 1
        said = f"ArgumentError: {setting}='true' is not known: give on or off"
        with configured(spark, {setting: "true"}), pytest.raises(Exception, match=said):
            joined().collect()


def test_names_with_dots_and_of_the_same_letters(spark: SparkSession, tmp_path: Path) -> None:
    with configured(spark, {"spark.sql.caseSensitive": "true"}):
        df = spark.sql("SELECT id AS `a.b`, id + 1 AS `A.b`, id * 2 AS `x``y` FROM range(9)")
        table = stored(spark, df, "a.b", tmp_path / "table").alias("t")
        stream = spark.range(12).alias("s")
        joins = [
            partial(stream.join, table, F.expr(f"s.id = t.`{key}`"), "left")
            for key in ("a.b", "A.b")
        ]
        check_same(spark, *joins, found=(1, 0))


@pytest.mark.long
def test_joins_in_a_row_keep_few_rows_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """A stage keeps the matches of a row: their number has a bound over all of its joins."""
    df = spark.range(4_000).selectExpr("id % 4 AS k", "id AS v")
    table = stored(spark, df, "k", tmp_path / "table")
    two = stored(spark, df.where("v < 8"), "k", tmp_path / "two")

    def query(*tables: DataFrame) -> DataFrame:
        joined = spark.range(3).selectExpr("id AS k")
        for i, other in enumerate(tables):
            joined = joined.join(other.withColumnRenamed("v", f"v{i}"), "k")
        return joined

    def stages(df: DataFrame) -> list[str]:
        return ["*(" in line for line in plan_of(df).splitlines() if LOOKUP in line]

    with configured(spark, CODE["stage"]):
        assert stages(query(table, two)) == [True, True]  # of 2,000 rows
        assert stages(query(two, two, table, two)) == [False, True, True, True]
        assert stages(query(table, table, two)) == [True, False, True]
        assert len(query(table, table).limit(7).collect()) == 7
    sums = ["count(*)", "sum(v0)", "sum(v1)", "sum(v2)"]
    check_same(spark, lambda: query(two, table, two).selectExpr(*sums), found=3)


def test_a_limit_ends_among_the_matches_of_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """A row with more matches than a stage keeps has a stage of its own, which goes on in it."""
    df = spark.range(20_000).selectExpr("id % 2 AS k", "id AS v")
    table = stored(spark, df, "k", tmp_path / "table")
    stream = spark.range(6).selectExpr("id % 3 AS k").coalesce(1)
    with configured(spark, CODE["stage"]):
        for many, how, condition in (
            (7, "left", "true"),
            (10_003, "inner", "true"),
            (5, "inner", "v % 2000 > 1997"),
        ):
            limited = stream.join(table, "k", how).where(condition).limit(many)
            limited = limited.selectExpr("count(*) AS n", "count(DISTINCT k, v) AS d")
            assert limited.collect() == [(many, many)]
            # The limit is in the stage: no row is made that it does not take.
            assert metrics_of(limited)["rowsOut"] in (many, many + 1)


def test_explain(tables: Tables, stream: DataFrame) -> None:
    on = F.expr("s.k = t.k AND t.tier > s.x")
    df = stream.alias("s").join(tables["one"].alias("t"), on, "left")
    plan = plan_of(df)
    assert LOOKUP in plan
    assert "version 1] LeftOuter, keys [k#" in plan
    assert ", condition " in plan


def metrics_of(df: DataFrame) -> dict[str, int]:
    """What the look-up of a query has counted."""
    plan = df._jdf.queryExecution().executedPlan()
    while plan.nodeName() != LOOKUP:
        plan = plan.children().apply(0)
    found: Any = plan.metrics()
    names, result = found.keys().iterator(), {}
    while names.hasNext():
        name = names.next()
        result[name] = found.apply(name).value()
    return result


def test_metrics(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    def metrics() -> dict[str, int]:
        df = stream.join(tables["many"], "k", "left")
        df.collect()
        return metrics_of(df)

    joined = stream.join(tables["many"], "k").count()
    matched = stream.join(tables["many"], "k", "semi").count()
    with configured(spark, CODE["stage"]):
        for code in ("stage", "projections"):
            with configured(spark, CODE[code]):
                found = metrics()
            assert found.pop("openTime") > 0
            rows = {"rowsIn": 40, "matchedRows": matched, "rowsOut": joined + 40 - matched}
            assert found == {**rows, "version": 1}
        with configured(spark, {"spark.bsjoin.metrics": "off"}):
            assert metrics() == {}
