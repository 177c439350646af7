"""What :mod:`connect_checks` runs of reports from the server, in a process of its own."""

from __future__ import annotations

import ast
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
from spark_samples import table_of, write_parquet

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import ArgumentError, NotReportedWarning
from bsjoin.metrics import reports


def a_function_reports_from_the_server(spark: SparkSession, folder: Path) -> None:
    """As much as Spark counts; by the query it is in, with the joins before it, and no others."""
    write_parquet(folder / "table" / "0.parquet", k=pa.array([1, 2, 2]), w=["a", "b", "c"])
    path, files, told = str(folder / "t"), str(folder / "table"), folder / "told"
    table = BatchTable.build(table_of(spark, 1), on="k", path=path)

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
        own = [batch.count()] * 2, [batch.count(), batch.join(right, "k").count()]
        line = [batch.where("k = 0").count(), number, *own, len(builds)]
        with told.open("a") as file:
            file.write(f"{line}\n")

    def start(name: str, mark: int, keys: list[list[int | None]]) -> Any:
        for i, some in enumerate(keys):
            rows_of = pa.array([*some, *[0] * mark], pa.int64())
            write_parquet(folder / name / f"{i}.parquet", k=rows_of)
        reader = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
        stream = reader.parquet(str(folder / name))
        writer = table.join(stream, how="left").writeStream.foreachBatch(inside)
        return writer.start()

    queries = {}
    try:
        for mark, runtime in enumerate(("jvm", "python"), 1):
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                queries[mark] = start(runtime, mark, [[1, 2, None], [2, 9, None, 2, 1], [9]])
        for query in queries.values():
            query.processAllAvailable()
    finally:
        for query in queries.values():
            query.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotReportedWarning)
        found = {mark: bsjoin.progress(query) for mark, query in queries.items()}
    counted = [ast.literal_eval(line) for line in told.read_text().splitlines()]
    for mark, cycles in found.items():
        lines = sorted(line for line in counted if line[0] == mark)
        assert [line[1] for line in lines] == [0, 1, 2]
        for _, number, rows_in, rows_out, builds in lines:
            before, *others = [cycle for cycle in cycles if cycle.batch_id == number]
            assert before.rows_in == rows_in[0]
            assert [cycle.rows_in for cycle in others] == rows_in
            assert [cycle.rows_out for cycle in others] == rows_out
            assert {cycle.runtime for cycle in others} == {("jvm", "python")[mark - 1]}
            assert {cycle.timestamp for cycle in others} == {before.timestamp}
            assert builds == 1  # the private table is used again
        assert len({cycle.join for cycle in cycles}) == 3
    numbers = [{cycle.join for cycle in cycles} for cycles in found.values()]
    assert not numbers[0] & numbers[1]


def what_failed_is_not_reported_and_a_restart_is(spark: SparkSession, folder: Path) -> None:
    path, fails, silent = str(folder / "t"), folder / "fails", folder / "silent"
    BatchTable.build(table_of(spark, 1), on="k", path=path)

    def inside(batch: DataFrame, number: int) -> None:
        joined = BatchTable.open(path).join(batch, how="left")
        if not silent.exists():
            joined.collect()
        if fails.exists():
            raise RuntimeError("on purpose")

    stream = spark.readStream.schema("k long").parquet(str(folder / "in"))
    writer = stream.writeStream.foreachBatch(bsjoin.reporting(inside))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))

    def run(*keys: int, error: str = "") -> tuple[Any, list[tuple[int, int]]]:
        if keys:
            number = len(list(folder.glob("in/*")))
            write_parquet(folder / "in" / f"{number}.parquet", k=pa.array(keys, pa.int64()))
        query = writer.start()
        try:
            with pytest.raises(PySparkException, match=error) if error else nullcontext():
                query.processAllAvailable()
        finally:
            query.stop()
        return query, [(cycle.batch_id, cycle.rows_in) for cycle in bsjoin.progress(query)]

    with warnings.catch_warnings():
        warnings.simplefilter("error", NotReportedWarning)
        first, figures = run(1, 2)
        assert figures == [(0, 2)]
        fails.touch()
        assert run(3, error="on purpose")[1] == []
        fails.unlink()
        assert run()[1] == [(1, 1)]
        silent.touch()
        assert run(4, 5)[1] == []
        assert [cycle.rows_in for cycle in bsjoin.progress(first)] == [2]
    # What is in the view is not trusted.
    name = f"bsjoin_report_{first.runId.replace('-', '')}"
    (good,) = spark.table(name).collect()
    changed = good.report.replace('"rows_in":2', '"rows_in":"2"')
    for report in ("", "[", "[1]", "{}", "[" * 100_000, changed, good.report[:-1]):
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
    """Its session may be a copy, which lists no query; the process ends with its query."""
    files, found = str(folder / "table"), folder / "found"
    write_parquet(folder / "table" / "0.parquet", k=pa.array([1]), v=["old"])

    @bsjoin.reporting
    def inside(batch: DataFrame, number: int) -> None:
        import time

        from bsjoin.spark.session import needed_since_us

        right = batch.sparkSession.read.schema("k long, v string").parquet(files)
        if number:
            write_parquet(Path(files) / "0.parquet", k=pa.array([1]), v=["new"])
        until = time.monotonic() + 60
        while time.monotonic() < until:
            joined = bsjoin.join(batch, right, "k", cache=Full(refresh="100 ms")).collect()
            if [row.v for row in joined] == ["new" if number else "old"]:
                break
        with found.open("a") as file:
            file.write(f"{joined[0].v} {needed_since_us() is None} ")

    for number in range(2):
        write_parquet(folder / "in" / f"{number}.parquet", k=pa.array([1], pa.int64()))
    reader = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
    query = reader.parquet(str(folder / "in")).writeStream.foreachBatch(inside).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert found.read_text() == "old False new False "


def plain_joins_are_counted(spark: SparkSession, folder: Path) -> None:
    """Of a function as of a stream; those of a batch query are in what Spark says of it."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    table.register(spark, "counted")
    write_parquet(folder / "in" / "0.parquet", k=pa.array([1, 2, None, 9], pa.int64()))

    @bsjoin.reporting
    def inside(batch: DataFrame, number: int) -> None:
        batch.join(batch.sparkSession.table("bsjoin.counted"), "k", "left").collect()

    try:
        stream = spark.readStream.schema("k long").parquet(str(folder / "in"))
        query = stream.writeStream.foreachBatch(inside).start()
        query.processAllAvailable()
        query.stop()
        (found,) = bsjoin.progress(query)
        assert (found.table, found.rows_in, found.hits) == ("counted", 4, 2)
        rows = spark.read.schema("k long").parquet(str(folder / "in"))
        joined = rows.join(spark.table("bsjoin.counted"), "k", "left")
        joined.collect()
        with pytest.raises(ArgumentError, match="executionInfo"):
            bsjoin.progress(joined)
        _, nodes = joined.executionInfo.metrics.extract_graph()
        (operator,) = (node for node in nodes.values() if node.name == "BsjoinLookup")
        counted = {one.name: one.value for one in operator.metrics}
        assert (counted["rowsIn"], counted["matchedRows"]) == (4, 2)
    finally:
        spark.conf.unset("spark.bsjoin.table.counted")


CHECKS = named(
    plain_joins_are_counted,
    a_function_reports_from_the_server,
    what_failed_is_not_reported_and_a_restart_is,
    reports_do_not_pile_up,
    a_table_is_refreshed_in_the_server,
)
