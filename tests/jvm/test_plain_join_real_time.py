"""Plain joins in real-time mode: what the index answers, and the versions that they follow."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import collected, counted
from plain_doors import plan_of
from plain_joins import KINDS, plain
from plain_ranges import Ranges, answers, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from real_time_queries import Source, planned_in_real_time, started

from bsjoin import AsOf, Band, BatchTable, Within
from bsjoin.runtimes.jvm.attach import attached

IN_REAL_TIME = "MapPartitions BsjoinLookup"
RAISED = (Py4JJavaError, PySparkException)


@pytest.fixture(autouse=True)
def _catalog(spark: SparkSession) -> None:
    assert attached(spark) is None


@pytest.fixture
def real_time(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """Batch queries are planned as in real-time mode."""
    with planned_in_real_time(spark, tmp_path / "idle"):
        yield


@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("interval", [False, True])
def test_ranges(spark: SparkSession, tmp_path: Path, interval: bool) -> None:
    ranges = Ranges("timestamp", 7)
    ranges.table(spark).createOrReplaceTempView("source")
    ranges.stream(spark).createOrReplaceTempView("s")
    when = Within("a", "p", "q") if interval else Band("a", "p", 0, 0)
    table = BatchTable.build(spark.table("source"), on="k", when=when, path=tmp_path / "t")
    query = ranges.queries(12, "s", "{t}", keyed=True, interval=interval)
    own = query.replace("{t}", "source")
    assert answers(spark, query.replace("{t}", f"bsjoin.`{table.path}`"), own) > 6


def test_as_of(spark: SparkSession, tmp_path: Path) -> None:
    ranges = Ranges("timestamp", 3)
    table = BatchTable.build(ranges.table(spark), when=AsOf("a", "p"), on="k", path=tmp_path / "t")
    stream, stored = ranges.stream(spark), plain(spark, table.path)
    stream.createOrReplaceTempView("s")
    stored.createOrReplaceTempView("source")
    condition = "s.k = source.k AND bsjoin.as_of(s.a, source.p, 'nearest', INTERVAL '2' HOUR)"
    queries = [
        f"SELECT s.id, source.id FROM s {kind} JOIN source ON {condition}"
        for kind in ("INNER", "LEFT")
    ]
    queries += [
        f"SELECT id FROM s LEFT {kind} JOIN source ON {condition}" for kind in ("SEMI", "ANTI")
    ]
    wanted = [rows_of(spark.sql(query)) for query in queries]
    with planned_in_real_time(spark, tmp_path / "idle"):
        for query, rows in zip(queries, wanted, strict=True):
            df = spark.sql(query)
            assert IN_REAL_TIME in plan_of(df)
            assert rows_of(df) == rows


@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_version_that_is_active(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The plan expects one row of a key, and no nulls; the version that comes has others."""
    first = spark.sql("SELECT id AS k, string(id) AS v FROM range(6)")
    second = spark.sql(
        "SELECT if(id = 3, null, id % 4) AS k, if(id % 2 = 0, null, string(id)) AS v FROM range(9)"
    ).localCheckpoint()
    table = BatchTable.build(first, on="k", path=tmp_path / "t")
    stream = spark.sql("SELECT if(id = 8, null, id) AS k, id AS i FROM range(9)")
    df = stream.join(plain(spark, table.path), "k", kind)
    assert "version 1 on" in plan_of(df)
    table.refresh(second)
    assert counted(collected(df)) == counted(collected(stream.join(second, "k", kind)))


@pytest.mark.usefixtures("real_time")
def test_columns_are_found_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    table = BatchTable.build(_version(spark, 1), on="k", path=tmp_path / "t")
    df = _version(spark, 0).select("k").join(plain(spark, table.path), "k")
    assert "version 1 on" in plan_of(df)
    other = spark.sql("SELECT string(id) AS w, 2 AS v, id AS k FROM range(8)")
    BatchTable.build(other, on="k", path=table.path)
    assert counted(collected(df)) == counted(collected(_version(spark, 2)))


@pytest.mark.usefixtures("real_time")
def test_a_table_of_one_version_stays_in_it(spark: SparkSession, tmp_path: Path) -> None:
    table = BatchTable.build(_version(spark, 1), on="k", path=tmp_path / "t")
    reader = spark.read.format("bsjoin").option("versionAsOf", 1)
    df = _version(spark, 0).select("k").join(reader.load(str(table.path)), "k")
    table.refresh(_version(spark, 2))
    assert IN_REAL_TIME in plan_of(df)
    assert {row.v for row in df.collect()} == {1}


@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize(
    ("later", "said"),
    [
        ("SELECT id AS k, 'x' AS v FROM range(4)", "has the column 'v' as string, and this query"),
        ("SELECT id AS k, 1 AS w FROM range(4)", "has no column 'v', which this query selects"),
    ],
)
def test_a_version_of_other_columns_is_an_error(
    spark: SparkSession, tmp_path: Path, later: str, said: str
) -> None:
    table = BatchTable.build(_version(spark, 1), on="k", path=tmp_path / "t")
    df = _version(spark, 0).select("k").join(plain(spark, table.path), "k")
    assert IN_REAL_TIME in plan_of(df)
    BatchTable.build(spark.sql(later), on="k", path=table.path)
    with pytest.raises(RAISED, match=f"TableMismatchError: version 2 of .* {said}"):
        df.collect()


@pytest.mark.usefixtures("real_time")
def test_a_table_that_was_built_again_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    table = BatchTable.build(_version(spark, 1), on="k", path=tmp_path / "t")
    df = _version(spark, 0).select("k").join(plain(spark, table.path), "k")
    assert IN_REAL_TIME in plan_of(df)
    shutil.rmtree(table.path)
    BatchTable.build(_version(spark, 2), on="k", path=table.path)
    with pytest.raises(RAISED, match="VersionNotFoundError"):
        df.collect()


@pytest.mark.slow
def test_a_refresh_reaches_a_running_batch(spark: SparkSession, tmp_path: Path) -> None:
    values = BatchTable.build(_version(spark, 1), on="k", path=tmp_path / "values")
    points = BatchTable.build(_points(spark, 1), on="k", when=AsOf("k", "p"), path=tmp_path / "p")
    denied = BatchTable.build(spark.range(7, 8), on="id", path=tmp_path / "denied")
    source = Source(spark)
    source.rows.createOrReplaceTempView("s")
    joined = spark.sql(
        f"""
        SELECT s.k, v.v, v.v * 2 AS w, b.v AS banded, n.v AS nearest,
            string(current_timestamp()) AS batch
        FROM (SELECT k, k + 3 AS a FROM s) s
        JOIN bsjoin.`{values.path}` v ON s.k = v.k
        LEFT JOIN bsjoin.`{points.path}` b ON s.k = b.k AND b.p BETWEEN s.k + 5 AND s.k + 15
        LEFT JOIN bsjoin.`{points.path}` n ON s.k = n.k AND bsjoin.as_of(s.a, n.p, 'forward')
        LEFT SEMI JOIN bsjoin.`{values.path}` t ON s.k = t.k AND t.v > 0
        LEFT ANTI JOIN bsjoin.`{denied.path}` d ON s.k = d.id
        """
    )
    out, version = tmp_path / "rows", 1
    query = started(joined, tmp_path)
    try:
        while not any(map(_is_refreshed, _batches(out))):
            ended = len(query.recentProgress)
            source.add(0, 7, 50)
            version += 1
            values.refresh(_version(spark, version))
            points.refresh(_points(spark, version))
            while len(query.recentProgress) == ended:
                assert query.exception() is None
                source.add(1)
                time.sleep(0.2)
        plan = query._jsq.explainInternal(False)
        assert plan.count(IN_REAL_TIME) == 5, plan
    finally:
        query.stop()
        spark.catalog.dropTempView("s")


def _version(spark: SparkSession, version: int) -> DataFrame:
    return spark.sql(f"SELECT id AS k, {version} AS v FROM range(8)")


def _points(spark: SparkSession, version: int) -> DataFrame:
    return _version(spark, version).selectExpr("k", "k + 10 AS p", "v")


def _batches(out: Path) -> list[list[Any]]:
    """The rows of each batch, without its time; all columns of a row are of one version."""
    batches: dict[str, list[Any]] = {}
    for line in out.read_text().splitlines() if out.exists() else ():
        row = json.loads(line)
        k, v, w = row[:3]
        assert k in (0, 1)
        assert w == 2 * v
        batches.setdefault(row[-1], []).append(row[:-1])
    return list(batches.values())


def _is_refreshed(rows: list[list[Any]]) -> bool:
    """Whether the rows of a batch have two versions of each table, one after the other."""
    columns = list(zip(*rows, strict=True))[2:]
    assert all(list(column) == sorted(column) for column in columns)
    return all(column[0] < column[-1] for column in columns)
