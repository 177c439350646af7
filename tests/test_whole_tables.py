"""A stored table is the whole table: rows that match nothing are scanned, and cost no look-up."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import change
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import files

import bsjoin
from bsjoin import BatchTable
from bsjoin.build import job, merging
from bsjoin.errors import DamagedTableError
from bsjoin.storage import Manifest, StorageLocation, versions

pytestmark = pytest.mark.usefixtures("without_code")

KEYS = [
    "CASE {0} WHEN 1 THEN double('NaN') WHEN 2 THEN -0.0D ELSE double({0}) END",
    "concat('k', {} DIV 2)",
]


def random_table(spark: SparkSession, seed: int, keys: list[str], rows: int = 60) -> DataFrame:
    """Rows with nulls in keys, points and ends, empty and inverted intervals, and a payload."""
    chance = random.Random(seed)
    nulls = (0.2, 0.6, 0.0, 1.0)[seed % 4]

    def some(value: Any) -> Any:
        return None if chance.random() < nulls else value

    columns = [f"n{i}" for i in range(len(keys))]
    data = [
        (
            *(some(chance.randrange(12)) for _ in columns),
            some(chance.randrange(40)),
            some(chance.randrange(40)),
            some(f"text {chance.randrange(5)}"),
            Decimal(chance.randrange(1000)).scaleb(-2),
            number,
        )
        for number in range(rows)
    ]
    fields = [*(f"{name} int" for name in columns), "at int", "until int", "text string"]
    source = spark.createDataFrame(data, ", ".join([*fields, "price decimal(10,2)", "v bigint"]))
    pairs = zip(keys, columns, strict=True)
    found = [f"{key.format(name)} AS k{i}" for i, (key, name) in enumerate(pairs)]
    made = source.selectExpr(*found, "at", "until", "text", "price", "v")
    return made.repartition(3).localCheckpoint()


def shown(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in df.collect())


def relation(spark: SparkSession, table: BatchTable | Path) -> DataFrame:
    path = table.path if isinstance(table, BatchTable) else table
    return spark.table(f"bsjoin.`{path}`")


def newest(table: BatchTable) -> Manifest:
    return versions.latest(StorageLocation.of(table.path))


def test_a_scan_has_all_rows_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    df = random_table(spark, 0, KEYS)
    on = [f"k{i}" for i in range(len(KEYS))]
    table = BatchTable.build(df, on=on, path=tmp_path / "t")
    table.verify()
    scanned = relation(spark, table)
    assert shown(scanned) == shown(df)
    known = " AND ".join(f"{name} IS NOT NULL" for name in on)
    stats = table.stats()
    assert stats.rows == df.where(known).count()
    assert stats.rows + stats.unindexed == df.count()
    same_in_sql(
        spark,
        table,
        df,
        "SELECT max(v), count(k0), count(*), sum(price) FROM {}",
        "SELECT v, text FROM {} WHERE k0 IS NOT NULL AND v > 7 OR text IS NULL",
        "SELECT id FROM range(5) WHERE id NOT IN (SELECT v FROM {} WHERE k0 IS NULL)",
        "SELECT a.v, b.v FROM {0} a JOIN {0} b ON a.k0 <=> b.k0 AND b.v < 9",
    )


def same_in_sql(spark: SparkSession, table: BatchTable, df: DataFrame, *queries: str) -> None:
    """Hold queries of a stored table against the same of what it was built from."""
    df.createOrReplaceTempView("source")
    for sql in queries:
        wanted = shown(spark.sql(sql.format("source")))
        assert shown(spark.sql(sql.format(f"bsjoin.`{table.path}`"))) == wanted, sql
    spark.catalog.dropTempView("source")


@pytest.mark.long
def test_many_rows_without_a_key_are_in_few_segments(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (job, merging):
        monkeypatch.setattr(module, "RUN_BYTES", 1 << 20)
    # Rows that are equal, too: no order could tell them apart.
    df = spark.range(60_000).selectExpr(
        "IF(id % 3 = 0, id, NULL) AS k",
        "IF(id % 3 = 1, id, 5) AS v",
        "repeat(string(IF(id % 3 = 1, id, 5)), 10) AS text",
    )
    table = BatchTable.build(df, on="k", path=tmp_path / "t", segment_bytes=1 << 20)
    table.verify()
    stats, manifest = table.stats(), newest(table)
    assert (stats.rows, stats.unindexed) == (20_000, 40_000)
    assert 2 <= len(manifest.unindexed) <= 6
    stored = {
        path.relative_to(tmp_path / "t").as_posix() for path in files(tmp_path / "t" / "data")
    }
    assert stored == {name for name, _, _ in manifest.files}
    summed = "count(*)", "sum(v)", "sum(k)", "sum(hash(text))"
    assert shown(relation(spark, table).selectExpr(*summed)) == shown(df.selectExpr(*summed))


def test_a_refresh_sees_rows_that_match_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def source(*others: str | None) -> DataFrame:
        data = [(1, "a"), (2, "b"), *((None, text) for text in others)]
        return spark.createDataFrame(data, "k int, v string")

    table = BatchTable.build(source("x", "y"), on="k", path=tmp_path / "t")
    assert table.refresh(source("y", "x")) == 1  # another order is no change
    assert table.refresh(source("y", None)) == 2
    assert table.refresh(source("y", None, None)) == 3
    assert table.refresh(source()) == 4
    apart = {
        n: spark.read.format("bsjoin").option("versionAsOf", n).load(table.path).where("k IS NULL")
        for n in (1, 3, 4)
    }
    found = reduce(DataFrame.unionAll, (df.select(F.lit(n), "v") for n, df in apart.items()))
    assert shown(found) == {"(1, 'x')": 1, "(1, 'y')": 1, "(3, 'y')": 1, "(3, None)": 2}
    assert [version.rows for version in table.versions()] == [2, 2, 2, 2]
    assert table.vacuum(older_than=0) == [1, 2, 3]
    table.verify()
    assert shown(relation(spark, table)) == {"(1, 'a')": 1, "(2, 'b')": 1}
    assert len({file.parent for file in files(tmp_path / "t" / "data")}) == 1


def test_a_table_in_which_nothing_has_a_key(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(5).selectExpr("CAST(NULL AS string) AS k", "id AS v")
    table = BatchTable.build(df, on="k", path=tmp_path / "t")
    assert (table.stats().rows, table.stats().segments, table.stats().unindexed) == (0, 0, 5)
    assert relation(spark, table).count() == 5
    probes = spark.createDataFrame([("a",), (None,)], "k string")
    assert table.join(probes, how="anti").count() == 2
    assert table.vacuum(older_than=0) == []
    assert shown(relation(spark, table)) == shown(df)


# Tables that lack rows


def forget(folder: Path, version: int = 1) -> None:
    """Make a version one that an earlier bsjoin has stored, which left such rows out."""
    change(folder, lambda data: data.pop("unindexed"), version)


def test_a_table_that_lacks_rows_is_searched_and_not_scanned(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.sql("SELECT * FROM VALUES (1, 'a'), (NULL, 'x') AS t(k, v)")
    table = BatchTable.build(df, on="k", path=tmp_path / "t")
    forget(tmp_path / "t")
    assert table.stats().unindexed is None
    table.verify()
    assert shown(table.join(spark.range(3).selectExpr("int(id) AS k"))) == {"(1, 'a')": 1}
    lacking = relation(spark, table)
    for query in (lacking, lacking.selectExpr("count(*)"), lacking.where("k = 1")):
        with pytest.raises(Exception, match="StoreError: version 1 of the table in ") as caught:
            query.collect()
        assert "rows whose key is null were left out" in str(caught.value)
        assert "Build it again" in str(caught.value)


@pytest.mark.long
def test_building_it_again_makes_it_whole(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(4).selectExpr("nullif(id, 1) AS k", "id AS v").write.parquet(str(tmp_path / "df"))
    df = spark.read.parquet(str(tmp_path / "df"))  # known to be unchanged
    BatchTable.build(df, on="k", path=tmp_path / "t")
    forget(tmp_path / "t")
    for path in files(tmp_path / "t" / "data"):  # the earlier bsjoin has not written them
        if path.name.startswith("u"):
            path.unlink()
    table = BatchTable.build(df, on="k", path=tmp_path / "t")
    assert table.version == 2
    assert newest(table).is_whole
    assert shown(relation(spark, table)) == shown(df)
    assert table.refresh(df) == 2


# Damaged and hostile ones


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with rows that match nothing; the tests take copies."""
    folder = tmp_path_factory.mktemp("stored") / "t"
    df = spark.range(9).selectExpr("nullif(id % 3, 2) AS k", "concat('v', id) AS v")
    BatchTable.build(df, on="k", path=folder)
    return folder


@pytest.mark.usefixtures("runtime")
@pytest.mark.in_turns("runtime")
@pytest.mark.parametrize("damage", ["cut", "another type"])
def test_damage_outside_of_the_index_is_an_error_of_scans_alone(
    spark: SparkSession, stored: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "t"
    shutil.copytree(stored, folder)
    (path,) = folder.glob("data/*/u0000.1.arrow")
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-8])
    else:
        (other,) = folder.glob("data/*/u0000.0.arrow")
        path.write_bytes(other.read_bytes())
        change(
            folder, lambda data: data["unindexed"][0]["sizes"].__setitem__(1, path.stat().st_size)
        )
    table = BatchTable.open(folder, verify=False)
    with pytest.raises(DamagedTableError, match=path.name):
        table.verify()
    with pytest.raises(Exception, match="DamagedTableError") as caught:
        relation(spark, folder).collect()
    assert path.name in str(caught.value)
    # Neither a look-up nor a scan of other columns reads it.
    probes = spark.range(3).withColumnRenamed("id", "k")
    assert table.join(probes, how="left").count() == 7
    assert relation(spark, folder).select("k").count() == 9


ENTRY = {"name": "data/x/u0000", "rows": 3, "sizes": [8, 8], "checksums": ["0" * 32] * 2}


HOSTILE: list[tuple[Any, str]] = [
    (5, "unindexed"),
    ([5], "JSON object|rows"),
    ([{**ENTRY, "rows": 1 << 31}], "rows"),
    ([{**ENTRY, "rows": 1e3}], "rows"),
    ([{**ENTRY, "sizes": [8]}], "sizes"),
    ([{**ENTRY, "sizes": [8, -8]}], "size"),
    ([{**ENTRY, "name": "data/x/u0000/../../../y"}], "below 'data/'"),
    ([ENTRY, ENTRY], "twice"),
]


def test_hostile_entries_are_refused_by_every_reader(
    spark: SparkSession, stored: Path, tmp_path: Path
) -> None:
    for number, (unindexed, says) in enumerate(HOSTILE):
        folder = tmp_path / str(number)
        shutil.copytree(stored, folder)
        change(folder, lambda data, entries=unindexed: data.update(unindexed=entries))  # type: ignore[misc]
        with pytest.raises(bsjoin.errors.TableNotFoundError, match=says):
            BatchTable.open(folder, verify=False)
        with pytest.raises(Exception, match=says) as caught:
            relation(spark, folder).collect()
        assert "DamagedTableError" in str(caught.value)


def test_files_that_are_missing_are_an_error(
    spark: SparkSession, stored: Path, tmp_path: Path
) -> None:
    shutil.copytree(stored, tmp_path / "t")
    change(tmp_path / "t", lambda data: data.update(unindexed=[ENTRY]))
    with pytest.raises(Exception, match=r"DamagedTableError.*data/x/u0000.*is missing"):
        relation(spark, tmp_path / "t").collect()
