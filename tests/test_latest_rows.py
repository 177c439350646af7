"""Of each key the latest rows: those that Spark's ``row_number`` takes, in every kind of table."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracle import assert_same_rows, right_rows, rows_of_all
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, rows
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Within, sources
from bsjoin.conditions import Condition
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError, TableMismatchError

pytestmark = pytest.mark.usefixtures("without_code")

NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k": (pa.float64(), [None, NAN, -0.0, 0.0, 1.5, INF]),
    "t": (pa.string(), [None, "", "a", "A", "a\0", "ü"]),
    "i": (pa.int32(), [None, *range(-3, 9)]),
    "p": (pa.float64(), [None, NAN, -INF, -0.0, 0.0, 2.0, INF]),
    "q": (pa.float64(), [None, NAN, 0.0, 1.0, 3.0, INF]),
    "v": (pa.int64(), [None, -(2**63), 0, 0, 1, 2**63 - 1]),
    "f": (pa.float32(), [None, NAN, -0.0, 0.0, 0.5]),
    "b": (pa.binary(), [None, b"", b"\x00", b"\x7f", b"\xff"]),
}


def history(seed: int = 0, many: int = 160) -> pa.Table:
    """Versions of few keys, with ties in every column; the last column numbers the rows.

    Some rows occur twice.
    """
    draw = random.Random(seed)
    made = {name: pa.array(draw.choices(vs, k=many), t) for name, (t, vs) in VALUES.items()}
    found = pa.table({**made, "n": pa.array(range(many))})
    order = [*range(many), *draw.choices(range(many), k=many // 8)]
    return found.take(draw.sample(order, len(order)))


@dataclass(frozen=True)
class Case:
    """A table of latest rows, and the same in Spark's words.

    Args:
        on: the keys.
        latest_by: as users write it.
        sorting: the same as columns.
        keep: how many.
        when: the condition.
    """

    on: tuple[str, ...]
    latest_by: str | Sequence[str]
    sorting: tuple[Column, ...]
    keep: int = 1
    when: Condition | None = None


def cases() -> list[Case]:
    newest = (F.col("v").desc_nulls_last(),)
    return [
        Case(("k",), "v", newest),
        Case(("i",), ["V asc", "t desc"], (F.asc("v"), F.desc("t")), 2),
        Case(("t", "k"), ["f NULLS FIRST", "b"], (F.desc_nulls_first("f"), F.desc("b")), 3),
        Case(("t",), "v", newest, 1, Band("x", "p", 1, 1)),
        Case((), "b", (F.desc("b"),), 2, Within("x", "p", "q", "both")),
        Case(("t",), "f", (F.desc("f"),), 2, AsOf("x", "p", order_by="b")),
    ]


def by_spark(df: DataFrame, case: Case) -> DataFrame:
    """The latest rows by a window function; all that match nothing."""
    ranged = [] if case.when is None else case.when.table_columns
    window = Window.partitionBy(*case.on, *ranged).orderBy(*case.sorting, *df.columns)
    needed = [*case.on, *ranged[:1]]
    nothing = F.greatest(F.lit(False), F.lit(False), *(F.col(name).isNull() for name in needed))
    numbered = df.withColumn("place", F.row_number().over(window))
    return numbered.where((F.col("place") <= case.keep) | nothing).drop("place")


@pytest.mark.parametrize(
    "numbers", [[1, 3], pytest.param([0, 2, 4, 5], marks=pytest.mark.long)], ids=["two", "others"]
)
def test_tables_have_the_rows_of_a_window_function(
    spark: SparkSession, tmp_path: Path, numbers: list[int]
) -> None:
    source = spark.createDataFrame(history())
    again = spark.createDataFrame(history().take(list(range(179, -1, -1))))
    ours, own = {}, {}
    for number in numbers:
        case = cases()[number]
        table = BatchTable.build(
            source,
            on=list(case.on),
            when=case.when,
            latest_by=case.latest_by,
            keep=case.keep,
            path=tmp_path / f"{number}",
        )
        ours[number], own[number] = table.to_df(), by_spark(source, case)
        stats = table.stats()
        assert (len(stats.latest_by), stats.keep) == (len(case.sorting), case.keep)
        assert (stats.longest_run == 1) is (case.keep == 1 and case.when is None)
        if number in (0, 3, 5):  # in another order they are the same table
            assert BatchTable.open(tmp_path / f"{number}").refresh(again) == 1
    wanted = right_rows(own)
    for number, found in rows_of_all(ours).items():
        assert 20 < len(wanted[number]) < 150
        assert_same_rows(found, wanted[number], str(cases()[number]))
    if 1 in numbers:
        described = spark.sql(f"DESCRIBE EXTENDED bsjoin.`{tmp_path / '1'}`").collect()
        text = next(row[1] for row in described if row[0] == "Table Properties")
        assert "latest_by=v ASC NULLS FIRST, t DESC NULLS LAST" in text
        assert "keep=2" in text


def test_a_source_that_is_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    written = history(3).select(["t", "v", "n"]).set_column(0, "t", pa.array(["x", "y", None] * 60))
    history_rows = [tuple(row.values()) for row in written.to_pylist()]
    url = in_sqlite(tmp_path / "db", "CREATE TABLE h (t text, v bigint, n bigint)", history_rows)
    stream = spark.createDataFrame([("x",), ("y",), ("z",), (None,)], "t string")
    case = Case(("t",), "v", (F.desc("v"),))
    own = stream.join(by_spark(spark.createDataFrame(written), case), "t")
    source = sources.sql(url, table="h")
    assert rows(bsjoin.join(stream, source, "t", cache=Full(latest_by="v"))) == rows(own)


def test_a_refresh_keeps_the_rule(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """The stream goes on with the plan of unique keys, whatever the history has."""

    def versions_of(many: int) -> DataFrame:
        return spark.range(3 * many).selectExpr("id % 3 AS k", "id DIV 3 AS v")

    table = BatchTable.build(versions_of(1), on="k", latest_by="v", path=tmp_path / "t")
    query = feed.start(table.join(feed.stream))
    for many in (1, 4):
        BatchTable.open(tmp_path / "t").refresh(versions_of(many))
        assert feed.turn(query, 0, 2, 7) == [(0, many - 1), (2, many - 1)]
    assert json.loads((tmp_path / "t" / "versions" / "00000002.json").read_text())["latest"] == {
        "order": ["v DESC NULLS LAST"],
        "keep": 1,
    }


@pytest.mark.long
def test_a_later_build_says_which_rows(spark: SparkSession, tmp_path: Path) -> None:
    source = spark.range(9).selectExpr("id % 3 AS k", "id AS v")

    def build(**options: Any) -> tuple[int, int]:
        table = BatchTable.build(source, on="k", path=tmp_path, **options)
        return table.version, table.stats().rows

    assert build(latest_by="v") == (1, 3)
    assert build(latest_by=["V desc"]) == (1, 3)
    opened = BatchTable.open(tmp_path)
    assert build(latest_by="v", keep=2) == (2, 6)
    # A join that says nothing of it keeps the rule, whether it builds the table again or not.
    stream, joined = spark.range(3).toDF("k"), partial(bsjoin.join, on="k")
    joined(stream, source, cache=Full(store=tmp_path))
    assert opened.version == 2
    joined(stream, source.where("v > 0"), cache=Full(store=tmp_path, fingerprint="2"))
    assert (opened.version, opened.stats().keep) == (2, 2)
    with pytest.raises(TableMismatchError, match=r"lacks the columns \['v'\]"):
        joined(stream, source.select("k"), cache=Full(store=tmp_path))
    assert build() == (3, 9)
    assert opened.refresh(source) == 3  # its keys were unique by the rule, not for good
    # Spelled otherwise, it is the same column.
    other = source.withColumnsRenamed({"v": "V"})
    assert BatchTable.build(source, on="k", path=tmp_path, latest_by="v").version == 4
    assert BatchTable.build(other, on="k", path=tmp_path, latest_by="V").version == 4


def test_bad_input_is_refused_at_the_call(spark: SparkSession) -> None:
    source = spark.range(1).selectExpr(
        "id AS k", "id AS v", "map(id, id) AS m", "collate('x', 'UNICODE_CI') AS c"
    )
    for options, error, text in (
        ({"latest_by": "w"}, ColumnError, "latest_by.*'w'"),
        ({"latest_by": "m"}, KeyTypeError, "latest_by.*'m'"),
        ({"latest_by": "c"}, KeyTypeError, "latest_by.*'c'"),
        ({"latest_by": ["v", "V asc"]}, ArgumentError, "twice"),
        ({"latest_by": 7}, ArgumentError, "latest_by=7"),
        ({"latest_by": "v", "keep": 0}, ArgumentError, "keep=0"),
        ({"latest_by": "v", "keep": 2**31 - 1}, ArgumentError, "from 1 to 2147483646"),
        ({"latest_by": "v", "keep": True}, ArgumentError, "keep=True"),
        ({"keep": 2}, ArgumentError, "keep=2 needs latest_by="),
    ):
        with pytest.raises(error, match=text):
            BatchTable.build(source, on="k", **options)
        with pytest.raises(error, match=text):
            bsjoin.join(spark.range(1).toDF("k"), source, "k", cache=Full(**options))


@pytest.mark.long
def test_unique_is_checked_of_what_is_kept(spark: SparkSession) -> None:
    source = spark.range(4).selectExpr("id % 2 AS k", "id AS v")
    assert BatchTable.build(source, on="k", latest_by="v", unique=True).stats().rows == 2
    with pytest.raises(bsjoin.errors.DuplicateKeyError):
        BatchTable.build(source, on="k", latest_by="v", keep=2, unique=True)
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        table = BatchTable.build(source, on="k", latest_by="v")
        assert rows(table.join(spark.range(2).toDF("k"))) == [(0, 2), (1, 3)]
