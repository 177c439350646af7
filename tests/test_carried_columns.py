"""Columns that a join carries along: nested ones, and those that only Spark has.

Simple types, and their values, are those of the fuzz (`test_fuzz.py`).
"""

from __future__ import annotations

from typing import Any

import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FUZZ, assert_same, check, expected, one_part
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin

pytestmark = pytest.mark.usefixtures("runtime")

Typed = tuple[pa.DataType, st.SearchStrategy[Any]]

_MICROS = st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LEAVES: list[Typed] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats() | st.sampled_from([-0.0, 0.0, float("nan")])),
    (pa.decimal128(7, 2), st.decimals(-99999, 99999, places=2)),
    (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), _MICROS),
    (pa.timestamp("us"), _MICROS),
    (pa.duration("us"), _MICROS),
    (pa.string(), _TEXT),
    (pa.string(), st.sampled_from(["", "é", "日本語", "y" * 5000])),
    (pa.binary(), st.binary(max_size=20)),
    (pa.bool_(), st.booleans()),
]


def nullable(typed: Typed, may: bool) -> st.SearchStrategy[Any]:
    return st.none() | typed[1] if may else typed[1]


def array_of(element: Typed, may: bool) -> Typed:
    field = pa.field("element", element[0], nullable=may)
    return pa.list_(field), st.lists(nullable(element, may), max_size=3)


def map_of(key: Typed, value: Typed, may: bool) -> Typed:
    entries = st.dictionaries(key[1], nullable(value, may), max_size=3)
    type_ = pa.map_(key[0], pa.field("value", value[0], nullable=may))
    return type_, entries.map(lambda found: list(found.items()))


def struct_of(members: list[tuple[Typed, bool]]) -> Typed:
    fields = [pa.field(f"f{i}", typed[0], nullable=may) for i, (typed, may) in enumerate(members)]
    values = {f"f{i}": nullable(typed, may) for i, (typed, may) in enumerate(members)}
    return pa.struct(fields), st.fixed_dictionaries(values)


MAP_KEYS: list[Typed] = [LEAVES[2], LEAVES[3], LEAVES[12], LEAVES[9], LEAVES[8]]
TYPES: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(array_of, inner, st.booleans()),
        st.builds(map_of, st.sampled_from(MAP_KEYS), inner, st.booleans()),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(struct_of),
    ),
    max_leaves=6,
)


def rows_of(
    draw: st.DrawFn, types: list[tuple[Typed, bool]], keys: st.SearchStrategy[Any], most: int
) -> pa.Table:
    """A table with the key ``k`` and the payloads ``p0``, ``p1``, …"""
    count = draw(st.integers(0, most))
    fields = [pa.field("k", pa.int32())]
    columns = [pa.array([draw(keys) for _ in range(count)], pa.int32())]
    for number, (typed, may) in enumerate(types):
        fields.append(pa.field(f"p{number}", typed[0], nullable=may))
        values = st.lists(nullable(typed, may), min_size=count, max_size=count)
        columns.append(pa.array(draw(values), typed[0]))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


@st.composite
def nested_tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Random types inside one another; the table's keys are sometimes unique."""
    types = draw(st.lists(st.tuples(TYPES, st.booleans()), min_size=2, max_size=8))
    keys = st.sampled_from([1, 2, 3, None])
    if draw(st.booleans()):
        numbers = iter(range(100))
        keys = st.builds(lambda: next(numbers))
    batch = rows_of(draw, types, keys, 12)
    return rows_of(draw, types[:1], st.sampled_from([1, 2, 3, 99, None]), 12), batch


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
@settings(FUZZ, max_examples=3)
@given(nested_tables())
def test_nested_types_arrive_unchanged(
    spark: SparkSession, zone: str, case: tuple[pa.Table, pa.Table]
) -> None:
    with oracle.settings(spark, spark__sql__session__timeZone=zone):
        stream, batch = (one_part(spark, rows) for rows in case)
        check(stream, batch, "k", hows=["inner" if zone == "UTC" else "left"])


def test_more_than_64_rows_of_a_key_carry_nested_columns(spark: SparkSession) -> None:
    """The third shape of an answer: runs that are fetched in pieces."""
    batch = spark.range(200).selectExpr(
        "id % 3 AS k",
        "named_struct('a', id, 'b', named_struct('c', string(id), 'd', array(id, null))) AS s",
        "map(id, timestamp_micros(id), id + 1, null) AS m",
        "array(named_struct('x', id, 'y', array(date_from_unix_date(int(id))))) AS a",
        "if(id % 2 = 0, null, cast(id AS decimal(30, 5))) AS n",
        "make_dt_interval(id) AS i",
    )
    stream = spark.createDataFrame(pa.table({"k": pa.array([0, 1, 1, 7, None], pa.int64())}))
    check(stream, batch, "k", hows=["left"])


@pytest.mark.in_turns("runtime")
def test_empty_tables_have_all_columns(spark: SparkSession) -> None:
    types = [(leaf, may) for leaf in LEAVES for may in (True, False)]
    nested = [array_of(LEAVES[9], False), map_of(LEAVES[12], LEAVES[6], True)]
    nested.append(struct_of([(nested[0], False), (nested[1], True)]))
    types += [(typed, may) for typed in nested for may in (True, False)]
    fields = [pa.field(f"p{i}", typed[0], nullable=may) for i, (typed, may) in enumerate(types)]
    schema = pa.schema([pa.field("k", pa.int32()), *fields])
    stream = spark.createDataFrame(pa.table({"k": pa.array([1, None, 1], pa.int32())}))
    check(stream, spark.createDataFrame(schema.empty_table()), "k")


_IN_SPARK_ONLY = (
    "make_ym_interval(int(id), 1) AS months",
    "make_interval(0, int(id), 0, 1) AS calendar",
    "parse_json(string(id)) AS variant",
    "cast('x' AS char(3)) AS padded",
    "null AS nothing",
    "named_struct('d', id, 'd', id) AS doubled",
)


def test_columns_of_the_stream_that_python_cannot_read_pass_by(spark: SparkSession) -> None:
    stream = spark.range(6).selectExpr("id", *_IN_SPARK_ONLY)
    batch = spark.range(3).selectExpr("id", "id * 10 AS v").union(spark.range(1).select("id", "id"))
    for how in ("inner", "left", "anti"):
        joined, right = (
            df.select(*(F.to_json(F.struct(name)).alias(name) for name in df.columns))
            for df in (
                bsjoin.join(stream, batch, "id", how=how),
                expected(stream, batch, "id", how),
            )
        )
        assert_same(joined, right)


@pytest.mark.in_turns("runtime")
def test_columns_of_the_table_that_cannot_be_stored_can_be_left_out(spark: SparkSession) -> None:
    stream = spark.range(6)
    batch = spark.range(3).selectExpr("id", *_IN_SPARK_ONLY[:3], "id * 10 AS v")
    left = bsjoin.join(stream, batch, "id", how="left", select=["v"])
    assert_same(left, expected(stream, batch, "id", "left", ["v"]))
    assert_same(bsjoin.join(stream, batch, how="anti"), expected(stream, batch, "id", "anti"))


@pytest.mark.in_turns("runtime")
def test_columns_that_python_cannot_hold_are_joined_or_refused_by_name(
    spark: SparkSession,
) -> None:
    odd = "array()", "map()", "named_struct('x', null)", "make_ym_interval(1)", "parse_json('1')"
    for column in ("named_struct('d', id, 'd', id)", *odd):
        stream, batch = spark.range(3), spark.range(2).selectExpr("id", f"{column} AS odd")
        try:
            joined = bsjoin.join(stream, batch, "id", how="left")
        except bsjoin.errors.ColumnError as error:
            assert "'odd'" in str(error)  # noqa: PT017  either is right
        else:
            assert joined.schema == expected(stream, batch, "id", "left").schema
            assert joined.count() == 3


def test_a_time_that_is_never_null_stays_so(spark: SparkSession) -> None:
    with oracle.settings(spark, spark__sql__timeType__enabled="true"):
        batch = spark.range(2).selectExpr(
            "id", "time'12:34:56.789' AS t", "array(time'1:2:3') AS a"
        )
        check(spark.range(3), batch, "id", hows=["inner", "left"])


@pytest.mark.in_turns("runtime")
def test_names_are_case_sensitive_as_in_spark(spark: SparkSession) -> None:
    stream = spark.range(4).selectExpr("id AS k", "id AS v")
    batch = spark.range(3).selectExpr("id AS K", "id AS w")
    joined = bsjoin.join(stream, batch, "K")
    assert_same(joined, expected(stream, batch, {"k": "K"}))
    assert joined.columns == ["k", "v", "w"]
    with oracle.settings(spark, spark__sql__caseSensitive="true"):
        stream, batch = stream.withColumn("K", F.col("k") + 1), batch.withColumn("V", F.lit(1))
        check(stream, batch, "K", hows=["inner", "left"])


@pytest.mark.in_turns("runtime")
def test_columns_of_the_stream_may_share_a_name(spark: SparkSession) -> None:
    stream = spark.range(4).selectExpr("id", "id AS x", "id + 1 AS x", "id AS y")
    batch = spark.range(2).selectExpr("id", "id AS x", "id AS Z")
    check(stream, batch, "id")


@pytest.mark.in_turns("runtime")
def test_metadata_of_the_columns_is_kept(spark: SparkSession) -> None:
    df = spark.range(3).select(
        F.col("id").alias("id", metadata={"a": 1}), F.col("id").alias("v", metadata={"b": "x"})
    )
    check(df, df, "id", hows=["inner", "semi"])
    check(df, df.union(df), "id", hows=["left"])


def test_arrow_s_large_types_change_nothing(spark: SparkSession) -> None:
    """Of texts and bytes, nested ones too; other settings are those of test_session_settings.py."""
    rows = pa.table(
        {
            "s": pa.array(["", "a", "é" * 40, None] * 6),
            "b": pa.array([b"x", None, b""] * 8),
            "o": pa.array([{"x": "a"}, None] * 12, pa.struct([pa.field("x", pa.string(), False)])),
            "n": pa.array([["x"], None, ["", None]] * 8, pa.list_(pa.string())),
        }
    )
    with oracle.settings(spark, spark__sql__execution__arrow__useLargeVarTypes="true"):
        df = one_part(spark, rows)
        check(df, df, ["s", "b"], hows=["left"])
