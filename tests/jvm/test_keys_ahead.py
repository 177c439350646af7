"""Keys of columnar batches, which are found ahead of their rows: as by Spark's own join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from plain_joins import KINDS, Query, check_same, plan_of, stored
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured

from bsjoin import BatchTable
from bsjoin.storage import StorageLocation, versions

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
    "gaps": f"SELECT CAST(id * 2 AS INT) AS n, {COLUMNS} FROM range(400)",
    "texts": f"SELECT IF(id % 11 = 0, NULL, concat('s', id * 2)) AS s, {COLUMNS} FROM range(700)",
    # For these rows are kept: a core's caches have no room for their index.
    "large": f"SELECT id * {STEP} AS k, {COLUMNS} FROM range(100000)",
    "large texts": f"SELECT concat('s', id DIV 2) AS s, {COLUMNS} FROM range(100000)",
    "hashes": f"SELECT xxhash64(concat('s', id * 2)) AS k, {COLUMNS} FROM range(700)",
    "far, changed": f"SELECT id * {STEP} AS k, {COLUMNS} FROM range(700)",
    "dense, changed": f"SELECT CAST(id AS INT) AS n, {COLUMNS} FROM range(100, 800)",
    "texts, changed": f"SELECT concat('s', id DIV 2) AS s, {COLUMNS} FROM range(900)",
}
KEYS = {"gaps": "n", "texts": "s", "large texts": "s", "dense, changed": "n", "texts, changed": "s"}
MOVED = {  # of tables that change: the keys that some rows get
    "far, changed": f"(v + 5) % 800 * {STEP} AS k",
    "dense, changed": "CAST((v + 5) % 950 AS INT) AS n",
    "texts, changed": "concat('s', (v + 5) % 950 DIV 2) AS s",
}


class Tables(dict[str, DataFrame]):
    """Tables by name; each is built when it is first asked for."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__()
        self._spark, self._folder = spark, folder

    def __missing__(self, name: str) -> DataFrame:
        df, key, path = self._spark.sql(TABLES[name]), KEYS.get(name, "k"), self._folder / name
        several = {"segment_bytes": 1 << 20} if name == "large" else {}
        self[name] = stored(self._spark, df, key, path, **several)
        if name == "large":
            assert len(list(path.rglob("*.index.arrow"))) > 3
        if name in MOVED:
            table = BatchTable.open(path)
            columns = [MOVED[name], *df.columns[1:], "IF(v % 4 = 3, 'delete', 'update') AS op"]
            for part in range(2 if name == "far, changed" else 1):
                table.apply(df.selectExpr(*columns).where(f"v % 9 = {part}"), key="v")
            assert versions.latest(StorageLocation.of(path)).layers
        return self[name]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(spark, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """Parquet files, read in batches that are no multiple of the keys found at once."""
    path = str(tmp_path_factory.mktemp("stream") / "files")
    spark.sql(STREAM).coalesce(1).write.parquet(path)
    with configured(spark, {"spark.sql.parquet.columnarReaderBatchSize": "600"}):
        yield spark.read.parquet(path)


def ahead(spark: SparkSession, query: Query) -> int:
    """How many joins of a batch DataFrame find their keys so."""
    with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
        text = query()._jdf.queryExecution().toRdd().toDebugString()
    return str(text).count("InputAhead.java")


QUICK = ("many", "gaps", "large", "far, changed")
ALL = [*((name, KINDS[number % 4]) for number, name in enumerate(TABLES))]


@pytest.mark.parametrize(
    "asked",
    [
        [*zip(QUICK, KINDS, strict=True)],
        pytest.param([*ALL, ("dense, changed", "left")], marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_kinds(
    spark: SparkSession, tables: Tables, stream: DataFrame, asked: list[tuple[str, str]]
) -> None:
    """Tables and kinds of joins in turns; of all tables, changed ones meet each kind."""
    joins = [partial(stream.join, tables[name], KEYS.get(name, "k"), how) for name, how in asked]
    check_same(spark, *joins)
    assert {ahead(spark, join) for join in joins[::3]} == {1}


def test_other_keys_are_not_looked_for(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    """Days have one hash each, as integers have, and are not found ahead: no input is read so."""
    day = "date_add(DATE'2024-01-01', CAST(id AS INT)) AS d"
    table = stored(spark, spark.range(9).selectExpr(day), "d", tmp_path / "table")
    assert ahead(spark, partial(stream.selectExpr("id", day).join, table, "d", "left")) == 0


def test_a_constant_key_is_found_as_it_is(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    """Tables without keys have a constant, too: the hash that all of their rows have."""
    table = BatchTable.build(spark.sql(TABLES["far"]), on="k", path=tmp_path / "t")
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        for number in (0, 1):
            rows = stream.withColumn("k", F.lit(number * STEP).cast("long"))
            found = table.join(rows, how="left").select("v").distinct().collect()
            assert [row.v for row in found] == [number]


QUERIES: dict[str, Callable[[Tables, DataFrame], DataFrame]] = {
    "rows are dropped before": lambda t, s: s.where("id % 5 < 3 AND s <> 's9'").join(t["far"], "k"),
    "columns and the key are computed before": lambda t, s: s.selectExpr(
        f"k + {STEP} AS k", "id * 2 AS i"
    ).join(t["far"], "k", "left"),
    "a condition": lambda t, s: s.join(
        t["many"], (s.k == t["many"].k) & (s.id > t["many"].v), "left"
    ),
    "columns are computed of the table's": lambda t, s: s.join(
        t["far"].selectExpr("k", "coalesce(tier, v) AS c", "upper(name) AS u"), "k", "left"
    ),
    "integers that are hashes of texts": lambda t, s: s.drop("k").join(
        t["hashes"], F.xxhash64("s") == F.col("k"), "left"
    ),
    "a limit": lambda t, s: s.join(t["far"], "k").limit(9).select(F.count("v") > 0),
    "texts that are shuffled": lambda t, s: s.repartition(2).join(t["large texts"], "s", "left"),
    "a small table of rows": lambda t, s: s.repartition(2).join(t["far"], "k"),
    "rows of all widths": lambda t, s: (
        s.selectExpr("id", "k", "repeat('x', CAST(id % 50 * id % 90000 AS INT)) AS x")
        .repartition(2)
        .join(t["large"].select("k", "v", "name"), "k", "left")
        .withColumn("x", F.md5("x"))
    ),
}


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
def test_queries(spark: SparkSession, tables: Tables, stream: DataFrame, part: int) -> None:
    queries = {name: partial(query, tables, stream) for name, query in QUERIES.items()}
    check_same(spark, *[*queries.values()][part::2])
    if part:
        assert ahead(spark, queries["texts that are shuffled"]) == 1
    else:
        assert "Exchange" in plan_of(queries["a small table of rows"]())
        assert ahead(spark, queries["a small table of rows"]) == 0


@pytest.mark.long
def test_joins_in_a_row(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    many = tables["many"].selectExpr("k", "v AS w")
    last = tables["far"].selectExpr("k AS x", "name AS y")

    def query() -> DataFrame:
        joined = stream.join(many, "k", "left").join(tables["gaps"], "n", "left")
        return joined.join(last, F.col("w") * STEP == F.col("x"), "left")

    check_same(spark, query, found=3)
    assert ahead(spark, query) == 1  # for two of them: the third key comes from the table


ROWS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "not vectorized": lambda s: s,
    "shuffled": lambda s: s.repartition(2),
    "sorted": lambda s: s.sort("s"),
    "partitions in one task": lambda s: s.repartition(5, "id").coalesce(1),
}


@pytest.mark.long
def test_rows_are_kept(spark: SparkSession, tables: Tables, stream: DataFrame) -> None:
    """Those that come one by one: of two joins in a row both find their keys in the input."""

    def query(name: str, how: str) -> DataFrame:
        rows = ROWS[name](stream).where("id % 5 < 3")
        gaps = tables["gaps"].selectExpr("n", "v AS w")
        return rows.join(tables["large"], "k", how).join(gaps, "n", "left")

    with configured(spark, {"spark.sql.parquet.enableVectorizedReader": "false"}):
        names = ("not vectorized", "shuffled", "partitions in one task")
        kinds = [partial(query, name, KINDS[i % 2]) for i, name in enumerate(names)]
        check_same(spark, *kinds, found=2)
        kept = [name for name in ROWS if ahead(spark, partial(query, name, "left"))]
    assert kept == ["shuffled", "partitions in one task"]


@pytest.mark.long
def test_the_names_of_files_are_those_of_the_rows(
    spark: SparkSession, tables: Tables, stream: DataFrame, tmp_path: Path
) -> None:
    """What tells the file of a row is the thread that reads it: no row is read ahead there."""
    stream.repartition(7).write.json(str(tmp_path / "files"))
    rows = spark.read.schema("id LONG, k LONG").json(str(tmp_path / "files"))

    def query() -> DataFrame:
        named = rows.withColumn("file", F.input_file_name()).join(tables["large"], "k", "left")
        return named.withColumn("above", F.input_file_name())

    check_same(spark, query)
    assert query().select("file").distinct().count() == 7


@pytest.mark.long
def test_few_rows_of_many(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Where most rows are dropped before, keys are found one by one, with the same rows."""
    df = spark.sql(f"SELECT id, id * 7 % 120000 * {STEP} AS k, id % 997 AS r FROM range(20000)")
    df.coalesce(1).write.parquet(str(tmp_path / "files"))
    rows, large = spark.read.parquet(str(tmp_path / "files")), tables["large"]
    check_same(
        spark,
        lambda: rows.where("id < 5000 OR r < 20").join(large, "k", "left"),
        lambda: rows.repartition(2).where("r < 4").join(large, "k", "left"),
    )
