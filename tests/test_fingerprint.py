"""A stored table is built again when its source has changed, and only then.

Equal fingerprints mean equal rows: of files as they are, and of what is done with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import rows, write_parquet

import bsjoin
import bsjoin.build.storing
from bsjoin import BatchTable, Full
from bsjoin.build.storing import refreshed
from bsjoin.spark.fingerprint import identity, selection_of
from bsjoin.storage import StorageLocation
from tests.sessions import configured

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A folder of one Parquet file: keys 1, 2, 3. The view ``t`` goes with it."""
    folder = tmp_path / "source"
    write_parquet(folder / "0.parquet", k=pa.array([1, 2, 3]), tag=["a", "C#7", "C#8"])
    yield folder
    spark.catalog.dropTempView("t")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def read(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema("k long, tag string").parquet(str(source))


def state(store: Path) -> list[tuple[Path, int]]:
    """Every file and folder of a store with its time of change."""
    return [(path, path.stat().st_mtime_ns) for path in sorted(store.rglob("*"))]


# Each has other rows, or may have, though some look the same when Spark prints the plan.
PLANS = (
    "SELECT k, tag FROM t",
    "SELECT k, tag FROM t WHERE tag IN ('a', 'b')",
    "SELECT k, tag FROM t WHERE tag IN ('a, b')",
    "SELECT k, tag FROM t WHERE tag = 'k'",
    "SELECT k, tag FROM t WHERE tag = 'C#7'",
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
    "SELECT DISTINCT k, tag FROM t",
    "SELECT k, tag FROM t UNION ALL SELECT k, tag FROM t",
)
UNKNOWN = (
    "SELECT k, rand() AS v FROM t",
    "SELECT k, current_date() AS v FROM t",
    "SELECT k, current_user() AS v FROM t",
    "SELECT k, try_cast(tag AS int) AS v FROM t",
    "SELECT k FROM t WHERE cast(tag AS string COLLATE UTF8_LCASE) = 'c#7'",
    "SELECT k, try_sum(k) AS v FROM t GROUP BY k",
    "SELECT k, X'00' AS v FROM t",
    "SELECT k FROM t WHERE k > (SELECT min(k) FROM t)",
    "SELECT k FROM t LIMIT 1",
    "SELECT k, tag FROM t UNION ALL SELECT * FROM VALUES (1L, 'a')",
)


@pytest.mark.long
def test_another_plan_has_another_fingerprint(spark: SparkSession, source: Path) -> None:
    read(spark, source).createOrReplaceTempView("t")
    found = [identity(spark.sql(plan)).fingerprint for plan in PLANS]
    assert None not in found
    assert len(set(found)) == len(found)
    # Made again, a plan has other numbers of columns, and means the same.
    read(spark, source).createOrReplaceTempView("t")
    assert [identity(spark.sql(plan)).fingerprint for plan in PLANS] == found
    # Of a type only the name is in what Spark prints as JSON.
    cased = spark.read.schema("k long, tag string COLLATE UTF8_LCASE").parquet(str(source))
    plans = [df.groupBy("tag").agg(F.max("k").alias("k")) for df in (read(spark, source), cased)]
    found_of_types = {identity(df.select("k")).fingerprint for df in plans}
    assert None not in found_of_types
    assert len(found_of_types) == 2
    write_parquet(source.parent / "lists" / "0.parquet", k=pa.array([1, 2]), tags=[["a"], ["A"]])
    lists = spark.read.parquet(str(source.parent / "lists"))
    cased_list = "CAST(tags AS ARRAY<STRING COLLATE UTF8_LCASE>)"
    compared = ("tags = tags", f"{cased_list} = {cased_list}")
    found_of_lists = [identity(lists.where(one).select("k")).fingerprint for one in compared]
    assert [one is None for one in found_of_lists] == [False, True]
    zone, by_number = "spark.sql.session.timeZone", "spark.sql.parquet.fieldId.read.enabled"
    for settings in ({zone: "Asia/Tokyo"}, {by_number: "true"}):
        with configured(spark, settings):
            assert not set(found) & {identity(spark.sql(plan)).fingerprint for plan in PLANS[:2]}
    # What is not known for certain has none; nor have rows that Spark keeps.
    assert {plan: identity(spark.sql(plan)).fingerprint for plan in UNKNOWN} == dict.fromkeys(
        UNKNOWN
    )
    files = read(spark, source)
    known = identity(files).fingerprint
    files.cache()
    try:
        assert identity(files).fingerprint is None
        assert identity(read(spark, source).where("k > 1")).fingerprint is None
    finally:
        files.unpersist(blocking=True)
    assert identity(files).fingerprint == known is not None


def test_a_selection_says_what_is_read_in_any_version(spark: SparkSession, source: Path) -> None:
    files = read(spark, source)
    files.createOrReplaceTempView("t")
    other = source.parent / "other"
    write_parquet(other / "0.parquet", k=pa.array([1]), tag=["a"])
    merged = spark.read.schema("k long, tag string").option("mergeSchema", "true")
    frames = (files, files.where("k > 1"), read(spark, other), merged.parquet(str(source)))
    found = [selection_of(df) for df in frames]
    assert None not in found
    assert len(set(found)) == len(frames)
    write_parquet(source / "1.parquet", k=pa.array([4]), tag=["added"])
    assert selection_of(read(spark, source)) == found[0]
    # Rows that were given are not compared: they may be others after a restart.
    given = "SELECT k, tag FROM t JOIN (SELECT * FROM VALUES ({}) AS v(tag)) USING (tag)"
    assert selection_of(spark.sql(given.format("'a'"))) is None


def test_an_unchanged_source_is_not_built_again(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    probe = spark.range(5).withColumnRenamed("id", "k")
    cache = Full(store=store)
    first = bsjoin.join(probe, read(spark, source), "k", cache=cache)
    before = state(store)
    again = bsjoin.join(probe, read(spark, source), "k", cache=cache)
    # Another join type, another API: the same table.
    bsjoin.join(probe, read(spark, source), "k", cache=cache, how="left")
    table = BatchTable.build(read(spark, source), on="k", path=store)
    assert builds == [str(store)]
    assert table.version == 1
    assert state(store) == before
    assert rows(again) == rows(first) == [(1, "a"), (2, "C#7"), (3, "C#8")]
    # A touched file with the same rows costs one build, not one per restart.
    os.utime(source / "0.parquet")
    for _ in range(2):
        assert BatchTable.build(read(spark, source), on="k", path=store).stats().rows == 3
    assert len(builds) == 2


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
    # A file of the same size and time is another one.
    file = source / "0.parquet"
    before = file.stat()
    write_parquet(file, k=pa.array([1, 2, 3]), tag=["c", "C#7", "C#8"])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    table = BatchTable.build(read(spark, source), on="k", path=store)
    assert rows(table.join(spark.range(1, 2).toDF("k"))) == [(1, "c")]


@pytest.mark.long
def test_a_plan_that_reads_another_table_sees_its_changes(
    spark: SparkSession, source: Path, store: Path, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "limit" / "0.parquet", top=pa.array([1]))
    limit = spark.read.schema("top long").parquet(str(tmp_path / "limit"))
    made = read(spark, source).where(F.col("k") <= limit.select("top").scalar())
    table = BatchTable.build(made, on="k", path=store)
    assert table.stats().rows == 1
    write_parquet(tmp_path / "limit" / "0.parquet", top=pa.array([2]))
    table.refresh(made)
    assert table.stats().rows == 2


def test_a_promise_of_uniqueness_is_checked_when_it_is_new(
    spark: SparkSession, source: Path, store: Path, builds: list[str]
) -> None:
    for unique in (False, True, True):
        BatchTable.build(read(spark, source), on="k", path=store, unique=unique)
    # A join that asks for none leaves it, and so does its refresh=: it was another version, of rows
    # that were read anew.
    bsjoin.join(spark.range(5).toDF("k"), read(spark, source), "k", cache=Full(store=store))
    refreshed(StorageLocation.of(store), read(spark, source), Full(store=store), adds=False)
    assert len(builds) == 2


@pytest.mark.long
def test_what_cannot_be_shortened_or_recognised(
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
    # Rows that were given are read again; the same ones make no new version.
    for value in (1, 1, 2):
        df = spark.createDataFrame([(k, value) for k in range(3)], "k long, v int")
        table = BatchTable.build(df, on="k", path=tmp_path / "given")
    assert (len(builds), table.version) == (4, 2)


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


def test_a_source_that_changes_while_it_is_read_is_read_again(
    spark: SparkSession,
    source: Path,
    store: Path,
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
        BatchTable.build(read(spark, source), on="k", path=store)
    table = BatchTable.build(read(spark, source), on="k", path=store)
    assert (table.stats().rows, len(builds)) == (3, 2)


def test_a_refresh_reads_what_has_changed_and_nothing_else(
    spark: SparkSession,
    source: Path,
    store: Path,
    builds: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="bsjoin")
    files = read(spark, source)
    table = BatchTable.build(files, on="k", path=store)
    for df in (files, read(spark, source)):
        assert table.refresh(df) == 1
    assert len(builds) == 1
    assert caplog.text.count("nothing has changed") == 2
    # The same DataFrame sees a file that came after it was made.
    write_parquet(source / "1.parquet", k=pa.array([4]), tag=["added"])
    assert table.refresh(files) == 2
    assert table.refresh(files.where("k < 4")) > 2
    assert (table.stats().rows, len(builds)) == (3, 3)
    # What is missing is repaired.
    for file in (store / "data").rglob("*.arrow"):
        file.unlink()
    table.refresh(files.where("k < 4"))
    assert len(builds) == 4
    assert table.join(spark.range(1, 9).toDF("k")).count() == 3
