"""CHAR(n) and VARCHAR(n) columns of tables of the catalogue compare as they do in Spark's join."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle import HOWS, rows_of_all
from oracle import assert_same_rows as same_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

import bsjoin
from bsjoin import AsOf, BatchTable, Full, Within
from bsjoin.errors import KeyTypeError
from bsjoin.planner.chain import joins_of

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

TYPES = ["char(2)", "char(5)", "char(8)", "varchar(8)", "string"]
PADDED = "spark.sql.readSideCharPadding"


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, DataFrame]]:
    """A table of the catalogue, with the same values in a column of each type."""
    folder = tmp_path_factory.mktemp("tables")
    values = ["a", "ab", "", "é", "\t", "a\u00a0"]
    more = ["abc", "ab   ", "abcdefgh", "a "]
    longer = {"char(2)": more[:0], "char(5)": more[:1], "char(8)": ["abc", "abcdefgh"]}
    found = {}
    for i, dtype in enumerate(TYPES):
        spark.sql(
            f"CREATE TABLE chars_{i} (k {dtype}, n INT) USING parquet LOCATION '{folder}/{i}'"
        )
        own = [*values, *longer.get(dtype, more)]
        frame = spark.createDataFrame([*zip(own, range(len(own)), strict=True)], "k string, n int")
        frame.coalesce(1).write.insertInto(f"chars_{i}")
        found[dtype] = spark.table(f"chars_{i}")
    yield found
    for i in range(len(TYPES)):
        spark.sql(f"DROP TABLE chars_{i}")


def own(stream: DataFrame, table: DataFrame, how: str) -> DataFrame:
    """Spark's own join, as a user writes it: the oracle of the other tests drops metadata."""
    renamed = table.withColumnRenamed("n", "m")
    joined = stream.join(renamed, "k", {"semi": "leftsemi", "anti": "leftanti"}.get(how, how))
    return joined if how in ("semi", "anti") else joined.select("k", "n", "m")


@pytest.mark.long
def test_pairs_of_types(tables: dict[str, DataFrame]) -> None:
    built = {
        dtype: BatchTable.build(table.withColumnRenamed("n", "m"), on="k")
        for dtype, table in tables.items()
    }
    ours, wanted = {}, {}
    pairs = [*itertools.product(TYPES[:3], TYPES[:3])]
    pairs += [(TYPES[i % 3], dtype) for i, dtype in enumerate(TYPES[3:])]
    pairs += [(dtype, TYPES[1 + i]) for i, dtype in enumerate(TYPES[3:])]
    for left, right in pairs:
        how = HOWS[(TYPES.index(left) + TYPES.index(right)) % 4]
        # A copy, or Spark takes both sides for the same column.
        stream = tables[left].select("k", "n") if left != right else tables[left].where("n < 9")
        ours[left, right] = built[right].join(stream, how=how)
        wanted[left, right] = own(stream, tables[right], how)
    for pair, joined in ours.items():
        assert joined.schema == wanted[pair].schema, pair
    found, right_rows = rows_of_all(ours), rows_of_all(wanted)
    for pair, got in found.items():
        same_rows(got, right_rows[pair], str(pair))


def test_a_key_of_several_columns_and_a_chain(tables: dict[str, DataFrame]) -> None:
    """Renamed and aliased columns keep the type; the key of a later join comes from a table."""
    stream = tables["char(5)"].selectExpr("n AS number", "k AS short").alias("o")
    table = tables["char(8)"].selectExpr("n", "k AS long")
    last = tables["char(2)"].selectExpr("k AS shortest", "n AS last")
    on = {"number": "n", "short": "long"}
    first = bsjoin.join(stream, table, on, select=["long"])
    second = bsjoin.join(first, last, {"long": "shortest"}, how="left")
    condition = (F.col("number") == F.col("n")) & (F.col("short") == F.col("long"))
    wanted = stream.join(table, condition).join(last, F.col("long") == F.col("shortest"), "left")
    wanted = wanted.select("number", "short", "long", "last")
    found, right = rows_of_all({"ours": second, "own": wanted}).values()
    assert found.num_rows == 7
    same_rows(found, right)
    if joins_of(second)[-1].stage is not None:
        assert "CHAR(n)" in joins_of(second)[-1].apart


@pytest.mark.long
def test_one_column_is_compared_with_columns_of_several_lengths(
    tables: dict[str, DataFrame],
) -> None:
    """The joins of a chain do not take each other's values."""
    stream = tables["char(5)"].select("k", "n")
    results: dict[str, DataFrame] = {}
    for number, types in enumerate((("char(8)", "char(5)"), ("string", "char(8)"))):
        ours = wanted = stream
        for place, dtype in enumerate(types):
            table = tables[dtype].withColumnRenamed("n", f"m{place}").alias(f"t{place}")
            ours = bsjoin.join(ours, table, "k", how="left")
            wanted = wanted.join(table, "k", "left")
        results |= {f"ours {number}": ours, f"own {number}": wanted}
    rows = rows_of_all(results)
    for number in range(2):
        same_rows(rows[f"ours {number}"], rows[f"own {number}"], str(number))


def test_a_stored_table_keeps_the_type(tables: dict[str, DataFrame], tmp_path: Path) -> None:
    table = tables["char(8)"].withColumnRenamed("n", "m")
    stream = tables["char(2)"]
    for _ in range(2):
        joined = bsjoin.join(stream, table, "k", cache=Full(store=tmp_path / "table"))
        assert joined.count() == 6
    assert BatchTable.open(tmp_path / "table").join(stream).count() == 6
    # What is computed of it is a string, and so compared as it is.
    plain = stream.withColumn("k", F.col("k").cast("string"))
    assert bsjoin.join(plain, table, "k").count() == 0
    assert plain.join(table, "k").count() == 0


def test_a_value_that_is_too_long_is_not_null(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    null = spark.range(1).join(tables["char(2)"], F.lit(False), "left").select("k")
    semi = bsjoin.join(tables["char(8)"], null, "k", how="semi", nulls_equal=True)
    assert semi.count() == 0


def test_ranges_of_the_same_length_are_spark_s(tables: dict[str, DataFrame]) -> None:
    table = tables["char(5)"].selectExpr("k AS since", "k AS until", "n AS m")
    stream = tables["char(5)"].where("n < 9")
    ours = bsjoin.join(stream, table, [], when=Within("k", "since", "until", closed="both"))
    wanted = stream.join(table, F.col("k").between(F.col("since"), F.col("until")))
    same_rows(*rows_of_all({"ours": ours, "own": wanted}).values())


def test_what_cannot_be_compared_as_spark_does_is_refused_by_name(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    stream = tables["char(5)"]
    with configured(spark, {PADDED: "false"}):
        for table in (tables["char(8)"], tables["char(5)"].where("n < 9")):
            renamed = table.withColumnRenamed("k", "c")
            with pytest.raises(KeyTypeError, match=r"'k' \(char\(5\)\) and 'c' .*readSideChar"):
                bsjoin.join(stream, renamed, {"k": "c"})
        # Any other string is compared as it is read.
        semi = bsjoin.join(stream, tables["string"], "k", how="semi")
        assert semi.count() == stream.join(tables["string"], "k", "semi").count()
    longer = tables["char(8)"].withColumnRenamed("k", "c")
    with pytest.raises(KeyTypeError, match=r"'k' \(char\(5\)\) and 'c' \(char\(8\)\) by their or"):
        bsjoin.join(stream, longer, [], when=AsOf("k", "c"))


def test_a_stored_key_is_padded(
    spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path
) -> None:
    """What is stored without padding would have no match in a session that reads with it."""
    table = tables["char(5)"].withColumnRenamed("n", "m")
    stream, path = tables["string"], tmp_path / "table"
    built = BatchTable.build(table, on="k", path=tmp_path / "built")
    other = BatchTable.build(tables["char(5)"], on="n")  # which is no key there
    kept = Full(store=path)
    when = Within("k", "since", "until", closed="both")
    ranged = tables["char(5)"].selectExpr("k AS since", "k AS until")
    calls = [
        lambda: BatchTable.build(table, on="K"),
        lambda: BatchTable.build(ranged, on=[], when=when),
        lambda: built.refresh(table),
        lambda: bsjoin.join(stream, table, "k", cache=kept),
    ]
    plain = table.withColumn("k", F.col("k").cast("string"))
    with configured(spark, {PADDED: "false"}):
        for call in calls:
            with pytest.raises(KeyTypeError, match=r"\(char\(5\)\): .*readSideCharPadding"):
                call()
        assert not path.exists()
        other.refresh(tables["char(5)"])
        bsjoin.join(stream, table, "k", how="semi")
        bsjoin.join(stream, plain, "k", cache=kept)
    assert built.join(tables["char(5)"].where("n < 9")).count() == 7
