"""Plain joins in real-time mode: what the index answers, and the versions that they follow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from oracle import collected, counted
from plain_joins import KINDS, plain, plan_of
from plain_ranges import Ranges, answers, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from real_time_queries import planned_in_real_time

from bsjoin import AsOf, BatchTable, Within

IN_REAL_TIME = "MapPartitions BsjoinLookup"


def test_ranges_and_as_of(spark: SparkSession, tmp_path: Path) -> None:
    ranges = Ranges("timestamp", 7)
    ranges.table(spark).createOrReplaceTempView("source")
    ranges.stream(spark).createOrReplaceTempView("s")
    source = spark.table("source")
    spans = BatchTable.build(source, on="k", when=Within("a", "p", "q"), path=tmp_path / "spans")
    points = BatchTable.build(source, on="k", when=AsOf("a", "p"), path=tmp_path / "points")
    plain(spark, points.path).createOrReplaceTempView("points")
    query = ranges.queries(range(12), "s", "{t}", keyed=True, interval=True)
    condition = "s.k = points.k AND bsjoin.as_of(s.a, points.p, 'nearest', INTERVAL '2' HOUR)"
    nearest = [
        f"SELECT s.id, points.id FROM s {kind} JOIN points ON {condition}"
        for kind in ("INNER", "LEFT")
    ]
    nearest += [
        f"SELECT id FROM s LEFT {kind} JOIN points ON {condition}" for kind in ("SEMI", "ANTI")
    ]
    wanted = [rows_of(spark.sql(one)) for one in nearest]
    with planned_in_real_time(spark, tmp_path / "idle"):
        own = query.replace("{t}", "source")
        assert len(answers(spark, query.replace("{t}", f"bsjoin.`{spans.path}`"), own)) > 6
        for one, rows in zip(nearest, wanted, strict=True):
            df = spark.sql(one)
            assert IN_REAL_TIME in plan_of(df)
            assert rows_of(df) == rows


def test_rows_are_those_of_the_version_that_is_active(spark: SparkSession, tmp_path: Path) -> None:
    """The plan expects one row of a key, and no nulls; the version that comes has others."""
    first = spark.sql("SELECT id AS k, string(id) AS v FROM range(6)")
    second = spark.sql(  # and the columns stand in another order
        "SELECT if(id % 2 = 0, null, string(id)) AS v, 1 AS w, if(id = 3, null, id % 4) AS k "
        "FROM range(9)"
    ).localCheckpoint()
    table = BatchTable.build(first, on="k", path=tmp_path / "t")
    stream = spark.sql("SELECT if(id = 8, null, id) AS k, id AS i FROM range(9)")
    pinned = spark.read.format("bsjoin").option("versionAsOf", 1).load(table.path)
    with planned_in_real_time(spark, tmp_path / "idle"):
        joins = {how: stream.join(plain(spark, table.path), "k", how) for how in KINDS}
        of_first = stream.join(pinned, "k")
        assert all("version 1 on" in plan_of(df) for df in joins.values())
        assert IN_REAL_TIME in plan_of(of_first)
        table.refresh(second)
        source = second.select("k", "v")
        for how, df in joins.items():
            assert counted(collected(df)) == counted(collected(stream.join(source, "k", how)))
        assert counted(collected(of_first)) == counted(collected(stream.join(first, "k")))


def test_a_version_that_does_not_fit_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    other_type = spark.sql("SELECT id AS k, 'x' AS v FROM range(4)")
    without = spark.sql("SELECT id AS k, 1 AS w FROM range(4)")
    cases = {
        "has the column 'v' as string, and this query": (other_type, False),
        "has no column 'v', which this query selects": (without, False),
        "VersionNotFoundError": (_version(spark, 2), True),
    }
    with planned_in_real_time(spark, tmp_path / "idle"):
        for number, (said, (later, is_removed)) in enumerate(cases.items()):
            table = BatchTable.build(_version(spark, 1), on="k", path=tmp_path / str(number))
            df = _version(spark, 0).select("k").join(plain(spark, table.path), "k")
            assert IN_REAL_TIME in plan_of(df)
            if is_removed:
                shutil.rmtree(table.path)
            BatchTable.build(later, on="k", path=table.path)
            with pytest.raises((Py4JJavaError, PySparkException), match=said):
                df.collect()


def _version(spark: SparkSession, version: int) -> DataFrame:
    return spark.sql(f"SELECT id AS k, {version} AS v FROM range(8)")
