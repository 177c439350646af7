"""What :mod:`connect_checks` runs of reports from the server, in a process of its own."""

from __future__ import annotations

import uuid
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from checks_apart import named
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sessions import configured
from spark_samples import Feed, table_of, write_parquet

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import ArgumentError, NotReportedWarning
from bsjoin.metrics import reports


def a_function_reports_from_the_server(spark: SparkSession, folder: Path) -> None:
    """What a loop counts; by the query it is in, with the joins before it, and no others."""
    right = {1: ["a"], 2: ["b", "c"]}
    pairs = [(k, w) for k, some in right.items() for w in some]
    write_parquet(
        folder / "table" / "0.parquet", k=pa.array([k for k, _ in pairs]), w=[w for _, w in pairs]
    )
    path, files, told = str(folder / "t"), str(folder / "table"), folder / "told"
    table = BatchTable.build(table_of(spark, 1), on="k", path=path)
    batches: list[list[int | None]] = [[1, 2, None], [2, 9, None, 2, 1]]

    @bsjoin.reporting
    def inside(batch: DataFrame, number: int) -> None:
        import threading

        import bsjoin.build.storing as storing

        builds = vars(storing).setdefault("builds_of_a_test", [])
        if not builds:
            build = storing.build
            storing.build = lambda *given: builds.append(given) or build(*given)
        right = batch.sparkSession.read.schema("k long, w string").parquet(files)
        joins = [
            BatchTable.open(path).join(batch.select("k"), how="left"),
            bsjoin.join(batch.select("k"), right, "k"),
        ]
        thread = threading.Thread(target=joins[0].collect)
        thread.start()
        thread.join()
        joins[1].collect()
        joins[0].select("k").join(right, "k")  # nothing uses it
        with told.open("a") as file:
            file.write(f"{len(builds)} ")

    def start(name: str, mark: int) -> Any:
        feed = Feed(spark, folder / name)
        for keys in batches:
            feed.add(*keys, *[0] * mark)
        return feed.call(inside, table.join(feed.stream, how="left"))

    queries = {}
    try:
        for mark, runtime in enumerate(("jvm", "python"), 1):
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                queries[mark] = start(runtime, mark)
        for query in queries.values():
            query.processAllAvailable()
    finally:
        for query in queries.values():
            query.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotReportedWarning)
        found = {mark: bsjoin.progress(query) for mark, query in queries.items()}
        # Where the function tells nothing, the joins before it are there all the same.
        spark.range(3).createOrReplaceTempView(view_of(queries[1]))
        assert len(bsjoin.progress(queries[1])) == len(batches)
    assert told.read_text().split() == ["1"] * 4  # the private table is used again
    for mark, cycles in found.items():
        assert len(cycles) == 3 * len(batches)
        for number, keys in enumerate(batches):
            before, *others = [cycle for cycle in cycles if cycle.batch_id == number]
            size, matches = len(keys) + mark, sum(len(right.get(key or 0, ())) for key in keys)
            counted = [(cycle.rows_in, cycle.rows_out) for cycle in (before, *others)]
            assert counted == [(size, size), (size, size), (size, matches)]
            assert {cycle.runtime for cycle in others} == {("jvm", "python")[mark - 1]}
            assert {cycle.timestamp for cycle in others} == {before.timestamp}
        assert len({cycle.join for cycle in cycles}) == 3
    numbers = [{cycle.join for cycle in cycles} for cycles in found.values()]
    assert not numbers[0] & numbers[1]


def view_of(query: Any) -> str:
    """Where the reports of a run are."""
    return f"bsjoin_report_{query.runId.replace('-', '')}"


def what_failed_is_not_reported_and_a_restart_is(spark: SparkSession, folder: Path) -> None:
    path, fails = str(folder / "t"), folder / "fails"
    BatchTable.build(table_of(spark, 1), on="k", path=path)
    feed = Feed(spark, folder)
    for keys in ([1, 2], [3], [4, 5]):
        feed.add(*keys)

    def inside(batch: DataFrame, number: int) -> None:
        joined = BatchTable.open(path).join(batch, how="left")
        if number < 2:
            joined.collect()
        if number == 1 and fails.exists():
            raise RuntimeError("on purpose")

    def run(error: str = "") -> tuple[Any, list[tuple[int, int]]]:
        query = feed.call(bsjoin.reporting(inside))
        try:
            with pytest.raises(PySparkException, match=error) if error else nullcontext():
                query.processAllAvailable()
        finally:
            query.stop()
        return query, [(cycle.batch_id, cycle.rows_in) for cycle in bsjoin.progress(query)]

    with warnings.catch_warnings():
        warnings.simplefilter("error", NotReportedWarning)
        fails.touch()
        first, figures = run(error="on purpose")
        assert figures == [(0, 2)]
        fails.unlink()
        again, figures = run()
        assert figures == [(1, 1)]
        assert bsjoin.progress(again.lastProgress) == []  # that one has joined nothing
        assert [cycle.rows_in for cycle in bsjoin.progress(first)] == [2]
    # What is in the view is not trusted.
    name = view_of(first)
    (good,) = spark.table(name).collect()
    changed = good.report.replace('"rows_in":2', '"rows_in":"2"')
    for report in ("", "[1]", "{}", "[" * 100_000, changed, good.report[:-1]):
        spark.createDataFrame([(0, report)], spark.table(name).schema).createOrReplaceTempView(name)
        with pytest.warns(NotReportedWarning):
            assert bsjoin.progress(first) == []
    spark.range(3).createOrReplaceTempView(name)
    with pytest.warns(NotReportedWarning):
        assert bsjoin.progress(first) == []


def reports_do_not_pile_up(spark: SparkSession, folder: Path) -> None:
    runs = ["no id", *(str(uuid.UUID(int=number)) for number in range(5))]
    with mock.patch.object(reports, "_KEPT", 3):
        for number, run in enumerate(runs):
            reports.claim(spark, run)
            assert reports.claimed(spark)[-1] == run
            if number:
                reports.write(spark, run, {number: "[]", 7: "[]"})
    assert reports.claimed(spark) == runs[-3:]
    kept = [reports.read(SimpleNamespace(), run) for run in runs[1:]]
    assert kept == [{}, {}, *({number: "[]", 7: "[]"} for number in (3, 4, 5))]


def a_table_is_refreshed_in_the_server(spark: SparkSession, folder: Path) -> None:
    """Its session may be a copy, which lists no query; the process ends with its query.

    Plain joins in there are counted, too.
    """
    files, found = str(folder / "table"), folder / "found"
    write_parquet(folder / "table" / "0.parquet", k=pa.array([1]), v=["old"])
    BatchTable.build(table_of(spark, 1), on="k", path=folder / "t").register(spark, "counted")

    @bsjoin.reporting
    def inside(batch: DataFrame, number: int) -> None:
        import time

        from bsjoin.spark.session import needed_since_us

        right = batch.sparkSession.read.schema("k long, v string").parquet(files)
        if number:
            write_parquet(Path(files) / "0.parquet", k=pa.array([1]), v=["new"])
        else:
            batch.join(batch.sparkSession.table("bsjoin.counted"), "k", "left").collect()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            joined = bsjoin.join(batch, right, "k", cache=Full(refresh="100 ms")).collect()
            if [row.v for row in joined] == ["new" if number else "old"]:
                break
        with found.open("a") as file:
            file.write(f"{joined[0].v} {needed_since_us() is None} ")

    feed = Feed(spark, folder)
    for keys in ([1, 2, None, 9], [1]):
        feed.add(*keys)
    try:
        query = feed.call(inside)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    finally:
        spark.conf.unset("spark.bsjoin.table.counted")
    assert found.read_text() == "old False new False "
    (plain,) = [cycle for cycle in bsjoin.progress(query) if cycle.table == "counted"]
    assert (plain.batch_id, plain.rows_in, plain.hits) == (0, 4, 2)


def plain_joins_of_a_batch_query_are_counted(spark: SparkSession, folder: Path) -> None:
    """In what Spark says of it."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    rows = spark.sql("SELECT * FROM VALUES (1L), (2L), (NULL), (9L) AS t(k)")
    joined = rows.join(spark.table(f"bsjoin.`{table.path}`"), "k", "left")
    joined.collect()
    with pytest.raises(ArgumentError, match="executionInfo"):
        bsjoin.progress(joined)
    _, nodes = joined.executionInfo.metrics.extract_graph()
    (operator,) = (node for node in nodes.values() if node.name == "BsjoinLookup")
    counted = {one.name: one.value for one in operator.metrics}
    assert (counted["rowsIn"], counted["matchedRows"]) == (4, 2)


LONG = named(
    a_function_reports_from_the_server,
    what_failed_is_not_reported_and_a_restart_is,
    reports_do_not_pile_up,
    a_table_is_refreshed_in_the_server,
)
