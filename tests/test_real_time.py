"""Real-time mode: a batch runs for long, and the look-up follows its table all the while."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
from cache_samples import until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from real_time_queries import Source, planned_in_real_time, started, warned
from spark_samples import cycles, table_of

from bsjoin import AsOf, Band, BatchTable


def test_a_refresh_reaches_a_running_batch(
    spark: SparkSession, tmp_path: Path, table: BatchTable
) -> None:
    source, out = Source(spark), tmp_path / "rows"

    def second(version: int) -> DataFrame:
        return table_of(spark, version).selectExpr("k", "k AS p", "v AS u")

    when = Band("k", "p", 0, 0)
    other = BatchTable.build(second(1), on="k", when=when, path=tmp_path / "other")
    first_join = table.join(source.rows, how="left", where="k + v > 0")
    joined = other.join(first_join, when=when, how="left")
    most = Band("k", "p", 0, 0, agg={"most": "max(u)"})
    joined = other.join(joined, when=most, how="left")
    near = AsOf("k", "p", tolerance=0, n=2, collect="near")
    joined = other.join(joined, when=near, how="left", select=["u"])
    joined = joined.selectExpr("* EXCEPT (near)", "get(near, 0).u AS near")
    # Twice in one query: both columns of a row are of one version.
    joined = joined.where("k < 100 OR v > 0").withColumn("w", F.col("v") * 1)
    shown = joined.selectExpr("k", "v", "w", "u", "most", "near", "string(current_timestamp())")
    with warned(spark) as said:
        query = started(shown, tmp_path)
        try:
            source.add(0)
            until(lambda: query.recentProgress, "the end of a batch")
            ended = len(query.recentProgress)
            source.add(1, 2, 50)
            time.sleep(0.5)
            table.refresh(table_of(spark, 2))
            other.apply(second(2), key="k")
            time.sleep(1)
            source.add(3, 0, 50)
            until(lambda: len(query.recentProgress) > ended, "the end of the next one")
        finally:
            query.stop()
    # Twice planned, with four joins.
    assert said().count(f"query {query.id} repeats the batch that runs when it is") == 1
    seen: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for line in out.read_text().splitlines():
        k, v, w, u, aggregated, collected, batch = json.loads(line)
        assert v == w == u == aggregated == collected
        seen[batch].append((k, v))
    assert list(seen.values())[:2] == [
        [(0, 1)],
        [(1, 1), (2, 1), (50, None), (3, 2), (0, 2), (50, None)],
    ]
    for first, last in (cycles(query)[join:8:4] for join in range(4)):
        assert (first.rows_in, first.hits, first.runtime) == (1, 1, "jvm")
        assert (last.rows_in, last.hits, last.table_version) == (6, 4, 2)


def test_each_row_is_answered_from_rows_that_are_fresh_at_its_own_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A row does not wait for a look at the table to find that out."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=tmp_path / "t")
    manifest = json.loads((tmp_path / "t" / "versions" / "00000001.json").read_text())
    read_s = manifest["created_at_us"] / 1e6 - manifest["build_s"]
    limit = timedelta(seconds=time.time() - read_s + 8)
    BatchTable.open(table.path, max_staleness=limit).register(spark, "guarded")
    clock = "left(reflect('java.lang.Thread', 'sleep', 2L), 0)"
    clock = f"concat({clock}, reflect('java.lang.System', 'currentTimeMillis')) AS at"
    rows = spark.range(0, 20_000, 1, 1).selectExpr("id % 4 AS k", clock)
    told = "reflect('java.lang.System', 'setProperty', 'bsjoin.answered', at)"
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    try:
        with planned_in_real_time(spark, tmp_path / "idle"):
            answered = rows.join(spark.table("bsjoin.guarded"), "k").selectExpr(told, "v")
            with pytest.raises(Exception, match="StaleTableError: version 1 "):
                answered.collect()
        last_s = int(system.clearProperty("bsjoin.answered") or 0) / 1e3
    finally:
        for setting in ("table", "maxStalenessUs"):
            spark.conf.unset(f"spark.bsjoin.{setting}.guarded")
    assert last_s <= read_s + limit.total_seconds()
