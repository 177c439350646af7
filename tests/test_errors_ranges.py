"""What is wrong with a range join is said at the call, before anything is built."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Incremental, Overlaps, Within
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError, TableMismatchError


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.range(1).selectExpr(
        "id AS k", "id AS p", "double(id) AS d", "date'2026-01-01' AS day", "string(id) AS s",
        "timestamp'2026-01-01' AS t", "timestamp_ntz'2026-01-01' AS n",
        "cast(id AS decimal(30,0)) AS big",
        "cast(id AS decimal(18,9)) AS finer", "true AS yes",
    )  # fmt: skip


@pytest.fixture
def table(stream: DataFrame) -> DataFrame:
    return stream.selectExpr(
        "k", "p AS q", "p AS r", "d AS e", "day AS day2", "s AS s2", "t AS t2", "n AS n2",
        "cast(k AS decimal(8,1)) AS coarse", "cast(k AS decimal(38,30)) AS finest",
        "s COLLATE UTF8_LCASE AS loose",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("when", "kind", "text"),
    [
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
        (Band("p", "e", 1, 1), KeyTypeError, "not of one family"),
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
        (Band("day", "day2", 1, "1 day"), ArgumentError, "give whole days"),
        (Band("day", "day2", "1 day", "36 hours"), ArgumentError, "give whole days"),
        (AsOf("p", "q", tolerance="1 hour"), ArgumentError, "tolerance='1 hour'"),
        ("p = q", ArgumentError, "give bsjoin.Band"),
    ],
)
def test_a_condition_that_does_not_suit_the_columns(
    stream: DataFrame, table: DataFrame, when: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        bsjoin.join(stream, table, on="k", when=when)


def test_the_columns_of_the_condition_are_no_keys(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("id AS t", "id AS k")
    when = AsOf("T", "T")  # upper case makes no difference, as to Spark
    assert bsjoin.join(df, df, when=when).columns == ["t", "k", "t_batch"]
    only = df.select("t")
    with pytest.raises(ArgumentError, match=r"on=\[\] for a pure range join"):
        bsjoin.join(only, only, when=when)
    with pytest.raises(ArgumentError, match="names no column"):
        bsjoin.join(df, df, on=[])


def test_a_range_join_needs_the_table_whole(stream: DataFrame, table: DataFrame) -> None:
    with pytest.raises(ArgumentError, match="needs a source"):
        bsjoin.join(stream, table, on="k", when=Band("p", "q", 1, 1), cache=Incremental(max_rows=9))


def test_a_table_answers_what_it_was_built_for(
    stream: DataFrame, table: DataFrame, tmp_path: Path
) -> None:
    built = BatchTable.build(table, on="k", when=Band("p", "q", 1, 1), path=tmp_path / "t")
    assert built.join(stream, when=Band("p", "q", 0, 5)).count() == 1  # other widths
    assert built.join(stream, when=AsOf("p", "q")).count() == 1  # the same column
    for when in (Band("p", "r", 1, 1), Within("p", "q", "r")):
        with pytest.raises(TableMismatchError, match=r"built for ranges of q"):
            built.join(stream, when=when)
    with pytest.raises(TableMismatchError, match="built for ranges of q, not without"):
        BatchTable.build(table, on="k", path=tmp_path / "t")
    plain = BatchTable.build(table, on="k")
    with pytest.raises(TableMismatchError, match="built without a range condition"):
        plain.join(stream, when=AsOf("p", "q"))
    intervals = BatchTable.build(table, on="k", when=Within("p", "q", "r"))
    with pytest.raises(TableMismatchError, match="closed='both'"):
        intervals.join(stream, when=Within("p", "q", "r", closed="both"))
    with pytest.raises(TableMismatchError, match="lacks the columns"):
        built.refresh(table.drop("q"))


def test_a_table_for_ranges_is_found_again(
    spark: SparkSession, table: DataFrame, stream: DataFrame, tmp_path: Path
) -> None:
    when, options = Within("p", "q", "r"), Full(store=tmp_path / "t", fingerprint="1")
    for _ in range(2):
        bsjoin.join(stream, table, on="k", when=when, cache=options)
    assert [version.number for version in BatchTable.open(tmp_path / "t").versions()] == [1]
