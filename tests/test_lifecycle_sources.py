"""A restarted application builds a stored table again when its source has changed, only then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import rows, write_parquet

import bsjoin
import bsjoin.build.storing
from bsjoin import BatchTable, Full

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of one Parquet file: keys 1, 2, 3."""
    folder = tmp_path / "source"
    write_parquet(folder / "0.parquet", k=pa.array([1, 2, 3]), tag=["a", "C#7", "C#8"])
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def read(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema("k long, tag string").parquet(str(source))


def state(store: Path) -> list[tuple[Path, int]]:
    """Every file and folder of a store with its time of change."""
    return [(path, path.stat().st_mtime_ns) for path in sorted(store.rglob("*"))]


def test_an_unchanged_source_is_not_built_again(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    probe = spark.range(5).withColumnRenamed("id", "k")
    cache = Full(store=store)
    first = bsjoin.join(probe, read(spark, source), "k", cache=cache)
    before = state(store)
    again = bsjoin.join(probe, read(spark, source), "k", cache=cache)
    # Another selection, another join type, another API: the same table.
    bsjoin.join(probe, read(spark, source), "k", cache=cache, select=["k"])
    bsjoin.join(probe, read(spark, source), "k", cache=cache, how="anti")
    table = BatchTable.build(read(spark, source), on="k", path=store)
    assert builds == [str(store)]
    assert table.version == 1
    assert state(store) == before
    assert rows(again) == rows(first) == [(1, "a"), (2, "C#7"), (3, "C#8")]


def test_a_changed_source_is_built_again(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    def version(rows: int) -> int:
        one, same = (BatchTable.build(read(spark, source), on="k", path=store) for _ in range(2))
        assert (one.version, one.stats().rows) == (same.version, rows)
        return one.version

    seen = [version(3)]
    write_parquet(source / "1.parquet", k=pa.array([4]), tag=["added"])
    seen.append(version(4))
    write_parquet(source / "0.parquet", k=pa.array([1, 2, 3]), tag=["b", "C#7", "C#8"])
    seen.append(version(4))
    (source / "1.parquet").unlink()
    seen.append(version(3))
    assert len(builds) == 4
    # A version that is published too late takes another number.
    assert [listed.number for listed in BatchTable.open(store).versions()] == seen


def test_a_filter_that_has_changed_is_built_again(
    spark: SparkSession, source: Path, store: Path
) -> None:
    filters = ["k < 3", "k < 2", "tag = 'C#7'", "tag = 'C#8'", "tag IN ('a', 'b')", "k >= 2"]
    counts, last = [], 0
    for condition in filters:
        df = read(spark, source).where(condition)
        table = BatchTable.build(df, on="k", path=store)
        assert table.version > last, condition
        last = table.version
        counts.append(table.stats().rows)
    assert counts == [2, 1, 1, 1, 1, 2]


def test_a_filter_that_reads_another_table_sees_its_changes(
    spark: SparkSession, source: Path, store: Path, tmp_path: Path
) -> None:
    def filtered() -> DataFrame:
        limit = spark.read.schema("top long").parquet(str(tmp_path / "limit"))
        return read(spark, source).where(F.col("k") <= limit.select("top").scalar())

    write_parquet(tmp_path / "limit" / "0.parquet", top=pa.array([1]))
    assert BatchTable.build(filtered(), on="k", path=store).stats().rows == 1
    write_parquet(tmp_path / "limit" / "0.parquet", top=pa.array([2]))
    assert BatchTable.build(filtered(), on="k", path=store).stats().rows == 2


def test_other_columns_of_the_same_files_are_built_again(
    spark: SparkSession, source: Path, store: Path
) -> None:
    BatchTable.build(read(spark, source).select("k"), on="k", path=store)
    table = BatchTable.build(read(spark, source), on="k", path=store)
    assert (table.version, table.columns) == (2, ["k", "tag"])
    table = BatchTable.build(read(spark, source).select("tag", "k"), on="k", path=store)
    assert (table.version, table.columns) == (3, ["tag", "k"])


def test_a_promise_of_uniqueness_is_checked_when_it_is_new(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    for unique in (False, True, True):
        BatchTable.build(read(spark, source), on="k", path=store, unique=unique)
    assert len(builds) == 2
    write_parquet(source / "1.parquet", k=pa.array([3]), tag=["again"])
    with pytest.raises(bsjoin.errors.DuplicateKeyError):
        BatchTable.build(read(spark, source), on="k", path=store, unique=True)


def test_a_table_of_many_columns_is_recognised_too(
    spark: SparkSession, store: Path, tmp_path: Path, builds: list[str]
) -> None:
    # Spark shortens plans of more than 25 columns when it prints them.
    columns = {f"c{i}": pa.array([i]) for i in range(40)}
    write_parquet(tmp_path / "wide" / "0.parquet", **columns)
    schema = ", ".join(f"{name} long" for name in columns)
    for _ in range(2):
        df = spark.read.schema(schema).parquet(str(tmp_path / "wide"))
        BatchTable.build(df, on="c0", path=store)
    assert len(builds) == 1


def test_a_touched_file_with_the_same_rows_costs_one_build_not_one_per_restart(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    BatchTable.build(read(spark, source), on="k", path=store)
    os.utime(source / "0.parquet")
    for _ in range(2):
        assert BatchTable.build(read(spark, source), on="k", path=store).stats().rows == 3
    assert len(builds) == 2


def test_a_fingerprint_decides_alone(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    def build(fingerprint: str) -> BatchTable:
        df = read(spark, source)
        return BatchTable.build(df, on="k", path=store, fingerprint=fingerprint)

    assert build("v1").version == 1
    write_parquet(source / "1.parquet", k=pa.array([4]), tag=["added"])
    assert build("v1").stats().rows == 3
    assert len(builds) == 1
    assert build("v2").stats().rows == 4
    assert len(builds) == 2
    # A new word for the same rows: built once to find out, then known by that word.
    for _ in range(2):
        assert build("v3").stats().rows == 4
    assert len(builds) == 3


def test_a_source_that_cannot_be_recognised_is_read_again(
    spark: SparkSession, store: Path, builds: list[str]
) -> None:
    for value in (1, 1, 2):
        df = spark.createDataFrame([(k, value) for k in range(3)], "k long, v int")
        table = BatchTable.build(df, on="k", path=store)
    assert len(builds) == 3
    # The same rows make no new version.
    assert table.version == 2


def test_a_function_in_the_plan_is_never_taken_for_unchanged(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    for _ in range(2):
        df = read(spark, source).where("rand() >= 0")
        BatchTable.build(df, on="k", path=store)
    assert len(builds) == 2


RESTARTED = """
import sys
import bsjoin
from pyspark.sql import SparkSession
source, store = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.session.timeZone", "UTC").getOrCreate()
df = spark.read.schema("k long, tag string").parquet(source).where("tag <> 'a'")
table = bsjoin.BatchTable.build(df, on="k", path=store)
print("version", table.version)
"""


@pytest.mark.slow
def test_a_restarted_application_finds_its_table(
    spark: SparkSession, source: Path, store: Path
) -> None:
    BatchTable.build(read(spark, source).where("tag <> 'a'"), on="k", path=store)
    before = state(store)
    code = [sys.executable, "-c", RESTARTED, str(source), str(store)]
    done = subprocess.run(code, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert "version 1" in done.stdout
    # Nothing was built to find that out either: not even a folder was changed.
    assert state(store) == before
