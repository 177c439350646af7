"""``where=`` and ``indicator=``: the rest of a join's condition, and which rows have a match.

Spark's own join with the whole condition is the oracle.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import (
    HOWS,
    assert_same_rows,
    by_join_type,
    one_part,
    right_rows,
    rows_of_all,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured
from spark_samples import Feed, cycles, rows, rows_of_each, values_of

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Incremental, Overlaps, Within
from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.planner.chain import joins_of
from bsjoin.runtimes.python.worker.passing import DROP, KEEP, KEEP_WITHOUT, decisions

ROOMY = Incremental(max_rows=100_000)
DOUBLES = (None, float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, 2.0, 1e300)
POINTS = (None, 1, 2, 3, 4, 5, 2**31 - 1)

STREAM = pa.schema(
    [
        pa.field("k", pa.int32()),
        pa.field("p", pa.int32()),
        pa.field("until", pa.int32()),
        pa.field("amount", pa.float64()),
        pa.field("tag", pa.string()),
        pa.field("list", pa.list_(pa.int32())),
    ]
)
TABLE = pa.schema(
    [
        pa.field("k", pa.int32()),
        pa.field("q", pa.int32()),
        pa.field("y", pa.int32()),
        pa.field("amount", pa.float64()),
        pa.field("limit", pa.float64()),
        pa.field("name", pa.string()),
        pa.field("n", pa.int32(), nullable=False),
    ]
)

WHENS = {
    "equality": (["k"], None, "true"),
    "band": (["k"], Band("p", "q", before=1, after=1), "q BETWEEN p - 1L AND p + 1L"),
    "band alone": ([], Band("p", "q", before=0, after=2), "q BETWEEN p AND p + 2L"),
    "within": (["k"], Within("p", "q", "y"), "q <= p AND (p < y OR y IS NULL)"),
    "overlaps": (
        ["k"],
        Overlaps(("p", "until"), ("q", "y")),
        "q < coalesce(until, 9e9D) AND p < coalesce(y, 9e9D) AND (until IS NULL OR p < until) "
        "AND (y IS NULL OR q < y) AND p IS NOT NULL AND q IS NOT NULL",
    ),
}
WHERES = (
    "amount < limit",
    "amount_batch <=> amount OR name = tag",
    "limit IS NULL",
    "CASE WHEN k > 1 THEN name > 'b' ELSE n % 2 = 0 END",
    "array_contains(list, n % 3) AND isnan(limit) = isnan(amount)",
    "CAST(NULL AS boolean)",
    "true",
    "size(list) > 1 AND amount IS NOT NULL",
)
PAIRS = [
    ("equality", WHERES[0]), ("equality", WHERES[1]), ("equality", WHERES[2]),
    ("equality", WHERES[5]), ("band", WHERES[4]), ("band alone", WHERES[3]),
    ("within", WHERES[6]), ("within", WHERES[0]), ("overlaps", WHERES[7]), ("overlaps", WHERES[1]),
]  # fmt: skip


def _drawn(seed: str, count: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "k": draw.choice([None, 1, 1, 2, 2, 3, 4]),
            "p": draw.choice(POINTS),
            "until": draw.choice(POINTS),
            "q": draw.choice(POINTS),
            "y": draw.choice(POINTS),
            "amount": draw.choice(DOUBLES),
            "limit": draw.choice(DOUBLES),
            "tag": draw.choice([None, "", "a", "b", "é"]),
            "name": draw.choice([None, "", "a", "b", "c", "é"]),
            "list": draw.choice([None, [], [None], [0, 1], [1, 2, None]]),
            "n": number,
        }
        for number in range(count)
    ]


def _table(seed: str, count: int, schema: pa.Schema) -> pa.Table:
    drawn = _drawn(seed, count)
    return pa.Table.from_pylist([{n: row[n] for n in schema.names} for row in drawn], schema)


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return one_part(spark, _table("stream", 30, STREAM))


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> DataFrame:
    return one_part(spark, _table("table", 40, TABLE))


def _by_spark(stream: DataFrame, batch: DataFrame, kind: str, where: str) -> DataFrame:
    """Spark's left join, for :func:`oracle.by_join_type`."""
    on, _, ranges = WHENS[kind]
    there = batch.withColumnRenamed("k", "key").withColumnRenamed("amount", "amount_batch")
    whole = F.expr(f"({ranges}) AND ({where})")
    if on:
        whole = (F.col("k") == F.col("key")) & whole
    numbered = stream.withColumn("__id", F.monotonically_increasing_id())
    joined = numbered.join(there.withColumn("__found", F.lit(True)), whole, "left")
    brought = [name for name in there.columns if name != "key"]
    return joined.select(*stream.columns, *brought, "__id", "__found")


@pytest.mark.parametrize(
    "pairs", [PAIRS[::4], pytest.param(PAIRS, marks=pytest.mark.long)], ids=["three", "all"]
)
def test_every_kind_of_join_answers_as_spark_does(
    spark: SparkSession, stream: DataFrame, batch: DataFrame, pairs: list[tuple[str, str]]
) -> None:
    """Each condition meets a left join with one runtime, and another join type with the other."""
    answers = right_rows({pair: _by_spark(stream, batch, *pair) for pair in pairs})
    right = {pair: by_join_type(table, len(STREAM)) for pair, table in answers.items()}
    assert all(table.num_rows for table in right["equality", WHERES[0]].values())
    with configured(spark, CODE["python"]):
        tables = {
            kind: BatchTable.build(batch, on=WHENS[kind][0], when=WHENS[kind][1])
            for kind in dict.fromkeys(kind for kind, _ in pairs)
        }
    for shift, runtime in enumerate(("jvm", "python")):
        results = {}
        with configured(spark, {"spark.bsjoin.runtime": runtime, **CODE[runtime]}):
            for number, (kind, where) in enumerate(pairs):
                other = ("semi", "inner", "anti")[number % 3]
                how: Any = "left" if (number + shift) % 2 else other
                on, when, _ = WHENS[kind]
                brought = [n for n in batch.columns if n != "k"] if how in HOWS[:2] else None
                results[kind, where, how] = tables[kind].join(
                    stream, on, how, when=when, where=where, select=brought
                )
            found = rows_of_all(results)
        for (kind, where, how), rows_ in found.items():
            assert_same_rows(rows_, right[kind, where][how], f"{runtime}, {kind}, {how}, {where}")


@pytest.mark.long
@pytest.mark.usefixtures("runtime")
def test_keys_that_begin_to_repeat_while_a_stream_runs(spark: SparkSession, feed: Feed) -> None:
    """Each micro-batch is answered by the version that it reads."""
    once = [(0, 5), (1, 1), (2, 7)]
    table = BatchTable.build(spark.createDataFrame(once, "k long, v long"), on="k")
    joined = table.join(feed.stream, "k", "left", where="v > 4", indicator="found")
    (step,) = joins_of(joined)
    assert not step.planned.plan.needs_unique
    query = feed.run(joined, 0, 1, 3)
    more = [*once, (0, 1), (0, 6), (1, 2), (2, 3)]
    assert table.refresh(spark.createDataFrame(more, "k long, v long")) == 2
    feed.turn(query, 0, 1, 2, 3)
    first = cycles(query)[0]
    # The operator of the JVM knows what passes; workers know the candidates alone.
    assert first.hits == (1 if step.planned.plan.runtime == "jvm" else 2)
    assert feed.results[0] == [(0, 5, True), (1, None, False), (3, None, False)]
    assert feed.results[1] == [
        (0, 5, True), (0, 6, True), (1, None, False), (2, 7, True), (3, None, False)
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_between_and_below_what_spark_does(
    spark: SparkSession, stream: DataFrame, batch: DataFrame, runtime: str
) -> None:
    """Chains, counts, views, what is cached, and a shuffle that adaptive execution plans again."""
    table = BatchTable.build(batch, on="k")
    own = batch.withColumnRenamed("k", "key").withColumnRenamed("amount", "amount_batch")

    def by_spark(rows: DataFrame, where: str, how: str, other: DataFrame = own) -> DataFrame:
        found = rows.join(other, (F.col("k") == F.col("key")) & F.expr(where), how)
        return found.drop("key")

    columns = [*stream.columns, "limit", "name"]
    right_left = by_spark(stream, "amount < limit", "left").select(*columns)
    renamed = own.withColumnsRenamed({"limit": "limit_batch", "name": "name_batch"})
    right_semi = by_spark(right_left, "n > 3 AND name_batch >= tag", "left_semi", renamed)
    right_anti = by_spark(stream, "amount_batch > amount", "left_anti")
    with configured(spark, CODE["python"]):
        of_semi = right_semi.count()
        of_left = right_left.where("p > 1").groupBy("k").agg(F.count("*").alias("n")).collect()
        twice = [row for row in right_left.select("k", "name").collect() for _ in range(2)]
        of_anti = right_anti.agg(F.sum("p"), F.count("*")).collect()
    checked = {**CODE[runtime], "spark.sql.planChangeValidation": "true"}
    with configured(spark, {"spark.bsjoin.runtime": runtime, **checked}):
        left = table.join(stream, how="left", where="amount < limit", select=["limit", "name"])
        assert left.columns == columns
        semi = table.join(left, how="semi", where="n > 3 AND name_batch >= tag")
        assert semi.count() == of_semi > 0
        left.createOrReplaceTempView("joined")
        try:
            of_view = spark.sql("SELECT k, count(*) AS n FROM joined WHERE p > 1 GROUP BY k")
            assert Counter(of_view.collect()) == Counter(of_left)
        finally:
            spark.catalog.dropTempView("joined")
        kept = left.cache()
        try:
            again = kept.repartition(2, "name").select("k", "name")
            both = again.union(kept.select("k", "name")).collect()
            assert Counter(map(repr, both)) == Counter(map(repr, twice))
        finally:
            kept.unpersist()
        anti = table.join(stream.repartition(2), how="anti", where="amount_batch > amount")
        assert anti.agg(F.sum("p"), F.count("*")).collect() == of_anti


@pytest.mark.usefixtures("without_code")
@pytest.mark.long
def test_references_hold_in_the_condition_and_in_the_result(spark: SparkSession) -> None:
    orders = spark.sql("SELECT * FROM VALUES (1, 5, 'x'), (2, 50, 'y') AS t(k, amount, name)")
    customers = spark.sql(
        "SELECT * FROM VALUES (1, 10, 'a'), (1, 3, 'b'), (2, 20, 'c') AS t(k, limit, name)"
    )
    passes = (orders["amount"] < customers["limit"]) & (customers["name"] != orders["name"])
    joined = bsjoin.join(orders, customers, "k", "left", where=passes, select=["name"])
    assert joined.columns == ["k", "amount", "name", "name_batch"]
    assert rows(joined.select(orders["k"], customers["name"])) == [(1, "a"), (2, None)]
    c = customers.alias("c")
    semi = bsjoin.join(orders.alias("o"), c, "k", "semi", where="o.amount > c.limit")
    assert rows(semi.select("o.k")) == [(1,), (2,)]


@pytest.mark.usefixtures("without_code")
@pytest.mark.long
def test_a_python_function_in_the_condition(
    spark: SparkSession, stream: DataFrame, batch: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    is_small = F.udf(lambda value: value is not None and value < 2, "boolean")
    table = BatchTable.build(batch, on="k")
    with configured(spark, {"spark.bsjoin.runtime": "auto"}):  # whatever the module's tests have
        results = {}
        for how in HOWS:
            join = partial(table.join, stream, "k", how)  # type: ignore[arg-type]
            results[how, "ours"] = join(where=is_small("limit"))
            plan = joins_of(results[how, "ours"])[-1].planned.plan
            assert plan.runtime == ("jvm" if how == "inner" else "python")
            results[how, "same"] = join(where="limit < 2")
        bsjoin.explain(results["anti", "ours"])
    found = values_of(results)
    assert all(found[how, "ours"] == found[how, "same"] != [] for how in HOWS)
    printed = capsys.readouterr().out
    assert "the condition where='<lambda>(limit)' calls a Python function" in printed


@pytest.mark.parametrize("way", ["keys", "rows"])
def test_a_row_without_a_match_is_not_checked(spark: SparkSession, way: str) -> None:
    """Where keys do not repeat, the table's columns tell a match, which may have nulls alone."""
    stream = spark.sql("SELECT explode(array(NULL, 1L, 2L, 3L, 4L, 5L, 6L)) AS k").coalesce(1)
    there = spark.sql(
        "SELECT * FROM VALUES (1L, 1, NULL, NULL), (2L, 2, 5, 'a'), (3L, 3, NULL, 'b'), "
        "(4L, 4, 7, NULL), (5L, 5, 8, 'c') AS t(k, n, v, name)"
    ).coalesce(1)
    table = BatchTable.build(there, on="k", unique=True)
    wheres = ["12 DIV coalesce(n, 0) > 3", "12 DIV coalesce(n, 0) < 5 OR v IS NULL",
              "12 DIV coalesce(n, 0) > 2 AND name <> 'a'", "v IS NULL AND k < 3"]  # fmt: skip
    strict = {**CODE["python"], "spark.sql.ansi.enabled": "true"}
    results, right = {}, {}
    own = {"spark.bsjoin.runtime": "python", "spark.bsjoin.python.transfer": way, **strict}
    with configured(spark, own):
        for where, select in itertools.product(wheres, (["v", "name"], ["v"], [])):
            name = f"{where}, {select}"
            results[name] = table.join(stream, how="left", where=where, select=select)
            other = there.withColumnRenamed("k", "key")
            both = (F.col("k") == F.col("key")) & F.expr(where)
            right[name] = stream.join(other, both, "left").select("k", *select)
        found, wanted = values_of(results), values_of(right)
    assert found == wanted


@pytest.mark.parametrize(
    "ways",
    [["jvm", "rows"], pytest.param(["jvm", "keys", "rows", "source"], marks=pytest.mark.long)],
    ids=["two", "all"],
)
def test_the_look_up_says_whether_there_is_a_match(
    spark: SparkSession, tmp_path: Path, ways: list[str]
) -> None:
    """Whatever travels, however many rows a key has, and with no column of the table for it."""
    ids, many_of = (0, 1, 1, None, 7), (1, 3, 150)
    stream = spark.createDataFrame([(k,) for k in ids], "k long").coalesce(1)
    passing: dict[str | None, Callable[[Any, Any], bool]] = {
        None: lambda _, v: True, "v IS NULL": lambda _, v: v is None, "k < 1": lambda k, _: k < 1,
    }  # fmt: skip
    tables = []
    for many in many_of:
        pairs = [(n % 2, None if n == 1 else n) for n in range(2 * many)]
        there = spark.createDataFrame(pairs, "k long, v long").coalesce(1)
        source = Model(tmp_path / str(many), there.toArrow(), unique=many == 1)
        tables.append((pairs, BatchTable.build(there, on="k"), source))
    for turn, way in enumerate(ways):
        runtime = "jvm" if way == "jvm" else "python"
        own = {"spark.bsjoin.runtime": runtime, **CODE[runtime]}
        own["spark.bsjoin.python.transfer"] = way if way in ("keys", "rows") else "auto"
        results, wanted = {}, {}
        with configured(spark, own):
            for (size, (pairs, table, source)), (place, (where, passes)) in itertools.product(
                enumerate(tables), enumerate(passing.items())
            ):
                if (turn + size + place) % 3 == 0:  # each way meets all in pairs
                    continue
                how: Any = ("inner", "left")[(turn + size) % 2]
                select = ["v"] if where == "k < 1" else []
                options: dict[str, Any] = {"where": where, "select": select, "indicator": "found"}
                name = f"{many_of[size]} {how} {where}"
                if way == "source":
                    joined = bsjoin.join(stream, source, "k", how, cache=ROOMY, **options)
                else:
                    joined = table.join(stream, "k", how, **options)
                read = [field.name for field in joins_of(joined)[-1].planned.read]
                assert read == (["v"] if where == "v IS NULL" else select), name
                assert joined.schema["found"].nullable is False
                results[name] = joined.select("k", "found", *select)
                wanted[name] = Counter[tuple[Any, ...]]()
                for k in ids:
                    found = [(k, True, v)[: 2 + len(select)] for key, v in pairs
                             if key == k and passes(k, v)]  # fmt: skip
                    nothing = [(k, False, None)[: 2 + len(select)]] * (how == "left")
                    wanted[name].update(found or nothing)
            for name, rows_ in rows_of_each(results).items():
                assert Counter(rows_) == wanted[name], (way, name)


def test_candidates_are_not_taken_from_the_cache(spark: SparkSession) -> None:
    """A join without the condition may have left its rows there."""
    ids = spark.sql("SELECT explode(array(1L, 2L)) AS k")
    table = BatchTable.build(spark.sql("SELECT 1L AS k, 5 AS v"), on="k")
    cached = table.join(ids, how="left", indicator="found").cache()
    try:
        joined = table.join(ids, how="left", where="v > 7", indicator="found")
        assert rows(joined) == [(1, None, False), (2, None, False)]
    finally:
        cached.unpersist()


@pytest.mark.usefixtures("without_code")
def test_cycles_take_both(spark: SparkSession) -> None:
    table = BatchTable.build(spark.sql("SELECT 1L AS k, explode(array(1, 5)) AS v"), on="k")
    told: list[Any] = []
    steered = bsjoin.cycles(
        table, "k", how="left", where="v > k + 1", indicator="found", select=[],
        sink=lambda result, _: told.append(rows(result)),
    )  # fmt: skip
    steered(spark.sql("SELECT explode(array(1L, 2L)) AS k"), 0)
    steered(spark.sql("SELECT 1L AS k"), 1)
    assert told == [[(1, True), (2, False)], [(1, True)]]


def test_explain_shows_the_condition_and_what_comes_back(
    stream: DataFrame, batch: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    condition = F.col("amount") < F.col("limit")
    joined = bsjoin.join(
        stream, batch, "k", "left", where=condition, select=["name"], indicator="found"
    )
    bsjoin.explain(bsjoin.join(joined, batch, "k", "semi", where="limit > 3"))
    printed = capsys.readouterr().out
    assert printed.startswith("(1) left join on k = k where (amount < limit): full cache, version")
    assert "; brings name, found\n" in printed
    assert "(2) semi join on k = k where limit > 3: full cache, version" in printed
    assert "; brings no column\n" in printed


FAULTS: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
    ({"where": "hash(*) % 2 = 0", "how": "left"}, ArgumentError, ["Name the columns"]),
    ({"where": "limt > 3"}, ColumnError, ["'limt'", "Did you mean 'limit'", "the suffix"]),
    ({"where": "amount + 1"}, ArgumentError, ["amount + 1", "DOUBLE", "a comparison"]),
    ({"where": "sum(amount) > 3"}, ArgumentError, ["aggregates", "before the join"]),
    ({"where": "row_number() OVER (ORDER BY k) > 2"}, ArgumentError, ["windows"]),
    ({"where": "explode(array(true))"}, ArgumentError, ["generators"]),
    ({"where": "rand() > 0.5"}, ArgumentError, ["not deterministic", "withColumn"]),
    ({"where": "k IN (SELECT 1)"}, ArgumentError, ["a subquery", "join with its result"]),
    ({"where": "amount >"}, ArgumentError, ["'amount >'", "PARSE_SYNTAX_ERROR"]),
    ({"where": True}, ArgumentError, ["where=True", "a bool", "SQL text"]),
    ({"indicator": True}, ArgumentError, ['indicator="found"']),
    ({"indicator": ""}, ArgumentError, ['indicator="found"']),
    ({"indicator": "AMOUNT", "how": "left"}, ColumnError, ["'AMOUNT'", "another name"]),
    ({"indicator": "name"}, ColumnError, ["'name'", "another name"]),
    ({"indicator": "found", "how": "semi"}, ArgumentError, ["every row", "how='left'"]),
    ({"indicator": "found", "how": "anti"}, ArgumentError, ["no row", "how='left'"]),
]


def test_what_is_wrong_is_said_before_a_table_is_built(
    stream: DataFrame, batch: DataFrame, builds: list[str]
) -> None:
    of_columns = [
        ({"where": F.col("limt") > 3}, ColumnError, ["'limt'", "Did you mean 'limit'"]),
        ({"where": F.hash("*") % 2 == 0, "how": "left"}, ArgumentError, ["Name the columns"]),
    ]
    for options, kind, parts in [*FAULTS, *of_columns]:
        with pytest.raises(kind) as error:
            bsjoin.join(stream, batch, "k", **options)
        assert all(part in str(error.value) for part in parts), (options, str(error.value))
    with pytest.raises(ColumnError, match="by the stream's names"):
        bsjoin.join(stream, batch, {"p": "k"}, where="k_batch > 3")
    with pytest.raises(ColumnError, match="not any more"):
        bsjoin.join(stream.drop("p"), batch, "k", where=stream["p"] > 3)
    elsewhere = batch.select(F.col("n").alias("m"))
    with pytest.raises((ColumnError, ArgumentError)):
        bsjoin.join(stream, batch, "k", where=elsewhere["m"] > 3)
    assert not builds


@pytest.mark.usefixtures("without_code")
def test_an_asterisk_in_a_text_or_a_name_is_no_list_of_columns(spark: SparkSession) -> None:
    stream = spark.sql("SELECT 1 AS k, 'a, *' AS p, named_struct('x', 2) AS s").alias("o")
    table = spark.sql("SELECT 1 AS k, 'a.*' AS q, 3 AS `count(*)`").alias("c")
    passing: list[Any] = [
        F.col("q") == "a.*", F.col("p") == "a, *", F.col("q").rlike("a.*"),
        F.lit("(*)") != F.col("q"), F.col("`count(*)`") > 2, "`count(*)` > 2 /* , * */",
        "hash(s.*) = hash(2)", "hash(o.*) = hash(k, p, s)", "hash(o . *, q) = hash(k, p, s, q)",
    ]  # fmt: skip
    found = {}
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            for where in passing:
                joined = bsjoin.join(stream, table, "k", "left", where=where, select=["q"])
                found[f"{where}, {runtime}"] = joined
    assert {tuple(some) for some in values_of(found).values()} == {
        ('{"c0":1,"c1":"a, *","c2":{"x":2},"c3":"a.*"}',)
    }


def test_all_columns_of_a_table_depend_on_what_is_selected(spark: SparkSession) -> None:
    """Which ones a pair of rows has, and in which order."""
    stream = spark.sql("SELECT 1 AS k").alias("o")
    one = spark.sql("SELECT 1 AS k, 2 AS q").alias("c")
    both = one.join(spark.sql("SELECT 1 AS k, 3 AS z").alias("d"), "k")
    refused: list[tuple[DataFrame, Any]] = [
        (one, "hash(c.*) = hash(q)"), (one, "q IN (1, 2) AND hash(k, C . *) > 0"),
        (one, F.hash("c.*") > 0), (one.where("q > 0").alias("c").select("q", "k"), "hash(c.*) > 0"),
        (both, "hash(o.*, c.*) > 0"), (both, "hash(d.*) = hash(z)"),
        (spark.sql("SELECT 1 AS k, 2 AS q").alias("o"), "hash(o.*) > 0"),
    ]  # fmt: skip
    for table, where in refused:
        with pytest.raises(ArgumentError, match=r"all of the table.* Name the columns"):
            bsjoin.join(stream, table, "k", "left", where=where)


@pytest.mark.usefixtures("without_code")
def test_what_spark_infers_of_the_stream_is_checked_above(spark: SparkSession) -> None:
    """It adds equalities that follow from others to the filter that has the condition."""
    rows = [(n, n, n, n, n, n - n % 7, n % 5) for n in range(40)]
    stream = spark.createDataFrame(rows, "a int, b int, c int, d int, e int, f int, k int")
    stream = stream.where("a = b AND b = c AND c = d AND d = e AND e = f")
    table = spark.createDataFrame([(k, 9 * k) for k in range(4)], "k int, w int")
    found = bsjoin.join(stream, table, "k", "left", where="w > a")
    same = (stream["k"] == table["k"]) & (table["w"] > stream["a"])
    own = stream.join(table, same, "left").drop(table["k"])
    assert sorted(map(repr, found.collect())) == sorted(map(repr, own.collect()))


def test_the_nearest_rows_that_pass_come_from_generated_code(spark: SparkSession) -> None:
    """However many rows a key has: those that are taken count."""
    many = spark.range(5000).selectExpr("0 AS k", "id AS q")
    table = BatchTable.build(many, on="k", when=AsOf("p", "q"))
    stream = spark.range(1).selectExpr("0 AS k", "id AS p")
    code = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    with configured(spark, {"spark.bsjoin.runtime": "jvm", **code}):
        joined = table.join(stream, when=AsOf("p", "q", n=2), where="q % 3 > p")
        assert "*(1) BsjoinLookup" in joined._jdf.queryExecution().executedPlan().toString()


def _by_loop(how: str, ids: list[int], passes: list[bool], most: int | None) -> list[int]:
    found = [DROP] * len(ids)
    for place, row in enumerate(ids):
        same = [i for i, other in enumerate(ids) if other == row]
        some = [i for i in same if passes[i]]
        if how != "anti" and place in some[: 1 if how == "semi" else most]:
            found[place] = KEEP
        elif how in ("left", "anti") and not some and same[-1] == place:
            found[place] = KEEP_WITHOUT
    return found


@pytest.mark.parametrize("how", HOWS)
def test_decisions_are_those_of_a_loop_however_candidates_are_cut_into_batches(how: str) -> None:
    draw = random.Random(how)
    for _ in range(200):
        sizes = [draw.choice([1, 1, 2, 3, 7]) for _ in range(draw.randrange(8))]
        ids = [row for row, size in enumerate(sizes) for _ in range(size)]
        passes = [draw.random() < 0.3 for _ in ids]
        places = sorted(draw.randrange(len(ids) + 1) for _ in range(draw.randrange(6)))
        parts = list(itertools.pairwise([0, *places, len(ids)]))
        batches = (
            (
                pa.array([i == 0 or ids[i] != ids[i - 1] for i in range(a, b)], pa.bool_()),
                pa.array(passes[a:b], pa.bool_()),
            )
            for a, b in parts
        )
        most = draw.choice([None, 1, 2])
        told = decisions(how, (one for one in batches if len(one[0])), most)
        found = np.concatenate([np.zeros(0, np.int8), *(one.to_numpy() for one in told)])
        assert found.tolist() == _by_loop(how, ids, passes, most)
