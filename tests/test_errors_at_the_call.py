"""What is wrong with a call is said by the call: the value, the rule, what to do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from messages import says
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    KeyTypeError,
)

Frames = Callable[..., DataFrame]


@pytest.fixture(autouse=True)
def _no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is found before the table is built, let alone the result."""

    def build(*_: object) -> None:
        raise AssertionError("the table was built before the call was checked")

    monkeypatch.setattr("bsjoin.build.storing.build", build)


@pytest.fixture
def frame(spark: SparkSession) -> Frames:
    """Make a DataFrame of one row from column names and SQL expressions."""

    def make(**columns: str) -> DataFrame:
        return spark.range(1).selectExpr(*(f"{sql} AS `{name}`" for name, sql in columns.items()))

    return make


@pytest.fixture
def flights(frame: Frames) -> DataFrame:
    return frame(carrier="'AA'", origin="'JFK'", delay="5")


@pytest.fixture
def airlines(frame: Frames) -> DataFrame:
    return frame(carrier="'AA'", name="'American'", founded="1930")


def test_a_key_that_is_not_there_is_named_with_those_near_it(
    flights: DataFrame, airlines: DataFrame
) -> None:
    with pytest.raises(ColumnError) as error:
        bsjoin.join(flights, airlines, on="carier")
    says(error, "on:", "the stream", "'carier'", "Did you mean 'carrier'?")
    with pytest.raises(ColumnError) as error:
        bsjoin.join(flights, airlines, on={"carrier": "nam"})
    says(error, "on:", "the table", "'nam'", "'name'")
    with pytest.raises(ColumnError) as error:
        BatchTable.build(airlines, on=["carrier", "foundet"])
    says(error, "'foundet'", "'founded'")
    with pytest.raises(ColumnError) as error:
        bsjoin.join(flights, airlines, on="carrier", select=["nmae"])
    says(error, "select:", "'nmae'", "'name'")


def test_names_that_resemble_nothing_are_answered_with_all(
    flights: DataFrame, airlines: DataFrame
) -> None:
    with pytest.raises(ColumnError) as error:
        bsjoin.join(flights, airlines, on="zzz")
    says(error, "There are: 'carrier', 'origin', 'delay'.")


def test_no_shared_column_is_said_with_the_columns_of_both(
    flights: DataFrame, frame: Frames
) -> None:
    with pytest.raises(ArgumentError) as error:
        bsjoin.join(flights, frame(code="'AA'"))
    says(error, "on=None", "'origin'", "'code'", 'on={"stream column": "table column"}')


@pytest.mark.parametrize("on", [[], {}, 5, {"carrier"}, [5], {"carrier": None}, [["carrier"]]])
def test_keys_of_the_wrong_kind_are_refused(
    flights: DataFrame, airlines: DataFrame, on: Any
) -> None:
    with pytest.raises(ArgumentError) as error:
        bsjoin.join(flights, airlines, on=on)
    says(error, "on")


def test_keys_are_names_and_no_expressions(flights: DataFrame, airlines: DataFrame) -> None:
    when = bsjoin.Band("delay", "founded", 1, 1)
    for on in (F.col("carrier"), flights.carrier == airlines.carrier):
        with pytest.raises(ArgumentError, match="give a column name"):
            bsjoin.join(flights, airlines, on=on, when=when)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "on", [[], "", 5, None, ["carrier", "carrier"], ["carrier", "CARRIER"], [["carrier"]], [5], {}]
)
def test_keys_of_the_wrong_kind_are_refused_when_a_table_is_built(
    airlines: DataFrame, on: Any
) -> None:
    with pytest.raises(ArgumentError) as error:
        BatchTable.build(airlines, on=on)
    says(error, "on")


@pytest.mark.parametrize(
    "on",
    [["carrier", "carrier"], {"carrier": "carrier", "origin": "carrier"}, ["carrier", "Carrier"]],
)
def test_a_key_that_is_given_twice_is_refused(
    flights: DataFrame, airlines: DataFrame, on: Any
) -> None:
    with pytest.raises(ArgumentError, match="'carrier' twice"):
        bsjoin.join(flights, airlines, on=on)


UNSUPPORTED = {
    "array": "array(1)",
    "struct": "struct(1 AS x)",
    "map": "map('a', 1)",
    "interval day to second": "interval 1 day",
    "interval year to month": "interval 1 month",
    "calendar interval": "make_interval(1, 2)",
    "collation": "collate('a', 'UTF8_LCASE')",
    "trimming collation": "collate('a', 'UTF8_BINARY_RTRIM')",
    "variant": "parse_json('1')",
    "void": "null",
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_an_unsupported_key_type_is_refused_and_the_columns_named(frame: Frames, kind: str) -> None:
    stream, table = frame(s=UNSUPPORTED[kind]), frame(t=UNSUPPORTED[kind], v="1")
    dtype = stream.schema["s"].dataType.simpleString()
    with pytest.raises(KeyTypeError) as error:
        bsjoin.join(stream, table, on={"s": "t"})
    says(error, "'s'", "'t'", dtype, "not supported as a key", "Cast it")
    with pytest.raises(KeyTypeError) as error:
        BatchTable.build(table, on="t")
    says(error, "'t'", "not supported as a key")


FAMILIES = {
    "integer": "1",
    "floating": "1.0D",
    "string": "'1'",
    "binary": "X'31'",
    "boolean": "true",
    "date": "date'2024-01-01'",
    "timestamp": "timestamp'2024-01-01 00:00:00'",
    "timestamp_ntz": "timestamp_ntz'2024-01-01 00:00:00'",
}


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(FAMILIES, 2)))
def test_key_types_that_would_be_coerced_are_refused_and_the_columns_named(
    frame: Frames, one: str, other: str
) -> None:
    stream, table = frame(s=FAMILIES[one]), frame(t=FAMILIES[other], v="1")
    with pytest.raises(KeyTypeError) as error:
        bsjoin.join(stream, table, on={"s": "t"})
    types = [f.dataType.simpleString() for df in (stream, table) for f in df.schema.fields[:1]]
    says(error, f"'s' ({types[0]}) = 't' ({types[1]})", "Cast one side")


@pytest.mark.parametrize(("one", "other"), list(itertools.product(["1BD", "2"], ["1.0D", "'1'"])))
def test_decimals_do_not_meet_floats_or_text(frame: Frames, one: str, other: str) -> None:
    with pytest.raises(KeyTypeError, match="not of one family"):
        bsjoin.join(frame(k=one), frame(k=other, v="1"))


def test_decimals_that_have_no_common_type_are_refused(frame: Frames) -> None:
    stream, table = (
        frame(k="cast(1 AS decimal(38, 0))"),
        frame(k="cast(1 AS decimal(38, 10))", v="1"),
    )
    with pytest.raises(KeyTypeError) as error:
        bsjoin.join(stream, table)
    says(error, "decimal(38,0)", "decimal(38,10)", "48 digits", "38", "Cast one side")


def test_the_offending_pair_of_a_composite_key_is_named(frame: Frames) -> None:
    stream, table = frame(a="1", b="'1'"), frame(a="1", b="1", v="1")
    with pytest.raises(KeyTypeError) as error:
        bsjoin.join(stream, table, on=["a", "b"])
    says(error, "'b' (string) = 'b' (int)")


def test_a_streaming_table_side_points_to_sparks_own_join(
    spark: SparkSession, flights: DataFrame
) -> None:
    stream = spark.readStream.format("rate").load()
    for call in (
        lambda: bsjoin.join(flights, stream, on={"delay": "value"}),
        lambda: bsjoin.join(stream, stream),
        lambda: BatchTable.build(stream, on="value"),
    ):
        with pytest.raises(ArgumentError) as error:
            call()
        says(error, "streaming", "stream-stream join", "stream.join(other")


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ("iner", "Did you mean 'inner'?"),
        ("left semi", "Did you mean 'left_semi'"),
        ("LEFT-ANTI", "Did you mean 'left_anti'"),
        ("asof", "Give when=bsjoin.AsOf(...)"),
        ("natural", "They are"),
        ("", "They are"),
        (None, "They are"),
        (["left"], "They are"),
        (1, "They are"),
    ],
)
def test_an_unknown_join_type_is_answered_with_the_known_ones(
    flights: DataFrame, airlines: DataFrame, how: Any, hint: str
) -> None:
    for call in (
        lambda: bsjoin.join(flights, airlines, on="carrier", how=how),
        lambda: bsjoin.cycles(airlines, "carrier", sink=print, how=how),
    ):
        with pytest.raises(ArgumentError) as error:
            call()
        says(error, f"how={how!r}", hint, "'inner', 'left', 'semi', 'anti'")


# Every spelling that Spark takes of a join type that bsjoin does not have.
OTHERS = ["outer", "full", "fullouter", "full_outer", "right", "rightouter", "Right_Outer", "cross"]


@pytest.mark.parametrize("how", OTHERS)
def test_a_join_type_that_only_spark_has_says_what_there_is_instead(
    spark: SparkSession, flights: DataFrame, airlines: DataFrame, how: Any
) -> None:
    """Of two batch DataFrames, and of a stream, whose rows have no end."""
    stream = spark.readStream.format("rate").load()
    batch, endless = "The first side is a batch DataFrame", "a stream has no end"
    for call, true, false in (
        (lambda: bsjoin.join(flights, airlines, on="carrier", how=how), batch, endless),
        (lambda: bsjoin.join(stream, airlines, how=how), endless, batch),
        (lambda: bsjoin.cycles(airlines, "carrier", sink=print, how=how), endless, batch),
    ):
        with pytest.raises(ArgumentError) as error:
            call()
        way_out = {"r": "swap the sides", "c": "crossJoin"}.get(how[0].lower(), "Spark's own join")
        if true == endless and way_out == "swap the sides":  # the table may not be a stream
            way_out = "write the stream to a table"
        says(error, f"how={how!r} is not supported", way_out)
        if how != "cross":
            says(error, true)
        assert false not in str(error.value)


@pytest.mark.parametrize("thing", [None, "table", [1], 5])
def test_sides_that_are_no_dataframes_are_refused(flights: DataFrame, thing: Any) -> None:
    with pytest.raises(ArgumentError, match=type(thing).__name__):
        bsjoin.join(thing, flights)
    with pytest.raises(ArgumentError, match=type(thing).__name__):
        bsjoin.join(flights, thing)
    with pytest.raises(ArgumentError, match=type(thing).__name__):
        BatchTable.build(thing, on="k")


@pytest.mark.parametrize("cache", ["full", None, Full])
def test_an_unknown_cache_is_refused(flights: DataFrame, airlines: DataFrame, cache: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        bsjoin.join(flights, airlines, on="carrier", cache=cache)
    says(error, "cache=", "'auto'", "Full")


def test_a_column_that_the_table_has_twice_is_refused(
    flights: DataFrame, airlines: DataFrame
) -> None:
    doubled = airlines.select("*", F.lit("x").alias("name"))
    for call in (
        lambda: bsjoin.join(flights, doubled, on="carrier"),
        lambda: BatchTable.build(doubled, on="carrier"),
    ):
        with pytest.raises(ColumnError) as error:
            call()
        says(error, "the table", "2 columns called 'name'", "rename")


def test_a_key_that_the_stream_has_twice_is_refused(
    flights: DataFrame, airlines: DataFrame
) -> None:
    doubled = flights.select("*", F.lit("x").alias("carrier"))
    for on in (None, "carrier"):
        with pytest.raises(ColumnError) as error:
            bsjoin.join(doubled, airlines, on=on)
        says(error, "the stream", "2 columns called 'carrier'")


def test_names_that_differ_in_case_only_are_the_same_unless_spark_says_otherwise(
    spark: SparkSession, flights: DataFrame, frame: Frames
) -> None:
    with pytest.raises(ColumnError) as error:
        bsjoin.join(
            flights,
            frame(carrier="'AA'", name="1").withColumn("x", F.lit(1)).toDF("carrier", "v", "V"),
        )
    says(error, "the table", "2 columns")
    # The stream's own spelling and the table's clash too.
    with pytest.raises(ColumnError) as error:
        bsjoin.join(flights, frame(carrier="'AA'", DELAY="1"), on="carrier", suffix="")
    says(error, "'DELAY'", "suffix")


@pytest.mark.parametrize("setting", ["true", "TRUE"])
def test_names_that_differ_in_case_only_differ_where_spark_is_case_sensitive(
    spark: SparkSession, flights: DataFrame, frame: Frames, setting: str
) -> None:
    spark.conf.set("spark.sql.caseSensitive", setting)
    try:
        with pytest.raises(ColumnError) as error:
            bsjoin.join(flights, frame(CARRIER="'AA'", v="1"), on="carrier")
        says(error, "the table has no column 'carrier'", "'CARRIER'")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_name_that_clashes_even_with_the_suffix_is_refused(
    flights: DataFrame, frame: Frames
) -> None:
    table = frame(carrier="'AA'", delay="1", delay_batch="2")
    stream = flights.withColumn("delay_x", F.lit(1))
    with pytest.raises(ColumnError) as error:
        bsjoin.join(stream, table, on="carrier", suffix="_x")
    says(error, "'delay'", "'delay_x'", "another suffix", "select=")
    with pytest.raises(ColumnError) as error:
        bsjoin.join(stream, table, on="carrier")
    says(error, "'delay_batch'")
    with pytest.raises(ColumnError):
        bsjoin.join(stream, table, on="carrier", suffix="")
    with pytest.raises(ArgumentError, match="suffix=None"):
        bsjoin.join(stream, table, on="carrier", suffix=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("select", [["name"], []])
def test_select_has_no_meaning_without_columns_of_the_table(
    flights: DataFrame, airlines: DataFrame, how: Any, select: list[str]
) -> None:
    with pytest.raises(ArgumentError) as error:
        bsjoin.join(flights, airlines, on="carrier", how=how, select=select)
    says(error, f"select={select!r}", how, "leave select out")


@pytest.mark.parametrize("select", ["name", ["name", "name"], ["name", "NAME"], [5], 5])
def test_a_selection_of_the_wrong_kind_is_refused(
    flights: DataFrame, airlines: DataFrame, select: Any
) -> None:
    for how in ("inner", "semi"):
        with pytest.raises(ArgumentError, match="select"):
            bsjoin.join(flights, airlines, on="carrier", how=how, select=select)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "payload",
    ["parse_json('1')", "array(parse_json('1'))", "map('a', parse_json('1'))"],
)
def test_a_variant_cannot_be_cached_and_is_named(frame: Frames, payload: str) -> None:
    table = frame(k="1", note=payload)
    with pytest.raises(ColumnError) as error:
        bsjoin.join(frame(k="1"), table)
    says(error, "'note'", "variant", "select=", "cast")
    with pytest.raises(ColumnError, match="'note'"):
        BatchTable.build(table, on="k")


def test_a_user_defined_type_cannot_be_cached_and_is_named(
    spark: SparkSession, frame: Frames
) -> None:
    from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

    assert ExamplePointUDT
    table = spark.createDataFrame([(1, ExamplePoint(1.0, 2.0))], ["k", "place"])
    with pytest.raises(ColumnError) as error:
        bsjoin.join(frame(k="1L"), table)
    says(error, "'place'", "select=", "cast")


def test_a_calendar_interval_cannot_be_cached_and_is_named(frame: Frames) -> None:
    with pytest.raises(ColumnError) as error:
        bsjoin.join(frame(k="1"), frame(k="1", note="make_interval(1, 2)"))
    says(error, "'note'", "interval", "select=")


@pytest.mark.parametrize("old", sorted(bsjoin.errors._RENAMED))
def test_an_error_is_still_found_under_its_old_name(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=bsjoin.errors._RENAMED[old]):
        assert getattr(bsjoin.errors, old) is getattr(bsjoin.errors, bsjoin.errors._RENAMED[old])
