"""What :mod:`test_connect` runs in a process of its own: the same things, under Spark Connect.

A process is classic or Connect, never both.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import re
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import deltalake
import interrupt_checks
import numpy as np
import pyarrow as pa
import pytest
import reporting_checks
import smoke_compat
import test_conditions_everywhere as conditions
import test_kafka_route
from cache_runs import database_of_planes
from checks_apart import named, run
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from reference_kinds import (
    Sides,
    asof,
    differences,
    table_differences,
    table_kinds,
)
from sessions import INTERPRETED, configured, on_this_machine
from spark_samples import (
    Feed,
    files,
    rows,
    rows_of_each,
    soon,
    table_of,
    write_parquet,
    write_stream_file,
)
from sqlite_files import in_sqlite

import bsjoin
import bsjoin.table
from bsjoin import AsOf, Band, BatchTable, Full, Incremental, commands, monitoring, sources
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
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
from bsjoin.spark.fingerprint import identity, read_anew

HOWS = ("inner", "left", "semi", "anti")


def joins_equal_sparks_own(spark: SparkSession, folder: Path) -> None:
    assert session_module.is_connect(spark)
    assert session_module.is_dataframe(spark.range(1))
    assert session_module.default_parallelism(spark) == 2
    assert not session_module.is_case_sensitive(spark)
    stream = spark.sql(
        "SELECT * FROM VALUES (1L, 'a', 1), (2L, 'b', 2), (2L, null, 3), (null, 'a', 4), "
        "(9L, 'z', 5) AS t(k, s, n)"
    )
    batch = spark.sql(
        "SELECT * FROM VALUES (1L, 'a', 'one', array(1, 2)), (2L, 'b', 'two', null), "
        "(2L, 'b', 'deux', array()), (null, 'a', 'null', null) AS t(k, s, name, list)"
    )
    table = BatchTable.build(batch, on=["k", "s"])
    own = {how: stream.join(batch, ["k", "s"], how) for how in HOWS}
    ours = {how: table.join(stream, how=how) for how in HOWS}
    for how in HOWS:
        assert ours[how].schema == own[how].schema, how
    assert rows_of_each(ours) == rows_of_each(own)


def a_range_join_takes_the_width_and_the_row_that_it_says(
    spark: SparkSession, folder: Path
) -> None:
    stream = spark.sql("SELECT 1 AS k, decimal('1.00') AS p")
    points = spark.sql(
        "SELECT 1 AS k, CAST(0.7 + id / 10 AS decimal(10,2)) AS q, -id AS n FROM range(7)"
    )
    near = bsjoin.join(stream, points, "k", when=Band("p", "q", 0.3, np.float32(0.1)))
    results: dict[Any, DataFrame] = {"near": near.select("n")}
    both = points.union(points.withColumn("n", -points["n"]))
    for order_by in ((), "n desc"):
        when = AsOf("p", "q", order_by=order_by)
        results[order_by] = bsjoin.join(stream, both, "k", when=when, select=["n"]).select("n")
    when = AsOf("p", "q", "nearest", n=3, collect="near")
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            found = bsjoin.join(stream, points, "k", "left", when=when, indicator="found")
        results[runtime] = found.select("near.n", "found")
    assert rows_of_each(results) == {
        "near": [(-4,), (-3,), (-2,), (-1,), (0,)],
        (): [(-3,)],
        "n desc": [(3,)],
        "jvm": [([-3, -2, -4], True)],
        "python": [([-3, -2, -4], True)],
    }


def the_rest_of_a_condition_is_part_of_the_join(spark: SparkSession, folder: Path) -> None:
    orders = spark.sql(
        "SELECT * FROM VALUES (1, 5, 'x'), (2, 50, 'y'), (9, 1, 'z') AS t(k, amount, name)"
    )
    customers = spark.sql(
        "SELECT *, array(limit) AS unread FROM VALUES (1, 10, 'a'), (1, 3, 'b'), (2, 20, 'c') "
        "AS t(k, limit, name)"
    )
    renamed = customers.withColumnsRenamed({"k": "key", "name": "name_batch"})
    is_less = F.udf(lambda one, other: None not in (one, other) and one < other, "boolean")
    conditions: tuple[Any, ...] = (
        "amount < limit AND name_batch != name",
        (orders["amount"] < customers["limit"]) & (F.col("name_batch") != F.col("name")),
        is_less("amount", "limit"),
    )
    table = BatchTable.build(customers, on="k")
    turns = itertools.cycle((2, 0, 1))
    own, ours = dict[str, DataFrame](), dict[Any, DataFrame]()
    for how in HOWS:
        passes = F.expr("k = key AND amount < limit AND name_batch != name")
        own[how] = orders.join(renamed, passes, how).drop("key", "unread")
        brought = {"select": ["limit", "name"]} if how in ("inner", "left") else {}
        for runtime in ("jvm", "python"):
            where = conditions[number := next(turns)]
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                joined = table.join(orders, how=how, where=where, **brought)
            assert joined.columns == own[how].columns
            in_python = runtime == "python" or (how != "inner" and where is conditions[2])
            (step,) = joins_of(joined)
            assert step.planned.plan.runtime == ("python" if in_python else "jvm")
            ours[how, number] = joined
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            left = bsjoin.join(
                orders, customers, "k", "left", where="limit > 5", select=["limit"], indicator="is"
            )
        told = left.where(orders["amount"] > 0).select(customers["limit"], orders["k"], "is")
        ours[runtime] = told
    wanted, found = rows_of_each(own), rows_of_each(ours)
    for runtime in ("jvm", "python"):
        assert found.pop(runtime) == [(None, 9, False), (10, 1, True), (20, 2, True)]
    assert found == {(how, number): wanted[how] for how, number in found}
    limits, called = customers.select("k", "limit"), customers.select("k", "name")
    aliased, named = limits.alias("c").join(called.alias("d"), "k"), orders.alias("o")
    wide = ", ".join(f"amount + {n}" for n in range(30))
    bsjoin.join(named, aliased, "k", "left", where="hash(o. *) = hash(k, amount, name)")
    passes = f"hash(o.*, {wide}) <> 0 AND c_name RLIKE 'a.*'"
    bsjoin.join(named, customers.withColumnRenamed("name", "c_name"), "k", "left", where=passes)
    for every in ("*", "c.*", "d. *", "o.*, c.*", f"{wide}, c.*", f"{wide}, *"):
        with pytest.raises(ArgumentError, match="Name the columns"):
            bsjoin.join(named, aliased, "k", "left", where=f"hash({every}) > 0")
    with pytest.raises(ArgumentError, match="Name the columns"):
        bsjoin.join(named, aliased, "k", "left", where=F.hash("c.*") > 0)
    for where, kind in (
        ("limt > 3", ColumnError),
        ("k IN (SELECT 1)", ArgumentError),
        ("rand() > 0.5", ArgumentError),
        ("amount", ArgumentError),
        ("sum(amount) > 1", ArgumentError),
    ):
        with pytest.raises(kind, match="where="):
            table.join(orders, how="left", where=where)


def all_kinds_of_conditions_have_the_rows_that_sql_has(spark: SparkSession, folder: Path) -> None:
    """Each with one cache and runtime, in a batch."""
    sides = conditions.made(spark, folder)
    doors = dict(zip(conditions.cases(), itertools.cycle(conditions.DOORS), strict=False))
    found = conditions.joined(sides, doors, streaming=False).collect()
    conditions.assert_same(found, conditions.rows_of_sql(spark), doors)


def so_have_they_with_each_cache_and_runtime(spark: SparkSession, folder: Path) -> None:
    """All of them with each, in a batch and in a stream."""
    sides = conditions.made(spark, folder)
    wanted = conditions.rows_of_sql(spark)
    for door in conditions.DOORS:
        doors = dict.fromkeys(conditions.cases(), door)
        found = conditions.joined(sides, doors, streaming=False).collect()
        conditions.assert_same(found, wanted, doors)
        stream, name = conditions.joined(sides, doors, streaming=True), f"connect_{door}"
        conditions.started(stream, name, folder / door)
        conditions.assert_same(spark.table(name).collect(), wanted, doors)


def char_keys_are_padded(spark: SparkSession, folder: Path) -> None:
    for number in (2, 5):
        spark.sql(
            f"CREATE TABLE chars_{number} (k CHAR({number}), n INT) USING parquet "
            f"LOCATION '{folder}/{number}'"
        )
        spark.sql(f"INSERT INTO chars_{number} VALUES ('a', 1), ('ab', 2)")
    short, long = spark.table("chars_2"), spark.table("chars_5")
    sides = (short, long), (long, short)
    own = [stream.join(table, "k") for stream, table in sides]
    ours = [bsjoin.join(stream, table, "k", select=["n"]) for stream, table in sides]
    found = rows_of_each(dict(enumerate([*own, *ours])))
    assert (found[0], found[1]) == (found[2], found[3])
    assert (len(found[2]), len(found[3])) == (2, 2)
    for number in (2, 5):
        spark.sql(f"DROP TABLE chars_{number}")


def parquet_is_read_with_the_sessions_settings(spark: SparkSession, folder: Path) -> None:
    """By a source that is queried, and by one that is read whole."""
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
        results = {"own": own}
        for cache in (Incremental(max_rows=9), Full()):
            ours = bsjoin.join(spark.range(2).toDF("k"), source, "k", cache=cache)
            assert ours.schema.simpleString() == own.schema.simpleString()
            results[type(cache).__name__] = ours
        own_rows, *found = rows_of_each(results).values()
        assert found == [own_rows] * 2
        assert len(own_rows) == 1


def a_selection_between_joins_begins_a_stage(spark: SparkSession, folder: Path) -> None:
    table = BatchTable.build(table_of(spark, 1).selectExpr("k", "k + 1 AS v"), on="k")
    reason = "under Spark Connect a selection between joins begins a new stage"
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        first = table.join(spark.range(3).toDF("k"))
        direct = table.join(first, {"v": "k"}, suffix="_2")
        derived = table.join(first.withColumnRenamed("v", "w").select("w").alias("a"), {"w": "k"})
        filtered = table.join(first.where("k > 0"), {"v": "k"}, suffix="_2")
    found = [[step.apart for step in joins_of(df)][1] for df in (direct, derived, filtered)]
    assert found == ["", reason, "between them is Filter"]
    assert rows(derived) == [(1, 2), (2, 3), (3, 4)]


def references_hold_as_after_sparks_own_join(spark: SparkSession, folder: Path) -> None:
    every = Sides.of(spark)
    some = every.streams
    sides = replace(every, streams={"": some["one replaced"]})
    chained = {"spark.bsjoin.runtime": "python", "spark.bsjoin.python.transfer": "rows"}
    with configured(spark, chained):
        assert differences(sides, {"a chain": lambda one: sides.ours(one, two=True)}) == []
    sides = replace(every, streams={"": some["joined"]})
    assert differences(sides, {"range": asof(sides)}) == []
    stream = some["one replaced"]
    first, last = sides.ours(stream, two=True)
    used = last.where(stream["amount"] > 20).select(
        stream["amount"], "o.k", first["name"], last["price"], sides.raw["x"]
    )
    assert rows(used) == [(40, 2, "b", 6, 3.0)]


def references_to_the_table_hold_as_after_sparks_own_join(
    spark: SparkSession, folder: Path
) -> None:
    """But for a column with another name, which is an error, as is the table's key."""
    for first, runtime, name in (
        (1, "jvm", "an alias, and other names"),
        (0, "python", "the first of a chain"),
    ):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            kinds = table_kinds(spark, folder, name)
            found = table_differences(kinds, {}, renamed_are_refused=True, first=first)
            assert found == []
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
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    joins = []
    for runtime in ("jvm", "python"):
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            joins.append(table.join(spark.range(3).toDF("k")))
    for file in files(folder / "t" / "data"):
        file.write_bytes(file.read_bytes()[:100])
    for joined in joins:
        with pytest.raises(PySparkException) as error:
            joined.collect()
        assert type(cause_of(error.value)) is DamagedTableError


def a_query_keeps_its_columns_and_its_age(spark: SparkSession, folder: Path) -> None:
    feed = Feed(spark, folder)
    feed.add(1)
    BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    table = BatchTable.open(folder / "t", max_staleness="1 hour")
    query = table.join(feed.stream).writeStream.format("memory").queryName("connect_keeps").start()
    query.processAllAvailable()
    users = r"running queries \(connect_keeps\) use the columns \['v'\]"
    with pytest.raises(TableMismatchError, match=users):
        BatchTable.build(spark.range(4).withColumnRenamed("id", "k"), on="k", path=folder / "t")
    assert table.refresh(table_of(spark, 2).selectExpr("*", "'new' AS more")) == 2
    (cycle,) = (cycle for cycle in bsjoin.progress(query) if cycle.rows_in)
    assert cycle.refresh.last_success is not None
    (manifest,) = (folder / "t" / "versions").glob("*2.json")  # not read by any task yet
    aged = manifest.read_text().replace('"build_s": 0', '"build_s": 9000')
    manifest.write_text(re.sub(r'"build_s": [1-9]', '"build_s": 9000', aged))
    feed.add(1)
    with pytest.raises(Exception, match="StaleTableError"):
        query.processAllAvailable()
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
    time.sleep(1)
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
    found = [identity(df).fingerprint for df in known]
    assert None not in found
    assert len(set(found)) == len(known)
    again = spark.read.parquet(str(folder / "files"))
    assert identity(again.where(F.col("v") == "a")).fingerprint == found[2]
    assert identity(files).fingerprint == found[0]
    with pytest.MonkeyPatch.context() as patch:  # the server is elsewhere, and so are its files
        patch.setattr("bsjoin.spark.connect_plan._is_here", lambda _: False)
        assert identity(files).fingerprint is None
    unknown = [files.where("k < 9"), files.where(F.rand() < 2), spark.table("named")]
    assert {identity(df).fingerprint for df in [*unknown, spark.sql("SELECT * FROM named")]} == {
        None
    }
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
    """It is read again, where its source has changed, while the stream runs."""
    feed, files = Feed(spark, folder), folder / "source"
    stream = feed.stream  # one source for both joins
    feed.add(1, 2, None, 9)
    write_parquet(files / "0.parquet", k=pa.array([0, 1, 2, 3]), v=[1] * 4)
    batch = spark.read.schema("k long, v long").parquet(str(files))
    table = BatchTable.build(batch, on="k", path=folder / "t")
    assert (table.refresh(batch), table.version) == (1, 1)  # nothing has changed
    joins = (table.join(stream, how=how).select("k") for how in ("left", "semi"))
    writer = reduce(DataFrame.union, joins).writeStream.format("memory")
    query = writer.queryName("connect_follows").start()
    try:
        query.processAllAvailable()
        table.start_refreshing(batch, "100 ms")
        write_parquet(files / "0.parquet", k=pa.array([0, 1, 2, 3, 0, 1]), v=[2] * 4 + [3] * 2)
        soon(lambda: table.version, 2)
        table.stop_refreshing()
        # The last micro-batch used version 1; a replay of it would need that again.
        assert table.vacuum(older_than=0) == []
        time.sleep(0.3)  # a version is to be seen 0.1 s before it is used
        feed.add(1, 2)
        query.processAllAvailable()
        figures = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        found = [(c.rows_in, c.hits, c.misses, c.matches, c.rows_out) for c in figures]
        assert found == [
            (4, 2, 2, 2, 4),
            (4, 2, 2, 2, 2),
            (2, 2, 0, 3, 3),
            (2, 2, 0, 2, 2),
        ]
        assert [cycle.table_version for cycle in figures] == [1, 1, 2, 2]
        assert spark.table("connect_follows").count() == sum(c.rows_out for c in figures)
    finally:
        table.stop_refreshing()
        query.stop()
        for thread in threading.enumerate():
            if thread.name.startswith("bsjoin-refresh"):
                thread.join(timeout=30)


def a_stream_follows_each_commit(spark: SparkSession, folder: Path) -> None:
    """By a query that tells the version of a DataFrame, and of a source by the source itself."""
    number, files, lake = folder / "number", folder / "files", str(folder / "lake")
    number.write_text("1\n")
    write_parquet(files / "0.parquet", k=[1], v=["a"])
    deltalake.write_deltalake(lake, pa.table({"k": [1, 2], "w": ["x", "y"]}))
    spark.read.schema("batch long").csv(str(number)).createOrReplaceTempView("loads")
    (folder / "in").mkdir()
    joined = spark.readStream.schema("k long, n long").parquet(str(folder / "in"))
    for table, version in (
        (spark.read.schema("k long, v string").parquet(str(files)), "SELECT max(batch) FROM loads"),
        (sources.delta(lake), None),
    ):
        cache = Full(refresh="on_commit", version=version)
        joined = bsjoin.join(joined, table, "k", how="left", cache=cache)
    query = joined.writeStream.format("memory").queryName("connect_commits").start()
    places = itertools.count()

    def last() -> list[Any]:
        n = next(places)
        write_stream_file(folder / "in", n, k=[1, 2], n=[n, n])
        query.processAllAvailable()
        return rows(spark.table("connect_commits").where(f"n = {n}").select("k", "v", "w"))

    assert last() == [(1, "a", "x"), (2, None, "y")]
    write_parquet(files / "0.parquet", k=[1, 2], v=["b", "c"])
    number.write_text("2\n")
    deltalake.write_deltalake(lake, pa.table({"k": [2], "w": ["z"]}), mode="append")
    soon(last, [(1, "b", "x"), (2, "c", "y"), (2, "c", "z")])
    refreshes = [cycle.refresh for cycle in bsjoin.progress(query)[-2:]]
    assert [(one.applied, one.read_whole) for one in refreshes if one] == [(0, 1), (1, 0)]


def the_doctor_looks_at_a_session_of_connect(spark: SparkSession, folder: Path) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert commands.main(["doctor", "--json"]) == 0, printed.getvalue()
    found = {one["what"]: (one["state"], one["found"]) for one in json.loads(printed.getvalue())}
    assert found["session"] == ("ok", f"Spark {spark.version}, local[2]"), found
    assert {found[what][0] for what in ("jar", "planner", "workers")} == {"ok"}, found


def late_rows_of_kafka_are_routed_and_counted(spark: SparkSession, folder: Path) -> None:
    test_kafka_route.cases(spark).write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(test_kafka_route.SCHEMA).parquet(str(folder / "in"))
    writer = test_kafka_route.routed(stream).writeStream.format("memory")
    listener = monitoring.ProgressLog()
    spark.streams.addListener(listener)
    query = writer.queryName("connect_routed").start()
    query.processAllAvailable()
    counted: Counter[str] = Counter()
    for batch in bsjoin.kafka.progress(query):
        assert (batch.topic, batch.waiting_now) == ("out", None), batch
        counted.update({name: getattr(batch, name) for name in test_kafka_route.counted()})
    query.stop()
    assert counted == test_kafka_route.counted()
    soon(
        lambda: {
            one.attributes["outcome"]: one.value
            for one in listener.totals.samples()
            if one.name == "bsjoin_kafka_routed_rows_total"
        },
        dict(counted),
    )
    spark.streams.removeListener(listener)
    test_kafka_route.assert_routed(spark.table("connect_routed").collect())


def a_stream_queries_a_database_and_is_watched(spark: SparkSession, folder: Path) -> None:
    """The log, OpenTelemetry and the page show what progress counts, of a query that runs."""
    told: list[str] = []
    logger = logging.getLogger("checks.told")
    logger.setLevel(logging.INFO)
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    reader = InMemoryMetricReader()
    telemetry = monitoring.OpenTelemetryListener(MeterProvider([reader]))
    listeners = [telemetry, monitoring.ProgressLog(every=0.1, logger=logger)]

    def exported() -> dict[str, float]:
        data = reader.get_metrics_data()
        scopes = [one for of in (data.resource_metrics if data else ()) for one in of.scope_metrics]
        found = [metric for scope in scopes for metric in scope.metrics if metric.data.data_points]
        return {one.name: one.data.data_points[0].value for one in found}  # type: ignore[union-attr]

    source = sources.sql(database_of_planes(folder), table="planes")
    feed = Feed(spark, folder)
    feed.add(1, 2, 2, None, 99)
    cache = Incremental(max_rows=100, warm_up=[1, 3])
    joined = bsjoin.join(feed.stream, source, {"k": "id"}, how="left", cache=cache, select=["name"])
    for one in listeners:
        spark.streams.addListener(one)
    query = joined.writeStream.format("memory").queryName("connect_asks").start()
    try:
        query.processAllAvailable()
        with bsjoin.dashboard(query) as page:
            with urlopen(f"{page.url}metrics") as answer:
                text = answer.read().decode()
            with urlopen(f"{page.url}data.json") as answer:
                (shown,) = json.loads(answer.read())["queries"]
        (rows_in,) = re.findall(r'bsjoin_input_rows_total\{query="connect_asks",.*\} (\d+)', text)
        assert int(rows_in) == 5
        assert (shown["state"], shown["joins"][0]["history"][0]["hit"]) == ("running", 0.6)
        in_sqlite(folder / "planes.db", "UPDATE planes SET name = 'new'")
        source.invalidate([2])
        feed.add(1, 2, 3, 99)
        query.processAllAvailable()
        found = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        assert [(c.rows_in, c.rows_out, c.hits) for c in found] == [(5, 5, 3), (4, 4, 3)]
        caches = [cycle.cache for cycle in found if cycle.cache]
        counts = [(c.hits, c.negative_hits, c.misses, c.keys_queried) for c in caches]
        assert counts == [(1, 0, 3, 2), (2, 1, 1, 1)]
        first = [(1, "plane 1"), (2, "plane 2"), (2, "plane 2"), (None, None), (99, None)]
        second = [(1, "plane 1"), (2, "new"), (3, "plane 3"), (99, None)]
        assert Counter(map(tuple, spark.table("connect_asks").collect())) == Counter(first + second)
    finally:
        query.stop()
    soon(lambda: exported().get("bsjoin_input_rows"), 9)
    assert exported()["bsjoin_hit_rows"] == 6
    soon(lambda: sum(int(n) for line in told for n in re.findall(r"on k: (\d+) rows", line)), 9)
    assert all(line.startswith("bsjoin: query connect_asks: ") for line in told)
    for one in listeners:
        spark.streams.removeListener(one)
    telemetry.close()


def a_skewed_stream_is_steered(spark: SparkSession, folder: Path) -> None:
    table = spark.range(400).selectExpr("id AS k", "id AS v")
    feed = Feed(spark, folder)
    for number in range(2):
        feed.add(*range(number, 300), *[7] * 300, None)
    options = bsjoin.HotSpot(partitions=3, min_cycles=1, smoothing=0.0)
    for given in (table, bsjoin.BatchTable.build(table, on="k")):
        with pytest.raises(ArgumentError, match="runs on the server"):
            bsjoin.cycles(given, "k", partition=options, sink=print)
    routed = bsjoin.join(feed.stream, table, "k", partition=options)
    query = routed.writeStream.format("memory").queryName("routed").start()
    query.processAllAvailable()
    told = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
    assert [cycle.rows_in for cycle in told] == [601, 600]
    first = told[0].partition
    assert (first.kind, first.rule_version, sum(first.rows)) == ("hotspot", 0, 601)
    assert spark.table("routed").count() == 600 + 599


def errors_come_at_the_call(spark: SparkSession, folder: Path) -> None:
    stream, batch = table_of(spark, 1), table_of(spark, 2)
    with pytest.raises(bsjoin.errors.ColumnError, match="'kk'"):
        bsjoin.join(stream, batch, on="kk")
    with pytest.raises(ArgumentError, match="stream-stream join"):
        bsjoin.join(stream, spark.readStream.format("rate").load(), on={"k": "value"})
    with pytest.raises(ArgumentError, match=r"Connect does not show what .* version="):
        bsjoin.join(stream, batch, on="k", cache=Full(refresh="on_commit"))
    with pytest.raises(bsjoin.errors.DuplicateKeyError, match="k=1"):
        BatchTable.build(batch.union(batch.where("k = 1")), on="k", unique=True)
    with pytest.raises(bsjoin.errors.ColumnError, match="'v'"):
        bsjoin.join(stream, batch.selectExpr("k", "parse_json('1') AS v"), on="k", suffix="_b")
    (folder / "file").write_text("mine")
    with pytest.raises(bsjoin.errors.StoreAccessError):
        BatchTable.build(batch, on="k", path=folder / "file" / "t")
    table = BatchTable.build(batch, on="k", path=folder / "t")
    waiting = table.join(stream)
    assert table.refresh(table_of(spark, 3, keys=5)) == 2
    assert [version.rows for version in table.versions()] == [4, 5]
    assert table.vacuum(older_than=0) == [1]
    with pytest.raises(Exception, match="VersionNotFoundError"):
        waiting.collect()


def the_python_of_the_workers_is_checked_and_copies_remote_tables(
    spark: SparkSession, folder: Path
) -> None:
    setting, absent = "spark.sql.execution.pyspark.python", str(folder / "python")
    table = BatchTable.build(table_of(spark, 1), on="k", path=f"local://{folder}/table")
    stream = spark.range(3, 5).withColumnRenamed("id", "k")
    assert spark in workers._checked
    assert "BsjoinLookup" not in table.join(stream)._explain_string()  # type: ignore[operator]
    checked = workers._checked.copy()
    workers._checked.clear()
    try:
        spark.conf.set(setting, absent)
        with pytest.raises(bsjoin.errors.WorkerEnvironmentError, match=absent) as raised:
            table.refresh(table_of(spark, 2))
        assert "environment in which the Connect server is started" in str(raised.value)
        spark.conf.unset(setting)
        with pytest.MonkeyPatch.context() as patch:  # a newcomer's session, with no setting
            patch.delenv("PYSPARK_PYTHON")
            table.refresh(table_of(spark, 2))
        assert spark.conf.get(setting) == sys.executable
        joined = table.join(stream, how="left")
        assert "BsjoinLookup" in joined._explain_string()  # type: ignore[operator]
        assert rows(joined) == [(3, 2), (4, None)]
    finally:
        spark.conf.unset(setting)
        workers._checked |= checked


def stored_tables_are_tables_of_the_catalog(spark: SparkSession, folder: Path) -> None:
    """Plain joins with them have figures: of a stream; and of two runs of it, which do not mix."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "table")
    table.register(spark, "customers")
    keys, found, feed = spark.range(3, 5).toDF("k"), [], Feed(spark, folder)
    feed.add(1, 2, None, 9)
    customers = spark.table("bsjoin.customers")
    joined = feed.stream.join(customers, "k", "left").writeStream.format("noop")
    try:
        doors = {name: spark.table(f"bsjoin.{name}") for name in ("customers", f"`{table.path}`")}
        read = {name: keys.join(door, "k", "left") for name, door in doors.items()}
        assert rows_of_each({**read, "whole": table.to_df()}) == {
            **{name: [(3, 1), (4, None)] for name in doors},
            "whole": [(k, 1) for k in range(4)],
        }
        assert [one.name for one in spark.catalog.listTables("bsjoin")] == ["customers"]
        with pytest.raises(PySparkException, match=r"BatchTable\.build"):
            spark.sql("INSERT INTO bsjoin.customers VALUES (9, 9)")
        with pytest.raises(PySparkException) as caught:
            rows(spark.table(f"bsjoin.`{folder}`"))
        assert isinstance(cause_of(caught.value), TableNotFoundError)
        for _ in range(2):
            query = joined.option("checkpointLocation", str(feed.checkpoint)).start()
            query.processAllAvailable()
            query.stop()
            feed.add(3)
            found.append([cycle for cycle in bsjoin.progress(query) if cycle.rows_in])
    finally:
        spark.conf.unset("spark.bsjoin.table.customers")
    (first,), (second,) = found
    assert (first.table, first.on, first.rows_in, first.hits) == ("customers", ("k",), 4, 2)
    assert (second.rows_in, second.hits, second.table_version) == (1, 1, 1)
    assert first.join == second.join


def private_members_are_there_and_are_not_needed(spark: SparkSession, folder: Path) -> None:
    smoke_compat.check(spark)
    source = folder / "source"
    write_parquet(source, id=pa.array([1, 2, 3], pa.int64()), v=pa.array(["a", "b", "c"]))
    table, results = spark.read.parquet(str(source)), dict[str, DataFrame]()
    stored = BatchTable.build(table.withColumnRenamed("v", "w"), on="id")
    entries = [name for name, entry in compat.ENTRIES.items() if entry.side != "classic"]
    for name in ["", *entries]:
        with pytest.MonkeyPatch.context() as patch:
            if name:
                patch.setattr(compat, name, smoke_compat.missing)
            stream = spark.range(5).withColumn("more", F.col("id") + 1).alias("s")
            once = bsjoin.join(stream, table, on="id", how="left", cache=Full(store=folder / "t"))
            twice = stored.join(once.select("id", "v"), on="id")
            results[name] = twice.where("id > 1").select("v", "w")
            assert identity(table).fingerprint is None or name not in ("serialized", "explained")
    every = reduce(DataFrame.union, results.values())
    assert Counter(map(tuple, every.collect())) == {(v, v): len(results) for v in "bc"}


def changes_are_applied_in_foreach_batch(spark: SparkSession, folder: Path) -> None:
    """In a process of the server, where figures stay; a micro-batch that runs again counts once."""
    path = str(folder / "table")
    first = spark.sql("SELECT id AS k, id * 10 AS v FROM range(5)")
    table = BatchTable.build(first, on="k", unique=True, path=path)
    changes = {"k": pa.array([1, 7, 2], pa.int64()), "v": pa.array([11, 71, None], pa.int64())}
    write_parquet(folder / "in" / "0.parquet", **changes, op=["u", "i", "d"])
    reader = spark.readStream.schema("k long, v long, op string")

    def inside(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            BatchTable.open(path).apply(batch, batch=("changes", number))

    query = reader.parquet(str(folder / "in")).writeStream.foreachBatch(inside).start()
    query.processAllAvailable()
    assert [one.rows for one in table.versions()] == [5, 5]
    for thing in (query, query.lastProgress):
        with pytest.warns(NotReportedWarning, match="observe the result inside"):
            assert bsjoin.progress(thing) == []
    # And by the client.
    wider = spark.sql("SELECT 3L AS k, 31L AS v, 'x' AS note")
    assert table.apply(wider, merge_schema=True) == 3
    assert table.compact() == table.version
    with pytest.raises(ColumnError, match="lack the column 'v'"):
        table.apply(spark.sql("SELECT 3L AS k"))
    wanted = [(0, 0, None), (1, 11, None), (3, 31, "x"), (4, 40, None), (7, 71, None)]
    assert rows(table.join(spark.range(10).toDF("k"))) == wanted


CHECKS = named(
    joins_equal_sparks_own,
    the_joins_of_a_dataframe_are_explained,
    a_stream_follows_its_table,
    errors_come_at_the_call,
    changes_are_applied_in_foreach_batch,
    a_range_join_takes_the_width_and_the_row_that_it_says,
    all_kinds_of_conditions_have_the_rows_that_sql_has,
    reporting_checks.plain_joins_of_a_batch_query_are_counted,
)
LONG = reporting_checks.LONG | named(
    references_hold_as_after_sparks_own_join,
    references_to_the_table_hold_as_after_sparks_own_join,
    the_cause_of_a_failure_is_found,
    char_keys_are_padded,
    the_rest_of_a_condition_is_part_of_the_join,
    so_have_they_with_each_cache_and_runtime,
    a_selection_between_joins_begins_a_stage,
    a_query_keeps_its_columns_and_its_age,
    a_stream_follows_each_commit,
    ctrl_c_ends_a_build_cleanly,
    a_plan_of_names_is_known_only_where_it_is_certain,
    private_members_are_there_and_are_not_needed,
    parquet_is_read_with_the_sessions_settings,
    the_doctor_looks_at_a_session_of_connect,
    late_rows_of_kafka_are_routed_and_counted,
    a_stream_queries_a_database_and_is_watched,
    a_skewed_stream_is_steered,
    stored_tables_are_tables_of_the_catalog,
    the_python_of_the_workers_is_checked_and_copies_remote_tables,
)


if __name__ == "__main__":
    here = str(Path(__file__).with_name("connect_site"))
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ["PYTHONPATH"]])
    # As in the tests of a driver's work, nothing waits for code that Spark generates.
    settings = on_this_machine(INTERPRETED, "driver")
    # For Spark, the server takes any free port. Its JVM, which would check each plan that a rule
    # makes, has begun without that.
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = str(uuid.uuid4())
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    os.environ["SPARK_TESTING"] = "1"
    session = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
    run(LONG if "long" in sys.argv else CHECKS, session)
