"""The jobs: their data, their alternatives that answer alike, and the ratios of these."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from servers import PostgreSQL

from benchmarks.data.kept import kept, write_stream
from benchmarks.harness.outcome import Context
from benchmarks.harness.timing import check_joins
from benchmarks.jobs import comparison
from benchmarks.jobs import ways as rivals
from benchmarks.jobs.jobs import JOBS, Job, Step
from benchmarks.jobs.ways import connection, load, per_record

SIZES = {"tpc": 0.01, "traffic": 4}
USERS = pa.table({"person": [1, 1, 2, 4], "city": ["a", "b", "b", "x"]})
CITIES = pa.table({"city": ["a", "b"], "people": [10, 20]})


def _events(size: float, rows: int, cycle: int, seed: int) -> pa.Table:
    return pa.table(
        {"person": [n % 4 for n in range(rows)], "event": [cycle * 1000 + n for n in range(rows)]}
    )


SMALL = Job(
    "small",
    "person long, event long",
    (Step("users", "person", "city string", unique=False), Step("cities", "city", "people long")),
    lambda *_: {"users": USERS, "cities": CITIES},
    _events,
)


def context(folder: Path) -> Context:
    return Context(True, folder, say=lambda _: None)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.long] * (one != "traffic")) for one in JOBS],
)
def test_tables_of_a_job_have_each_key_once_and_events_find_their_rows(
    name: str, tmp_path: Path
) -> None:
    job = JOBS[name]
    folder = job.tables(tmp_path, SIZES[name])
    rows = job.events(SIZES[name], 500, 110, 1)  # past midnight on the roads
    assert rows.schema == job.arrow
    for step in job.steps:
        table = pq.read_table(folder / step.table)
        assert table.column_names == step.columns or set(step.columns) <= {*table.column_names}
        different = table.group_by(step.keys).aggregate([]).num_rows
        assert (different == table.num_rows) == step.unique
        rows = rows.join(table.select(step.columns), step.keys, join_type="inner")
        rows = rows.combine_chunks()
        assert rows.num_rows
    if name == "traffic":
        assert rows.num_rows == 500


def test_a_folder_is_made_once_a_half_made_one_anew_and_a_stream_is_in_order(
    tmp_path: Path,
) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        if len(made) == 1:
            raise OSError("no space left")
        write_stream(folder, [pa.table({"k": range(at, at + 5)}) for at in (0, 5)], 2)

    with pytest.raises(OSError, match="no space left"):
        kept(tmp_path / "new" / "files", make)
    for _ in range(2):
        folder = kept(tmp_path / "new" / "files", make)
    assert len(made) == 2
    listed = sorted(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    assert [file.stem for file in listed] == ["0000-0", "0000-1", "0001-0", "0001-1"]
    assert pq.read_table(folder)["k"].to_pylist() == list(range(10))


@pytest.mark.long
def test_all_ways_on_spark_give_the_same_rows_and_streams_run_through_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = spark.createDataFrame(_events(1, 40, 0, 1))
    names = (rivals.FULL, rivals.PYTHON, rivals.SPARK)
    with rivals.prepared(context(tmp_path), SMALL, 1, url="") as ready:
        answers: dict[str, Any] = {
            name: lambda name=name: ready.way(name)(stream) for name in names
        }
        # Of every four events one is of user 1 with two cities, one of user 2 with one.
        assert check_joins(answers, SMALL.columns) == 30
        ours = ready.way(rivals.FULL)(stream).localCheckpoint()
        files = ready.files([20, 20, 60])
        assert [len(ready.run(name, files)) for name in names] == [3] * len(names)
        assert ready.build_s > 0
        monkeypatch.setattr(rivals.harness, "add_batch_ms", lambda _: [1.0, 2.0])
        with pytest.raises(AssertionError, match="3 micro-batches were sent, 2 reported"):
            ready.run(rivals.FULL, files)
    wrong = {"bsjoin": lambda: ours, "wrong": lambda: ours.where("event <> 1")}
    with pytest.raises(AssertionError, match="wrong differ from bsjoin"):
        check_joins(wrong, SMALL.columns)
    with pytest.raises(AssertionError, match="the check would be empty"):
        check_joins({"none": lambda: ours.where("false")}, SMALL.columns)


def test_rows_with_nulls_in_other_columns_are_others(spark: SparkSession) -> None:
    values = ("1L", "NULL"), ("NULL", "1L")
    rows = {a: spark.sql(f"SELECT bigint({a}) AS a, bigint({b}) AS b") for a, b in values}
    with pytest.raises(AssertionError, match="NULL differ from 1L"):
        check_joins({name: partial(df.select, "*") for name, df in rows.items()}, ["a", "b"])


class Asked:
    """Stands for a DataFrame: gives back the function that Spark would carry out."""

    def mapInArrow(self, function: Any, schema: str) -> Any:  # noqa: N802
        return function


def test_queries_per_record_give_the_rows_of_duckdb(postgresql: PostgreSQL, tmp_path: Path) -> None:
    # The second key is of two columns, a number and a text.
    known = pa.table({"person": [1, 2], "city": ["b", "b"], "people": [3, 5]})
    job = dataclasses.replace(
        SMALL,
        steps=(SMALL.steps[0], Step("known_places", "person, city", "people long")),
        make=lambda *_: {"users": USERS, "known_places": known},
    )
    load(postgresql.url, job, job.tables(tmp_path, 1))
    connection.cache_clear()
    events, users = _events(1, 23, 0, 1), USERS  # named in the query
    query = "FROM events JOIN users USING (person) JOIN known USING (person, city)"
    right = duckdb.sql(f"SELECT {', '.join(job.columns)} {query}").to_arrow_table().to_pylist()
    assert (len(right), users.num_rows) == (12, 4)
    ask = per_record(job, postgresql.url)(Asked())
    found = pa.Table.from_batches(ask(iter(events.to_batches(max_chunksize=10))))
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, right))
    assert not list(ask(iter(())))
    assert connection.cache_info().currsize == 1
    connection("psycopg", postgresql.url).close()
    connection.cache_clear()


def test_ratios_of_a_job_are_those_of_its_ways() -> None:
    ms = {rivals.FULL: [10.0, 20.0], rivals.SPARK: [40.0, 60.0]}
    rates = {
        rivals.FULL: [1e3], rivals.SPARK: [500.0], rivals.INCREMENTAL: [800.0],
        rivals.RECORD: [100.0],
    }  # fmt: skip
    times = {"addBatch of 10 rows": ms, comparison.RATES: rates}
    found = {one.name: one for one in comparison.figures(times, "2 (Table 1)", 3.0)}
    spark = found[f"addBatch of 10 rows, {rivals.SPARK} / {rivals.FULL}"]
    assert (spark.value, spark.bound, spark.spread) == (50 / 15, 3.0, (2.0, 6.0))
    records = found[f"rows/s, {rivals.INCREMENTAL} / {rivals.RECORD}"]
    assert (records.value, records.bound, records.paper) == (8.0, 1.0, "2 (Table 1)")
    assert records.spread is None
    assert comparison.ratio("", [4.0, 6.0, 8.0], [2.0]).spread == (2.0, 4.0), "all of them count"
