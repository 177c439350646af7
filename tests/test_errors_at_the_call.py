"""What is wrong with a call is said by the call: the value, the rule, what to do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from messages import saying
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Incremental, Overlaps, Within
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError, TableMismatchError

pytestmark = pytest.mark.usefixtures("without_code")

Frames = Callable[..., DataFrame]


@pytest.fixture
def no_build(builds: list[str]) -> Iterator[None]:
    """Everything is found before the table is built, let alone the result."""
    yield
    assert not builds


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Frames:
    """Make a DataFrame of one row from column names and SQL expressions."""

    def make(**columns: str) -> DataFrame:
        return spark.range(1).selectExpr(*(f"{sql} AS `{name}`" for name, sql in columns.items()))

    return make


@pytest.fixture(scope="module")
def flights(frame: Frames) -> DataFrame:
    return frame(carrier="'AA'", origin="'JFK'", delay="5")


@pytest.fixture(scope="module")
def airlines(frame: Frames) -> DataFrame:
    return frame(carrier="'AA'", name="'American'", founded="1930")


JOINS: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
    ({"on": "carier"}, ColumnError, ["on:", "the stream", "'carier'", "Did you mean 'carrier'?"]),
    ({"on": "zzz"}, ColumnError, ["There are: 'carrier', 'origin', 'delay'."]),
    ({"on": {"carrier": "nam"}}, ColumnError, ["on:", "the table", "'nam'", "'name'"]),
    *(({"on": on}, ArgumentError, ["on"]) for on in ([], {}, 5, {"carrier"}, [5], [["carrier"]])),
    ({"on": {"carrier": None}}, ArgumentError, ["on", "given by name"]),
    ({"on": F}, ArgumentError, ["on"]),
    ({"on": ["carrier", "Carrier"]}, ArgumentError, ["'carrier' twice"]),
    ({"on": {"carrier": "carrier", "origin": "carrier"}}, ArgumentError, ["'carrier' twice"]),
    ({"select": ["nmae"]}, ColumnError, ["select:", "'nmae'", "'name'"]),
    ({"select": ["name", "NAME"]}, ArgumentError, ["names 'name' twice"]),
    *(
        ({"select": select, "how": how}, ArgumentError, ["select"])
        for select in ("name", [5], 5)
        for how in ("inner", "semi")
    ),
    ({"select": [], "how": "semi"}, ArgumentError, ["select=[]", "semi", "leave select out"]),
    ({"select": ["name"], "how": "anti"}, ArgumentError, ["anti", "leave select out"]),
    *(({"cache": c}, ArgumentError, ["cache=", "'auto'", "Full"]) for c in ("full", None, Full)),
    ({"suffix": None}, ArgumentError, ["suffix=None"]),
    ({"when": "p = q"}, ArgumentError, ["give bsjoin.Band"]),
]


@pytest.mark.usefixtures("no_build")
def test_arguments(flights: DataFrame, airlines: DataFrame, frame: Frames) -> None:
    for options, kind, parts in JOINS:
        with saying(kind, *parts):
            bsjoin.join(flights, airlines, **{"on": "carrier", **options})
    with saying(
        ArgumentError, "on=None", "'origin'", "'code'", 'on={"stream column": "table column"}'
    ):
        bsjoin.join(flights, frame(code="'AA'"))
    for on in (F.col("carrier"), flights.carrier == airlines.carrier):
        with pytest.raises(ArgumentError, match="give a column name"):
            bsjoin.join(flights, airlines, on=on)  # type: ignore[arg-type]
    wrong: list[Any] = [[], "", 5, None, ["carrier", "CARRIER"], [["carrier"]], [5], {}]
    for keys in wrong:
        with saying(ArgumentError, "on"):
            BatchTable.build(airlines, on=keys)
    with saying(ColumnError, "'foundet'", "'founded'"):
        BatchTable.build(airlines, on=["carrier", "foundet"])
    things: list[Any] = [None, "table", [1], 5, pd.DataFrame({"k": [1]})]
    for thing in things:
        for call in (
            lambda thing=thing: bsjoin.join(thing, flights),
            lambda thing=thing: bsjoin.join(flights, thing),
            lambda thing=thing: BatchTable.build(thing, on="k"),
        ):
            with saying(ArgumentError, type(thing).__name__):
                call()
    with saying(
        ArgumentError,
        "a pandas.DataFrame; it must be a Spark DataFrame",
        "spark.createDataFrame(rows)",
    ):
        bsjoin.join(flights, things[-1])


UNSUPPORTED = {
    "array": "array(1)",
    "struct": "struct(1 AS x)",
    "map": "map('a', 1)",
    "interval day to second": "interval 1 day",
    "interval year to month": "interval 1 month",
    "calendar interval": "make_interval(1, 2)",
    "variant": "parse_json('1')",
    "void": "null",
}
FAMILIES = {
    "integer": "1",
    "decimal": "1BD",
    "floating": "1.0D",
    "string": "'1'",
    "collation": "collate('a', 'UTF8_LCASE')",
    "trimming collation": "collate('a', 'UTF8_BINARY_RTRIM')",
    "binary": "X'31'",
    "boolean": "true",
    "date": "date'2024-01-01'",
    "timestamp": "timestamp'2024-01-01 00:00:00'",
    "timestamp_ntz": "timestamp_ntz'2024-01-01 00:00:00'",
}


@pytest.mark.usefixtures("no_build")
def test_types_of_keys(frame: Frames) -> None:
    for sql in UNSUPPORTED.values():
        stream, table = frame(s=sql), frame(t=sql, v="1")
        dtype = stream.schema["s"].dataType.simpleString()
        with saying(KeyTypeError, "'s'", "'t'", dtype, "not supported as a key", "Cast it"):
            bsjoin.join(stream, table, on={"s": "t"})
        with saying(KeyTypeError, "'t'", "not supported as a key"):
            BatchTable.build(table, on="t")
    # What Spark would coerce is refused, and the columns are named.
    streams = {name: frame(a="1", s=sql) for name, sql in FAMILIES.items()}
    tables = {name: frame(a="1", t=sql, v="1") for name, sql in FAMILIES.items()}
    for one, other in itertools.pairwise([*FAMILIES, "integer"][1:]):
        types = [
            df.schema.fields[1].dataType.simpleString() for df in (streams[one], tables[other])
        ]
        with saying(KeyTypeError, f"'s' ({types[0]}) = 't' ({types[1]})", "Cast one side"):
            bsjoin.join(streams[one], tables[other], on={"a": "a", "s": "t"})
    with saying(
        KeyTypeError, "decimal(38,0)", "decimal(38,10)", "48 digits", "38", "Cast one side"
    ):
        bsjoin.join(
            frame(k="cast(1 AS decimal(38, 0))"), frame(k="cast(1 AS decimal(38, 10))", v="1")
        )


@pytest.mark.usefixtures("no_build")
def test_types_that_cannot_be_cached_are_named(spark: SparkSession, frame: Frames) -> None:
    from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

    assert ExamplePointUDT
    tables = [
        frame(k="1L", note=payload)
        for payload in ("parse_json('1')", "map('a', parse_json('1'))", "make_interval(1, 2)")
    ]
    tables.append(spark.createDataFrame([(1, ExamplePoint(1.0, 2.0))], ["k", "note"]))
    for table in tables:
        with saying(ColumnError, "'note'", "select=", "cast"):
            bsjoin.join(frame(k="1L"), table)
        with pytest.raises(ColumnError, match="'note'"):
            BatchTable.build(table, on="k")


@pytest.mark.usefixtures("no_build")
def test_a_streaming_table_side_points_to_sparks_own_join(
    spark: SparkSession, flights: DataFrame
) -> None:
    stream = spark.readStream.format("rate").load()
    for call in (
        lambda: bsjoin.join(flights, stream, on={"delay": "value"}),
        lambda: bsjoin.join(stream, stream),
        lambda: BatchTable.build(stream, on="value"),
    ):
        with saying(ArgumentError, "join(stream, table", "stream-stream join", "stream.join(other"):
            call()


# Every spelling that Spark takes of a join type that bsjoin does not have.
OTHERS = ["outer", "full", "fullouter", "full_outer", "right", "rightouter", "Right_Outer", "cross"]


@pytest.mark.usefixtures("no_build")
def test_join_types(spark: SparkSession, flights: DataFrame, airlines: DataFrame) -> None:
    unknown: list[tuple[Any, str]] = [
        ("iner", "Did you mean 'inner'?"),
        ("left semi", "Did you mean 'left_semi'"),
        ("LEFT-ANTI", "Did you mean 'left_anti'"),
        ("asof", "Give when=bsjoin.AsOf(...)"),
        ("natural", "They are"),
        *((how, "They are") for how in ("", None, ["left"], 1)),
    ]
    for how, hint in unknown:
        for call in (
            lambda how=how: bsjoin.join(flights, airlines, on="carrier", how=how),
            lambda how=how: bsjoin.cycles(airlines, "carrier", sink=print, how=how),
        ):
            with saying(ArgumentError, f"how={how!r}", hint, "'inner', 'left', 'semi', 'anti'"):
                call()
    # Of two batch DataFrames, and of a stream, whose rows have no end.
    stream = spark.readStream.format("rate").load()
    batch, endless = "The first side is a batch DataFrame", "a stream has no end"
    different: Any
    for different in OTHERS:
        ways = {"r": ("swap the sides", "write the stream to a table"), "c": ("crossJoin",) * 2}
        way_out = ways.get(different[0].lower(), ("Spark's own join",) * 2)
        for call, true, false in (
            (lambda h=different: bsjoin.join(flights, airlines, "carrier", h), batch, endless),
            (lambda h=different: bsjoin.join(stream, airlines, how=h), endless, batch),
        ):
            with saying(
                ArgumentError, f"how={different!r} is not supported", way_out[true == endless]
            ) as error:
                call()
            assert true in str(error.value) or different == "cross"
            assert false not in str(error.value)


@pytest.mark.usefixtures("no_build")
def test_names_that_are_there_twice(
    spark: SparkSession, flights: DataFrame, airlines: DataFrame, frame: Frames
) -> None:
    doubled = airlines.select("*", F.lit("x").alias("name"))
    other_case = airlines.toDF("carrier", "v", "V")  # which is the same to Spark
    for call, parts in (
        (
            lambda: bsjoin.join(flights, doubled, on="carrier"),
            ["2 columns called 'name'", "rename"],
        ),
        (lambda: BatchTable.build(doubled, on="carrier"), ["2 columns called 'name'"]),
        (lambda: bsjoin.join(flights, other_case), ["the table", "2 columns"]),
    ):
        with saying(ColumnError, *parts):
            call()
    doubled_key = flights.select("*", F.lit("x").alias("carrier"))
    for on in (None, "carrier"):
        with saying(ColumnError, "the stream", "2 columns called 'carrier'"):
            bsjoin.join(doubled_key, airlines, on=on)
    # The stream's own spelling and the table's clash too, even with a suffix.
    with saying(ColumnError, "'DELAY'", "suffix"):
        bsjoin.join(flights, frame(carrier="'AA'", DELAY="1"), on="carrier", suffix="")
    table = frame(carrier="'AA'", delay="1", delay_batch="2")
    stream = flights.withColumn("delay_x", F.lit(1))
    for suffix, parts in (
        ("_x", ["'delay'", "'delay_x'", "another suffix", "select="]),
        ("_batch", ["'delay_batch'"]),
        ("", ["'delay'"]),
    ):
        with saying(ColumnError, *parts):
            bsjoin.join(stream, table, on="carrier", suffix=suffix)
    for setting in ("true", "TRUE"):
        with (
            configured(spark, {"spark.sql.caseSensitive": setting}),
            saying(ColumnError, "the table has no column 'carrier'", "'CARRIER'"),
        ):
            bsjoin.join(flights, frame(CARRIER="'AA'", v="1"), on="carrier")


CONDITIONS: list[tuple[Any, type[Exception], str]] = [
    (Band("nothing", "q", 1, 1), ColumnError, "the stream has no column 'nothing'"),
    (Band("p", "nothing", 1, 1), ColumnError, "the table has no column 'nothing'"),
    (Within("p", "q", "rr"), ColumnError, "'rr'"),
    (Overlaps(("p", "x"), ("q", "r")), ColumnError, "'x'"),
    (Band("s", "s2", 1, 1), KeyTypeError, "an order but no distances"),
    (AsOf("s", "s2", "nearest"), KeyTypeError, "an order but no distances"),
    (AsOf("s", "s2", tolerance=1), KeyTypeError, "an order but no distances"),
    (AsOf("p", "s2"), KeyTypeError, "not of one family"),
    (AsOf("s", "loose"), KeyTypeError, "'loose' has the type string collate UTF8_LCASE"),
    (AsOf("yes", "q"), KeyTypeError, "'yes' has the type boolean"),
    (Band("t", "n2", 1, 1), KeyTypeError, "not of one family"),
    (Band("day", "t2", 1, 1), KeyTypeError, "not of one family"),
    (Within("big", "q", "r", "both"), KeyTypeError, "more digits than fit into a bigint"),
    (Overlaps(("big", "finer"), ("q", "r")), KeyTypeError, "more than 38 digits"),
    (Overlaps(("p", "s"), ("q", "r")), KeyTypeError, "not of one family"),
    (Band("p", "finest", 1, 1), KeyTypeError, "more than 38 digits"),
    (Within("d", "q", "finest"), KeyTypeError, "more than 38 digits together"),
    (Within("p", "q", "e"), KeyTypeError, "different families"),
    (Band("p", "q", "1 hour", 1), ArgumentError, "a duration and the columns are numbers"),
    (Band("d", "e", timedelta(1), 1), ArgumentError, "give a number"),
    (Band("day", "day2", "1 day", "36 hours"), ArgumentError, "give whole days"),
    (AsOf("p", "q", tolerance="1 hour"), ArgumentError, "tolerance='1 hour'"),
]


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return spark.range(1).selectExpr(
        "id AS k", "id AS p", "double(id) AS d", "date'2026-01-01' AS day", "string(id) AS s",
        "timestamp'2026-01-01' AS t", "timestamp_ntz'2026-01-01' AS n",
        "cast(id AS decimal(30,0)) AS big", "cast(id AS decimal(18,9)) AS finer", "true AS yes",
    )  # fmt: skip


@pytest.fixture(scope="module")
def ranges(stream: DataFrame) -> DataFrame:
    return stream.selectExpr(
        "k", "p AS q", "p AS r", "d AS e", "day AS day2", "s AS s2", "t AS t2", "n AS n2",
        "cast(k AS decimal(38,30)) AS finest", "s COLLATE UTF8_LCASE AS loose",
    )  # fmt: skip


@pytest.mark.usefixtures("no_build")
def test_conditions_that_do_not_suit_the_columns(stream: DataFrame, ranges: DataFrame) -> None:
    for when, kind, text in CONDITIONS:
        with pytest.raises(kind, match=text):
            bsjoin.join(stream, ranges, on="k", when=when)
    cache = Incremental(max_rows=9)
    with pytest.raises(ArgumentError, match="needs a source"):
        bsjoin.join(stream, ranges, on="k", when=Band("p", "q", 1, 1), cache=cache)
    # The columns of the condition are no keys; upper case makes no difference, as to Spark.
    when, only = AsOf("P", "P"), stream.select("p")
    with pytest.raises(ArgumentError, match=r"on=\[\] for a pure range join"):
        bsjoin.join(only, only, when=when)
    with pytest.raises(ArgumentError, match="names no column"):
        bsjoin.join(stream, stream, on=[])


def test_a_table_answers_what_it_was_built_for(
    stream: DataFrame, ranges: DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    built = BatchTable.build(ranges, on="k", when=Band("p", "q", 1, 1), path=path)
    assert built.join(stream, when=Band("p", "q", 0, 5)).count() == 1  # other widths
    assert built.join(stream, when=AsOf("p", "q")).count() == 1  # the same column
    plain = BatchTable.build(ranges, on="k")
    intervals = BatchTable.build(ranges, on="k", when=Within("p", "q", "r"))
    for call, text in (
        (lambda: built.join(stream, when=Band("p", "r", 1, 1)), "built for ranges of q"),
        (lambda: built.join(stream, when=Within("p", "q", "r")), "built for ranges of q"),
        (lambda: BatchTable.build(ranges, on="k", path=path), "ranges of q, not without"),
        (lambda: plain.join(stream, when=AsOf("p", "q")), "built without a range condition"),
        (
            lambda: intervals.join(stream, when=Within("p", "q", "r", closed="both")),
            "closed='both'",
        ),
        (lambda: built.refresh(ranges.drop("q")), "lacks the columns"),
    ):
        with pytest.raises(TableMismatchError, match=re.escape(text)):
            call()
    with pytest.raises(ArgumentError, match="or a list of them"):
        BatchTable.build(ranges, on="k", when="p = q")  # type: ignore[arg-type]
    # It is found again.
    options = Full(store=path, fingerprint="1")
    for _ in range(2):
        bsjoin.join(stream, ranges, on="k", when=Band("p", "q", 1, 1), cache=options)
    assert [version.number for version in BatchTable.open(path).versions()] == [1]


def test_an_error_is_still_found_under_its_old_name() -> None:
    for old, new in bsjoin.errors._RENAMED.items():
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(bsjoin.errors, old) is getattr(bsjoin.errors, new)
