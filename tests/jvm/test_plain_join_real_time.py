"""Plain joins in real-time mode: what the index answers, and the versions that they follow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from oracle import apart, assert_same_rows, rows_of_all, together
from plain_joins import KINDS, plain, plan_of
from plain_ranges import Ranges, answers, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from real_time_queries import planned_in_real_time

from bsjoin import AsOf, BatchTable, Within

IN_REAL_TIME = "MapPartitions BsjoinLookup"


@pytest.mark.long
def test_ranges_and_as_of(spark: SparkSession, tmp_path: Path) -> None:
    ranges = Ranges("timestamp", 7)
    ranges.table(spark).createOrReplaceTempView("source")
    ranges.stream(spark).createOrReplaceTempView("s")
    source = spark.table("source")
    spans = BatchTable.build(source, on="k", when=Within("a", "p", "q"), path=tmp_path / "spans")
    points = BatchTable.build(source, on="k", when=AsOf("a", "p"), path=tmp_path / "points")
    plain(spark, points.path).createOrReplaceTempView("points")
    query = ranges.queries(range(6), "s", "{t}", keyed=True, interval=True)
    condition = "s.k = points.k AND bsjoin.as_of(s.a, points.p, 'nearest', INTERVAL '2' HOUR)"
    kinds = {"INNER": "points.id", "LEFT": "points.id", "LEFT SEMI": "-1", "LEFT ANTI": "-1"}
    nearest = "\nUNION ALL\n".join(
        f"SELECT '{kind}', s.id, {column} FROM s {kind} JOIN points ON {condition}"
        for kind, column in kinds.items()
    )
    wanted = rows_of(spark.sql(nearest))
    with planned_in_real_time(spark, tmp_path / "idle"):
        own = query.replace("{t}", "source")
        assert len(answers(spark, query.replace("{t}", f"bsjoin.`{spans.path}`"), own)) > 3
        df = spark.sql(nearest)
        assert plan_of(df).count(IN_REAL_TIME) == 4
        assert rows_of(df) == wanted


def test_rows_are_those_of_the_version_that_is_active(spark: SparkSession, tmp_path: Path) -> None:
    """The plans expect one row of a key, and no nulls; the versions that come have others."""
    first = spark.sql("SELECT id AS k, string(id) AS v FROM range(6)")
    second = spark.sql(  # and the columns stand in another order
        "SELECT if(id % 2 = 0, null, string(id)) AS v, 1 AS w, if(id = 3, null, id % 4) AS k "
        "FROM range(9)"
    ).localCheckpoint()
    table = BatchTable.build(first, on="k", path=tmp_path / "t")
    stream = spark.sql("SELECT if(id = 8, null, id) AS k, id AS i FROM range(9)")
    pinned = spark.read.format("bsjoin").option("versionAsOf", 1).load(table.path)
    spans = spark.sql("SELECT id % 3 AS l, id AS p, 2 * id + 1 AS q, string(id) AS v FROM range(9)")
    ends = spans.withColumn("q", F.expr("if(p % 2 = 0, null, q)")).localCheckpoint()
    within = Within("i", "p", "q")
    built = BatchTable.build(spans, on="l", when=within, path=tmp_path / "spans")
    inside = "k = l AND p <= i AND i < q"

    def of_ranges(spans: DataFrame) -> dict[str, DataFrame]:
        either = f"SELECT * FROM {{s}} WHERE i = 0 OR EXISTS (SELECT * FROM {{t}} WHERE {inside})"
        return {
            "of a range": stream.join(spans, F.expr(inside)).select("k", "i", "v"),
            "in a range, or not": spark.sql(either, s=stream, t=spans),
        }

    with planned_in_real_time(spark, tmp_path / "idle"):
        joins = {how: stream.join(plain(spark, table.path), "k", how) for how in KINDS}
        joins["of the first"] = stream.join(pinned, "k")
        joins |= of_ranges(plain(spark, built.path))
        union = together(joins)
        assert plan_of(union).count(IN_REAL_TIME) == len(joins)
        assert plan_of(union).count("version 1 on") >= len(KINDS)
        table.refresh(second)
        built.refresh(ends)
        found = apart(union, joins)
        wanted = rows_of_all(
            {
                **{how: stream.join(second.select("k", "v"), "k", how) for how in KINDS},
                "of the first": stream.join(first, "k"),
                **of_ranges(ends),
            }
        )
        assert wanted["of a range"].num_rows
        for name, rows in found.items():
            assert_same_rows(rows, wanted[name], name)


def test_a_version_that_does_not_fit_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    other_type = spark.sql("SELECT id AS k, 'x' AS v FROM range(4)")
    cases = {
        "has the column 'v' as string, and this query": (other_type, False),
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
