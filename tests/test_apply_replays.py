"""What runs again after a failure: micro-batches over applied changes, and streams of changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracle import united
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles, table_of

from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("without_code", "soon_active")

RUNTIMES = ("jvm", "python")


def changes(spark: SparkSession, *rows: tuple[int, int | None, str]) -> DataFrame:
    return spark.createDataFrame(rows, "k long, v int, op string")


def joined(table: BatchTable, stream: DataFrame) -> DataFrame:
    """The rows of a join in both runtimes, each with the name of its own."""
    found = []
    for runtime in RUNTIMES:
        with configured(stream.sparkSession, {"spark.bsjoin.runtime": runtime}):
            found.append(table.join(stream, how="left").select(F.lit(runtime), "*"))
    return united(found)


def in_both(*rows: tuple[int, int | None]) -> list[tuple[str, int, int | None]]:
    return [(runtime, *row) for runtime in RUNTIMES for row in rows]


def test_a_micro_batch_that_runs_again_has_the_layers_that_it_had(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    query = feed.start(joined(table, feed.stream))

    def arrives() -> None:
        feed.turn(query, 0, 1, 7)

    arrives()
    table.apply(changes(spark, (1, 10, "u"), (7, 70, "c")), key="k")
    arrives()
    table.apply(changes(spark, (0, None, "d"), (7, 71, "u")))
    arrives()
    query.stop()
    assert feed.results == {
        0: in_both((0, 1), (1, 1), (7, None)),
        1: in_both((0, 1), (1, 10), (7, 70)),
        2: in_both((0, None), (1, 10), (7, 71)),
    }
    # The application dies before it commits a micro-batch; meanwhile the layers grow, and then
    # become a base of their own. Of the versions before, none is needed by a query that runs.
    for number, value in ((2, 72), (3, 73)):
        had = feed.results[number]
        assert feed.forget_last_commit() == number
        table.apply(changes(spark, (0, value, "c"), (1, None, "d"), (7, value, "u")))
        if number == 3:
            table.compact()
            table.vacuum(keep=4, older_than=0)
        feed.results.clear()
        query = feed.start(joined(BatchTable.open(table.path), feed.stream))
        arrives()
        query.stop()
        newest = in_both((0, value), (1, None), (7, value))
        assert feed.results == {number: had, number + 1: newest}
        versions: dict[int, list[int]] = {}
        for cycle in cycles(query):
            versions.setdefault(cycle.batch_id, []).append(cycle.table_version)
        (first, *again), (second, *others) = versions.values()
        assert (again, others) == ([first], [second])
        assert first < second


def test_a_stream_of_changes_that_runs_again_is_applied_once(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """To a table behind a URL; other tests change local ones."""
    url = f"local://{tmp_path}/table"
    table = BatchTable.build(table_of(spark, 1), on="k", unique=True, path=url)
    (log := tmp_path / "log").mkdir()

    def record(lsn: int, op: str, k: int, v: int) -> str:
        row = {"k": k, "v": v}
        before, after = (row, None) if op == "d" else (None, row)
        return json.dumps({"before": before, "after": after, "op": op, "source": {"lsn": lsn}})

    def write(number: int, *records: str) -> None:
        (hidden := log / f".{number}").write_text("\n".join(records))
        hidden.rename(log / f"{number}.json")

    row = "struct<k: long, v: int>"
    schema = f"before {row}, after {row}, op string, source struct<lsn: long>"
    published: list[int] = []

    def upsert(rows: DataFrame, number: int) -> None:
        order = {"key": "k", "sequence": "source.lsn", "batch": ("log", number)}
        for _ in range(2):  # what failed behind it is tried again
            published.append(table.apply(rows, **order))

    def run() -> None:
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(log))
        writer = stream.writeStream.foreachBatch(upsert).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(feed.checkpoint)).start()
        query.awaitTermination()

    write(0, record(5, "u", 1, 15), record(4, "u", 1, 14), record(6, "c", 9, 16))
    run()
    write(1, record(7, "d", 0, 1), record(9, "u", 9, 19), record(8, "d", 9, 16))
    run()
    wanted = [(1, 15), (2, 1), (3, 1), (9, 19)]
    assert feed.forget_last_commit() == 1
    run()
    assert sorted(map(tuple, table.to_df().collect())) == wanted
    assert published == [2, 2, 3, 3, 3, 3]
