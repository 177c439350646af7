"""Plain joins answered by the index: kinds, key types, conditions, code; equal to Spark's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from plain_joins import CODE, KINDS, check_same, executed_plan, plain, stored
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import rows

Tables = dict[str, DataFrame]

STREAM = """
SELECT id, CAST(CASE WHEN id % 7 = 0 THEN NULL ELSE id % 13 END AS {type}) AS k,
       id * 3 % 11 AS x, concat('s', id) AS s
FROM range(40)
"""
TABLE = """
SELECT CAST(id % {keys} AS {type}) AS k, id AS v, concat('t', id) AS name,
       CASE WHEN id % 3 = 0 THEN NULL ELSE id % 5 END AS tier
FROM range({rows})
"""


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A table whose keys have one row each, and one whose keys have three."""
    folder = tmp_path_factory.mktemp("tables")
    one = spark.sql(TABLE.format(type="INT", keys=10, rows=10))
    many = spark.sql(TABLE.format(type="INT", keys=10, rows=30))
    pair = many.selectExpr("k", "concat('p', tier) AS p", "v", "name").where("p IS NOT NULL")
    return {
        "one": stored(spark, one, "k", folder / "one"),
        "many": stored(spark, many, "k", folder / "many"),
        "pair": stored(spark, pair, ["k", "p"], folder / "pair"),
    }


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return spark.sql(STREAM.format(type="INT"))


def of_kinds(
    stream: DataFrame,
    table: DataFrame,
    on: str | Column = "k",
    kinds: Iterable[str] = KINDS,
) -> list[Callable[[], DataFrame]]:
    """The joins of these kinds."""
    return [partial(stream.join, table, on, how) for how in kinds]


def two_codes(number: int) -> list[str]:
    """Two of the ways to compute rows, in turns: two cases with numbers in a row meet all."""
    return list(CODE)[number % 2 :: 2]


@pytest.mark.parametrize("which", ["one", "many"])
def test_kinds(spark: SparkSession, tables: Tables, stream: DataFrame, which: str) -> None:
    check_same(spark, *of_kinds(stream, tables[which]), codes=CODE)


@pytest.mark.parametrize("which", ["one", "many"])
def test_the_table_on_the_left(
    spark: SparkSession, tables: Tables, stream: DataFrame, which: str
) -> None:
    check_same(spark, *of_kinds(tables[which], stream, kinds=("inner", "right")), codes=CODE)
    # The table's rows stay: they are read.
    others = of_kinds(tables[which], stream, kinds=("left", "semi", "anti", "full"))
    check_same(spark, *others, lookups=0)
    check_same(spark, lambda: stream.join(tables[which], "k", "full"), lookups=0)


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


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("which", ["one", "many"])
def test_conditions(
    spark: SparkSession,
    tables: Tables,
    stream: DataFrame,
    which: str,
    condition: str,
) -> None:
    on = F.expr(f"s.k = t.k AND ({CONDITIONS[condition]})")
    s, t = stream.alias("s"), tables[which].alias("t")
    turn = list(CONDITIONS).index(condition) + (which == "one")
    check_same(spark, *of_kinds(s, t, on), codes=[("stage", "interpreted")[turn % 2]])
    check_same(
        spark, lambda: t.join(s, on, "right"), codes=[("stage", "interpreted")[(turn + 1) % 2]]
    )


def test_keys_in_any_order_and_of_expressions(
    spark: SparkSession, tables: Tables, stream: DataFrame
) -> None:
    table = tables["pair"].alias("t")
    left = stream.alias("s")
    for text in (
        "t.p = concat('p', s.x) AND s.k = t.k",
        "s.k = t.k AND t.p = concat('p', s.x) AND s.id > t.v",
        "concat('p', s.x) = t.p AND CAST(s.k AS BIGINT) = t.k",
        "s.k + 1 = t.k AND t.p = upper(concat('P', s.x)) OR false",
    ):
        check_same(spark, *of_kinds(left, table, F.expr(text)))
    # One key of two is not enough, nor another operator.
    for text in ("s.k = t.k", "s.k = t.k AND t.p > concat('p', s.x)"):
        check_same(spark, lambda text=text: left.join(table, F.expr(text)), lookups=0)


def test_null_safe_equality(
    spark: SparkSession, tables: Tables, stream: DataFrame, tmp_path: Path
) -> None:
    left = stream.alias("s")
    with_nulls = spark.sql("SELECT nullif(id, 3) AS k, id AS v FROM range(6)")
    nulls = stored(spark, with_nulls, "k", tmp_path / "table").alias("t")
    on = F.expr("s.k <=> t.k")
    check_same(spark, lambda: left.join(tables["one"].alias("t"), on, "left"))
    check_same(spark, lambda: left.join(nulls, on, "left"), lookups=0)
    known = F.expr("coalesce(s.k, 99) <=> t.k")
    check_same(spark, lambda: left.join(nulls, known, "left"))


def test_a_table_with_null_keys(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    with_nulls = spark.sql("SELECT nullif(id, 3) AS k, id AS v FROM range(6)")
    nulls = stored(spark, with_nulls, "k", tmp_path / "table")
    check_same(spark, *of_kinds(stream, nulls))
    stream.createOrReplaceTempView("s")
    nulls.createOrReplaceTempView("t")
    for text, lookups in (
        ("SELECT * FROM s WHERE k NOT IN (SELECT k FROM t)", 0),
        ("SELECT * FROM s WHERE k NOT IN (SELECT k FROM t WHERE k IS NOT NULL)", 1),
        ("SELECT * FROM s WHERE k IN (SELECT k FROM t)", 1),
        ("SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k)", 1),
    ):
        check_same(spark, lambda text=text: spark.sql(text), lookups=lookups)


ABOVE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "filter": lambda t: t.where("tier > 1"),
    "filter on the key": lambda t: t.where("k > 4"),
    "filter on a constant key": lambda t: t.where("k = 4"),
    "columns": lambda t: t.selectExpr("k", "v + 1 AS w", "upper(name) AS n"),
    "constant": lambda t: t.selectExpr("k", "1 AS one", "coalesce(tier, -1) AS c"),
    "renamed": lambda t: t.selectExpr("name AS n", "k", "v AS w"),
    "filter of a column": lambda t: t.selectExpr("k", "v * 2 AS w").where("w > 7"),
    "not null": lambda t: t.where("tier IS NOT NULL"),
    "nested": lambda t: t.where("v > 2").selectExpr("k", "tier AS u", "v").where("u < 4"),
}


@pytest.mark.parametrize("above", ABOVE)
def test_selections_and_filters_above_the_table(
    spark: SparkSession, tables: Tables, stream: DataFrame, above: str
) -> None:
    for which in ("one", "many"):
        lookups = None if "constant key" in above else 1
        check_same(spark, *of_kinds(stream, ABOVE[above](tables[which])), lookups=lookups)


SUBQUERIES = {
    "in": ("SELECT * FROM s WHERE k IN (SELECT k FROM t)", 1),
    "in with filter": ("SELECT * FROM s WHERE k IN (SELECT k FROM t WHERE tier > 1)", 1),
    "exists": ("SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND t.v > s.x)", 1),
    "not exists": ("SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k)", 1),
    "not in": ("SELECT * FROM s WHERE k NOT IN (SELECT k FROM t)", 1),
    "not in, not null": (
        "SELECT * FROM (SELECT * FROM s WHERE k IS NOT NULL) WHERE k NOT IN (SELECT k FROM t)",
        1,
    ),
    "not in with filter": ("SELECT * FROM s WHERE k NOT IN (SELECT k FROM t WHERE tier > 9)", 0),
    "existence": ("SELECT * FROM s WHERE x > 5 OR k IN (SELECT k FROM t)", 1),
    "not in, or": ("SELECT * FROM s WHERE x > 5 OR k NOT IN (SELECT k FROM t)", None),
    "scalar": ("SELECT id, (SELECT max(v) FROM t WHERE t.k = s.k) AS m FROM s", None),
    "condition": (
        "SELECT * FROM s JOIN t ON s.k = t.k AND t.v > (SELECT avg(x) FROM s)",
        None,
    ),
}


@pytest.mark.parametrize("query", SUBQUERIES)
@pytest.mark.parametrize("which", ["one", "many"])
def test_subqueries(
    spark: SparkSession, tables: Tables, stream: DataFrame, which: str, query: str
) -> None:
    stream.createOrReplaceTempView("s")
    tables[which].createOrReplaceTempView("t")
    text, lookups = SUBQUERIES[query]
    codes = two_codes(list(SUBQUERIES).index(query) + (which == "one"))
    check_same(spark, lambda: spark.sql(text), lookups=lookups, codes=codes)


NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(5,0)", "DECIMAL(12,2)", "DECIMAL(25,3)")
FLOATS = ("FLOAT", "DOUBLE")


@pytest.fixture(scope="module")
def by_number(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A table of each type of numbers."""
    folder = tmp_path_factory.mktemp("numbers")
    return {
        dtype: stored(
            spark,
            spark.sql(f"SELECT CAST(id AS {dtype}) AS k, id AS v FROM range(13)"),
            "k",
            folder / str(number),
        )
        for number, dtype in enumerate(NUMBERS + FLOATS)
    }


@pytest.mark.parametrize("given", NUMBERS + FLOATS)
def test_numbers_of_other_types(spark: SparkSession, by_number: Tables, given: str) -> None:
    values = "0, 1, 1.5, -0.0, 5.25, 100, 127, 12, NULL"
    left = spark.sql(
        f"SELECT id, CAST(v AS {given}) AS k FROM (SELECT posexplode(array({values})) AS (id, v))"
    )
    others = NUMBERS if given in NUMBERS else FLOATS
    joins = [
        join
        for dtype in others
        for join in of_kinds(left, by_number[dtype], kinds=("left", "semi"))
    ]
    check_same(spark, *joins)


EXACT = {
    "double": (
        "DOUBLE",
        "'NaN', '-0.0', '0.0', 'Infinity', '-Infinity', '1e308', '0.1', NULL",
    ),
    "float": ("FLOAT", "'NaN', '-0.0', '0.0', 'Infinity', '-Infinity', '0.1', '16777216', NULL"),
    "string": ("STRING", "'', 'a', 'A', 'a ', ' a', 'ä', 'a\\u0308', NULL"),
    "binary": ("BINARY", "'', 'a', 'A', 'a ', 'ä', NULL"),
    "boolean": ("BOOLEAN", "'true', 'false', NULL"),
    "date": ("DATE", "'0001-01-01', '1969-12-31', '1970-01-01', '2024-02-29', NULL"),
    "timestamp": (
        "TIMESTAMP",
        "'1582-10-04 00:00:00', '1969-12-31 23:59:59.999999', '2024-02-29 12:00:00.000001', NULL",
    ),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ",
        "'1969-12-31 23:59:59.999999', '2024-02-29 12:00:00.000001', NULL",
    ),
    "long decimal": (
        "DECIMAL(38,10)",
        "'1234567890123456789012345678.0123456789', '-1', '0', '0.0000000001', NULL",
    ),
}


@pytest.mark.parametrize("kind", EXACT)
def test_types_of_keys(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    dtype, values = EXACT[kind]
    array = f"SELECT posexplode(array({values})) AS (v, k)"
    left = spark.sql(f"SELECT v AS id, CAST(k AS {dtype}) AS k FROM ({array})")
    right = spark.sql(
        f"SELECT CAST(k AS {dtype}) AS k, v, k AS text FROM ({array}) WHERE k IS NOT NULL"
    )
    table = stored(spark, right, "k", tmp_path / "table")
    check_same(spark, *of_kinds(left, table), codes=("stage", "projections", "interpreted"))


def test_keys_that_are_read_as_other_types(spark: SparkSession, tmp_path: Path) -> None:
    dates = spark.sql("SELECT date '2024-01-01' + CAST(id AS INT) AS k, id AS v FROM range(5)")
    texts = spark.sql("SELECT CAST(id AS STRING) AS k, id AS v FROM range(5)")
    by_date = stored(spark, dates, "k", tmp_path / "dates")
    by_text = stored(spark, texts, "k", tmp_path / "texts")
    moments = spark.sql("SELECT CAST(date '2024-01-02' AS TIMESTAMP) AS k, 1 AS id")
    numbers = spark.sql("SELECT CAST(id AS INT) AS k, id FROM range(7)")
    check_same(spark, lambda: moments.join(by_date, "k", "left"), lookups=0)
    check_same(spark, lambda: numbers.join(by_text, "k", "left"), lookups=0)
    text = spark.sql("SELECT '2024-01-02' AS k, 1 AS id")
    check_same(spark, lambda: text.join(by_date, "k", "left"), lookups=None)


def test_padded_keys(spark: SparkSession, tmp_path: Path) -> None:
    with configured(spark, {"spark.sql.legacy.charVarcharAsString": "false"}):
        padded = spark.sql("SELECT 'a  ' AS k, 1 AS v UNION ALL SELECT 'b', 2")
        table = stored(spark, padded, "k", tmp_path / "table")
        left = spark.sql("SELECT 'a' AS k UNION ALL SELECT 'a  ' UNION ALL SELECT 'b'")
        check_same(spark, lambda: left.join(table, "k", "left"))


def chain(stream: DataFrame, tables: Tables, how: str) -> DataFrame:
    one, many = tables["one"], tables["many"]
    first = stream.join(one.selectExpr("k", "tier AS t1", "v AS v1"), "k", how)
    second = first.join(many.selectExpr("k AS k2", "tier AS t2", "v AS v2"), F.expr("t1 = k2"), how)
    third = second.join(one.selectExpr("k AS k3", "name AS n3"), F.expr("t2 + x = k3"), how)
    return third.join(tables["pair"], F.expr("pair.k = v1 AND p = concat('p', t2)"), "left")


@pytest.mark.parametrize("how", ["inner", "left"])
def test_joins_in_a_row(spark: SparkSession, tables: Tables, stream: DataFrame, how: str) -> None:
    named = {**tables, "pair": tables["pair"].alias("pair")}
    check_same(spark, lambda: chain(stream, named, how), lookups=4, codes=CODE)


def test_joins_in_a_row_are_one_stage(
    spark: SparkSession, tables: Tables, stream: DataFrame
) -> None:
    named = {**tables, "pair": tables["pair"].alias("pair")}
    with configured(spark, CODE["stage"]):
        plan = executed_plan(chain(stream, named, "left"))
    lookups = [line for line in plan.splitlines() if "BsjoinLookup" in line]
    assert len({line.split("*(")[1].split(")")[0] for line in lookups}) == 1, plan


def test_many_joins_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Past the 64 KB of a method, Spark falls back: the rows are the same."""
    wide = spark.range(20).selectExpr("id AS k", *(f"id + {i} AS c{i}" for i in range(100)))
    table = stored(spark, wide, "k", tmp_path / "table")
    stream = spark.range(15).selectExpr("id AS x")

    def query(joins: int) -> DataFrame:
        found = stream
        for number in range(joins):
            columns = [f"c{i} AS c{number}_{i}" for i in range(100 // joins * 4)]
            side = table.selectExpr(f"k AS k{number}", *columns)
            found = found.join(side, F.expr(f"x + {number} = k{number}"), "left")
        return found

    for joins in (4, 20):
        check_same(spark, lambda joins=joins: query(joins), lookups=joins)


def test_a_self_join_of_the_table(spark: SparkSession, tables: Tables) -> None:
    for which in ("one", "many"):
        table = tables[which]
        check_same(spark, lambda table=table: table.alias("a").join(table.alias("b"), "k"))
        check_same(
            spark,
            lambda table=table: table.alias("a").join(
                table.alias("b"), F.expr("a.tier = b.k AND a.v < b.v"), "left"
            ),
        )


def test_one_scan_used_twice(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    """Equal joins may be computed once; joins that differ in anything may not."""
    table = tables["one"]

    def summed(condition: str, how: str) -> DataFrame:
        on = F.expr(f"s.k = t.k AND {condition}")
        joined = stream.alias("s").join(table.alias("t"), on, how)
        return joined.groupBy("s.x").agg(F.count("*").alias("n"), F.sum("v").alias("sum"))

    def query(*parts: tuple[str, str]) -> DataFrame:
        first, second = (summed(*part) for part in parts)
        return first.join(second, "x")

    same = ("t.tier > 1", "left")
    others = (("t.tier > 2", "left"), ("t.tier > 1", "inner"))
    for other in (same, *others):
        codes = ("stage", "adaptive")
        check_same(spark, lambda other=other: query(same, other), lookups=None, codes=codes)
    with configured(spark, CODE["stage"]):
        assert "ReusedExchange" in executed_plan(query(same, same))
        for other in others:
            assert "ReusedExchange" not in executed_plan(query(same, other))


AROUND: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "limit below": lambda s, t: s.orderBy("id").limit(7).join(t, "k", "left"),
    "limit above": lambda s, t: s.join(t, "k", "left").orderBy("id", "v").limit(9),
    "limit of the table": lambda s, t: s.join(t.orderBy("v").limit(5), "k", "left"),
    "distinct": lambda s, t: s.join(t.select("k").distinct(), "k", "left"),
    "aggregate": lambda s, t: s.join(t, "k").groupBy("x").agg(F.sum("v"), F.max("name")),
    "window": lambda s, t: s.join(t, "k", "left").selectExpr(
        "id", "v", "sum(v) OVER (PARTITION BY x ORDER BY id, v) AS w"
    ),
    "union": lambda s, t: s.join(t, "k").union(s.join(t.where("tier > 2"), "k")),
    "sample": lambda s, t: s.sample(fraction=0.5, seed=3).join(t, "k", "left"),
    "explode": lambda s, t: s.selectExpr("id", "explode(array(k, x)) AS k").join(t, "k", "left"),
    "repartition": lambda s, t: s.repartition(3, "k").join(t, "k", "left"),
    "sort": lambda s, t: s.sortWithinPartitions("k").join(t, "k", "left").groupBy("k").count(),
    "cache of the table": lambda s, t: s.join(t.where("v >= 0"), "k", "left"),
}


@pytest.mark.parametrize("around", AROUND)
def test_operators_around(
    spark: SparkSession, tables: Tables, stream: DataFrame, around: str
) -> None:
    for number, which in enumerate(("one", "many"), list(AROUND).index(around)):
        query = partial(AROUND[around], stream, tables[which])
        check_same(spark, query, lookups=None, codes=two_codes(number))


def test_what_is_not_deterministic_is_left_to_spark(
    spark: SparkSession, tables: Tables, stream: DataFrame
) -> None:
    table = tables["one"]
    check_same(spark, lambda: stream.join(table.where("rand(3) < 0.5"), "k"), lookups=0)
    check_same(
        spark, lambda: stream.join(table.selectExpr("k", "rand(3) > 0.5 AS r"), "k"), lookups=0
    )
    # On the stream's side it is below the join.
    check_same(spark, lambda: stream.where("rand(3) < 0.5").join(table, "k"))


def test_python_functions(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    plus = F.udf(lambda value: None if value is None else value + 1, "int")
    table = tables["one"]
    check_same(spark, lambda: stream.withColumn("k", plus("k")).join(table, "k", "left"))
    check_same(spark, lambda: stream.join(table.withColumn("w", plus("v")), "k", "left"), lookups=0)
    on = (F.col("s.k") == F.col("t.k")) & (plus("s.x") > F.col("t.v"))
    check_same(spark, lambda: stream.alias("s").join(table.alias("t"), on))


def test_hints(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    table = tables["one"]
    check_same(spark, lambda: stream.join(table.hint("broadcast"), "k", "left"))
    for hint in ("merge", "shuffle_hash", "shuffle_replicate_nl"):
        check_same(spark, lambda hint=hint: stream.join(table.hint(hint), "k"), lookups=0)
    for hint in ("merge", "broadcast", "shuffle_replicate_nl"):
        check_same(spark, lambda hint=hint: stream.hint(hint).join(table, "k"), lookups=0)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_casts_of_the_stream(
    spark: SparkSession, tables: Tables, stream: DataFrame, ansi: str
) -> None:
    left, table = stream.alias("s"), tables["one"].alias("t")
    with configured(spark, {"spark.sql.ansi.enabled": ansi}):
        check_same(spark, lambda: left.join(table, F.expr("CAST(s.id AS STRING) = t.k"), "left"))
        on = F.expr("try_divide(s.id, s.x) = t.k")
        check_same(spark, lambda: left.join(table, on, "left"), lookups=None)


def test_names_with_dots_and_of_the_same_letters(spark: SparkSession, tmp_path: Path) -> None:
    with configured(spark, {"spark.sql.caseSensitive": "true"}):
        df = spark.sql("SELECT id AS `a.b`, id + 1 AS `A.b`, id * 2 AS `x``y` FROM range(9)")
        table = stored(spark, df, "a.b", tmp_path / "table").alias("t")
        stream = spark.range(12).alias("s")
        check_same(spark, lambda: stream.join(table, F.expr("s.id = t.`a.b`"), "left"))
        check_same(spark, lambda: stream.join(table, F.expr("s.id = t.`A.b`"), "left"), lookups=0)


def test_an_empty_table(spark: SparkSession, tmp_path: Path, stream: DataFrame) -> None:
    empty = stored(spark, spark.sql("SELECT 1 AS k, 2 AS v WHERE false"), "k", tmp_path / "table")
    check_same(spark, *of_kinds(stream, empty))
    stream.createOrReplaceTempView("s")
    empty.createOrReplaceTempView("t")
    text = "SELECT * FROM s WHERE k NOT IN (SELECT k FROM t)"
    check_same(spark, lambda: spark.sql(text), lookups=None)


def test_keys_with_very_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of one key pass one by one: a limit stops them, and none are kept."""
    df = spark.range(20_000).selectExpr("id % 2 AS k", "id AS v")
    table = stored(spark, df, "k", tmp_path / "table")
    stream = spark.range(3).selectExpr("id AS k")
    check_same(spark, lambda: stream.join(table, "k", "left").selectExpr("count(*)", "sum(v)"))
    assert len(rows(stream.join(table, "k").limit(5))) == 5


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
        lines = executed_plan(df).splitlines()
        return ["*(" in line for line in lines if "BsjoinLookup" in line]

    with configured(spark, CODE["stage"]):
        assert stages(query(table, two)) == [True, True]  # of 2,000 rows
        assert stages(query(two, two, table, two)) == [False, True, True, True]
        assert stages(query(table, table, two)) == [True, False, True]
        assert len(query(table, table).limit(7).collect()) == 7
    sums = ["count(*)", "sum(v0)", "sum(v1)", "sum(v2)"]
    check_same(spark, lambda: query(two, table, two).selectExpr(*sums), lookups=3)
    check_same(spark, lambda: query(table, two, two).selectExpr(*sums), lookups=3)


def test_views_in_other_sessions(spark: SparkSession, tables: Tables) -> None:
    """The session that plans has the strategy, whichever session has loaded the table."""
    tables["one"].createOrReplaceGlobalTempView("shared")
    other = spark.newSession()
    other.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        df = other.range(5).join(other.table("global_temp.shared"), F.expr("id = k"))
        assert "BsjoinLookup" in executed_plan(df)
        assert df.count() == 5
    finally:
        spark.catalog.dropGlobalTempView("shared")
        spark.range(1).count()  # and ours is the active one again


def test_explain(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    on = F.expr("s.k = t.k AND t.tier > s.x")
    df = stream.alias("s").join(tables["one"].alias("t"), on, "left")
    for mode in ("SIMPLE", "FORMATTED"):
        java = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)
        plan = str(df._jdf.queryExecution().explainString(java))
        assert "BsjoinLookup" in plan
        assert "version 1] LeftOuter, keys [k#" in plan
        assert ", condition " in plan


def test_metrics(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    def metrics(df: DataFrame) -> dict[str, int]:
        df.collect()
        plan = df._jdf.queryExecution().executedPlan()
        while plan.nodeName() != "BsjoinLookup":
            plan = plan.children().apply(0)
        found: Any = plan.metrics()
        names = found.keys().iterator()
        result = {}
        while names.hasNext():
            name = names.next()
            result[name] = found.apply(name).value()
        return result

    with configured(spark, CODE["stage"]):
        for code in ("stage", "projections"):
            with configured(spark, CODE[code]):
                found = metrics(stream.join(tables["many"], "k", "left"))
                joined = stream.join(tables["many"], "k").count()
                matched = stream.join(tables["many"], "k", "semi").count()
                assert found["rowsIn"] == 40
                assert found["matchedRows"] == matched
                assert found["rowsOut"] == joined + 40 - matched
                assert found["openTime"] > 0
                assert found["version"] == 1
        with configured(spark, {"spark.bsjoin.metrics": "off"}):
            assert metrics(stream.join(tables["many"], "k", "left")) == {}


def test_a_table_that_is_gone_or_built_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = stored(spark, spark.range(5).selectExpr("id AS k", "id AS v"), "k", path)
    stream = spark.range(5).selectExpr("id AS k")
    assert rows(stream.join(table, "k")) == [(i, i) for i in range(5)]
    stored(spark, spark.range(5).selectExpr("id AS k", "id + 9 AS v"), "k", path)
    assert rows(stream.join(plain(spark, path), "k")) == [(i, i + 9) for i in range(5)]
