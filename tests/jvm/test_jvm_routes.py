"""The functions that route rows, against the router of the Python workers."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracle import one_part
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles

import bsjoin
from bsjoin.errors import StoreError, cause_of
from bsjoin.index import GREATEST, LEAST
from bsjoin.metrics.counted import figures, tagged
from bsjoin.partitioning import HotKey, HotSpot, Router, Rule
from bsjoin.partitioning.generated import RoutedRows
from bsjoin.partitioning.published import PublishedRule, Rules
from bsjoin.runtimes.jvm.attach import call
from bsjoin.spark import sql
from bsjoin.storage import StorageLocation

RULES = [
    Rule.even(1),
    Rule.even(7),
    Rule(3, 2, (GREATEST,)),
    Rule(1, 4, (LEAST, 5, 5)),
    Rule(
        9,
        5,
        (-(1 << 60), -5, 10, 1 << 40),
        (
            HotKey(LEAST, 0, (0.5, 0.5)),
            HotKey(-5, 1, (0.25, 0.0, 0.75)),
            HotKey(-4, 4, (1.0,)),
            HotKey(GREATEST, 0, (0.2,) * 5),
        ),
    ),
    Rule(4, 130, (0,) * 129, (HotKey(77, 1, (0.0, 1 / 64) * 64),)),
]


def published(rule: Rule, capacity: int = 100) -> str:
    return PublishedRule(rule, 0, capacity).to_bytes().decode()


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Codes around all boundaries, and anywhere; hashes of rows."""
    random = np.random.default_rng(5)
    near = {code for rule in RULES for code in (*rule.boundaries, *Router(rule).lasts.tolist())}
    near |= {key.code for rule in RULES for key in rule.hot}
    codes = [c + d for c in sorted(near) for d in (-1, 0, 1) if LEAST <= c + d <= GREATEST]
    codes += random.integers(LEAST, GREATEST, 500, endpoint=True).tolist()
    codes += [77] * 500
    contents = random.integers(LEAST, GREATEST, len(codes), endpoint=True)
    contents[:2] = [LEAST, GREATEST]
    contents[-5:] = [0, 1 << 62, LEAST, -(1 << 62), -1]  # four of them where a share ends
    return one_part(spark, pa.table({"code": pa.array(codes, pa.int64()), "content": contents}))


def routed(frame: DataFrame, rule: str, label: str) -> tuple[pa.Array, RoutedRows]:
    """Where rows are sent, and what is counted of them."""
    asked = "code", "content", "spark_partition_id()"
    spark, query = frame.sparkSession, str(uuid.uuid4())
    with tagged(spark, query, 0):
        placed = frame.selectExpr(f"{call('place', rule, *asked, once=True, label=label)} AS to")
        to = placed.toArrow()["to"]
    (counted,) = figures(RoutedRows, "partitions", query, 0, 0, spark)
    return to, counted


def test_a_row_is_sent_and_counted_as_the_router_says(rows: DataFrame) -> None:
    codes, contents = (column.to_numpy() for column in rows.toArrow())
    for rule in RULES:
        to, counted = routed(rows, sql.text(published(rule)), "places")
        router, told = Router(rule), counted.note().statistics
        sent = np.where(to.to_numpy() < 0, -1 - to.to_numpy(), to.to_numpy())
        assert (sent == router.route(codes, contents)).all(), rule
        assert told.version == rule.version
        wanted = np.bincount(router.locate(codes), minlength=router.cells)
        assert told.cells.tolist() == wanted.tolist(), rule
        assert told.partitions.tolist() == np.bincount(sent, minlength=rule.partitions).tolist()


def test_tasks_without_rows_are_tasks_of_the_cycle(spark: SparkSession) -> None:
    """Else each of many would sample as many keys as one alone, after a time with few rows."""
    few = spark.range(0, 8, 1, 4).where("id = 4").selectExpr("id AS code", "id AS content")
    _, counted = routed(few, sql.text(published(Rule.even(2))), "few")
    assert counted.tasks == 3
    assert counted.note().statistics.rows == 1


def test_rows_are_counted_once_however_often_their_partitions_are_computed(
    spark: SparkSession,
) -> None:
    """In part, from Spark's cache, and by a task that computes several of them."""
    query, rule = str(uuid.uuid4()), sql.text(published(Rule.even(2)))
    asked = "id", "id", "spark_partition_id()"
    placed = call("place", rule, *asked, once=True, label="together")
    with tagged(spark, query, 0):
        kept = spark.range(0, 90, 1, 3).selectExpr(f"{placed} AS to").persist()
        assert not kept.isEmpty()
        sent = kept.coalesce(1).toArrow()["to"].to_numpy()
        kept.unpersist()
    told = figures(RoutedRows, "partitions", query, 0, 0, spark)
    (counted,) = [one for one in told if one.tasks]  # of plans that were executed
    assert counted.tasks == 3
    wanted = np.bincount(np.where(sent < 0, -1 - sent, sent), minlength=2)
    assert counted.note().statistics.partitions.tolist() == wanted.tolist()
    assert wanted.sum() == 90


def test_rows_are_counted_of_one_of_the_actions_of_a_function(
    feed: Feed, people: DataFrame
) -> None:
    joined = bsjoin.join(
        feed.stream.repartition(3), people, "k", how="left", partition=HotSpot(partitions=3)
    )

    def function(batch: DataFrame, number: int) -> None:
        batch.limit(1).collect()
        batch.coalesce(1).collect()
        batch.repartition(2).collect()

    feed.add(*range(9), None)
    feed.add(*range(4))
    query = feed.call(function, joined)
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    told = [cycle.partition.rows for cycle in cycles(query)]
    assert [(len(rows), sum(rows)) for rows in told] == [(3, 10), (3, 4)]


def test_a_partitioned_join_in_the_jvm_has_no_stage_in_python(
    spark: SparkSession, people: DataFrame
) -> None:
    stream = spark.range(9).withColumnRenamed("id", "k")
    joined = bsjoin.join(stream, people, "k", partition=HotSpot(partitions=3))
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "bsjoin_place" in plan
    assert "Python" not in plan
    assert joined.count() == 9


@pytest.mark.parametrize("capacity", [40, 4_000])
def test_the_sample_is_as_large_as_it_shall_be_and_stands_for_all_rows(
    spark: SparkSession, capacity: int
) -> None:
    many, label = 60_000, f"sample {capacity}"
    frame = spark.range(0, many, 1, 1).selectExpr("IF(id % 4 = 0, -7, id) AS code", "id AS content")
    for _ in range(2):  # the second one begins with the exponent at which the first one ended
        to, counted = routed(frame, sql.text(published(Rule.even(2), capacity)), label)
        sample = counted.note().statistics.sample
        assert pc.min(to).as_py() < 0  # it is drawn often
        # By the task's number, which other tests decide, it draws others each time.
        expected = many / (sample.weight / sample.drawn)
        assert 3 / 4 * capacity <= expected <= 3 / 2 * capacity
        hot = sample.weights[sample.codes == -7].item()
        for weight, share in ((sample.weight, 1.0), (hot, 0.25)):
            deviation = (share * expected) ** -0.5
            assert weight == pytest.approx(share * many, rel=6 * deviation)


def test_the_rule_in_the_folder_that_is_active_and_valid(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = Rules(StorageLocation.of(tmp_path))
    (row,) = [spark.range(1)]

    def version(time_us: int, partitions: int = 3, folder: Path = tmp_path) -> int:
        first = published(Rule.even(partitions))
        where = {"folder": str(folder), "first": first, "partitions": partitions}
        found = row.selectExpr(call("rule", f"'{time_us}'", **where)).first()
        return int(json.loads(json.loads(found[0])["rule"])["version"])

    assert version(10) == 0
    for number in (1, 2, 3):
        rules.publish(Rule.even(3, number), 10, clock=lambda n=number: n * 1_000_000)  # type: ignore[misc]
    assert [version(n * 1_000_000) for n in (1, 2, 3, 4)] == [0, 1, 2, 3]
    assert version(9_000_000, partitions=4) == 0
    files = sorted(tmp_path.glob("*.rule"))
    files[2].write_bytes(b"{")
    files[1].write_text(files[1].read_text().replace("boundaries", "bounds"))
    assert version(9_000_000) == 1
    with pytest.raises(Exception, match="this machine has no such folder") as raised:
        version(9_000_000, folder=tmp_path / "elsewhere")
    assert isinstance(cause_of(raised.value), StoreError)
