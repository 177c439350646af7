"""Rows sent to partitions by a rule: the same result, evener partitions, rules that live on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import HOWS, apart, assert_same_rows, rows_of_all, rows_of_spark, together
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows, write_stream_file

import bsjoin
from bsjoin import Band, BatchTable, Hash, HotSpot, Incremental
from bsjoin.errors import ArgumentError
from bsjoin.partitioning.published import Rules
from bsjoin.storage import StorageLocation

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

# Each cycle that is uneven brings a new rule.
EAGER = {"partitions": 4, "threshold": 0.02, "smoothing": 0.0, "min_cycles": 1, "sample": 2_000}
ROWS = 3_000


def keys_of(cycle: int) -> list[int | None]:
    """A third of the rows have one key, another one every second cycle; some have none."""
    random = np.random.default_rng(cycle)
    keys: list[int | None] = random.integers(0, 400, ROWS).tolist()
    keys[: ROWS // 3] = [cycle // 2] * (ROWS // 3)
    keys[-20:] = [None] * 20
    return keys


class Arrivals:
    """A stream of one file per micro-batch, and what queries over it have written."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder, self.cycles = spark, folder, 0
        (folder / "in").mkdir(parents=True)

    @property
    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema("k long, p long, s string")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))

    @property
    def batch(self) -> DataFrame:
        """All that has arrived."""
        return self.spark.read.schema(self.stream.schema).parquet(str(self.folder / "in"))

    def add(self, cycles: int) -> None:
        for _ in range(cycles):
            number = self.cycles
            places = range(number * ROWS, (number + 1) * ROWS)
            write_stream_file(
                self.folder / "in",
                number,
                k=pa.array(keys_of(number), pa.int64()),
                p=pa.array(places, pa.int64()),
                s=pa.array([f"s{place % 7}" for place in places]),
            )
            self.cycles += 1

    def run(self, joined: DataFrame, name: str) -> list[bsjoin.CycleProgress]:
        """Run a query, or go on with it, over what has arrived."""
        query = (
            joined.writeStream.format("parquet")
            .option("path", str(self.folder / name))
            .option("checkpointLocation", str(self.folder / f"{name}-checkpoint"))
            .start()
        )
        query.processAllAvailable()
        query.stop()
        return [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]

    def written(self, name: str) -> Counter[Any]:
        return counted(self.spark.read.parquet(str(self.folder / name)))

    def right(self, table: DataFrame, how: str = "inner") -> Counter[Any]:
        """What Spark's own join answers of all that has arrived."""
        return counted(self.batch.join(table, "k", how))


def counted(rows: DataFrame) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in rows.toArrow().to_pylist())


@pytest.fixture
def arrivals(spark: SparkSession, tmp_path: Path) -> Arrivals:
    return Arrivals(spark, tmp_path)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    # Keys 0 to 299, some of them twice; 300 to 399 are not there.
    return spark.sql(
        "SELECT id % 300 AS k, id AS q, concat('v', id) AS v FROM range(0, 450)"
    ).localCheckpoint()


def test_a_stream_has_the_rows_of_sparks_join_while_its_rules_change(
    spark: SparkSession, arrivals: Arrivals, table: DataFrame
) -> None:
    """All join types in one query, two with a rule of their own; its progress says how they go."""
    arrivals.add(2)
    built = BatchTable.build(table, on="k")
    ways: dict[Any, Any] = {
        "inner": HotSpot(**EAGER), "left": HotSpot(**EAGER), "semi": Hash(3), "anti": None
    }  # fmt: skip
    joined: dict[str, DataFrame] = {}
    for how, way in ways.items():
        joined[how] = built.join(arrivals.stream, how=how, partition=way)
        assert joined[how].schema == built.join(arrivals.stream, how=how).schema
    told = arrivals.run(together(joined), "routed")
    found = apart(spark.read.parquet(str(arrivals.folder / "routed")), joined)
    wanted = rows_of_spark(arrivals.batch, table, "k")
    for how in HOWS:
        assert_same_rows(found[how], wanted[how], how)
    rows_in: Counter[Any] = Counter()
    for cycle in told:
        rows_in[cycle.join] += cycle.rows_in
    assert list(rows_in.values()) == [2 * ROWS] * len(HOWS)
    kinds = Counter(cycle.partition.kind for cycle in told)
    assert kinds == {"hotspot": 4, "hash": 2, "none": 2}
    (plain, _) = (cycle.partition for cycle in told if cycle.partition.kind == "none")
    assert (plain.rule_version, plain.rows) == (None, ())
    assert plain.reason == "no shuffle: every worker has access to the whole table"


def test_columns_of_the_stream_may_share_a_name(spark: SparkSession, table: DataFrame) -> None:
    stream = spark.range(9).selectExpr("id % 3 AS k", "id AS x", "-id AS X")
    ways = (HotSpot(partitions=2), Hash(2), None)
    found = [rows(bsjoin.join(stream, table, "k", how="left", partition=way)) for way in ways]
    assert found[0] == found[1] == found[2]


@pytest.mark.long
def test_rules_follow_a_hot_key_and_outlive_the_query(
    arrivals: Arrivals, table: DataFrame, tmp_path: Path
) -> None:
    arrivals.add(2)
    when = Band("p", "q", 10**6, 10**6)
    built = BatchTable.build(table, on="k", when=when)
    options = HotSpot(**EAGER, store=tmp_path / "rules")
    routed = built.join(arrivals.stream, when=when, how="left", partition=options)
    first = arrivals.run(routed, "routed")
    assert arrivals.written("routed") == arrivals.right(table, "left")
    partitions = [cycle.partition for cycle in first]
    assert partitions[0].rule_version == 0
    assert partitions[0].skew > 0.4
    assert all(p.kind == "hotspot" and sum(p.rows) == ROWS for p in partitions)
    assert all(p.hottest[0][0] == str(n // 2) for n, p in enumerate(partitions))
    # Of a third, where one of four rows may be drawn: five standard deviations, 0.018 each.
    assert all(0.24 < p.hottest[0][1] < 0.43 for p in partitions)
    last = Rules(StorageLocation.of(tmp_path / "rules")).last()
    assert last.rule.version >= 1
    # Another application goes on with that rule.
    arrivals.add(1)
    again = built.join(arrivals.stream, when=when, how="left", partition=options)
    second = arrivals.run(again, "routed")
    assert arrivals.written("routed") == arrivals.right(table, "left")
    assert second[0].partition.rule_version == last.rule.version
    assert sum(cycle.rows_in for cycle in second) == ROWS
    # With damaged rules it goes by hash.
    files = list((tmp_path / "rules").glob("*.rule"))
    assert files
    for file in files:
        file.write_bytes(b"{")
    arrivals.add(1)
    arrivals.run(built.join(arrivals.stream, when=when, how="left", partition=options), "routed")
    assert arrivals.written("routed") == arrivals.right(table, "left")


def test_the_driver_steers_every_cycle(arrivals: Arrivals, table: DataFrame) -> None:
    arrivals.add(2)
    path = str(arrivals.folder / "steered")
    steered = bsjoin.cycles(
        table,
        "k",
        partition=HotSpot(**EAGER),
        sink=lambda rows, _: rows.write.mode("append").parquet(path),
    )
    checkpoint = str(arrivals.folder / "steered-checkpoint")
    writer = arrivals.stream.writeStream.foreachBatch(steered)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    assert arrivals.written("steered") == arrivals.right(table)
    told = bsjoin.progress(steered)
    assert [cycle.batch_id for cycle in told] == [0, 1]
    assert [cycle.rows_in for cycle in told] == [ROWS] * 2
    assert all(cycle.table_version == 1 for cycle in told)
    skews = [cycle.partition.skew for cycle in told]
    assert [cycle.partition.rule_version for cycle in told] == [0, 1]
    # The rule of the second cycle is made for the first, whose hot key it shares.
    assert skews[1] < 0.1 < skews[0]


@pytest.mark.long
def test_a_wide_stream_is_planned_at_once(
    arrivals: Arrivals, table: DataFrame, tmp_path: Path
) -> None:
    # Spark doubles what it knows of a column for each column in it that gets another name, as all
    # do on their way to a Python stage of several joins, and foreachBatch asks for all of it.
    arrivals.add(1)
    joined = arrivals.stream.selectExpr("*", *(f"p + {i} AS w{i}" for i in range(40)))
    source = Model(tmp_path / "source", table.toArrow())
    for partition in (HotSpot(partitions=3), None):
        cache = Incremental(max_rows=10_000)
        joined = bsjoin.join(
            joined, source, "k", cache=cache, suffix=f"_{len(joined.columns)}", partition=partition
        )
    found: list[int] = []
    query = joined.writeStream.foreachBatch(lambda rows, _: found.append(rows.count())).start()
    query.processAllAvailable()
    told = bsjoin.progress(query)
    copies = Counter(row["k"] for row in table.collect())
    assert found == [sum(copies[key] ** 2 for key in keys_of(0))]
    # A key of many rows is queried once, wherever they are sent.
    assert set(source.times.values()) == {1}
    assert {cycle.mode for cycle in told if cycle.rows_in} == {"incremental"}
    assert {cycle.partition.kind for cycle in told if cycle.rows_in} == {"hotspot", "none"}


@pytest.mark.long
def test_a_batch_has_the_same_result(spark: SparkSession) -> None:
    """With a column that Spark cannot hash, and with keys of two columns."""
    keys = [(key, place, {"a": place}) for place, key in enumerate(keys_of(0)[::10])]
    stream = spark.createDataFrame(keys, "k long, p long, m map<string,long>")
    stream = stream.selectExpr("k AS a", "concat('b', p % 4) AS b", "p", "m")
    table = spark.sql("SELECT id % 90 AS a, concat('b', id % 3) AS b, id AS w FROM range(0, 300)")
    ways: dict[Any, Any] = {"left": Hash(3), "anti": HotSpot(partitions=3)}
    results = {
        (how, routed): bsjoin.join(stream, table, ["a", "b"], how=how, partition=routed).drop("m")
        for how, partition in ways.items()
        for routed in (None, partition)
    }  # without the maps, which have no order
    found = [Counter(map(str, rows.to_pylist())) for rows in rows_of_all(results).values()]
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert min(rows.total() for rows in found) > 10


def test_what_cannot_be_partitioned_is_refused(spark: SparkSession, table: DataFrame) -> None:
    stream = spark.range(1).selectExpr("id AS k", "id AS p")
    with pytest.raises(ArgumentError, match=r"give None, bsjoin.Hash"):
        bsjoin.join(stream, table, "k", partition=4)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="equality keys, and there are none"):
        bsjoin.join(stream, table, [], when=Band("p", "q", 1, 1), partition=Hash(2))
    with pytest.raises(ArgumentError, match="give a function"):
        bsjoin.cycles(table, "k", sink="nowhere")  # type: ignore[arg-type]
