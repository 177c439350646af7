"""Equal fingerprints mean equal rows: of files as they are, and of what is done with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import rows, write_parquet

import bsjoin.build.storing
from bsjoin import BatchTable
from bsjoin.spark.fingerprint import fingerprint
from tests.sessions import configured

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A folder of one Parquet file: keys 1, 2, 3. The view ``t`` goes with it."""
    write_parquet(tmp_path / "source" / "0.parquet", k=pa.array([1, 2, 3]), tag=["a", "b", "a, b"])
    yield tmp_path / "source"
    spark.catalog.dropTempView("t")


def read(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema("k long, tag string").parquet(str(source))


# Each has other rows, or may have, though some look the same when Spark prints the plan.
PLANS = (
    "SELECT k, tag FROM t",
    "SELECT k, tag FROM t WHERE tag IN ('a', 'b')",
    "SELECT k, tag FROM t WHERE tag IN ('a, b')",
    "SELECT k, tag FROM t WHERE tag = 'k'",
    "SELECT k, '1' AS tag FROM t",
    "SELECT k, 1 AS tag FROM t",
    "SELECT k, cast(null AS int) AS tag FROM t",
    "SELECT k, 'null' AS tag FROM t",
    "SELECT k, 'tag' AS tag FROM t",
    "SELECT k, tag FROM t WHERE k + 1 > 2",
    "SELECT k, tag FROM t WHERE k - 1 > 2",
    "SELECT k, t.tag FROM t JOIN (SELECT k AS j, tag FROM t) ON k = j",
    "SELECT k, u.tag FROM t JOIN (SELECT k AS j, tag FROM t) AS u ON k = j",
    "SELECT k, t.tag FROM t LEFT JOIN (SELECT k AS j, tag FROM t) ON k = j",
    "SELECT k, max(tag) AS tag FROM t GROUP BY k",
    "SELECT k, min(tag) AS tag FROM t GROUP BY k",
    "SELECT DISTINCT k, tag FROM t",
    "SELECT k, tag FROM t UNION ALL SELECT k, tag FROM t",
)


def test_another_plan_has_another_fingerprint(spark: SparkSession, source: Path) -> None:
    read(spark, source).createOrReplaceTempView("t")
    found = [fingerprint(spark.sql(plan)) for plan in PLANS]
    assert None not in found
    assert len(set(found)) == len(found)
    # Made again, a plan has other numbers of columns, and means the same.
    read(spark, source).createOrReplaceTempView("t")
    assert [fingerprint(spark.sql(plan)) for plan in PLANS] == found
    with configured(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert not set(found) & {fingerprint(spark.sql(plan)) for plan in PLANS[:2]}


@pytest.mark.parametrize(
    "plan",
    [
        "SELECT k, rand() AS v FROM t",
        "SELECT k, current_date() AS v FROM t",
        "SELECT k, current_user() AS v FROM t",
        "SELECT k, try_cast(tag AS int) AS v FROM t",
        "SELECT k, X'00' AS v FROM t",
        "SELECT k FROM t WHERE k > (SELECT min(k) FROM t)",
        "SELECT k FROM t LIMIT 1",
        "SELECT k, tag FROM t UNION ALL SELECT * FROM VALUES (1L, 'a')",
    ],
)
def test_what_is_not_known_for_certain_has_none(
    spark: SparkSession, source: Path, plan: str
) -> None:
    read(spark, source).createOrReplaceTempView("t")
    assert fingerprint(spark.sql(plan)) is None


def test_rows_that_spark_keeps_have_none(spark: SparkSession, source: Path) -> None:
    files = read(spark, source)
    known = fingerprint(files)
    files.cache()
    try:
        assert fingerprint(files) is None
        assert fingerprint(read(spark, source).where("k > 1")) is None
    finally:
        files.unpersist(blocking=True)
    assert fingerprint(files) == known is not None


def test_a_file_of_the_same_size_and_time_is_another_one(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    file = source / "0.parquet"
    write_parquet(file, k=pa.array([1, 2]), tag=["a", "b"])
    BatchTable.build(read(spark, source), on="k", path=tmp_path / "store")
    before = file.stat()
    write_parquet(file, k=pa.array([1, 2]), tag=["b", "a"])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    table = BatchTable.build(read(spark, source), on="k", path=tmp_path / "store")
    assert rows(table.join(spark.range(1, 4).withColumnRenamed("id", "k"))) == [(1, "b"), (2, "a")]


def test_a_source_that_changes_while_it_is_read_is_read_again(
    spark: SparkSession,
    source: Path,
    tmp_path: Path,
    builds: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build, file = bsjoin.build.storing.build, source / "0.parquet"
    old = file.read_bytes()

    def changing(*arguments: object) -> object:
        write_parquet(file, k=pa.array([1]), tag=["for a moment"])
        try:
            return build(*arguments)  # type: ignore[arg-type]
        finally:
            file.write_bytes(old)

    with monkeypatch.context() as patched:
        patched.setattr(bsjoin.build.storing, "build", changing)
        BatchTable.build(read(spark, source), on="k", path=tmp_path / "store")
    table = BatchTable.build(read(spark, source), on="k", path=tmp_path / "store")
    assert (table.stats().rows, len(builds)) == (3, 2)


def test_a_refresh_reads_what_has_changed_and_nothing_else(
    spark: SparkSession, source: Path, builds: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="bsjoin")
    files = read(spark, source)
    table = BatchTable.build(files, on="k")
    for df in (files, read(spark, source), files):
        assert table.refresh(df) == 1
    assert len(builds) == 1
    assert caplog.text.count("nothing has changed") == 3
    # The same DataFrame sees a file that came after it was made.
    write_parquet(source / "1.parquet", k=pa.array([4]), tag=["added"])
    assert table.refresh(files) == 2
    assert table.refresh(files.where("k < 4")) > 2
    assert (table.stats().rows, len(builds)) == (3, 3)


def test_a_refresh_repairs_what_is_missing(
    spark: SparkSession, source: Path, tmp_path: Path, builds: list[str]
) -> None:
    files = read(spark, source)
    table = BatchTable.build(files, on="k", path=tmp_path / "store")
    for file in (tmp_path / "store" / "data").rglob("*"):
        if file.is_file():
            file.unlink()
    table.refresh(files)
    assert (len(builds), table.version) == (2, 2)
    assert table.join(spark.range(1, 9).withColumnRenamed("id", "k")).count() == 3


def test_a_subquery_is_listed_again_too(
    spark: SparkSession, source: Path, tmp_path: Path, builds: list[str]
) -> None:
    limit = spark.read.schema("k long, tag string").parquet(str(source))
    df = spark.range(10).withColumnRenamed("id", "k")
    df = df.where(F.col("k") <= limit.groupBy().max("k").scalar())
    table = BatchTable.build(df, on="k")
    assert table.stats().rows == 4
    write_parquet(source / "1.parquet", k=pa.array([6]), tag=["added"])
    table.refresh(df)
    assert table.stats().rows == 7
