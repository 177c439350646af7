"""A join warns exactly where Spark's own join of a stream would read the table anew."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from spark_samples import Feed, rows, write_parquet

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import NotFollowedWarning

pytestmark = pytest.mark.usefixtures("interpreted")

# How a table is made, and how it is changed so that key 1 has other rows.
Kind = tuple[Callable[[], DataFrame], Callable[[], object]]


def numbers() -> type[DataSource]:
    """A Python data source over a file with a word; the workers get the class as it is."""

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "k long, v string"

        def reader(self, schema: object) -> DataSourceReader:
            path = self.options["file"]

            class Reader(DataSourceReader):
                def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
                    yield 1, Path(path).read_text()

            return Reader()

    return Numbers


@pytest.fixture
def kinds(spark: SparkSession, tmp_path: Path) -> Iterator[dict[str, Kind]]:
    spark.sql(
        "CREATE TABLE following (k LONG, v STRING) USING parquet PARTITIONED BY (v) "
        f"LOCATION '{tmp_path / 'warehouse'}'"
    )
    spark.sql("INSERT INTO following VALUES (1, 'old')")
    write_parquet(tmp_path / "files" / "0.parquet", k=pa.array([1]), v=["old"])
    number = tmp_path / "number"
    number.write_text("old")
    spark.dataSource.register(numbers())
    source, files = spark.read.format("numbers"), spark.read.schema("k long, v string")
    moment = "string(current_timestamp()) AS v"

    def plain() -> DataFrame:
        return spark.table("following")

    def insert() -> object:
        return spark.sql("INSERT INTO following VALUES (1, 'new')")

    def add_a_file() -> None:
        write_parquet(tmp_path / "files" / "1.parquet", k=pa.array([1]), v=["new"])

    yield {
        "a table": (plain, insert),
        "a subquery": (
            lambda: spark.sql("SELECT 1L AS k, (SELECT count(*) FROM following) AS v"),
            insert,
        ),
        "a Python data source": (
            lambda: source.option("file", str(number)).load(),
            lambda: number.write_text("new"),
        ),
        "the time": (lambda: spark.range(2).selectExpr("id AS k", moment), lambda: None),
        "files": (lambda: files.parquet(str(tmp_path / "files")), add_a_file),
        "rows that are kept": (lambda: plain().localCheckpoint(), insert),
    }
    spark.sql("DROP TABLE following")


def warned(stream: DataFrame, table: DataFrame | BatchTable, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bsjoin.join(stream, table, "k", **options)  # type: ignore[arg-type]
    assert {w.category for w in caught} <= {NotFollowedWarning}
    # The line of the user's call is shown.
    assert {w.filename for w in caught} <= {__file__}
    return [str(w.message) for w in caught]


FOLLOWED = {"a table", "a subquery", "a Python data source", "the time"}
VERSIONED = {"a table", "a subquery"}
"""They have versions: a join follows them, and nothing need be said."""


@pytest.mark.parametrize(
    "names",
    [
        ["a table", "the time", "rows that are kept"],
        pytest.param(["a subquery", "a Python data source", "files"], marks=pytest.mark.long),
    ],
    ids=["often", "others"],
)
def test_a_join_warns_where_sparks_own_would_follow_the_table(
    spark: SparkSession, feed: Feed, kinds: dict[str, Kind], names: list[str]
) -> None:
    kinds = {name: kinds[name] for name in names}
    tables = {name: make() for name, (make, _) in kinds.items()}
    says = {name: warned(feed.stream, table) for name, table in tables.items()}
    # Of one query of one stream, whose second file comes after the changes.
    by_spark = feed.stream
    for place, table in enumerate(tables.values()):
        by_spark = by_spark.join(table.select("k", F.col("v").alias(f"v{place}")), "k")
    query = feed.start(by_spark)
    found: list[dict[str, set[object]]] = []
    for number in range(2):
        feed.turn(query, 1)
        _, *values = zip(*feed.results[number], strict=True)
        found.append(dict(zip(kinds, map(set, values), strict=True)))
        for change in {change for _, change in kinds.values()}:
            change()
    assert {name for name in names if found[0][name] != found[1][name]} == FOLLOWED & {*names}
    assert {name for name in names if says[name]} == (FOLLOWED - VERSIONED) & {*names}
    for name in VERSIONED & {*names}:
        (text,) = warned(feed.stream, kinds[name][0](), cache=Full())
        assert "spark_catalog.default.following" in text
        assert all(way in text for way in ("Full(refresh=", "BatchTable"))
    assert "the time" not in names or "current time" in says["the time"][0]


@pytest.mark.long
def test_nothing_is_said_where_the_table_is_read_again_or_once_in_spark_too(
    spark: SparkSession, feed: Feed, kinds: dict[str, Kind], tmp_path: Path
) -> None:
    table = kinds["a table"][0]()
    assert warned(feed.stream, table, cache=Full(store=tmp_path / "store"))
    assert not warned(feed.stream, table, cache=Full(refresh="1 hour"))
    assert not warned(feed.stream, table, cache=Full(fingerprint="Monday"))
    assert not warned(feed.stream, BatchTable.build(table, on="k"))
    assert not warned(spark.range(3).withColumnRenamed("id", "k"), table)
    cached = kinds["a table"][0]().cache()
    assert not warned(feed.stream, cached)
    cached.unpersist(blocking=True)
    found: list[list[str]] = []

    def call(batch: DataFrame, number: int) -> None:
        found.append(warned(batch, table))

    feed.add(1)
    query = feed.stream.writeStream.foreachBatch(call).start()
    query.processAllAvailable()
    assert found == [[]]


def test_cycles_keep_their_first_table_and_say_so(
    spark: SparkSession, feed: Feed, kinds: dict[str, Kind]
) -> None:
    make, change = kinds["a table"]
    table = make()
    found: list[object] = []
    keep = {"sink": lambda df, _: found.append(rows(df)), "cache": Full()}
    cycles = bsjoin.cycles(table, "k", **keep)  # type: ignore[arg-type]
    with pytest.warns(NotFollowedWarning):
        cycles(spark.range(1, 2).withColumnRenamed("id", "k"), 0)
    change()
    cycles(spark.range(1, 2).withColumnRenamed("id", "k"), 1)
    assert found == [[(1, "old")]] * 2
