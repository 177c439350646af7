"""What :mod:`test_connect` runs in a process of its own: the same things, under Spark Connect.

A process is classic or Connect, never both.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import threading
import time
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path

import interrupt_checks
import numpy as np
import pyarrow as pa
import pytest
import smoke_compat
from cache_runs import database_of_planes
from cache_samples import Model
from checks_apart import named, run
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from reference_kinds import (
    Sides,
    asof,
    differences,
    incremental,
    table_differences,
    table_kinds,
)
from sessions import SETTINGS, configured
from spark_samples import rows, soon, table_of, write_parquet, write_stream_file

import bsjoin
import bsjoin.table
from bsjoin import AsOf, Band, BatchTable, Full, Incremental, sources
from bsjoin.errors import (
    ArgumentError,
    DamagedTableError,
    NotFollowedWarning,
    NotReportedWarning,
    TableMismatchError,
    TableNotFoundError,
    cause_of,
)
from bsjoin.planner.chain import joins_of
from bsjoin.spark import compat, workers
from bsjoin.spark import session as session_module
from bsjoin.spark.fingerprint import fingerprint, read_anew

HOWS = ("inner", "left", "semi", "anti")


def is_connect(spark: SparkSession, folder: Path) -> None:
    assert session_module.is_connect(spark)
    assert session_module.is_dataframe(spark.range(1))
    assert session_module.default_parallelism(spark) == 2
    assert not session_module.is_case_sensitive(spark)


def joins_equal_sparks_own(spark: SparkSession, folder: Path) -> None:
    stream = spark.sql(
        "SELECT * FROM VALUES (1L, 'a', 1), (2L, 'b', 2), (2L, null, 3), (null, 'a', 4), "
        "(9L, 'z', 5) AS t(k, s, n)"
    )
    batch = spark.sql(
        "SELECT * FROM VALUES (1L, 'a', 'one', array(1, 2)), (2L, 'b', 'two', null), "
        "(2L, 'b', 'deux', array()), (null, 'a', 'null', null) AS t(k, s, name, list)"
    )
    for on in (["k"], ["k", "s"]):
        right = batch.select(*on, "name", "list")
        left = stream.selectExpr(*on, "n AS number")
        table = BatchTable.build(right, on=on)
        for how in HOWS if len(on) > 1 else ("left",):
            own, ours = left.join(right, on, how), table.join(left, how=how)
            assert ours.schema == own.schema, (on, how)
            assert sorted(map(repr, ours.collect())) == sorted(map(repr, own.collect())), (on, how)


def a_range_join_takes_the_row_and_the_width_that_it_says(
    spark: SparkSession, folder: Path
) -> None:
    stream = spark.sql("SELECT 1 AS k, decimal('1.00') AS p")
    points = spark.sql(
        "SELECT 1 AS k, CAST(0.7 + id / 10 AS decimal(10,2)) AS q, -id AS n FROM range(7)"
    )
    table = points.union(points.withColumn("n", -points["n"]))
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            near = bsjoin.join(stream, points, "k", when=Band("p", "q", 0.3, np.float32(0.1)))
            assert rows(near.select("n")) == [(-4,), (-3,), (-2,), (-1,), (0,)]
            for order_by, n in (((), -3), ("n desc", 3)):
                when = AsOf("p", "q", order_by=order_by)
                assert rows(bsjoin.join(stream, table, "k", when=when, select=["n"]))[0][2] == n
                model = Model(folder / f"{runtime} {n}", table.toArrow())
                cached = bsjoin.join(stream, model, "k", when=when, cache=Incremental(max_rows=99))
                assert rows(cached.select("n")) == [(n,)]


def a_selection_between_joins_begins_a_stage(spark: SparkSession, folder: Path) -> None:
    table = BatchTable.build(table_of(spark, 1).selectExpr("k", "k + 1 AS v"), on="k")
    stream = spark.range(3).withColumnRenamed("id", "k")
    reason = "under Spark Connect a selection between joins begins a new stage"
    chained = {"spark.bsjoin.runtime": "python", "spark.bsjoin.python.chains": "true"}
    with configured(spark, chained):
        first = table.join(stream)
        direct = table.join(first, {"v": "k"}, suffix="_2")
        between = first.withColumnRenamed("v", "w").select("w").alias("a")
        derived = table.join(between, {"w": "k"})
        filtered = table.join(first.where("k > 0"), {"v": "k"}, suffix="_2")
    assert [step.apart for step in joins_of(direct)] == ["", ""]
    assert [step.apart for step in joins_of(derived)] == ["", reason]
    assert [step.apart for step in joins_of(filtered)] == ["", "between them is Filter"]
    assert rows(derived) == [(1, 2), (2, 3), (3, 4)]


def references_hold_as_after_sparks_own_join(spark: SparkSession, folder: Path) -> None:
    sides = Sides.of(spark)
    source = Model(folder / "model", pa.table({"k": [1, 2], "name": ["a", "b"]}))
    transfer = {"spark.bsjoin.python.transfer": "rows"}
    for runtime in ("python", "jvm"):
        with configured(spark, {"spark.bsjoin.runtime": runtime, **transfer}):
            kinds = {"a chain": lambda stream: sides.ours(stream, two=True)}
            if runtime == "python":
                kinds |= {"a range join": asof(sides), "incremental": incremental(sides, source)}
            assert differences(sides, kinds) == []
            stream = sides.streams["one replaced"]
            first, last = sides.ours(stream, two=True)
            some = last.where(stream["amount"] > 20).select(
                stream["amount"], "o.k", first["name"], last["price"], sides.raw["x"]
            )
            assert rows(some) == [(40, 2, "b", 6, 3.0)]


def references_to_the_table_hold_as_after_sparks_own_join(
    spark: SparkSession, folder: Path
) -> None:
    """But for a column with another name, which is an error, as is the table's key."""
    known = dict[object, object]()
    for runtime, transfer in (("jvm", "keys"), ("python", "keys"), ("python", "rows")):
        handed = {"spark.bsjoin.runtime": runtime, "spark.bsjoin.python.transfer": transfer}
        with configured(spark, handed):
            kinds = table_kinds(spark, folder)
            assert table_differences(kinds, known, renamed_are_refused=True) == [], transfer
            stream, table = spark.range(3).toDF("k"), table_of(spark, 1)
            joined = bsjoin.join(stream, table, "k", "left")
            for use in (joined.select, joined.drop):
                with pytest.raises(PySparkException):
                    use(table["k"]).collect()
            twice = stream.select("k", stream["k"].alias("K2"), stream["k"].alias("k2"))
            assert bsjoin.join(twice, table, "k").drop("K2", "k2").count() == 3


def the_joins_of_a_dataframe_are_explained(spark: SparkSession, folder: Path) -> None:
    other = spark.range(3).withColumnRenamed("id", "k")
    joined = BatchTable.build(table_of(spark, 1), on="k").join(other)
    wanted = [step.planned for step in joins_of(joined)]
    for df in (
        joined.where("k > 0").select("v"),
        other.union(joined.select("k")),
        other.join(joined.groupBy("k").count(), "k"),
        joined.union(joined.repartition(2)),
    ):
        assert [step.planned for step in joins_of(df)] == wanted
        bsjoin.explain(df)
    joined.createOrReplaceTempView("hidden")
    for df in (spark.table("hidden"), spark.sql("SELECT k FROM {j}", j=joined), other):
        with pytest.raises(ArgumentError, match="a view or SQL under Spark Connect"):
            bsjoin.explain(df)
    for thing in (joined, joined["k"]):
        with pytest.raises(ArgumentError, match=r"progress\(\) of a "):
            bsjoin.progress(thing)


def the_cause_of_a_failure_is_found(spark: SparkSession, folder: Path) -> None:
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            table = BatchTable.build(table_of(spark, 1), on="k", path=folder / runtime)
            joined = table.join(spark.range(3).withColumnRenamed("id", "k"))
            for file in (folder / runtime / "data").rglob("*"):
                if file.is_file():
                    file.write_bytes(file.read_bytes()[:100])
            with pytest.raises(PySparkException) as error:
                joined.collect()
            found = cause_of(error.value)
            assert type(found) is DamagedTableError
            assert "damaged" in str(found)


def char_keys_are_padded(spark: SparkSession, folder: Path) -> None:
    for number in (2, 5):
        spark.sql(
            f"CREATE TABLE chars_{number} (k CHAR({number}), n INT) USING parquet "
            f"LOCATION '{folder}/{number}'"
        )
        spark.sql(f"INSERT INTO chars_{number} VALUES ('a', 1), ('ab', 2)")
    short, long = spark.table("chars_2"), spark.table("chars_5")
    for stream, table in ((short, long), (long, short)):
        joined = bsjoin.join(stream, table, "k", select=["n"])
        assert rows(joined) == rows(stream.join(table, "k"))
        assert joined.count() == 2
    for number in (2, 5):
        spark.sql(f"DROP TABLE chars_{number}")


def a_table_lives_its_life(spark: SparkSession, folder: Path) -> None:
    stream = spark.range(3, 6).withColumnRenamed("id", "k")
    BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    table = BatchTable.open(folder / "t")
    first = table.join(stream, how="left")
    assert rows(first) == [(3, 1), (4, None), (5, None)]
    assert table.refresh(table_of(spark, 2, keys=5)) == 2
    assert table.refresh(table_of(spark, 2, keys=5)) == 2
    assert rows(first) == [(3, 1), (4, None), (5, None)]
    assert rows(table.join(stream)) == [(3, 2), (4, 2)]
    assert [version.rows for version in table.versions()] == [4, 5]
    assert (table.stats().rows, table.stats().version) == (5, 2)
    table.verify()
    assert table.vacuum() == []
    assert table.vacuum(older_than=0) == [1]


def an_unchanged_source_is_not_built_again(spark: SparkSession, folder: Path) -> None:
    source = folder / "source"
    write_parquet(source / "0.parquet", k=pa.array([1, 2]), v=["a", "b"])
    stream = spark.range(4).withColumnRenamed("id", "k")
    built: list[object] = []
    build = bsjoin.build.storing.build

    def counted(*arguments: object) -> object:
        built.append(arguments)
        return build(*arguments)  # type: ignore[arg-type]

    bsjoin.build.storing.build = counted  # type: ignore[assignment]
    try:
        for expected in (1, 1):
            batch = spark.read.schema("k long, v string").parquet(str(source))
            batch = batch.where(F.col("k") < 9)
            joined = bsjoin.join(stream, batch, cache=Full(store=folder / "t"))
            assert rows(joined) == [(1, "a"), (2, "b")]
            assert len(built) == expected
        write_parquet(source / "1.parquet", k=pa.array([3]), v=["c"])
        batch = spark.read.schema("k long, v string").parquet(str(source)).where(F.col("k") < 9)
        joined = bsjoin.join(stream, batch, cache=Full(store=folder / "t"))
        assert rows(joined) == [(1, "a"), (2, "b"), (3, "c")]
        assert len(built) == 2
    finally:
        bsjoin.build.storing.build = build


def a_query_keeps_its_columns_and_its_age(spark: SparkSession, folder: Path) -> None:
    source = folder / "stream"
    write_parquet(source / "0.parquet", k=pa.array([1], pa.int64()))
    stream = spark.readStream.schema("k long").parquet(str(source))
    BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    table = BatchTable.open(folder / "t", max_staleness="1 hour")
    query = table.join(stream).writeStream.format("memory").queryName("connect_keeps").start()
    try:
        query.processAllAvailable()
        with pytest.raises(TableMismatchError, match=r"running queries use the columns \['v'\]"):
            BatchTable.build(spark.range(4).withColumnRenamed("id", "k"), on="k", path=folder / "t")
        assert table.refresh(table_of(spark, 2).selectExpr("*", "'new' AS more")) == 2
        (cycle,) = (cycle for cycle in bsjoin.progress(query) if cycle.rows_in)
        assert cycle.refresh is not None
        assert cycle.refresh.last_success is not None
        (manifest,) = (folder / "t" / "versions").glob("*2.json")  # not read by any task yet
        aged = manifest.read_text().replace('"build_s": 0', '"build_s": 9000')
        manifest.write_text(re.sub(r'"build_s": [1-9]', '"build_s": 9000', aged))
        write_parquet(source / "1.parquet", k=pa.array([1], pa.int64()))
        with pytest.raises(Exception, match="StaleTableError"):
            query.processAllAvailable()
    finally:
        query.stop()
    table.refresh(table_of(spark, 2).selectExpr("*", "'new' AS more"))  # the same: fresh
    probes = spark.range(1, 2).withColumnRenamed("id", "k")
    assert rows(table.join(probes)) == [(1, 2, "new")]


def ctrl_c_ends_a_build_cleanly(spark: SparkSession, folder: Path) -> None:
    store = folder / "deep" / "t"
    slow = "java_method('java.lang.Thread', 'sleep', 200L) IS NOT NULL"
    with pytest.raises(KeyboardInterrupt), interrupt_checks.when_there_is("*-*-*")(store):
        BatchTable.build(spark.range(0, 200, 1, 8).where(slow).toDF("k"), on="k", path=store)
    soon(lambda: list(folder.iterdir()), [])
    assert spark.range(3).count() == 3
    time.sleep(3)
    assert list(folder.iterdir()) == []


def a_plan_of_names_is_known_only_where_it_is_certain(spark: SparkSession, folder: Path) -> None:
    write_parquet(folder / "files" / "0.parquet", k=pa.array([1, 2]), v=["a", "b"])
    spark.sql(f"CREATE TABLE named (k LONG) USING parquet LOCATION '{folder / 'table'}'")
    spark.sql("INSERT INTO named VALUES (1)")
    files = spark.read.parquet(str(folder / "files"))
    known = [
        files,
        files.select("k"),
        files.where(F.col("v") == "a"),
        files.where(F.col("v").isin("a", "b")),
        files.where(F.col("v").isin("a, b")),
    ]
    found = [fingerprint(df) for df in known]
    assert None not in found
    assert len(set(found)) == len(known)
    again = spark.read.parquet(str(folder / "files"))
    assert fingerprint(again.where(F.col("v") == "a")) == found[2]
    assert fingerprint(files) == found[0]
    unknown = [files.where("k < 9"), files.where(F.rand() < 2), spark.table("named")]
    assert {fingerprint(df) for df in [*unknown, spark.sql("SELECT * FROM named")]} == {None}
    # What a name stands for is read by Spark's own join in each micro-batch.
    stream = spark.readStream.format("rate").load().selectExpr("value AS k")
    for df in (spark.table("named"), spark.range(3).select(F.current_date().alias("k"))):
        assert read_anew(df)
    with pytest.warns(NotFollowedWarning, match="the table named"):
        bsjoin.join(stream, spark.table("named").where("k > 0"), "k")
    spark.range(3).createOrReplaceTempView("view")
    spark.table("named").cache()
    for df in (files, spark.table("view"), spark.range(3), spark.table("named")):
        assert not read_anew(df)
    spark.sql("DROP TABLE named")


def a_stream_follows_its_table(spark: SparkSession, folder: Path) -> None:
    source = folder / "stream"
    write_parquet(source / "0.parquet", k=pa.array([1, 2, None, 9], pa.int64()))
    stream = spark.readStream.schema("k long").parquet(str(source))
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    joins = [table.join(stream, how=how).select("k") for how in HOWS]
    all_joins = joins[0].union(joins[1]).union(joins[2]).union(joins[3])
    query = all_joins.writeStream.format("memory").queryName("connect_follows").start()
    try:
        query.processAllAvailable()
        assert table.refresh(table_of(spark, 2).union(table_of(spark, 3, keys=2))) == 2
        # The last micro-batch used version 1; a replay of it would need that again.
        assert table.vacuum(older_than=0) == []
        write_parquet(source / "1.parquet", k=pa.array([1, 2], pa.int64()))
        query.processAllAvailable()
        figures = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        found = [(c.rows_in, c.hits, c.misses, c.matches, c.rows_out) for c in figures]
        assert found == [
            (4, 2, 2, 2, 2),
            (4, 2, 2, 2, 4),
            (4, 2, 2, 2, 2),
            (4, 2, 2, 2, 2),
            (2, 2, 0, 3, 3),
            (2, 2, 0, 3, 3),
            (2, 2, 0, 2, 2),
            (2, 2, 0, 2, 0),
        ]
        assert [cycle.table_version for cycle in figures] == [1] * 4 + [2] * 4
        assert spark.table("connect_follows").count() == sum(c.rows_out for c in figures)
    finally:
        query.stop()


def figures_that_stay_on_the_server_are_told(spark: SparkSession, folder: Path) -> None:
    write_parquet(folder / "stream" / "0.parquet", k=pa.array([1, 2, None, 9], pa.int64()))
    stream = spark.readStream.schema("k long").parquet(str(folder / "stream"))
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    path, found = str(folder / "t"), folder / "observed"

    def inside(batch: DataFrame, number: int) -> None:
        from pyspark.sql import Observation

        observed = Observation()
        joined = BatchTable.open(path).join(batch, how="left")
        joined.observe(observed, F.count(F.lit(1)).alias("n"), F.count("v").alias("v")).collect()
        found.write_text(f"{number} {observed.get}")

    def without(batch: DataFrame, number: int) -> None:
        batch.collect()

    with warnings.catch_warnings():
        warnings.simplefilter("error", NotReportedWarning)
        writers = stream.writeStream, table.join(stream).writeStream
        query, joined = (
            writer.foreachBatch(function).start()
            for writer, function in zip(writers, (inside, without), strict=True)
        )
        for one in (query, joined):
            one.processAllAvailable()
            one.stop()
        assert [cycle.rows_in for cycle in bsjoin.progress(joined)] == [4]
        for thing in (query, query.lastProgress):
            with pytest.raises(NotReportedWarning, match="observe the result inside"):
                bsjoin.progress(thing)
    assert found.read_text() == "0 {'n': 4, 'v': 2}"


def a_source_is_read_again_while_a_stream_runs(spark: SparkSession, folder: Path) -> None:
    source = folder / "source"
    write_parquet(source / "0.parquet", k=pa.array([1]), v=pa.array([1], pa.int32()))
    batch = spark.read.schema("k long, v int").parquet(str(source))
    write_parquet(folder / "stream" / "0.parquet", k=pa.array([1], pa.int64()))
    stream = spark.readStream.schema("k long").parquet(str(folder / "stream"))
    table = BatchTable.build(batch, on="k", path=folder / "t")
    query = table.join(stream).writeStream.format("memory").queryName("connect_again").start()
    try:
        query.processAllAvailable()
        table.start_refreshing(batch, "100 ms")
        write_parquet(source / "0.parquet", k=pa.array([1]), v=pa.array([2], pa.int32()))
        deadline = time.monotonic() + 30
        while table.version == 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        table.stop_refreshing()
        time.sleep(0.3)  # a version is to be seen 0.1 s before it is used
        write_parquet(folder / "stream" / "1.parquet", k=pa.array([1], pa.int64()))
        query.processAllAvailable()
        assert rows(spark.table("connect_again")) == [(1, 1), (1, 2)]
    finally:
        table.stop_refreshing()
        query.stop()
        for thread in threading.enumerate():
            if thread.name.startswith("bsjoin-refresh"):
                thread.join(timeout=30)


def a_source_is_queried_only_for_the_keys_in_the_stream(spark: SparkSession, folder: Path) -> None:
    table = pa.table({"id": pa.array([1, 2, 2], pa.int64()), "v": ["a", "b", None]})
    source = Model(folder / "model", table)
    stream = spark.sql("SELECT * FROM VALUES (1), (2), (2), (null), (9) AS t(k)")
    batch = spark.sql("SELECT * FROM VALUES (1L, 'a'), (2L, 'b'), (2L, null) AS t(id, v)")
    cache = Incremental(max_rows=100)
    for how in HOWS:
        right = batch.withColumnRenamed("id", "k")
        own = stream.join(right, "k", how)
        ours = bsjoin.join(stream, source, {"k": "id"}, how=how, cache=cache)
        assert rows(ours) == rows(own), how
    # Inner and left bring the same columns and share a cache; so do semi and anti.
    assert source.times == {1: 2, 2: 2, 9: 2}


def parquet_is_read_with_the_sessions_settings(spark: SparkSession, folder: Path) -> None:
    at = pa.array([-(10**15)], pa.timestamp("us"))
    partition = folder / "p=2024-07-01 00%3A00%3A00"
    write_parquet(partition / "0.parquet", k=[1], A=[b"x"], a=[b"y"], at=at)
    settings = {
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    }
    with configured(spark, settings):
        own = spark.read.parquet(str(folder))
        assert own.schema.simpleString().startswith(
            "struct<k:bigint,A:string,a:string,at:timestamp,p"
        )
        source = sources.parquet(folder)
        for cache in (Incremental(max_rows=9), Full()):
            ours = bsjoin.join(spark.range(2).toDF("k"), source, "k", cache=cache)
            assert ours.schema.simpleString() == own.schema.simpleString()
            assert rows(ours) == rows(own)


def a_stream_queries_a_database(spark: SparkSession, folder: Path) -> None:
    source = sources.sql(database_of_planes(folder), table="planes")
    files = folder / "stream"
    write_parquet(files / "0.parquet", k=pa.array([1, 2, 2, None, 99], pa.int64()))
    stream = spark.readStream.schema("k long").parquet(str(files))
    cache = Incremental(max_rows=100, warm_up=[1, 3])
    joined = bsjoin.join(stream, source, {"k": "id"}, how="left", cache=cache, select=["name"])
    query = joined.writeStream.format("memory").queryName("connect_asks").start()
    try:
        query.processAllAvailable()
        with closing(sqlite3.connect(folder / "planes.db")) as connection, connection:
            connection.execute("UPDATE planes SET name = 'new'")
        source.invalidate([2])
        write_parquet(files / "1.parquet", k=pa.array([1, 2, 3, 99], pa.int64()))
        query.processAllAvailable()
        found = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        assert [(c.rows_in, c.rows_out, c.hits, c.mode) for c in found] == [
            (5, 5, 3, "incremental"),
            (4, 4, 3, "incremental"),
        ]
        caches = [cycle.cache for cycle in found if cycle.cache]
        assert [(c.hits, c.negative_hits, c.misses, c.keys_queried) for c in caches] == [
            (1, 0, 3, 2),
            (2, 1, 1, 1),
        ]
        first = [(1, "plane 1"), (2, "plane 2"), (2, "plane 2"), (None, None), (99, None)]
        second = [(1, "plane 1"), (2, "new"), (3, "plane 3"), (99, None)]
        found_rows = map(tuple, spark.table("connect_asks").collect())
        assert Counter(found_rows) == Counter([*first, *second])
    finally:
        query.stop()


def a_skewed_stream_is_steered(spark: SparkSession, folder: Path) -> None:
    table = spark.range(400).selectExpr("id AS k", "id AS v")
    (folder / "in").mkdir()
    for number in range(3):
        keys = [*range(number, 300), *[7] * 300, None]
        write_stream_file(folder / "in", number, k=pa.array(keys, pa.int64()))
    reader = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(folder / "in"))
    options = bsjoin.HotSpot(partitions=3, min_cycles=1, smoothing=0.0)
    with pytest.raises(ArgumentError, match="runs on the server"):
        bsjoin.cycles(table, "k", partition=options, sink=print)
    routed = bsjoin.join(stream, table, "k", partition=options)
    query = routed.writeStream.format("memory").queryName("routed").start()
    try:
        query.processAllAvailable()
        told = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
    finally:
        query.stop()
    assert [cycle.rows_in for cycle in told] == [601, 600, 599]
    first = told[0].partition
    assert (first.kind, first.rule_version, sum(first.rows)) == ("hotspot", 0, 601)
    assert spark.table("routed").count() == 600 + 599 + 598


def a_small_database_is_read_whole(spark: SparkSession, folder: Path) -> None:
    source = sources.sql(database_of_planes(folder), table="planes")
    stream = spark.range(8, 12).withColumnRenamed("id", "k")
    joined = bsjoin.join(stream, source, {"k": "id"}, how="left", select=["name"])
    assert rows(joined) == [(8, "plane 8"), (9, "plane 9"), (10, None), (11, None)]


def a_source_that_fails_says_so(spark: SparkSession, folder: Path) -> None:
    source = Model(folder / "model", pa.table({"k": [1]}))
    source.fail()
    cache = Incremental(max_rows=100, retries=1, backoff="1 ms")
    with pytest.raises(Exception, match="LookupFailedError"):
        bsjoin.join(spark.range(2).toDF("k"), source, cache=cache, how="semi").collect()


def errors_come_at_the_call(spark: SparkSession, folder: Path) -> None:
    stream, batch = table_of(spark, 1), table_of(spark, 2)
    with pytest.raises(bsjoin.errors.ColumnError, match="'kk'"):
        bsjoin.join(stream, batch, on="kk")
    with pytest.raises(bsjoin.errors.KeyTypeError, match="not of one family"):
        bsjoin.join(stream, batch.selectExpr("string(k) AS k"), on="k")
    with pytest.raises(bsjoin.errors.ArgumentError, match="stream-stream join"):
        bsjoin.join(stream, spark.readStream.format("rate").load(), on={"k": "value"})
    with pytest.raises(bsjoin.errors.DuplicateKeyError, match="k=1"):
        BatchTable.build(batch.union(batch.where("k = 1")), on="k", unique=True)
    with pytest.raises(bsjoin.errors.ColumnError, match="'v'"):
        bsjoin.join(stream, batch.selectExpr("k", "parse_json('1') AS v"), on="k", suffix="_b")
    (folder / "file").write_text("mine")
    with pytest.raises(bsjoin.errors.StoreAccessError):
        BatchTable.build(batch, on="k", path=folder / "file" / "t")
    table = BatchTable.build(batch, on="k", path=folder / "t")
    waiting = table.join(stream)
    table.refresh(table_of(spark, 3))
    assert table.vacuum(older_than=0) == [1]
    with pytest.raises(Exception, match="VersionNotFoundError"):
        waiting.collect()


def workers_of_another_python_are_refused(spark: SparkSession, folder: Path) -> None:
    absent = str(folder / "python")
    stream, batch = table_of(spark, 1), table_of(spark, 2)
    checked = workers._checked.copy()
    workers._checked.clear()
    spark.conf.set("spark.sql.execution.pyspark.python", absent)
    try:
        with pytest.raises(bsjoin.errors.WorkerEnvironmentError, match=absent) as raised:
            bsjoin.join(stream, batch, on="k")
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.python")
        workers._checked |= checked
    assert "environment in which the Connect server is started" in str(raised.value)
    assert bsjoin.join(stream, batch, on="k").count() == 4
    assert spark in workers._checked


def a_remote_table_is_copied_by_the_python_that_the_session_names(
    spark: SparkSession, folder: Path
) -> None:
    table = BatchTable.build(table_of(spark, 1), on="k", path=f"local://{folder}/table")
    stream = spark.range(3, 5).withColumnRenamed("id", "k")
    setting = "spark.sql.execution.pyspark.python"
    assert "BsjoinLookup" not in table.join(stream)._explain_string()  # type: ignore[operator]
    spark.conf.set(setting, sys.executable)
    try:
        joined = table.join(stream, how="left")
        assert "BsjoinLookup" in joined._explain_string()  # type: ignore[operator]
        assert rows(joined) == [(3, 1), (4, None)]
    finally:
        spark.conf.unset(setting)


def stored_tables_are_tables_of_the_catalog(spark: SparkSession, folder: Path) -> None:
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "table")
    table.register(spark, "customers")
    stream = spark.range(3, 5).withColumnRenamed("id", "k")
    try:
        for read in (
            spark.table("bsjoin.customers"),
            spark.table(f"bsjoin.`{table.path}`"),
            table.to_df(spark),
            table.to_df(),
        ):
            assert rows(read) == [(k, 1) for k in range(4)]
            assert rows(stream.join(read, "k", "left")) == [(3, 1), (4, None)]
        assert [one.name for one in spark.catalog.listTables("bsjoin")] == ["customers"]
        with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
            rows(spark.table("bsjoin.nobody"))
        with pytest.raises(PySparkException, match=r"BatchTable\.build"):
            spark.sql("INSERT INTO bsjoin.customers VALUES (9, 9)")
        with pytest.raises(PySparkException) as caught:
            rows(spark.table(f"bsjoin.`{folder}`"))
        assert isinstance(cause_of(caught.value), TableNotFoundError)
    finally:
        spark.conf.unset("spark.bsjoin.table.customers")


def plain_joins_have_figures(spark: SparkSession, folder: Path) -> None:
    """Of a stream; and of two runs of it, which do not mix."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "table")
    table.register(spark, "counted")
    source = folder / "stream"
    write_parquet(source / "0.parquet", k=pa.array([1, 2, None, 9], pa.int64()))
    stream = spark.readStream.schema("k long").parquet(str(source))
    joined = stream.join(spark.table("bsjoin.counted"), "k", "left")
    writer = joined.writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    try:
        found = []
        for number in (1, 2):
            query = writer.start()
            query.processAllAvailable()
            query.stop()
            write_parquet(source / f"{number}.parquet", k=pa.array([3], pa.int64()))
            found.append([cycle for cycle in bsjoin.progress(query) if cycle.rows_in])
    finally:
        spark.conf.unset("spark.bsjoin.table.counted")
    (first,), (second,) = found
    assert (first.table, first.on, first.rows_in, first.hits) == ("counted", ("k",), 4, 2)
    assert (second.rows_in, second.hits, second.table_version) == (1, 1, 1)
    assert first.join == second.join
    assert first.refresh is not None


def private_members_are_there_and_are_not_needed(spark: SparkSession, folder: Path) -> None:
    smoke_compat.check(spark)
    source = folder / "source"
    write_parquet(source, id=pa.array([1, 2, 3], pa.int64()), v=pa.array(["a", "b", "c"]))
    entries = [name for name, entry in compat.ENTRIES.items() if entry.side != "classic"]
    for name in ["", *entries]:
        with pytest.MonkeyPatch.context() as patch:
            if name:
                patch.setattr(compat, name, smoke_compat.missing)
            table = spark.read.parquet(str(source))
            stream = spark.range(5).withColumn("more", F.col("id") + 1).alias("s")
            once = bsjoin.join(stream, table, on="id", how="left")
            twice = bsjoin.join(once.select("id", "v"), table.withColumnRenamed("v", "w"), on="id")
            found = twice.where("id > 1").select("v", "w").collect()
            assert sorted(map(tuple, found)) == [("b", "b"), ("c", "c")], name
            assert fingerprint(table) is None or name not in ("serialized", "explained")


CHECKS = named(
    is_connect,
    joins_equal_sparks_own,
    references_hold_as_after_sparks_own_join,
    references_to_the_table_hold_as_after_sparks_own_join,
    a_range_join_takes_the_row_and_the_width_that_it_says,
    the_joins_of_a_dataframe_are_explained,
    the_cause_of_a_failure_is_found,
    char_keys_are_padded,
    a_selection_between_joins_begins_a_stage,
    a_table_lives_its_life,
    an_unchanged_source_is_not_built_again,
    a_query_keeps_its_columns_and_its_age,
    ctrl_c_ends_a_build_cleanly,
    a_plan_of_names_is_known_only_where_it_is_certain,
    private_members_are_there_and_are_not_needed,
    a_stream_follows_its_table,
    plain_joins_have_figures,
    figures_that_stay_on_the_server_are_told,
    a_source_is_read_again_while_a_stream_runs,
    a_source_is_queried_only_for_the_keys_in_the_stream,
    parquet_is_read_with_the_sessions_settings,
    a_stream_queries_a_database,
    a_skewed_stream_is_steered,
    a_small_database_is_read_whole,
    a_source_that_fails_says_so,
    errors_come_at_the_call,
    workers_of_another_python_are_refused,
    a_remote_table_is_copied_by_the_python_that_the_session_names,
    stored_tables_are_tables_of_the_catalog,
)

if __name__ == "__main__":
    os.environ["SPARK_TESTING"] = "1"  # for Spark, the server takes any free port
    run(CHECKS, SparkSession.builder.remote("local[2]").config(map=SETTINGS).getOrCreate())
