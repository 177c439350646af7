"""Conditions that workers check: which ones these are, and that they mean what Spark means."""

from __future__ import annotations

import functools
import random
from operator import or_
from typing import Any

import pyarrow as pa
import pytest
from oracle import one_part
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured
from spark_samples import rows, values_of

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.plan import Call, StageColumn
from bsjoin.planner.chain import joins_of
from bsjoin.planner.checks import check_of, placed
from bsjoin.runtimes.python.worker.chain_rows import evaluated
from bsjoin.spark import compat
from bsjoin.spark.leaves import listed

HOSTILE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [None, -128, -1, 0, 127]),
    "small": (pa.int32(), [None, -(2**31), -1, 0, 127, 2**31 - 1]),
    "big": (pa.int64(), [None, -(2**63), -1, 0, 127, 2**31, 2**63 - 1]),
    "day": (pa.date32(), [None, -719162, -1, 0, 18262, 2932896]),
    "other": (pa.date32(), [None, 0, 18262]),
    "at": (pa.timestamp("us", "UTC"), [None, -62135596800000000, -1, 0, 1]),
    "till": (pa.timestamp("us", "Asia/Tokyo"), [None, -1, 0, 253402300799999999]),
    "plain": (pa.timestamp("us"), [None, -1, 0]),
    "text": (pa.string(), [None, "", " ", "a", "B", "b", "é", "e\u0301", "\U0001f600", "\uffff"]),
    "word": (pa.string(), [None, "", "a", "b ", "é", "\uffff"]),
    "raw": (pa.binary(), [None, b"", b"\x00", b"\x7f", b"\x80", b"a"]),
    "bytes": (pa.binary(), [None, b"", b"\x80", b"\xff"]),
    "yes": (pa.bool_(), [None, False, True]),
    "no": (pa.bool_(), [None, False, True]),
    "x": (pa.float64(), [None, float("nan"), -0.0, 0.0, 1.5]),
}
PAIRS = [("tiny", "small"), ("small", "big"), ("tiny", "big"), ("day", "other"), ("at", "till"),
         ("text", "word"), ("raw", "bytes"), ("yes", "no"), ("big", "9223372036854775807"),
         ("small", "128"), ("-1Y", "tiny"), ("text", "'é'"), ("day", "DATE'2020-01-01'"),
         ("yes", "true"), ("big", "small"), ("at", "plain")]  # fmt: skip
OTHERS = (
    "x > 1", "x = x", "small > x", "small + 1 > 0", "big = 1.5", "CAST(big AS int) = 0",
    "text = 1", "upper(text) = 'A'", "text COLLATE UTF8_LCASE = 'a'", "small = CAST(NULL AS int)",
    "true", "at > CAST(plain AS timestamp_ntz)", "day > at", "at > current_timestamp()",
    "day = current_date()", "CASE WHEN yes THEN no END", "text LIKE 'a%'", "1 < 2 AND yes",
    "raw = X'80'",
)  # fmt: skip


@pytest.fixture(scope="module")
def pairs(spark: SparkSession) -> DataFrame:
    draw = random.Random("pairs")
    columns = {n: pa.array(draw.choices(v, k=300), t) for n, (t, v) in HOSTILE.items()}
    return one_part(spark, pa.table(columns))


def _check(pairs: DataFrame, condition: str | Column) -> Call | None:
    plan = compat.analyzed(pairs.where(condition))
    ids = [one.exprId().id() for one in listed(plan.output())]
    return check_of(plan.condition().toJSON(), pairs.schema, ids)


def _drawn(draw: random.Random, depth: int) -> str:
    kind = draw.choice(["AND", "OR", "NOT", "column"] if depth else ["column"])
    if kind == "column":
        one, other = draw.choice(PAIRS)
        null = draw.choice(list(HOSTILE))
        compared = f"{one} {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {other}"
        return draw.choice([compared] * 4 + [f"{null} IS NULL", f"{null} IS NOT NULL", "yes"])
    if kind == "NOT":
        return f"NOT ({_drawn(draw, depth - 1)})"
    return f"({_drawn(draw, depth - 1)}) {kind} ({_drawn(draw, depth - 1)})"


def test_a_worker_finds_what_spark_finds(spark: SparkSession, pairs: DataFrame) -> None:
    draw = random.Random()
    seed = draw.randrange(10**6)
    draw.seed(seed)
    single = [f"{a} {sign} {b}" for a, b in PAIRS for sign in ("=", "<", "<=", ">", ">=")]
    conditions = [*single, *(_drawn(draw, 3) for _ in range(60))]
    with configured(spark, CODE["python"]):
        wanted = pairs.selectExpr(*(f"({one}) AS c{n}" for n, one in enumerate(conditions)))
        right, given = wanted.toArrow(), pairs.toArrow().combine_chunks()
    for number, condition in enumerate(conditions):
        check = _check(pairs, condition)
        assert check is not None, condition
        numbered = placed(check, lambda one: StageColumn(None, pairs.columns.index(one.name)))
        found = evaluated(numbered, lambda one: given.column(one.number))
        assert found.to_pylist() == right.column(number).to_pylist(), (seed, condition)


def test_what_is_left_to_spark(pairs: DataFrame) -> None:
    for condition in OTHERS:
        for whole in (condition, f"yes AND ({condition})"):
            assert _check(pairs, whole) is None, whole
    twice = pairs.select("small", pairs["big"].alias("small"))
    assert _check(twice, pairs["small"] > 0) is None  # a stage has columns by their names
    assert _check(pairs, " OR ".join(f"small = {n}" for n in range(40))) is not None
    assert _check(pairs, functools.reduce(or_, [F.col("big") == n for n in range(100)])) is None
    code = F.col("word").alias("code", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    coded = pairs.select(code, F.expr("text COLLATE UTF8_LCASE").alias("text"))
    assert _check(coded, "code = 'a'") is None
    assert _check(coded, "text = 'a'") is None


def test_rows_leave_the_stage_as_they_are(spark: SparkSession) -> None:
    """With a projection above them Spark would copy each row once more."""
    ids = spark.sql("SELECT explode(array(NULL, 1L, 2L, 3L, 4L)) AS k, 7 AS Least")
    there = "SELECT * FROM VALUES (1L, 5, 'a'), (2L, 9, NULL), (4L, NULL, 'b') AS t(k, v, name)"
    table = BatchTable.build(spark.sql(there), on="k", unique=True)
    names = BatchTable.build(spark.sql("SELECT 9 AS v, 'nine' AS called"), on="v", unique=True)
    right = {
        ("inner", None): [(2, 7, 9, None)],
        ("left", None): [(None, 7, None, None), (1, 7, None, None), (2, 7, 9, None),
                         (3, 7, None, None), (4, 7, None, None)],
    }  # fmt: skip
    for how in ("inner", "left"):
        right[how, "found"] = [(*row, row[2] is not None) for row in right[how, None]]
    with configured(spark, {"spark.bsjoin.runtime": "python", **CODE["python"]}):
        for (how, indicator), wanted in right.items():
            options: dict[str, Any] = {"how": how, "indicator": indicator}
            joined = table.join(ids, where="v > least", **options)
            plan = joined._jdf.queryExecution().optimizedPlan().toString()
            assert plan.startswith("MapInArrow"), plan
            assert rows(joined) == wanted
            # A later join, and one with a condition, are in the same stage.
            later = names.join(joined, "v", "left", where="called > 'm' AND k < 3")
            step = joins_of(later)[-1]
            assert "in the stage of the join before" in step.runs
            assert rows(later) == [(*row, "nine" if row[0] == 2 else None) for row in wanted]
            # Spark has to check this one: what has to be checked before it is.
            other = table.join(ids, where="v > least AND abs(v) > 0", **options)
            assert values_of({0: other}) == values_of({0: joined})
        # So do those with the indicator alone, which a later join of the stage has as its key.
        answers = BatchTable.build(spark.sql("SELECT true AS is, 'yes' AS told"), on="is")
        told = [(k, k in (1, 2, 4), "yes" if k in (1, 2, 4) else None) for k in (None, 1, 2, 3, 4)]
        for how in ("inner", "left"):
            found = table.join(ids, how=how, indicator="found")  # type: ignore[arg-type]
            plan = found._jdf.queryExecution().optimizedPlan().toString()
            assert plan.startswith("MapInArrow"), plan
            named = answers.join(found, {"found": "is"}, "left")
            assert "in the stage of the join before" in joins_of(named)[-1].runs
            there = [row for row in told if row[1] or how == "left"]
            assert rows(named.select("k", "found", "told")) == there


def test_references_are_to_their_side(spark: SparkSession) -> None:
    """Both sides have a column of the name, of which one has another name in the pairs."""
    orders = spark.sql("SELECT * FROM VALUES (1L, 5, 'a'), (2L, 9, 'b'), (3L, 1, 'c') t(k, v, n)")
    given = spark.sql("SELECT * FROM VALUES (1L, 6, 'a'), (2L, 8, 'x'), (3L, 1, NULL) t(k, v, n)")
    conditions = [given["n"] != orders["n"], orders["v"] < given["v"], given["v"] <= orders["v"]]
    deep = functools.reduce(or_, [orders["v"] == n for n in range(100)])
    with configured(spark, {"spark.bsjoin.runtime": "python", **CODE["python"]}):
        for how in ("inner", "left"):
            for condition in [*conditions, deep]:
                cache = Full(unique=True)
                joined = bsjoin.join(orders, given, "k", how, where=condition, cache=cache)
                on = (orders["k"] == given["k"]) & condition
                right = orders.join(given, on, how).drop(given["k"])
                assert rows(joined) == rows(right)
