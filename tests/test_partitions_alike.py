"""Rows that are alike in all columns: spread where they can be, and no reason for new rules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed

import bsjoin
from bsjoin import Hash, HotSpot

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

CYCLES, ROWS, PARTITIONS = 3, 4_000, 4


@pytest.fixture
def stream(feed: Feed) -> DataFrame:
    """Nothing but keys: 40 % are one key, 40 % are null."""
    for number in range(CYCLES):
        keys = np.random.default_rng(number).integers(0, 1_000, ROWS).tolist()
        keys[: 4 * ROWS // 5] = [7, None] * (2 * ROWS // 5)
        feed.add(*keys)
    return feed.stream


@pytest.mark.long
def test_rows_that_are_alike_are_spread_and_the_rule_rests(
    spark: SparkSession, stream: DataFrame
) -> None:
    table = spark.range(1_000).selectExpr("id AS k", "id AS v").localCheckpoint()
    options = HotSpot(partitions=PARTITIONS, min_cycles=1, sample=2_000)
    # In the order of the source, and behind a shuffle.
    left = bsjoin.join(stream, table, "k", how="left", partition=options)
    anti = bsjoin.join(stream.repartition(3), table, "k", how="anti", partition=options)
    query = left.select("k").unionAll(anti).writeStream.format("noop").start()
    query.processAllAvailable()
    cycles = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
    first = min(cycle.join for cycle in cycles)
    for one in (True, False):
        layouts = [cycle.partition for cycle in cycles if (cycle.join == first) == one]
        assert [sum(layout.rows) for layout in layouts] == [ROWS] * CYCLES
        versions = [layout.rule_version or 0 for layout in layouts]
        assert versions[-1] <= 2
        assert all(dict(layout.hottest).get("7", 0) > 0.3 for layout in layouts)
        if not one:  # three tasks have null keys, each for a partition of its own or not
            assert all(count < 0.9 * ROWS for count in layouts[-1].rows)
            continue
        for layout in layouts:  # every partition has its part of the null keys
            assert min(layout.rows) > 0.4 * ROWS / PARTITIONS
            assert max(layout.rows) < ROWS * (0.4 + (0.4 + 0.2) / PARTITIONS + 0.05)
        if versions[-1]:  # a rule is in force soon, whenever that is
            assert max(layouts[-1].rows) < 1.15 * ROWS / PARTITIONS


def test_a_partition_by_hash_has_not_all_null_keys(spark: SparkSession, stream: DataFrame) -> None:
    nulls = stream.where("k IS NULL OR k <> 7")
    table = spark.range(1_000).selectExpr("id AS k", "id AS v").localCheckpoint()
    joined = bsjoin.join(nulls, table, "k", how="left", partition=Hash(PARTITIONS))
    counted = joined.selectExpr("k", "spark_partition_id() AS at").where("k IS NULL")
    found: Counter[int] = Counter()
    query = counted.writeStream.foreachBatch(
        lambda rows, _: found.update(row["at"] for row in rows.collect())
    ).start()
    query.processAllAvailable()
    assert sum(found.values()) == CYCLES * 2 * ROWS // 5
    assert max(found.values()) < 1.15 * sum(found.values()) / PARTITIONS
