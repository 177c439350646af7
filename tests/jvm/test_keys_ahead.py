"""Keys of columnar batches, which are found ahead of their rows: as by Spark's own join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plain_joins import KINDS, check_same, executed_plan, stored
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

STEP = 1_000_003
_KEY = f"CASE WHEN id % 7 = 0 THEN NULL ELSE abs(hash(id)) % 900 * {STEP} END"
STREAM = f"""
SELECT id, {_KEY} AS k, CAST(abs(hash(id, 1)) % 900 AS INT) AS n,
IF(id % 13 = 0, NULL, concat('s', id)) AS s
FROM range(1500)
"""
COLUMNS = """
id AS v, concat('t', id) AS name, CASE WHEN id % 3 = 0 THEN NULL ELSE id % 5 END AS tier,
id % 2 = 0 AS even, CAST(id AS DECIMAL(20, 2)) AS price, '' AS empty
"""
TABLES = {
    "far": f"SELECT id * {STEP} AS k, {COLUMNS} FROM range(700)",
    "many": f"SELECT id % 250 * {STEP} AS k, {COLUMNS} FROM range(700)",
    "dense": f"SELECT CAST(id AS INT) AS n, {COLUMNS} FROM range(100, 800)",
    "gaps": f"SELECT CAST(id * 2 AS INT) AS n, {COLUMNS} FROM range(400)",
    "none": f"SELECT id * {STEP} AS k, {COLUMNS} FROM range(0)",
    "texts": f"SELECT IF(id % 11 = 0, NULL, concat('s', id * 2)) AS s, {COLUMNS} FROM range(700)",
    "texts twice": f"SELECT concat('s', id DIV 2) AS s, {COLUMNS} FROM range(900)",
}
KEYS = {"dense": "n", "gaps": "n", "texts": "s", "texts twice": "s"}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    folder = tmp_path_factory.mktemp("tables")
    return {
        name: stored(spark, spark.sql(text), KEYS.get(name, "k"), folder / name)
        for name, text in TABLES.items()
    }


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """Parquet files, read in batches that are no multiple of the keys found at once."""
    path = str(tmp_path_factory.mktemp("stream") / "files")
    spark.sql(STREAM).coalesce(1).write.parquet(path)
    with configured(spark, {"spark.sql.parquet.columnarReaderBatchSize": "600"}):
        yield spark.read.parquet(path)


def found_ahead(df: DataFrame) -> int:
    """How many joins of a batch DataFrame find their keys so."""
    text = df._jdf.queryExecution().toRdd().toDebugString()
    return str(text).count("InputAhead.java")


@pytest.mark.parametrize(
    ("which", "how"),
    # All kinds of joins, and all tables, two by two of both.
    [(w, h) for i, w in enumerate(TABLES) for j, h in enumerate(KINDS) if (i + j) % 3 == 0],
)
def test_kinds(
    spark: SparkSession, tables: dict[str, DataFrame], stream: DataFrame, how: str, which: str
) -> None:
    table, key = tables[which], KEYS.get(which, "k")
    check_same(spark, lambda: stream.join(table, key, how), codes=("stage", "adaptive"))
    with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
        assert found_ahead(stream.join(table, key, how)) == 1


QUERIES: dict[str, Callable[[dict[str, DataFrame], DataFrame], DataFrame]] = {
    "rows are dropped before": lambda t, s: s.where("id % 5 < 3 AND s <> 's9'").join(t["far"], "k"),
    "all rows are dropped before": lambda t, s: s.where("length(s) > 9").join(t["far"], "k"),
    "columns are computed before": lambda t, s: s.selectExpr("k", "id * 2 AS i").join(
        t["far"], "k", "left"
    ),
    "the key is computed": lambda t, s: s.withColumn("k", F.col("k") + STEP).join(t["far"], "k"),
    "a condition": lambda t, s: s.join(
        t["many"], (s.k == t["many"].k) & (s.id > t["many"].v), "left"
    ),
    "columns are computed of the table's": lambda t, s: s.join(
        t["far"].selectExpr("k", "coalesce(tier, v) AS c", "upper(name) AS u"), "k", "left"
    ),
    "a limit": lambda t, s: s.join(t["far"], "k").limit(9).select(F.count("v") > 0),
    "partitions in one task": lambda t, s: s.union(s).coalesce(1).join(t["many"], "k"),
    "both sides of a union": lambda t, s: s.join(t["far"], "k").union(s.join(t["far"], "k")),
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries(
    spark: SparkSession, tables: dict[str, DataFrame], stream: DataFrame, name: str
) -> None:
    lookups = 2 if "both" in name else 1
    check_same(spark, lambda: QUERIES[name](tables, stream), lookups=lookups)


def test_joins_in_a_row(
    spark: SparkSession, tables: dict[str, DataFrame], stream: DataFrame
) -> None:
    many = tables["many"].selectExpr("k", "v AS w")
    last = tables["far"].selectExpr("k AS x", "name AS y")

    def query() -> DataFrame:
        joined = stream.join(many, "k", "left").join(tables["gaps"], "n", "left")
        return joined.join(last, F.col("w") * STEP == F.col("x"), "left")

    check_same(spark, query, lookups=3)
    with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
        assert found_ahead(query()) == 1  # for two of them: the third key comes from the table


def test_several_segments(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    df = spark.sql(f"SELECT id * {STEP} AS k, {COLUMNS} FROM range(40000)")
    table = stored(spark, df, "k", tmp_path / "table", segment_bytes=1 << 20)
    assert len(list((tmp_path / "table").rglob("*"))) > 20
    check_same(spark, lambda: stream.join(table, "k", "left"))


@pytest.fixture(scope="module")
def large(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A table for which rows are kept: a core's caches have no room for its index."""
    df = spark.sql(f"SELECT id * {STEP} AS k, {COLUMNS} FROM range(100000)")
    return stored(spark, df, "k", tmp_path_factory.mktemp("large") / "table")


ROWS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "not vectorized": lambda s: s,
    "shuffled": lambda s: s.repartition(2),
    "sorted": lambda s: s.sort("s"),
    "not all of one size": lambda s: s.selectExpr("*", "repeat(s, cast(id % 90 AS INT)) AS r").sort(
        "id"
    ),
    "partitions in one task": lambda s: s.repartition(5, "id").coalesce(1),
}


@pytest.mark.parametrize("how", ["inner", "left", "left_semi"])
def test_rows_with_texts_are_kept(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, how: str
) -> None:
    df = spark.sql(f"SELECT concat('s', id DIV 2) AS s, {COLUMNS} FROM range(100000)")
    table = stored(spark, df, "s", tmp_path / "table")
    check_same(spark, lambda: stream.repartition(2).join(table, "s", how))
    with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
        assert found_ahead(stream.repartition(2).join(table, "s", how)) == 1


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_are_kept(
    spark: SparkSession, large: DataFrame, tables: dict[str, DataFrame], stream: DataFrame,
    how: str, name: str,
) -> None:  # fmt: skip
    def query() -> DataFrame:
        rows = ROWS[name](stream).where("id % 5 < 3")
        return rows.join(large, "k", how).join(
            tables["gaps"].selectExpr("n", "v AS w"), "n", "left"
        )

    with configured(spark, {"spark.sql.parquet.enableVectorizedReader": "false"}):
        check_same(spark, query, lookups=2)
        with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
            assert found_ahead(query()) == (name in ("shuffled", "partitions in one task"))


def test_rows_of_the_cache_are_kept(
    spark: SparkSession, large: DataFrame, stream: DataFrame
) -> None:
    cached = stream.cache()
    try:
        check_same(spark, lambda: cached.join(large, "k", "left"))
        with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
            assert found_ahead(cached.join(large, "k", "left")) == 1
    finally:
        cached.unpersist(blocking=True)


def test_rows_are_not_kept_for_a_small_table(
    spark: SparkSession, tables: dict[str, DataFrame], stream: DataFrame
) -> None:
    shuffled = stream.repartition(2)
    assert "Exchange" in executed_plan(shuffled)
    check_same(spark, lambda: shuffled.join(tables["far"], "k"))
    with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
        assert found_ahead(shuffled.join(tables["far"], "k")) == 0


def test_the_names_of_files_are_those_of_the_rows(
    spark: SparkSession, large: DataFrame, stream: DataFrame, tmp_path: Path
) -> None:
    """What tells the file of a row is the thread that reads it: no row is read ahead there."""
    stream.repartition(7).write.json(str(tmp_path / "files"))
    rows = spark.read.schema("id LONG, k LONG").json(str(tmp_path / "files"))

    def query() -> DataFrame:
        named = rows.withColumn("file", F.input_file_name()).join(large, "k", "left")
        return named.withColumn("above", F.input_file_name())

    check_same(spark, query)
    assert query().select("file").distinct().count() == 7


def test_few_rows_of_many(spark: SparkSession, large: DataFrame, tmp_path: Path) -> None:
    """Where most rows are dropped before, keys are found one by one, with the same rows."""
    df = spark.sql(f"SELECT id, id * 7 % 120000 * {STEP} AS k, id % 997 AS r FROM range(20000)")
    df.coalesce(1).write.parquet(str(tmp_path / "files"))
    rows = spark.read.parquet(str(tmp_path / "files"))
    check_same(
        spark,
        lambda: rows.where("r = 3").join(large, "k", "left"),
        lambda: rows.where("id < 5000 OR r < 20").join(large, "k", "left"),
        lambda: rows.repartition(2).where("r < 4").join(large, "k", "left"),
    )


def test_rows_of_all_widths_are_kept(
    spark: SparkSession, large: DataFrame, stream: DataFrame
) -> None:
    wide = stream.selectExpr("id", "k", "repeat('x', CAST(id % 50 * id % 90000 AS INT)) AS x")
    check_same(spark, lambda: wide.repartition(2).join(large, "k", "left"))
